--- merge.lua -- celer.sort on several GPUs: what each has put in order becomes one order.
---
--- Tasks find for each piece of a part of the result where it begins in each run. So what is of
--- another part goes there once, from GPU to GPU, and nothing else does; and what is there is
--- merged by pairs, while the next piece is on its way: kernels/merge.cuh.
---
--- Mappers must know these cuts. Before keys are in order samples say where they are likely to
--- lie, and tasks are submitted for what lies between, a little more than needed. They do nothing
--- where a cut lies elsewhere after all. The script waits for the cuts, and then submits others.
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
--- merges, and keys of each by the bytes of a key. Pieces of a part, and keys of a piece at least;
--- samples of a part for a guess, of so many parts at most, and how many times their square root
--- it is too wide.
M.shape = { samples = 2 ^ 14, looking = 512, threads = 256,
  each = { [1] = 15, [2] = 15, [4] = 15, [8] = 11 }, pieces = 8, piece = 2 ^ 20,
  guess = 2 ^ 12, guessed = 8, margin = 1.5 }

local guessing = [[
kernel void sort_some(item<1> it, in<T, 1> keys, out<uint64_t, 1> some, int64_t n, int64_t count,
                      int64_t each) {
  const int64_t many = it.range(0) / count, part = it[0] / many;
  const celer::merge_guess guess = {{{n, count}, each}, many};
  const int64_t at = guess.parts.begin(part) + guess.at(part, it[0] % many);
  using radix = celer::radix<T, DOWN>;
  some(it[0]) = radix::code(*(const radix::key *)&keys(at));
}
kernel void sort_guess(group<1> g, in<uint64_t, 1> some, inout<uint32_t, 1> guess, int64_t n,
                       int64_t count, int64_t each, int64_t many, int64_t margin,
                       local<uint32_t, celer::merge_guess::some> rank) {
  const celer::merge_guess of = {{{n, count}, each}, many};
  const int64_t first = g.number(0) * of.some, row = of.parts.row(first / many, 0);
  of.add(g, (const uint64_t *)&some(0), first, margin, &guess(2 * row), &rank[0]);
}
]]

local search = [[
kernel void sort_samples(group<1> g, in<T, 1> runs, in<uint32_t, 1> guess,
                         out<uint64_t, 1> told, int64_t n, int64_t count, int64_t each,
                         int64_t most, int64_t many) {
  const celer::merge_search s = {{{n, count}, each}, most};
  const celer::merge_guess guessed = {s.parts, many};
  const int64_t cuts = s.parts.pieces() - 1, part = g.number(0) / cuts, cut = g.number(0) % cuts;
  const celer::merge_samples to = {&told(g.number(0) * s.words()), most};
  to.tell<T, DOWN>(g, (const celer::radix<T, DOWN>::key *)&runs(s.parts.begin(part)),
    many == 0 ? 0 : guessed.bound(guess, part, cut + 1, 0),
    many == 0 ? s.parts.size(part) : guessed.bound(guess, part, cut + 1, 1));
}
kernel void sort_narrow(group<1> g, in<T, 1> runs, in<uint64_t, 1> heard, out<uint64_t, 1> told,
                        int64_t n, int64_t count, int64_t each, int64_t most,
                        local<uint32_t, 2> found) {
  const celer::merge_search s = {{{n, count}, each}, most};
  const int64_t cuts = s.parts.pieces() - 1, part = g.number(0) / cuts, cut = g.number(0) % cuts;
  int64_t lo, hi;
  s.narrow(g, (uint64_t *)&heard(0), part, cut, &found[0], &lo, &hi);
  const celer::merge_samples to = {&told(g.number(0) * s.words()), most};
  to.tell<T, DOWN>(g, (const celer::radix<T, DOWN>::key *)&runs(s.parts.begin(part)), lo, hi);
}
kernel void sort_cuts(group<1> g, in<uint64_t, 1> heard, in<uint32_t, 1> guess,
                      out<int64_t, 1> cuts, int64_t n, int64_t count, int64_t each, int64_t most,
                      int64_t many, local<uint32_t, 2> found) {
  const celer::merge_search s = {{{n, count}, each}, most};
  const celer::merge_guess guessed = {s.parts, many};
  const int64_t pieces = s.parts.pieces(), cut = g.number(0) % (pieces - 1);
  const int64_t run = g.number(0) / (pieces - 1) % count;
  int64_t *const own = &cuts(s.parts.row(g.number(0) / (pieces - 1) / count * count, 0));
  int64_t lo, hi;
  s.narrow(g, (uint64_t *)&heard(0), run, cut, &found[0], &lo, &hi);
  if (g.local(0) > 0) return;
  const bool holds = many == 0 || guessed.holds(guess, run, cut + 1, lo);
  own[s.parts.row(run, cut + 1)] = holds ? lo : ~lo;
  if (cut > 0) return;
  own[s.parts.row(run, 0)] = 0;
  own[s.parts.row(run, pieces)] = s.parts.size(run);
}
]]

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

