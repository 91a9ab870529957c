--- output.lua -- what the driver prints appears once, from rank 0.
local core = require "celer.core"

local M = {}

-- A writer that gives each line of one rank's output a prefix.
local function prefixer(stream, prefix)
  local fresh = true
  return function(...)
    for i = 1, select("#", ...) do
      local text = tostring((select(i, ...)))
      if fresh then text = prefix .. text end
      fresh = text:sub(-1) == "\n"
      local body = fresh and text:sub(1, -2) or text
      stream:write_plain(body:gsub("\n", "\n" .. prefix), fresh and "\n" or "")
    end
    return stream
  end
end

local function silent(stream) return function() return stream end end

--- Redirects print, io.write, io.stdout and io.stderr of this state.
---@param which "master"|"all"
function M.install(which)
  local rank, ranks = core.rank()
  if ranks == 1 or (which ~= "all" and rank == 0) then return end
  local methods = getmetatable(io.stdout).__index
  methods.write_plain = methods.write
  local make = which == "all" and prefixer or silent
  local prefix = ("[%d] "):format(rank)
  local out, err = make(io.stdout, prefix), make(io.stderr, prefix)
  function methods.write(stream, ...)
    if stream == io.stdout then return out(...) end
    if stream == io.stderr then return err(...) end
    return stream:write_plain(...)
  end
  io.write = function(...) return io.output():write(...) end -- luacheck: ignore
  print = function(...) -- luacheck: ignore
    local words = { ... }
    for i = 1, select("#", ...) do words[i] = tostring(words[i]) end
    io.stdout:write(table.concat(words, "\t"), "\n")
  end
end

return M
