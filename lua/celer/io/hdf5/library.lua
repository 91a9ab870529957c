--- library.lua -- HDF5's library: its functions, why they fail, and files by it.
---
--- It says where a dataset lies in a file; ranks then write (changes.lua) and read
--- (datasets.lua) their parts as of any file, at the same time. types.lua has the types of
--- elements, values.lua the numbers and strings that are not in buffers.
---
--- The serial library of Debian may be called from several threads at once, and
--- its state of errors is per thread.
local ffi = require "ffi"

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
int H5Iget_type(int64_t);
int64_t H5Fcreate(const char *, unsigned, int64_t, int64_t);
int64_t H5Fopen(const char *, unsigned, int64_t);
int H5Fis_hdf5(const char *);
int64_t H5Fget_create_plist(int64_t);
int H5Fclose(int64_t);
int64_t H5Pcreate(int64_t);
int H5Pset_file_locking(int64_t, bool, bool);
int H5Pget_userblock(int64_t, uint64_t *);
int H5Pset_layout(int64_t, int);
int H5Pset_chunk(int64_t, int, const uint64_t *);
int H5Pget_chunk(int64_t, int, uint64_t *);
int H5Pget_nfilters(int64_t);
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
int64_t H5Sget_simple_extent_npoints(int64_t);
int64_t H5Dopen2(int64_t, const char *, int64_t);
int H5Dset_extent(int64_t, const uint64_t *);
int H5Dget_chunk_info_by_coord(int64_t, const uint64_t *, unsigned *, uint64_t *,
  uint64_t *);
uint64_t H5Dget_offset(int64_t);
int64_t H5Dget_type(int64_t);
int64_t H5Dget_space(int64_t);
int64_t H5Dget_create_plist(int64_t);
int64_t H5Dcreate2(int64_t, const char *, int64_t, int64_t, int64_t, int64_t, int64_t);
int H5Dwrite(int64_t, int64_t, int64_t, int64_t, int64_t, const void *);
int H5Dread(int64_t, int64_t, int64_t, int64_t, int64_t, void *);
int H5Dclose(int64_t);
int H5Dvlen_reclaim(int64_t, int64_t, int64_t, void *);
int64_t H5Gopen2(int64_t, const char *, int64_t);
int H5Gget_info(int64_t, celer_h5g *);
int H5Gclose(int64_t);
int64_t H5Oopen(int64_t, const char *, int64_t);
int H5Oclose(int64_t);
int H5Lexists(int64_t, const char *, int64_t);
int H5Ldelete(int64_t, const char *, int64_t);
int H5Lget_val(int64_t, const char *, void *, size_t, int64_t);
int64_t H5Lget_name_by_idx(int64_t, const char *, int, int, uint64_t, char *, size_t,
  int64_t);
int H5Aget_num_attrs(int64_t);
int H5Aexists(int64_t, const char *);
int H5Adelete(int64_t, const char *);
int64_t H5Acreate2(int64_t, const char *, int64_t, int64_t, int64_t, int64_t);
int64_t H5Aopen_by_idx(int64_t, const char *, int, int, uint64_t, int64_t, int64_t);
int64_t H5Aget_name(int64_t, size_t, char *);
int64_t H5Aget_type(int64_t);
int64_t H5Aget_space(int64_t);
int H5Awrite(int64_t, int64_t, const void *);
int H5Aread(int64_t, int64_t, void *);
int H5Aclose(int64_t);
int64_t H5Tcopy(int64_t);
int H5Tset_size(int64_t, size_t);
int H5Tset_cset(int64_t, int);
int H5Tis_variable_str(int64_t);
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
  H5P_CLS_FILE_ACCESS_ID_g,
  H5T_C_S1_g,
  H5T_NATIVE_INT8_g, H5T_NATIVE_INT16_g, H5T_NATIVE_INT32_g, H5T_NATIVE_INT64_g,
  H5T_NATIVE_UINT8_g, H5T_NATIVE_UINT16_g, H5T_NATIVE_UINT32_g, H5T_NATIVE_UINT64_g,
  H5T_NATIVE_FLOAT_g, H5T_NATIVE_DOUBLE_g;
]]

local names = { "libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5_serial.so",
  "libhdf5.so" }
local library

--- Loads it; or nil and what is missing.
function M.open()
  if library then return library end
  if declared then
    ffi.cdef(declared)
    declared = nil
  end
  for _, name in ipairs(names) do
    local ok, found = pcall(ffi.load, name)
    if ok then
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

-- What the library has noted of the last failure.
local function stack_of(H)
  local text, size = ffi.new("char *[1]"), ffi.new("size_t[1]")
  local stream = ffi.C.celer_open_memstream(text, size)
  H.H5Eprint2(0, stream)
  ffi.C.celer_fclose(stream)
  local stack = ffi.string(text[0], size[0])
  ffi.C.celer_free(text[0])
  return stack
end

--- Why the last call failed: the system's reason where there is one.
---@param stack string?  of the failure, if it is not the last
function M.reason(H, stack)
  stack = stack or stack_of(H)
  return stack:match("error message = '([^'\n]+)'") or stack:match("#000:[^\n]*: ([^\n]+)")
    or "HDF5 does not say why"
end

--- Calls f(keep), where keep(id, close) has `close` called at the end and gives
--- the id, or nil where it is none.
function M.scope(f)
  local open = {}
  local a, b, c, d = f(function(id, close)
    if id < 0 then return nil end
    open[#open + 1] = function() close(id) end
    return id
  end)
  for i = #open, 1, -1 do open[i]() end
  return a, b, c, d
end

local READ, CHANGE, TRUNCATE = 0, 1, 2

-- Why a file could not be opened; `stack` is what the library has noted.
local function opening_fault(H, path, flags, stack)
  if stack:find("truncated file", 1, true) then
    return "it was not written to its end, or was cut off"
  elseif flags ~= TRUNCATE and H.H5Fis_hdf5(path) == 0 then
    return "it is no HDF5 file"
  end
  return M.reason(H, stack)
end

local unlocked -- an access property list

-- How a file is opened that is celer's alone until it is renamed. By itself HDF5 locks it, and a
-- compiler that is started for a kernel meanwhile would hold the lock until it ends.
local function access(H)
  if not unlocked then
    unlocked = H.H5Pcreate(H.H5P_CLS_FILE_ACCESS_ID_g)
    pcall(function() H.H5Pset_file_locking(unlocked, false, true) end) -- since 1.10.7
  end
  return unlocked
end

local function open_file(path, flags)
  local H, fault = M.open()
  if not H then return nil, fault end
  local id
  if flags == TRUNCATE then id = H.H5Fcreate(path, flags, 0, access(H))
  else id = H.H5Fopen(path, flags, flags == READ and 0 or access(H)) end
  if id >= 0 then return id end
  return nil, opening_fault(H, path, flags, stack_of(H))
end

--- A file, as HDF5's id, which the caller closes; or nil and why not.
function M.open_file(path) return open_file(path, READ) end
--- For changes.
function M.change_file(path) return open_file(path, CHANGE) end
--- A new one in place of what is there.
function M.create_file(path) return open_file(path, TRUNCATE) end

return M
