-- The wave of wave_sim.lua as a long run that may be killed at any moment: start
-- it again, on any number of ranks, and it goes on from its last checkpoint. The
-- result has the same bits.
-- The kernels are in C++; those of wave_sim.lua are the same in Lua.
--   celer run wave_restart.lua [size] [steps] [steps per checkpoint] [folder]
local celer = require "celer"

local n = tonumber(arg[1]) or 512
local steps = tonumber(arg[2]) or 2000
local every = tonumber(arg[3]) or 200
local folder = arg[4] or "wave.kept"

local q = celer.queue()

local kernels = celer.kernel [[
  kernel void drop(item<2> it, out<float, 2> u, float cy, float cx, float width) {
    const float dy = it[0] - cy, dx = it[1] - cx;
    u(it[0], it[1]) = expf(-(dy * dy + dx * dx) / (width * width));
  }

  kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
  }
]]

local function cross(chunk) return chunk:grow(1, 0), chunk:grow(0, 1) end

-- What the last run has left, or the beginning.
local now = {
  u = celer.buffer("float", { n, n }, { name = "u" }),
  up = celer.buffer("float", { n, n }, { name = "up" }),
}
local kept, extra = celer.restore(folder, now)
if not kept then
  for _, field in celer.sorted_pairs(now) do
    q:submit(function(cg)
      cg:parallel_for({ n, n }, kernels.drop, cg:discard_write(field), n / 4, n / 3, n / 24)
    end)
  end
end

local first = kept and extra.step + 1 or 1
print(kept and "continued at step " .. first or "begun")
for t = first, steps do
  q:submit(function(cg)
    local w, r = cg:read_write(now.up), cg:read(now.u, cross)
    cg:parallel_for({ n, n }, kernels.step, w, r, 0.25)
  end)
  now.u, now.up = now.up, now.u
  if t % every == 0 then celer.checkpoint(folder, now, { step = t }) end
end

local middle = math.floor(n / 2)
local row = q:drain(celer.capture(now.u, celer.box({ middle, 0 }, { middle + 1, n })))
local sum = 0
for x = 0, n - 1 do sum = sum + row(middle, x) end
print(("%d steps on %d x %d, sum over the middle row %.9g"):format(steps, n, n, sum))
