-- Launches on a GPU, of reductions above all, from cel__cuda_enqueue to the kernel
-- language, with a driver that runs blocks on the processor (gpu_host.h).
local ffi = require("ffi")
local k = require("spec.device.compile")
local exact = require("spec.support.exact")
local scratch = require("spec.support.scratch")
local c = require("spec.support.cdef")("device/kernel.h", "device/cuda/cuda_lane.h")

ffi.cdef([[
typedef struct { float value; int at; } spec_best;
cel_status cel__cuda_enqueue(const cel_cuda *cuda, int32_t device, const cel_job *job,
  int32_t lane, CUstream stream, CUresult *lost);
unsigned gpu_launches, gpu_blocks, gpu_shared;
int gpu_launch(void);
int spec_at(int kernel, int parameter);
int spec_bytes(int kernel);
void *spec_function(int kernel, int which);
]])

local OPS = "0, 0, 0, 0, 2, 7, 6, 6, 6, 6" -- sums, min, custom, sums in fixed point

local SOURCE = [[
struct best { float value; int at; };
namespace celer {
template <> CELER_FN best customs<best>(int, best a, best b) {
  return a.value > b.value || (a.value == b.value && a.at < b.at) ? a : b;
}
}
// Views 0 to 5; the operators of some are those of OPS.
kernel void one(item<1> it, in<int, 1> a, reducer<long> sum, reducer<float, 1> f,
                reducer<int, 1> h, reducer<int> least, reducer<best> most, int n) {
  const int x = a(it[0]);
  if (x % n == 0) return;
  sum += x;
  least.combine(x);
  most.combine({float(x), int(it[0])});
  f(x % 5) += x;
  h.combine(x % 37, 1);
}
kernel void two(item<2> it, reducer<long> sum, reducer<int, 2> h) {
  sum += it[0] * 1000 + it[1];
  h(it[0] % 3, it[1] % 4) += 1;
}
kernel void three(item<3> it, reducer<int> n) { n += (3 * it[0] + 5 * it[1] + 7 * it[2]) % 11; }
kernel void grouped(group<1> g, in<int, 1> a, local<int, 96> t, reducer<long> sum,
                    reducer<int, 1> h) {
  const int l = g.local(0);
  t[l] = a(g.global(0));
  if (l % 7 == 2) return;
  g.barrier();
  sum += t[(l + 1) % g.size(0)];
  h(l % 3) += 1;
  if (l % 7 == 3) return;
  g.barrier();
  sum += 1;
  if (l % 7 == 5) return;
  for (int i = 0; i < 4; ++i) g.barrier();
}
kernel void cube(group<3> g, reducer<long> sum) {
  sum += g.global(0) * 10000 + g.global(1) * 100 + g.global(2);
}
kernel void zero(item<0> it, reducer<int> n) { n += 5; }
kernel void line(item<1> it, inout<int, 1> u) { u(it[0]) += 1; }
kernel void plane(item<2> it, inout<int, 2> u) { u(it[0], it[1]) += 1; }
kernel void space(item<3> it, inout<int, 3> u) { u(it[0], it[1], it[2]) += 1; }
kernel void tiled(tile<40> t, in<int, 1> a, local<int, 40> s, reducer<long> sum,
                  reducer<int, 1> h) {
  auto mine = t.per_item<int>(1);
  t.each([&](item<1> it) { s[it.local(0)] = a(it[0]); });
  t.each([&](item<1> it) {
    if (it.local(0) % 7 == 2) return;
    mine[it] += s[(it.local(0) + 1) % t.size(0)];
    h(it.local(0) % 3) += 1;
  });
  if (t.number(0) % 5 == 4) return;
  for (int i = 0; i < 3; ++i)
    t.each([=, &mine](item<1> it) { mine[it] += i; s[it.local(0)] = mine[it]; });
  t.each([&](item<1> it) { sum += s[39 - it.local(0)]; });
}
using ints = in<int, 1>;
kernel void fixed(item<1> it, in<double, 1> a, ints, ints, ints, ints, ints,
                  reducer<double> sum, reducer<float> single, reducer<double, 1> h,
                  reducer<float, 2> s) {
  const double x = a(it[0]);
  sum += x;
  if (it[0] % 3 == 0) sum += -x * x;
  single += float(x);
  h(it[0] % 5) += x;
  s(it[0] % 2, it[0] % 3) += float(x);
}
kernel void fixed_groups(group<1> g, in<double, 1> a, local<double, 96> t, ints, ints, ints, ints,
                         ints, reducer<double> sum) {
  const int l = g.local(0);
  t[l] = a(g.global(0));
  g.barrier();
  sum += t[(l + 1) % g.size(0)];
}
// Two rows of a tile change places, in whichever plane.
kernel void swap(tile<2, 2, 4> t, inout<int, 3> u, local<int, 16> s) {
  const auto at = [](const item<3> &it, int row) {
    return (it.local(0) * 2 + row) * 4 + it.local(2);
  };
  t.each([&](item<3> it) { s[at(it, it.local(1))] = u(it[0], it[1], it[2]); });
  t.each([&](item<3> it) {
    u(it[0], it[1], it[2]) = s[at(it, 1 - it.local(1))] + 100000 * (int)t.number(1);
  });
}
]]

