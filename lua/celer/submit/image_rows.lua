--- image_rows.lua -- rows that images name, packed and put where they belong by kernels.
---
--- Where each rank computes on a GPU, a kernel packs what the rank gives into a buffer of its own,
--- a collective task exchanges that, and another kernel takes from what came, and from the rank's
--- own share, what the copy is to have. So of the data nothing but what travels goes through the
--- memory of the host. How much a rank gives, gets and needs it alone knows: all submit the same
--- tasks, over as many items, which go through lists of rows that say how long they are. Buffers
--- are as long as any rank may need them, and take memory for what is used of them
--- (mapper/late.lua).
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local core = require "celer.core"
local kept = require "celer.submit.kept"
local kernels = require "celer.kernel.kernel"
local lane = require "celer.host.image"
local late = require "celer.mapper.late"
local mapper = require "celer.mapper.builtin"
local box = require "celer.box"
local settings = require "celer.settings"

local M = {}

local NAME = "celer.image"
local ITEMS = 2 ^ 17 -- of a rank: some for each that a GPU computes at a time

local source = [[
kernel void image_pack(item<1> it, in<int64_t, 1> given, in<T, D> data, out<T, 2> packed,
                       int64_t all, int64_t row, int64_t deep) {
  const int64_t end = given(0) * row;
  for (int64_t i = it[0] % all; i < end; i += all) {
    const int64_t e = i % row, r = given(1 + i / row);
    packed(i / row, e) = data(AT);
  }
}
kernel void image_unpack(item<1> it, in<int64_t, 1> needed, in<int64_t, 1> from, in<T, 2> came,
                         in<T, D> data, out<T, D> copy, int64_t all, int64_t row, int64_t deep) {
  const int64_t end = needed(0) * row;
  for (int64_t i = it[0] % all; i < end; i += all) {
    const int64_t e = i % row, r = needed(1 + i / row), at = from(1 + i / row);
    copy(AT) = at >= 0 ? came(at, e) : data(AT);
  }
}
]]
local places = { "r", "r, e", "r, e / deep, e % deep" }

local compiled = {} -- by type and dimensions

local function kernels_for(data)
  local of = compiled[data.type] or {}
  compiled[data.type] = of
  of[data.dims] = of[data.dims] or kernels.new((source:gsub("%f[%w]%u+%f[%W]",
    { T = data.type.name, D = tostring(data.dims), AT = places[data.dims] })))
  return of[data.dims]
end

--- Whether all ranks do so, the same on all: each has one GPU.
---@return boolean
function M.serves()
  local ranks = select(2, core.rank())
  return ranks > 1 and not settings.looks and not core.dry()
    and require("celer.arrays.alone").gpus() == ranks
end

-- What no hint of the script cuts.
local function new_group()
  local group = require("celer.submit.group").new { weights = false, oversubscribe = 1, fold = 1 }
  group:name(NAME)
  return group
end

-- A task of our own.
local function submit(work)
  local group = new_group()
  work(group)
  require("celer.submit.group").close(group)
end

---@class celer.image_lists  rows that the rank gives, that it needs, and where among those
---  that came each of these is; behind how many there are
---@field given celer.buffer
---@field needed celer.buffer
---@field from celer.buffer
---@field inspections integer  of the plan that they are of
---@field maps table<string, celer.range_mapper>  what of these lists, and of rows, there is

local function make_lists(plan)
  local ranks = select(2, core.rank())
  local share = math.ceil(plan.rows / ranks)
  local function list(n)
    return buffers.apart("int64_t", { 1 + n }, { name = "rows by " .. plan.image.index.name })
  end
  return { gives = math.max(share * (ranks - 1), 1), given = list(share * (ranks - 1)),
    needed = list(plan.rows), from = list(plan.rows) }
end

