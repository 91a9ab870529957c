--- files.lua -- buffers in files.
---
--- Beside it are formats.lua, what the end of a name means, with npy.lua, hdf5/ and
--- dtype.lua for the elements; plan.lua, which rank takes which part; submit.lua,
--- the tasks that a file takes, and tasks.lua, what they do, in lanes; order.lua,
--- which comes after which; slab.lua and posix.lua, which move the bytes. record.lua
--- is for checkpoint.lua.
local ffi = require "ffi"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local dtype = require "celer.io.dtype"
local formats = require "celer.io.formats"
local image = require "celer.io.image"
local mapper = require "celer.mapper.builtin"
local order = require "celer.io.order"
local place = require "celer.place"
local plans = require "celer.io.plan"
local requests = require "celer.io.hdf5.request"
local slab = require "celer.io.slab"
local submit = require "celer.io.submit"
local tables = require "celer.tables"
local tasks = require "celer.io.tasks"
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- Options of files that hold buffers by name.
local named_only = { dataset = true, step = true, append = true, add = true, replace = true,
  attributes = true }

local function check_options(call, path, format, options, known)
  words.check_options(call, options, known)
  for key in tables.sorted_pairs(options) do
    if named_only[key] and not format.datasets then
      fail("%s: %s: %s is for HDF5, whose files hold buffers by name", call, path, key)
    end
  end
  local dataset = options.dataset
  if dataset ~= nil and (type(dataset) ~= "string" or dataset == "") then
    fail("%s: dataset must be a name, not %s", call,
      dataset == "" and "an empty string" or words.a(dataset))
  end
end

local function format_of(call, path)
  if type(path) ~= "string" or path == "" or path:find("%z") then
    fail("%s: the first argument must be a file name, not %s", call,
      type(path) == "string" and ("%q"):format(path) or words.a(path))
  end
  return formats.of(path) or fail("%s: %s: the name must end in .npy, .h5, .hdf5 or "
    .. ".png, which says what is in it", call, path)
end

-- ---- loading ----------------------------------------------------------------

local load_options = { box = true, type = true, name = true, dataset = true, step = true }
local load_picture_options = { box = true, type = true, name = true, colors = true }

-- The type of the elements, or nil and why the file cannot be read.
local function type_in(found, wanted)
  local type_, fault = dtype.find(found.descr, wanted)
  if not type_ then return nil, fault end
  local n = type_.size
  for _, extent in ipairs(found.shape) do n = n * extent end
  local have, needed = found.file:size(), (found.at or 0) + n
  if found.at and have < needed then
    return nil, ("it has %.0f bytes and should have %.0f; it was not written to its "
      .. "end"):format(have, needed)
  end
  return type_
end

-- The file's window, in coordinates of the buffer that gets `part` of it, and the
-- buffer's extents.
local function file_window(shape, part)
  local window, extents = { 0, 0, 0, 1, 1, 1 }, {}
  for d = 1, #shape do
    local from = part and part.min[d - 1] or 0
    window[d], window[d + 3] = -from, shape[d] - from
    extents[d] = part and part.size[d - 1] or shape[d]
  end
  return window, extents
end

-- All of it, now, as an array.
local function contents(found, type_, window, extents)
  local part = { 0, 0, 0, 1, 1, 1 }
  for d, n in ipairs(extents) do part[d + 3] = n end
  local out = ffi.new(ffi.typeof("$[?]", type_.ctype), slab.volume(part))
  slab.read(found.file, found.at, type_.size, window, out, part, part)
  return out
end

-- What reads the file when a rank needs a part. Ranks agree on which part of what is
-- read, and see the same files by their names.
local function source(found, path, dataset, type_, window)
  local file, line = place.user()
  local identity = table.concat({ path, dataset or "", found.step or "",
    table.concat(window, ",") }, "\0")
  return buffers.source(tasks.fill, { fd = found.file.fd, path = path, at = found.at,
    size = type_.size, window = window, id = found.id, step = found.step,
    place = file and ("%s:%d: "):format(file, line) or "" }, found.file.fd, identity)
end

local function name_for(path, dataset)
  local name = path:match("[^/]*$") .. (dataset and ":" .. dataset or "")
  return (name:gsub("%c", "?"):sub(-80))
