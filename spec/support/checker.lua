-- checker.lua -- specs of what our own programs check, as ranks of an MPI job.
--
--   local checker = require("spec.support.checker")
--   checker.describe("the link", "link_check", function(check)
--     busted.it("...", function() local r = check(2, { "exchange", "--fake" }) ... end)
--   end)
local assert = require("luassert")
local busted = require("busted")
local celer = require("spec.support.celer")

local M = {}

local function can_run(program)
  local file = io.open(program)
  if file then file:close() end
  return file and celer.exec({ "mpirun", "--version" }).status == 0
end

--- Specs that are pending where the program, built beside the command, cannot run.
--- check(ranks, words, env) is what celer.exec returns.
---@param what string
---@param name string
---@param body fun(check: fun(ranks: integer, words: table, env: table?): table)
function M.describe(what, name, body)
  local program = celer.command():gsub("celer$", name)
  busted.describe(what, function()
    if not can_run(program) then
      busted.pending("needs mpirun and the program " .. name)
      return
    end
    body(function(ranks, words, env)
      return celer.exec({ "mpirun", "--oversubscribe", "-n", ranks, program, unpack(words) },
        { env = env })
    end)
  end)
end

--- For what is tried on GPUs: fails, or is `pending`, the test's own, where the program
--- says so.
function M.passes(r, pending)
  local why = r.stdout:match("^pending: (.*)\n")
  if why then
    pending(why)
  else
    assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
  end
end

return M
