--- ranks.lua -- a session on several ranks: rank 0 reads, all run each line.
---
--- Rank 0 gives all ranks the text of a line. Each runs it, and tells rank 0 how it came
--- out. Rank 0 then says what follows from that, and all do it.
local buffer = require "string.buffer"
local core = require "celer.core"
local place = require "celer.place"

local M = {}

local rank, ranks = core.rank()

-- What rank 0 gives all.
local function give(what, line)
  if ranks > 1 then place.check(core.give(buffer.encode(what), line)) end
end

--- Connects the ranks, if there are several; whether this one follows rank 0.
---@param leave fun(status: integer)  the line has called os.exit
---@return boolean follows
function M.open(leave)
  if ranks == 1 then return false end
  place.check(core.assemble())
  function os.exit(code) -- luacheck: ignore
    leave((code == nil or code == true) and 0 or code == false and 1 or tonumber(code) or 1)
    error({ message = "os.exit" }, 0)
  end
  local script = require "celer.run.script"
  if rank == 0 then give({ environment = core.environment "" })
  else script.share_environment(M.take().environment) end
  return rank > 0
end

--- What rank 0 gives next.
---@return table
function M.take() return buffer.decode(place.check(core.take())) end

-- On any rank: runs a line, and tells rank 0 of it.
local function run_here(run)
  local outcome = run()
  local failed = outcome.raised or outcome.mishap or outcome.broken
  place.check(core.tell(failed ~= nil, buffer.encode(outcome)))
end

--- On rank 0: runs a line on all ranks.
---@param line table  what the others need to run it
---@param run fun(): celer.session.outcome
---@return celer.session.outcome[] outcomes, boolean alike  whether they submitted as much
function M.run(line, run)
  if ranks == 1 then return { run() }, true end
  line.files = line.text and require("celer.run.script").beside(line.text)
  give(line, true)
  run_here(run)
  local said, alike = place.check(core.hear_all())
  for i, one in ipairs(said) do said[i] = buffer.decode(one) end
  return said, alike
end

--- On rank 0: what follows from a line.
function M.share(verdict) give(verdict) end

--- On the others: runs a line; what follows from it.
function M.follow(run)
  run_here(run)
  return M.take()
end

--- On rank 0: the session ends.
function M.leave(failed) give({ leaves = true, failed = failed }, true) end

-- A rank that another one made end says no more than that.
local function is_cut(message) return message:find "interrupted$" ~= nil end

--- The message of a line: rank 0's, unless another rank has one that says more.
---@param outcomes celer.session.outcome[]
---@param kind string  a field of them
---@return string?
function M.message(outcomes, kind)
  local first = outcomes[1][kind]
  if first and not is_cut(first) then return first end
  for i = 2, #outcomes do
    local message = outcomes[i][kind]
    if message and not is_cut(message) then
      local own = message:find("^rank %d") and "" or ("rank %d: "):format(i - 1)
      return own .. message
    end
  end
  return first
end

return M
