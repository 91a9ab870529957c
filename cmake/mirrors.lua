-- mirrors.lua -- checks that what C says to kernels, and kernels to C, is said alike.
-- Usage: luajit cmake/mirrors.lua, from the project root.
--
-- Kernel headers cannot include the engine's, as compilers for GPUs have no other
-- headers. So a few structs, enums and numbers stand on both sides. Those that C and
-- celer's Lua share have one source instead: engine/embed/core/core_facts.c.

-- C's file and struct, the kernels' file and struct, whether the second is only the
-- beginning of the first.
local structs = {
  { "region/box.h", "cel_box", "celer.cuh", "box" },
  { "task/work.h", "cel_lines", "celer.cuh", "lines" },
  { "task/work.h", "cel_view", "celer.cuh", "view" },
  { "task/work.h", "cel_call", "celer.cuh", "call", true },
  { "device/kernel.h", "cel_param", "celer.cuh", "param" },
  { "task/touched.h", "cel_touched", "mark.cuh", "touched" },
  { "device/bounds.h", "cel__fault", "bounds.cuh", "fault" },
  { "device/bounds.h", "cel__fault", "sample.cuh", "fault", true },
  { "device/sample.h", "cel__promise", "sample.cuh", "promise" },
  { "device/sample.h", "cel__units", "sample.cuh", "units" },
  { "device/cuda/cuda_job.c", "launch", "launch.cuh", "launch" },
  { "device/cuda/cuda_reduce.c", "combining", "reduce_launch.cuh", "combining" },
  { "device/cuda/cuda_fold.c", "fold_array", "fold.cuh", "fold_array" },
  { "device/cuda/cuda_copy.h", "cel_cuda_strided", "strided.cuh", "celer_strided" },
}

-- File and pattern of a text, twice: what the patterns capture must be equal.
local texts = {
  { "engine/device/cuda/cuda_fold.c", "TILE = (%d+)", "kernels/fold.cuh", "TX = (%d+)" },
  { "engine/device/cuda/cuda_fold.c", "TILE = (%d+)", "kernels/fold.cuh", "TY = (%d+)" },
  { "engine/device/cuda/cuda_fold.c", "TILE_ROWS = (%d+)", "kernels/fold.cuh", "rows = (%d+)" },
  { "engine/device/cuda/cuda_fold.h", "CEL_FUSED_LANES = (%d+)",
    "kernels/stream.cuh", "lanes = (%d+)" },
  { "engine/device/cuda/cuda_fold.h", "CEL_FUSED_OWN = (%d+)",
    "kernels/stream.cuh", "own = (%d+)" },
  { "engine/device/cuda/cuda_reduce.h", "CEL__LAUNCH_SHARED = (%w+)",
    "kernels/reduce_launch.cuh", "flag_shared = (%w+)" },
  { "engine/device/cuda/cuda_reduce.h", "CEL__LAUNCH_ONTO = (%w+)",
    "kernels/reduce_launch.cuh", "flag_onto = (%w+)" },
  { "engine/device/cuda/cuda_reduce.h", "CEL__REDUCE_BLOCKS = (%d+)",
    "kernels/reduce_launch.cuh", "a_group %? %d+ : (%d+);" },
  { "engine/device/cuda/cuda_reduce.h", "CEL__REDUCE_GROUPS = (%d+)",
    "kernels/reduce_launch.cuh", "a_group %? (%d+) : %d+;" },
  { "engine/base/operator.c", "FLOAT_ROW = (%d+)",
    "kernels/fixed.cuh", "sizeof%(fixed<float>%) == (%d+)" },
  { "engine/base/operator.c", "DOUBLE_ROW = (%d+)",
    "kernels/fixed.cuh", "sizeof%(fixed<double>%) == (%d+)" },
  { "engine/device/cuda/cuda.h", "CEL_COMBINE_ONTO = (%d+)",
    "kernels/reduce.cuh", "how_onto = (%d+)" },
  { "engine/device/cuda/cuda.h", "CEL_COMBINE_SETTLES = (%d+)",
    "kernels/reduce.cuh", "how_settles = (%d+)" },
  { "engine/base/status.h", "CEL_LINE = (%d+)",
    "kernels/reduce_loop.cuh", "line_elements = (%d+) /" },
  { "engine/device/cuda/cuda_job.c", "[^_]BLOCK = (%d+)",
    "kernels/launch.cuh", "int threads = (%d+);" },
  { "engine/device/cuda/cuda_job.c", "ARGUMENTS = (%d+)",
    "kernels/plain.cuh", "sizeof%(packed%) <= (%d+)" },
  { "engine/device/compile/source.h", 'CEL_SOURCE_HEADERS "(.-)"',
    "cmake/flatten.awk", '#line %%d \\"(<celer>/)' },
  { "engine/device/compile/source.h", 'CEL_SOURCE_HEADERS "(.-)"',
    "lua/celer/kernel/reduce.lua", '#line 1 \\"(<celer>/)' },
  { "lua/celer/kernel/nd_range.lua", "MOST = (%d+)", "kernels/group.cuh", "int most = (%d+)" },
  { "lua/celer/kernel/nd_range.lua", "MOST_PLANES = (%d+)",
    "engine/device/cuda/cuda_job.c", "BLOCK_Z = (%d+)" },
  { "lua/celer/io/slab.lua", "(uint64_t cel_hash.-;)", "engine/base/hash.h",
    "(uint64_t cel_hash.-;)" },
  { "engine/device/compile/stock.c", "STEM = (%d+)",
    "lua/celer/tools/cache.lua", "STEM = (%d+)" },
}

