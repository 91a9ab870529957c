-- A histogram, and mean and spread, of numbers that each item makes for itself.
-- The kernels are in C++, for the stream of random numbers that philox has there.
--
--   celer run histogram.lua [samples] [bins]
--
-- One kernel reduces into an array and into several numbers at once. All of them
-- are whole, so that they have the same bits however many ranks and devices there
-- are.
local celer = require "celer"
local q = celer.queue()

local samples = tonumber(arg[1]) or 1000000
local bins = tonumber(arg[2]) or 24

local kernel = celer.kernel [[
  // The sum of four random numbers below 2^24, of which most lie in the middle.
  kernel void sample(item<1> it, reducer<unsigned, 1> counts, reducer<int64_t> sum,
                     reducer<int64_t> least, reducer<int64_t> most, int bins) {
    philox random(1, it[0]);
    int64_t x = 0;
    for (int i = 0; i < 4; ++i) x += random.below(1 << 24);
    counts(x * bins >> 26) += 1;
    sum += x;
    least.combine(x);
    most.combine(x);
  }
]]

local counts = celer.buffer("unsigned", { bins }, { name = "counts" })
local sum = celer.buffer("int64_t", {}, { name = "sum" })
local least = celer.buffer("int64_t", {}, { name = "least" })
local most = celer.buffer("int64_t", {}, { name = "most" })

q:submit(function(cg)
  cg:parallel_for({ samples }, kernel, cg:reduce(counts, "sum"), cg:reduce(sum, "sum"),
    cg:reduce(least, "min"), cg:reduce(most, "max"), bins)
end)

local c, s, lo, hi = q:drain(counts, sum, least, most)
local largest = 1
for i = 0, bins - 1 do largest = math.max(largest, c(i)) end
for i = 0, bins - 1 do
  print(("%9d %s"):format(c(i), ("#"):rep(math.floor(60 * c(i) / largest + 0.5))))
end
local scale = 2 ^ 26
print(("mean %.6f, from %.6f to %.6f"):format(tonumber(s()) / samples / scale,
  tonumber(lo()) / scale, tonumber(hi()) / scale))
