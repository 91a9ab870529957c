--- output.lua -- whose print appears, and with what before it.
---
--- What the driver prints appears once, from rank 0; what host tasks print
--- appears always, and says from which rank where there are several.
local M = {}

-- A writer that puts `prefix` before each line, and each call out in one piece:
-- several Lua states share a stream.
local function prefixer(stream, prefix)
  local fresh = true
  return function(...)
    local words = { ... }
    for i = 1, select("#", ...) do words[i] = tostring(words[i]) end
    local text = table.concat(words)
    if text == "" then return stream end
    local ends = text:sub(-1) == "\n"
    local body = (ends and text:sub(1, -2) or text):gsub("\n", "\n" .. prefix)
    stream:write_plain((fresh and prefix or "") .. body .. (ends and "\n" or ""))
    fresh = ends
    return stream
  end
end

local function silent(stream) return function() return stream end end

-- Sends print, io.write, io.stdout and io.stderr of this state through writers.
local function redirect(make)
  local methods = getmetatable(io.stdout).__index
  methods.write_plain = methods.write
  local out, err = make(io.stdout), make(io.stderr)
  function methods.write(stream, ...)
    if stream == io.stdout then return out(...) end
    if stream == io.stderr then return err(...) end
    return stream:write_plain(...)
  end
  io.write = function(...) return io.output():write(...) end -- luacheck: ignore
  print = function(...) -- luacheck: ignore
    local words = { ... }
    for i = 1, select("#", ...) do words[i] = tostring(words[i]) end
    io.stdout:write(table.concat(words, "\t") .. "\n")
  end
end

--- Puts "[rank] " before each line of this state's output.
function M.prefix(rank)
  local prefix = ("[%d] "):format(rank)
  redirect(function(stream) return prefixer(stream, prefix) end)
end

--- The driver's output.
---@param which "master"|"all"
function M.install(which, rank, ranks)
  if ranks == 1 then return end
  if which == "all" then M.prefix(rank) elseif rank > 0 then redirect(silent) end
end

return M
