--- output.lua -- whose print appears, and with what before it.
---
--- What the driver prints appears once, from rank 0; what host tasks print
--- appears always, and says from which rank where there are several.
local core = require "celer.core"
local place = require "celer.place"
local words = require "celer.words"

local M = {}

-- A writer that puts `prefix` before each line, and each call out in one piece:
-- several Lua states share a stream.
local function prefixer(stream, prefix)
  local fresh = true
  return function(...)
    local text = table.concat { ... }
    if text == "" then return true end
    local ends = text:sub(-1) == "\n"
    local body = (ends and text:sub(1, -2) or text):gsub("\n", "\n" .. prefix)
    stream:write_plain((fresh and prefix or "") .. body .. (ends and "\n" or ""))
    fresh = ends
    return true
  end
end

local function silent() return true end

-- What every rank refuses, though only some of them write.
local function check(stream, ...)
  local kind = io.type(stream)
  if not kind then
    place.fail("bad argument #1 to 'write' (a file expected, got %s); call it with "
      .. "a colon: file:write(...)", words.a(stream))
  elseif kind == "closed file" then
    place.fail("attempt to use a closed file")
  end
  for i = 1, select("#", ...) do
    local kind_i = type((select(i, ...)))
    if kind_i ~= "string" and kind_i ~= "number" then
      place.fail("bad argument #%d to 'write' (string expected, got %s)", i, kind_i)
    end
  end
end

-- The progress line makes room for what is written, and waits for its end.
local function hide_progress(...)
  local n = select("#", ...)
  local last = n > 0 and tostring((select(n, ...))) or ""
  core.progress_hide(last == "" or last:sub(-1) == "\n")
end

-- In one piece: lanes print at the same time.
local function print_to_stdout(...)
  local texts = { ... }
  for i = 1, select("#", ...) do texts[i] = tostring(texts[i]) end
  io.stdout:write(table.concat(texts, "\t") .. "\n")
end

-- Sends print, io.write, io.stdout and io.stderr of this state through writers,
-- if any. Whoever writes, file:write gives the file, as in Lua 5.2: a chain must
-- not break on some ranks alone. Gives file:write as it was.
local function redirect(make)
  local methods = getmetatable(io.stdout).__index
  local plain = methods.write_plain or methods.write
  methods.write_plain = plain
  local out, err = make and make(io.stdout), make and make(io.stderr)
  function methods.write(stream, ...)
    check(stream, ...)
    local ok, message, code
    if stream == io.stdout or stream == io.stderr then hide_progress(...) end
    if out and stream == io.stdout then ok = out(...)
    elseif err and stream == io.stderr then ok = err(...)
    else ok, message, code = plain(stream, ...) end
    if not ok then return nil, message, code end
    return stream
  end
  io.write = function(...) return io.output():write(...) end -- luacheck: ignore
  print = print_to_stdout -- luacheck: ignore
  return plain
end

--- Puts "[rank] " before each line of this state's output.
function M.prefix(rank)
  local prefix = ("[%d] "):format(rank)
  redirect(function(stream) return prefixer(stream, prefix) end)
end

--- What the driver prints goes to stderr, from rank 0: stdout is for something
--- else. Gives what still writes there.
---@return fun(text: string)
function M.aside(rank)
  local out, err = io.stdout, io.stderr
  local plain = redirect(function(stream)
    if rank > 0 then return silent end
    return function(...)
      if stream == out then out:flush() end
      return stream.write_plain(err, ...)
    end
  end)
  return function(text) plain(out, text) end
end

--- The driver's output.
---@param which "master"|"all"
function M.install(which, rank, ranks)
  if ranks > 1 and which == "all" then M.prefix(rank)
  elseif rank > 0 then redirect(function() return silent end)
  else redirect() end
end

return M
