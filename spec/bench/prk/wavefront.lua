--- wavefront.lua -- the wavefront of the Parallel Research Kernels in celer:
---
---   celer run spec/bench/prk/wavefront.lua STEPS REPETITIONS COLUMNS LINES GROUP
---
--- g(i, j) = g(i - 1, j) + g(i, j - 1) - g(i - 1, j - 1), as wavefront.c has it with MPI.
--- Each rank has a block of columns. A task has an item for each block: in task t block b
--- computes group t - b of the lines. The rows that hold the grid are skewed alike: all
--- that task t writes is in one buffer, rows[t + 2], with a row for each line of a group.
--- Column 0, a boundary, counts as the block before the first. So a block finds the line
--- above, and its left neighbour's last column, in rows[t + 1], and the corner between them
--- in rows[t].
local celer = require "celer"
local measure = require "measure"

local columns, lines, group = tonumber(arg[3]), tonumber(arg[4]), tonumber(arg[5])
local blocks = celer.ranks()
local width = math.ceil((columns - 1) / blocks)
local groups = math.ceil((lines - 1) / group)

local kernels = celer.kernel([[
  // A line of a block from the one above it and its left neighbour's.
  template <class Above>
  void line(Above above, int row_above, inout<double, 2> g, int row, int first, int end,
            double left, double corner) {
    for (int i = first; i < end; ++i) {
      const double up = above(row_above, i);
      left = left + up - corner;
      corner = up;
      g(row, i) = left;
    }
  }

  kernel void wave(item<1> it, in<double, 2> corner, in<double, 2> before, inout<double, 2> g,
                   int t) {
    const int b = it[0], first = 1 + b * WIDTH, end = min(first + WIDTH, COLUMNS);
    const int rows = min(GROUP, LINES - 1 - (t - b) * GROUP);
    if (t < b || rows <= 0) return;
    line(before, GROUP - 1, g, 0, first, end, before(0, first - 1), corner(GROUP - 1, first - 1));
    for (int r = 1; r < rows; ++r)
      line(g, r - 1, g, r, first, end, before(r, first - 1), before(r - 1, first - 1));
  }

  kernel void turn(item<0> it, in<double, 2> last, inout<double, 2> first, int row, int i) {
    first(GROUP - 1, 0) = -last(row, i);
  }
]], { defines = { COLUMNS = columns, LINES = lines, GROUP = group, WIDTH = width } })

-- Line 0 counts the columns, column 0 the lines.
local rows = {}
for k = 0, groups + blocks do
  rows[k] = celer.buffer("double", { group, columns }, {
    name = "rows" .. k,
    init = function(r, i)
      local b = i == 0 and -1 or math.floor((i - 1) / width)
      local j = (k - 1) * group + 1 + r - (b + 1) * group
      return i == 0 and j or j == 0 and i or 0
    end,
  })
end

local box, min = celer.box, celer.min
local function corner_of(chunk, buffer) -- of several blocks a box around theirs
  return box({ buffer.size[0] - 1, chunk.min[0] * width },
    { buffer.size[0], (chunk.max[0] - 1) * width + 1 })
end
local function before_of(chunk, buffer)
  return box({ 0, chunk.min[0] * width },
    { buffer.size[0], min(1 + chunk.max[0] * width, buffer.size[1]) })
end
local function own(chunk, buffer)
  return box({ 0, 1 + chunk.min[0] * width },
    { buffer.size[0], min(1 + chunk.max[0] * width, buffer.size[1]) })
end
local q = celer.queue()
local kernel, range = kernels.wave, { blocks }
local wave = q:group(function(cg, corner, before, g, t)
  cg:parallel_for(range, kernel, cg:read(corner, corner_of), cg:read(before, before_of),
    cg:write(g, own), t)
end)

-- The last corner lies in these rows, the first one in rows[0].
local at = lines - 2 + blocks * group
local last_rows, last_row = rows[math.floor(at / group) + 1], at % group
local last = celer.box({ last_row, columns - 1 }, { last_row + 1, columns })
local at_last = celer.fixed(last)
local at_first = celer.fixed(celer.box({ group - 1, 0 }, { group, 1 }))

local function step()
  for t = 0, groups + blocks - 2 do wave(rows[t], rows[t + 1], rows[t + 2], t) end
  q:submit(function(cg)
    cg:hint { place = celer.at(0) }
    cg:parallel_for({}, kernels.turn, cg:read(last_rows, at_last), cg:write(rows[0], at_first),
      last_row, columns - 1)
  end)
end

local steps = measure("wavefront", q, step)
local corner = q:drain(celer.capture(last_rows, last))(last_row, columns - 1)
assert(corner == steps * (columns + lines - 2), "the result is wrong")
