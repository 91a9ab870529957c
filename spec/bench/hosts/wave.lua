-- wave.lua -- the wave step (examples/wave_sim.lua), whose ranks sleep in each step besides.
--
--   celer run --trace FILE spec/bench/hosts/wave.lua ROWS COLUMNS STEPS SLEEP_US
--
-- For measure.lua. Each rank sleeps in its middle row: so a step takes time in which the core
-- is left to what carries the messages. Prints ms per step, with the wait at the end, and a
-- number that is the same on any hosts.
local celer = require "celer"

local rows, columns, steps, sleep_us = unpack(arg)
rows, columns, steps, sleep_us = tonumber(rows), tonumber(columns), tonumber(steps),
  tonumber(sleep_us)

local q = celer.queue()
local u = celer.buffer("float", { rows, columns }, { name = "u" })
local up = celer.buffer("float", { rows, columns }, { name = "up" })

local kernels = celer.kernel [[
  extern "C" int usleep(unsigned);

  kernel void drop(item<2> it, out<float, 2> u, float cy, float cx) {
    const float dy = it[0] - cy, dx = it[1] - cx;
    u(it[0], it[1]) = expf(-(dy * dy + dx * dx) / 400);
  }

  kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, int chunk, int sleep_us) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    if (x == 0 && sleep_us > 0 && y % chunk == chunk / 2) usleep(sleep_us);
    const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    up(y, x) = 2 * u(y, x) - up(y, x) + 0.25f * (ux + uy - 4 * u(y, x));
  }
]]

local function cross(chunk) return chunk:grow(1, 0), chunk:grow(0, 1) end

for _, field in ipairs { u, up } do
  q:submit(function(cg)
    cg:parallel_for({ rows, columns }, kernels.drop, cg:discard_write(field), rows / 2, 30)
  end)
end

local chunk = rows / celer.ranks()
local function run(n)
  for _ = 1, n do
    q:submit(function(cg)
      local w, r = cg:read_write(up), cg:read(u, cross)
      cg:parallel_for({ rows, columns }, kernels.step, w, r, chunk, sleep_us)
    end)
    u, up = up, u
  end
  q:wait()
end

run(10)
local since = celer.time()
run(steps)
local ms = (celer.time() - since) * 1e3 / steps
local row = q:drain(celer.capture(u, celer.box({ chunk, 0 }, { chunk + 1, columns })))
local sum = 0
for x = 0, columns - 1 do sum = sum + row(row.min[0], x) end
print(("%.3f %.9g"):format(ms, sum))
