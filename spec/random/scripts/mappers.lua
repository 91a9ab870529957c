--- mappers.lua -- random programs with range mappers of every form as users write
--- them, with fills, copies and buffers that are freed, beside plain Lua tables.
---
---   celer run --advice off spec/random/scripts/mappers.lua SEED COUNT [STEPS]
---
--- A mapper is data: `bounds` makes a box of it, from symbols where the engine traces
--- it, from numbers where it is opaque, and from one item alone where a task or the
--- model wants to know what that item may touch. Kernels work it out by themselves. Says
--- at the end how often what occurred; or the seed that fails, and its steps.
local celer = require "celer"
local dice = require "chance"
local q = celer.queue()

local first, count = tonumber(arg[1]), tonumber(arg[2])
local steps = tonumber(arg[3]) or 16
local MOST = 65521
local random, between, chance = dice.random, dice.between, dice.chance


local seen, log = {}, {}
local function note(what) seen[what] = (seen[what] or 0) + 1 end

-- ---- mappers as data ---------------------------------------------------------

-- Bounds along one dimension of a buffer of `size` there. An `affine` one goes along
-- dimension d of the range; `table` is the same, looked up.
local function bounds(form, lo, hi, size, items)
  local kind, a, c, w = form.kind, form.a, form.c, form.w
  if kind == "full" then return 0, size end
  if kind == "fixed" then return c, c + w end
  if kind == "before" then return 0, hi[form.d] end
  if kind == "divided" then
    return celer.floor(lo[form.d] / a), celer.floor((hi[form.d] - 1) / a) + 1
  end
  if kind == "rows" then
    local least = math.floor(size / items)
    local function at(i) return least * i + math.min(i, size - least * items) end
    return at(lo[0]), at(hi[0])
  end
  if kind == "table" then
    local x, y = form.at[lo[form.d]], form.at[hi[form.d] - 1]
    return math.min(x, y), math.max(x, y) + w
  end
  if a > 0 then return a * lo[form.d] + c, a * (hi[form.d] - 1) + c + w end
  return a * (hi[form.d] - 1) + c, a * lo[form.d] + c + w
end

-- What an item touches, cut off at the buffer: lists of three.
local function touched(forms, item, size, items)
  local lo, hi, after = { 0, 0, 0 }, { 1, 1, 1 }, {}
  for d = 0, 2 do after[d] = (item[d] or 0) + 1 end
  for j = 1, #forms do
    lo[j], hi[j] = bounds(forms[j], item, after, size[j], items)
    lo[j], hi[j] = math.max(lo[j], 0), math.min(hi[j], size[j])
  end
  return lo, hi
end

-- A box for each index along dimension d, in others for the chunk.
local function each_of(forms, options, d)
  return function(chunk, buffer)
    return celer.boxes(chunk, function(index)
      local from, to, lo, hi = {}, {}, {}, {}
      for e = 0, chunk.dims - 1 do from[e], to[e] = chunk.min[e], chunk.max[e] end
      from[d], to[d] = index, index + 1
      for j = 1, #forms do lo[j], hi[j] = bounds(forms[j], from, to, buffer.size[j - 1]) end
      local box = celer.box(lo, hi)
      return options.clamped and box:clamped() or box
    end, d)
  end
end

-- The mapper: of symbols, or one that branches and so is opaque.
local function mapper_of(forms, options)
  if options.builtin then return options.builtin end
  if options.each then return each_of(forms, options, options.each) end
  return function(chunk, buffer)
    local lo, hi = {}, {}
    for j = 1, #forms do
      lo[j], hi[j] = bounds(forms[j], chunk.min, chunk.max, buffer.size[j - 1])
      if options.opaque then
        if lo[j] < 0 then lo[j] = 0 end
        if hi[j] > buffer.size[j - 1] then hi[j] = buffer.size[j - 1] end
      end
    end
    local box = celer.box(lo, hi)
    return options.clamped and box:clamped() or box
  end
end

-- ---- what tasks compute ------------------------------------------------------

local function position(p, size)
  return (p[1] * (size[2] or 1) + p[2]) * (size[3] or 1) + p[3]
end

