--- changes.lua -- what a save changes in an HDF5 file, before ranks write the data.
---
--- A file that gets more is copied, and the copy changed; it takes the file's place when
--- all is written. So whatever happens, a file is as it was or as it is to be.
---
--- A loop that adds a step in each turn would copy all steps each time. So where a save
--- only adds steps, what the file was before is not thrown away: it lacks these steps, no
--- more, and once it has got them it is the copy that the next such save needs.
local ffi = require "ffi"
local datasets = require "celer.io.hdf5.datasets"
local dtype = require "celer.io.dtype"
local library = require "celer.io.hdf5.library"
local posix = require "celer.io.posix"
local types = require "celer.io.hdf5.types"
local values = require "celer.io.hdf5.values"

local scope = library.scope

local M = {}

local SCALAR, CONTIGUOUS, EARLY, NEVER = 0, 1, 1, 1
local UNLIMITED = 0xffffffffffffffffULL

---@class celer.io.text  a dataset that no buffer holds
---@field dataset string
---@field value celer.io.value

---@class celer.io.request
---@field adds boolean  to what the file holds; else it is made anew
---@field replaces boolean  datasets of the same name
---@field texts celer.io.text[]
---@field object string  the dataset, or "" for the file, that gets
---@field attributes celer.io.attribute[]

-- ---- whether they can be made -----------------------------------------------

local function shape_text(shape, first)
  if #shape < first then return "one element each" end
  local out = {}
  for d = first, #shape do out[#out + 1] = ("%.0f"):format(shape[d]) end
  return table.concat(out, " x ")
end

local function type_text(descr)
  local type_ = dtype.find(descr)
  return type_ and type_.name or descr
end

-- Why a dataset cannot get a step of the plan's, or nil.
local function growing_fault(H, keep, file, id, plan)
  local shape = datasets.shape(H, keep, id)
  local descr = types.describe(H, keep, keep(H.H5Dget_type(id), H.H5Tclose))
  local has, is = shape_text(shape, 2), shape_text(plan.shape, 1)
  if descr ~= plan.descr then
    return ("it holds %s, and this is %s"):format(type_text(descr), type_text(plan.descr))
  elseif #shape ~= #plan.shape + 1 or has ~= is then
    return #shape == 0 and "it is a single element, which does not grow"
      or ("its steps are %s, and this one is %s"):format(has, is)
  end
  local deep, tall = datasets.chunks(H, keep, file, id, shape)
  if not deep or #plan.shape > 0 and tall ~= plan.tall then
    return "it was not made to grow: save it with `append` from its first step on"
  elseif plan.grows ~= true and plan.grows > shape[1] then
    return ("it has %.0f steps, so none comes after %.0f"):format(shape[1], plan.grows)
  end
end

-- Why a dataset of this name cannot be saved beside what the file holds, or nil.
local function fault_of(H, keep, file, name, plan, replaces)
  local kind, id = datasets.find(H, keep, file, name)
  if kind == "nothing" then
    return plan and plan.grows and plan.grows ~= true and plan.grows > 0
      and ("there is no dataset '%s' that has %.0f steps"):format(name, plan.grows) or nil
  elseif kind ~= "dataset" then
    return datasets.fault(H, keep, file, name, kind, id)
  elseif replaces then
    return nil
  elseif not plan or not plan.grows then
    return ("it has a dataset '%s' already; {replace = true} replaces it, and {append = true} "
      .. "adds a step to one that was saved so from its first step on"):format(name)
  end
  local fault = growing_fault(H, keep, file, id, plan)
  return fault and ("dataset '%s': %s"):format(name, fault)
end

-- ---- making them ------------------------------------------------------------

-- Bytes of a chunk of several steps: few chunks, without much that is never filled.
local LEAST, LARGEST, FULL = 2 ^ 16, 2 ^ 20, 1024

-- A chunk has several steps, or a piece of one.
local function steps_in_chunk(plan)
  if plan.pieces > 1 then return 1 end
  local bytes = plan.size
  for _, extent in ipairs(plan.shape) do bytes = bytes * math.max(1, extent) end
  local wanted = math.min(math.max(FULL * bytes, LEAST), LARGEST)
  return math.max(1, math.floor(wanted / bytes))
end

-- The space of a dataset without a step yet; `how` gets its chunks.
local function growing_space(H, how, plan)
  local n = #plan.shape + 1
  local size, most, chunk = ffi.new("uint64_t[?]", n), ffi.new("uint64_t[?]", n),
    ffi.new("uint64_t[?]", n)
  most[0], chunk[0] = UNLIMITED, steps_in_chunk(plan)
  for d, extent in ipairs(plan.shape) do
    size[d], chunk[d] = extent, math.max(1, d == 1 and plan.tall or extent)
    most[d] = extent == 0 and UNLIMITED or extent -- a chunk must not be larger
  end
  H.H5Pset_chunk(how, n, chunk)
  return H.H5Screate_simple(n, size, most)
