-- A wave in a square pond: the 2-D wave equation by a five-point stencil, with
-- a picture of the pond every so many steps.
--   celer run wave_sim.lua [size] [steps] [steps per picture] [folder] [split]
-- With the split "2d" the pond is cut into tiles instead of strips: less to
-- exchange where there are many ranks.
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local steps = tonumber(arg[2]) or 300
local every = tonumber(arg[3]) or 60
local folder = arg[4] or "frames"
local split = arg[5] or "1d"

local q = celer.queue()
local u = celer.buffer("float", { n, n }, { name = "u" })
local up = celer.buffer("float", { n, n }, { name = "up" })

local kernels = celer.kernel [[
  // A drop falls at (cy, cx).
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

-- A chunk and its neighbours along each axis.
local function cross(chunk) return chunk:grow(1, 0), chunk:grow(0, 1) end

for _, field in ipairs { u, up } do
  q:submit(function(cg)
    cg:hint { split = split }
    cg:parallel_for({ n, n }, kernels.drop, cg:discard_write(field), n / 4, n / 3,
      n / 24)
  end)
end

-- One host task per picture; it runs beside the steps that follow.
local function picture(field, step)
  q:submit(function(cg)
    cg:name("picture")
    cg:host_task(celer.on_master, function(_, frame)
      celer.png(("%s/wave_%05d.png"):format(folder, step), frame,
        { min = -0.2, max = 0.2, colors = "diverging" })
    end, cg:read(field, celer.all))
  end)
end

for t = 1, steps do
  q:submit(function(cg)
    cg:hint { split = split }
    local w, r = cg:read_write(up), cg:read(u, cross)
    cg:parallel_for({ n, n }, kernels.step, w, r, 0.25)
  end)
  u, up = up, u
  if t % every == 0 or t == steps then picture(u, t) end
end

local centre = celer.box({ n / 2 - n / 2 % 1, 0 }, { n / 2 - n / 2 % 1 + 1, n })
local row = q:drain(celer.capture(u, centre))
local sum = 0
for x = 0, n - 1 do sum = sum + row(row.min[0], x) end
print(("%d steps on %d x %d, sum over the middle row %.9g"):format(steps, n, n, sum))
print(("last picture: %s/wave_%05d.png"):format(folder, steps))