local bad = 0

local function report(text, ...)
  bad = bad + 1
  io.stderr:write(text:format(...), "\n")
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  return text
end

local function code_of(path)
  return (read(path):gsub("/%*.-%*/", " "):gsub("//[^\n]*", " "))
end

local sizes = { char = "1", int = "4", unsigned = "u4", int32_t = "4", uint32_t = "u4",
  index = "8", int64_t = "8", uint64_t = "u8", ["unsigned long long"] = "u8",
  ["unsigned char"] = "u1", box = "box", cel_box = "box" }

-- What a member is: as both sides spell it alike. Addresses are uint64_t, too.
local function kind_of(type_, stars, bounds)
  type_ = type_:gsub("_?[Aa]lignas%(%d+%)", ""):gsub("%f[%w]const%f[%W]", "")
    :gsub("%s+", " "):match("^ ?(.-) ?$")
  local kind = stars ~= "" and "u8" or sizes[type_] or type_
  return kind .. bounds
end

-- The members of a struct, as {kind, name}.
local function members(path, name)
  local body = code_of(path):match("struct " .. name .. " (%b{})")
  if not body then return report("%s: there is no struct %s", path, name) end
  local out = {}
  body = body:sub(2, -2):match("^(.-)CELER_FN") or body:sub(2, -2)
  for declaration in body:gmatch("([^;]+);") do
    local type_, rest = declaration:match("^(.-[%s%*])([%w_]+%s*[%[,].*)$")
    if not type_ then type_, rest = declaration:match("^(.*[%s%*])([%w_]+%s*)$") end
    local stars = type_:match("%**%s*$")
    type_ = type_:sub(1, #type_ - #stars)
    for declarator in rest:gmatch("[^,]+") do
      local more, member, bounds = declarator:match("^%s*(%**)%s*([%w_]+)%s*(.-)%s*$")
      stars = stars:match("%*+") and stars or more
      out[#out + 1] = { kind_of(type_, stars:gsub("%s", ""), bounds), member }
      stars = ""
    end
  end
  return out
end

local function compare(mine, theirs, row)
  if not mine or not theirs then return end
  if #theirs ~= #mine and not row[5] then
    report("engine/%s: %s has %d members, %s of kernels/%s has %d", row[1], row[2], #mine,
      row[4], row[3], #theirs)
  end
  for i, member in ipairs(theirs) do
    if not mine[i] or mine[i][1] ~= member[1] then
      report("engine/%s: %s is not as kernels/%s: member %d of %s, %s, differs", row[1], row[2],
        row[3], i, row[4], member[2])
    end
  end
end

for _, row in ipairs(structs) do
  compare(members("engine/" .. row[1], row[2]), members("kernels/" .. row[3], row[4]), row)
end

for _, row in ipairs(texts) do
  local one, other = read(row[1]):match(row[2]), read(row[3]):match(row[4])
  if not one or one ~= other then
    report("%s and %s do not say the same: %s, %s", row[1], row[3], tostring(one),
      tostring(other))
  end
end

-- CUDA's vectors, which Lua lays out by one formula of the bytes of a number.
local widths = read "lua/celer/data/types.lua":match "for scalar, width in pairs (%b{})"
for name, of_two, of_four in read "kernels/celer.cuh"
  :gmatch "\nCELER_VECTORS%(%l+, (%l+), (%d+), (%d+)%)" do
  local width = tonumber(widths:match(name .. " = (%d+)"))
  if not width or tonumber(of_two) ~= math.min(16, 2 * width)
    or tonumber(of_four) ~= math.min(16, 4 * width) then
    report("kernels/celer.cuh and lua/celer/data/types.lua differ in %s2 or %s4", name, name)
  end
end

-- The names of an enum's or a list's members, in order and in lower case.
local function names(body, pattern)
  local out = {}
  for name in body:gmatch(pattern) do out[#out + 1] = name:lower() end
  return table.concat(out, " ")
end

local kinds = names(code_of "engine/device/kernel.h":match "enum cel_param_kind (%b{})",
  "CEL_PARAM_(%u+)")
local of_kernels = names(code_of "kernels/celer.cuh":match "enum kind : int (%b{})",
  "an?_(%l+)")
if kinds ~= of_kernels then report("kinds of parameters: %s; %s", kinds, of_kernels) end

local operators = names(code_of "engine/base/operator.h":match "#define CEL_OPS(.-)typedef",
  "_%((%u+),")
of_kernels = names(code_of "kernels/reduce.cuh":match "enum op : int (%b{})", "op_(%l+)")
if operators ~= of_kernels then report("operators: %s; %s", operators, of_kernels) end

os.exit(bad == 0)