local NAMES = { "one", "two", "three", "grouped", "cube", "zero", "line", "plane", "space",
  "tiled", "swap", "fixed", "fixed_groups" }

local function build()
  local out = { '#include "spec/device/gpu_host.h"\n', k.header, k.embedded("group.cuh"),
    k.embedded("tile.cuh"),
    "#define CELER_OPS " .. OPS .. "\n", k.embedded("fixed.cuh"), (k.embedded("reduce.cuh")
      :gsub("extern __shared__", "extern")), SOURCE }
  local rows, ats, sizes = {}, {}, {}
  for i, name in ipairs(NAMES) do
    local reduces = SOURCE:match("kernel void " .. name .. "%b()"):find "reducer"
    out[#out + 1] = ("CELER_ENTRY(%s)\n"):format(name)
    out[#out + 1] = ([[
static void run_%s(const void *a) { celer_run_%s(*(const celer::entry<&%s>::packed *)a); }]])
      :gsub("%%s", name)
    out[#out + 1] = not reduces and "" or ([[
static void begin_%s(const void *a) { celer_begin_%s(*(const celer::entry<&%s>::packed *)a); }
static void combine_%s(const void *a) { celer_combine_%s(*(const celer::combining *)a); }
]]):gsub("%%s", name)
    rows[i] = (not reduces and "{(void *)run_%s}"
      or "{(void *)run_%s, (void *)begin_%s, (void *)combine_%s}"):format(name, name, name)
    ats[i] = ("case %d: return int(celer::signature<decltype(&%s)>::argument_at(k));")
      :format(i - 1, name)
    sizes[i] = ("int(sizeof(celer::entry<&%s>::packed))"):format(name)
  end
  out[#out + 1] = ([[
namespace celer { uint4 celer_shared[4096]; }
extern "C" {
void *spec_function(int i, int which) {
  void *all[][3] = {%s};
  return all[i][which];
}
int spec_at(int i, int k) { switch (i) { %s } return -1; }
int spec_bytes(int i) { const int all[] = {%s}; return all[i]; }
}
]]):format(table.concat(rows, ", "), table.concat(ats, " "), table.concat(sizes, ", "))
  local folder = scratch.folder()
  scratch.write(folder .. "/unit.cpp", table.concat(out, "\n"))
  local command = ("%s -std=c++17 -O1 -w -I. -fPIC -shared %s/unit.cpp -o %s/unit.so"):format(
    os.getenv("CXX") or "c++", folder, folder)
  assert(os.execute(command) == 0, command)
  return ffi.load(folder .. "/unit.so")
end

