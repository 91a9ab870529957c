-- A room's response to a flash: in every time step each patch of the walls
-- gathers light from all earlier steps of all patches. The mappers capture the
-- step, a new number each time.
-- The kernels are in C++, to show mappers that are written by hand.
--   celer run rsim.lua [patches] [steps]
local celer = require "celer"

local n = tonumber(arg[1]) or 64
local steps = tonumber(arg[2]) or 40

local q = celer.queue()
-- Row i of kij says how much of each patch's light reaches patch i.
local kij = celer.buffer("float", { n, n }, { name = "kij",
  init = function(i, j) return i == j and 0 or 0.9 / (n - 1) end })
local rad = celer.buffer("float", { steps, n }, { name = "rad" })

local kernels = celer.kernel [[
  kernel void flash(item<1> it, out<float, 2> rad) {
    rad(0, it[0]) = it[0] == 0 ? 1.0f : 0.0f;
  }

  // Light from patch j takes 1 + |i - j| % 4 steps to reach patch i.
  kernel void radiosity(item<1> it, in<float, 2> kij, in<float, 2> old,
                        out<float, 2> now, int t, int n) {
    const int i = it[0];
    float sum = 0;
    for (int j = 0; j < n; ++j) {
      const int delay = 1 + (i > j ? i - j : j - i) % 4;
      if (t >= delay) sum += kij(i, j) * old(t - delay, j);
    }
    now(t, i) = sum;
  }
]]

q:submit(function(cg)
  cg:parallel_for({ n }, kernels.flash, cg:discard_write(rad, function(chunk)
    return celer.box({ 0, chunk.min[0] }, { 1, chunk.max[0] })
  end))
end)

for t = 1, steps - 1 do
  q:submit(function(cg)
    local k = cg:read(kij, function(chunk)
      return celer.box({ chunk.min[0], 0 }, { chunk.max[0], n })
    end)
    local old = cg:read(rad, function()
      return celer.box({ 0, 0 }, { t, n })
    end)
    local new = cg:discard_write(rad, function(chunk)
      return celer.box({ t, chunk.min[0] }, { t + 1, chunk.max[0] })
    end)
    cg:parallel_for({ n }, kernels.radiosity, k, old, new, t, n)
  end)
end

local last = q:drain(celer.capture(rad, celer.box({ steps - 1, 0 }, { steps, n })))
local sum = 0
for i = 0, n - 1 do sum = sum + last(steps - 1, i) end
print(("%d patches, %d steps: light left %.9g"):format(n, steps, sum))