local function points(lo, hi, f)
  local p = {}
  for i = lo[1], hi[1] - 1 do
    for j = lo[2], hi[2] - 1 do
      for k = lo[3], hi[3] - 1 do
        p[1], p[2], p[3] = i, j, k
        f(p)
      end
    end
  end
end

-- Bounds indexed from 0, of `dims` dimensions: lists of three.
local function three(bounds_of, dims, rest)
  local out = { rest, rest, rest }
  for d = 1, dims do out[d] = bounds_of[d - 1] end
  return out
end

-- All items of a box: f(item), indexed from 0.
local function each_item(box, f)
  points(three(box.min, box.dims, 0), three(box.max, box.dims, 1),
    function(p) f { [0] = p[1], p[2], p[3] } end)
end

-- One item: folds what it reads into what it writes. `reads` and `write` are lists
-- {forms, size}; get(k, p) and change(p, f) reach the elements.
local function compute(item, items, salt, reads, write, get, change)
  local sum = salt
  for k = 1, #reads do
    local lo, hi = touched(reads[k].forms, item, reads[k].size)
    points(lo, hi, function(p) sum = (sum * 31 + get(k, p)) % 65521 end)
  end
  local lo, hi = touched(write.forms, item, write.size, items)
  points(lo, hi, function(p)
    change(p, function(old)
      return (old * 3 + sum + p[1] * 7 + p[2] * 5 + p[3] * 2) % 65521
    end)
  end)
end

