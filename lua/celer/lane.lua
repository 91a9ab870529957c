--- lane.lua -- runs in a host lane: decodes what capture.lua encoded, and calls.
local buffer = require "string.buffer"
local ffi = require "ffi"
local core = require "celer.lanecore"
local types = require "celer.types"
local view = require "celer.view"

local M = {}

local decode

local function decode_function(self, index)
  local f = self.made[index]
  if f then return f end
  local entry = self.functions[index]
  f = assert(loadstring(entry.code))
  self.made[index] = f -- before its upvalues: it may capture itself
  for i = 1, entry.n or 0 do
    debug.setupvalue(f, i, decode(self, entry.up[i]))
  end
  return f
end

local function decode_global(path)
  local value = _G
  for name in path:gmatch("[^.]+") do value = value[name] end
  return value
end

function decode(self, value)
  if type(value) ~= "table" then return value end
  if value.__f then return decode_function(self, value.__f) end
  if value.__g then return decode_global(value.__g) end
  if value.__m then return require(value.__m) end
  if value.__box then return require("celer.box").new(unpack(value.__box)) end
  if value.__c then
    local ctype = types.find(value.__c).ctype
    local out = ctype()
    ffi.copy(out, value.bytes, ffi.sizeof(ctype))
    return out
  end
  if value.__view then return self.views[value.__view] end
  local out = {}
  for k, v in pairs(value.__t) do out[k] = decode(self, v) end
  return out
end

local function open(blob)
  local self = buffer.decode(blob)
  self.made, self.views = {}, {}
  for _, struct in ipairs(self.structs) do
    types.struct(struct[1], struct[2])
  end
  for name, value in pairs(self.globals) do
    rawset(_G, name, decode(self, value))
  end
  return self
end

---@class celer.part
---@field rank integer
---@field ranks integer
---@field min table<integer, integer>  this chunk, indexed from 0
---@field max table<integer, integer>
---@field global table<integer, integer>  extents of the whole range
local function make_part(call)
  local rank, ranks, a0, a1, a2, b0, b1, b2, c0, c1, c2, d0, d1, d2 =
    core.part(call)
  return {
    rank = rank,
    ranks = ranks,
    min = { [0] = a0, a1, a2 },
    max = { [0] = b0, b1, b2 },
    size = { [0] = b0 - a0, b1 - a1, b2 - a2 },
    global = { [0] = d0 - c0, d1 - c1, d2 - c2 },
  }
end

local function make_view(call, i, access)
  local r = { core.view(call, i) }
  return view.new({
    name = access.name,
    dims = access.dims,
    type = types.find(access.type),
    writable = access.writable,
  }, r[1], { unpack(r, 2, 7) }, { unpack(r, 8, 13) })
end

local plain_print = print

-- Host tasks always print; with several ranks a line says whose it is.
local function set_print(rank, ranks)
  if ranks == 1 then
    print = plain_print -- luacheck: ignore
    return
  end
  function print(...) -- luacheck: ignore
    local words = { ... }
    for i = 1, select("#", ...) do words[i] = tostring(words[i]) end
    io.stdout:write(("[%d] %s\n"):format(rank, table.concat(words, "\t")))
  end
end

--- Runs a host task over one chunk.
function M.run(blob, call)
  local self = open(blob)
  local part = make_part(call)
  set_print(part.rank, part.ranks)
  for i, access in ipairs(self.extra.accesses) do
    self.views[i] = make_view(call, i, access)
  end
  local arguments = {}
  for i = 1, self.n do arguments[i] = decode(self, self.arguments[i]) end
  decode(self, self.main)(part, unpack(arguments, 1, self.n))
  io.stdout:flush()
end

--- Fills a box with initial contents, one call per element.
function M.fill(blob, box, out)
  local self = open(blob)
  local f = decode(self, self.main)
  local ctype, dims = types.find(self.extra.type).ctype, self.extra.dims
  local a0, a1, a2, b0, b1, b2 = core.box(box)
  local p, at = ffi.cast(ffi.typeof("$ *", ctype), out), 0
  for i = a0, b0 - 1 do
    for j = a1, b1 - 1 do
      for k = a2, b2 - 1 do
        local value
        if dims == 0 then value = f()
        elseif dims == 1 then value = f(i)
        elseif dims == 2 then value = f(i, j)
        else value = f(i, j, k) end
        if value == nil then
          error(("the init function of %s returned nil for (%d, %d, %d)")
            :format(self.extra.name, i, j, k), 0)
        end
        p[at] = value
        at = at + 1
      end
    end
  end
end

return M
