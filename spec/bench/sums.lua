--- sums.lua -- the price of reproducible sums: their time over that of plain ones, in turns.
---
---   celer run [--devices 1] spec/bench/sums.lua [elements] [rounds]
---
--- Sums and dot products of doubles and floats in memory, of numbers of like sizes and of very
--- different ones ("wide": over 2^200, or 2^60 for floats); sums into an array of 16 elements,
--- by which a kernel hands each number to one of them. Medians. The last line is JSON.
local celer = require "celer"

local n, rounds = tonumber(arg[1]) or 2 ^ 24, tonumber(arg[2]) or 9
local sizes = { double = 200, float = 60 }

local function fill(kind, wide)
  local range = wide and sizes[kind] or 0
  local buffer = celer.buffer(kind, n)
  local make = celer.kernel([[
    kernel void make(item<1> it, out<T, 1> x, int range) {
      philox random(7, it.linear(), 0);
      const double some = random.uniform() - 0.5;
      x(it[0]) = T(ldexp(some, int(random.uniform() * range) - range / 2));
    }]], { defines = { T = kind } })
  make(n, buffer, range)
  return buffer
end

local kernels = {
  sum = celer.kernel(function(i, x, t) t:add(x[i]) end, { name = "sum" }),
  dot = celer.kernel(function(i, x, t) t:add(x[i] * x[i]) end, { name = "dot" }),
  array = celer.kernel(function(i, x, t) t[i % 16]:add(x[i]) end, { name = "array" }),
}

local function seconds(kernel, x, t, options)
  celer.wait()
  local start = celer.time()
  kernel(n, x, celer.sum(t, options))
  celer.fence(t):get()
  return celer.time() - start
end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

local out = {}
for _, kind in ipairs { "double", "float" } do
  for _, wide in ipairs { false, true } do
    local x = fill(kind, wide)
    for _, name in ipairs(wide and { "sum" } or { "sum", "dot", "array" }) do
      local t = celer.buffer(kind, name == "array" and { 16 } or {})
      local plain, same = {}, {}
      for round = 0, rounds do -- the first one compiles
        local a = seconds(kernels[name], x, t)
        local b = seconds(kernels[name], x, t, { reproducible = true })
        if round > 0 then plain[round], same[round] = a, b end
      end
      local a, b = median(plain), median(same)
      local what = ("%s_%s%s"):format(name, kind, wide and "_wide" or "")
      print(("%-18s plain %8.3f ns, reproducible %8.3f ns for each: %.2f times"):format(what,
        a / n * 1e9, b / n * 1e9, b / a))
      out[#out + 1] = ('"%s": %.2f'):format(what, b / a)
    end
    x:free()
  end
end
print(('{"bench": "sums", "elements": %d, %s}'):format(n, table.concat(out, ", ")))
