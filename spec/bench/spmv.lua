--- spmv.lua -- what a sparse matrix times a vector sends, and how fast it goes.
---
---   mpirun -n 4 celer run --backend cpu spec/bench/spmv.lua [rows] [steps] [kind]
---   CUSPARSE=libcusparse.so.12 celer run --backend cuda --devices 1 spec/bench/spmv.lua 4e6
---   celer run spec/bench/spmv.lua rows steps kind product
---
--- y = A x, then x from y, in steps: A in compressed rows, as a band (9 in a row), a mesh whose
--- rows are scrambled (columns near the row, a few far away) or a Kronecker graph of 9 edges for
--- each row, of which few rows have most. By celer.spmv; by a kernel with an item for each row,
--- with x read by celer.image and then by celer.all. On several ranks, the bytes that they sent
--- in a step over those of the rows that they needed of other ranks. On a GPU also the product
--- alone, by celer.spmv and by cuSPARSE in turns, where CUSPARSE names that library:
--- `ratio_to` is its time over celer's. Results must be the same: to the bit, or near those of
--- others. On an idle machine with cores for all ranks, else it holds what threads wait for each
--- other. The last line is JSON. `product`: celer.spmv alone, for cpu_kernels/run.lua.
local celer = require "celer"
local core = require "celer.core"
local images = require "celer.submit.image"

local rows, steps = tonumber(arg[1]) or 200000, tonumber(arg[2]) or 50
local ranks = celer.ranks()
local q = celer.queue()