-- Of the plan that ranks have agreed on last.
local function lists_of(plan)
  local lists = plan.lists or make_lists(plan)
  plan.lists = lists
  if lists.inspections == plan.inspections then return lists end
  lists.inspections, lists.maps = plan.inspections, {}
  for name, word in pairs { given = lane.GIVEN, needed = lane.NEEDED, packed = lane.PACKED,
    came = lane.CAME } do
    lists.maps[name] = late.new(NAME, plan.told, word)
  end
  submit(function(cg)
    cg:host_task(collective.collective(NAME), lane.spell, cg:read(plan.words, mapper.all),
      cg:discard_write(lists.given, lists.maps.given),
      cg:discard_write(lists.needed, lists.maps.needed),
      cg:discard_write(lists.from, lists.maps.needed))
  end)
  return lists
end

-- The share of the rank whose items, so many, a chunk has.
local function share_of(rows, ranks, all)
  local least = math.floor(rows / ranks)
  local longer = rows - least * ranks
  local function at(i)
    local rank = mapper.floor(i / all)
    return least * rank + mapper.min(rank, longer)
  end
  return function(chunk, buffer)
    return box.whole(buffer):with(0, at(chunk.min[0]), at(chunk.max[0]))
  end
end

-- Submits a kernel for so many items of each rank. `run`: of these buffers and values.
local function submit_again(run, used, values, all, kernel, declare)
  if run.task and kept.submit(run.task, used, values) then return end
  local range = { all * select(2, core.rank()) }
  submit(function(cg)
    cg:hint { granularity = all }
    cg:parallel_for(range, kernel, declare(cg))
  end)
  run.count = (run.count or 0) + 1
  if run.count < kept.PATIENCE then return end
  local cg = new_group()
  cg:hint { granularity = all }
  run.task = kept.keep(cg, values, range, kernel, declare(cg))
end

-- Where rows that go and rows that come lie, of a copy.
local function rooms_of(copy, data, lists, row)
  local rooms = copy.rooms or {
    packed = buffers.apart(data.type, { lists.gives, row }, { name = data.name }),
    came = buffers.apart(data.type, { data.size[0], row }, { name = data.name }) }
  if rooms.maps ~= lists.maps then rooms.maps, rooms.pack, rooms.unpack = lists.maps, {}, {} end
  copy.rooms = rooms
  return rooms
end

--- Submits what brings a copy what it is to have.
---@param copy celer.image_copy
---@param data celer.buffer
function M.bring(copy, data)
  local plan, list, all = copy.plan, kernels_for(data), mapper.all
  local lists = lists_of(plan)
  local maps, rows, ranks = lists.maps, data.size[0], select(2, core.rank())
  local row, deep = 1, data.dims == 3 and data.size[2] or 1
  for d = 1, data.dims - 1 do row = row * data.size[d] end
  local rooms = rooms_of(copy, data, lists, row)
  local packed, came, items = rooms.packed, rooms.came, math.min(ITEMS, rows * row)
  local share, values = share_of(rows, ranks, items), { items, row, deep }
  local used = { lists.given, data, packed }
  submit_again(rooms.pack, used, values, items, list.image_pack, function(cg)
    return cg:read(lists.given, maps.given), cg:read(data, share),
      cg:discard_write(packed, maps.packed), items, row, deep
  end)
  submit(function(cg)
    cg:host_task(collective.collective(NAME), lane.exchange, cg:read_write(copy.sent, all),
      cg:read(plan.words, all), cg:read(packed, maps.packed),
      cg:discard_write(came, maps.came), data.type.size * row)
  end)
  used = { lists.needed, lists.from, came, data, copy.buffer }
  submit_again(rooms.unpack, used, values, items, list.image_unpack, function(cg)
    return cg:read(lists.needed, maps.needed), cg:read(lists.from, maps.needed),
      cg:read(came, maps.came), cg:read(data, share),
      cg:discard_write(copy.buffer, plan.boxes), items, row, deep
  end)
end

--- Ends what is kept of a copy.
---@param copy celer.image_copy
function M.forget_copy(copy)
  if not copy.rooms then return end
  copy.rooms.packed:free()
  copy.rooms.came:free()
  copy.rooms = nil
end

--- Ends what is kept of a plan.
---@param plan celer.image_plan
function M.forget(plan)
  local lists = plan.lists or {}
  for _, one in ipairs { lists.given, lists.needed, lists.from } do one:free() end
  plan.lists = nil
end

return M
