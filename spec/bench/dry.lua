--- dry.lua -- dry runs for the benchmarks: what scheduling takes, per task.
---
---   local dry = require("spec.bench.dry")
---   local row = dry.compare("examples/jacobi.lua 65536 %d", 100, 1100, { ranks = 4 }, 3)
local cjson = require("cjson")
local celer = require("spec.support.celer")

local M = {}

--- The report of a dry run of a script and its arguments, as rank `as`: without, one
--- inside.
---@param command string
---@param options {ranks: integer, as: integer?, words: string[]?}
---@return table
function M.run(command, options)
  local path = os.tmpname()
  local words = { "run", "--backend", "cpu", "--devices", "1", "--advice", "off", "--dry-run",
    options.ranks, "--as-rank", options.as or math.floor(options.ranks / 4), "--report", path,
    unpack(options.words or {}) }
  for word in command:gmatch("%S+") do words[#words + 1] = word end
  local r = celer.run(words, { timeout = 600 })
  assert(r.status == 0, r.stderr)
  local file = assert(io.open(path))
  local report = cjson.decode(file:read("*a"))
  file:close()
  os.remove(path)
  return report
end

-- What a task of the second takes that the first does not have.
local function per_task(few, many)
  local n = many.tasks - few.tasks
  local function us(thread) return (many.seconds[thread] - few.seconds[thread]) / n * 1e6 end
  local function more(what) return many.messages[what] - few.messages[what] end
  local row = { tasks = n, main = us "main", scheduler = us "scheduler",
    executor = us "executor", collectives = more "collectives" / n,
    messages = (more "sent" + more "received") / n,
    instructions = (many.instructions - few.instructions) / n }
  row.all = row.main + row.scheduler + row.executor
  row.per_message = row.messages > 0 and (row.scheduler + row.executor) / row.messages or 0
  return row
end

--- What a task costs, by the difference between few steps and many: microseconds of a
--- core by thread, the least of some rounds.
---@param command string  with a %d for the steps
---@param few integer
---@param many integer
---@param options table  as M.run takes them
---@param rounds integer
---@return table
function M.compare(command, few, many, options, rounds)
  local best
  for _ = 1, rounds do
    local two = { M.run(command:format(few), options), M.run(command:format(many), options) }
    best = best or two
    for i, report in ipairs(two) do
      for thread, seconds in pairs(report.seconds) do
        best[i].seconds[thread] = math.min(best[i].seconds[thread], seconds)
      end
    end
  end
  local row = per_task(best[1], best[2])
  row.ranks = options.ranks
  return row
end

return M
