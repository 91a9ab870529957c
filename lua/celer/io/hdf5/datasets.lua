--- datasets.lua -- what lies in an HDF5 file under which name, and where.
local ffi = require "ffi"
local dtype = require "celer.io.dtype"
local library = require "celer.io.hdf5.library"
local plans = require "celer.io.plan"
local posix = require "celer.io.posix"
local types = require "celer.io.hdf5.types"
local values = require "celer.io.hdf5.values"

local scope = library.scope

local M = {}

local CONTIGUOUS, CHUNKED = 1, 2
local MOST = 32 -- dimensions, H5S_MAX_RANK
local NOWHERE = 0xffffffffffffffffULL -- HADDR_UNDEF

-- ---- names ------------------------------------------------------------------

-- H5I_type_t
local kinds = { [2] = "group", [5] = "dataset" }

--- What is there under a name: "dataset" or "group" and its id; "other" of another kind;
--- "link" that leads nowhere; "nothing"; or "within" and the name of what is no group
--- and stands in the way. An empty name is the file's own group.
---@param name string  words with slashes between them
function M.find(H, keep, file, name)
  if name == "" then return "group", keep(H.H5Gopen2(file, "/", 0), H.H5Gclose) end
  for at in (name .. "/"):gmatch("()/") do
    local path = name:sub(1, at - 1)
    if H.H5Lexists(file, path, 0) <= 0 then return "nothing" end
    local id = keep(H.H5Oopen(file, path, 0), H.H5Oclose)
    if not id then return "link" end
    local kind = kinds[H.H5Iget_type(id)] or "other"
    if at > #name then return kind, id end
    if kind ~= "group" then return "within", path end
  end
end

--- The names in a group.
---@return string[]
function M.names(H, group)
  local info, list = ffi.new("celer_h5g"), {}
  if H.H5Gget_info(group, info) < 0 then return list end
  for i = 0, tonumber(info.links) - 1 do
    local n = tonumber(H.H5Lget_name_by_idx(group, ".", 0, 0, i, nil, 0, 0))
    local text = ffi.new("char[?]", n + 1)
    H.H5Lget_name_by_idx(group, ".", 0, 0, i, text, n + 1, 0)
    list[i + 1] = ffi.string(text, n)
  end
  return list
end

local LISTED = 20