---@class celer.merge_sort
---@field n integer
---@field parts integer
---@field pieces integer  of a part
---@field descending boolean
---@field keys celer.buffer
---@field at string  the type of an element's number
---@field row integer  cuts of all runs
---@field samples integer  of a part, for the guess; 0: there is none
---@field guess celer.buffer
---@field guessed? celer.future|true  of it; true in a dry run

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

-- The same of a piece.
local function places(n, parts, each)
  local begin, length = begins(n, parts), math.ceil(math.ceil(n / parts) / each)
  return function(piece)
    local part = mapper.floor(piece / each)
    return mapper.min(begin(part) + (piece - each * part) * length, begin(part + 1))
  end
end

-- A mapper: of a chunk that has so many items of each, the elements from where the first begins.
local function between(begin, items)
  return function(chunk)
    return box.new({ begin(mapper.floor(chunk.min[0] / items)) },
      { begin(mapper.floor(chunk.max[0] / items)) })
  end
end

--- A mapper: of a chunk that has so many items of each part, the part's elements.
---@param n integer
---@param parts integer
---@param items integer
---@return celer.range_mapper
function M.elements(n, parts, items)
  if parts == 1 then return all end
  return between(begins(n, parts), items)
end

--- The same, where each part has so many elements.
---@param count integer
---@param items integer
---@return celer.range_mapper
function M.rows(count, items)
  return between(function(part) return part * count end, items)
end
local rows = M.rows

-- ---- cuts ----------------------------------------------------------------------

--- Begins to sort keys: guesses where cuts lie, if there are pieces.
---@param keys celer.buffer
---@param descending boolean
---@param parts integer
---@return celer.merge_sort
function M.new(keys, descending, parts)
  local n, shape = keys.size[0], M.shape
  local pieces = parts > shape.guessed and 1
    or math.max(1, math.min(shape.pieces, math.floor(n / parts / shape.piece)))
  local many, cuts = pieces > 1 and shape.guess or 0, parts * pieces + 1
  local sort = { n = n, parts = parts, pieces = pieces, descending = descending, keys = keys,
    at = n < 2 ^ 32 and "uint32_t" or "uint64_t", row = parts * cuts, samples = many,
    guess = alone.zeros(call, "uint32_t", parts * 2 * cuts, parts, keys) }
  if many == 0 then return sort end
  local list = kernel_for(guessing, sort, keys.type)
  local some = alone.scratch("uint64_t", parts * many, keys)
  alone.run(call, parts * many, nil, list.sort_some, function(cg)
    return cg:read(keys, M.elements(n, parts, many)), cg:discard_write(some, rows(many, many)), n,
      parts, pieces
  end, parts)
  local items = many / 32 * shape.looking
  alone.run(call, parts * items, shape.looking, list.sort_guess, function(cg)
    return cg:read(some, all), cg:read_write(sort.guess, rows(2 * cuts, items)), n, parts, pieces,
      many, math.ceil(shape.margin * math.sqrt(many)) * parts
  end, parts)
  sort.guessed = core.dry() or queues.new():fence(sort.guess)
  alone.done(some, keys)
  return sort
end

-- How often samples are told before they are neighbours. Of what lies between two places at first
-- those of all parts leave as many elements as lie between two samples, for each part and once
-- more.
local function rounds_of(left, parts, most)
  local rounds = 1
  while left > most do
    rounds, left = rounds + 1, (parts + 1) * math.ceil(left / most)
  end
  return rounds
end

-- What is known of cuts: functions of the run and the cut, between which places it lies.
---@class celer.merge_cuts
---@field least fun(run: integer, cut: integer): integer
---@field most fun(run: integer, cut: integer): integer
---@field guessed boolean

-- In a dry run, and below: as of numbers at random.
local function imagined_cuts(sort, guessed)
  local begin, last = begins(sort.n, sort.parts), sort.parts * sort.pieces
  local function cut_of(run, cut)
    return math.floor((begin(run + 1) - begin(run)) * (cut / last))
  end
  return { least = cut_of, most = cut_of, guessed = guessed }
end

