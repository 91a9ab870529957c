-- functions.lua -- random functions of Lua: as kernels, by a reference evaluator and in the
-- interpreter.
--
--   luajit spec/long/functions.lua [COUNT [FIRST [PROCESSES [BACKEND]]]]
--
-- COUNT functions (12000) from number FIRST (100000) on, of spec/random/functions, by so many
-- processes at a time (1). Those on a GPU say `cuda`. Each process that ends is a line of progress.
-- The last line is `N passed, N failed, N skipped`.
package.path = "./?.lua;" .. package.path
local celer = require("spec.support.celer")

local count, first = tonumber(arg[1]) or 12000, tonumber(arg[2]) or 100000
local processes, backend = tonumber(arg[3]) or 1, arg[4] or "cpu"
local SHARE = 400 -- functions of a process

local command = ("%s run --advice off --no-sample --no-bind --backend %s "
  .. "spec/random/functions/compare.lua %%d %%d 100 2>&1"):format(celer.command(), backend)
local started, tight, boxes, bounded, undecided = os.time(), 0, 0, 0, 0
local passed, failed, running = 0, 0, {}

-- Waits for the process that was started first.
local function finish()
  local one = table.remove(running, 1)
  local text = one.pipe:read "*a"
  one.pipe:close()
  local functions, close, all = text:match("(%d+) functions, %d+ refused, 0 differ, 0 leave their "
    .. "boxes, (%d+) of (%d+) boxes are tight\n$")
  if functions then
    passed, tight, boxes = passed + functions, tight + close, boxes + all
    local near, open = text:match "(%d+) elements with floats lie within their bounds, (%d+)"
    bounded, undecided = bounded + near, undecided + open
  else
    failed = failed + 1
    print(("failed: functions from %d on:\n%s"):format(one.first, text))
  end
  print(("so far %d of %d functions have passed"):format(passed, count))
  io.flush()
end

for from = first, first + count - 1, SHARE do
  if #running == processes then finish() end
  local share = math.min(SHARE, first + count - from)
  table.insert(running, { first = from, pipe = io.popen(command:format(from, share)) })
end
while #running > 0 do finish() end
print(("%.1f functions a second; %.1f %% of %d derived boxes are tight"):format(
  passed / math.max(1, os.time() - started), 100 * tight / math.max(1, boxes), boxes))
print(("%d elements with floats lie within their bounds, %d are undecided"):format(bounded,
  undecided))
print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
os.exit(failed > 0 and 1 or 0)
