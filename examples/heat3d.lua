-- A glowing knot cools down: the 3-D heat equation by a seven-point stencil. Ranks and
-- devices share the cube in blocks, whose surfaces they exchange; a picture shows it
-- seen through, as bright as the hottest point behind each of its own.
--   celer run heat3d.lua [size] [steps] [picture] [split]
local celer = require "celer"

local n = tonumber(arg[1]) or 128
local steps = tonumber(arg[2]) or 60
local path = arg[3] or "knot.png"
local split = arg[4] or "3d"

local q = celer.queue()
local heat = celer.buffer("float", { n, n, n }, { name = "heat" })
local after = celer.buffer("float", { n, n, n }, { name = "after" })
local seen = celer.buffer("float", { n, n }, { name = "seen" })

-- A trefoil knot in the middle of the cube. Depth, z, is dimension 0.
local points = 256
local curve = celer.buffer("float3", { points }, { name = "curve", init = function(i)
  local t = 2 * math.pi * i / points
  return { x = n / 2 + n / 7 * (math.sin(t) + 2 * math.sin(2 * t)),
    y = n / 2 + n / 7 * (math.cos(t) - 2 * math.cos(2 * t)),
    z = n / 2 + n / 7 * math.sin(3 * t) }
end })

local kernels = celer.kernel([[
  // 1 within a wire along a curve, 0 around it.
  kernel void wire(item<3> it, in<float3, 1> curve, out<float, 3> heat, float thick) {
    float nearest = 1e30f;
    for (int i = 0; i < POINTS; ++i) {
      const float dz = it[0] - curve(i).z, dy = it[1] - curve(i).y, dx = it[2] - curve(i).x;
      nearest = min(nearest, dx * dx + dy * dy + dz * dz);
    }
    heat(it[0], it[1], it[2]) = nearest < thick * thick ? 1 : 0;
  }

  kernel void spread(item<3> it, in<float, 3> heat, out<float, 3> after) {
    const int z = it[0], y = it[1], x = it[2], n = it.range(0);
    const float here = heat(z, y, x);
    const float dz = heat(min(z + 1, n - 1), y, x) + heat(max(z - 1, 0), y, x);
    const float dy = heat(z, min(y + 1, n - 1), x) + heat(z, max(y - 1, 0), x);
    const float dx = heat(z, y, min(x + 1, n - 1)) + heat(z, y, max(x - 1, 0));
    after(z, y, x) = here + 0.125f * (dz + dy + dx - 6 * here);
  }

  // What is further away is darker.
  kernel void look(item<2> it, in<float, 3> heat, out<float, 2> seen, int n) {
    float most = 0;
    for (int z = 0; z < n; ++z)
      most = max(most, heat(z, it[0], it[1]) * (1.2f - float(z) / n));
    seen(it[0], it[1]) = most;
  }
]], { defines = { POINTS = points } })

local near = celer.neighborhood(1, 1, 1, "along_axes")

-- All that lies behind a part of the picture.
local function behind(chunk, buffer)
  return celer.box({ 0, chunk.min[0], chunk.min[1] },
    { buffer.size[0], chunk.max[0], chunk.max[1] })
end

q:hint { split = split }
q:submit(function(cg)
  cg:parallel_for({ n, n, n }, kernels.wire, cg:read(curve, celer.all),
    cg:discard_write(heat), n / 20)
end)
for _ = 1, steps do
  q:submit(function(cg)
    cg:parallel_for({ n, n, n }, kernels.spread, cg:read(heat, near),
      cg:discard_write(after))
  end)
  heat, after = after, heat
end
q:hint { split = "2d" }
q:submit(function(cg)
  cg:parallel_for({ n, n }, kernels.look, cg:read(heat, behind), cg:discard_write(seen), n)
end)
celer.io.save(path, seen, { min = 0, max = 0.7, colors = "inferno" })

local picture, light = q:drain(seen), 0
for y = 0, n - 1 do
  for x = 0, n - 1 do light = light + picture(y, x) end
end
print(("%d steps in %d x %d x %d, light %.9g"):format(steps, n, n, n, light))
print("picture: " .. path)