end

local function fixed_space(H, how, plan)
  local n = #plan.shape
  H.H5Pset_layout(how, CONTIGUOUS)
  if n == 0 then return H.H5Screate(SCALAR) end
  return H.H5Screate_simple(n, ffi.new("uint64_t[?]", n, plan.shape), nil)
end

-- A dataset in which nothing is written yet, and no step is.
local function create(H, keep, file, links, plan)
  local how = keep(H.H5Pcreate(H.H5P_CLS_DATASET_CREATE_ID_g), H.H5Pclose)
  local space = plan.grows and growing_space(H, how, plan) or fixed_space(H, how, plan)
  H.H5Pset_alloc_time(how, EARLY)
  H.H5Pset_fill_time(how, NEVER)
  return keep(H.H5Dcreate2(file, plan.dataset, types.make(H, keep, plan.kind),
    keep(space, H.H5Sclose), links, how, 0), H.H5Dclose)
end

local function set_steps(H, id, shape, n)
  local size = ffi.new("uint64_t[?]", #shape)
  for d, extent in ipairs(shape) do size[d - 1] = extent end
  size[0] = n
  return H.H5Dset_extent(id, size) >= 0
end

-- Adds a step of this number, without those from there on; where its pieces begin, and
-- the bytes of one. Nil where HDF5 refuses.
local function add_step(H, keep, file, id, size, step)
  local shape = datasets.shape(H, keep, id)
  if step < shape[1] and not set_steps(H, id, shape, step) then return nil end
  if not set_steps(H, id, shape, step + 1) then return nil end
  return datasets.places(H, keep, file, id, shape, size, step)
end

-- The step of a plan; false where HDF5 refuses.
local function grow(H, keep, file, id, plan, places)
  local step = plan.grows == true and datasets.shape(H, keep, id)[1] or plan.grows
  local begins = add_step(H, keep, file, id, plan.size, step)
  for i, at in ipairs(begins or {}) do places:set(plan.first + i - 1, at) end
  return begins ~= nil
end

-- The dataset of a plan, with room for what ranks are to write; false where HDF5 refuses.
local function prepare(H, keep, file, links, plan, places)
  local id
  if H.H5Lexists(file, plan.dataset, 0) > 0 then
    id = keep(H.H5Dopen2(file, plan.dataset, 0), H.H5Dclose)
  else
    id = create(H, keep, file, links, plan)
  end
  if not id then return false end
  if plan.grows then return grow(H, keep, file, id, plan, places) end
  places:set(plan.first, plan.empty and 0 or tonumber(H.H5Dget_offset(id)))
  return true
end

-- What has a name in the file: plans, and values.
local function each_named(plans, request, f)
  for _, plan in ipairs(plans) do
    local fault = f(plan.dataset, plan)
    if fault then return fault end
  end
  for _, text in ipairs(request.texts) do
    local fault = f(text.dataset)
    if fault then return fault end
  end
end

-- Why the request cannot be carried out, or nil.
local function find_fault(H, file, plans, request)
  return each_named(plans, request, function(name, plan)
    return scope(function(keep)
      return fault_of(H, keep, file, name, plan, request.replaces)
    end)
  end)
end

-- Sets the attributes of the request; what HDF5 refused, or nil.
local function annotate(H, keep, file, request)
  local kind, object = datasets.find(H, keep, file, request.object)
  if kind ~= "dataset" and kind ~= "group" then
    return datasets.fault(H, keep, file, request.object, kind, object)
  end
  for _, attribute in ipairs(request.attributes) do
    local fault = values.set(H, object, attribute)
    if fault then return ("attribute '%s': %s"):format(attribute.name, fault) end
  end
end

-- Changes an open file; why that cannot be, or nil.
local function change(H, keep, file, plans, request, places)
  local fault = find_fault(H, file, plans, request)
  if fault then return fault end
  local links = keep(H.H5Pcreate(H.H5P_CLS_LINK_CREATE_ID_g), H.H5Pclose)
  H.H5Pset_create_intermediate_group(links, 1)
  each_named(plans, request, function(name)
    if request.replaces then H.H5Ldelete(file, name, 0) end
  end)
  for _, plan in ipairs(plans) do
    fault = scope(function(inner)
      return not prepare(H, inner, file, links, plan, places) and library.reason(H) or nil
    end)
    if fault then return ("dataset '%s': %s"):format(plan.dataset, fault) end
  end
  for _, text in ipairs(request.texts) do
    fault = scope(function(inner)
      return values.create(H, inner, file, text.dataset, links, text.value)
    end)
    if fault then return ("dataset '%s': %s"):format(text.dataset, fault) end
  end
  return annotate(H, keep, file, request)
end

-- Whether all that a save does is to add a step to datasets that are there.
local function only_grows(H, file, plans, request)
  if #plans == 0 or #request.texts + #request.attributes > 0 or request.replaces then
    return false
  end
  return scope(function(keep)
    for _, plan in ipairs(plans) do
      local kind, id = datasets.find(H, keep, file, plan.dataset)
      if kind ~= "dataset" or not plan.grows then return false end
      local steps = datasets.shape(H, keep, id)[1]
      if plan.grows ~= true and plan.grows ~= steps then return false end
    end
    return true
  end)
end

-- What `newer` has of a dataset and `file` has not: its last steps. False where they
-- differ in more.
local function catch_up_one(H, keep, file, newer, name, id, from, to)
  local kind, mine = datasets.find(H, keep, file, name)
  if kind ~= "dataset" then return false end
  local shape, was = datasets.shape(H, keep, id), datasets.shape(H, keep, mine)[1] or 0
  local size = tonumber(H.H5Tget_size(keep(H.H5Dget_type(id), H.H5Tclose)))
  for step = was, (shape[1] or 0) - 1 do
    local there, n = datasets.places(H, keep, newer, id, shape, size, step)
    local here = there and add_step(H, keep, file, mine, size, step)
    if not here then return false end
    for i, at in ipairs(there) do
      if not posix.copy_part(from, at, to, here[i], n) then return false end
    end
  end
  return was <= (shape[1] or 0)
end

-- Gives `part`, which is open as `file`, the steps that only `path` has; false where that
-- cannot be.
local function catch_up(H, file, newer, path, part)
  local from, to = posix.open(path), posix.change(part)
  local fault = not (from and to) or datasets.each(H, newer, function(name, id)
    return scope(function(keep)
      return not catch_up_one(H, keep, file, newer, name, id, from, to) and name or nil
    end)
  end)
  if from then from:close() end
  if to then to:close() end
  return not fault
end

-- What was kept of the last save, with the steps that this one has added; or nil.
local function renew(H, newer, path, part)
  local file = library.change_file(part)
  if not file then return nil end
  if catch_up(H, file, newer, path, part) then return file end
  H.H5Fclose(file)
end

-- A copy of a file that is added to, or nil and why there is none; and whether the save
-- does no more than add steps.
local function open_copy(path, part, plans, request, is_kept)
  local newer, fault = library.open_file(path)
  if not newer then return nil, fault end
  local H, file = library.open(), nil
  local grows = only_grows(H, newer, plans, request)
  if is_kept and grows then file = renew(H, newer, path, part) end
  H.H5Fclose(newer)
  if file then return file, grows end
  posix.remove(part) -- others may still read it, by what they have opened
  local ok, message = posix.copy(path, part)
  if not ok then return nil, message end
  file, fault = library.change_file(part)
  return file, fault or grows
end

-- The file to be changed, or nil and why not; and as above.
local function open_part(path, part, plans, request, is_kept)
  if not posix.exists(path) then return library.create_file(part) end
  for _, plan in ipairs(plans) do
    if plan.grows and not request.adds and not request.replaces then
      return nil, "it is not of this run: {add = true} goes on in it, and {replace = true} "
        .. "makes it anew"
    end
  end
  if request.adds then return open_copy(path, part, plans, request, is_kept) end
  return library.create_file(part)
end

--- Makes `part`, which is to take the place of `path`: what this holds, if the request
--- adds to it, room for what ranks write of each plan, and all else. Where the pieces of
--- a plan begin goes into `places`, from plan.first on. Or nil, message.
---@param plans celer.io.plan[]
---@param request celer.io.request
---@param places celer.view
---@param is_kept boolean  part is what the file was before the last save, which did no more
---  than add steps
---@return boolean? ok, boolean|string grows_or_message  whether this save does no more
function M.make(path, part, plans, request, places, is_kept)
  local file, grows = open_part(path, part, plans, request, is_kept)
  local fault = not file and grows
  if file then
    local H = library.open()
    fault = scope(function(keep) return change(H, keep, file, plans, request, places) end)
    if H.H5Fclose(file) < 0 then fault = fault or library.reason(H) end
  end
  if not fault then return true, grows end
  return nil, ("cannot write %s: %s"):format(path, fault)
end

return M
