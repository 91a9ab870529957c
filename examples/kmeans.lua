-- Groups of points, by k-means: one rank says where the middles of the groups are, all
-- ranks read all of these and say of each of their points which is nearest, and the
-- one reads what all say and moves the middles.
-- The kernels are in C++, as they compute with pairs of whole numbers (int2), and divide as C does.
--   celer run kmeans.lua [points] [groups] [rounds]
local celer = require "celer"

local n = tonumber(arg[1]) or 20000
local groups = tonumber(arg[2]) or 6
local rounds = tonumber(arg[3]) or 10

local q = celer.queue()
local middle = celer.buffer("int2", { groups }, { name = "middle" })
local nearest = celer.buffer("int", { n }, { name = "nearest" })

local kernels = celer.kernel [[
  // Where point i is: around one of seven places, by whole numbers, so that the result
  // is the same however the work is divided.
  __device__ inline int2 point(int i) {
    const unsigned h = (i + 1) * 2654435761u, g = (h >> 7) * 40503u, place = i % 7;
    int2 p;
    p.x = place * 9000 + (h >> 10) % 6000;
    p.y = place * place % 7 * 11000 + (g >> 9) % 5000;
    return p;
  }

  kernel void begin(item<1> it, out<int2, 1> middle, int groups) {
    for (int k = 0; k < groups; ++k) middle(k) = point(k * 31);
  }

  kernel void choose(item<1> it, in<int2, 1> middle, out<int, 1> nearest, int groups) {
    const int2 p = point(it[0]);
    long long least = -1;
    for (int k = 0; k < groups; ++k) {
      const long long dx = p.x - middle(k).x, dy = p.y - middle(k).y;
      if (least < 0 || dx * dx + dy * dy < least) {
        least = dx * dx + dy * dy;
        nearest(it[0]) = k;
      }
    }
  }

  kernel void move(item<1> it, in<int, 1> nearest, inout<int2, 1> middle, int groups, int n) {
    for (int k = 0; k < groups; ++k) {
      long long x = 0, y = 0, count = 0;
      for (int i = 0; i < n; ++i) {
        if (nearest(i) != k) continue;
        x += point(i).x;
        y += point(i).y;
        ++count;
      }
      if (count == 0) continue;
      int2 m;
      m.x = x / count;
      m.y = y / count;
      middle(k) = m;
    }
  }
]]

q:submit(function(cg)
  cg:parallel_for(1, kernels.begin, cg:discard_write(middle, celer.all), groups)
end)
for _ = 1, rounds do
  q:submit(function(cg)
    local m, near = cg:read(middle, celer.all), cg:discard_write(nearest)
    cg:parallel_for(n, kernels.choose, m, near, groups)
  end)
  q:submit(function(cg)
    local near, m = cg:read(nearest, celer.all), cg:read_write(middle, celer.all)
    cg:parallel_for(1, kernels.move, near, m, groups, n)
  end)
end

local m, near = q:drain(celer.capture(middle), celer.capture(nearest))
local count = {}
for i = 0, n - 1 do count[near[i]] = (count[near[i]] or 0) + 1 end
for k = 0, groups - 1 do
  print(("group %d: %d points around (%d, %d)"):format(k, count[k] or 0, m[k].x, m[k].y))
end
