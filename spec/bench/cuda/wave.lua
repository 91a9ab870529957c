-- The wave step in celer.
--   celer run wave.lua rows columns steps [idle | tiles]
-- With `tiles` cut in both dimensions, so that columns are exchanged, too.
local celer = require "celer"
local measure = require "measure"

local rows, w = tonumber(arg[1]) or 256, tonumber(arg[2]) or 256
local steps, stamped = tonumber(arg[3]) or 20, arg[4] == "idle"
local warm = 10
local last = warm + steps

local q = celer.queue()
if arg[4] == "tiles" then q:hint { split = "2d" } end
local u = celer.buffer("float", { rows, w }, { name = "u" })
local up = celer.buffer("float", { rows, w }, { name = "up" })
local sums = celer.buffer("double", { rows }, { name = "sums" })

local k = celer.kernel [[
  kernel void drop(item<2> it, out<float, 2> u) {
    const int rows = it.range(0), w = it.range(1);
    const float dy = it[0] - rows / 4, dx = it[1] - w / 3, width = w / 24;
    u(it[0], it[1]) = expf(-(dy * dy + dx * dx) / (width * width));
  }

  kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
  }

  __device__ inline uint64_t stamp() {
    uint64_t t = 0;
  #ifdef __CUDA_ARCH__
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  #endif
    return t;
  }

  kernel void stamped(item<2> it, inout<float, 2> up, in<float, 2> u,
                      out<uint64_t, 2> begin, out<uint64_t, 2> end, float c, int t) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    if (x == 0) begin(t, y) = stamp();
    const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
    if (x == w - 1) end(t, y) = stamp();
  }

  kernel void row_sums(item<1> it, in<float, 2> u, out<double, 1> sums, int w) {
    double sum = 0;
    for (int x = 0; x < w; ++x) sum += fabsf(u(it[0], x));
    sums(it[0]) = sum;
  }
]]

local begins, ends
if stamped then
  begins = celer.buffer("uint64_t", { last, rows }, { name = "begins" })
  ends = celer.buffer("uint64_t", { last, rows }, { name = "ends" })
end

local function cross(chunk) return chunk:grow(1, 0), chunk:grow(0, 1) end

for _, field in ipairs { u, up } do
  q:submit(function(cg)
    cg:parallel_for({ rows, w }, k.drop, cg:discard_write(field))
  end)
end

local function plain()
  q:submit(function(cg)
    local new, old = cg:read_write(up), cg:read(u, cross)
    cg:parallel_for({ rows, w }, k.step, new, old, 0.25)
  end)
end

local function with_stamps(t)
  q:submit(function(cg)
    local function line(chunk)
      return celer.box({ t, chunk.min[0] }, { t + 1, chunk.max[0] })
    end
    cg:hint { granularity = rows } -- one chunk, so no two write the same stamps
    local new, old = cg:read_write(up), cg:read(u, cross)
    cg:parallel_for({ rows, w }, k.stamped, new, old, cg:discard_write(begins, line),
      cg:discard_write(ends, line), 0.25, t)
  end)
end

local step = stamped and with_stamps or plain
measure.loop(q, warm, steps, function(from, to)
  for t = from, to - 1 do
    step(t)
    u, up = up, u
  end
end)

q:submit(function(cg)
  local whole = cg:read(u, function(chunk)
    return celer.box({ chunk.min[0], 0 }, { chunk.max[0], w })
  end)
  cg:parallel_for({ rows }, k.row_sums, whole, cg:discard_write(sums), w)
end)

local int64 = require("ffi").typeof("int64_t")

-- Mean time between the end of a step and the start of the next, in us.
local function idle()
  local timed = celer.box({ warm, 0 }, { last, rows })
  local b, e = q:wait(celer.capture(begins, timed), celer.capture(ends, timed))
  local origin, total = b(warm, 0), 0
  for t = warm, last - 2 do
    local stop, start = -math.huge, math.huge
    for y = 0, rows - 1 do
      stop = math.max(stop, tonumber(int64(e(t, y) - origin)))
      start = math.min(start, tonumber(int64(b(t + 1, y) - origin)))
    end
    total = total + start - stop
  end
  return total / (steps - 1) / 1e3
end

measure.report(measure.sum(q, sums, rows), stamped and idle() or nil)
