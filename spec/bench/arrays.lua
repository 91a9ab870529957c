--- arrays.lua -- how fast celer.sort and celer.scan are.
---
---   celer run [--backend cuda] spec/bench/arrays.lua [elements] [turns]
---
--- Sorts random numbers of 64 and 32 bits, alone and with a value for each, and scans whole
--- numbers and fractions. A line for each: milliseconds (the median of turns), elements per
--- second, and of a scan the bytes that it must read and write, per second. What is sorted is
--- compared with its neighbour, and its sum with that before; the sums of a scan with n, as all
--- are 1. The last line is JSON.
local celer = require "celer"

local n, turns = tonumber(arg[1]) or 1e6, tonumber(arg[2]) or 5
local q = celer.queue()

local k = celer.kernel [[
  kernel void mix(item<1> it, out<uint64_t, 1> keys) {
    uint64_t z = (uint64_t)(it[0] + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    keys(it[0]) = z ^ z >> 31;
  }
  kernel void narrow(item<1> it, in<uint64_t, 1> keys, out<uint32_t, 1> low) {
    low(it[0]) = (uint32_t)keys(it[0]);
  }
  kernel void check64(item<1> it, in<uint64_t, 1> u, reducer<uint64_t> sum, reducer<int64_t> bad) {
    sum += u(it[0]);
    if (it[0] > 0 && u(it[0] - 1) > u(it[0])) bad += 1;
  }
  kernel void check32(item<1> it, in<uint32_t, 1> u, reducer<uint64_t> sum, reducer<int64_t> bad) {
    sum += u(it[0]);
    if (it[0] > 0 && u(it[0] - 1) > u(it[0])) bad += 1;
  }
]]

local out = {}

local function report(name, times, bytes)
  table.sort(times)
  local ms = times[math.ceil(#times / 2)] * 1e3
  local rate = n / ms * 1e-6
  print(("%-16s %9.3f ms %8.3f G elements/s%s"):format(name, ms, rate,
    bytes and (" %7.0f GB/s"):format(bytes * n / ms * 1e-6) or ""))
  out[#out + 1] = ('"%s_ms": %.4f, "%s_gelements": %.4f'):format(name, ms, name, rate)
end

local function checked(u)
  local sum, bad = celer.zeros("uint64_t"), celer.zeros("int64_t")
  q:submit(function(cg)
    cg:parallel_for(n, u.type.size == 8 and k.check64 or k.check32,
      cg:read(u, celer.neighborhood(1)), cg:reduce(sum, "sum"), cg:reduce(bad, "sum"))
  end)
  local s, b = q:wait(sum, bad)
  return s(), tonumber(b())
end

local function sorts(name, from, ...)
  local keys, times, before = celer.like(from), {}, checked(from)
  for turn = 0, turns do
    celer.copy(from, keys)
    q:wait()
    local begin = celer.time()
    celer.sort(keys, ...)
    q:wait()
    if turn > 0 then times[turn] = celer.time() - begin end
  end
  local sum, bad = checked(keys)
  assert(bad == 0 and sum == before, name .. " is not sorted")
  report(name, times)
  keys:free()
end

local function scans(name, type_)
  local u, v, times = celer.full(type_, n, 1), celer.buffer(type_, n), {}
  local each = 10
  for turn = 0, turns do
    q:wait()
    local begin = celer.time()
    for _ = 1, each do celer.scan("sum", v, u) end
    q:wait()
    if turn > 0 then times[turn] = (celer.time() - begin) / each end
  end
  for _, i in ipairs { 0, 1, math.floor(n / 3), n - 1 } do
    assert(tonumber(v(i)) == i + 1, name .. " is wrong")
  end
  report(name, times, 2 * v.type.size)
  u:free()
  v:free()
end

local wide, low = celer.buffer("uint64_t", n), celer.buffer("uint32_t", n)
q:submit(function(cg) cg:parallel_for(n, k.mix, cg:discard_write(wide)) end)
q:submit(function(cg) cg:parallel_for(n, k.narrow, cg:read(wide), cg:discard_write(low)) end)
sorts("sort64", wide)
sorts("sort32", low)
sorts("sort64_values", wide, celer.zeros("double", n))
scans("scan_int64", "int64_t")
scans("scan_double", "double")
scans("scan_int", "int")
print(("{\"elements\": %.0f, %s}"):format(n, table.concat(out, ", ")))