end

-- Passes on what was read, or raises.
local function check_read(found, why, file, line)
  if not found and core.dry() then why = why .. "; a dry run writes no files" end
  return (place.check(found, why, file, line))
end

---@class celer.io.load_options
---@field box? celer.box
---@field type? string|celer.type
---@field name? string
---@field dataset? string  of HDF5
---@field step? integer  of an HDF5 dataset that grows: from 0; -1 is the last
---@field colors? "gray"|"rgb"  of PNG

--- A buffer with the contents of a file: of all of it, or of options.box. A rank
--- reads what it needs, when a task needs it; the file may be replaced meanwhile.
--- options.type says what the elements are, options.dataset which of an HDF5 file,
--- options.step which element of its first dimension, and options.colors whether a
--- picture is "gray" (the default) or "rgb".
---@param path string  ends in .npy, .h5, .hdf5 or .png
---@param options? celer.io.load_options
---@return celer.buffer
function M.load(path, options)
  local call = "celer.io.load"
  local format = format_of(call, path)
  options = options == nil and {} or options
  check_options(call, path, format, options,
    format.picture and load_picture_options or load_options)
  if options.colors ~= nil and not ({ gray = 1, rgb = 1 })[options.colors] then
    fail("%s: colors must be gray or rgb", call)
  end
  local step = options.step
  if step ~= nil and (type(step) ~= "number" or step % 1 ~= 0) then
    fail("%s: step must be a whole number, not %s", call,
      type(step) == "number" and tostring(step) or words.a(step))
  end
  local name = options.name and words.check_name(call, options.name)
  local wanted = options.type ~= nil and types.find(options.type) or nil
  order.wait(order.slot(path))
  local found = check_read(format.load(path, options))
  local type_, fault = type_in(found, wanted)
  if type_ and options.box then
    fault = plans.box_fault(options.box, found.shape, "what it holds")
  end
  if fault then
    found.file:close()
    fail("cannot read %s: %s", path, fault)
  end
  local window, extents = file_window(found.shape, options.box)
  local init = found.small and contents(found, type_, window, extents)
    or source(found, path, found.dataset, type_, window)
  return buffers.new(type_, extents, { name = name or name_for(path, found.dataset),
    init = init })
end

---@class celer.io.contents
---@field datasets table<string, celer.io.dataset>  by their names
---@field attributes table<string, celer.io.plain|celer.io.plain[]>  of the file

--- What an HDF5 file holds: its datasets, with shape, type and attributes, and with the
--- value of those that are a single number, string or boolean.
---@param path string  ends in .h5 or .hdf5
---@return celer.io.contents
function M.open(path)
  local call = "celer.io.open"
  local format = format_of(call, path)
  if not format.list then
    fail("%s: %s: this is for HDF5, whose files hold buffers by name; celer.io.load reads one",
      call, path)
  end
  order.wait(order.slot(path))
  return check_read(format.list(path))
end

-- ---- saving -----------------------------------------------------------------

local save_options = { box = true, dataset = true, append = true, add = true, replace = true,
  attributes = true }
local picture_options = { box = true }
for name in pairs(image.options) do picture_options[name] = true end

local function check_buffer(buffer, what)
  if not buffers.is_buffer(buffer) then
    fail("celer.io.save: %s must be a buffer, not %s", what, words.a(buffer))
  end
  buffers.check(buffer, "celer.io.save")
end

-- The part of a buffer that is asked for.
local function part_of(buffer, part)
  if not part then return buffers.whole(buffer) end
  local fault = plans.box_fault(part, buffer.extents, "buffer " .. buffer.name)
  if fault then fail("celer.io.save: %s", fault) end
  return part
end

local function picture(path, buffer, part, options)
  local call = "celer.io.save"
  local chosen, fault = image.choose(buffer.name, buffer.type, buffer.dims, part, options)
  if fault then fail("%s: %s", call, fault) end
  local small, taken = image.with_limits(options, part, chosen and chosen.dim), nil
  if chosen then
    taken, chosen = require("celer.draw.take").numbers(call, buffer, part, chosen)
  end
  submit.replace(call, "picture", path, function(cg, turn, here)
    return tasks.picture, taken and cg:read(taken, mapper.all)
      or cg:read(buffer, mapper.fixed(part)), turn, here, path, small, chosen
  end)
  if taken then taken:free() end
