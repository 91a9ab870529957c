--- checkpoint.lua -- the state of a program, kept so that a run that is killed
--- can be continued, on any number of ranks.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local dtype = require "celer.io.dtype"
local lists = require "celer.data.list"
local placement = require "celer.submit.placement"
local npy = require "celer.io.npy"
local order = require "celer.io.order"
local place = require "celer.place"
local plans = require "celer.io.plan"
local record = require "celer.io.record"
local submit = require "celer.io.submit"
local tables = require "celer.tables"
local types = require "celer.data.types"
local words = require "celer.words"

local each = tables.each
local fail = place.fail

local M = {}

local DEEPEST = 50

local function check_path(call, path)
  if type(path) ~= "string" or path == "" or path:find("%z") then
    fail("%s needs the name of a folder, not %s", call,
      type(path) == "string" and ("%q"):format(path) or words.a(path))
  end
  return (path:gsub("(.)/+$", "%1"))
end

local function check_table(call, list)
  if type(list) ~= "table" or getmetatable(list) then
    fail("%s needs a table of buffers such as {u = u}, not %s", call, words.a(list))
  end
  for key, buffer in tables.sorted_pairs(list) do
    if not buffers.is_buffer(buffer) then
      fail("%s: '%s' must be a buffer, not %s", call, tostring(key), words.a(buffer))
    end
    buffers.check(buffer, call)
  end
end

