-- A picture through a filter: PNG in, PNG out. What lies around a pixel is weighed by
-- a mask of whole numbers, as often as asked for.
-- The kernel is in C++, as it divides whole numbers as C does.
--   celer run convolution.lua [in.png] [out.png] [blur | sharpen | edges | emboss] [times]
local celer = require "celer"

local here = arg[0]:match("^(.*/)") or ""
local from = arg[1] or here .. "pictures/flow.png"
local to = arg[2] or "filtered.png"
local name = arg[3] or "emboss"
local times = tonumber(arg[4]) or 1

local filters = {
  blur = { divide = 256, mask = { { 1, 4, 6, 4, 1 }, { 4, 16, 24, 16, 4 },
    { 6, 24, 36, 24, 6 }, { 4, 16, 24, 16, 4 }, { 1, 4, 6, 4, 1 } } },
  sharpen = { mask = { { 0, -1, 0 }, { -1, 5, -1 }, { 0, -1, 0 } } },
  edges = { mask = { { -1, -1, -1 }, { -1, 8, -1 }, { -1, -1, -1 } } },
  emboss = { add = 128, mask = { { -2, -1, 0 }, { -1, 0, 1 }, { 0, 1, 2 } } },
}
local chosen = filters[name] or error("there is no filter " .. name)
local side = #chosen.mask
local reach = (side - 1) / 2

local q = celer.queue()
local picture = celer.io.load(from, { colors = "rgb" })
local h, w = picture.size[0], picture.size[1]
local result = celer.buffer("uint8_t", { h, w, 3 }, { name = "result" })
local weights = celer.buffer("int", { side, side }, { name = "weights", init = chosen.mask })

local filter = celer.kernel [[
  kernel void filter(item<2> it, in<uint8_t, 3> picture, in<int, 2> weights,
                     out<uint8_t, 3> result, int reach, int divide, int add) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    for (int c = 0; c < 3; ++c) { // red, green, blue
      int sum = 0;
      for (int dy = -reach; dy <= reach; ++dy)
        for (int dx = -reach; dx <= reach; ++dx)
          sum += weights(reach + dy, reach + dx) *
                 picture(clamp(y + dy, 0, h - 1), clamp(x + dx, 0, w - 1), c);
      result(y, x, c) = clamp(sum / divide + add, 0, 255);
    }
  }
]]

-- The pixels of a chunk, and what lies around them.
local function pixels(chunk)
  return celer.box({ chunk.min[0], chunk.min[1], 0 }, { chunk.max[0], chunk.max[1], 3 })
end
local function around(chunk) return pixels(chunk):grow(reach, reach, 0) end

for _ = 1, times do
  q:submit(function(cg)
    local p, m = cg:read(picture, around), cg:read(weights, celer.all)
    cg:parallel_for({ h, w }, filter, p, m, cg:discard_write(result, pixels), reach,
      chosen.divide or 1, chosen.add or 0)
  end)
  picture, result = result, picture
end
celer.io.save(to, picture)
q:drain()
print(("%s of %d x %d pixels: %s"):format(name, w, h, to))
