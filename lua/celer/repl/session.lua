--- session.lua -- an interactive session on a single node.
---
--- What is typed is numbered by lines from the start of the session, and so are
--- messages: "session:12: ..." is what stands behind the prompt "12>".
local core = require "celer.core"
local place = require "celer.place"

local M = {}

local NAME = "session"

---@class celer.session
---@field lines string[]  all that was typed, but what was given up
---@field first integer  the line that the chunk begins with
---@field person boolean  a terminal, with somebody who sees what goes wrong
local Session = {}
Session.__index = Session

-- Where entries are kept; nil where no home is known.
local function history_path()
  local state, home = os.getenv "XDG_STATE_HOME", os.getenv "HOME"
  if state and state:sub(1, 1) == "/" then return state .. "/celer/history" end
  return home and home:sub(1, 1) == "/" and home .. "/.local/state/celer/history"
end

local function complain(message)
  io.flush()
  io.stderr:write("celer: ", tostring(message), "\n")
end

-- ---- reading ----------------------------------------------------------------

-- A line; nil at the end; nil and true when it was given up.
function Session:read(number, more)
  if not self.person then return io.read() end
  return core.line_read(("%d>%s "):format(number, more and ">" or ""))
end

local function is_incomplete(message)
  return message:find("near '<eof>'$") ~= nil
end

-- How many bytes of a text were not read when it was found to be wrong.
local function unread(text)
  local at = 0
  load(function()
    at = at + 1
    return at <= #text and text:sub(at, at) or nil
  end)
  return #text - at
end

-- What is wrong with a text that is neither a statement nor an expression: that of the
-- two which it may yet become, or of which there is more before the mistake.
local function fault_of(before, statement, expression, name)
  expression = "return " .. expression
  local _, fault = loadstring(before .. statement, name)
  local _, other = loadstring(before .. expression, name)
  if other and not is_incomplete(fault)
      and (is_incomplete(other) or unread(expression) < unread(statement)) then
    return other
  end
  return fault
end

-- A line's own variables would be gone with it: a `local` that it begins with is
-- left out, so that what comes from a script works here.
local function without_local(text)
  local rest = text:match "^%s*local%s+(function[^%w_].*)$"
  if rest then return rest end
  local names = text:match "^%s*local%s+([%a_][%w_, \t]*)"
  if not names then return text end
  rest = text:match "^%s*local%s+(.*)$"
  return rest:find("^[%w_, \t]+=") and rest or names .. " = nil" .. rest:sub(#names + 1)
end

-- The text as a function of what shows values, with the lines of the session. `= x` and
-- `return x` show x, as at Lua's own prompt. An
-- expression is an argument, as a tail call would leave no line for messages; what
-- ends in a comment has the parenthesis in the next line, which some messages name.
local function compile(text, first)
  local before, name = ("\n"):rep(first - 1), "@" .. NAME
  text = text:gsub("^%s*=", "return ")
  local expression = text:match "^%s*return%s+(.*)$" or text
  for _, close in ipairs { ")", "\n)" } do
    local chunk = loadstring(before .. "(...)(" .. expression .. close, name)
    if chunk then return chunk end
  end
  local statement = without_local(text)
  local chunk = loadstring(before .. statement, name)
  if chunk then return chunk end
  return nil, fault_of(before, statement, expression, name)
end

local function add_lines(lines, text)
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
end

-- Reads lines until they make a chunk: the chunk, or nil and a message; nil alone
-- when they were given up. Whether there is more to come is in self.open.
function Session:read_chunk()
  local lines, first = self.lines, #self.lines + 1
  self.first = first
  while true do
    local line, cancelled = self:read(#lines + 1, #lines >= first)
    if not line then
      local text = table.concat(lines, "\n", first)
      self.open = cancelled
      if not cancelled and text ~= "" then return compile(text, first) end
      for i = #lines, first, -1 do lines[i] = nil end
      return nil
    end
    add_lines(lines, line)
    local text = table.concat(lines, "\n", first)
    local chunk, message = compile(text, first)
    if chunk or not is_incomplete(message) then
      if self.person and text:find "%S" then core.line_remember(text) end
      return chunk, message
    end
  end
end

-- ---- running ----------------------------------------------------------------

-- What has gone wrong beside what the line itself has raised; whether all is well.
local function look_around(raised)
  local fine, why = pcall(place.check, core.mishap())
  if not fine then complain(why) end
  local going, failure = pcall(place.check, core.recover())
  if going then return fine end
  if failure ~= raised then complain(failure) end
  complain("after that buffers and host objects are gone; variables, functions and "
    .. "kernels are still there")
  return false
end

-- Runs a chunk, or says why there is none.
function Session:attempt(chunk, message)
  local ok = chunk ~= nil or message == nil
  if chunk then ok, message = core.attempt(chunk, require("celer.repl.show").values) end
  if not ok then complain(message) end
  local fine = look_around(message)
  self.failed = self.failed or not ok or not fine
end

function Session:step()
  local chunk, message = self:read_chunk()
  require("celer.run.script").set_text(NAME, table.concat(self.lines, "\n"))
  self:attempt(chunk, message)
end

local function greet()
  local line, why = require("celer.repl.about").line()
  if line then print(line) else complain(why) end
  print "help() tells more, Ctrl-D leaves"
end

local function open_terminal(session)
  local path = history_path()
  local ok, why = core.line_open(path, function(line)
    return require("celer.repl.complete").at(line,
      table.concat(session.lines, "\n", session.first))
  end)
  if not ok then error({ message = why }, 0) end
  if not path then why = "no home folder is known" end
  if why then
    complain(("warning: what you type is not kept%s: %s"):format(
      path and " in " .. path or "", why))
  end
  greet()
end

--- Reads and runs lines until the input ends. The status is 1 when a line
--- failed and nobody was there to see it.
---@param person boolean  whether somebody types, on a terminal
---@param before? function  what runs before the first line
---@return integer status
function M.run(person, before)
  local _, ranks = core.rank()
  if ranks > 1 then
    error({ message = "a session runs on one rank, and here are " .. ranks .. "; what runs "
      .. "on several is a script: celer run FILE, celer run - for one from stdin, "
      .. "celer -e TEXT" }, 0)
  end
  jit.off() -- so that Ctrl-C reaches a running line
  celer, help = require "celer", require "celer.repl.help" -- luacheck: ignore
  local session = setmetatable({ lines = {}, first = 1, person = person, open = true,
    failed = false }, Session)
  if before then session:attempt(before) end
  if person then open_terminal(session) end
  repeat
    session.open = true
    session:step()
  until not session.open
  if person then
    core.line_close()
    io.write("\n")
  end
  require("celer.submit.queue").finish()
  return session.failed and not person and 1 or 0
end

return M
