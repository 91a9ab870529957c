--- stencil.lua -- the stencil of Task Bench in celer, as stencil.c has it with MPI.
---
---   celer run spec/bench/task_bench/stencil.lua POINTS EFFORT ITERATIONS...
---
--- A step is a task of POINTS items; each reads what its neighbours and itself wrote in
--- the step before, checks it, and computes for so many iterations (work.h). The number of
--- steps follows from EFFORT, some iterations: time decides nothing, so that all ranks make
--- the same tasks. Microseconds per step, with the wait at the end: the median of some
--- repetitions, and the best, which other programs disturb least. The last line is JSON.
local celer = require "celer"
local core = require "celer.core"

local REPETITIONS = 9
local STEP = 500 -- iterations that take about as long as a step does beside them
local points, effort = tonumber(arg[1]), tonumber(arg[2])
local _, ranks = core.rank()

local file = assert(io.open("spec/bench/task_bench/work.h"))
local kernels = celer.kernel(file:read("*a") .. [[
  kernel void begin(item<1> it, out<int2, 1> at) { at(it[0]) = {0, (int)it[0]}; }

  kernel void point(item<1> it, in<int2, 1> from, out<int2, 1> to, out<double, 1> value,
                    int step, long iterations) {
    const int i = it[0], last = it.range(0) - 1;
    bool right = true;
    for (int j = max(i - 1, 0); j <= min(i + 1, last); ++j)
      right = right && from(j).x == step - 1 && from(j).y == j;
    to(i) = {step, i};
    value(i) = right ? work(iterations) : -1;
  }
]])
file:close()

local q = celer.queue()
local a = celer.buffer("int2", { points }, { name = "a" })
local b = celer.buffer("int2", { points }, { name = "b" })
local value = celer.buffer("double", { points }, { name = "value" })
local near = celer.neighborhood(1)
local step = 0

local function run(steps, iterations)
  for _ = 1, steps do
    step = step + 1
    local from, to = a, b
    q:submit(function(cg)
      cg:parallel_for({ points }, kernels.point, cg:read(from, near), cg:discard_write(to),
        cg:discard_write(value), step, iterations)
    end)
    a, b = b, a
  end
  q:wait()
end

-- The median and the best.
local function measure(iterations)
  local steps = math.ceil(effort / (points * iterations / ranks + STEP))
  local took = {}
  for i = 0, REPETITIONS do -- the first one warms up
    local start = celer.time()
    run(i == 0 and math.ceil(steps / 5) or steps, iterations)
    took[i] = (celer.time() - start) / steps * 1e6
  end
  table.sort(took)
  return took[math.ceil(REPETITIONS / 2)], took[1]
end

q:submit(function(cg) cg:parallel_for({ points }, kernels.begin, cg:discard_write(a)) end)
local rows = {}
for i = 3, #arg do
  local iterations = tonumber(arg[i])
  rows[#rows + 1] = ('{"iterations": %d, "us": %.4f, "best": %.4f}'):format(iterations,
    measure(iterations))
end
local values = q:wait(value)
for i = 0, points - 1 do
  assert(values[i] > 0, "a point has read what is not of the step before")
end
print(('{"bench": "task_bench", "ranks": %d, "points": %d, "rows": [%s]}'):format(ranks, points,
  table.concat(rows, ", ")))
