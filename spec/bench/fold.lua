--- fold.lua -- time steps that are taken together, beside the same one by one.
---
---   celer run [--backend cuda] spec/bench/fold.lua [turns] [case ...]
---   celer run --backend cuda --devices 2 spec/bench/fold.lua [turns] over [case ...]
---
--- Cases are those of CASES below, or a name and an extent as one word, "wave=4096"; so also
--- wavetorus and graytorus, which read around the ends of their buffers. In turns of
--- some steps with `fold = 1` and with as many as the case says. Microseconds per step, medians,
--- by the script's clock with a q:wait at the end of each turn. First a smaller one is computed
--- both ways, and its bits are compared. On a GPU what takes several steps in one launch is
--- compiled meanwhile, so each runs for some seconds first. The last line is JSON.
---
--- With the word "over": on one device, and over all devices of all ranks, in turns, with as many
--- steps together as celer takes by itself. One GPU may be named twice (--devices 0,0), which says
--- nothing about two, but shows what they would have to do besides.
local celer = require "celer"
local core = require "celer.core"

local TURNS = tonumber(arg[1]) or 5
local OVER = arg[2] == "over"
local COMPILE_SECONDS, TURN_SECONDS = 3, 0.15
local WARM_SECONDS = core.devices() == "cuda" and 16 or 4 -- a large stream takes 10 to compile
local q = celer.queue()

-- All devices, and how to have one of them do all.
local _, own_devices = core.devices()
local devices = own_devices * celer.ranks()
local first_alone = celer.weights(function(rank)
  local each = {}
  for i = 1, own_devices do each[i] = rank == 0 and i == 1 and 1 or 0 end
  return each
end)

