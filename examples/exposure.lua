-- A camera that finds its exposure: one rank takes a picture, each develops its own rows
-- of it, and the one looks at all of the result and corrects the exposure for the next.
-- The kernels are in C++, as they divide whole numbers as C does.
--   celer run exposure.lua [size] [pictures]
local celer = require "celer"

local n = tonumber(arg[1]) or 96
local pictures = tonumber(arg[2]) or 12

local q = celer.queue()
local taken = celer.buffer("uint16_t", { n, n }, { name = "taken" })
local developed = celer.buffer("uint8_t", { n, n }, { name = "developed" })
-- How long the shutter is open for each picture, and how bright that becomes.
local open = celer.buffer("int", { pictures + 1 }, { name = "open",
  init = function() return 20 end })
local bright = celer.buffer("int", { pictures }, { name = "bright" })

local kernels = celer.kernel [[
  kernel void take(item<1> it, in<int, 1> open, out<uint16_t, 2> taken, int n, int picture) {
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        const int scene = ((i * n + j) * 7919 + picture * 10473) % 8192 + 64;
        const int light = scene * open(picture) / 125;
        taken(i, j) = light < 65535 ? light : 65535;
      }
  }

  // Bright parts are pressed together.
  kernel void develop(item<2> it, in<uint16_t, 2> taken, out<uint8_t, 2> developed) {
    const int light = taken(it[0], it[1]);
    developed(it[0], it[1]) = light < 2048 ? light / 16 : 128 + (light - 2048) / 500;
  }

  kernel void look(item<1> it, in<uint8_t, 2> developed, inout<int, 1> open,
                   out<int, 1> bright, int n, int picture) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) sum += developed(i, j);
    const int mean = sum / (n * n);
    bright(picture) = mean;
    open(picture + 1) = open(picture) * (384 - mean) / 256 + 1;
  }
]]

local function one(i) return celer.fixed(celer.box({ i }, { i + 1 })) end

for picture = 0, pictures - 1 do
  q:submit(function(cg)
    local o, t = cg:read(open, one(picture)), cg:discard_write(taken, celer.all)
    cg:parallel_for(1, kernels.take, o, t, n, picture)
  end)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, kernels.develop, cg:read(taken), cg:discard_write(developed))
  end)
  q:submit(function(cg)
    local d, b = cg:read(developed, celer.all), cg:discard_write(bright, one(picture))
    local o = cg:read_write(open, celer.fixed(celer.box({ picture }, { picture + 2 })))
    cg:parallel_for(1, kernels.look, d, o, b, n, picture)
  end)
end

local o, b = q:drain(celer.capture(open), celer.capture(bright))
for picture = 0, pictures - 1 do
  print(("picture %d: open for %d, brightness %d"):format(picture + 1, o[picture], b[picture]))
end
