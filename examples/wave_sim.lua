-- A wave in a square pond: the 2-D wave equation by a five-point stencil, with
-- a picture of the pond every so many steps. Its kernels are written in Lua.
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

-- A drop falls at (cy, cx).
local drop = celer.kernel(function(y, x, pond, cy, cx, width)
  pond[y][x] = math.exp(-((y - cy) ^ 2 + (x - cx) ^ 2) / width ^ 2)
end, { name = "drop" })

local step = celer.kernel(function(y, x, now, before, c)
  local ys = now[math.min(y + 1, n - 1)][x] + now[math.max(y - 1, 0)][x]
  local xs = now[y][math.min(x + 1, n - 1)] + now[y][math.max(x - 1, 0)]
  before[y][x] = 2 * now[y][x] - before[y][x] + c * (xs + ys - 4 * now[y][x])
end, { name = "step" })

q:hint { split = split }
for _, field in ipairs { u, up } do
  q:parallel_for({ n, n }, drop, field, n / 4, n / 3, n / 24)
end

-- One host task per picture; it runs beside the steps that follow.
local function picture(field, t)
  q:submit(function(cg)
    cg:name("picture")
    cg:host_task(celer.on_master, function(_, frame)
      celer.png(("%s/wave_%05d.png"):format(folder, t), frame,
        { min = -0.2, max = 0.2, colors = "diverging" })
    end, cg:read(field, celer.all))
  end)
end

for t = 1, steps do
  q:parallel_for({ n, n }, step, u, up, 0.25)
  u, up = up, u
  if t % every == 0 or t == steps then picture(u, t) end
end

local centre = celer.box({ n / 2 - n / 2 % 1, 0 }, { n / 2 - n / 2 % 1 + 1, n })
local row = q:drain(celer.capture(u, centre))
local sum = 0
for x = 0, n - 1 do sum = sum + row(row.min[0], x) end
print(("%d steps on %d x %d, sum over the middle row %.9g"):format(steps, n, n, sum))
print(("last picture: %s/wave_%05d.png"):format(folder, steps))
