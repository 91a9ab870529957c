-- A diffusing spot as a film: frames go into one file, in order, while the next
-- ones are computed. The file is a host object: open from the first frame to the
-- last, closed when nothing needs it any more.
-- The kernels are in C++, as they divide whole numbers as C does.
--   celer run movie.lua [size] [frames] [file]
-- The file plays in mpv and ffmpeg (uncompressed Y4M).
local celer = require "celer"

local n = tonumber(arg[1]) or 192
local frames = tonumber(arg[2]) or 100
local path = arg[3] or "movie.y4m"
local steps = 8 -- per frame

local q = celer.queue()
local u = celer.buffer("int", { n, n }, { name = "u" })
local v = celer.buffer("int", { n, n }, { name = "v" })
local shade = celer.buffer("uint8_t", { n, n }, { name = "shade" })

-- Whole numbers, so that the film is the same however the work is divided.
local kernels = celer.kernel [[
  kernel void spot(item<2> it, out<int, 2> u, int n) {
    const int dy = it[0] - n / 3, dx = it[1] - n / 2;
    u(it[0], it[1]) = dy * dy + dx * dx < n * n / 36 ? 1 << 23 : 0;
  }

  kernel void spread(item<2> it, out<int, 2> v, in<int, 2> u) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const int uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const int ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    v(y, x) = u(y, x) + (uy + ux - 4 * u(y, x)) / 8;
  }

  kernel void expose(item<2> it, out<uint8_t, 2> shade, in<int, 2> u) {
    const int level = u(it[0], it[1]) >> 15;
    shade(it[0], it[1]) = level < 0 ? 0 : level > 255 ? 255 : level;
  }
]]

local function cross(chunk) return chunk:grow(1, 0), chunk:grow(0, 1) end

-- Made on the rank that writes, in the first task that does.
local film = celer.host_object(function()
  local file = assert(io.open(path, "wb"))
  file:write(("YUV4MPEG2 W%d H%d F25:1 Cmono\n"):format(n, n))
  return file
end, { name = "film", destructor = function(file) file:close() end })

q:submit(function(cg)
  cg:parallel_for({ n, n }, kernels.spot, cg:discard_write(u), n)
end)
for _ = 1, frames do
  for _ = 1, steps do
    q:submit(function(cg)
      cg:parallel_for({ n, n }, kernels.spread, cg:discard_write(v), cg:read(u, cross))
    end)
    u, v = v, u
  end
  q:submit(function(cg)
    cg:parallel_for({ n, n }, kernels.expose, cg:discard_write(shade), cg:read(u))
  end)
  q:submit(function(cg)
    cg:name("frame")
    cg:host_task(celer.on_master, function(_, frame, file)
      file:write("FRAME\n", frame:string())
    end, cg:read(shade, celer.all), cg:side_effect(film))
  end)
end
film:free()
q:drain()
print(("%d frames of %d x %d"):format(frames, n, n))
