--- image.lua -- celer.image: reads of what an index buffer names.
---
--- An image is a range mapper that gives all of the buffer: that is what a rank alone reads.
--- Where there are several ranks, each one gets a *copy* in the place of the buffer, of which it
--- has only what its part of the index names. Before the task come hidden ones. *Find* and
--- *meet* are submitted where the index, or the cut of the task, is another than the last time:
--- then each rank knows what it gives to whom. *Bring* is, where the buffer has changed since.
--- What has changed follows from what was submitted, so it is the same on all ranks. The script
--- waits for none of it, but in a session, and for celer check: where devices have memory of their
--- own, which rows they read is known when the engine makes instructions for the task
--- (mapper/late.lua).
local codec = require "string.buffer"
local asked = require "celer.mapper.asked"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local core = require "celer.core"
local division = require "celer.submit.hints"
local lane = require "celer.host.image"
local late = require "celer.mapper.late"
local image_rows = require "celer.submit.image_rows"
local lists = require "celer.data.list"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local each = require("celer.tables").each
local place = require "celer.place"
local settings = require "celer.settings"
local snapshot = require "celer.data.snapshot"
local spaces = require "celer.space"
local trace = require "celer.mapper.trace"
local words = require "celer.words"

local fail = place.fail
local weak = { __mode = "v" }

local M = {}

local MOST_PIECES = 2048
local MOST = 16 -- that are remembered of one buffer, or used by one task
local SPLIT = core.facts.placement.split
local fields = core.facts.access
local NAME = "celer.image"

local function whole(buffer) return buffers.whole(buffer) end

-- ---- images -------------------------------------------------------------------

---@class celer.image_options
---@field as? "elements"|"ranges"
---@field of? celer.range_mapper  which entries of the index a chunk has; or an image of it
---@field plus? integer|integer[]  added to each row: a number, or the least and the most
---@field within? number[]  the least and the most of entries that name a row, or of rows
--- in ranges
---@field except? integer  what an entry says that names none
---@field how? "exact"|"boxes"|"hull"  a rank gets these very rows, or eight boxes around them,
---  or one
---@field dry? celer.range_mapper  what stands in for it in dry runs

---@class celer.image
---@field index celer.buffer
---@field kind "elements"|"offsets"|"pairs"
---@field of celer.range_mapper
---@field entries celer.range_mapper  what is read of the index for that
---@field through? celer.image  in their place: the image whose rows the entries are
---@field depth integer  how many images it takes
---@field reach table<string, number|boolean>  of cel_image_reach, what is not as by default
---@field key string  kind and reach, as text
---@field dry? celer.range_mapper
---@field boxes? integer  around the rows of a rank, at most; nil: these very rows
---@field own boolean  an item has the entries at its own coordinates
---@field call? string  that made it, for messages, if not celer.image
---@field is_forgotten? boolean  derived, and not found again

local images = mapper.images

local index_types = { i4 = true, u4 = true, i8 = true }

local function check_index(index)
  if not buffers.is_buffer(index) then
    fail("celer.image: the first argument must be the buffer that says what is read, not %s",
      words.a(index))
  elseif index.freed then
    fail("celer.image: the buffer %s was freed", index.name)
  elseif not index_types[index.type.class .. index.type.size] then
    fail("celer.image: %s holds %s; an index holds int32_t, uint32_t or int64_t", index.name,
      index.type.name)
  end
end

local function kind_of(index, as)
  if as == nil or as == "elements" then return "elements" end
  if as ~= "ranges" then
    fail("celer.image: as must be \"elements\" or \"ranges\", not %s", type(as) == "string"
      and ("%q"):format(as) or words.a(as))
  elseif index.dims == 1 then
    return "offsets"
  elseif index.dims == 2 and index.size[1] == 2 then
    return "pairs"
  end
  fail("celer.image: %s says no ranges: these are offsets, in one dimension, or pairs, in two of "
    .. "which the second has 2", index.name)
end

local function check_of(of)
  if of ~= nil and type(of) ~= "function" then
    fail("celer.image: of must be a range mapper, or an image, not %s", words.a(of))
  end
  if of then mapper.refuse_maker(NAME, of) end
  if images[of] and images[of].boxes then
    fail "celer.image: of must name exactly the rows whose entries are followed: leave out its how"
  end
end

local FAR = 2 ^ 53

