-- Two substances that react and spread, after Gray and Scott. What to compute stands in
-- a parameter file, a Lua table; the command line has the last word.
-- The kernels are in C++, to show near<T, D>, which reads beyond the edges.
--   celer run gray_scott.lua [parameters.lua] [name=value...]
--   celer run gray_scott.lua coral.lua steps=20000 feed=0.037 'size={600, 600}'
local celer = require "celer"

local here = arg[0]:match("^(.*/)") or ""
local first = (arg[1] or ""):find("=", 1, true) and 1 or 2
local p = dofile(first == 2 and arg[1] or here .. "coral.lua")
for i = first, #arg do
  local name, value = arg[i]:match("^(%w+)=(.*)$")
  if not name or p[name] == nil then
    error(("'%s' sets none of the parameters"):format(arg[i]))
  end
  p[name] = type(p[name]) == "string" and value or assert(loadstring("return " .. value))()
end
local h, w = p.size[1], p.size[2]

celer.seed(p.seed)
local spots = {}
for i = 1, p.spots do spots[i] = { celer.random(h), celer.random(w) } end

-- x: the first substance, everywhere; y: the second one, in the spots.
local function start(y, x)
  for _, spot in ipairs(spots) do
    local dy, dx = y - spot[1], x - spot[2]
    if dy * dy + dx * dx < 30 then return { x = 0.5, y = 0.25 } end
  end
  return { x = 1, y = 0 }
end

local q = celer.queue()
local a = celer.buffer("float2", { h, w }, { name = "a", init = start })
local b = celer.buffer("float2", { h, w }, { name = "b" })
local shown = celer.buffer("float", { h, w }, { name = "shown" })

local kernels = celer.kernel [[
  kernel void react(item<2> it, near<float2, 2> a, out<float2, 2> b, float feed, float kill) {
    const int y = it[0], x = it[1];
    const float2 here = a(y, x), n = a(y - 1, x), s = a(y + 1, x),
                 west = a(y, x - 1), east = a(y, x + 1);
    const float u = here.x, v = here.y, reaction = u * v * v;
    const float du = n.x + s.x + west.x + east.x - 4 * u;
    const float dv = n.y + s.y + west.y + east.y - 4 * v;
    b(y, x) = make_float2(u + 0.16f * du - reaction + feed * (1 - u),
                          v + 0.08f * dv + reaction - (feed + kill) * v);
  }

  kernel void second(item<2> it, in<float2, 2> a, out<float, 2> shown) {
    shown(it[0], it[1]) = a(it[0], it[1]).y;
  }
]]

for t in celer.progress(p.steps) do
  q:submit(function(cg)
    local from = cg:read(a, celer.clamped(1, "along_axes"))
    cg:parallel_for({ h, w }, kernels.react, from, cg:discard_write(b), p.feed, p.kill)
  end)
  a, b = b, a
  if t % p.every == 0 or t == p.steps then
    q:submit(function(cg)
      cg:parallel_for({ h, w }, kernels.second, cg:read(a), cg:discard_write(shown))
    end)
    celer.io.save(("%s/gray_scott_%05d.png"):format(p.folder, t), shown,
      { min = 0, max = 0.4, colors = p.colors })
  end
end

local middle = celer.box({ math.floor(h / 2), 0 }, { math.floor(h / 2) + 1, w })
local row, sum = q:drain(celer.capture(a, middle)), 0
for x = 0, w - 1 do sum = sum + row(row.min[0], x).y end
print(("%d steps on %d x %d, sum over the middle row %.9g"):format(p.steps, h, w, sum))
print(("last picture: %s/gray_scott_%05d.png"):format(p.folder, p.steps))