local kernels = celer.kernel [[
  kernel void drop(item<2> it, out<float, 2> u, float share) {
    const float h = it.range(0), w = it.range(1);
    const float dy = (it[0] - h / 4) / h, dx = (it[1] - w / 3) / w;
    u(it[0], it[1]) = share * expf(-400 * (dy * dy + dx * dx));
  }
  kernel void wave(item<2> it, in<float, 2> u, inout<float, 2> up, float c) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
  }
  kernel void gray(item<2> it, in<float, 2> u, in<float, 2> v, out<float, 2> nu,
                   out<float, 2> nv, float feed, float kill) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const int n = max(y - 1, 0), s = min(y + 1, h - 1);
    const int l = max(x - 1, 0), r = min(x + 1, w - 1);
    const float a = u(y, x), b = v(y, x), abb = a * b * b;
    nu(y, x) = a + 0.16f * (u(n, x) + u(s, x) + u(y, l) + u(y, r) - 4 * a) - abb +
               feed * (1 - a);
    nv(y, x) = b + 0.08f * (v(n, x) + v(s, x) + v(y, l) + v(y, r) - 4 * b) + abb -
               (feed + kill) * b;
  }
  kernel void wavetorus(item<2> it, near<float, 2> u, inout<float, 2> up, float c) {
    const int y = it[0], x = it[1];
    const float uy = u(y + 1, x) + u(y - 1, x), ux = u(y, x + 1) + u(y, x - 1);
    up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
  }
  kernel void graytorus(item<2> it, near<float, 2> u, near<float, 2> v, out<float, 2> nu,
                        out<float, 2> nv, float feed, float kill) {
    const int y = it[0], x = it[1];
    const float a = u(y, x), b = v(y, x), abb = a * b * b;
    nu(y, x) = a + 0.16f * (u(y - 1, x) + u(y + 1, x) + u(y, x - 1) + u(y, x + 1) - 4 * a) -
               abb + feed * (1 - a);
    nv(y, x) = b + 0.08f * (v(y - 1, x) + v(y + 1, x) + v(y, x - 1) + v(y, x + 1) - 4 * b) +
               abb - (feed + kill) * b;
  }
  kernel void soup(item<2> it, out<uint8_t, 2> board) {
    const unsigned n = unsigned(it[0]) * 7919u + unsigned(it[1]) * 104729u;
    board(it[0], it[1]) = (n ^ n >> 7) % 3 == 0;
  }
  kernel void life(item<2> it, in<uint8_t, 2> now, out<uint8_t, 2> after) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    int around = 0;
    for (int i = max(y - 1, 0); i <= min(y + 1, h - 1); ++i)
      for (int j = max(x - 1, 0); j <= min(x + 1, w - 1); ++j) around += now(i, j);
    const int here = now(y, x);
    after(y, x) = around - here == 3 || (around - here == 2 && here == 1);
  }
  kernel void one(item<2> it, in<float, 2> x, out<float, 2> y) {
    y(it[0], it[1]) = 0.5f * x(it[0], it[1]) + 1;
  }
  kernel void two(item<2> it, in<float, 2> x, in<float, 2> y, out<float, 2> z) {
    z(it[0], it[1]) = y(it[0], it[1]) * x(it[0], it[1]) - 0.25f;
  }
  kernel void three(item<2> it, in<float, 2> z, inout<float, 2> y) {
    y(it[0], it[1]) += z(it[0], it[1]) * 0.125f;
  }
  kernel void four(item<2> it, in<float, 2> y, inout<float, 2> z) {
    z(it[0], it[1]) = fabsf(z(it[0], it[1]) - y(it[0], it[1]));
  }
  kernel void five(item<2> it, in<float, 2> z, inout<float, 2> x) {
    x(it[0], it[1]) = 0.75f * x(it[0], it[1]) + 0.25f * z(it[0], it[1]);
  }
  kernel void total(item<2> it, in<float, 2> x, reducer<float> sum) {
    sum += x(it[0], it[1]);
  }
  kernel void drop3(item<3> it, out<float, 3> u) {
    u(it[0], it[1], it[2]) = (it[0] * 31 + it[1] * 17 + it[2]) % 101 * 0.01f;
  }
  kernel void heat(item<3> it, in<float, 3> a, out<float, 3> b) {
    const int i = it[0], j = it[1], k = it[2];
    const int p = it.range(0) - 1, r = it.range(1) - 1, s = it.range(2) - 1;
    const float here = a(i, j, k);
    b(i, j, k) = here + 0.1f * (a(max(i - 1, 0), j, k) + a(min(i + 1, p), j, k) +
      a(i, max(j - 1, 0), k) + a(i, min(j + 1, r), k) + a(i, j, max(k - 1, 0)) +
      a(i, j, min(k + 1, s)) - 6 * here);
  }
]]

local around, cross = celer.clamped(1, 1), celer.clamped(1, "along_axes")
local torus = celer.periodic(1, "along_axes")

local function field(n, kind)
  return celer.buffer(kind or "float", { n, n })
end

local function drop(n, buffer, share)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, kernels.drop, cg:discard_write(buffer), share)
  end)
end

-- What makes the buffers; it returns a step, and what to compare: a buffer, and an element.
local programs = {}

local function wave(n, kernel, around_item)
  local u, up = field(n), field(n)
  drop(n, u, 1)
  drop(n, up, 1)
  return function()
    q:submit(function(cg)
      cg:parallel_for({ n, n }, kernel, cg:read(u, around_item), cg:read_write(up), 0.25)
    end)
    u, up = up, u
  end, function() return u end
end

local function gray(n, kernel, around_item)
  local u, v, nu, nv = field(n), field(n), field(n), field(n)
  drop(n, u, 0.5)
  drop(n, v, 0.25)
  return function()
    q:submit(function(cg)
      cg:parallel_for({ n, n }, kernel, cg:read(u, around_item), cg:read(v, around_item),
        cg:discard_write(nu), cg:discard_write(nv), 0.055, 0.062)
    end)
    u, v, nu, nv = nu, nv, u, v
  end, function() return u end
end

