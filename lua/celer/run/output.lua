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
    local ok, message, code = stream:write_plain((fresh and prefix or "") .. body
      .. (ends and "\n" or ""))
    fresh = ends
    return ok, message, code
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
    if out and stream == io.stdout then ok, message, code = out(...)
    elseif err and stream == io.stderr then ok, message, code = err(...)
    else ok, message, code = plain(stream, ...) end
    if ok then return stream end
    if stream == io.stdout then core.unwritten(code) end
    return nil, message, code
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
  return function(text)
    local ok, _, code = plain(out, text)
    if not ok then core.unwritten(code) end
  end
end

--- Ends with a message where not all that this process has printed could be written.
function M.check()
  local fault = core.flush()
  if fault then error({ message = fault }, 0) end
end

--- Writes a whole file.
---@param path string
---@param text string
---@return true|nil written, string? message
function M.write_file(path, text)
  local file, message = io.open(path, "w")
  if not file then return nil, message end
  local ok, why = file:write(text)
  local closed, late = file:close()
  if ok and closed then return true end
  return nil, ("%s: %s"):format(path, ok and late or why)
end

--- The driver's output.
---@param which "master"|"all"
function M.install(which, rank, ranks)
  if ranks > 1 and which == "all" then M.prefix(rank)
  elseif rank > 0 then redirect(function() return silent end)
  else redirect() end
end

return M
