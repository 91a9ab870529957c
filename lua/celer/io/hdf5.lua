--- hdf5.lua -- HDF5 files, by its library.
---
--- The library makes the file and says where a dataset lies in it; ranks then
--- write and read their parts as of any file, at the same time. What does not lie
--- in one piece, as chunked and compressed datasets, it reads itself.
---
--- The serial library of Debian may be called from several threads at once, and
--- its state of errors is per thread.
local ffi = require "ffi"
local dtype = require "celer.io.dtype"
local posix = require "celer.io.posix"

local M = {}

local declared = [[ // int64_t is hid_t
typedef struct { int storage; uint64_t links; int64_t corder; bool mounted; } celer_h5g;
int H5open(void);
int H5is_library_threadsafe(bool *);
int H5Eset_auto2(int64_t, void *, void *);
int H5Eprint2(int64_t, void *);
void *celer_open_memstream(char **, size_t *) __asm__("open_memstream");
int celer_fclose(void *) __asm__("fclose");
void celer_free(void *) __asm__("free");
int H5free_memory(void *);
int H5Iinc_ref(int64_t);
int64_t H5Fcreate(const char *, unsigned, int64_t, int64_t);
int64_t H5Fopen(const char *, unsigned, int64_t);
int H5Fclose(int64_t);
int64_t H5Pcreate(int64_t);
int H5Pset_layout(int64_t, int);
int H5Pset_alloc_time(int64_t, int);
int H5Pset_fill_time(int64_t, int);
int H5Pset_create_intermediate_group(int64_t, unsigned);
int H5Pget_layout(int64_t);
int H5Pget_external_count(int64_t);
int H5Pclose(int64_t);
int64_t H5Screate(int);
int64_t H5Screate_simple(int, const uint64_t *, const uint64_t *);
int H5Sselect_hyperslab(int64_t, int, const uint64_t *, const uint64_t *,
  const uint64_t *, const uint64_t *);
int H5Sget_simple_extent_ndims(int64_t);
int H5Sget_simple_extent_dims(int64_t, uint64_t *, uint64_t *);
int H5Sclose(int64_t);
int64_t H5Dcreate2(int64_t, const char *, int64_t, int64_t, int64_t, int64_t, int64_t);
int64_t H5Dopen2(int64_t, const char *, int64_t);
uint64_t H5Dget_offset(int64_t);
int64_t H5Dget_type(int64_t);
int64_t H5Dget_space(int64_t);
int64_t H5Dget_create_plist(int64_t);
int H5Dread(int64_t, int64_t, int64_t, int64_t, int64_t, void *);
int H5Dclose(int64_t);
int H5Gget_info(int64_t, celer_h5g *);
int64_t H5Lget_name_by_idx(int64_t, const char *, int, int, uint64_t, char *, size_t,
  int64_t);
int64_t H5Tcopy(int64_t);
int64_t H5Tcreate(int, size_t);
int64_t H5Tenum_create(int64_t);
int H5Tenum_insert(int64_t, const char *, const void *);
int64_t H5Tarray_create2(int64_t, unsigned, const uint64_t *);
int H5Tinsert(int64_t, const char *, size_t, int64_t);
int H5Tget_class(int64_t);
size_t H5Tget_size(int64_t);
int H5Tget_sign(int64_t);
int H5Tget_order(int64_t);
int64_t H5Tget_super(int64_t);
int H5Tget_nmembers(int64_t);
char *H5Tget_member_name(int64_t, unsigned);
size_t H5Tget_member_offset(int64_t, unsigned);
int64_t H5Tget_member_type(int64_t, unsigned);
int H5Tget_array_ndims(int64_t);
int H5Tget_array_dims2(int64_t, uint64_t *);
int H5Tclose(int64_t);
extern int64_t H5P_CLS_DATASET_CREATE_ID_g, H5P_CLS_LINK_CREATE_ID_g,
  H5T_NATIVE_INT8_g, H5T_NATIVE_INT16_g, H5T_NATIVE_INT32_g, H5T_NATIVE_INT64_g,
  H5T_NATIVE_UINT8_g, H5T_NATIVE_UINT16_g, H5T_NATIVE_UINT32_g, H5T_NATIVE_UINT64_g,
  H5T_NATIVE_FLOAT_g, H5T_NATIVE_DOUBLE_g;
]]

local names = { "libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5_serial.so",
  "libhdf5.so" }
local library

