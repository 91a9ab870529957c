--- merge.lua -- celer.sort on several GPUs: what each has put in order becomes one order.
---
--- What is of another part of the result goes there once, from GPU to GPU, and nothing else does;
--- and what is there is merged by pairs, while the next piece is on its way: kernels/merge.cuh.
---
--- Tasks are submitted for cuts that were guessed (merge_cuts.lua). They do nothing where a cut
--- lies elsewhere after all. The script waits for the cuts, and then submits others.
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local mapper = require "celer.mapper.builtin"
local merge_cuts = require "celer.arrays.merge_cuts"

local M = {}

local call = "celer.sort"
local begins, between, rows = merge_cuts.begins, merge_cuts.between, merge_cuts.rows

--- Items of a group that merges, and keys of each by the bytes of a key.
M.shape = { threads = 256, each = { [1] = 15, [2] = 15, [4] = 15, [8] = 11 } }

-- A tile for each slot: where its keys are in both runs, where they go, how many there are, and how
-- many of the first run; negative: up to the next tile. With `guessed` none where not all need have
-- come.
local SLOT = 5
local merging = [[
using merging = celer::merge_tile<T, DOWN, THREADS, EACH>;
kernel void sort_tiles(item<1> it, in<T, 1> runs, in<int64_t, 1> cuts, out<int64_t, 1> tiles,
                       int64_t n, int64_t count, int64_t each, int64_t width, bool guessed) {
  using key = merging::key;
  const celer::merge_parts parts = {{n, count}, each};
  const int64_t slots = it.range(0) / parts.pieces(), piece = it[0] / slots;
  const celer::merge_level level = {parts, &cuts(parts.row(piece / each * count, 0)), width,
    merging::tile};
  int64_t *const tile = &tiles(5 * it[0]);
  celer::merge_pair p;
  int64_t first;
  tile[3] = 0;
  if (guessed && !level.was_guessed(piece)) return;
  if (!level.find(piece, it[0] % slots, &p, &first)) return;
  const int64_t a = celer::merge_split<merging::base>(
    [&](int64_t k) { return *(const key *)&runs(p.a + k); }, p.a_count,
    [&](int64_t k) { return *(const key *)&runs(p.b + k); }, p.b_count, first);
  const int64_t left = p.a_count + p.b_count - first;
  tile[0] = p.a + a;
  tile[1] = p.b + first - a;
  tile[2] = p.to + first;
  tile[3] = left < merging::tile ? left : merging::tile;
  tile[4] = left > merging::tile ? -1 : p.a_count - a;
}
kernel void sort_merge(group<1> g, in<T, 1> runs, in<int64_t, 1> tiles, out<T, 1> to, PLACES
                       local<uint64_t, (merging::room + 7) / 8> room) {
  using key = merging::key;
  const int64_t *const tile = &tiles(5 * g.number(0));
  const int64_t a = tile[0], b = tile[1], first = tile[2];
  if (tile[3] == 0) return;
  const int a_count = int(tile[4] < 0 ? tile[5] - a : tile[4]);
  const int b_count = int(tile[3]) - a_count;
  merging::run(g, a_count > 0 ? (const key *)&runs(a) : nullptr, a_count,
    b_count > 0 ? (const key *)&runs(b) : nullptr, b_count, (key *)&to(first), WITH,
    [&](int k, int was) {
      const int64_t from = was < a_count ? a + was : b + was - a_count;
      PUT;
    }, (unsigned char *)&room[0]);
}
]]

-- What a level is given of places: none, none before it, or both.
local places_of = {
  none = { PLACES = "", WITH = "false", PUT = "(void)from, (void)k" },
  first = { PLACES = "out<AT, 1> places,", WITH = "true", PUT = "places(first + k) = (AT)from" },
  next = { PLACES = "in<AT, 1> before, out<AT, 1> places,", WITH = "true",
    PUT = "places(first + k) = before(from)" },
}

local take = [[
kernel void sort_merged(group<1> g, in<AT, 1> places, in<int64_t, 1> tiles, in<T, 1> from,
                        out<T, 1> to) {
  const int64_t *const tile = &tiles(5 * g.number(0));
  for (int64_t k = g.local(0); k < tile[3]; k += g.size(0))
    to(tile[2] + k) = from(places(tile[2] + k));
}
]]

local function kernel_for(source, sort, type_, places)
  local of = places_of[places or "none"]
  local given = { T = type_.name, DOWN = tostring(sort.descending),
    THREADS = tostring(M.shape.threads), EACH = tostring(M.shape.each[type_.size] or 1),
    PLACES = of.PLACES:gsub("AT", sort.at), WITH = of.WITH, PUT = of.PUT:gsub("AT", sort.at),
    AT = sort.at }
  return alone.kernel(source, given, table.concat({ given.T, given.DOWN, given.THREADS, given.EACH,
    given.PLACES, sort.at }, " "))
end

