--- loops.lua -- whole-runtime loops of kernels that do next to nothing.
---
---   celer run --devices 1 spec/bench/loops.lua [repetitions] [loop ...]
---
--- As Celerity's own benchmark has them, on one rank with one device: independent
--- tasks (each adds one to a column of its own), a 3 x 3 stencil on 128 x 128 cut
--- in one or two dimensions, whole or into three runs (`stencil_kernel`: 64 times as
--- many rows in a task, per 128 of them, which is what the kernel itself takes;
--- `stencil_500_empty`: the same steps by a kernel that does nothing), and RSim (step t
--- reads the rows before t, so its mapper captures another number each time). All of
--- them, or those named. Microseconds per task, medians, with the wait at the end; on an
--- idle machine with a core for each thread. The last line is JSON.
local celer = require "celer"

local REPETITIONS = tonumber(arg[1]) or 9
local q = celer.queue()

local kernels = celer.kernel [[
  kernel void column(item<1> it, inout<float, 2> b, int i) { b(it[0], i) += 1; }

  kernel void stencil(item<2> it, in<float, 2> from, out<float, 2> to) {
    const int h = it.range(0), w = it.range(1);
    float sum = 0, n = 0;
    for (int i = -1; i <= 1; ++i) {
      const int x = (int)it[0] + i;
      if (x < 0 || x >= h) continue;
      for (int j = -1; j <= 1; ++j) {
        const int y = (int)it[1] + j;
        if (y < 0 || y >= w) continue;
        sum += from(x, y);
        n += 1;
      }
    }
    to(it[0], it[1]) = 0.5f * from(it[0], it[1]) + 0.5f * sum / n;
  }

  kernel void nothing(item<2> it, in<float, 2> from, out<float, 2> to) {}

  kernel void radiosity(item<1> it, in<float, 2> kij, inout<float, 2> rad, int t) {
    float sum = 1;
    if (t > 0) sum += 0.5f * kij(it[0], 0) * rad(t - 1, it[0]);
    rad(t, it[0]) = sum;
  }
]]

local function independent(tasks)
  local b = celer.buffer("float", { 256, tasks }, { init = function() return 0 end })
  return function()
    for _ = 1, 2 do
      for i = 0, tasks - 1 do
        q:submit(function(cg)
          local part = cg:read_write(b, function(chunk)
            return celer.box({ chunk.min[0], i }, { chunk.max[0], i + 1 })
          end)
          cg:parallel_for({ 256 }, kernels.column, part, i)
        end)
      end
    end
    return 2 * tasks
  end
end

-- With `times` as many rows; counts as so many steps.
local function stencil(steps, hints, times, kernel)
  times, kernel = times or 1, kernel or kernels.stencil
  local extent = { 128 * times, 128 }
  local zero = { init = function() return 0 end }
  local u, v = celer.buffer("float", extent, zero), celer.buffer("float", extent, zero)
  return function()
    for _ = 1, steps do
      q:submit(function(cg)
        cg:hint(hints)
        local r = cg:read(u, celer.neighborhood(1, 1))
        cg:parallel_for(extent, kernel, r, cg:discard_write(v))
      end)
      u, v = v, u
    end
    return steps * times
  end
end

local function rsim(n, steps)
  local kij = celer.buffer("float", { n, n }, { init = function() return 1 end })
  local rad = celer.buffer("float", { steps, n }, { init = function() return 0 end })
  return function()
    for t = 0, steps - 1 do
      q:submit(function(cg)
        local k = cg:read(kij, function(chunk)
          return celer.box({ chunk.min[0], 0 }, { chunk.max[0], n })
        end)
        local w = cg:read_write(rad, function(chunk)
          return celer.box({ 0, chunk.min[0] }, { t + 1, chunk.max[0] })
        end)
        cg:parallel_for({ n }, kernels.radiosity, k, w, t)
      end)
    end
    return steps
  end
end

local function measure(run)
  local took = {}
  for i = 0, REPETITIONS do -- the first one warms up
    local start = celer.time()
    local tasks = run()
    q:wait()
    took[i] = (celer.time() - start) / tasks * 1e6
  end
  table.sort(took)
  return took[math.ceil(REPETITIONS / 2)]
end

local wanted = {}
for i = 2, #arg do wanted[arg[i]] = true end

local parts = {}
for _, loop in ipairs {
  { "independent_100", independent, 100 }, { "independent_2500", independent, 2500 },
  { "stencil_50", stencil, 50, { split = "1d" } },
  { "stencil_500", stencil, 500, { split = "1d" } },
  { "stencil_500_empty", stencil, 500, { split = "1d" }, 1, kernels.nothing },
  { "stencil_kernel", stencil, 20, { split = "1d" }, 64 },
  { "stencil_500_2d", stencil, 500, { split = "2d" } },
  { "stencil_500_runs", stencil, 500, { split = "1d", oversubscribe = 3 } },
  { "rsim_50", rsim, 64, 50 }, { "rsim_500", rsim, 64, 500 },
} do
  local name, prepare = loop[1], loop[2]
  if wanted[name] or next(wanted) == nil then
    parts[#parts + 1] = ('"%s": %.2f'):format(name, measure(prepare(unpack(loop, 3))))
  end
end
print("{" .. table.concat(parts, ", ") .. "}")
q:drain()
