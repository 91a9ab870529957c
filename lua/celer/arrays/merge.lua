--- merge.lua -- celer.sort on several GPUs: what each has put in order becomes one order.
---
--- Tasks find for each part where its piece of each run begins; the script waits for these cuts,
--- and submits tasks whose mappers know them. So what is of another part goes there once, from GPU
--- to GPU, and nothing else does. Then pieces are merged by pairs: kernels/merge.cuh.
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local core = require "celer.core"
local mapper = require "celer.mapper.builtin"
local opaque = require "celer.mapper.opaque"
local queues = require "celer.submit.queue"

local M = {}

local call = "celer.sort"
local all = mapper.all

--- Parts at most: the boxes that a mapper may give.
M.MOST = 64

--- Samples of a run for a cut, at most; items of a group that looks for one; those of a group that
--- merges, and keys of each by the bytes of a key.
M.shape = { samples = 2 ^ 14, looking = 512, threads = 256,
  each = { [1] = 15, [2] = 15, [4] = 15, [8] = 11 } }

local search = [[
kernel void sort_samples(group<1> g, in<T, 1> runs, out<uint64_t, 1> told, int64_t n,
                         int64_t count, int64_t most) {
  const celer::merge_search s = {{n, count}, most};
  const int64_t part = g.number(0) / (count - 1);
  const celer::merge_samples to = {&told(g.number(0) * s.words()), most};
  to.tell<T, DOWN>(g, (const celer::radix<T, DOWN>::key *)&runs(s.parts.begin(part)), 0,
    s.parts.size(part));
}
kernel void sort_narrow(group<1> g, in<T, 1> runs, in<uint64_t, 1> heard, out<uint64_t, 1> told,
                        int64_t n, int64_t count, int64_t most, local<uint32_t, 2> found) {
  const celer::merge_search s = {{n, count}, most};
  const int64_t part = g.number(0) / (count - 1), cut = g.number(0) % (count - 1);
  int64_t lo, hi;
  s.narrow(g, (uint64_t *)&heard(0), part, cut, &found[0], &lo, &hi);
  const celer::merge_samples to = {&told(g.number(0) * s.words()), most};
  to.tell<T, DOWN>(g, (const celer::radix<T, DOWN>::key *)&runs(s.parts.begin(part)), lo, hi);
}
kernel void sort_cuts(group<1> g, in<uint64_t, 1> heard, out<int64_t, 1> cuts, int64_t n,
                      int64_t count, int64_t most, local<uint32_t, 2> found) {
  const celer::merge_search s = {{n, count}, most};
  const int64_t part = g.number(0) / (count - 1), cut = g.number(0) % (count - 1);
  int64_t lo, hi;
  s.narrow(g, (uint64_t *)&heard(0), part, cut, &found[0], &lo, &hi);
  const int64_t row = part * (count + 1);
  if (g.local(0) > 0) return;
  cuts(row + cut + 1) = lo;
  if (cut > 0) return;
  cuts(row) = 0;
  cuts(row + count) = s.parts.size(part);
}
]]

local merging = [[
using merging = celer::merge_tile<T, DOWN, THREADS, EACH>;
kernel void sort_splits(item<1> it, in<T, 1> runs, in<int64_t, 1> cuts, out<int64_t, 1> splits,
                        int64_t n, int64_t count, int64_t width) {
  using key = merging::key;
  const celer::merge_level level = {{n, count}, width, merging::tile};
  const int64_t slots = it.range(0) / count;
  celer::merge_pair p;
  int64_t first, split = 0;
  if (level.find(cuts, it[0] / slots, it[0] % slots, &p, &first))
    split = celer::merge_split<merging::base>(
      [&](int64_t k) { return *(const key *)&runs(p.a + k); }, p.a_count,
      [&](int64_t k) { return *(const key *)&runs(p.b + k); }, p.b_count, first);
  splits(it[0]) = split;
}
kernel void sort_merge(group<1> g, in<T, 1> runs, in<int64_t, 1> cuts, in<int64_t, 1> splits,
                       out<T, 1> to, PLACES int64_t n, int64_t count, int64_t width,
                       local<uint64_t, (merging::room + 7) / 8> room) {
  using key = merging::key;
  const celer::merge_level level = {{n, count}, width, merging::tile};
  const int64_t slots = g.range(0) / g.size(0) / count, at = g.number(0);
  celer::merge_pair p;
  int64_t first;
  if (!level.find(cuts, at / slots, at % slots, &p, &first)) return;
  const int64_t all = p.a_count + p.b_count;
  const int64_t end = first + merging::tile < all ? first + merging::tile : all;
  const int64_t a = splits(at), a_end = end < all ? splits(at + 1) : p.a_count;
  const int64_t b = first - a, b_end = end - a_end;
  const int a_count = int(a_end - a), b_count = int(b_end - b);
  merging::run(g, a_count > 0 ? (const key *)&runs(p.a + a) : nullptr, a_count,
    b_count > 0 ? (const key *)&runs(p.b + b) : nullptr, b_count, (key *)&to(p.to + first),
    WITH, [&](int k, int was) {
      const int64_t from = was < a_count ? p.a + a + was : p.b + b + was - a_count;
      PUT;
    }, (unsigned char *)&room[0]);
}
]]

