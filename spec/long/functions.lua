-- functions.lua -- random functions of Lua, as kernels and in the interpreter.
--
--   luajit spec/long/functions.lua [SEEDS [FROM]]
--
-- Each seed (40) is 300 functions (spec/random/functions). The last line is `N passed, N failed,
-- N skipped`.
package.path = "./?.lua;" .. package.path
local celer = require("spec.support.celer")

local seeds, from = tonumber(arg[1]) or 40, tonumber(arg[2]) or 1000
local passed, failed = 0, 0

for seed = from, from + seeds - 1 do
  local r = celer.run({ "run", "--advice", "off", "spec/random/functions/compare.lua",
    tostring(seed), "300", "50" }, { timeout = 1200 })
  local functions = r.stdout:match("(%d+) functions, %d+ refused, 0 differ, 0 leave their boxes\n$")
  if r.status == 0 and r.stderr == "" and functions then
    passed = passed + tonumber(functions)
  else
    failed = failed + 1
    print(("failed: functions of seed %d: %s"):format(seed, r.stderr))
    print(r.stdout)
  end
  io.flush()
end
print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
os.exit(failed > 0 and 1 or 0)
