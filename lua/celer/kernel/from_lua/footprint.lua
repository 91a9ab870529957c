--- footprint.lua -- which elements a kernel touches, and how: modes and range mappers.
local affine = require "celer.kernel.from_lua.affine"
local elements = require "celer.kernel.from_lua.elements"
local indirect = require "celer.kernel.from_lua.indirect"
local linear = require "celer.kernel.from_lua.linear"
local paths = require "celer.kernel.from_lua.paths"
local ranges = require "celer.kernel.from_lua.ranges"
local sorted_pairs = require("celer.tables").sorted_pairs

local M = {}

-- Indices that are read and lie so near have one box. What is written has no gaps.
local NEAR, NEXT = 16, 1
local MOST_BOXES = 27
local UNCONDITIONAL = " ; ; " -- what all chunks touch

---@class celer.footprint  of one array
---@field array celer.lua_array
---@field mode "read"|"write"|"discard_write"|"read_write"
---@field loads celer.node[]
---@field stores celer.node[]
---@field atomic boolean  it is changed by atomic operations, which are among its stores
---@field together? boolean  these may be at one element for items of any chunk
---@field reads boolean  what was there before
---@field boxes? celer.span[][]  a span for each dimension
---@field unknown? {node: celer.node, dim: integer, cause: celer.node}  why there are none
---@field reach? celer.lua_reach  of what is read beyond its edges
---@field fault? {node: celer.node, message: string}  why items would collide

-- ---- indices ------------------------------------------------------------------------------

-- Which coordinate an index is, with a factor, and what is added to it; and which counters it
-- has besides.
local function parts_of(form)
  local coordinate, counter, others = nil, nil, 0
  for _, node in ipairs(affine.nodes(form)) do
    if node.op == "coordinate" then
      others, coordinate = others + (coordinate and 1 or 0), node
    elseif node.loop and node.op == "phi" then
      others, counter = others + (counter and 1 or 0), node
    elseif node.op ~= "uniform" then
      others = others + 1
    end
  end
  return coordinate, counter, others
end

-- ---- boxes --------------------------------------------------------------------------------

local function alike(a, b)
  return linear.text(a.low) == linear.text(b.low) and linear.text(a.high) == linear.text(b.high)
end

-- Whether one ends where the other one begins, for every chunk.
local function touch(a, b)
  for _, between in ipairs { linear.add(a.low, b.high, -1), linear.add(b.low, a.high, -1) } do
    if not next(between.of) and between.c == 1 then return true end
  end
  return false
end

-- Two spans that move together, a few elements apart, as one; or nil. If `apart`, only where some
-- element lies in it for each chunk: one that begins as the first and ends as the second could
-- hold something for a chunk and nothing for its parts.
local function joined(context, a, b, near, apart)
  local between = affine.add(a.core, b.core, -1)
  if a.kind ~= b.kind or next(between.of) then return nil end
  if math.abs(between.c) > near and not touch(a, b) then return nil end
  local low = linear.choose(context, "min", a.low, b.low)
  local high = linear.choose(context, "max", a.high, b.high)
  if apart and not linear.at_most(context, low, high) then return nil end
  return { low = low, high = high, core = a.core, kind = a.kind }
end

-- One box in the place of two that differ in one dimension at most.
local function merged(context, a, b, near, apart)
  local differs
  for d = 1, #a do
    if not alike(a[d], b[d]) then
      if differs then return nil end
      differs = d
    end
  end
  if a.needed ~= b.needed then return nil end
  if not differs then return a end
  local span = joined(context, a[differs], b[differs], near, apart)
  if not span then return nil end
  local out = { unpack(a) }
  out[differs], out.node, out.needs, out.needed = span, a.node, a.needs, a.needed
  return out
end

local function lies_in(context, a, b)
  if b.needed ~= UNCONDITIONAL and a.needed ~= b.needed then return false end
  for d = 1, #a do
    if not linear.at_most(context, b[d].low, a[d].low)
      or not linear.at_most(context, a[d].high, b[d].high) then
      return false
    end
  end
  return true