end

local function job(format, path, buffer, part, name, options)
  local plan, shape = plans.new(buffer, part, (select(2, core.rank()))), {}
  for d = 1, buffer.dims do shape[d] = part.size[d - 1] end
  local ok, fault = format.prepare(plan, buffer, shape, name, options)
  if not ok then fail("cannot write %s: %s", path, fault) end
  return { buffer = buffer, plan = plan }
end

-- What is saved, by names, and the name of what gets the attributes.
local function by_names(given, options)
  local several = type(given) == "table" and not getmetatable(given)
  if given == nil then
    fail("celer.io.save: the second argument must be a buffer, a number, a string, a boolean or "
      .. "a table of them, not nil")
  elseif not several then
    local name = options.dataset or "data"
    return { [name] = given }, name
  elseif options.box or options.dataset and next(given) ~= nil then
    fail("celer.io.save: box and dataset are for a single buffer")
  elseif next(given) == nil and not options.attributes then
    fail("celer.io.save: the table has no buffer")
  end
  return given, options.dataset or ""
end

-- Where the pieces of all plans begin, once rank 0 has made room for them.
local function places_for(jobs)
  local n = 0
  for _, one in ipairs(jobs) do
    one.plan.first = n
    n = n + one.plan.pieces
  end
  return buffers.new("uint64_t", { n }, { name = "celer.io.save" })
end

local function save_by_name(format, path, given, options)
  local list, object = by_names(given, options)
  local request, jobs, own = requests.new(path, list, object, options), {}, {}
  for name, value in tables.sorted_pairs(list) do
    local buffer, more = requests.entry(value, list == given and "dataset " .. name
      or "the second argument", options)
    if buffer then
      jobs[#jobs + 1] = job(format, path, buffer, part_of(buffer, options.box), name, options)
    else
      request.texts[#request.texts + 1] = { dataset = name, value = more }
    end
    if buffer and more then own[#own + 1] = buffer end
  end
  requests.claim(request, path, list, options)
  local places = places_for(jobs)
  submit.write("celer.io.save", path, jobs, tasks, request, places)
  places:free()
  for _, buffer in ipairs(own) do buffer:free() end
end

---@class celer.io.save_options: celer.picture  of PNG, as celer.png's
---@field box? celer.box
---@field dataset? string  of HDF5, as all down to attributes
---@field append? boolean|integer  a step of a dataset that grows: the next one, or the one
---  after so many
---@field add? boolean  to what is in a file that this run has not saved to
---@field replace? boolean  datasets of the same name, or a file not of this run
---@field attributes? table<string, celer.io.plain|celer.io.plain[]>  of the dataset, or of
---  the file if several are saved

--- Writes a buffer, or options.box of it, into a file, as it is now in the order of
--- submission. The file has its name when all of it is written; q:wait waits for
--- that. Folders that are missing are made. An HDF5 file also takes numbers, strings and
--- booleans; the run's later saves add to what its first one has put there.
--- A picture takes the options of celer.png.
---@param path string  ends in .npy, .h5, .hdf5 or .png
---@param given celer.buffer|celer.io.plain|table<string, celer.buffer|celer.io.plain>
---  a table: datasets of HDF5 by their names
---@param options? celer.box|celer.io.save_options
function M.save(path, given, options)
  local call = "celer.io.save"
  local format = format_of(call, path)
  if box.is_box(options) then options = { box = options } end
  options = options == nil and {} or options
  check_options(call, path, format, options,
    format.picture and picture_options or save_options)
  if format.datasets then return save_by_name(format, path, given, options) end
  if type(given) == "table" and not getmetatable(given) then
    fail("celer.io.save: %s holds one buffer; an HDF5 file takes a table of them", path)
  end
  check_buffer(given, "the second argument")
  local part = part_of(given, options.box)
  if format.picture then return picture(path, given, part, options) end
  submit.write(call, path, { job(format, path, given, part) }, tasks)
end

return setmetatable(M, { __index = function(_, name)
  fail("there is no celer.io.%s%s", tostring(name), words.advice(name, M))
end })
