--- image_rows.lua -- rows that images name, packed and put where they belong by kernels.
---
--- Where each rank computes on a GPU, a kernel packs what the rank gives into a buffer of its own,
--- a collective task exchanges that, and another kernel takes from what came, and from the rank's
--- own share, what the copy is to have. So of the data nothing but what travels goes through the
--- memory of the host. Ranks have as much room for what they give, get and need as the rank with
--- the most of it: all submit the same tasks.
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local core = require "celer.core"
local kernels = require "celer.kernel.kernel"
local lane = require "celer.host.image"
local mapper = require "celer.mapper.builtin"
local box = require "celer.box"
local settings = require "celer.settings"

local M = {}

local NAME = "celer.image"

local source = [[
kernel void image_pack(item<1> it, in<int64_t, 1> given, in<T, D> data, out<T, 1> packed,
                       int64_t all, int64_t row, int64_t deep) {
  const int64_t i = it[0] % all, e = i % row, r = given(i / row);
  if (r >= 0) packed(i) = data(AT);
}
kernel void image_unpack(item<1> it, in<int64_t, 1> needed, in<int64_t, 1> from, in<T, 1> came,
                         in<T, D> data, out<T, D> copy, int64_t all, int64_t row, int64_t deep) {
  const int64_t i = it[0] % all, e = i % row, r = needed(i / row);
  if (r < 0) return;
  const int64_t at = from(i / row);
  copy(AT) = at >= 0 ? came(at * row + e) : data(AT);
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
---  that came each of these is; each list as long as the longest of all ranks
---@field given celer.buffer
---@field needed celer.buffer
---@field from celer.buffer
---@field gets integer  rows that come, at most

local function free(lists)
  for _, one in ipairs { lists.given, lists.needed, lists.from } do one:free() end
end

-- Of the plan that ranks have agreed on last. The script waits for their lengths.
local function lists_of(plan)
  local lists = plan.lists
  if lists and lists.inspections == plan.inspections then return lists end
  if lists then free(lists) end
  local head = plan.boxes:get()
  local function list(k)
    local n = math.max(tonumber(head(lane.SIZES + k)), 1)
    return buffers.apart("int64_t", { n }, { name = "rows by " .. plan.image.index.name })
  end
  lists = { inspections = plan.inspections, given = list(0), needed = list(2), from = list(2),
    gives = tonumber(head(lane.SIZES)), gets = tonumber(head(lane.SIZES + 1)),
    needs = tonumber(head(lane.SIZES + 2)) }
  plan.lists = lists
  submit(function(cg)
    cg:host_task(collective.collective(NAME), lane.spell, cg:read(plan.words, mapper.all),
      cg:discard_write(lists.given, mapper.all), cg:discard_write(lists.needed, mapper.all),
      cg:discard_write(lists.from, mapper.all))
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

-- Submits a kernel for so many items of each rank. `kept`: what it came to with these buffers.
local function run(kept, used, all, kernel, declare)
  local groups, range = require "celer.submit.group", { all * select(2, core.rank()) }
  local task = kept.task
  if task then
    for i = 1, #used do task.list[task.at[i]] = used[i].handle end
    return groups.submit_kept(task)
  end
  submit(function(cg)
    cg:hint { granularity = all }
    cg:parallel_for(range, kernel, declare(cg))
  end)
  local cg = new_group()
  cg:hint { granularity = all }
  kept.task = groups.keep(cg, range, kernel, declare(cg))
end

-- Where rows that go and rows that come lie, of a copy.
local function rooms_of(copy, data, lists, row)
  if copy.rooms and copy.rooms.lists == lists then return copy.rooms end
  M.forget_copy(copy)
  copy.rooms = { lists = lists, pack = {}, unpack = {},
    packed = buffers.apart(data.type, { math.max(lists.gives, 1) * row }, { name = data.name }),
    came = buffers.apart(data.type, { math.max(lists.gets, 1) * row }, { name = data.name }) }
  return copy.rooms
end

--- Submits what brings a copy what it is to have.
---@param copy celer.image_copy
---@param data celer.buffer
---@param map celer.range_mapper  boxes of the copy around all that is needed
function M.bring(copy, data, map)
  local lists, list, all = lists_of(copy.plan), kernels_for(data), mapper.all
  local rows, ranks = data.size[0], select(2, core.rank())
  local row, deep = 1, data.dims == 3 and data.size[2] or 1
  for d = 1, data.dims - 1 do row = row * data.size[d] end
  local rooms = rooms_of(copy, data, lists, row)
  local packed, came = rooms.packed, rooms.came
  if lists.gives > 0 then
    local items = lists.gives * row
    run(rooms.pack, { lists.given, data, packed }, items, list.image_pack, function(cg)
      return cg:read(lists.given, all), cg:read(data, share_of(rows, ranks, items)),
        cg:discard_write(packed, all), items, row, deep
    end)
  end
  submit(function(cg)
    cg:host_task(collective.collective(NAME), lane.exchange, cg:read_write(copy.sent, all),
      cg:read(copy.plan.words, all), lists.gives > 0 and cg:read(packed, all) or false,
      cg:discard_write(came, all), data.type.size * row)
  end)
  local items = math.max(lists.needs, 1) * row
  local used = { lists.needed, lists.from, came, data, copy.buffer }
  run(rooms.unpack, used, items, list.image_unpack, function(cg)
    return cg:read(lists.needed, all), cg:read(lists.from, all), cg:read(came, all),
      cg:read(data, share_of(rows, ranks, items)), cg:discard_write(copy.buffer, map), items, row,
      deep
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
  if plan.lists then free(plan.lists) end
  plan.lists = nil
end

return M