-- Where a piece begins.
local function places(n, parts, each)
  local begin, length = begins(n, parts), math.ceil(math.ceil(n / parts) / each)
  return function(piece)
    local part = mapper.floor(piece / each)
    return mapper.min(begin(part) + (piece - each * part) * length, begin(part + 1))
  end
end

-- A task of so many items for each piece, in groups of so many; each piece is merged when it is
-- there.
local function run_pieces(sort, items, group, kernel, declare)
  local pieces_of = sort.parts * sort.pieces
  alone.run(call, pieces_of * items, group, kernel, declare, pieces_of, sort.pieces)
end

-- Of runs, each merged of so many, pairs become one; the first time from where they were found.
-- Gives the tiles.
local function merge(sort, known, cuts, width, from, to, before, after)
  local n, parts, each, shape, key = sort.n, sort.parts, sort.pieces, M.shape, sort.keys.type
  local begin = places(n, parts, each)
  local slots = math.ceil(math.ceil(math.ceil(n / parts) / each)
    / (shape.threads * shape.each[key.size])) + math.ceil(parts / (2 * width))
  local list = kernel_for(merging, sort, key, not after and "none" or before and "next" or "first")
  local tiles = alone.scratch("int64_t", SLOT * parts * each * slots, sort.keys)
  local function of_runs(items)
    return width == 1 and merge_cuts.pieces(sort, known, items) or between(begin, items)
  end
  local row, of_each = sort.row, each * slots
  local function of_part(chunk) -- those that all parts have alike
    return box.new({ mapper.floor(chunk.min[0] / of_each) * row },
      { mapper.floor((chunk.max[0] - 1) / of_each) * row + row })
  end
  run_pieces(sort, slots, nil, list.sort_tiles, function(cg)
    return cg:read(from, of_runs(slots)), cg:read(cuts, of_part),
      cg:discard_write(tiles, rows(SLOT * slots, slots)), n, parts, each, width, known.guessed
  end)
  local items = slots * shape.threads
  local own = between(begin, items)
  run_pieces(sort, items, shape.threads, list.sort_merge, function(cg)
    local given = { cg:read(from, of_runs(items)), cg:read(tiles, rows(SLOT * slots, items)),
      cg:discard_write(to, own) }
    if before then given[#given + 1] = cg:read(before, own) end
    if after then given[#given + 1] = cg:discard_write(after, own) end
    return unpack(given)
  end)
  return tiles
end

-- Merges the runs into `to`, by way of another buffer and of that; gives the last tiles, and where
-- elements were, if that is wanted.
local function merge_all(sort, known, cuts, runs, other, to, with_places)
  local levels, width = 0, 1
  while width < sort.parts do levels, width = levels + 1, 2 * width end
  local were, tiles = { false, false }, nil
  for level = 1, levels do
    local into = (levels - level) % 2 == 0 and to or other
    local next = with_places
      and (were[1] or alone.scratch(sort.at, sort.n, sort.keys)) or nil
    if tiles then alone.done(tiles, sort.keys) end
    tiles = merge(sort, known, cuts, 2 ^ (level - 1), runs, into, were[2] or nil, next)
    runs = into
    were = { were[2], next }
  end
  if were[1] then alone.done(were[1], sort.keys) end
  return tiles, were[2]
end

-- The same for all buffers.
local function put(sort, known, cuts, list, runs, other)
  local tiles, were = merge_all(sort, known, cuts, runs[1], other, list[1], #list > 1)
  local threads = M.shape.threads
  local items = tiles.size[0] / (SLOT * sort.parts * sort.pieces) * threads
  local own = between(places(sort.n, sort.parts, sort.pieces), items)
  for k = 2, #list do
    run_pieces(sort, items, threads, kernel_for(take, sort, list[k].type), function(cg)
      return cg:read(were, own), cg:read(tiles, rows(SLOT * items / threads, items)),
        cg:read(runs[k], merge_cuts.pieces(sort, known, items)), cg:discard_write(list[k], own)
    end)
  end
  alone.done(tiles, sort.keys)
  if were then alone.done(were, sort.keys) end
end

--- Merges what parts have sorted, the first of `runs`, into the first of `list`, by way of another
--- buffer; and by it the others.
---@param sort celer.merge_sort
---@param list celer.buffer[]
---@param runs celer.buffer[]
---@param other celer.buffer
function M.run(sort, list, runs, other)
  local guessed = sort.guessed and merge_cuts.guessed(sort)
  local cuts, future = merge_cuts.find(sort, runs[1], guessed)
  if guessed then put(sort, guessed, cuts, list, runs, other) end
  local found = merge_cuts.found(sort, future)
  if not found then
    alone.done(cuts, sort.keys)
    cuts, future = merge_cuts.find(sort, runs[1])
    found, guessed = merge_cuts.found(sort, future), nil
  end
  if not guessed then put(sort, found, cuts, list, runs, other) end
  alone.done(cuts, sort.keys)
  alone.done(sort.guess, sort.keys)
end

return M