local function host_body(part, task, out, a, b)
  local views = { a, b }
  local function reach(view, dims, p)
    if dims == 0 then return view() elseif dims == 1 then return view(p[1]) end
    if dims == 2 then return view(p[1], p[2]) end
    return view(p[1], p[2], p[3])
  end
  each_item(part, function(item)
    compute(item, task.items, task.salt, task.reads, task.write,
      function(k, p) return reach(views[k], #task.reads[k].size, p) end,
      function(p, f)
        local dims = #task.write.size
        local value = f(task.keeps and reach(out, dims, p) or 0)
        if dims == 0 then out:set(value) elseif dims == 1 then out:set(p[1], value)
        elseif dims == 2 then out:set(p[1], p[2], value)
        else out:set(p[1], p[2], p[3], value) end
      end)
  end)
end

celer.struct("map", "int kind[3], d[3], a[3], c[3], w[3], size[3];")
local kinds = { affine = 0, table = 0, full = 1, fixed = 2, before = 3, divided = 4 }

local function map_of(forms, size)
  local m = { kind = {}, d = {}, a = {}, c = {}, w = {}, size = {} }
  for j = 1, 3 do
    local form = forms[j] or { kind = "fixed", c = 0, w = 1 }
    m.kind[j], m.size[j] = kinds[form.kind], size[j] or 1
    for _, field in ipairs { "d", "a", "c", "w" } do m[field][j] = form[field] or 0 end
  end
  return m
end

-- Kernels by the dimensions of range, source and target.
local shapes = { "111", "222", "333", "122", "211", "132", "213" }
local source = [==[
  template <class I> __device__ void find(const I &it, int dims, const map &m, int *lo, int *hi) {
    for (int j = 0; j < 3; ++j) {
      int i = m.d[j] < dims ? (int)it[m.d[j]] : 0, k = m.kind[j];
      lo[j] = k == 0 ? m.a[j] * i + m.c[j] : k == 2 ? m.c[j] : k == 4 ? i / m.a[j] : 0;
      hi[j] = k == 0 || k == 2 ? lo[j] + m.w[j] : k == 1 ? m.size[j] : k == 3 ? i + 1 : lo[j] + 1;
      lo[j] = max(lo[j], 0);
      hi[j] = min(hi[j], m.size[j]);
    }
  }
]==]
for _, shape in ipairs(shapes) do
  local d, s, t = shape:match("(.)(.)(.)")
  local at = { ["1"] = "i", ["2"] = "i, j", ["3"] = "i, j, k" }
  local loop = "for (int i = lo[0]; i < hi[0]; ++i) for (int j = lo[1]; j < hi[1]; ++j) "
    .. "for (int k = lo[2]; k < hi[2]; ++k) "
  source = source .. ([[
    kernel void k%s%s%s(item<%s> it, in<int, %s> from, inout<int, %s> to, map r, map w, int salt,
                        int keeps) {
      int lo[3], hi[3], sum = salt;
      find(it, %s, r, lo, hi);
      %s sum = (sum * 31 + from(%s)) %% 65521;
      find(it, %s, w, lo, hi);
      %s to(%s) = ((keeps ? to(%s) * 3 : 0) + sum + i * 7 + j * 5 + k * 2) %% 65521;
    }
  ]]):format(d, s, t, d, s, t, d, loop, at[s], d, loop, at[t], at[t])
end
local kernels = celer.kernel(source)

-- What lies around items, by edges of every kind.
local near = celer.kernel [[
  template <class At> static int around(int salt, int dims, int a, int b, int c, const At &at) {
    const int by[] = {a, b, c};
    int s = (salt * 31 + at(0, 0, 0)) % 65521;
    for (int d = 0; d < dims; ++d)
      for (int side = -1; side < 2; side += 2)
        s = (s * 31 + at(d == 0 ? side * by[0] : 0, d == 1 ? side * by[1] : 0,
                         d == 2 ? side * by[2] : 0)) % 65521;
    return s;
  }
  kernel void near1(item<1> it, near<int, 1> u, out<int, 1> v, int s, int a, int b, int c) {
    v(it[0]) = around(s, 1, a, b, c, [&](int i, int, int) { return u(it[0] + i); });
  }
  kernel void near2(item<2> it, near<int, 2> u, out<int, 2> v, int s, int a, int b, int c) {
    v(it[0], it[1]) = around(s, 2, a, b, c,
        [&](int i, int j, int) { return u(it[0] + i, it[1] + j); });
  }
  kernel void near3(item<3> it, near<int, 3> u, out<int, 3> v, int s, int a, int b, int c) {
    v(it[0], it[1], it[2]) = around(s, 3, a, b, c,
        [&](int i, int j, int k) { return u(it[0] + i, it[1] + j, it[2] + k); });
  }
]]

-- ---- buffers and their model -------------------------------------------------

local program -- buffers with what they hold, fences that were not looked at

local function total(size) return (size[1] or 1) * (size[2] or 1) * (size[3] or 1) end

local function fresh(dims)
  local size = {}
  dims = dims or random(4)
  local most = ({ 1, 40, 9, 5 })[dims + 1]
  for d = 1, dims do size[d] = between(1, most) end
  if dims > 1 and chance(30) then size[between(1, dims)] = between(17, 40) end
  local one, salt = { size = size, held = {} }, random(1000)
  local name = "b" .. program.made
  program.made = program.made + 1
  if dims > 0 and chance(60) then
    one.buffer = celer.buffer("int", size, { name = name, init = function(i, j, k)
      return (i * 17 + (j or 0) * 13 + (k or 0) * 11 + salt) % 65521
    end })
    points({ 0, 0, 0 }, { size[1], size[2] or 1, size[3] or 1 }, function(p)
      one.held[position(p, size)] = (p[1] * 17 + p[2] * 13 + p[3] * 11 + salt) % MOST
    end)
  else
    one.buffer = celer.buffer("int", size, { name = name })
    one.buffer:fill(salt)
    for i = 0, total(size) - 1 do one.held[i] = salt end
  end
  return one
end

local function any(but)
  local one = program.buffers[between(1, #program.buffers)]
  return one ~= but and one or nil
end

-- A part that is not empty: lists of as many as there are dimensions.
local function part_of(size)
  local lo, hi = {}, {}
  for d = 1, #size do
    lo[d] = random(size[d])
    hi[d] = between(lo[d] + 1, size[d])
  end
  return lo, hi
end

local function whole(list, value)
  return { list[1] or value, list[2] or value, list[3] or value }
end

-- ---- tasks -------------------------------------------------------------------

local function table_form(form, range)
  local at = {}
  for i = range.lo[form.d + 1], range.hi[form.d + 1] do at[i] = form.a * i + form.c end
  return { kind = "table", d = form.d, a = form.a, c = form.c, w = form.w, at = at }
end

-- A range, and a mapper that gives each of its items elements of its own.
local function make_write(size)
  local dims = chance(60) and #size or random(#size + 1)
  local range, forms, free = { lo = {}, hi = {}, dims = dims }, {}, {}
  for j = 1, #size do free[j] = j end
  local turned = false
  for d = 0, dims - 1 do
    local j = table.remove(free, between(1, #free))
    turned = turned or j ~= d + 1
    local a = ({ 1, 1, 1, -1, 2, 3, -2 })[between(1, 7)]
    if math.abs(a) > size[j] then a = 1 end
    local n = math.floor(size[j] / math.abs(a))
    if chance(30) then n = between(1, n) end
    local rest, low = size[j] - n * math.abs(a), chance(30) and random(5) or 0
    -- a > 0: a * low + c is the least; a < 0: a * (low + n - 1) + c
    local least = random(rest + 1)
    range.lo[d + 1], range.hi[d + 1] = low, low + n
    forms[j] = { kind = "affine", d = d, a = a, w = math.abs(a),
      c = least - (a > 0 and a * low or a * (low + n - 1)) }
    if a < 0 then note "negative" end
    if math.abs(a) > 1 then note "scaled" end
  end
  for _, j in ipairs(free) do
    local lo, hi = part_of { size[j] }
    forms[j] = chance(60) and { kind = "full" }
      or { kind = "fixed", c = lo[1], w = hi[1] - lo[1] }
  end
  if turned and dims > 1 then note "transposed" end
  return range, forms
end

-- `free` has the dimensions of the range that do not lead elsewhere yet. Where one leads
-- to two, what the items touch is a diagonal, and a chunk reads a box around it; with w
-- less than |a| it reads what lies between, too.
local function read_form(range, size, free)
  local lo, hi = part_of { size }
  local what = #free == 0 and random(2) or random(9)
  if what == 0 then return { kind = "full" } end
  if what == 1 then return { kind = "fixed", c = lo[1], w = hi[1] - lo[1] } end
  local at = between(1, #free)
  local d = free[at]
  if chance(15) then note "diagonal" else table.remove(free, at) end
  if what == 2 then return { kind = "before", d = d } end
  if what == 3 then
    note "divided"
    return { kind = "divided", d = d, a = between(2, 4) }
  end
  local a = ({ 1, 1, 1, -1, 2, -2, -3 })[between(1, 7)]
  if a < 0 then note "negative" end
  if math.abs(a) > 1 then note "scaled" end
  local c, w = a < 0 and -a * (range.hi[d + 1] - 1) or 0, math.abs(a) + random(3)
  if math.abs(a) > 1 and chance(40) then
    note "gaps"
    w = between(1, math.abs(a) - 1)
  end
  return { kind = "affine", d = d, a = a, w = w, c = c + between(-2, 2) }
end

-- Ways in which a user may write the same mapper.
local function disguise(forms, range, options)
  if range.dims > 0 and chance(25) then
    note "each index"
    options.each = random(range.dims)
    return
  end
  if not chance(30) then return end
  note "opaque"
  options.opaque = true
  for j, form in ipairs(forms) do
    if form.kind == "affine" and chance(40) then forms[j] = table_form(form, range) end
  end
end

local function is_turned(forms, dims, size)
  local order = {}
  for j, form in ipairs(forms) do
    if form.kind ~= "affine" or form.a ~= 1 or form.c ~= 0 or form.w ~= 1 then return nil end
    order[j] = form.d
  end
  return #order == dims and dims == #size and dims > 0 and celer.transposed(unpack(order)) or nil
end

local function make_task(target, sources)
  local size = target.size
  local range, forms = make_write(size)
  local task = { salt = random(1000), keeps = chance(40), reads = {} }
  local write_options = { builtin = is_turned(forms, range.dims, size) }
  if write_options.builtin then note "transposed" else disguise(forms, range, write_options) end
  task.write = { forms = forms, size = size }
  local maps = {}
  for k, one in ipairs(sources) do
    local read, free = {}, {}
    for d = 1, range.dims do free[d] = d - 1 end
    for j = 1, #one.size do read[j] = read_form(range, one.size[j], free) end
    local options = { clamped = true }
    disguise(read, range, options)
    task.reads[k] = { forms = read, size = one.size }
    maps[k] = mapper_of(read, options)
  end
  return task, range, mapper_of(forms, write_options), maps
end

local function hints_of(range)
  local split = ({ "1d", "1d", "2d", "3d" })[between(1, 4)]
  local hints = { split = split }
  if split ~= "1d" and range.dims > 1 then note(split) end
  if chance(20) then hints.granularity = between(2, 3) end
  if chance(20) then hints.oversubscribe = between(2, 3) end
  if chance(10) and split == "1d" then
    hints.weights = function(rank) return rank % 3 + 1 end
  end
  return hints
end

local function box_of(range) return celer.box(range.lo, range.hi) end

-- The kernel for it, where there is one.
local function kernel_of(task, range, target, sources)
  if #sources ~= 1 or chance(30) then return nil end
  for _, forms in ipairs { task.write.forms, task.reads[1].forms } do
    for _, form in ipairs(forms) do
      if not kinds[form.kind] then return nil end
    end
  end
  local name = ("k%d%d%d"):format(range.dims, #sources[1].size, #target.size)
  for _, shape in ipairs(shapes) do
    if "k" .. shape == name then return kernels[name] end
  end
end

-- The model's side of a task.
local function model(task, range, target, sources)
  local old, held = target.held, {}
  for i, x in pairs(old) do held[i] = x end
  each_item(box_of(range), function(item)
    compute(item, task.items, task.salt, task.reads, task.write,
      function(k, p) return sources[k].held[position(p, sources[k].size)] end,
      function(p, f)
        local at = position(p, target.size)
        held[at] = f(task.keeps and old[at] or 0)
      end)
  end)
  target.held = held
end

local doings = {}

-- Carries out a task with these mappers, by the kernel where there is one.
local function compute_by(kernel, task, range, target, sources, write, maps)
  local hints = hints_of(range)
  note(kernel and "kernel" or "host task")
  q:submit(function(cg)
    cg:hint(hints)
    local out = task.keeps and cg:read_write(target.buffer, write)
      or kernel and cg:write(target.buffer, write) or cg:discard_write(target.buffer, write)
    local reads = {}
    for k, one in ipairs(sources) do reads[k] = cg:read(one.buffer, maps[k]) end
    if kernel then
      cg:parallel_for(box_of(range), kernel, reads[1], out, map_of(task.reads[1].forms,
        sources[1].size), map_of(task.write.forms, target.size), task.salt, task.keeps and 1 or 0)
    else
      cg:host_task(box_of(range), host_body, task, out, reads[1], reads[2])
    end
  end)
  model(task, range, target, sources)
  log[#log + 1] = ("%s of %s into %s"):format(kernel and "kernel" or "host task",
    tostring(box_of(range)), target.buffer.name)
end

function doings.compute()
  local target, sources = any(), {}
  for _ = 1, chance(60) and 1 or random(3) do sources[#sources + 1] = any(target) end
  local task, range, write, maps = make_task(target, sources)
  compute_by(kernel_of(task, range, target, sources), task, range, target, sources, write, maps)
end

-- A kernel whose items follow both buffers in any order of the dimensions: it touches
-- columns along its rows, and goes through long ones in strips.
function doings.turn()
  local dims, i = between(2, 3), between(1, #program.buffers)
  local old, target = program.buffers[i], fresh(dims)
  local from = #old.size == dims and old or fresh(dims)
  local function forms_of()
    local forms, free = {}, {}
    for d = 1, dims do free[d] = d - 1 end
    for j = 1, dims do
      forms[j] = { kind = "affine", d = table.remove(free, between(1, #free)), a = 1, c = 0, w = 1 }
    end
    return forms
  end
  local read, write, range = forms_of(), forms_of(), { lo = {}, hi = {}, dims = dims }
  for j, form in ipairs(write) do
    range.lo[form.d + 1], range.hi[form.d + 1] = 0, target.size[j]
  end
  if range.hi[dims] > 16 and (read[dims].d < dims - 1 or write[dims].d < dims - 1) then
    note "strips"
  end
  local task = { salt = random(1000), keeps = chance(40),
    reads = { { forms = read, size = from.size } }, write = { forms = write, size = target.size } }
  compute_by(kernels[("k%d%d%d"):format(dims, dims, dims)], task, range, target, { from },
    mapper_of(write, { builtin = is_turned(write, dims, target.size) }),
    { mapper_of(read, { clamped = true }) })
  program.buffers[i] = target
  old.buffer:free()
  if from ~= old then from.buffer:free() end
end

-- Where an index leads that may leave a buffer; nil: to no element.
local leads = {
  periodic = function(i, n) return i % n end,
  clamped = function(i, n) return math.max(0, math.min(i, n - 1)) end,
  mirrored = function(i, n) return math.min(i % (2 * n), 2 * n - 1 - i % (2 * n)) end,
  constant = function(i, n) return i >= 0 and i < n and i or nil end,
}

-- The sum that the kernels `near` make for an item.
local function around(one, p, salt, reach, lead, outside)
  local s = (salt * 31 + one.held[position(p, one.size)]) % MOST
  for d = 1, #one.size do
    for side = -1, 1, 2 do
      local at = { unpack(p) }
      at[d] = lead(p[d] + side * reach[d], one.size[d])
      s = (s * 31 + (at[d] and one.held[position(at, one.size)] or outside)) % MOST
    end
  end
  return s
end

-- All of a buffer anew, of what lies around each element.
function doings.edges()
  local i = between(1, #program.buffers)
  local old, reach, salt, outside = program.buffers[i], {}, random(1000), random(1000)
  if #old.size == 0 then return end
  local kind = ({ "periodic", "periodic", "clamped", "mirrored", "constant" })[between(1, 5)]
  note(kind)
  for d = 1, #old.size do
    reach[d] = chance(80) and between(0, 2) or between(0, 2 * old.size[d] + 1)
  end
  local words = { unpack(reach) }
  if chance(50) then words[#words + 1] = "along_axes" end
  if kind == "constant" then table.insert(words, 1, outside) end
  local one = { size = old.size, held = {} }
  one.buffer = celer.buffer("int", old.size, { name = "b" .. program.made })
  program.made = program.made + 1
  local all = { lo = { unpack({ 0, 0, 0 }, 1, #old.size) }, hi = old.size, dims = #old.size }
  q:submit(function(cg)
    cg:hint(hints_of(all))
    cg:parallel_for(old.size, near["near" .. #old.size],
      cg:read(old.buffer, celer[kind](unpack(words))), cg:discard_write(one.buffer), salt,
      reach[1], reach[2] or 0, reach[3] or 0)
  end)
  points({ 0, 0, 0 }, whole(old.size, 1), function(p)
    one.held[position(p, old.size)] = around(old, p, salt, reach, leads[kind], outside)
  end)
  log[#log + 1] = ("%s %s of %s"):format(kind, table.concat(reach, " "), old.buffer.name)
  program.buffers[i] = one
  old.buffer:free()
end

-- Rows divided among the items of a range of one dimension, or among all ranks.
function doings.even_split()
  local target = any()
  if #target.size == 0 then return end
  note "even_split"
  local items = between(1, 12)
  local forms = { { kind = "rows" } }
  for j = 2, #target.size do forms[j] = { kind = "full" } end
  local task = { salt = random(1000), keeps = chance(50), items = items, reads = {},
    write = { forms = forms, size = target.size } }
  local range = { lo = { 0 }, hi = { items }, dims = 1 }
  q:submit(function(cg)
    local mode = task.keeps and cg.read_write or cg.discard_write
    cg:host_task({ items }, host_body, task, mode(cg, target.buffer, celer.even_split))
  end)
  model(task, range, target, {})
  log[#log + 1] = ("even_split of %s, %d items"):format(target.buffer.name, items)
end

-- All ranks together, each at its rows: what comes of it does not depend on how many.
function doings.together()
  local target = any()
  if #target.size == 0 then return end
  note "collective"
  local size, salt = target.size, random(1000)
  q:submit(function(cg)
    cg:host_task(celer.collective(), function(_, out)
      points(three(out.min, #size, 0), three(out.max, #size, 1), function(p)
        local x = (p[1] * 3 + p[2] * 5 + p[3] + salt) % 65521
        if #size == 1 then out:set(p[1], x) elseif #size == 2 then out:set(p[1], p[2], x)
        else out:set(p[1], p[2], p[3], x) end
      end)
    end, cg:discard_write(target.buffer, celer.even_split))
  end)
  local held = {}
  points({ 0, 0, 0 }, whole(size, 1), function(p)
    held[position(p, size)] = (p[1] * 3 + p[2] * 5 + p[3] + salt) % MOST
  end)
  target.held = held
  log[#log + 1] = "all ranks, rows of " .. target.buffer.name
end

function doings.fill()
  local one, value = any(), random(1000)
  local lo, hi = part_of(one.size)
  local all = #one.size == 0 or chance(30)
  note "fill"
  if all then one.buffer:fill(value) else celer.fill(one.buffer, value, celer.box(lo, hi)) end
  if all then lo, hi = {}, one.size end
  points(whole(lo, 0), whole(hi, 1), function(p) one.held[position(p, one.size)] = value end)
  log[#log + 1] = "fill of " .. one.buffer.name
end

-- A part that fits both, to another place.
function doings.copy()
  local from, to = any(), any()
  if #from.size ~= #to.size or #from.size == 0 then return end
  local lo, hi, at, apart = {}, {}, {}, from ~= to
  for d = 1, #from.size do
    local n = between(1, math.min(from.size[d], to.size[d]))
    lo[d], at[d] = random(from.size[d] - n + 1), random(to.size[d] - n + 1)
    hi[d] = lo[d] + n
    apart = apart or math.abs(lo[d] - at[d]) >= n
  end
  if not apart then return end
  note "copy"
  celer.copy(from.buffer, to.buffer, { part = celer.box(lo, hi), at = at })
  local moved = {}
  points(whole(lo, 0), whole(hi, 1), function(p)
    local there = {}
    for d = 1, 3 do there[d] = p[d] + (at[d] or 0) - (lo[d] or 0) end
    moved[position(there, to.size)] = from.held[position(p, from.size)]
  end)
  for i, x in pairs(moved) do to.held[i] = x end
  log[#log + 1] = ("copy of %s into %s"):format(from.buffer.name, to.buffer.name)
end

-- Freed while tasks still use it, and another in its place.
function doings.free()
  local i = between(1, #program.buffers)
  note "free"
  log[#log + 1] = "free of " .. program.buffers[i].buffer.name
  program.buffers[i].buffer:free()
  program.buffers[i] = fresh()
end

local function compare(fence)
  local s, size = fence.future:get(), fence.size
  points(whole(fence.lo, 0), whole(fence.hi, 1), function(p)
    local wanted, got = fence.held[position(p, size)]
    if #size == 0 then got = s() elseif #size == 1 then got = s(p[1])
    elseif #size == 2 then got = s(p[1], p[2]) else got = s(p[1], p[2], p[3]) end
    if got ~= wanted then
      error(("seed %d, %s at %s: got %d, wanted %d; steps:\n%s"):format(program.seed,
        fence.name, table.concat(p, ", "), got, wanted, table.concat(log, "\n")), 0)
    end
  end)
end

function doings.look(one)
  one = one or any()
  local lo, hi = part_of(one.size)
  if chance(50) then
    lo, hi = {}, one.size
    for d = 1, #hi do lo[d] = 0 end
  end
  local held = {}
  for i, x in pairs(one.held) do held[i] = x end
  local fence = { size = one.size, name = one.buffer.name, held = held, lo = lo, hi = hi }
  if #one.size == 0 then
    fence.future = q:fence(one.buffer)
  else
    fence.future = q:fence(one.buffer, celer.box(lo, hi))
  end
  log[#log + 1] = "look at " .. one.buffer.name
  if chance(20) then return compare(fence) end
  program.fences[#program.fences + 1] = fence
end

-- ---- programs ----------------------------------------------------------------

local words = { "compute", "compute", "compute", "compute", "compute", "turn", "turn",
  "edges", "edges", "even_split", "together", "fill", "copy", "copy", "free", "look", "look" }

for seed = first, first + count - 1 do
  dice.begin(seed)
  log = {}
  program = { seed = seed, buffers = {}, fences = {}, made = 0 }
  for i = 1, between(2, 5) do program.buffers[i] = fresh() end
  for _ = 1, steps do doings[words[between(1, #words)]]() end
  for _, one in ipairs(program.buffers) do doings.look(one) end
  for _, fence in ipairs(program.fences) do compare(fence) end
  for _, one in ipairs(program.buffers) do one.buffer:free() end
end
q:drain()
local said = {}
for what, times in celer.sorted_pairs(seen) do said[#said + 1] = what .. " " .. times end
print(("%d programs with mappers: %s"):format(count, table.concat(said, ", ")))