-- What was guessed, which kernels compute, too.
local function guessed_cuts(sort)
  if core.dry() then return imagined_cuts(sort, true) end
  local begin, seen = begins(sort.n, sort.parts), sort.guessed:get()
  local cuts = sort.parts * sort.pieces + 1
  local function bound(run, cut, last)
    local some = tonumber(seen(2 * (run * cuts + cut) + last)) + 2 * last - 1
    some = math.max(0, math.min(some, sort.samples))
    return math.floor((begin(run + 1) - begin(run)) * some / sort.samples)
  end
  return { least = function(run, cut) return bound(run, cut, 0) end,
    most = function(run, cut) return bound(run, cut, 1) end, guessed = true }
end

-- Between how many places of a run a cut may lie.
local function width_of(sort, known)
  if not known then return math.ceil(sort.n / sort.parts) end
  local width = 1
  for run = 0, sort.parts - 1 do
    for cut = 1, sort.parts * sort.pieces - 1 do
      width = math.max(width, known.most(run, cut) - known.least(run, cut))
    end
  end
  return width
end

-- A buffer in which each part has of each run where all pieces begin, which is looked for where it
-- was guessed: the complement where that may be wrong.
local function find_cuts(sort, runs, guessed)
  local n, parts, each, shape = sort.n, sort.parts, sort.pieces, M.shape
  local groups, many = parts * each - 1, guessed and sort.samples or 0
  local most = math.max(2 * (parts + 2),
    math.min(shape.samples, math.floor(8 * shape.samples / groups)))
  local words, items = (most + 2) * groups, groups * shape.looking
  local list = kernel_for(search, sort, runs.type)
  local of_runs, of_words = M.elements(n, parts, items), rows(words, items)
  local heard = alone.scratch("uint64_t", parts * words, sort.keys)
  local told = alone.scratch("uint64_t", parts * words, sort.keys)
  local cuts = alone.scratch("int64_t", parts * sort.row, sort.keys)
  local function run(kernel, count, declare)
    alone.run(call, parts * count, shape.looking, kernel, declare, parts)
  end
  run(list.sort_samples, items, function(cg)
    return cg:read(runs, of_runs), cg:read(sort.guess, all), cg:discard_write(told, of_words), n,
      parts, each, most, many
  end)
  for _ = 2, rounds_of(width_of(sort, guessed), parts, most) do
    heard, told = told, heard
    run(list.sort_narrow, items, function(cg)
      return cg:read(runs, of_runs), cg:read(heard, all), cg:discard_write(told, of_words), n,
        parts, each, most
    end)
  end
  run(list.sort_cuts, parts * items, function(cg)
    return cg:read(told, all), cg:read(sort.guess, all),
      cg:discard_write(cuts, rows(sort.row, parts * items)), n, parts, each, most, many
  end)
  alone.done(heard, sort.keys)
  alone.done(told, sort.keys)
  return cuts, core.dry() or queues.new():fence(cuts, box.new({ 0 }, { sort.row }))
end

-- What was found; nothing where a guess may be wrong.
local function found_cuts(sort, future)
  if core.dry() then return imagined_cuts(sort, false) end
  local seen, list, cuts = future:get(), {}, sort.parts * sort.pieces + 1
  for i = 0, sort.row - 1 do
    list[i] = tonumber(seen(i))
    if list[i] < 0 then return nil end
  end
  local function cut_of(run, cut) return list[run * cuts + cut] end
  return { least = cut_of, most = cut_of, guessed = false }
end

-- A mapper: what is of the pieces of a chunk, of all runs.
local function pieces(sort, known, items)
  local begin, parts = begins(sort.n, sort.parts), sort.parts
  local function map(chunk)
    local first, last, list = chunk.min[0] / items, chunk.max[0] / items, {}
    for run = 0, parts - 1 do
      local lo, hi = known.least(run, first), known.most(run, last)
      list[run + 1] = box.new({ begin(run) + lo }, { begin(run) + hi })
    end
    return unpack(list)
  end
  opaque.own[map] = true
  return map
end

-- ---- pieces become one ----------------------------------------------------------

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
    return width == 1 and pieces(sort, known, items) or between(begin, items)
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
        cg:read(runs[k], pieces(sort, known, items)), cg:discard_write(list[k], own)
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
  local guessed = sort.guessed and guessed_cuts(sort)
  local cuts, future = find_cuts(sort, runs[1], guessed)
  if guessed then put(sort, guessed, cuts, list, runs, other) end
  local found = found_cuts(sort, future)
  if not found then
    alone.done(cuts, sort.keys)
    cuts, future = find_cuts(sort, runs[1])
    found, guessed = found_cuts(sort, future), nil
  end
  if not guessed then put(sort, found, cuts, list, runs, other) end
  alone.done(cuts, sort.keys)
  alone.done(sort.guess, sort.keys)
end

return M