local function is_whole(x) return type(x) == "number" and x % 1 == 0 and math.abs(x) <= FAR end

local function check_plus(plus)
  if plus == nil then return 0, 0 end
  local low, high = plus, plus
  if type(plus) == "table" then low, high = plus[1], plus[2] end
  if not is_whole(low) or not is_whole(high) or low > high then
    fail("celer.image: plus must be a whole number, as -1 where rows count from 1, or two: the "
      .. "least and the most that are added, { 0, 1 }")
  end
  return low, high
end

local function check_within(within)
  if within == nil then return nil, nil end
  local least, most
  if type(within) == "table" then least, most = within[1], within[2] end
  if type(least) ~= "number" or type(most) ~= "number" or least ~= least or most ~= most then
    fail("celer.image: within must be two numbers, the least and the most of an entry that names a "
      .. "row, as in { 0, math.huge }")
  end
  return least > -FAR and math.ceil(least) or nil, most < FAR and math.floor(most) or nil
end

local reaches = { "least", "most", "except", "first", "last", "step", "low", "high" }

local function key_of(kind, reach)
  local out = { kind, tostring(reach.loop or false) }
  for _, name in ipairs(reaches) do
    out[#out + 1] = reach[name] and ("%.17g"):format(reach[name]) or "-"
  end
  return table.concat(out, " ")
end

local function note(index, kind, of, entries, reach, own)
  local map = mapper.another_all "image"
  images[map] = { index = index, kind = kind, of = of, entries = entries, through = images[of],
    depth = 1 + (images[of] and images[of].depth or 0), reach = reach, key = key_of(kind, reach),
    own = own or of == mapper.entries or of == mapper.one_to_one }
  return map
end

-- An image that names the row behind each, too: ranges lie between two entries.
local function with_next(of)
  local image = images[of]
  local reach = { high = 0 }
  for name, value in pairs(image.reach) do reach[name] = value end
  reach.high = reach.high + 1
  return note(image.index, image.kind, image.of, image.entries, reach)
end

local function check_except(except, kind)
  if except ~= nil and (kind ~= "elements" or not is_whole(except)) then
    fail "celer.image: except must be a whole number that an element has where it names no row"
  end
  return except
end

local boxes_by = { hull = 1, boxes = lane.BOXES }

local function check_how(how)
  if how == nil or how == "exact" then return nil end
  if not boxes_by[how] then
    fail("celer.image: how must be \"exact\", \"boxes\" or \"hull\", not %s",
      type(how) == "string" and ("%q"):format(how) or words.a(how))
  end
  return boxes_by[how]
end

local function check_dry(dry)
  if dry == nil then return nil end
  if type(dry) ~= "function" or images[dry] then
    fail("celer.image: dry must be a range mapper that stands in for the image in dry runs, as "
      .. "celer.neighborhood(2), not %s", images[dry] and "an image" or words.a(dry))
  end
  mapper.refuse_maker(NAME, dry)
  return dry
end

local known_options = { as = true, of = true, plus = true, within = true, except = true,
  how = true, dry = true }

--- Has a task read of a buffer exactly the rows that an index names: as "elements", each of
--- its entries one, or as "ranges", from offsets or from pairs. `of` says which entries a chunk
--- has: a range mapper, by default the entries at its own coordinates (or rows of them); or an
--- image of the index. `plus` is added to each row. Entries that are not `within` two numbers,
--- or are `except`, name none. With `how`, "boxes" or "hull", a rank gets all rows of few boxes
--- around them, or of one, so that fewer pieces are copied. `dry` is a mapper that stands in for it
--- in dry runs. A buffer of one dimension has its elements for rows. A rank alone reads all of the
--- buffer, and looks only whether the rows are there.
---@param index celer.buffer  of int32_t, uint32_t or int64_t
---@param options? celer.image_options
---@return celer.range_mapper
function M.new(index, options)
  check_index(index)
  options = options == nil and {} or options
  words.check_options(NAME, options, known_options, '{ as = "ranges" }')
  local kind = kind_of(index, options.as)
  check_of(options.of)
  local of, reach = options.of or mapper.entries, {}
  reach.low, reach.high = check_plus(options.plus)
  reach.least, reach.most = check_within(options.within)
  reach.except = check_except(options.except, kind)
  if images[of] and kind == "offsets" then of = with_next(of) end
  local map = note(index, kind, of, kind == "offsets" and mapper.with_end(of) or of, reach)
  images[map].dry, images[map].boxes = check_dry(options.dry), check_how(options.how)
  if images[map].boxes then images[map].key = images[map].key .. " " .. options.how end
  return map
end

-- The newest first. Of too many the oldest goes: on all ranks the same.
local function find_in(buffer, field, is_it, make, finish)
  local list = rawget(buffer, field) or {}
  rawset(buffer, field, list)
  for i, one in ipairs(list) do
    if is_it(one) then
      table.insert(list, 1, table.remove(list, i))
      return one
    end
  end
  local made = make()
  table.insert(list, 1, made)
  if list[MOST + 1] then finish(table.remove(list)) end
  return made
end

local function forget(map) images[map].is_forgotten = true end

--- The image by which a kernel written in Lua reads: the same one each time.
---@param index celer.buffer
---@param kind "elements"|"offsets"|"pairs"
---@param of celer.range_mapper  its entries, or an image whose rows they are
---@param given boolean?  the mapper is that of the task's own access to the index
---@param reach table<string, number|boolean>
---@param own boolean  an item has the entries at its own coordinates
---@return celer.range_mapper
function M.derived(index, kind, of, given, reach, own)
  if kind == "pairs" then kind_of(index, "ranges") end
  local key = key_of(kind, reach)
  return find_in(index, "derived_images", function(map)
    return images[map].of == of and images[map].key == key
  end, function()
    local entries = kind == "offsets" and not given and mapper.with_end(of) or of
    return note(index, kind, of, entries, reach, own)
  end, forget)
end

-- ---- how a task is cut ----------------------------------------------------------

---@class celer.image_cut
---@field range any  as a host task takes it
---@field space celer.space
---@field hints celer.hints  that cut a host task so
---@field weights string  as text; "": none
---@field key string
---@field alone boolean  there is one rank

local function cut_of(group, space, grouped)
  local hints, dims = group.hints, space.dims
  local divided, handles = division.resolve(hints, dims, SPLIT, grouped)
  local cuts, range = divided.cuts, space.core
  local g = { tonumber(divided.granularity0), tonumber(divided.granularity1),
    tonumber(divided.granularity2) }
  for d = 3, dims + 1, -1 do g[d] = nil end
  local own = { split = cuts > 0 and cuts .. "d" or nil, granularity = g[1] and g or nil,
    weights = hints.weights, oversubscribe = 1, fold = 1 }
  local key = ("%d %d %s %d,%d,%d %d,%d,%d"):format(dims, cuts, table.concat(g, ","),
    tonumber(range.min0), tonumber(range.min1), tonumber(range.min2), tonumber(range.max0),
    tonumber(range.max1), tonumber(range.max2))
  return { range = space.box, space = space, hints = own, key = key,
    alone = select(2, core.rank()) == 1,
    weights = handles and handles.text or "" }
end

-- ---- what is remembered -----------------------------------------------------------

-- What ranks give each other of any buffer of so many rows, by one image, under one cut.
---@class celer.image_plan
---@field image celer.image
---@field key string  of the cut
---@field rows integer
---@field words celer.buffer  as engine/comm/image.h has them
---@field head celer.buffer
---@field inspections integer
---@field told? celer.future  of `head`, where devices have memory of their own
---@field boxes? celer.range_mapper  around what is needed; late
---@field spans? celer.buffer  as celer.host.image has them
---@field spanned? integer  how many inspections there were when they were asked for
---@field span_map? celer.range_mapper  likewise
---@field seen table  of what the last inspection depends on
---@field lists? celer.image_lists
---@field copies table<celer.image_copy, boolean>  held weakly: they are their buffers'

-- Of one buffer by one plan.
---@class celer.image_copy
---@field plan celer.image_plan
---@field buffer celer.buffer
---@field sent celer.buffer
---@field brought integer|false  how often the data had changed then; false: never
---@field inspections integer  of the plan, then
---@field on_devices boolean  kernels have brought it
---@field rooms? table  of image_rows.lua
---@field below? celer.image_copy  of the index that the image goes through

local function make_plan(image, key, data)
  local ranks, rows = select(2, core.rank()), data.size[0]
  local name = ("of %s rows by %s"):format(rows, image.index.name)
  return { image = image, key = key, rows = rows, inspections = 0, seen = {},
    copies = setmetatable({}, { __mode = "k" }),
    head = buffers.apart("int64_t", { lane.HEAD }, { name = "head " .. name, init = 0 }),
    words = buffers.apart("int64_t", { 2 * rows + 6 * ranks + 4 }, -- see cel_image_words
      { name = "plan " .. name }) }
end

local function make_copy(plan, data)
  local copy = { plan = plan, brought = false, inspections = 0,
    sent = buffers.apart("int64_t", { lane.SENT }, { name = "sent of " .. data.name, init = 0 }),
    buffer = buffers.apart(data.type, data.extents, { name = data.name }) }
  plan.copies[copy] = true
  return copy
end

local function end_copy(copy)
  copy.plan.copies[copy] = nil
  image_rows.forget_copy(copy)
  copy.buffer:free()
  copy.sent:free()
  copy.plan = false
end

local function end_plan(plan)
  for copy in each(plan.copies) do end_copy(copy) end
  plan.head:free()
  plan.words:free()
  if plan.spans then plan.spans:free() end
  image_rows.forget(plan)
end

local function plan_of(data, image, cut)
  return find_in(image.index, "image_plans", function(plan)
    return plan.key == cut.key and plan.rows == data.size[0] and plan.image.key == image.key
      and plan.image.of == image.of
  end, function() return make_plan(image, cut.key, data) end, end_plan)
end

local function copy_of(data, plan)
  return find_in(data, "image_copies", function(copy) return copy.plan == plan end,
    function() return make_copy(plan, data) end,
    function(copy) if copy.plan then end_copy(copy) end end)
end

--- Ends what is remembered of a buffer that is freed.
---@param buffer celer.buffer
function M.freed(buffer)
  for _, copy in ipairs(rawget(buffer, "image_copies") or {}) do
    if copy.plan then end_copy(copy) end
  end
  for _, plan in ipairs(rawget(buffer, "image_plans") or {}) do end_plan(plan) end
  rawset(buffer, "image_copies", nil)
  rawset(buffer, "image_plans", nil)
end

-- ---- hidden tasks -----------------------------------------------------------------

-- One of our own; `declare` gives its arguments.
local function submit(hints, where, f, declare)
  local groups = require "celer.submit.group"
  local group = groups.new(hints)
  group:name(NAME)
  group:host_task(where, f, declare(group))
  groups.close(group)
end

local function on_all() return collective.collective(NAME) end

-- A rank alone does not cut it: the granularity is beyond all ranges.
local in_one = { granularity = 2 ^ 40, oversubscribe = 1, fold = 1 }

-- The levels of an image, from what items have on, and where the index of each one lies.
local function levels_of(image, inner)
  local levels, places = {}, {}
  if inner then levels, places = levels_of(inner.plan.image, inner.below) end
  levels[#levels + 1] = { kind = image.kind, reach = image.reach, extents = image.index.extents }
  places[#places + 1] = inner and inner.buffer
  return levels, places
end

-- The image whose entries items have.
local function base_of(image)
  while image.through do image = image.through end
  return image
end

-- What a task in which ranks look at an index is told, and where the indices of the other levels
-- lie.
local function look_of(plan, data, inner, read)
  local image = plan.image
  local levels, places = levels_of(image, inner)
  return { number = plan.inspections, kind = image.kind, reach = image.reach, rows = plan.rows,
    boxes = image.boxes, index = image.index.name, of = data.name, levels = levels,
    own = base_of(image).own, read = read, call = image.call }, places
end

-- What each rank needs: of the entries that its chunk has, or that another image names. Where
-- there are no copies, what reads the index after that waits for it by a write that changes
-- nothing.
local function find(plan, data, inner, cut, read)
  local image, base = plan.image, base_of(plan.image)
  local what, places = look_of(plan, data, inner, read)
  submit(cut.alone and in_one or cut.hints, cut.range, lane.find, function(cg)
    local list = { cg:read_write(plan.head, mapper.all), cg:discard_write(plan.words, mapper.all) }
    if inner then list[#list + 1] = cg:read(inner.plan.words, mapper.all) end
    list[#list + 1] = cg:read(base.index, base.entries)
    for _, buffer in ipairs(places) do list[#list + 1] = cg:read(buffer, mapper.all) end
    if cut.alone then list[#list + 1] = cg:write(image.index, mapper.all) end
    return what, unpack(list)
  end)
  if not cut.alone then return end
  rawset(image.index, "image_looks", (rawget(image.index, "image_looks") or 0) + 1)
end

-- Whether devices have memory of their own, where they get what the rank needs.
local function is_own()
  local backend, devices = core.devices()
  return backend == "cuda" or devices > 1 or select(2, core.room()) > 0 or image_rows.serves()
end

-- A session goes on after a host task that has failed, and so would the kernel that reads by the
-- index: there the script waits until it is known that nothing is wrong.
local function inspect(plan, data, inner, cut, read)
  plan.inspections = plan.inspections + 1
  find(plan, data, inner, cut, read)
  if not cut.alone then
    submit(nil, on_all(), lane.meet, function(cg)
      return cg:read_write(plan.head, mapper.all), cg:read_write(plan.words, mapper.all),
        plan.inspections, plan.rows, image_rows.serves()
    end)
    if is_own() then
      plan.told = snapshot.request { snapshot.as_capture(plan.head, NAME, 1) }
      plan.boxes = late.new(NAME, plan.told, 1)
    end
  end
  if settings.session then place.check(core.wait(place.user())) end
end

-- The range in pieces along dimension 0, each with the box of its entries: eight numbers. So many
-- that each rank has some.
local function pieces_of(image, space)
  local lo, hi = box.bounds(space.box)
  local n, ranks = hi[1] - lo[1], select(2, core.rank())
  local count = math.min(n, math.max(MOST_PIECES, ranks), lane.SPANS * ranks)
  local out = {}
  for k = 0, count - 1 do
    local first, last = lo[1] + math.floor(n * k / count), lo[1] + math.floor(n * (k + 1) / count)
    local chunk = asked.chunk_of(space.box, { first, lo[2], lo[3] }, { last, hi[2], hi[3] })
    local part = asked.parts(image.index.dims, image.entries(chunk, image.index))[1]
    out[#out + 1], out[#out + 2] = first, last
    for d = 0, 2 do out[#out + 1] = d < part.dims and part.min[d] or 0 end
    for d = 0, 2 do out[#out + 1] = d < part.dims and part.max[d] or 1 end
  end
  return out
end

-- Has ranks find the spans of their items.
local function span(plan, data, inner, cut)
  local base, what, places = base_of(plan.image), look_of(plan, data, inner)
  local pieces = pieces_of(base, cut.space)
  plan.spans = plan.spans or buffers.apart("int64_t", { 1 + lane.PIECE * lane.SPANS },
    { name = "spans of " .. plan.image.index.name, init = 0 })
  submit(cut.alone and in_one or cut.hints, cut.range, lane.spans, function(cg)
    local list = { cg:read_write(plan.spans, mapper.all), cg:read(base.index, base.entries) }
    for _, buffer in ipairs(places) do list[#list + 1] = cg:read(buffer, mapper.all) end
    return what, pieces, unpack(list)
  end)
  local told = snapshot.request { snapshot.as_capture(plan.spans, NAME, 1) }
  plan.spanned, plan.span_map = plan.inspections, late.new(NAME, told, 0)
end

-- What devices of this rank read, of a copy or of the buffer: where they have memory of their own,
-- boxes around what the rank needs. Where they have little, the rows among which a chunk's items
-- read.
local function map_of(copy, data, cut, is_large)
  local plan = copy.plan
  if not plan or plan.rows == 0 or core.dry() then return mapper.all end
  if is_large then
    if plan.spanned ~= plan.inspections then span(plan, data, copy.below, cut) end
    return plan.span_map
  end
  return plan.boxes or mapper.all
end

-- Kernels bring it, but for the host, which looks into what other images go through, and where
-- devices have little memory.
local function bring(copy, data, planned)
  copy.on_devices = not planned and copy.plan.rows > 0 and image_rows.serves()
  if copy.on_devices then
    return image_rows.bring(copy, data)
  end
  submit(nil, on_all(), lane.bring, function(cg)
    return cg:read_write(copy.sent, mapper.all), cg:read(copy.plan.words, mapper.all),
      cg:read(data, mapper.even_split), cg:discard_write(copy.buffer, mapper.all),
      data.size[0], data.bytes / math.max(data.size[0], 1)
  end)
end

-- ---- what has changed ---------------------------------------------------------------

-- How often it may have been, but by what only looks at it.
local function changes(buffer)
  return core.buffer_changes(buffer.handle) - (rawget(buffer, "image_looks") or 0)
end

-- What the rule of the entries has come to, as text: which object that is may be another thing
-- on each rank. Raises where one rank's chunk cannot be told by one
-- box.
local function rule_of(image, cut)
  local rule, params = trace.rule(image.entries, cut.space.box, whole(image.index))
  if rule.opaque or rule.desc.boxes ~= 1 or rule.desc.each[1] > 0 then
    fail("celer.image: of gives %s for a chunk of %s; it must give one box, in closed form",
      rule.opaque and "what has no closed form" or "several boxes", image.index.name)
  end
  local desc = rule.desc
  return codec.encode { params, desc.clamp, desc.spans, desc.code }
end

-- On what an inspection depends.
local function seen_now(plan, inner, cut)
  local now = { changes = changes(plan.image.index), weights = cut.weights }
  if inner then
    now.inner, now.inspections = inner.plan, inner.plan.inspections
  else
    now.rule = rule_of(plan.image, cut)
  end
  return now
end

local function is_new(seen, now)
  for _, key in ipairs { "changes", "weights", "inner", "inspections", "rule" } do
    if seen[key] ~= now[key] then return true end
  end
  return false
end

-- Whether it is known, without a look, that the index names rows: of a list, from an offset to the
-- next one.
local function is_known(data, image)
  local reach = image.reach
  return image.kind == "offsets" and (reach.first or 0) >= 0 and (reach.last or -1) < 0
    and (reach.step or 1) > 0 and (reach.low or 0) >= 0 and (reach.high or 0) <= 0
    and lists.is_sound(image.index, data)
end

-- A copy that is as the buffer is now; of a rank alone the buffer itself, of which it has seen
-- that the index names rows. `planned`: also where that needs no look.
local function current(data, image, cut, read, planned)
  if image.index.freed then fail("celer.image: the buffer %s was freed", image.index.name) end
  local inner = image.through and current(image.index, image.through, cut, nil, true)
  if cut.alone and not planned and is_known(data, image) then return { buffer = data } end
  local plan = plan_of(data, image, cut)
  local seen = seen_now(plan, inner, cut)
  if is_new(plan.seen, seen) then
    inspect(plan, data, inner, cut, read)
    plan.seen = seen
  end
  if cut.alone then return { plan = plan, buffer = data, below = inner } end
  local copy, now = copy_of(data, plan), changes(data)
  if copy.brought ~= now or copy.inspections ~= plan.inspections
    or planned and copy.on_devices then
    bring(copy, data, planned)
  end
  copy.brought, copy.inspections, copy.below = now, plan.inspections, inner
  return copy
end

-- ---- accesses -------------------------------------------------------------------------

-- Raises where the task may also change what it reads by an image: a rank alone would see that.
local function check_other_accesses(group, access, call)
  for i = 1, group.n do
    local other = group[i]
    if other.buffer == access.buffer and other.mode ~= "read" then
      fail("%s: %s is read by an image and changed by the same task (cg:%s): write to a second "
        .. "buffer", call, access.buffer.name, other.mode)
    end
  end
end

local function check_access(group, access, call)
  if access.buffer.dims == 0 then
    fail("%s: %s has no dimensions, so no row of it can be named by an image", call,
      access.buffer.name)
  end
  check_other_accesses(group, access, call)
  rawset(access, "by_image", access.buffer) -- for celer check and --check-nan
end

local function check(group, call)
  local own = group.more and group.more.own or {}
  if own.place or own.fold then
    fail("%s: what is read by an image is for a task that is divided: cg:hint gave %s", call,
      own.place and "a place" or "fold")
  end
  local count = 0
  for i = 1, group.n do
    local image = images[group[i].map]
    if image then
      check_access(group, group[i], call)
      count = count + image.depth
    end
  end
  if count > MOST then -- else what is remembered for one goes when the next one comes
    fail("%s: the task reads by %d images, with those that they go through: %d are the most",
      call, count, MOST)
  end
end

--- Refuses a task that is not divided.
---@param call string
---@param where any
function M.refuse(call, where)
  fail("%s: it runs at %s, and what is read by an image is for a task that is divided over a "
    .. "range; celer.all reads all of a buffer", call, tostring(where))
end

-- In a dry run, which has no index to look at: whether a mapper stands in for the image. Else the
-- report says that what it brings is not counted.
local function stands_in(access, image)
  if not core.dry() then return false end
  if not image.dry then require("celer.tools.dry").uncounted("images", image.index.name) end
  rawset(access, fields.map, image.dry or access.map)
  return image.dry ~= nil
end

-- What celer check holds the task to.
local function exact_map(image)
  local exact = require "celer.submit.exact"
  exact.fetch(image, changes)
  return exact.mapper(image, changes)
end

-- Where what a task reads by images takes that much of the memory of some device, chunks may have
-- to be cut further, and then read what their own items name.
M.PART = 1 / 4

local function is_large(group)
  local _, room = core.room()
  local bytes = 0
  for i = 1, room > 0 and group.n or 0 do
    if images[group[i].map] then bytes = bytes + group[i].buffer.bytes end
  end
  return bytes > room * M.PART
end

-- What a task reads in the place of the data, and by which mapper; submits what brings it.
local function read_by(image, data, cut, read, large)
  local copy = current(data, image, cut, read, large)
  return copy.buffer, map_of(copy, data, cut, large)
end

--- Of a group that is to get its work, with accesses by images: submits what brings the data,
--- and gives it the copies in the place of the buffers.
---@param group celer.command_group
---@param call string
---@param range any  as the work takes it
---@param tell? fun(access: celer.access, use: celer.image_use)  is told of each
function M.resolve(group, call, range, tell)
  group.images = false
  check(group, call)
  local grouped = nd_range.is_nd_range(range) and range or nil
  local space = spaces.of(grouped and grouped.size or range, call)
  if space.empty then return end
  local cut, large = cut_of(group, space, grouped), is_large(group)
  for i = 1, group.n do
    local access = group[i]
    local image = images[access.map]
    if image and not stands_in(access, image) then
      local read = rawget(access, "read_at")
      local buffer, map = read_by(image, access.buffer, cut, read, large)
      if tell then
        tell(access, { image = setmetatable({ image }, weak), cut = cut, read = read, large = large,
          map = map })
      end
      rawset(access, fields.buffer, buffer)
      rawset(access, fields.map, settings.check and exact_map(image) or map)
      rawset(access, core.facts.hidden.handle, buffer.handle)
    end
  end
end

---@class celer.image_use  what a task reads by an image, over one range under the same hints
---@field image celer.image[]  held weakly: it goes with its index
---@field cut celer.image_cut
---@field read? string
---@field large boolean
---@field map celer.range_mapper

--- What such a task reads of a buffer when it comes again, after what brings it was submitted; nil
--- where it reads that by another mapper, or the index is gone. Nor is there anything where the
--- image is forgotten, which some ranks' collectors have taken, and others' have not.
---@param use celer.image_use
---@param data celer.buffer  of the same shape
---@return celer.buffer?
function M.again(use, data)
  local image = use.image[1]
  local at = image
  while at do
    if at.index.freed or at.is_forgotten then return nil end
    at = at.through
  end
  if not image then return nil end
  local buffer, map = read_by(image, data, use.cut, use.read, use.large)
  return map == use.map and buffer or nil
end

--- The indices of the image that a mapper is, with those of images that it goes through.
---@param map celer.range_mapper
---@return celer.buffer[]
function M.indices(map)
  local out, image = {}, images[map]
  while image do
    out[#out + 1], image = image.index, image.through
  end
  return out
end

--- What ranks have sent for a buffer's images since they came to be: messages, their bytes, the
--- bytes that ranks needed of others; exchanges and inspections. For specs and benchmarks: it
--- waits.
---@param data celer.buffer
---@return {messages: integer, bytes: integer, needed: integer, exchanges: integer,
---  inspections: integer}
function M.traffic(data)
  local sum = { messages = 0, bytes = 0, needed = 0, exchanges = 0, inspections = 0 }
  for _, copy in ipairs(rawget(data, "image_copies") or {}) do
    if copy.plan then
      local total = buffers.apart("int64_t", { lane.SENT }, { name = "total" })
      submit(nil, on_all(), lane.total, function(cg)
        return cg:read(copy.sent, mapper.all), cg:discard_write(total, mapper.all)
      end)
      local all = require("celer.submit.queue").new():wait(total)
      for i, name in ipairs(lane.sent) do sum[name] = sum[name] + tonumber(all(i - 1)) end
      sum.inspections = sum.inspections + copy.plan.inspections
    end
  end
  return sum
end

return M
