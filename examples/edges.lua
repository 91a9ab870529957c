-- A chain of filters: a picture becomes gray, is blurred, and where its
-- brightness changes enough a line is drawn. Kernels are written in Lua.
--   celer run edges.lua [in.png] [out.png] [blurs] [threshold]
local celer = require "celer"

local here = arg[0]:match("^(.*/)") or ""
local from = arg[1] or here .. "pictures/knot.png"
local to = arg[2] or "edges.png"
local blurs = tonumber(arg[3]) or 2
local threshold = tonumber(arg[4]) or 120

local picture = celer.io.load(from, { colors = "rgb" })
local h, w = picture.size[0], picture.size[1]

-- Beyond the edge of the picture its last pixels go on.
local function at(u, y, x)
  return u[math.max(0, math.min(y, h - 1))][math.max(0, math.min(x, w - 1))]
end

local to_gray = celer.kernel(function(y, x, rgb, gray)
  gray[y][x] = 0.299 * rgb[y][x][0] + 0.587 * rgb[y][x][1] + 0.114 * rgb[y][x][2]
end, { name = "to_gray" })

local weights = { 1, 4, 6, 4, 1 }
local blur = celer.kernel(function(y, x, gray, blurred, dy, dx)
  local sum = 0
  for k = -2, 2 do sum = sum + weights[k + 3] * at(gray, y + k * dy, x + k * dx) end
  blurred[y][x] = sum / 16
end, { name = "blur" })

-- How fast brightness changes, by Sobel, and what changes faster than the threshold.
local find = celer.kernel(function(y, x, gray, lines, count)
  local along_x, along_y = 0, 0
  for k = -1, 1 do
    local weight = 2 - math.abs(k)
    along_x = along_x + weight * (at(gray, y + k, x + 1) - at(gray, y + k, x - 1))
    along_y = along_y + weight * (at(gray, y + 1, x + k) - at(gray, y - 1, x + k))
  end
  local edge = along_x ^ 2 + along_y ^ 2 > threshold ^ 2
  lines[y][x] = edge and 255 or 0
  if edge then count:add(1) end
end, { name = "find" })

local gray = celer.buffer("float", { h, w }, { name = "gray" })
local other = celer.buffer("float", { h, w }, { name = "other" })
local lines = celer.buffer("uint8_t", { h, w }, { name = "lines" })
local count = celer.buffer("int64_t")

to_gray({ h, w }, picture, gray)
for _ = 1, blurs do
  blur({ h, w }, gray, other, 1, 0)
  blur({ h, w }, other, gray, 0, 1)
end
find({ h, w }, gray, lines, celer.sum(count))
celer.io.save(to, lines, { min = 0, max = 255 })
print(("%d of %d x %d pixels are edges: %s"):format(tonumber(count()), w, h, to))