-- Loads it; or nil and what is missing.
local function open_library()
  if library then return library end
  for _, name in ipairs(names) do
    local ok, found = pcall(ffi.load, name)
    if ok then
      ffi.cdef(declared)
      local safe = ffi.new("bool[1]")
      if found.H5open() >= 0 and found.H5is_library_threadsafe(safe) >= 0 and safe[0] then
        found.H5Eset_auto2(0, nil, nil) -- prints nothing by itself
        library = found
        return found
      end
    end
  end
  return nil, "there is no HDF5 library that several threads may call; on Debian "
    .. "it comes with the package hdf5-tools"
end
M.library = open_library

-- Why the last call failed: the system's reason where there is one.
local function reason(H)
  local text, size = ffi.new("char *[1]"), ffi.new("size_t[1]")
  local stream = ffi.C.celer_open_memstream(text, size)
  H.H5Eprint2(0, stream)
  ffi.C.celer_fclose(stream)
  local stack = ffi.string(text[0], size[0])
  ffi.C.celer_free(text[0])
  return stack:match("error message = '([^'\n]+)'") or stack:match("#000:[^\n]*: ([^\n]+)")
    or "HDF5 does not say why"
end

-- Calls f(keep), where keep(id, close) has `close` called at the end and gives
-- the id, or nil where it is none.
local function scope(f)
  local open = {}
  local a, b, c, d = f(function(id, close)
    if id < 0 then return nil end
    open[#open + 1] = function() close(id) end
    return id
  end)
  for i = #open, 1, -1 do open[i]() end
  return a, b, c, d
end

-- ---- types ------------------------------------------------------------------

local INTEGER, FLOAT, COMPOUND, ENUM, ARRAY = 0, 1, 6, 8, 10

---@class celer.io.kind
---@field class string  as in celer.type
---@field size integer
---@field fields celer.io.field[]?

--- What describes the elements of a type to `create`; nil for a struct whose
--- fields are not plain.
---@param type_ celer.type
---@return celer.io.kind?
function M.kind(type_)
  local fields = type_.class == "s" and dtype.fields(type_) or nil
  if type_.class == "s" and not fields then return nil end
  return { class = type_.class, size = type_.size, fields = fields }
end

local function boolean(H, keep)
  local id, value = keep(H.H5Tenum_create(H.H5T_NATIVE_INT8_g), H.H5Tclose),
    ffi.new("int8_t[1]")
  for i, name in ipairs { "FALSE", "TRUE" } do
    value[0] = i - 1
    H.H5Tenum_insert(id, name, value)
  end
  return id
end

local make_type

local function compound(H, keep, kind)
  local id = keep(H.H5Tcreate(COMPOUND, kind.size), H.H5Tclose)
  for _, field in ipairs(kind.fields) do
    local member = make_type(H, keep, field)
    local n = #field.shape
    if n > 0 then
      member = keep(H.H5Tarray_create2(member, n, ffi.new("uint64_t[?]", n, field.shape)),
        H.H5Tclose)
    end
    H.H5Tinsert(id, field.name, field.offset, member)
  end
  return id
end

-- An id that `keep` closes, or one of the library's own.
function make_type(H, keep, kind)
  if kind.class == "b" then return boolean(H, keep) end
  if kind.class == "s" then return compound(H, keep, kind) end
  if kind.class == "f" then
    return kind.size == 4 and H.H5T_NATIVE_FLOAT_g or H.H5T_NATIVE_DOUBLE_g
  end
  return H[("H5T_NATIVE_%sINT%d_g"):format(kind.class == "u" and "U" or "", kind.size * 8)]
end

-- A number in Python's words.
local function number_text(H, id, letter)
  local size = tonumber(H.H5Tget_size(id))
  local order = size == 1 and "|" or H.H5Tget_order(id) == 0 and "<" or ">"
  return ("'%s%s%d'"):format(order, letter, size)
end

local describe

-- The fields of a compound in Python's words.
local function record_text(H, keep, id)
  local out, at = {}, 0
  local function pad(to)
    if to > at then out[#out + 1] = ("('', '|V%d')"):format(to - at) end
  end
  for i = 0, H.H5Tget_nmembers(id) - 1 do
    local offset = tonumber(H.H5Tget_member_offset(id, i))
    local member = keep(H.H5Tget_member_type(id, i), H.H5Tclose)
    local raw = H.H5Tget_member_name(id, i)
    local text, shape = describe(H, keep, member)
    pad(offset)
    out[#out + 1] = ("('%s', %s%s)"):format(ffi.string(raw), text, shape or "")
    at = offset + tonumber(H.H5Tget_size(member))
    H.H5free_memory(raw)
  end
  pad(tonumber(H.H5Tget_size(id)))
  return "[" .. table.concat(out, ", ") .. "]"
end

local function array_text(H, keep, id)
  local n = H.H5Tget_array_ndims(id)
  local dims, words = ffi.new("uint64_t[?]", n), {}
  H.H5Tget_array_dims2(id, dims)
  for d = 1, n do words[d] = ("%d"):format(tonumber(dims[d - 1])) end
  local text = describe(H, keep, keep(H.H5Tget_super(id), H.H5Tclose))
  return text, (", (%s%s)"):format(table.concat(words, ", "), n == 1 and "," or "")
end

-- A type in Python's words, as dtype.find takes it, and an array's shape.
function describe(H, keep, id)
  local class = H.H5Tget_class(id)
  if class == INTEGER then
    return number_text(H, id, H.H5Tget_sign(id) == 0 and "u" or "i")
  elseif class == FLOAT then return number_text(H, id, "f")
  elseif class == ENUM and H.H5Tget_nmembers(id) == 2 and H.H5Tget_size(id) == 1 then
    return "'|b1'"
  elseif class == COMPOUND then return record_text(H, keep, id)
  elseif class == ARRAY then return array_text(H, keep, id) end
  return ("HDF5 type of class %d"):format(class)
end

-- ---- writing ----------------------------------------------------------------

local TRUNCATE, CONTIGUOUS, EARLY, NEVER, SCALAR = 2, 1, 1, 1, 0

--- Why a dataset of a new file cannot be called so, beside others.
---@param name string
---@param others table<string, any>
function M.name_fault(name, others)
  local path = "/" .. name .. "/"
  if path:find("//", 1, true) or path:find("/./", 1, true) or name:find("%z") then
    return ("'%s' names no dataset: words with single slashes between them do, but for '.'")
      :format(name)
  end
  for group in name:gmatch("()/") do
    local above = name:sub(1, group - 1)
    if others[above] then
      return ("dataset '%s' cannot lie in '%s', which is a dataset itself"):format(name, above)
    end
  end
end

-- Room for a dataset in one piece, which nothing is written into yet.
local function create_dataset(H, keep, file, plan)
  local n = #plan.shape
  local space = keep(n == 0 and H.H5Screate(SCALAR)
    or H.H5Screate_simple(n, ffi.new("uint64_t[?]", n, plan.shape), nil), H.H5Sclose)
  local how = keep(H.H5Pcreate(H.H5P_CLS_DATASET_CREATE_ID_g), H.H5Pclose)
  local link = keep(H.H5Pcreate(H.H5P_CLS_LINK_CREATE_ID_g), H.H5Pclose)
  H.H5Pset_layout(how, CONTIGUOUS)
  H.H5Pset_alloc_time(how, EARLY)
  H.H5Pset_fill_time(how, NEVER)
  H.H5Pset_create_intermediate_group(link, 1)
  return keep(H.H5Dcreate2(file, plan.dataset, make_type(H, keep, plan.kind), space, link,
    how, 0), H.H5Dclose)
end

--- Makes a file with a dataset for each plan; or nil, message.
---@param plans celer.io.plan[]
function M.create(path, plans)
  local H, fault = open_library()
  if H then
    local id = H.H5Fcreate(path, TRUNCATE, 0, 0)
    if id < 0 then fault = reason(H) end
    for _, plan in ipairs(plans) do
      fault = fault or scope(function(keep)
        if not create_dataset(H, keep, id, plan) then
          return ("dataset '%s': %s"):format(plan.dataset, reason(H))
        end
      end)
    end
    if id >= 0 and H.H5Fclose(id) < 0 then fault = fault or reason(H) end
    if not fault then return true end
  end
  return nil, ("cannot write %s: %s"):format(path, fault)
end

--- The byte where a dataset begins; or nil, message.
function M.locate(path, dataset)
  local H, fault = open_library()
  if not H then return nil, ("cannot write %s: %s"):format(path, fault) end
  return scope(function(keep)
    local file = keep(H.H5Fopen(path, 0, 0), H.H5Fclose)
    local id = file and keep(H.H5Dopen2(file, dataset, 0), H.H5Dclose)
    if not id then return nil, ("cannot write %s: %s"):format(path, reason(H)) end
    return tonumber(H.H5Dget_offset(id))
  end)
end

-- ---- reading ----------------------------------------------------------------

-- The only name in the file; or nil and why a name must be given.
local function only_name(H, file)
  local info, list = ffi.new("celer_h5g"), {}
  if H.H5Gget_info(file, info) < 0 then return nil, "it cannot be listed" end
  local text = ffi.new("char[256]")
  for i = 0, math.min(tonumber(info.links), 20) - 1 do
    H.H5Lget_name_by_idx(file, ".", 0, 0, i, text, 256, 0)
    list[i + 1] = ffi.string(text)
  end
  if #list == 1 then return list[1] end
  return nil, #list == 0 and "it is empty"
    or ("it holds %s; say which: {dataset = \"%s\"}"):format(table.concat(list, ", "), list[1])
end

-- Fails as soon as it is a link that leads nowhere, a group, or of a wrong shape.
local function open_dataset(H, keep, path, name)
  local file = keep(H.H5Fopen(path, 0, 0), H.H5Fclose)
  if not file then return nil, "it is no HDF5 file" end
  local fault
  if not name then name, fault = only_name(H, file) end
  if not name then return nil, fault end
  local id = keep(H.H5Dopen2(file, name, 0), H.H5Dclose)
  if not id then return nil, ("it has no dataset '%s'"):format(name) end
  return id, name
end

local function shape_of(H, keep, id)
  local space = keep(H.H5Dget_space(id), H.H5Sclose)
  local n = H.H5Sget_simple_extent_ndims(space)
  if n > 3 then return nil, ("it has %d dimensions; 3 are the most"):format(n) end
  local dims, shape = ffi.new("uint64_t[3]"), {}
  H.H5Sget_simple_extent_dims(space, dims, nil)
  for d = 1, n do shape[d] = tonumber(dims[d - 1]) end
  return shape
end

local NOWHERE = 0xffffffffffffffffULL -- HADDR_UNDEF

-- The byte where it begins; nil where it does not lie in one piece.
local function offset_of(H, keep, id)
  local how = keep(H.H5Dget_create_plist(id), H.H5Pclose)
  local offset = H.H5Dget_offset(id)
  if H.H5Pget_layout(how) == CONTIGUOUS and H.H5Pget_external_count(how) == 0
    and offset ~= NOWHERE then
    return tonumber(offset)
  end
end

--- What a dataset holds, and the file; or nil, message. Without `at` it takes
--- `read` with the `id`, which stays open until the run ends: a buffer may need
--- it, though the file has been replaced.
---@param dataset string?
function M.open(path, dataset)
  local H, fault = open_library()
  if not H then return nil, ("cannot read %s: %s"):format(path, fault) end
  local file, message = posix.open(path) -- says why it cannot be read
  if not file then return nil, message end
  local found, why = scope(function(keep)
    local id, name = open_dataset(H, keep, path, dataset)
    if not id then return nil, name end
    local shape, wrong = shape_of(H, keep, id)
    if not shape then return nil, wrong end
    local out = { file = file, dataset = name, shape = shape, at = offset_of(H, keep, id),
      descr = describe(H, keep, keep(H.H5Dget_type(id), H.H5Tclose)) }
    if not out.at then
      H.H5Iinc_ref(id) -- against the end of this scope
      out.id = tonumber(id)
    end
    return out
  end)
  if found then return found end
  file:close()
  return nil, ("cannot read %s: %s"):format(path, why)
end

-- Selects `part`, six numbers, of a file's window; its extents.
local function select_box(H, space, n, window, part)
  local start, count = ffi.new("uint64_t[3]"), ffi.new("uint64_t[3]")
  for d = 0, n - 1 do
    start[d] = part[d + 1] - window[d + 1]
    count[d] = part[d + 4] - part[d + 1]
  end
  H.H5Sselect_hyperslab(space, 0, start, nil, count, nil)
  return count
end

--- Reads a part, dense, by the library; or nil, message.
function M.read(id, path, window, to, part)
  local H, fault = open_library()
  if not H then return nil, ("cannot read %s: %s"):format(path, fault) end
  fault = scope(function(keep)
    local space = keep(H.H5Dget_space(id), H.H5Sclose)
    local n = H.H5Sget_simple_extent_ndims(space)
    local memory = 0 -- all of it
    if n > 0 then
      memory = keep(H.H5Screate_simple(n, select_box(H, space, n, window, part), nil),
        H.H5Sclose)
    end
    local kind = keep(H.H5Dget_type(id), H.H5Tclose)
    if H.H5Dread(id, kind, memory, n > 0 and space or 0, 0, to) < 0 then return reason(H) end
  end)
  if not fault then return true end
  return nil, ("cannot read %s: %s"):format(path, fault)
end

return M