function programs.wave(n) return wave(n, kernels.wave, cross) end
function programs.gray(n) return gray(n, kernels.gray, cross) end
function programs.wavetorus(n) return wave(n, kernels.wavetorus, torus) end
function programs.graytorus(n) return gray(n, kernels.graytorus, torus) end

function programs.life(n)
  local now, after = field(n, "uint8_t"), field(n, "uint8_t")
  q:submit(function(cg) cg:parallel_for({ n, n }, kernels.soup, cg:discard_write(now)) end)
  return function()
    q:submit(function(cg)
      cg:parallel_for({ n, n }, kernels.life, cg:read(now, around), cg:discard_write(after))
    end)
    now, after = after, now
  end, function() return now end
end

-- Five tasks and a sum are one step, and one fold. So that it waits for what comes next, which
-- overwrites y and z, it may have twice as many.
function programs.chain(n)
  local x, y, z = field(n), field(n), field(n)
  local sum = celer.buffer("float", { 1 })
  drop(n, x, 1)
  local range = { n, n }
  local tasks = {
    function(cg) cg:parallel_for(range, kernels.one, cg:read(x), cg:discard_write(y)) end,
    function(cg)
      cg:parallel_for(range, kernels.two, cg:read(x), cg:read(y), cg:discard_write(z))
    end,
    function(cg) cg:parallel_for(range, kernels.three, cg:read(z), cg:read_write(y)) end,
    function(cg) cg:parallel_for(range, kernels.four, cg:read(y), cg:read_write(z)) end,
    function(cg) cg:parallel_for(range, kernels.five, cg:read(z), cg:read_write(x)) end,
    function(cg) cg:parallel_for(range, kernels.total, cg:read(x), cg:reduce(sum, "sum")) end,
  }
  return function()
    for _, task in ipairs(tasks) do q:submit(task) end
  end, function() return x end, sum
end

function programs.heat3d(n)
  local a, b = celer.buffer("float", { n, n, n }), celer.buffer("float", { n, n, n })
  q:submit(function(cg) cg:parallel_for({ n, n, n }, kernels.drop3, cg:discard_write(a)) end)
  return function()
    q:submit(function(cg)
      cg:parallel_for({ n, n, n }, kernels.heat, cg:read(a, cross), cg:discard_write(b))
    end)
    a, b = b, a
  end, function() return a end
end

-- Name, extent, steps that are taken together, microseconds that a step is to take at most.
local CASES = {
  { "wave", 16384, 16, 290 }, { "wave", 4096, 16, 28 }, { "wave", 1024, 16, 3.2 },
  { "gray", 8192, 16, 175 }, { "life", 16384, 16, 580 }, { "chain", 16384, 12, 1000 },
  { "heat3d", 512, 4 },
}
-- Of the comparison: not a multiple of what blocks have, and steps that no launch takes alike.
local SMALL, STEPS = { heat3d = 61 }, 37

