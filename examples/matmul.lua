-- A matrix product by tiles: work groups that share memory and wait for each
-- other.
--   celer run matmul.lua [size]      a multiple of 16
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local tile = 16

local q = celer.queue()
local function entry(factor, modulus)
  return function(i, j) return (i * factor + j * 3) % modulus - 5 end
end
local A = celer.buffer("float", { n, n }, { name = "A", init = entry(7, 11) })
local B = celer.buffer("float", { n, n }, { name = "B", init = entry(5, 13) })
local C = celer.buffer("float", { n, n }, { name = "C" })

local multiply = celer.kernel([[
  kernel void multiply(group<2> g, in<float, 2> a, in<float, 2> b, out<float, 2> c,
                       local<float, T * T> ta, local<float, T * T> tb, int n) {
    const int i = g.global(0), j = g.global(1), y = g.local(0), x = g.local(1);
    float sum = 0;
    for (int k = 0; k < n; k += T) {
      ta[y * T + x] = a(i, k + x);
      tb[y * T + x] = b(k + y, j);
      g.barrier();
      for (int l = 0; l < T; ++l) sum += ta[y * T + l] * tb[l * T + x];
      g.barrier();
    }
    c(i, j) = sum;
  }
]], { defines = { T = tile } })

q:submit(function(cg)
  local a, b = cg:read(A, celer.slice(1)), cg:read(B, celer.slice(0))
  local c = cg:discard_write(C)
  cg:parallel_for(celer.nd_range({ n, n }, { tile, tile }), multiply, a, b, c, n)
end)

local c = q:drain(celer.capture(C))
local trace = 0
for i = 0, n - 1 do trace = trace + c(i, i) end
print(("%d x %d: trace %.9g, last element %.9g"):format(n, n, trace, c(n - 1, n - 1)))
