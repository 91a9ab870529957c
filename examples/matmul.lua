-- A matrix product by tiles, whose items share what they read: each tile of A and of B
-- is brought into local memory once, in one step, and read from there in the next.
-- The kernel is in C++: only there are tiles.
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
  kernel void multiply(tile<T, T> t, in<float, 2> a, in<float, 2> b, out<float, 2> c,
                       local<float, T * T> ta, local<float, T * T> tb, int n) {
    auto sum = t.per_item<float>(0);
    for (int k = 0; k < n; k += T) {
      t.each([&](item<2> it) {
        const int i = it[0], j = it[1], y = it.local(0), x = it.local(1);
        ta[y * T + x] = a(i, k + x);
        tb[y * T + x] = b(k + y, j);
      });
      t.each([&](item<2> it) {
        const int y = it.local(0), x = it.local(1);
        for (int l = 0; l < T; ++l) sum[it] += ta[y * T + l] * tb[l * T + x];
      });
    }
    t.each([&](item<2> it) { c(it[0], it[1]) = sum[it]; });
  }
]], { defines = { T = tile } })

q:submit(function(cg)
  local a, b = cg:read(A, celer.slice(1)), cg:read(B, celer.slice(0))
  local c = cg:discard_write(C)
  cg:parallel_for({ n, n }, multiply, a, b, c, n)
end)

local c = q:drain(celer.capture(C))
local trace = 0
for i = 0, n - 1 do trace = trace + c(i, i) end
print(("%d x %d: trace %.9g, last element %.9g"):format(n, n, trace, c(n - 1, n - 1)))