describe("a reduction on a GPU", function()
  local gpu, api, cuda
  local anchors
  setup(function()
    gpu = build()
    api, cuda = ffi.new("cel_cuda_api"), ffi.new("cel_cuda")
    api.cuLaunchKernel = ffi.cast(ffi.typeof(api.cuLaunchKernel), gpu.gpu_launch)
    cuda.api, cuda.devices = api, 1
  end)
  before_each(function() anchors = {} end)

  local function keep(value)
    anchors[#anchors + 1] = value
    return value
  end

  local function box(...)
    local b = ffi.new("cel_box")
    for d = 0, 2 do b.min[d], b.max[d] = 0, select(d + 1, ...) or 1 end
    return b
  end

  -- The kernel as module_cuda.c would describe it. Parameters: {"view", size},
  -- {"reduce", size, array} or {"value", size}.
  local function kernel_of(i, dims, params)
    local kernel = keep(ffi.new("cel_cuda_kernel"))
    local arguments = keep(ffi.new("cel_cuda_argument[?]", #params + 1))
    local place = 0
    for _, p in ipairs(params) do
      local at = 64 + gpu.spec_at(i, place)
      place = place + 1
      if p[1] ~= "local" then
        local a = arguments[kernel.arguments]
        kernel.arguments = kernel.arguments + 1
        a.view, a.reducer, a.array = p[1] ~= "value", p[1] == "reduce", p[3] or false
        a.at, a.size, a.from = at, p[2], p[1] == "reduce" and at + 32 or 0
      end
    end
    kernel.argument, kernel.dims, kernel.bytes = arguments, dims, gpu.spec_bytes(i)
    kernel["function"][0] = ffi.cast("CUfunction", gpu.spec_function(i, 0))
    kernel.begin[0] = ffi.cast("CUfunction", gpu.spec_function(i, 1))
    kernel.combine[0] = ffi.cast("CUfunction", gpu.spec_function(i, 2))
    return kernel
  end

  -- A view of dense memory; a reducer that begins with `identity` where it is
  -- given one, an array of it.
  local function view_of(memory, extent)
    local v = ffi.new("cel_view")
    v.base, v.layout, v.box = memory, extent, extent
    return v
  end

  local function enqueue(work, views, chunk, range, lane)
    local job = keep(ffi.new("cel_job"))
    job.kind = ffi.cast("cel_job_kind", "CEL_JOB_CALL")
    job.work, job.call.chunk, job.call.range = work, chunk, range
    local list = keep(ffi.new("cel_view[?]", #views + 1))
    for i, v in ipairs(views) do list[i - 1] = v end
    job.call.view, job.call.views = list, #views
    local lost = ffi.new("CUresult[1]")
    assert.equal(0, tonumber(c.cel__cuda_enqueue(cuda, 0, job, lane or 0, nil, lost)))
    assert.equal(0, tonumber(lost[0]))
  end

  -- reducers: {view from 0, extent, identity, operator}.
  local function work_of(kernel, reducers, values)
    local work = keep(ffi.new("cel_work"))
    local list = keep(ffi.new("cel_reducer[?]", #reducers + 1))
    for i, r in ipairs(reducers) do
      list[i - 1].view, list[i - 1].extent = r[1], r[2]
      list[i - 1].identity, list[i - 1].element_size = keep(r[3]), ffi.sizeof(r[3])
      list[i - 1].by.op = r[4] or 0
    end
    work.cuda, work.reducer, work.reducers, work.values = kernel, list, #reducers, values
    return work
  end

  local function input(n, f)
    local a = keep(ffi.new("int[?]", n))
    for i = 0, n - 1 do a[i] = f(i) end
    return a
  end

  local function value(i) return (i * 7919 + 31) % 4001 end

  local ONE = { { "view", 4 }, { "reduce", 8 }, { "reduce", 4, true },
    { "reduce", 4, true }, { "reduce", 4 }, { "reduce", 8 }, { "value", 4 } }

  it("comes to what it should, for one block and many, and for its lanes", function()
    for lane, n in ipairs { 1, 31, 256, 257, 4000, 20000 } do
      local sum, least = keep(ffi.new("int64_t[1]", 77)), keep(ffi.new("int[1]", 77))
      local most = keep(ffi.new("spec_best[1]"))
      local f, h = keep(ffi.new("float[5]")), keep(ffi.new("int[37]"))
      local kernel = kernel_of(0, 1, ONE)
      local work = work_of(kernel, {
        { 1, box(), ffi.new("int64_t[1]", 0) }, { 2, box(5), ffi.new("float[1]", 0) },
        { 3, box(37), ffi.new("int[1]", 0) }, { 4, box(), ffi.new("int[1]", 2 ^ 31 - 1) },
        { 5, box(), ffi.new("spec_best[1]", { { -1, 0 } }) },
      }, keep(ffi.new("int[1]", 3)))
      local views = { view_of(input(n, value), box(n)), view_of(sum, box()),
        view_of(f, box(5)), view_of(h, box(37)), view_of(least, box()), view_of(most, box()) }
      for _ = 1, 2 do enqueue(work, views, box(n), box(n), lane - 1) end
      local w = { sum = 0, least = 2 ^ 31 - 1, most = -1, at = 0, f = {}, h = {} }
      for i = 0, n - 1 do
        local x = value(i)
        if x % 3 ~= 0 then
          w.sum, w.least = w.sum + x, math.min(w.least, x)
          if x > w.most then w.most, w.at = x, i end
          w.f[x % 5] = (w.f[x % 5] or 0) + x
          w.h[x % 37] = (w.h[x % 37] or 0) + 1
        end
      end
      assert.equal(w.sum, tonumber(sum[0]))
      assert.equal(w.least, least[0])
      assert.equal(w.most, most[0].value)
      assert.equal(w.at, most[0].at)
      for i = 0, 36 do assert.equal(w.h[i] or 0, h[i]) end
      for i = 0, 4 do
        assert.is_true(math.abs((w.f[i] or 0) - f[i]) <= 1e-4 * (w.f[i] or 0))
      end
    end
  end)

  local FIXED = c.CEL_OP_FIXED
  local LIMBS = { double = 35, float = 7 }

  -- Rows of sums in fixed point, not begun, and how many elements they have.
  local function fixed_rows(kind, n)
    local row = keep(ffi.new("uint64_t[?]", n * LIMBS[kind]))
    ffi.fill(row, ffi.sizeof(row), 0x5a)
    return row
  end

  -- What some rows, or the elements of one, come to, as the task that combines has it.
  local function settled(kernel, view, kind, rows, count, n, onto)
    local into = keep(ffi.new(kind .. "[?]", n, onto or -1))
    local work = keep(ffi.new("cel_work"))
    work.cuda, work.combines = kernel, true
    work.values = keep(ffi.new("int32_t[2]", { view, onto and 3 or 2 }))
    enqueue(work, { view_of(rows, box(count, n)), view_of(into, box(n)) }, box(n), box(n))
    return into
  end

  it("is exact in fixed point, for one block and many, in shared memory and not", function()
    local ints, one = view_of(keep(ffi.new("int[1]")), box(1)), box()
    local kernel = kernel_of(11, 1, { { "view", 8 }, { "view", 4 }, { "view", 4 }, { "view", 4 },
      { "view", 4 }, { "view", 4 }, { "reduce", 8 }, { "reduce", 4 }, { "reduce", 8, true },
      { "reduce", 4, true } })
    local function work_for(bins, wide)
      return work_of(kernel, { { 6, one, ffi.new("uint64_t[35]"), FIXED },
        { 7, one, ffi.new("uint64_t[7]"), FIXED }, { 8, bins, ffi.new("uint64_t[35]"), FIXED },
        { 9, wide, ffi.new("uint64_t[7]"), FIXED } })
    end
    for _, case in ipairs { { 1 }, { 31, 5 }, { 256, 5, 30 }, { 3000, 60 }, { 5000, 5 },
      { 5000, 5, 900 }, { 3001, 300 } } do
      local n, bins, spread = case[1], case[2] or 5, case[3] or 0
      local x, w = keep(ffi.new("double[?]", n)), { sum = {}, single = {}, h = {}, s = {} }
      for i = 0, n - 1 do
        local size = spread > 0 and value(i) % (2 * spread) / 2 - spread or 0
        x[i] = (value(i) - 2000) / 7 * 2 ^ size
        table.insert(w.sum, x[i])
        if i % 3 == 0 then table.insert(w.sum, -x[i] * x[i]) end
        local f = tonumber(ffi.new("float[1]", x[i])[0])
        table.insert(w.single, f)
        local h, s = i % 5, i % 2 * 3 + i % 3
        w.h[h], w.s[s] = w.h[h] or {}, w.s[s] or {}
        table.insert(w.h[h], x[i])
        table.insert(w.s[s], f)
      end
      local rows = { fixed_rows("double", 1), fixed_rows("float", 1), fixed_rows("double", bins),
        fixed_rows("float", 6) }
      local a = view_of(x, box(n))
      enqueue(work_for(box(bins), box(2, 3)), { a, ints, ints, ints, ints, ints,
        view_of(rows[1], one), view_of(rows[2], one), view_of(rows[3], box(bins)),
        view_of(rows[4], box(2, 3)) }, box(n), box(n))
      assert.equal(n > 1 and bins < 300, gpu.gpu_shared > 0)
      exact.check(w.sum, settled(kernel, 6, "double", rows[1], 1, 1)[0], 53)
      exact.check(w.single, settled(kernel, 7, "float", rows[2], 1, 1)[0], 24)
      local h = settled(kernel, 8, "double", rows[3], 1, bins)
      for i = 0, bins - 1 do exact.check(w.h[i] or {}, h[i], 53) end
      local s = settled(kernel, 9, "float", rows[4], 1, 6)
      for i = 0, 5 do exact.check(w.s[i] or {}, s[i], 24) end
      table.insert(w.sum, 1e9)
      exact.check(w.sum, settled(kernel, 6, "double", rows[1], 1, 1, 1e9)[0], 53)
    end
  end)

  it("is exact in fixed point by groups, in several launches, and over several rows", function()
    local ints, one = view_of(keep(ffi.new("int[1]")), box(1)), box()
    local kernel = kernel_of(12, 1, { { "view", 8 }, { "local" }, { "view", 4 }, { "view", 4 },
      { "view", 4 }, { "view", 4 }, { "view", 4 }, { "reduce", 8 } })
    local work = work_of(kernel, { { 6, one, ffi.new("uint64_t[35]"), FIXED } })
    work.work_group[0] = 2
    local n = 2 * 16384 * 2 + 6
    local x, rows, list = keep(ffi.new("double[?]", n)), fixed_rows("double", 3), {}
    for i = 0, n - 1 do x[i] = (value(i) - 2000) / 7 end
    for r = 0, 2 do
      enqueue(work, { view_of(x, box(n)), ints, ints, ints, ints, ints,
        view_of(rows + 35 * r, one) }, box(n), box(n))
      for i = 0, n - 1 do list[#list + 1] = x[i] end
    end
    exact.check(list, settled(kernel, 6, "double", rows, 3, 1)[0], 53)
    local into = fixed_rows("double", 1) -- another row
    for onto = 0, 1 do
      local combine = keep(ffi.new("cel_work"))
      combine.cuda, combine.combines = kernel, true
      combine.values = keep(ffi.new("int32_t[2]", { 6, onto }))
      enqueue(combine, { view_of(rows, box(3, 1)), view_of(into, one) }, box(1), box(1))
      exact.check(list, settled(kernel, 6, "double", into, 1, 1)[0], 53)
      for i = 1, #list do list[#list + 1] = list[i] end
    end
  end)

  -- Blocks of a sum over three dimensions, which is checked.
  local function add_three(nz, ny, nx)
    local n, wanted = keep(ffi.new("int[1]")), 0
    local work = work_of(kernel_of(2, 3, { { "reduce", 4 } }),
      { { 0, box(), ffi.new("int[1]", 0) } })
    enqueue(work, { view_of(n, box()) }, box(nz, ny, nx), box(nz, ny, nx))
    for z = 0, nz - 1 do for y = 0, ny - 1 do for x = 0, nx - 1 do
      wanted = wanted + (3 * z + 5 * y + 7 * x) % 11
    end end end
    assert.equal(wanted, n[0])
    return gpu.gpu_blocks
  end

  it("has the block's shared memory where that pays, and no more blocks than there is room for",
    function()
      local function shared(n, bins)
        local memory = keep(ffi.new("int[?]", bins))
        local kernel = kernel_of(0, 1, ONE)
        local one = box()
        local work = work_of(kernel, {
          { 1, one, ffi.new("int64_t[1]", 0) }, { 2, box(5), ffi.new("float[1]") },
          { 3, box(bins), ffi.new("int[1]", 0) }, { 4, one, ffi.new("int[1]", 2 ^ 31 - 1) },
          { 5, one, ffi.new("spec_best[1]") } }, keep(ffi.new("int[1]", 5)))
        local room = keep(ffi.new("double[8]"))
        enqueue(work, { view_of(input(n, value), box(n)), view_of(room, one),
          view_of(room + 3, box(5)), view_of(memory, box(bins)), view_of(room + 1, one),
          view_of(room + 2, one) }, box(n), box(n))
        local all = 0
        for i = 0, bins - 1 do all = all + memory[i] end
        local wanted = 0
        for i = 0, n - 1 do wanted = wanted + (value(i) % 5 ~= 0 and 1 or 0) end
        assert.equal(wanted, all)
        return gpu.gpu_shared
      end
      assert.equal(32 + 160, shared(5000, 37))
      assert.equal(0, shared(300, 3000))
      assert.equal(0, shared(20000, 9000))
      -- Of 35 x 18 x 15 blocks some 2^18 threads; of 4375 small ones 4096.
      assert.equal(35 * 18 * 2, add_three(30, 70, 1100))
      assert.equal(4096, add_three(1, 1, 140000))
      assert.equal(0, gpu.gpu_shared)
    end)

  it("strides in two and three dimensions, and runs a single item", function()
    local sum, h, n = keep(ffi.new("int64_t[1]")), keep(ffi.new("int[12]")), keep(ffi.new("int[1]"))
    local two = work_of(kernel_of(1, 2, { { "reduce", 8 }, { "reduce", 4, true } }),
      { { 0, box(), ffi.new("int64_t[1]", 0) }, { 1, box(3, 4), ffi.new("int[1]", 0) } })
    local chunk = box(300, 770)
    chunk.min[0], chunk.min[1] = 10, 33
    enqueue(two, { view_of(sum, box()), view_of(h, box(3, 4)) }, chunk, box(400, 900))
    local wanted, bins = 0, {}
    for i = 10, 299 do for j = 33, 769 do
      wanted = wanted + i * 1000 + j
      local at = i % 3 * 4 + j % 4
      bins[at] = (bins[at] or 0) + 1
    end end
    assert.equal(wanted, tonumber(sum[0]))
    for i = 0, 11 do assert.equal(bins[i], h[i]) end
    add_three(5, 9, 400)
    local zero = work_of(kernel_of(5, 0, { { "reduce", 4 } }),
      { { 0, box(), ffi.new("int[1]", 0) } })
    enqueue(zero, { view_of(n, box()) }, box(), box())
    assert.equal(5, n[0])
  end)

  it("works in groups whose items return, in several launches where there are many", function()
    local GROUPED = { { "view", 4 }, { "local" }, { "reduce", 8 }, { "reduce", 4, true } }
    for _, case in ipairs { { 96, 3 }, { 40, 50 }, { 3, 20000 } } do
      local size, groups = unpack(case)
      local n = size * groups
      local sum, h = keep(ffi.new("int64_t[1]")), keep(ffi.new("int[3]"))
      local work = work_of(kernel_of(3, 1, GROUPED),
        { { 1, box(), ffi.new("int64_t[1]", 0) }, { 2, box(3), ffi.new("int[1]", 0) } })
      work.work_group[0], work.work_group[1], work.work_group[2] = size, 1, 1
      gpu.gpu_launches = 0
      enqueue(work, { view_of(input(n, value), box(n)), view_of(sum, box()), view_of(h, box(3)) },
        box(n), box(n), 5)
      local wanted, bins = 0, { [0] = 0, 0, 0 }
      for g = 0, groups - 1 do
        for l = 0, size - 1 do
          if l % 7 ~= 2 then
            wanted = wanted + value(g * size + (l + 1) % size) + (l % 7 ~= 3 and 1 or 0)
            bins[l % 3] = bins[l % 3] + 1
          end
        end
      end
      assert.equal(wanted, tonumber(sum[0]))
      for i = 0, 2 do assert.equal(bins[i], h[i]) end
      assert.equal(1 + math.ceil(groups / 16384), gpu.gpu_launches)
    end
    local sum = keep(ffi.new("int64_t[1]"))
    local work = work_of(kernel_of(4, 3, { { "reduce", 8 } }),
      { { 0, box(), ffi.new("int64_t[1]", 0) } })
    work.work_group[0], work.work_group[1], work.work_group[2] = 2, 1, 2
    gpu.gpu_launches = 0
    enqueue(work, { view_of(sum, box()) }, box(60, 50, 80), box(60, 50, 80))
    assert.equal(240000 * (29.5 * 10000 + 24.5 * 100 + 39.5), tonumber(sum[0]))
    assert.equal(4, gpu.gpu_launches) -- 8 planes of 40 x 50 at a time
  end)

  it("works in tiles, in each step and from one to the next", function()
    local TILED = { { "view", 4 }, { "local" }, { "reduce", 8 }, { "reduce", 4, true } }
    for _, tiles in ipairs { 1, 7, 17000 } do
      local n = 40 * tiles
      local sum, h = keep(ffi.new("int64_t[1]")), keep(ffi.new("int[3]"))
      local work = work_of(kernel_of(9, 1, TILED),
        { { 1, box(), ffi.new("int64_t[1]", 0) }, { 2, box(3), ffi.new("int[1]", 0) } })
      work.work_group[0], work.work_group[1], work.work_group[2] = 40, 1, 1
      gpu.gpu_launches = 0
      enqueue(work, { view_of(input(n, value), box(n)), view_of(sum, box()), view_of(h, box(3)) },
        box(n), box(n), 5)
      local wanted, bins = 0, { [0] = 0, 0, 0 }
      for i = 0, n - 1 do
        local g, l = math.floor(i / 40), i % 40
        local x = l % 7 == 2 and 0 or value(g * 40 + (l + 1) % 40)
        wanted = wanted + (g % 5 == 4 and 0 or x + 1 + 3)
        if l % 7 ~= 2 then bins[l % 3] = bins[l % 3] + 1 end
      end
      assert.equal(wanted, tonumber(sum[0]))
      for i = 0, 2 do assert.equal(bins[i], h[i]) end
      assert.equal(1 + math.ceil(tiles / 16384), gpu.gpu_launches)
    end
    local n = { 4, 6, 12 }
    local whole, chunk = box(unpack(n)), box(unpack(n))
    chunk.min[0], chunk.min[1] = 2, 2
    local u = input(4 * 6 * 12, function(i) return i end)
    local work = work_of(kernel_of(10, 3, { { "view", 4 }, { "local" } }), {})
    work.work_group[0], work.work_group[1], work.work_group[2] = 2, 2, 4
    enqueue(work, { view_of(u, whole) }, chunk, whole)
    local at = 0
    for i = 0, 3 do for j = 0, 5 do for l = 0, 11 do
      local other = j % 2 == 0 and j + 1 or j - 1
      assert.equal(i >= 2 and j >= 2 and (i * 6 + other) * 12 + l + 100000 * math.floor(j / 2)
        or at, u[at])
      at = at + 1
    end end end
  end)

  it("combines rows in order", function()
    local rows = keep(ffi.new("int[15]"))
    for i = 0, 14 do rows[i] = i end
    local into = keep(ffi.new("int[4]", { 1000, 2000, 3000, 4000 }))
    local work = keep(ffi.new("cel_work"))
    work.cuda, work.combines = kernel_of(0, 1, ONE), true
    for onto = 0, 1 do
      work.values = keep(ffi.new("int32_t[2]", { 3, onto }))
      local v = view_of(rows, box(3, 5))
      v.box = box(3, 4)
      enqueue(work, { v, view_of(into, box(2, 2)) }, box(4), box(4))
      for i = 0, 3 do assert.equal((onto + 1) * (3 * i + 15), into[i]) end
    end
    local v = view_of(rows, box(3, 5)) -- one rank's own, from the second on
    v.box = box(3, 4)
    v.box.min[0] = 1
    work.values = keep(ffi.new("int32_t[2]", { 3, 0 }))
    enqueue(work, { v, view_of(into, box(2, 2)) }, box(4), box(4))
    for i = 0, 3 do assert.equal(2 * i + 15, into[i]) end
  end)

  it("computes each item once, by as few threads as leave the GPU none for long", function()
    -- Blocks, by how many threads the GPU has.
    for _, case in ipairs {
      { 6, { 2000 }, { [0] = 8, [250] = 8, [249] = 4, [125] = 4, [124] = 2 } },
      { 6, { 20 }, { [1] = 1 } },
      { 7, { 37, 70 }, { [0] = 3 * 5, [1000] = 3 * 9, [306] = 3 * 5, [153] = 3 * 3 } },
      { 7, { 21, 300 }, { [746] = 5 * 10, [745] = 5 * 5, [372] = 5 * 3, [1] = 5 * 3 } },
      { 7, { 3, 300 }, { [1] = 5 } },
      { 7, { 300, 16 }, { [0] = 19, [1] = 10 } }, -- rows of which a warp has several
      { 7, { 70000, 5 }, { [0] = 1094, [1] = 547 } },
      { 7, { 8, 3000 }, { [1] = 94 } }, -- too few rows for four to a thread
      { 8, { 11, 9, 40 }, { [0] = 2 * 2 * 5, [350] = 2 * 2 * 5, [175] = 2 * 2 * 3,
        [1] = 2 * 2 * 2 } },
    } do
      local kernel, n = kernel_of(case[1], #case[2], { { "view", 4 } }), case[2]
      local whole, chunk = box(unpack(n)), box(unpack(n))
      chunk.min[0], chunk.min[1] = 1, n[2] and 2 or 0
      for threads, blocks in pairs(case[3]) do
        cuda.device[0].threads = threads
        local u, at = keep(ffi.new("int[?]", n[1] * (n[2] or 1) * (n[3] or 1))), 0
        enqueue(work_of(kernel, {}), { view_of(u, whole) }, chunk, whole)
        assert.equal(blocks, gpu.gpu_blocks)
        for i = 0, n[1] - 1 do for j = 0, (n[2] or 1) - 1 do for _ = 1, n[3] or 1 do
          assert.equal(i >= 1 and j >= chunk.min[1] and 1 or 0, u[at])
          at = at + 1
        end end end
      end
    end
  end)

  it("computes each item once, whatever the shape, the chunk and the GPU", function()
    math.randomseed(17)
    local random = math.random
    for run = 1, 100 do
      local dims, n, left = random(3), {}, 10000
      for d = 1, dims do
        n[d] = math.floor(left ^ (random(4) > 1 and random() or 1))
        left = left / n[d]
      end
      -- Dimensions in any order: the long one may be any of them.
      local other = random(dims)
      n[1], n[other] = n[other], n[1]
      local whole, chunk = box(unpack(n)), box(unpack(n))
      for d = 0, dims - 1 do
        chunk.min[d] = random(3) > 1 and random(0, n[d + 1] - 1) or 0
      end
      cuda.device[0].threads = ({ 0, 1, 10, 100, 1000, 270336 })[random(6)]
      local u = keep(ffi.new("int[?]", n[1] * (n[2] or 1) * (n[3] or 1)))
      enqueue(work_of(kernel_of(5 + dims, dims, { { "view", 4 } }), {}), { view_of(u, whole) },
        chunk, whole)
      local sum, count = keep(ffi.new("int[1]")), 0
      enqueue(work_of(kernel_of(2, 3, { { "reduce", 4 } }), { { 0, box(), ffi.new("int[1]", 0) } }),
        { view_of(sum, box()) }, chunk, whole)
      local at = 0
      for z = 0, n[1] - 1 do for y = 0, (n[2] or 1) - 1 do for x = 0, (n[3] or 1) - 1 do
        local inside = z >= chunk.min[0] and y >= chunk.min[1] and x >= chunk.min[2]
        if u[at] ~= (inside and 1 or 0) then
          error(("run %d: item (%d, %d, %d) of %s"):format(run, z, y, x,
            table.concat(n, " x ")))
        end
        if inside then count = count + (3 * z + 5 * y + 7 * x) % 11 end
        at = at + 1
      end end end
      assert.equal(count, sum[0], "run " .. run)
      anchors = {}
    end
  end)
end)