-- What a level is given of places: none, none before it, or both.
local places_of = {
  none = { PLACES = "", WITH = "false", PUT = "(void)from, (void)k" },
  first = { PLACES = "out<AT, 1> places,", WITH = "true",
    PUT = "places(p.to + first + k) = (AT)from" },
  next = { PLACES = "in<AT, 1> before, out<AT, 1> places,", WITH = "true",
    PUT = "places(p.to + first + k) = before(from)" },
}

local take = [[
kernel void sort_merged(item<1> it, in<AT, 1> places, in<T, 1> from, out<T, 1> to, int64_t n,
                        int64_t count) {
  const celer::radix_parts parts = {n, count};
  const int64_t most = it.range(0) / count, part = it[0] / most, k = it[0] % most;
  if (k >= parts.size(part)) return;
  const int64_t i = parts.begin(part) + k;
  to(i) = from(places(i));
}
]]

---@class celer.merge_sort
---@field n integer
---@field parts integer
---@field descending boolean
---@field keys celer.buffer
---@field at string  the type of an element's number

local function kernel_for(source, sort, type_, places)
  local of = places_of[places or "none"]
  local given = { T = type_.name, DOWN = tostring(sort.descending),
    THREADS = tostring(M.shape.threads), EACH = tostring(M.shape.each[type_.size] or 1),
    PLACES = of.PLACES:gsub("AT", sort.at), WITH = of.WITH, PUT = of.PUT:gsub("AT", sort.at),
    AT = sort.at }
  return alone.kernel(source, given, table.concat({ given.T, given.DOWN, given.THREADS, given.EACH,
    given.PLACES, sort.at }, " "))
end

-- Where a part begins, the longer ones first: numbers, or a mapper's symbols.
local function begins(n, parts)
  local least = math.floor(n / parts)
  local longer = n - least * parts
  return function(part) return least * part + mapper.min(part, longer) end
end

--- A mapper: of a chunk that has so many items of each part, the part's elements.
---@param n integer
---@param parts integer
---@param items integer
---@return celer.range_mapper
function M.elements(n, parts, items)
  if parts == 1 then return all end
  local begin = begins(n, parts)
  return function(chunk)
    return box.new({ begin(mapper.floor(chunk.min[0] / items)) },
      { begin(mapper.floor(chunk.max[0] / items)) })
  end
end

-- The same, where each part has so many elements.
local function rows(count, items)
  return function(chunk)
    return box.new({ chunk.min[0] / items * count }, { chunk.max[0] / items * count })
  end
end

-- ---- cuts ----------------------------------------------------------------------

-- How often samples are told before they are neighbours. Of a part's run those of all parts leave
-- as many elements as lie between two samples, for each part and once more.
local function rounds_of(n, parts, most)
  local rounds, left = 1, math.ceil(n / parts)
  while left > most do
    rounds, left = rounds + 1, (parts + 1) * math.ceil(left / most)
  end
  return rounds
end

-- A buffer that says of each run where its pieces begin.
local function find_cuts(sort, runs)
  local n, parts, shape = sort.n, sort.parts, M.shape
  local most = math.max(2 * (parts + 2),
    math.min(shape.samples, math.floor(8 * shape.samples / (parts - 1))))
  local groups, words = parts - 1, (most + 2) * (parts - 1)
  local items = groups * shape.looking
  local list = kernel_for(search, sort, runs.type)
  local of_runs, of_words = M.elements(n, parts, items), rows(words, items)
  local heard = alone.scratch("uint64_t", parts * words, sort.keys)
  local told = alone.scratch("uint64_t", parts * words, sort.keys)
  local cuts = alone.scratch("int64_t", parts * (parts + 1), sort.keys)
  local function run(kernel, declare)
    alone.run(call, parts * items, shape.looking, kernel, declare, parts)
  end
  run(list.sort_samples, function(cg)
    return cg:read(runs, of_runs), cg:discard_write(told, of_words), n, parts, most
  end)
  for _ = 2, rounds_of(n, parts, most) do
    heard, told = told, heard
    run(list.sort_narrow, function(cg)
      return cg:read(runs, of_runs), cg:read(heard, all), cg:discard_write(told, of_words), n,
        parts, most
    end)
  end
  run(list.sort_cuts, function(cg)
    return cg:read(told, all), cg:discard_write(cuts, rows(parts + 1, items)), n, parts, most
  end)
  alone.done(heard, sort.keys)
  alone.done(told, sort.keys)
  return cuts
