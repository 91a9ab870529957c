--- run.lua -- examples with particles beside the same by hand, in C, on one core, in turns.
---
---   luajit spec/bench/particles/run.lua [--repeat N] [name ...]
---
--- The C programs have the same algorithm and are compiled by the compiler of kernels, with its
--- flags; both programs have the same core (`taskset`). From the root of the tree; CELER_BUILD
--- names the build (build/release). `ratio`: C's processor time of a step over that of all of
--- celer's threads, by the least that each had in any turn; target: at least 0.8. The last line is
--- JSON.
package.path = "./?.lua;" .. package.path
local cjson = require("cjson")
local celer = require("spec.support.celer")
local compile = require("spec.bench.compile")

local here = "spec/bench/particles/"

-- Name; the arguments of the example's short run and of its long one, and the steps between; those
-- of the C program.
local benchmarks = {
  { "molecules", "12,10", "12,40", 30, { 12, 40 } },
  { "plasma", "256,2000,2", "256,2000,6", 128, { 256, 2000, 6 } },
}

local function must(argv)
  table.insert(argv, 1, "taskset")
  table.insert(argv, 2, "-c")
  table.insert(argv, 3, "1")
  local r = celer.exec(argv, { timeout = 600 })
  assert(r.status == 0, table.concat(argv, " ") .. "\n" .. r.stderr .. r.stdout)
  return cjson.decode((assert(r.stdout:match('{"seconds": [^\n]*}'), r.stdout)))
end

local repeats, names = 3, {}
for i, word in ipairs(arg) do
  if word == "--repeat" then
    repeats = tonumber(arg[i + 1])
  elseif not tonumber(word) then
    names[word] = true
  end
end

local folder = assert(io.popen("mktemp -d")):read("*l")
local rows = {}
print(("%-14s %14s %14s %8s"):format("us per step", "C", "celer", "ratio"))
for _, b in ipairs(benchmarks) do
  if names[b[1]] or next(names) == nil then
    local program = folder .. "/" .. b[1]
    compile(program, here .. b[1] .. ".c", { "-lm" })
    local c, ours = math.huge, math.huge
    for _ = 1, repeats do
      local by_hand = must { program, unpack(b[5]) }
      local mine = must { celer.command(), "run", "--backend", "cpu", "--devices", 1, "--advice",
        "off", here .. "example.lua", b[1], b[2], b[3], b[4] }
      assert(math.abs(by_hand.result / mine.result - 1) < 1e-6, b[1] .. ": the results differ")
      c, ours = math.min(c, by_hand.seconds), math.min(ours, mine.seconds)
    end
    rows[#rows + 1] = { name = b[1], c_us = c * 1e6, celer_us = ours * 1e6, ratio = c / ours,
      target = 0.8 }
    print(("%-14s %14.1f %14.1f %8.2f"):format(b[1], c * 1e6, ours * 1e6, c / ours))
  end
end
os.execute("rm -r '" .. folder .. "'")
print(cjson.encode { bench = "particles", rows = rows })
