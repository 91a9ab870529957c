--- session.lua -- an interactive session.
---
--- On several ranks rank 0 reads, and all run each line (repl/ranks.lua).
---
--- What is typed is numbered by lines from the start of the session, and so are
--- messages: "session:12: ..." is what stands behind the prompt "12>".
local core = require "celer.core"
local place = require "celer.place"
local ranks = require "celer.repl.ranks"

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

-- All that was typed since the chunk began.
function Session:text() return table.concat(self.lines, "\n", self.first) end

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

-- The message of a core function that has failed, or nil.
local function fault_of_core(...)
  local fine, why = pcall(place.check, ...)
  return not fine and tostring(why) or nil
end

---@class celer.session.outcome  of a line, on a rank
---@field raised? string
---@field mishap? string  of a host task
---@field broken? string  why nothing more can be computed with what there is
---@field exit? integer  the status, where the line has called os.exit

local left -- the status that os.exit was called with

-- Runs a chunk on this rank.
---@return celer.session.outcome
local function perform(chunk)
  local ok, message = core.attempt(chunk, require("celer.repl.show").values)
  return { raised = not ok and message or nil, mishap = fault_of_core(core.mishap()),
    broken = fault_of_core(core.broken()), exit = left }
end

-- What is said of a line; `alike`: all ranks have submitted the same.
local function tell(outcomes, alike)
  local said = {}
  for _, kind in ipairs { "raised", "mishap", "broken" } do
    local message = ranks.message(outcomes, kind)
    if message and not said[message] then complain(message) end
    said[message or ""] = true
  end
  if not alike then
    complain "the line ended on some ranks before they had submitted what others had"
  end
end

-- All ranks come to the same: whether the line failed, what is given up, and whether
-- the session ends.
local function verdict_of(outcomes, alike)
  local verdict = { gives_up = not alike }
  for _, outcome in ipairs(outcomes) do
    verdict.failed = verdict.failed or outcome.raised ~= nil or outcome.mishap ~= nil
    verdict.gives_up = verdict.gives_up or outcome.broken ~= nil
    verdict.exit = verdict.exit or outcome.exit
  end
  if verdict.exit then verdict.gives_up = false end
  verdict.failed = verdict.failed or verdict.gives_up
  return verdict
end

function Session:obey(verdict)
  self.failed = self.failed or verdict.failed or false
  if verdict.gives_up then place.check(core.give_up()) end
  if verdict.exit then core.exit(verdict.exit) end
end

-- Runs a chunk, or says why there is none.
function Session:attempt(chunk, message, line)
  if not chunk then
    if message then complain(message) end
    self.failed = self.failed or message ~= nil
    return
  end
  local outcomes, alike = ranks.run(line, function() return perform(chunk) end)
  local verdict = verdict_of(outcomes, alike)
  ranks.share(verdict)
  if not verdict.exit then tell(outcomes, alike) end
  if verdict.gives_up then
    complain("after that buffers and host objects are gone; variables, functions and "
      .. "kernels are still there")
  end
  self:obey(verdict)
end

-- `exit` and `quit` alone are no variables of anybody's.
local function is_end(text)
  local word = text:match "^%s*(%a+)%s*$"
  return (word == "exit" or word == "quit") and rawget(_G, word) == nil
end

function Session:step()
  local chunk, message = self:read_chunk()
  require("celer.run.script").set_text(NAME, table.concat(self.lines, "\n"))
  if chunk and is_end(self:text()) then
    self.open = false
  else
    self:attempt(chunk, message, chunk and { text = self:text(), first = self.first })
  end
end

-- What the other ranks do: what rank 0 says.
function Session:follow(before)
  local line
  repeat
    line = ranks.take()
    if line.text then
      for i = #self.lines + 1, line.first - 1 do self.lines[i] = "" end
      add_lines(self.lines, line.text)
      require("celer.run.script").set_text(NAME, table.concat(self.lines, "\n"))
    end
    if line.files then require("celer.run.script").add(line.files) end
    if not line.leaves then
      local chunk = line.text and compile(line.text, line.first) or before
      self:obey(ranks.follow(function() return perform(chunk) end))
    end
  until line.leaves
  self.failed = line.failed
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

-- What rank 0 does.
function Session:lead(before)
  if before then self:attempt(before, nil, {}) end
  if self.person then open_terminal(self) end
  repeat
    self.open = true
    self:step()
  until not self.open
  if self.person then
    core.line_close()
    io.write("\n")
    self.failed = false
  end
  ranks.leave(self.failed)
end

--- Reads and runs lines until the input ends. The status is 1 when a line
--- failed and nobody was there to see it.
---@param person boolean  whether somebody types, on a terminal
---@param before? function  what runs before the first line
---@return integer status
function M.run(person, before)
  jit.off() -- so that Ctrl-C reaches a running line
  celer, help = require "celer", require "celer.repl.help" -- luacheck: ignore
  local session = setmetatable({ lines = {}, first = 1, person = person, open = true,
    failed = false }, Session)
  if ranks.open(function(status) left = status end) then
    session:follow(before)
  else
    session:lead(before)
  end
  require("celer.submit.queue").finish()
  return session.failed and 1 or 0
end

return M
