-- Each of the parts is changed on its device and then wanted by all; with one
-- part, a kernel copies it.
--   celer run copy.lua MiB rounds parts
local celer = require "celer"
local measure = require "measure"

local mib, steps = tonumber(arg[1]) or 1, tonumber(arg[2]) or 4
local parts = tonumber(arg[3]) or 2
local per = mib * 2 ^ 16 -- elements of 16 bytes

local q = celer.queue()
local u = celer.buffer("float4", { parts * per }, { name = "u" })
local v = celer.buffer("float4", { per }, { name = "v" })
local seen = celer.buffer("double", { parts }, { name = "seen" })

local k = celer.kernel [[
  kernel void clear(item<1> it, out<float4, 1> u) { u(it[0]) = make_float4(0, 0, 0, 0); }

  // Changes one element and has the right to change them all.
  kernel void touch(item<1> it, inout<float4, 1> u, int per, int t) {
    u((int64_t)it[0] * per).x = t;
  }

  // Each device looks at all parts.
  kernel void look(item<1> it, in<float4, 1> u, out<double, 1> seen, int per) {
    double sum = 0;
    for (int p = 0; p < it.range(0); ++p) sum += u((int64_t)p * per).x;
    seen(it[0]) = sum;
  }

  kernel void copy(item<1> it, in<float4, 1> u, out<float4, 1> v) {
    v(it[0]) = u(it[0]);
  }
]]

local function part(chunk)
  return celer.box({ chunk.min[0] * per }, { chunk.max[0] * per })
end

local function round(t)
  q:submit(function(cg)
    cg:parallel_for({ parts }, k.touch, cg:read_write(u, part), per, t)
  end)
  if parts == 1 then
    q:submit(function(cg)
      cg:parallel_for({ per }, k.copy, cg:read(u), cg:discard_write(v))
    end)
  else
    q:submit(function(cg)
      cg:parallel_for({ parts }, k.look, cg:read(u, celer.all), cg:discard_write(seen), per)
    end)
  end
end

q:submit(function(cg) cg:parallel_for({ parts * per }, k.clear, cg:discard_write(u)) end)
measure.loop(q, 10, steps, function(from, to)
  for t = from, to - 1 do round(t) end
end)
if parts == 1 then
  measure.report(q:wait(celer.capture(v, celer.box({ 0 }, { 1 })))[0].x)
else
  measure.report(q:wait(seen)[0])
end