end

-- They as a function of the run and the part, when they are known; in a dry run what would be
-- found of numbers at random.
local function know(sort, cuts)
  local begin, parts = begins(sort.n, sort.parts), sort.parts
  if core.dry() then
    return function(run, part)
      return math.floor((begin(run + 1) - begin(run)) * (part / parts))
    end
  end
  local seen, list = queues.new():fence(cuts):get(), {}
  for i = 0, parts * (parts + 1) - 1 do list[i] = tonumber(seen(i)) end
  return function(run, part) return list[run * (parts + 1) + part] end
end

-- A mapper: the pieces of all runs that go to the parts of a chunk.
local function pieces(sort, cut, items)
  local begin, parts = begins(sort.n, sort.parts), sort.parts
  local function map(chunk)
    local first, last, list = chunk.min[0] / items, chunk.max[0] / items, {}
    for run = 0, parts - 1 do
      local lo, hi = cut(run, first), cut(run, last)
      list[run + 1] = box.new({ begin(run) + lo }, { begin(run) + hi })
    end
    return unpack(list)
  end
  opaque.own[map] = true
  return map
end

-- ---- pieces become one ----------------------------------------------------------

-- Of runs, each merged of so many, pairs become one; the first time from where they were found.
local function merge(sort, cut, cuts, width, from, to, before, places)
  local n, parts, shape, key = sort.n, sort.parts, M.shape, sort.keys.type
  local slots = math.ceil(math.ceil(n / parts) / (shape.threads * shape.each[key.size]))
    + math.ceil(parts / (2 * width))
  local list = kernel_for(merging, sort, key, not places and "none" or before and "next" or "first")
  local splits = alone.scratch("int64_t", parts * slots, sort.keys)
  local function of_runs(items)
    return width == 1 and pieces(sort, cut, items) or M.elements(n, parts, items)
  end
  alone.run(call, parts * slots, nil, list.sort_splits, function(cg)
    return cg:read(from, of_runs(slots)), cg:read(cuts, all), cg:discard_write(splits), n, parts,
      width
  end, parts)
  local items = slots * shape.threads
  local own = M.elements(n, parts, items)
  alone.run(call, parts * items, shape.threads, list.sort_merge, function(cg)
    local given = { cg:read(from, of_runs(items)), cg:read(cuts, all),
      cg:read(splits, rows(slots, items)), cg:discard_write(to, own) }
    if before then given[#given + 1] = cg:read(before, own) end
    if places then given[#given + 1] = cg:discard_write(places, own) end
    given[#given + 1], given[#given + 2], given[#given + 3] = n, parts, width
    return unpack(given)
  end, parts)
  alone.done(splits, sort.keys)
end

-- Merges the runs into `to`, by way of another buffer and of that; gives where they were, if that
-- is wanted.
local function merge_all(sort, cut, cuts, runs, other, to, with_places)
  local levels, width = 0, 1
  while width < sort.parts do levels, width = levels + 1, 2 * width end
  local places = { false, false }
  for level = 1, levels do
    local into = (levels - level) % 2 == 0 and to or other
    local next = with_places
      and (places[1] or alone.scratch(sort.at, sort.n, sort.keys)) or nil
    merge(sort, cut, cuts, 2 ^ (level - 1), runs, into, places[2] or nil, next)
    runs = into
    places = { places[2], next }
  end
  if places[1] then alone.done(places[1], sort.keys) end
  return places[2]
end

--- Merges what parts have sorted, the first of `runs`, into the first of `list`, by way of another
--- buffer; and by it the others.
---@param list celer.buffer[]
---@param runs celer.buffer[]
---@param other celer.buffer
---@param descending boolean
---@param parts integer
function M.run(list, runs, other, descending, parts)
  local keys, n = list[1], list[1].size[0]
  local sort = { n = n, parts = parts, descending = descending, keys = keys,
    at = n < 2 ^ 32 and "uint32_t" or "uint64_t" }
  local cuts = find_cuts(sort, runs[1])
  local cut = know(sort, cuts)
  local places = merge_all(sort, cut, cuts, runs[1], other, keys, #list > 1)
  local items = math.ceil(n / parts)
  local own, from = M.elements(n, parts, items), pieces(sort, cut, items)
  for k = 2, #list do
    alone.run(call, parts * items, nil, kernel_for(take, sort, list[k].type), function(cg)
      return cg:read(places, own), cg:read(runs[k], from), cg:discard_write(list[k], own), n, parts
    end, parts)
  end
  alone.done(cuts, keys)
  if places then alone.done(places, keys) end
end

return M