-- "holds a, b; say which: {dataset = "a"}", of the file or of a group in it.
local function what_it_holds(H, group, name)
  local list = M.names(H, group)
  if #list == 0 then return "is empty" end
  local first = name == "" and list[1] or name .. "/" .. list[1]
  if #list > LISTED then list[LISTED + 1] = "..." end
  return ('holds %s; say which: {dataset = "%s"}'):format(table.concat(list, ", ", 1,
    math.min(#list, LISTED + 1)), first)
end

--- Why what `find` has found is no dataset.
---@param name string
---@param kind string
function M.fault(H, keep, file, name, kind, id)
  if kind == "nothing" then
    local _, root = M.find(H, keep, file, "")
    return ("it has no dataset '%s'; it %s"):format(name, what_it_holds(H, root, ""))
  elseif kind == "group" then
    return ("'%s' is a group, which %s"):format(name, what_it_holds(H, id, name))
  elseif kind == "within" then
    return ("'%s' cannot lie in '%s', which is no group"):format(name, id)
  end
  return ("'%s' %s"):format(name, kind == "link" and "is a link that leads nowhere"
    or "is no dataset")
end

-- The dataset of that name, or the only one; or nil and why not.
local function open_dataset(H, keep, file, name)
  if not name then
    local _, root = M.find(H, keep, file, "")
    local list = M.names(H, root)
    if #list ~= 1 then return nil, "it " .. what_it_holds(H, root, "") end
    name = list[1]
  end
  local words = {}
  for word in name:gmatch("[^/]+") do
    if word ~= "." then words[#words + 1] = word end
  end
  local path = table.concat(words, "/")
  local kind, id = M.find(H, keep, file, path)
  if kind ~= "dataset" then return nil, M.fault(H, keep, file, path, kind, id) end
  return id, path
end

-- ---- where they lie ---------------------------------------------------------

--- The extents of a dataset.
---@return integer[]
function M.shape(H, keep, id)
  local space = keep(H.H5Dget_space(id), H.H5Sclose)
  local n = H.H5Sget_simple_extent_ndims(space)
  local dims, shape = ffi.new("uint64_t[?]", MOST), {}
  H.H5Sget_simple_extent_dims(space, dims, nil)
  for d = 1, n do shape[d] = tonumber(dims[d - 1]) end
  return shape
end

-- The byte where it begins; nil where it does not lie in one piece.
local function offset_of(H, keep, id)
  local how = keep(H.H5Dget_create_plist(id), H.H5Pclose)
  local offset = H.H5Dget_offset(id)
  if H.H5Pget_layout(how) == CONTIGUOUS and H.H5Pget_external_count(how) == 0
    and offset ~= NOWHERE then
    return tonumber(offset)
  end
end

--- The chunks of a dataset, where each has whole rows of some steps: how many steps, and
--- how many rows. Nil where they are cut otherwise, or compressed.
---@return integer? deep, integer? tall
function M.chunks(H, keep, file, id, shape)
  local how = keep(H.H5Dget_create_plist(id), H.H5Pclose)
  local n, chunk = #shape, ffi.new("uint64_t[?]", MOST)
  local block = ffi.new("uint64_t[1]")
  H.H5Pget_userblock(keep(H.H5Fget_create_plist(file), H.H5Pclose), block)
  if n == 0 or H.H5Pget_layout(how) ~= CHUNKED or H.H5Pget_nfilters(how) ~= 0
    or H.H5Pget_chunk(how, n, chunk) ~= n or block[0] ~= 0 then
    return nil
  end
  for d = 3, n do
    if chunk[d - 1] ~= math.max(1, shape[d]) then return nil end
  end
  return tonumber(chunk[0]), n > 1 and tonumber(chunk[1]) or 1
end

--- Where a step lies that has been written, or has room: the byte where each of its pieces
--- begins, and the bytes of a piece. Nil where it does not lie in such pieces.
---@param shape integer[]
---@param size integer  bytes of an element
---@param step integer
---@return number[]? places, number? bytes
function M.places(H, keep, file, id, shape, size, step)
  local deep, tall = M.chunks(H, keep, file, id, shape)
  if not deep then return nil end
  local rows, bytes, out = shape[2] or 1, tall * size, {}
  for d = 3, #shape do
    bytes = bytes * shape[d]
  end
  local at, mask = ffi.new("uint64_t[?]", MOST), ffi.new("unsigned[1]")
  local address, length = ffi.new("uint64_t[1]"), ffi.new("uint64_t[1]")
  for row = 0, bytes == 0 and -1 or rows - 1, tall do
    at[0], at[1] = step - step % deep, row
    if H.H5Dget_chunk_info_by_coord(id, at, mask, address, length) < 0
      or address[0] == NOWHERE then
      return nil
    end
    out[#out + 1] = tonumber(address[0]) + step % deep * bytes
  end
  return out, bytes
end

-- ---- reading ----------------------------------------------------------------

-- What is in the dataset, or in its step, and where; or nil and why it cannot be read.
local function look_at(H, keep, file, name, step)
  local id, path = open_dataset(H, keep, file, name)
  if not id then return nil, path end
  local shape, fault = M.shape(H, keep, id), nil
  local kind = keep(H.H5Dget_type(id), H.H5Tclose)
  local found = { dataset = path, shape = shape, descr = types.describe(H, keep, kind) }
  if found.descr == types.STRING then
    fault = "it is a string, which celer.io.open reads"
  elseif step then
    found.step, fault = plans.index_of(shape, step)
    table.remove(shape, 1)
  end
  if #shape > 3 then
    fault = ("it has %d dimensions; 3 are the most%s"):format(#shape, not step and #shape == 4
      and ", with `step` one of the first" or "")
  end
  if fault then return nil, ("dataset '%s': %s"):format(path, fault) end
  found.at = not step and offset_of(H, keep, id) or nil
  if not found.at then
    H.H5Iinc_ref(id) -- against the end of the scope
    found.id = id
  end
  return found
end

--- What a dataset holds, and the file; or nil, message. Without `at` it takes `read` with
--- the `id`, which stays open until the run ends: a buffer may need it, though the file
--- has been replaced.
---@param dataset string?
---@param step integer?  as plans.index_of takes it
---@return celer.io.found? found, string? message
function M.open(path, dataset, step)
  local disk, message = posix.open(path) -- says why it cannot be read
  if not disk then return nil, message end
  local file, fault = library.open_file(path)
  local found
  if file then
    local H = library.open()
    found, fault = scope(function(keep)
      keep(file, H.H5Fclose)
      return look_at(H, keep, file, dataset, step)
    end)
  end
  if found then
    found.file = disk
    return found
  end
  disk:close()
  return nil, ("cannot read %s: %s"):format(path, fault)
end

-- Selects `part`, six numbers, of a file's window, in the step if there is one; the
-- extents of it.
local function select_box(H, space, n, window, part, step)
  local start, count = ffi.new("uint64_t[?]", MOST), ffi.new("uint64_t[?]", MOST)
  local first = step and 1 or 0
  if step then start[0], count[0] = step, 1 end
  for d = 0, n - 1 - first do
    start[d + first] = part[d + 1] - window[d + 1]
    count[d + first] = part[d + 4] - part[d + 1]
  end
  H.H5Sselect_hyperslab(space, 0, start, nil, count, nil)
  return count
end

--- Reads a part, dense, by the library; or nil, message.
---@param id ffi.cdata*  int64_t
---@param step integer?
function M.read(id, path, window, to, part, step)
  local H, fault = library.open()
  if not H then return nil, ("cannot read %s: %s"):format(path, fault) end
  fault = scope(function(keep)
    local space = keep(H.H5Dget_space(id), H.H5Sclose)
    local n = H.H5Sget_simple_extent_ndims(space)
    local memory = 0 -- all of it
    if n > 0 then
      memory = keep(H.H5Screate_simple(n, select_box(H, space, n, window, part, step), nil),
        H.H5Sclose)
    end
    local kind = keep(H.H5Dget_type(id), H.H5Tclose)
    if H.H5Dread(id, kind, memory, n > 0 and space or 0, 0, to) < 0 then
      return library.reason(H)
    end
  end)
  if not fault then return true end
  return nil, ("cannot read %s: %s"):format(path, fault)
end

-- ---- all of a file ----------------------------------------------------------

local DEEPEST = 12 -- groups in groups

---@class celer.io.dataset
---@field shape integer[]
---@field type string  of its elements: as celer.buffer takes it, or in Python's words
---@field value celer.io.plain?  where it is a single one
---@field attributes table<string, celer.io.plain|celer.io.plain[]>

---@return celer.io.dataset
local function describe(H, id)
  return scope(function(keep)
    local shape = M.shape(H, keep, id)
    local descr = types.describe(H, keep, keep(H.H5Dget_type(id), H.H5Tclose))
    local type_ = dtype.find(descr)
    local out = { shape = shape, type = type_ and type_.name or descr,
      attributes = values.all(H, id) }
    if #shape == 0 then out.value = values.single(H, keep, id) end
    return out
  end)
end

-- Of a group.
local function walk(H, file, prefix, depth, f)
  if depth > DEEPEST then return ("groups in '%s' lie too deep"):format(prefix) end
  return scope(function(keep)
    local _, group = M.find(H, keep, file, prefix)
    for _, name in ipairs(M.names(H, group)) do
      local path = prefix == "" and name or prefix .. "/" .. name
      if H.H5Lget_val(group, name, ffi.new("char[1]"), 1, 0) < 0 then -- no soft link
        local kind, id = M.find(H, keep, file, path)
        local fault = kind == "dataset" and f(path, id)
          or kind == "group" and walk(H, file, path, depth + 1, f)
        if fault then return fault end
      end
    end
  end)
end

--- Calls f(name, id) for each dataset of a file, until it gives a fault; that, or nil.
---@param f fun(name: string, id: ffi.cdata*): string?
---@return string? fault
function M.each(H, file, f) return walk(H, file, "", 0, f) end

--- All datasets of a file, by their names, and the attributes of the file; or nil,
--- message.
---@return {datasets: table<string, celer.io.dataset>, attributes: table}?, string? message
function M.list(path)
  local disk, message = posix.open(path)
  if not disk then return nil, message end
  disk:close()
  local file, fault = library.open_file(path)
  local out = { datasets = {} }
  if file then
    local H = library.open()
    fault = scope(function(keep)
      keep(file, H.H5Fclose)
      local _, root = M.find(H, keep, file, "")
      out.attributes = values.all(H, root)
      return M.each(H, file, function(name, id) out.datasets[name] = describe(H, id) end)
    end)
  end
  if not fault then return out end
  return nil, ("cannot read %s: %s"):format(path, fault)
end

return M
