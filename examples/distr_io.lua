-- Distributed input and output: all ranks together write one file, each its rows of
-- a buffer, and read it back. Once by MPI-IO, which is built in; once by parallel
-- HDF5, a C library that is given the communicator of a collective host task.
-- The kernels are in C++, as what they show is a C library.
--   celer run distr_io.lua [rows [columns [folder]]]
-- HDF5 has to be built with the MPI that celer is: libhdf5-openmpi-103-1 on Debian.
local celer = require "celer"
local ffi = require "ffi"

local rows, columns = tonumber(arg[1]) or 1000, tonumber(arg[2]) or 16
local folder = arg[3] or "."
local raw, h5 = folder .. "/distr_io.raw", folder .. "/distr_io.h5"

-- ---- parallel HDF5 ----------------------------------------------------------

local function declare()
  ffi.cdef [[
    typedef int64_t hid_t;
    typedef uint64_t hsize_t;
    int H5open(void);
    extern hid_t H5P_CLS_FILE_ACCESS_ID_g, H5P_CLS_DATASET_XFER_ID_g;
    extern hid_t H5T_NATIVE_DOUBLE_g;
    hid_t H5Pcreate(hid_t class);
    int H5Pset_fapl_mpio(hid_t list, void *comm, void *info);
    int H5Pset_dxpl_mpio(hid_t list, int mode);
    int H5Pclose(hid_t list);
    hid_t H5Fcreate(const char *name, unsigned flags, hid_t create, hid_t access);
    hid_t H5Fopen(const char *name, unsigned flags, hid_t access);
    int H5Fclose(hid_t file);
    hid_t H5Screate_simple(int dims, const hsize_t *size, const hsize_t *most);
    int H5Sselect_hyperslab(hid_t space, int op, const hsize_t *start,
      const hsize_t *stride, const hsize_t *count, const hsize_t *block);
    int H5Sselect_none(hid_t space);
    int H5Sclose(hid_t space);
    hid_t H5Dcreate2(hid_t file, const char *name, hid_t type, hid_t space, hid_t link,
      hid_t create, hid_t access);
    hid_t H5Dopen2(hid_t file, const char *name, hid_t access);
    int H5Dwrite(hid_t set, hid_t type, hid_t memory, hid_t space, hid_t transfer,
      const void *data);
    int H5Dread(hid_t set, hid_t type, hid_t memory, hid_t space, hid_t transfer,
      void *data);
    int H5Dclose(hid_t set);
  ]]
  for _, name in ipairs { "libhdf5_openmpi.so.103", "libhdf5_openmpi.so.310",
    "hdf5_openmpi" } do
    local ok, library = pcall(ffi.load, name)
    if ok then return library end
  end
  error "there is no parallel HDF5 here; on Debian: apt install libhdf5-openmpi-103-1"
end

-- The library, which this group's thread alone uses.
local function hdf5(part)
  local kept = part.kept
  if not kept.library then
    kept.library = declare()
    kept.library.H5open()
  end
  return kept.library
end

local function good(code)
  if code < 0 then error("HDF5 failed, as it says above", 2) end
  return code
end

local function pair(a, b) return ffi.new("hsize_t[2]", a, b) end

-- A data space of n x m elements, of which these rows and columns are selected.
local function select(H, n, m, first, count, width)
  local space = good(H.H5Screate_simple(2, pair(n, m), nil))
  if count == 0 then
    good(H.H5Sselect_none(space))
  else
    good(H.H5Sselect_hyperslab(space, 0, pair(first, 0), nil, pair(count, width), nil))
  end
  return space
end

-- Calls `move` to transfer this rank's rows between the data set and memory.
local function transfer(H, move, set, view, n, m)
  local count = view.size[0]
  local data, row = view:pointer()
  local file = select(H, n, m, view.min[0], count, m)
  local memory = select(H, math.max(count, 1), math.max(row, m), 0, count, m)
  local list = good(H.H5Pcreate(H.H5P_CLS_DATASET_XFER_ID_g))
  good(H.H5Pset_dxpl_mpio(list, 1)) -- all ranks together
  good(move(set, H.H5T_NATIVE_DOUBLE_g, memory, file, list, data))
  H.H5Pclose(list)
  H.H5Sclose(memory)
  H.H5Sclose(file)
