--- merge_cuts.lua -- celer.sort on several GPUs: where in what each has sorted the pieces of the
--- result begin.
---
--- Tasks find for each piece of a part of the result where it begins in each run: cuts, which
--- kernels and mappers then go by (merge.lua). Before keys are in order samples say where they are
--- likely to lie, a little wider than needed. It is found out afterwards where they do not.
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

--- Samples of a run for a cut, at most; items of a group that looks for one. Pieces of a part, and
--- keys of a piece at least; samples of a part for a guess, of so many parts at most, and how many
--- times their square root it is too wide.
M.shape = { samples = 2 ^ 14, looking = 512, pieces = 8, piece = 2 ^ 20, guess = 2 ^ 12,
  guessed = 8, margin = 1.5 }

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

local function kernel_for(source, sort)
  local given = { T = sort.keys.type.name, DOWN = tostring(sort.descending) }
  return alone.kernel(source, given, given.T .. " " .. given.DOWN)
end

-- ---- parts ----------------------------------------------------------------------

--- Where a part begins, the longer ones first: numbers, or a mapper's symbols.
---@param n integer
---@param parts integer
---@return fun(part: any): any
function M.begins(n, parts)
  local least = math.floor(n / parts)
  local longer = n - least * parts
  return function(part) return least * part + mapper.min(part, longer) end
end
local begins = M.begins

--- A mapper: of a chunk that has so many items of each, the elements from where the first begins.
---@param begin fun(part: any): any
---@param items integer
---@return celer.range_mapper
function M.between(begin, items)
  return function(chunk)
    return box.new({ begin(mapper.floor(chunk.min[0] / items)) },
      { begin(mapper.floor(chunk.max[0] / items)) })
  end
end
local between = M.between

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

-- ---- guesses --------------------------------------------------------------------

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
  local list = kernel_for(guessing, sort)
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

-- ---- cuts -----------------------------------------------------------------------

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

--- What was guessed, which kernels compute, too.
---@param sort celer.merge_sort
---@return celer.merge_cuts
function M.guessed(sort)
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

--- A buffer in which each part has of each run where all pieces begin, which is looked for where it
--- was guessed: the complement where that may be wrong.
---@param sort celer.merge_sort
---@param runs celer.buffer  the keys, each part's in order
---@param guessed? celer.merge_cuts
---@return celer.buffer
---@return celer.future|true
function M.find(sort, runs, guessed)
  local n, parts, each, shape = sort.n, sort.parts, sort.pieces, M.shape
  local groups, many = parts * each - 1, guessed and sort.samples or 0
  local most = math.max(2 * (parts + 2),
    math.min(shape.samples, math.floor(8 * shape.samples / groups)))
  local words, items = (most + 2) * groups, groups * shape.looking
  local list = kernel_for(search, sort)
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

--- What was found; nothing where a guess may be wrong.
---@param sort celer.merge_sort
---@param future celer.future|true
---@return celer.merge_cuts?
function M.found(sort, future)
  if core.dry() then return imagined_cuts(sort, false) end
  local seen, list, cuts = future:get(), {}, sort.parts * sort.pieces + 1
  for i = 0, sort.row - 1 do
    list[i] = tonumber(seen(i))
    if list[i] < 0 then return nil end
  end
  local function cut_of(run, cut) return list[run * cuts + cut] end
  return { least = cut_of, most = cut_of, guessed = false }
end

--- A mapper: what is of the pieces of a chunk, of all runs.
---@param sort celer.merge_sort
---@param known celer.merge_cuts
---@param items integer  of a piece
---@return celer.range_mapper
function M.pieces(sort, known, items)
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

return M