local k = celer.kernel([[
  __device__ inline uint64_t mixed(uint64_t z) {
    z = (z + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  kernel void rows_of(item<1> it, out<int, 1> ptr, int each, int more) {
    ptr(it[0]) = it[0] * each + (more > 0 ? (it[0] + more - 1) / more : 0);
  }
  kernel void band(item<1> it, out<int, 1> col, int64_t rows) {
    col(it[0]) = (it[0] / 9 + it[0] % 9 + rows - 4) % rows;
  }
  kernel void scrambled(item<1> it, out<int, 1> col, int64_t rows) {
    const int64_t block = it[0] / 129, in_block = it[0] % 129; // of 16 rows
    const int64_t row = block * 16 + (in_block < 9 ? 0 : 1 + (in_block - 9) / 8);
    const uint64_t z = mixed(it[0]);
    const int64_t near = row + int64_t(z % 2000) - 1000;
    col(it[0]) = in_block == 8 ? z % rows : near < 0 ? 0 : near < rows ? near : rows - 1;
  }
  kernel void edges(item<1> it, out<int, 1> row, out<int, 1> col, int64_t rows) {
    int64_t r = 0, c = 0;
    uint64_t z = mixed(it[0] + 77);
    for (int64_t half = 1; half < rows; half *= 2) {
      const int p = z % 100;
      z = mixed(z);
      r = 2 * r + (p >= 76), c = 2 * c + (p >= 57 && p < 76 || p >= 95);
    }
    row(it[0]) = r % rows, col(it[0]) = c % rows;
  }
  kernel void values(item<1> it, out<double, 1> val) { val(it[0]) = (it[0] % 13) / 13.0; }
  kernel void spmv(item<1> it, in<int, 1> ptr, in<int, 1> col, in<double, 1> val,
                   in<double, 1> x, out<double, 1> y) {
    double sum = 0;
    for (int k = ptr(it[0]); k < ptr(it[0] + 1); ++k) sum += val(k) * x(col(k));
    y(it[0]) = sum;
  }
  kernel void next(item<1> it, in<double, 1> y, inout<double, 1> x) {
    x(it[0]) = x(it[0]) / 2 + y(it[0]) / 16;
  }
]])

local function one_more(chunk) return chunk:with(0, chunk.min[0], chunk.max[0] + 1) end

local function put(range, kernel, ...)
  local list = { ... }
  q:submit(function(cg)
    local given = {}
    for i, v in ipairs(list) do
      given[i] = type(v) == "number" and v or cg:discard_write(v)
    end
    cg:parallel_for(range, kernel, unpack(given))
  end)
end

-- ---- matrices -----------------------------------------------------------------------------------

local function regular(name, each, more)
  local n = rows * each + (more > 0 and math.ceil(rows / more) or 0)
  local ptr, col = celer.buffer("int", rows + 1), celer.buffer("int", n)
  put(rows + 1, k.rows_of, ptr, each, more)
  put(n, k[name], col, rows)
  return ptr, col
end

local kinds = {
  band = function() return regular("band", 9, 0) end,
  scrambled = function() return regular("scrambled", 8, 16) end,
  kronecker = function()
    local n = 9 * rows
    local row, col = celer.buffer("int", n), celer.buffer("int", n)
    put(n, k.edges, row, col, rows)
    celer.sort(row, col)
    local counts, ptr = celer.buffer("int", rows + 1), celer.buffer("int", rows + 1)
    celer.histogram(counts, row)
    celer.scan("sum", ptr, counts, { exclusive = true })
    row:free()
    counts:free()
    return ptr, col
  end,
}

local function matrix(name)
  local ptr, col = kinds[name]()
  local val = celer.buffer("double", col.size[0])
  put(col.size[0], k.values, val)
  return ptr, col, val
end

-- ---- steps --------------------------------------------------------------------------------------

-- Steps per second with a product of its own, x, and what was sent in a step.
local function run(multiply)
  local x = celer.buffer("double", { rows }, { name = "x", init = 1 })
  local y = celer.buffer("double", { rows }, { name = "y" })
  local function step()
    multiply(y, x)
    q:submit(function(cg) cg:parallel_for(rows, k.next, cg:read(y), cg:read_write(x)) end)
  end
  for _ = 1, 3 do step() end
  q:wait()
  local begin = celer.time()
  for _ = 1, steps do step() end
  q:wait()
  return steps / (celer.time() - begin), q:wait(x), images.traffic(x)
end

local function by_rows(ptr, col, val, entries, of_x)
  return function(y, x)
    q:submit(function(cg)
      cg:parallel_for(rows, k.spmv, cg:read(ptr, one_more), cg:read(col, entries),
        cg:read(val, entries), cg:read(x, of_x), cg:discard_write(y))
    end)
  end
end

-- ---- without celer ------------------------------------------------------------------------------

local declarations = [[
  int cusparseCreate(void **);
  int cusparseSetStream(void *, void *);
  int cusparseCreateCsr(void **, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int,
    int);
  int cusparseCreateDnVec(void **, int64_t, void *, int);
  int cusparseSpMV_bufferSize(void *, int, const void *, void *, void *, const void *, void *, int,
    int, size_t *);
  int cusparseSpMV_preprocess(void *, int, const void *, void *, void *, const void *, void *, int,
    int, void *);
  int cusparseSpMV(void *, int, const void *, void *, void *, const void *, void *, int, int,
    void *);]]

-- In a device's thread: so many products. `given`: library, declarations, rows, entries.
local function multiply_by_cusparse(part, given, count, ...)
  local f = require "ffi"
  local views, kept = { ... }, part.kept
  local function check(code, what) assert(code == 0, what .. ": " .. code) end
  if not kept.library then
    f.cdef(given.declarations)
    kept.library = f.load(given.library)
    local out = f.new "void *[1]"
    check(kept.library.cusparseCreate(out), "cusparseCreate")
    kept.handle = out[0]
  end
  local c, h, at = kept.library, kept.handle, {}
  for i, view in ipairs(views) do at[i] = f.cast("void *", (view:pointer())) end
  local csr, vx, vy = f.new "void *[1]", f.new "void *[1]", f.new "void *[1]"
  local one, zero, size = f.new("double[1]", 1), f.new("double[1]", 0), f.new "size_t[1]"
  check(c.cusparseSetStream(h, part.stream), "cusparseSetStream")
  check(c.cusparseCreateCsr(csr, given.rows, given.rows, given.entries, at[1], at[2], at[3], 2,
    2, 0, 1), "cusparseCreateCsr") -- indices of 32 bits, doubles
  check(c.cusparseCreateDnVec(vx, given.rows, at[4], 1), "x")
  check(c.cusparseCreateDnVec(vy, given.rows, at[5], 1), "y")
  local a, x, y = csr[0], vx[0], vy[0]
  check(c.cusparseSpMV_bufferSize(h, 0, one, a, x, zero, y, 1, 0, size), "cusparseSpMV_bufferSize")
  assert(tonumber(size[0]) <= 32e6, "cuSPARSE wants more memory")
  check(c.cusparseSpMV_preprocess(h, 0, one, a, x, zero, y, 1, 0, at[6]), "preprocess")
  for _ = 1, count do
    check(c.cusparseSpMV(h, 0, one, a, x, zero, y, 1, 0, at[6]), "cusparseSpMV")
  end
end

local function by_cusparse(library)
  return function(y, ptr, col, val, x, times)
    local memory = celer.buffer("double", 4e6) -- the library's own
    local given = { library = library, declarations = declarations, rows = rows,
      entries = col.size[0] }
    q:submit(function(cg)
      local all = celer.all
      cg:interop_task(1, multiply_by_cusparse, given, times, cg:read(ptr, all), cg:read(col, all),
        cg:read(val, all), cg:read(x, all), cg:discard_write(y, all),
        cg:discard_write(memory, all))
    end)
    memory:free()
  end
end

local function timed(f)
  q:wait()
  local begin = celer.time()
  f()
  q:wait()
  return celer.time() - begin
end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

-- Seconds of a product by celer and by the other, and their ratio. What the other begins with
-- is left out: the time of many less that of few.
local function beside(other, ptr, col, val)
  local x = celer.buffer("double", rows, { init = function(i) return i % 17 / 17 end })
  local y, z = celer.buffer("double", rows), celer.buffer("double", rows)
  local ours, theirs, ratios = {}, {}, {}
  for turn = 0, 5 do
    local function mine(times) for _ = 1, times do celer.spmv(y, ptr, col, val, x) end end
    local a = (timed(function() mine(steps + 5) end) - timed(function() mine(5) end)) / steps
    local b = (timed(function() other(z, ptr, col, val, x, steps + 5) end)
      - timed(function() other(z, ptr, col, val, x, 5) end)) / steps
    if turn > 0 then ours[turn], theirs[turn], ratios[turn] = a, b, b / a end
  end
  local mine, its = q:wait(y, z)
  for i = 0, rows - 1 do
    assert(math.abs(mine(i) - its(i)) <= 1e-9 * math.abs(its(i)), "the results differ")
  end
  return median(ours), median(theirs), median(ratios)
end

-- The product alone, as cpu_kernels/run.lua reads it.
local function product(name)
  local ptr, col, val = matrix(name)
  local x = celer.buffer("double", rows, { init = function(i) return i % 17 / 17 end })
  local y = celer.buffer("double", rows)
  local function multiply(times)
    return timed(function() for _ = 1, times do celer.spmv(y, ptr, col, val, x) end end)
  end
  local prepare, seconds = multiply(10), multiply(steps)
  local sum, its = 0, q:wait(y)
  for i = 0, rows - 1 do sum = sum + its(i) end
  print(('{"prepare": %.6f, "seconds": %.9f, "checksum": %.17g}'):format(prepare, seconds, sum))
end

-- ---- the table ----------------------------------------------------------------------------------

if arg[4] == "product" then return product(arg[3]) end

local out = {}
local library = core.devices() == "cuda" and ranks == 1 and os.getenv "CUSPARSE"
local without = library and by_cusparse(library)
for _, name in ipairs { "band", "scrambled", "kronecker" } do
  if not arg[3] or arg[3] == name then
    local ptr, col, val = matrix(name)
    local entries = celer.image(ptr, { as = "ranges" })
    local best, ours = run(function(y, x) celer.spmv(y, ptr, col, val, x) end)
    local fast, mine, t = run(by_rows(ptr, col, val, entries, celer.image(col, { of = entries })))
    local slow, theirs = run(by_rows(ptr, col, val, entries, celer.all))
    for i = 0, rows - 1 do
      assert(mine(i) == theirs(i), "the results differ")
      assert(math.abs(mine(i) - ours(i)) <= 1e-9 * math.abs(mine(i)), "celer.spmv differs")
    end
    local per_step = t.exchanges > 0 and t.bytes / t.exchanges or 0
    local ratio = t.needed > 0 and t.bytes / t.needed or 1
    print(("%-10s %9.0f bytes a step, %.3f of what is needed; steps/s: celer.spmv %8.1f, by rows "
      .. "%8.1f, by celer.all (%9.0f bytes) %8.1f"):format(name, per_step, ratio, best, fast,
      (ranks - 1) * rows * 8, slow))
    local text = ('"%s": {"bytes_per_step": %.0f, "ratio": %.4f, "steps_per_second": %.2f, '
      .. '"rows_steps_per_second": %.2f, "all_steps_per_second": %.2f'):format(name, per_step,
      ratio, best, fast, slow)
    if without then
      local a, b, r = beside(without, ptr, col, val)
      print(("%-10s one product: celer.spmv %.1f us, cuSPARSE %.1f us: %.3f"):format(name, a * 1e6,
        b * 1e6, r))
      text = text .. (', "us": %.2f, "other_us": %.2f, "ratio_to": %.4f'):format(a * 1e6, b * 1e6,
        r)
    end
    out[#out + 1] = text .. "}"
    ptr:free()
    col:free()
    val:free()
  end
end
print(("{\"ranks\": %d, \"rows\": %d, %s}"):format(ranks, rows, table.concat(out, ", ")))