end

-- How files are opened: by all ranks of the communicator.
local function access(H, comm)
  local list = good(H.H5Pcreate(H.H5P_CLS_FILE_ACCESS_ID_g))
  good(H.H5Pset_fapl_mpio(list, comm.handle, comm.info))
  return list
end

local function write_hdf5(part, u, path, n, m)
  local H = hdf5(part)
  local list = access(H, part.comm)
  local file = good(H.H5Fcreate(path, 2, 0, list)) -- truncates
  local space = good(H.H5Screate_simple(2, pair(n, m), nil))
  local set = good(H.H5Dcreate2(file, "u", H.H5T_NATIVE_DOUBLE_g, space, 0, 0, 0))
  transfer(H, H.H5Dwrite, set, u, n, m)
  H.H5Dclose(set)
  H.H5Sclose(space)
  good(H.H5Fclose(file))
  H.H5Pclose(list)
end

local function read_hdf5(part, v, path, n, m)
  local H = hdf5(part)
  local list = access(H, part.comm)
  local file = good(H.H5Fopen(path, 0, list))
  local set = good(H.H5Dopen2(file, "u", 0))
  transfer(H, H.H5Dread, set, v, n, m)
  H.H5Dclose(set)
  good(H.H5Fclose(file))
  H.H5Pclose(list)
end

-- ---- MPI-IO -----------------------------------------------------------------

local function write_raw(part, u, path, _, m)
  local file = part.comm:open(path, "w")
  file:write_at_all(u.min[0] * m * 8, u)
  file:close()
end

local function read_raw(part, v, path, _, m)
  local file = part.comm:open(path)
  file:read_at_all(v.min[0] * m * 8, v)
  file:close()
end

-- ---- the program ------------------------------------------------------------

local q = celer.queue()
local kernels = celer.kernel [[
  kernel void fill(item<2> it, out<double, 2> u) {
    u(it[0], it[1]) = 1000.0 * it[0] + it[1];
  }
  kernel void compare(item<1> it, in<double, 2> u, in<double, 2> v, out<int, 1> wrong,
                      int columns) {
    int n = 0;
    for (int j = 0; j < columns; ++j) n += u(it[0], j) != v(it[0], j);
    wrong(it[0]) = n;
  }
]]

local function buffer(name) return celer.buffer("double", { rows, columns }, { name = name }) end
local u, from_raw, from_hdf5 = buffer "u", buffer "from_raw", buffer "from_hdf5"

local function write(group, how, path)
  q:submit(function(cg)
    local mine = cg:read(u, celer.even_split)
    cg:host_task(celer.collective(group), how, mine, path, rows, columns)
  end)
end

local function read(group, how, path, into)
  q:submit(function(cg)
    local mine = cg:discard_write(into, celer.even_split)
    cg:host_task(celer.collective(group), how, mine, path, rows, columns)
  end)
end

local function compare(v)
  local wrong = celer.buffer("int", { rows }, { name = "wrong" })
  local function whole_rows(chunk)
    return celer.box({ chunk.min[0], 0 }, { chunk.max[0], columns })
  end
  q:submit(function(cg)
    local a, b = cg:read(u, whole_rows), cg:read(v, whole_rows)
    cg:parallel_for({ rows }, kernels.compare, a, b, cg:discard_write(wrong), columns)
  end)
  return celer.capture(wrong)
end

q:submit(function(cg)
  cg:parallel_for({ rows, columns }, kernels.fill, cg:discard_write(u))
end)
write("raw", write_raw, raw)
write("hdf5", write_hdf5, h5)
read("raw", read_raw, raw, from_raw)
read("hdf5", read_hdf5, h5, from_hdf5)

local in_raw, in_hdf5 = q:drain(compare(from_raw), compare(from_hdf5))
local function total(snapshot)
  local n = 0
  for i = 0, rows - 1 do n = n + snapshot[i] end
  return n
end
print(("MPI-IO: %d x %d elements, %d differ"):format(rows, columns, total(in_raw)))
print(("HDF5:   %d x %d elements, %d differ"):format(rows, columns, total(in_hdf5)))