end

-- Calls f for pairs of boxes until it gives what takes the place of both.
local function reduce(boxes, f)
  for i = 1, #boxes do
    for j = i + 1, #boxes do
      local one = f(boxes[i], boxes[j])
      if one then
        boxes[i] = one
        table.remove(boxes, j)
        return reduce(boxes, f)
      end
    end
  end
end

local function simplify(context, boxes, near, apart)
  reduce(boxes, function(a, b) return merged(context, a, b, near, apart) end)
  reduce(boxes, function(a, b)
    return lies_in(context, b, a) and a or lies_in(context, a, b) and b or nil
  end)
end

-- How many elements a span has, if that is a number.
local function width_of(span)
  local apart = linear.add(span.high, span.low, -1)
  return not next(apart.of) and apart.c + 1 or nil
end

-- In which dimension a box can become empty for a chunk whose items are at other coordinates: one
-- in which it has the same width for all chunks.
local function place_of_need(box, need)
  for _, d in ipairs { need.dim + 1, 1, 2, 3 } do
    if box[d] and width_of(box[d]) then return d end
  end
end

local function need_text(need)
  return need and ("%s %s"):format(need.late and linear.text(need.late) or "",
    need.early and linear.text(need.early) or "") or " "
end

-- Notes what a chunk needs for that it touches a box: conditions on a coordinate that is an index
-- are in the bounds of that.
local function note_needs(self, box, ways)
  local all, text = { unpack(ways) }, {}
  for _, span in ipairs(box) do
    for _, way in ipairs(span.ways or {}) do all[#all + 1] = way end
  end
  box.needs = ranges.needs(self, all)
  for d, span in ipairs(box) do
    if span.follows and #all > #ways then box[d] = ranges.narrowed(self, span, all) end
    if span.follows then box.needs[span.follows] = nil end
  end
  for d = 0, 2 do
    local need = box.needs[d]
    if need and not place_of_need(box, need) then box.needs[d] = nil end
    text[d + 1] = need_text(box.needs[d])
  end
  box.needed = table.concat(text, ";")
end

-- Whether nothing lies in a box, for whichever chunk: it is of ways that no item takes.
local function is_empty(context, box)
  for _, span in ipairs(box) do
    if linear.at_most(context, linear.shift(span.high, 1), span.low) then return true end
  end
  for _, need in pairs(box.needs or {}) do
    for _, which in ipairs { "late", "early" } do
      if need[which] and linear.at_most(context, linear.constant(1), need[which]) then
        return true
      end
    end
  end
  return false
end

-- All choices of one span for each dimension.
local function product(self, out, spans, box, d, node)
  if d > #spans then
    local made = { node = node, needed = UNCONDITIONAL, unpack(box) }
    if spans.ways then note_needs(self, made, spans.ways) end
    if not is_empty(self.context, made) then out[#out + 1] = made end
    spans.last = made
    return
  end
  for _, span in ipairs(spans[d]) do
    box[d] = span
    product(self, out, spans, box, d + 1, node)
  end
end

-- The span, empty for chunks that lack one of the needs. Each end is kept beside the other one as
-- it was: what becomes of that may depend on the chunk's other end.
local function emptied_span(context, span, needs)
  local zero, width = linear.constant(0), width_of(span)
  local late, early = zero, zero
  for _, need in ipairs(needs) do
    if need.late then late = linear.choose(context, "max", late, need.late) end
    if need.early then early = linear.choose(context, "max", early, need.early) end
  end
  return { core = span.core, kind = span.kind,
    low = linear.choose(context, "min", linear.shift(span.high, 1),
      linear.add(span.low, late, width)),
    high = linear.choose(context, "max", linear.shift(span.low, -1),
      linear.add(span.high, early, -width)) }
end

-- The box, empty for chunks that have not what it needs.
local function emptied(context, box)
  local out, by_place = { node = box.node, unpack(box) }, {}
  for coordinate = 0, 2 do
    local need = box.needs and box.needs[coordinate]
    local d = need and place_of_need(box, need)
    if d then
      by_place[d] = by_place[d] or {}
      table.insert(by_place[d], need)
    end
  end
  for d in ipairs(box) do
    if by_place[d] then out[d] = emptied_span(context, box[d], by_place[d]) end
  end
  return out
end

-- What a chunk writes must not depend on how the range is cut. Behind each element of an index
-- like 2 * i lie some that count as the item's, too, though it leaves them as they are. Where an
-- index depends on the chunk, and is not the coordinate that makes the element the item's own, it
-- may be anywhere.
local function widen(self, spans, index, d)
  local form, last = affine.of(index), linear.atom(("buffer.size[%d]"):format(d), -1)
  local coordinate, counter, others = parts_of(form)
  if coordinate and not counter and others == 0 then
    local step = math.abs(form.of[coordinate])
    for _, span in ipairs(step ~= 1 and spans or {}) do
      span.high = linear.choose(self.context, "min", linear.shift(span.high, step - 1), last)
    end
    return
  end
  for k, span in ipairs(spans) do
    local text = linear.text(span.low) .. linear.text(span.high)
    if text:find("chunk.", 1, true) then
      spans[k] = { low = linear.constant(0), core = span.core, kind = span.kind, high = last }
    end
  end
end

-- Where the data say which.
local function all_rows()
  return { { low = linear.constant(0), high = linear.atom("buffer.size[0]", -1),
    core = { c = 0, of = {} }, kind = "inside" } }
end

-- The boxes of what these nodes touch; nil and why there are none. If `apart`, those of an index
-- that a branch chooses are several.
local function boxes_of(self, nodes, near, apart, written)
  local out = {}
  for _, node in ipairs(nodes) do
    local spans = { ways = apart and { { from = node.block } } or nil }
    for d = 1, node.array.dims do
      local list, cause = ranges.spans(self, node, d, apart)
      if d == 1 and node.array.indirect then list = all_rows() end
      if not list then return nil, { node = node, dim = d - 1, cause = cause } end
      spans[d] = list
      if written then widen(self, spans[d], node.index[d], d - 1) end
    end
    product(self, out, spans, {}, 1, node)
    if #out == 0 and node == nodes[#nodes] then out[1] = spans.last end
    simplify(self.context, out, near, apart)
  end
  return #out <= MOST_BOXES and out or nil, #out > MOST_BOXES
    and { node = nodes[1], dim = 0, cause = nodes[1] } or nil
end

local function boxes_of_loads(self, nodes)
  local boxes = boxes_of(self, nodes, NEAR, true)
  if not boxes then
    local cause
    boxes, cause = boxes_of(self, nodes, NEAR, false)
    if not boxes then return nil, cause end
  end
  for k, box in ipairs(boxes) do boxes[k] = emptied(self.context, box) end
  return boxes
end

-- ---- what is written ----------------------------------------------------------------------

-- Whether a loop counts over the same for all items.
local function is_fixed(self, loop)
  return ranges.uniform(self, loop.first) ~= nil and ranges.uniform(self, loop.last) ~= nil
end

-- Notes in `at` which dimension of the array each coordinate of the item decides, and how;
-- gives whether the store covers its box: no gaps, and no other index.
local function note_indices(graph, self, store, at)
  local exact, counters = true, {}
  for d = 1, store.array.dims do
    local index = store.index[d]
    local form = affine.of(index)
    local coordinate, counter, others = parts_of(form)
    if coordinate and not counter and others == 0 then
      at[coordinate.dim] = ("%d: %s"):format(d, affine.key(form))
      exact = exact and math.abs(form.of[coordinate]) == 1
    elseif counter and not coordinate and others == 0 then
      exact = exact and math.abs(form.of[counter]) == 1 and not counters[counter]
        and is_fixed(self, counter.loop) and paths.each_turn(graph, counter.loop, store.block)
      counters[counter] = true
    elseif coordinate or counter or others > 0 then
      exact = false
    end
  end
  return exact
end

-- Whether an index is computed from several coordinates, as i * m + j, which may be one for each.
local function is_mixed(store)
  for d = 1, store.array.dims do
    local coordinate, _, others = parts_of(affine.of(store.index[d]))
    if coordinate and others > 0 then return true end
  end
  return false
end

local letters = { [0] = "first", "second", "third" }

-- Why two items might write one element; or nil.
local function collision(items, stores, places)
  for k, store in ipairs(stores) do
    for d = 0, items - 1 do
      if not places[k][d] then
        return { node = store, message = ("two items may write one element of '%s': none of its "
          .. "indices is the %s coordinate, with something added; give each item an element of "
          .. "its own, or reduce into it, as with celer.sum%s"):format(store.array.name,
          letters[d], is_mixed(store) and ("; or say which part a chunk writes, by "
            .. "celer.access(%s, mapper)"):format(store.array.name) or "") }
      elseif places[k][d] ~= places[1][d] then
        return { node = store, message = ("two items may write one element of '%s': line %d "
          .. "writes at another place; write to the same in both"):format(store.array.name,
          stores[1].line) }
      end
    end
  end
end

local MOST_LEAVES = 256

-- All numbers that an element consists of, by their paths: "x", "q[3]".
local function leaves_of(element, path, out)
  for name, field in sorted_pairs(element.fields or {}) do
    leaves_of(field, path == "" and name or path .. "." .. name, out)
  end
  for k = 0, math.min(element.count or 0, MOST_LEAVES) - 1 do
    leaves_of(element.of, ("%s[%d]"):format(path, k), out)
  end
  if not (element.fields or element.count) then out[#out + 1] = path end
  return out
end

-- The path of what is stored, as that of a leaf; of what a counter decides none.
local function leaf_of(store)
  local at = store.array.dims
  return (store.field:gsub("%[%]", function()
    at = at + 1
    local index = store.index[at]
    return ("[%s]"):format(index.low == index.high and index.low or "?")
  end))
end

-- Whether each item stores an element at one place: all of it, or each of its fields.
local function is_filled(graph, array, blocks)
  if blocks[""] then return paths.certain(graph, blocks[""]) end
  local leaves = leaves_of(elements.find(array.type, ""), "", {})
  if #leaves >= MOST_LEAVES then return false end
  for _, path in ipairs(leaves) do
    if not blocks[path] or not paths.certain(graph, blocks[path]) then return false end
  end
  return true
end

-- The first indices of a node, or all, as text: equal for the same element.
local function place_of(node, n)
  local key = {}
  for d = 1, n or #node.index do key[d] = affine.key(affine.of(node.index[d])) end
  return table.concat(key, ";")
end

-- Whether all that is stored is stored by each item: for several places each by itself.
local function is_certain(graph, stores)
  local by_place, places = {}, {}
  for _, store in ipairs(stores) do
    local text = place_of(store, store.array.dims)
    if not by_place[text] then
      by_place[text] = {}
      places[#places + 1] = by_place[text]
    end
    local blocks = by_place[text]
    local leaf = leaf_of(store)
    blocks[leaf] = blocks[leaf] or {}
    blocks[leaf][store.block] = true
  end
  for _, blocks in ipairs(places) do
    if not is_filled(graph, stores[1].array, blocks) then return false end
  end
  return true
end

-- Notes why items would collide; gives whether each item stores all of its boxes.
local function look_at_stores(graph, self, items, use)
  local exact, places = true, {}
  for k, store in ipairs(use.stores) do
    places[k] = {}
    exact = note_indices(graph, self, store, places[k]) and exact
  end
  use.fault = collision(items, use.stores, places)
  return exact and not use.fault and is_certain(graph, use.stores), places[1]
end

-- ---- reading what is written --------------------------------------------------------------

-- An item that reads elements which others write would see them before, or after: it reads at
-- the coordinates that make what is written its own.
local function look_at_loads(graph, self, items, use, own)
  for _, load in ipairs(use.loads) do
    local place = {}
    note_indices(graph, self, load, place)
    for d = 0, items - 1 do
      if place[d] ~= own[d] then
        use.fault = use.fault or { node = load, message = ("'%s' is read where other items may "
          .. "write: items run at the same time; write to another buffer, and swap the two"):format(
          use.array.name) }
      end
    end
  end
end

-- ---- all of it ------------------------------------------------------------------------------

local function uses_of(graph)
  local list, by_number = {}, {}
  graph:each(function(node)
    if node.op ~= "load" and node.op ~= "store" and node.op ~= "atomic" then return end
    local number = node.array.number
    if not by_number[number] then
      by_number[number] = { array = node.array, loads = {}, stores = {}, atomic = false }
      list[#list + 1] = by_number[number]
    end
    local use = by_number[number]
    use.atomic = use.atomic or node.op == "atomic"
    table.insert(node.op == "load" and use.loads or use.stores, node)
  end)
  return list, by_number
end

-- Whether a load takes what the item itself has stored before.
local function is_own(load, stores)
  for _, store in ipairs(stores) do
    if (store.field == "" or store.field == load.field)
      and place_of(store) == place_of(load, #store.index) and paths.precedes(store, load) then
      return true
    end
  end
  return false
end

-- Reads that take what was in the buffer before.
local function old_reads(use)
  local out = {}
  for _, load in ipairs(use.loads) do
    if not is_own(load, use.stores) then out[#out + 1] = load end
  end
  return out
end

-- All that is read and written.
local function touched(use)
  local out = { unpack(use.stores) }
  for _, load in ipairs(use.loads) do out[#out + 1] = load end
  return out
end

-- Atomic operations of all items may be at one element, but nothing else.
local function plain_beside(use)
  local list = touched(use)
  for _, node in ipairs(list) do
    if node.op ~= "atomic" then
      return { node = node, message = ("'%s' is %s here, and changed by atomic operations of other "
        .. "items: %s"):format(use.array.name, node.op == "load" and "read" or "written",
        node.op == "load" and "take what they return, or read it in the next kernel"
          or "write by them, too, as by atomic_exchange") }
    end
  end
end

-- Whether chunks, which are cut along the first dimension, may meet at an element.
local function may_meet(graph, self, stores)
  local places = {}
  for k, store in ipairs(stores) do
    places[k] = {}
    note_indices(graph, self, store, places[k])
    if not places[k][0] or places[k][0] ~= places[1][0] then return true end
  end
  return false
end

local function look_at(graph, self, items, use)
  if use.atomic then
    use.mode, use.reads, use.fault = "read_write", true, plain_beside(use)
    use.together = items > 0 and may_meet(graph, self, use.stores)
    use.boxes, use.unknown = boxes_of(self, touched(use), NEXT, false, true)
    return
  end
  if #use.stores == 0 then
    use.mode, use.reads = "read", true
    use.boxes, use.unknown = boxes_of_loads(self, use.loads)
    return
  end
  local complete, own = look_at_stores(graph, self, items, use)
  use.reads = #old_reads(use) > 0
  use.mode = use.reads and "read_write" or complete and "discard_write" or "write"
  look_at_loads(graph, self, items, use, own)
  use.boxes, use.unknown = boxes_of(self, touched(use), NEXT, false, true)
end

--- How a kernel uses its arrays, by the number of the argument; then its reads by an index,
--- group by group.
---@param graph celer.graph
---@param items integer
---@param self celer.ranges
---@param arguments celer.lua_argument[]
---@return table<integer, celer.footprint>
function M.find(graph, items, self, arguments)
  indirect.split(graph, self, arguments)
  local list, by_number = uses_of(graph)
  for _, use in ipairs(list) do look_at(graph, self, items, use) end
  return by_number
end

return M
