-- bytecode.lua -- compiles a module of celer's Lua: luajit cmake/bytecode.lua FROM TO NAME
--
-- NAME is what messages call it. Lines and names of variables stay.
local from, to, name = ...

package.path = arg[0]:gsub("[^/]*$", "") .. "../lua/?.lua"
local instructions = require "celer.host.instructions"

local source = assert(io.open(from, "rb"))
local code = assert(loadstring(source:read "*a", "=" .. name))
source:close()
instructions.keep_room(code)
local made = assert(io.open(to, "wb"))
assert(made:write(string.dump(code)))
assert(made:close())
