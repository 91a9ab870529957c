--- shared_file.lua -- a file that all ranks of a communicator have open: MPI-IO.
---
---   local file = part.comm:open("field.raw", "w")
---   file:write_at_all(offset, view)    -- each rank its part, all ranks together
---   file:close()
---
--- Offsets and lengths are in bytes. What is written: a view (its elements row by
--- row), a string, or memory of FFI and its bytes. Loaded by communicator.lua.
local ffi = require "ffi"
local communicator = require "celer.host.communicator"
local packed = require "celer.host.packed"
local place = require "celer.place"
local words = require "celer.words"

local C, fail = ffi.C, place.fail
local check = communicator.check

local M = {}

local LONGEST = 2 ^ 31 - 2 ^ 10 -- bytes of a string
local FURTHEST = 2 ^ 53 -- of a file

---@class celer.shared_file
---@field path string
local File = { __noun = "shared file" }
File.__index = File

local function usable(self, call)
  place.method(self, File, call)
  if not self.file then fail("%s: %s is closed", call, self.path) end
end

local function whole(call, what, n)
  if type(n) ~= "number" or n < 0 or n % 1 ~= 0 or n > FURTHEST then
    fail("%s: the %s must be a whole number of bytes, from 0 to 2^53, not %s", call, what,
      type(n) == "number" and tostring(n) or words.a(n))
  end
  return n
end

-- Address and bytes of FFI memory; an array knows how many.
local function memory(call, p, bytes)
  local room, type_ = communicator.room(p)
  if bytes == nil then
    bytes = room or fail("%s: a pointer is followed by the number of bytes", call)
  end
  whole(call, "length", bytes)
  if room and room < bytes then
    fail("%s: %s has %.0f bytes, not %.0f", call, type_, room, bytes)
  end
  return ffi.cast("void *", p), bytes
end

-- ---- reading and writing ----------------------------------------------------

local function write(self, call, all, offset, data, bytes)
  usable(self, call)
  whole(call, "offset", offset)
  local p, kept -- what `p` points into
  if packed.is_view(data) then
    p, bytes, kept = packed.of(data)
  elseif type(data) == "string" then
    p, bytes = ffi.cast("const char *", data), #data
  elseif type(data) == "cdata" then
    p, bytes = memory(call, data, bytes)
  else
    fail("%s writes a view, a string or memory, not %s", call, words.a(data))
  end
  check(C.cel_file_write(self.file, offset, p, bytes, all))
  return kept
end

local function read(self, call, all, offset, into, bytes)
  usable(self, call)
  whole(call, "offset", offset)
  local p, text, done
  if packed.is_view(into) then
    if not into.writable then
      fail("%s: %s is only read by this task; declare it with cg:discard_write, "
        .. "cg:write or cg:read_write", call, into.name)
    end
    p, bytes, done = packed.into(into)
  elseif type(into) == "number" then
    bytes = whole(call, "length", into)
    if bytes > LONGEST then
      fail("%s: %.0f bytes are more than a string can have, %.0f; read into a view, or into "
        .. "memory", call, bytes, LONGEST)
    end
    text = ffi.new("char[?]", bytes)
    p = text
  elseif type(into) == "cdata" then
    p, bytes = memory(call, into, bytes)
  else
    fail("%s reads into a view, or memory, or so many bytes as a string; not into %s",
      call, words.a(into))
  end
  local got = ffi.new("uint64_t[1]")
  check(C.cel_file_read(self.file, offset, p, bytes, all, got))
  if tonumber(got[0]) < bytes then
    fail("%s: %s ends %d bytes after the offset %d, before the %d that were asked for",
      call, self.path, tonumber(got[0]), offset, bytes)
  end
  if done then done() end
  return text and ffi.string(text, bytes)
end

--- Writes at an offset; this rank alone.
---@param offset integer
---@param data celer.view|string|ffi.cdata*
---@param bytes? integer  of a pointer
function File:write_at(offset, data, bytes)
  write(self, "file:write_at", false, offset, data, bytes)
end

--- The same on all ranks together, which is what is fast.
---@param offset integer
---@param data celer.view|string|ffi.cdata*
---@param bytes? integer
function File:write_at_all(offset, data, bytes)
  write(self, "file:write_at_all", true, offset, data, bytes)
end

--- Reads at an offset, into a view that the task writes or into memory; or so many
--- bytes, which it returns. This rank alone.
---@param offset integer
---@param into celer.view|ffi.cdata*|integer
---@param bytes? integer  of a pointer
---@return string?
function File:read_at(offset, into, bytes)
  return read(self, "file:read_at", false, offset, into, bytes)
end

--- The same on all ranks together.
---@param offset integer
---@param into celer.view|ffi.cdata*|integer
---@param bytes? integer
---@return string?
function File:read_at_all(offset, into, bytes)
  return read(self, "file:read_at_all", true, offset, into, bytes)
end

--- In bytes.
---@return integer
function File:size()
  usable(self, "file:size")
  local size = ffi.new("uint64_t[1]")
  check(C.cel_file_size(self.file, size))
  return tonumber(size[0])
end

--- On all ranks together. A file that is not closed is not sure to be written.
function File:close()
  usable(self, "file:close")
  local file = self.file
  self.file = false
  check(C.cel_file_close(file))
end

function File:__tostring()
  return ("shared file %s%s"):format(self.path, self.file and "" or " (closed)")
end

-- ---- opening ----------------------------------------------------------------

local modes = { r = "READ", w = "WRITE", ["r+"] = "UPDATE" }

--- What comm:open does.
---@param comm ffi.cdata*
---@param path string
---@param mode? string
---@return celer.shared_file
function M.open(comm, path, mode)
  if type(path) ~= "string" then
    fail("comm:open: the path must be a string, not %s", words.a(path))
  end
  local name = modes[mode or "r"]
  if not name then
    fail("comm:open: there is no mode %s%s", type(mode) == "string"
      and ("'%s'"):format(mode) or words.a(mode), words.advice(nil, modes))
  end
  local out = ffi.new("cel_file *[1]")
  check(C.cel_file_open(comm, path, C["CEL_FILE_" .. name], out))
  return setmetatable({ path = path, file = out[0] }, File)
end

words.methods(File)

return M
