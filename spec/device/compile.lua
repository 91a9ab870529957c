-- compile.lua -- kernels for specs: compiles by libceler, calls by FFI.
local ffi = require("ffi")
local cdef = require("spec.support.cdef")
local c = cdef("device/kernel.h", "device/backend.h", "device/cuda/cuda.h", "embed/embedded.h")

local M = { c = c }

--- A kernel header, with what it includes: "group.cuh".
function M.embedded(name)
  return ffi.string(c.cel_embedded_find("kernels/" .. name).data)
end

M.header = M.embedded("celer.cuh") -- the engine borrows it
c.cel_module_set_header(M.header, #M.header)

ffi.cdef([[
int setenv(const char *name, const char *value, int overwrite);
]])

--- The cache of this process, kept with the build: the engine looks it up once. Children
--- have it, too, in whatever folder they run.
M.cache = os.getenv("CELER_CACHE") or require("spec.support.celer").folder() .. "/kernel-cache"
ffi.C.setenv("CELER_CACHE", M.cache, 1)

--- What compilers' results came to in this process: found in the cache, made, not kept.
---@return {found: integer, made: integer, unkept: integer}
function M.counts()
  local n = ffi.new("cel_compiled")
  c.cel_compile_count(n)
  return { found = tonumber(n.found), made = tonumber(n.made), unkept = tonumber(n.unkept) }
end

local function strings(list)
  return ffi.new("const char *[?]", #list + 1, list), list
end

-- A cel_source, and what it borrows.
local function source_of(text, options)
  options = options or {}
  local defines, define_list = strings(options.defines or {})
  local extra, extra_list = strings(options.options or {})
  local source = ffi.new("cel_source", {
    prelude = options.prelude, block = options.block, text = text,
    contract = options.contract, file = options.file or "sim.lua",
    line = options.line or 1, directory = options.directory,
    defines = #define_list, define = defines,
    options = #extra_list, option = extra,
  })
  return source, { defines, extra, define_list, extra_list }
end

local function failure(status)
  local e = c.cel_error_last()
  return nil, ffi.string(c.cel_status_name(status)):lower(), ffi.string(e.text), e.line,
    ffi.string(e.file)
end

-- What a module that was begun comes to.
local function finished(status, out)
  if status ~= 0 then return failure(status) end
  local module = ffi.gc(out[0], c.cel_module_destroy)
  status = c.cel_module_finish(module, nil)
  if status ~= 0 then return failure(status) end
  return module
end

--- Names of functions: C's, CUDA's, and the source's own.
M.function_names = { "div", "exit", "select", "all", "any", "clock", "erfinv", "norm3d", "mine" }
M.first_parameters = { "item<1> i", "const item<2> &i", "group<1> g", "tile<4, 4> t" }

--- Kernels that cannot be told from other functions, and what is said then: line 2.
M.unclear_names = {
  "template <class T> __device__ T mine(T x) { return x; }\nkernel void mine(item<1> i) {}",
  "__device__ static int mine(int x) { return x; }\nkernel void mine(out<float, 1> o) {}",
}
M.unclear = "of the functions with a kernel's name one begins with an item, a tile or a "
  .. "group, and none is a template"

--- Names that parameters and members in celer's headers have.
M.header_names = { "c", "a", "call", "count", "entry", "sig", "view", "onto", "run", "params" }

--- Compiles kernels that reduce, of each such name, and beside defines of all.
---@param compile function  M.compile, M.check_cuda
function M.check_header_names(compile)
  local prelude = "#define CELER_OPS 0\n" .. M.embedded("reduce.cuh")
  local function check(name, defines, before)
    local module, _, message = compile((before or "") .. ("kernel void %s(item<1> i, "
      .. "reducer<int> sum, out<int, 1> o) { sum += 1; o(i[0]) = 1; }"):format(name),
      { prelude = prelude, defines = defines })
    assert(module, message)
  end
  local lines = {}
  for i, name in ipairs(M.header_names) do
    check(name)
    lines[i] = ("# define %s %d\n"):format(name, i)
  end
  check("f", M.header_names)
  check("g", nil, table.concat(lines))
end

--- A kernel that meets N and M, fractions, in all the ways that C++ has.
M.numbers = [==[
  template <class A, class B> constexpr bool alike = false;
  template <class A> constexpr bool alike<A, A> = true;
  #define IS(T, ...) static_assert(alike<T, decltype(__VA_ARGS__)>, #__VA_ARGS__)
  struct pair { float x, y; };
  __device__ pair operator*(pair a, float s) { return {a.x * s, a.y * s}; }
  template <class T> __device__ T twice(T x) { return x + x; }
  __device__ float takes(float x) { return x; }
  enum two_of { two = 2 };
  static_assert(N == 0.1 && M == 2.75 && double(N) == 0.1 && float(N) == 0.1f, "values");
  static_assert(0.1f * N == 0.1f * 0.1f && 0.1 * N == 0.1 * 0.1, "in the other's type");
  static_assert(2 * M == 5.5 && M - 1 > 1.5f && -M < 0 && int(4 * M) == 11, "constants");
  constexpr __device__ float table[] = {N, 1 - N, N * M};
  kernel void f(item<1> it, out<float, 1> o, inout<double, 1> p, inout<int, 1> n, float x,
                double y, int i, short s, bool b) {
    const unsigned u = 3;
    IS(float, x * N); IS(float, N / x); IS(double, y + N); IS(double, N - y);
    IS(float, (1 - N) * x); IS(float, i / N * x); IS(float, it[0] * N + x);
    IS(float, s * N - x); IS(float, u * N * x); IS(float, b * N * x); IS(float, two * N * x);
    IS(float, x + sqrt(N)); IS(float, abs(N) * x); IS(float, pow(x, N)); IS(double, pow(y, N));
    IS(float, pow(2, N) * x); IS(float, fmax(N, M) * x); IS(float, -N * x);
    IS(float, max(x, N)); IS(float, min(N, x)); IS(double, max(y, N)); IS(float, clamp(x, N, M));
    IS(float, b ? N : x); IS(double, b ? y : N); IS(float, (b ? N : 0) * x);
    float a = N; a = M; a += N; a *= N; a -= N; a /= N; y = N; y = i * N;
    i = int(N * 40); i = (int)(M * 40) + i * M > N; i *= M;
    const float list[] = {N, 1 - N};
    float room[int(4 * M)];
    for (float t = 0; t < M; t += N) room[int(t)] = t;
    if (N) a = twice(N) + takes(N) + expf(-N) + powf(x, N) + fmaf(x, N, a) + room[1];
    pair v = {x, N};
    v = v * N;
    const float2 w = make_float2(N, 1 - N);
    const auto half = N / 2;
    o(it[0]) = it[0] * N + a + v.x + w.y + list[1] + half * x + table[2];
    o(it[0]) *= N;
    p(it[0]) = p(it[0]) * N + y;
    n(it[0]) = int(p(it[0]) * N) + i;
    if (x > N) printf("%g %d\n", N, i);
  }
]==]

--- Compiles it, and what cannot be.
---@param compile function  M.compile, M.check_cuda
function M.check_numbers(compile)
  local options = { prelude = M.embedded "number.cuh", line = 10,
    defines = { "N=celer_number(0.10000000000000001)", "M=celer_number(2.75)" } }
  local module, _, why = compile(M.numbers, options)
  assert(module, why)
  local _, code, text, line = compile("\nkernel void f(item<1> it, out<int, 1> n) { "
    .. "const int i = it[0] * N; n(i) = 1; }", options)
  assert(code == "compile" and line == 11, text)
  assert(text:find("takes its type from what it meets: here write int(NAME)", 1, true), text)
end

--- The source of a kernel of each such name.
function M.named_as_functions(first)
  local lines = { "__device__ static float mine(float x) { return x; }" }
  for _, name in ipairs(M.function_names) do
    lines[#lines + 1] = ("kernel void %s(%s, out<float, 1> o) { o(0) = mine(1.f); }"):format(
      name, first)
  end
  return table.concat(lines, "\n")
end

--- The module, or nil, the code and the whole message.
---@param text string
---@param options? table prelude, block, file, line, directory, defines, options as in
---  cel_source; cuda
function M.compile(text, options)
  local source, borrowed = source_of(text, options) -- luacheck: ignore borrowed
  local out = ffi.new("cel_module *[1]")
  local cuda = options and options.cuda
  return finished(cuda and c.cel_module_begin_cuda(source, cuda, out)
    or c.cel_module_begin_cpu(source, out), out)
end

--- Compiles for a GPU into the cache, and loads nothing.
function M.check_cuda(text, options)
  local source, borrowed = source_of(text, options) -- luacheck: ignore borrowed
  local architecture = ffi.new("int32_t[1]", options and options.architecture or 80)
  local out = ffi.new("cel_module *[1]")
  return finished(c.cel_module_begin_images(source, architecture, 1, out), out)
end

--- Parameters of a kernel as a list of tables.
function M.params(module, kernel)
  local at = ffi.new("const cel_param *[1]")
  local n = c.cel_module_params(module, kernel or 0, at)
  local list = {}
  for i = 0, n - 1 do
    local p = at[0][i]
    list[i + 1] = {
      kind = p.kind, dims = p.dims, size = p.size, align = p.align,
      class = p.class_ == 0 and "" or string.char(p.class_), type = ffi.string(p.type),
    }
  end
  return list
end

--- A box of up to three dimensions: M.box({0, 1}, {4, 5}).
function M.box(min, max)
  local box = ffi.new("cel_box", { { 0, 0, 0 }, { 1, 1, 1 } })
  for d = 1, #max do
    box.min[d - 1], box.max[d - 1] = min[d], max[d]
  end
  return box
end

--- A view of memory that holds `layout`; the caller keeps the memory.
function M.view(memory, layout)
  return ffi.new("cel_view", { ffi.cast("void *", memory), layout, layout })
end

--- Runs kernel `k` over a chunk; `values` is a ctype's instance or nil.
function M.run(module, k, chunk, range, views, values)
  local size = values and ffi.sizeof(values) or 0
  local at = ffi.new("const cel_param *[1]")
  c.cel_module_params(module, k, at)
  local suits = ffi.new("cel_suits", { row = range.max[math.max(at[0][0].dims - 1, 0)] })
  local status = c.cel_module_suit(module, k, suits)
  if status ~= 0 then return status end
  local work = c.cel_module_work(module, k, values, math.min(size,
    c.cel_module_values_size(module, k)))
  local view = ffi.new("cel_view[?]", #views + 1)
  for i, v in ipairs(views) do view[i - 1] = v end
  local call = ffi.new("cel_call", {
    chunk = chunk, range = range, ranks = 1, views = #views, view = view,
  })
  status = work.fn(work, call)
  work.destroy(work)
  return status
end

return M