-- The table with the buffers of lists in their place; and what the manifest says of lists.
local function with_buffers(call, list)
  if type(list) ~= "table" or getmetatable(list) then return list, {} end
  local out, about = {}, {}
  for key, value in tables.sorted_pairs(list) do
    if lists.is_list(value) then
      about[#about + 1] = { name = key, bins = value.bins, grows = value.grows }
    else
      out[key] = value
    end
  end
  for _, one in ipairs(about) do
    for _, part in ipairs { "values", "offsets" } do
      local key = tostring(one.name) .. "." .. part
      if out[key] ~= nil then
        fail("%s: '%s' has the name of what is kept of the list '%s'", call, key,
          tostring(one.name))
      end
      out[key], one[part] = list[one.name][part], key
    end
  end
  return out, about
end

-- Raises unless `value` is made of what comes back as it was.
local function check_plain(call, value, path, depth)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" or kind == "nil" then
    return
  elseif kind ~= "table" or getmetatable(value) and not box.is_coordinates(value) then
    fail("%s: %s is %s; plain values can be kept: numbers, strings, "
      .. "booleans and tables of such", call, path, words.a(value)
      .. (words.a(value) == "a table" and " with a metatable" or ""))
  elseif depth > DEEPEST then
    fail("%s: %s is nested more than %d deep", call, path, DEEPEST)
  end
  for key, inner in each(value) do
    if type(key) ~= "string" and type(key) ~= "number" and type(key) ~= "boolean" then
      fail("%s: %s has a key that is %s", call, path, words.a(key))
    end
    check_plain(call, inner, ("%s[%s]"):format(path,
      type(key) == "string" and ("%q"):format(key) or tostring(key)), depth + 1)
  end
end

-- ---- saving -----------------------------------------------------------------

-- What the manifest says of a buffer, and how it lies in its file.
local function entry_of(i, key, buffer)
  local type_ = buffer.type
  local plan = plans.new(buffer, buffers.whole(buffer), (select(2, core.rank())))
  plan.header = npy.header(dtype.describe(type_) or dtype.opaque(type_), buffer.extents)
  plan.at = #plan.header
  plan.file = ("%d-%s.npy"):format(i, tostring(key):gsub("[^%w_%-]", "_"):sub(1, 80))
  return { name = key, type = type_.name, fields = type_.fields,
    extents = buffer.extents }, { buffer = buffer, plan = plan }
end

--- Raises where these cannot be the first arguments of `call`; the folder's name.
function M.check(call, path, list)
  path = check_path(call, path)
  check_table(call, (with_buffers(call, list)))
  return path
end

--- What M.save does, in the name of `call`.
---@param call string
function M.keep(call, path, list, extra)
  path = M.check(call, path, list)
  check_plain(call, extra, "extra", 1)
  local flat, kept = with_buffers(call, list)
  local about, jobs = { entries = {}, lists = kept, extra = extra }, {}
  for key, buffer in tables.sorted_pairs(flat) do
    local i = #jobs + 1
    about.entries[i], jobs[i] = entry_of(i, key, buffer)
  end
  submit.write(call, path, jobs, record, about)
end

--- Keeps the buffers and lists, as they are now in the order of submission, and `extra` in a
--- folder. What was kept there before stays until all of this is on disk; then it
--- goes. The program goes on meanwhile.
---@param path string
---@param list table<string|integer, celer.buffer|celer.list>
---@param extra any  plain values and tables of them
function M.save(path, list, extra) M.keep("celer.checkpoint", path, list, extra) end

-- ---- restoring --------------------------------------------------------------

-- The folder's manifest, the same on all ranks; nil where there is none.
local function find(call, path)
  local slot = order.slot(path)
  submit.task(call, "find", function(cg)
    return placement.on_master, record.find, order.write(cg, slot), slot, path
  end)
  local hash = order.wait(slot, function()
    local manifest, hash = record.read(path)
    return manifest and hash or 0
  end)
  if hash == 0 then return nil end
  local manifest, mine = record.read(path)
  if not manifest or mine ~= hash then
    fail("%s: rank %d does not see in %s what rank 0 sees; all ranks must see the same "
      .. "files", call, (core.rank()), path)
  end
  return manifest
end

-- In a run that was started again.
local function tell(path, found)
  if core.rank() ~= 0 or (tonumber(os.getenv "CELER_RESTARTED") or 0) == 0 then return end
  io.stderr:write(("celer: %s\n"):format(found
    and ("the run goes on from the checkpoint in %s"):format(path)
    or ("warning: host %s sees no checkpoint in %s: the run begins anew"):format(
      core.host_name(), path)))
end

local function shape_text(type_name, extents)
  local out = { type_name }
  for _, n in ipairs(extents) do out[#out + 1] = ("[%.0f]"):format(n) end
  return table.concat(out)
end

-- Raises unless the buffer is like that of the checkpoint.
local function check_like(call, entry, buffer)
  local was, is = shape_text(entry.type, entry.extents),
    shape_text(buffer.type.name, buffer.extents)
  if was ~= is or entry.fields ~= buffer.type.fields then
    fail("%s: '%s' was kept as %s%s; buffer %s is %s%s", call, tostring(entry.name), was,
      entry.fields and (" { %s }"):format(entry.fields) or "", buffer.name, is,
      buffer.type.fields and (" { %s }"):format(buffer.type.fields) or "")
  end
end

local function new_buffer(entry)
  local type_ = entry.fields and types.struct(entry.type, entry.fields) or entry.type
  local name = tostring(entry.name):gsub("%c", "?"):sub(1, 80)
  return buffers.new(type_, entry.extents, { name = name ~= "" and name or nil })
end

-- Pairs of an entry and the buffer that gets it, and the buffers by their names.
local function destinations(call, path, manifest, into)
  local pairs_, out, known = {}, {}, {}
  for _, entry in ipairs(manifest.entries) do
    known[entry.name] = true
    local buffer = into and into[entry.name]
    if buffer then check_like(call, entry, buffer) end
    if not into then buffer = new_buffer(entry) end
    out[entry.name] = buffer
    if buffer then pairs_[#pairs_ + 1] = { entry, buffer } end
  end
  for key in tables.sorted_pairs(into or {}) do
    if not known[key] then
      fail("%s: the checkpoint in %s has no '%s'%s", call, path, tostring(key),
        next(known) ~= nil and words.advice(key, known) or "")
    end
  end
  return pairs_, out
end

-- All ranks read their blocks.
local function read_all(call, path, manifest, list)
  local slot, done = order.slot(path), {}
  for i, one in ipairs(list) do
    local entry, plan = one[1], one[1].plan
    done[i] = plans.sums(plan, call)
    submit.task(call, "read", function(cg)
      cg:hint { granularity = plan.step }
      return { plan.n }, record.restore, cg:discard_write(one[2], plans.rows(plan)),
        cg:discard_write(done[i], plans.per_block(plan)), path, manifest.data, entry
    end)
  end
  submit.task(call, "restored", function(cg)
    local reads = submit.read_all(cg, done)
    return placement.on_master, record.restored, order.write(cg, slot), unpack(reads)
  end)
  submit.finish(call, slot)
  for _, sums in ipairs(done) do sums:free() end
end

-- Puts lists in the place of their buffers.
local function make_lists(manifest, out)
  for _, one in ipairs(manifest.lists or {}) do
    local values = out[one.values]
    local list = lists.new(values.type, { bins = one.bins, values = values,
      offsets = out[one.offsets], name = tostring(one.name):gsub("%c", "?"):sub(1, 80) })
    list.grows = one.grows
    out[one.values], out[one.offsets], out[one.name] = nil, nil, list
  end
end

--- The last complete checkpoint in a folder: its buffers and lists by the names that they
--- were kept under, and extra. Nil where there is none.
---@param path string
---@param into? table<string|integer, celer.buffer>  buffers that get the contents,
---  instead of new ones; those that are not named here are left out, and so are lists
---@return table<string|integer, any>? buffers, any extra
function M.restore(path, into)
  local call = "celer.restore"
  path = check_path(call, path)
  if into ~= nil then check_table(call, into) end
  local manifest = find(call, path)
  tell(path, manifest)
  if not manifest then return nil end
  local list, out = destinations(call, path, manifest, into)
  read_all(call, path, manifest, list)
  if not into then make_lists(manifest, out) end
  return out, manifest.extra
end

return M