local function chosen()
  local first = OVER and 3 or 2
  if not arg[first] then return CASES end
  local cases = {}
  for i = first, #arg do
    local name, n = arg[i]:match("^(%w+)=?(%d*)$")
    assert(programs[name], "no such case: " .. arg[i])
    for _, case in ipairs(CASES) do
      if case[1] == name and n == "" then cases[#cases + 1] = case end
    end
    if n ~= "" then cases[#cases + 1] = { name, tonumber(n), name == "chain" and 12 or 16 } end
  end
  return cases
end

-- The contents after some steps; before that, while what takes several at once is compiled, they
-- are as they may be.
local function contents(name, n, way, before)
  q:hint(way.hint)
  local step = programs[name](n)
  local start = celer.time()
  while before > 0 and celer.time() - start < COMPILE_SECONDS do
    for _ = 1, before do step() end
    q:wait()
  end
  local result, sum
  step, result, sum = programs[name](n)
  for _ = 1, STEPS do step() end
  return q:fence(result()):get(), sum and q:fence(sum):get()(0)
end

local function same(name, ways)
  local n = SMALL[name] or 333
  local plain, sum = contents(name, n, ways[1], OVER and STEPS or 0)
  local other, other_sum = contents(name, n, ways[2], STEPS)
  -- Parts of a plain sum are other ones over several devices.
  if not OVER and sum ~= other_sum then
    error(("%s with %s comes to %.17g, not %.17g"):format(name, ways[2].text, other_sum, sum))
  end
  for i = 0, n - 1, name == "heat3d" and 7 or 1 do
    for j = 0, n - 1 do
      local a = name == "heat3d" and plain(i, j, j) or plain(i, j)
      local b = name == "heat3d" and other(i, j, j) or other(i, j)
      if a ~= b then
        error(("%s with %s differs at %d, %d: %.17g, not %.17g"):format(name, ways[2].text, i,
          j, b, a))
      end
    end
  end
end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

local function seconds_of(step, steps)
  local start = celer.time()
  for _ = 1, steps do step() end
  q:wait()
  return celer.time() - start
end

-- So many steps that a turn takes about TURN_SECONDS, in whole folds.
local function steps_for(step, fold)
  local steps = fold * 4
  seconds_of(step, steps)
  local each = seconds_of(step, steps) / steps
  return math.max(1, math.ceil(TURN_SECONDS / each / fold)) * fold
end

-- What is measured beside each other: hints, and a word.
local function ways_of(fold)
  if OVER then
    return { { hint = { weights = first_alone } },
      { hint = { weights = "equal" }, text = devices .. " devices" } }
  end
  return { { hint = { fold = 1 } }, { hint = { fold = fold }, text = "fold = " .. fold } }
end

-- Turns of each way, and between them some steps that do not count. Over several devices each has
-- buffers of its own, which stay where they are.
local function medians(case, ways)
  local name, n, fold = case[1], case[2], case[3]
  local took, step, steps = { {}, {} }, {}, {}
  for way = 1, 2 do
    q:hint(ways[way].hint)
    step[way] = way == 2 and not OVER and step[1] or programs[name](n)
    q:wait()
  end
  for way = OVER and 1 or 2, 2 do
    q:hint(ways[way].hint)
    local start = celer.time()
    steps[way] = steps_for(step[way], fold)
    while celer.time() - start < WARM_SECONDS do seconds_of(step[way], steps[way]) end
    steps[way] = OVER and steps_for(step[way], 4 * fold) or steps[way]
  end
  for _ = 1, TURNS do
    for way = 1, 2 do
      local each = steps[way] or steps[2]
      q:hint(ways[way].hint)
      seconds_of(step[way], fold * 2)
      table.insert(took[way], seconds_of(step[way], each) / each * 1e6)
    end
  end
  return median(took[1]), median(took[2])
end

local function measure(case)
  local name, n, fold, most = case[1], case[2], case[3], case[4]
  local ways = ways_of(fold)
  same(name, ways)
  local plain, other = medians(case, ways)
  if OVER then
    print(("%-7s %6d  %d devices: %9.2f us a step, one %9.2f: %.2f times"):format(name, n, devices,
      other, plain, plain / other))
    return ('"%s_%d": {"devices": %d, "us": %.2f, "one_us": %.2f, "ratio": %.3f}'):format(name, n,
      devices, other, plain, plain / other)
  end
  print(("%-7s %6d  fold %2d: %9.2f us a step, alone %9.2f: %.2f times%s"):format(name, n, fold,
    other, plain, plain / other,
    most and (other <= most and ", within %g" or ", over %g"):format(most) or ""))
  return ('"%s_%d": {"fold": %d, "us": %.2f, "alone_us": %.2f%s}'):format(name, n, fold, other,
    plain, most and (', "target_us": %g'):format(most) or "")
end

local lines = {}
for _, case in ipairs(chosen()) do
  lines[#lines + 1] = measure(case)
  collectgarbage()
  q:wait()
end
print("{" .. table.concat(lines, ", ") .. "}")
