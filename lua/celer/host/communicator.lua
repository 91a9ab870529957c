--- communicator.lua -- part.comm of a collective host task: how its calls on all
--- ranks talk to each other. All of them make the same calls in the same order.
---
--- Values are numbers, strings, booleans and tables of these; memory is a pointer
--- or an array of FFI, followed by the number of its elements.
local buffer = require "string.buffer"
local ffi = require "ffi"
local core = require "celer.core"
local decode = require "celer.host.decode"
local place = require "celer.place"
local reals = require "celer.data.reals"
local element_types = require "celer.data.types"
local words = require "celer.words"

ffi.cdef(core.embedded "engine/comm/file.h")

local C, fail = ffi.C, place.fail
local ALL = C.CEL_COMM_ALL

local M = {}

---@class celer.communicator
---@field rank integer
---@field ranks integer
---@field handle ffi.cdata*  the MPI_Comm, for C libraries; on one rank it starts MPI
---@field info ffi.cdata*  MPI_INFO_NULL, for C libraries
local Comm = { __noun = "communicator" }

-- Raises what a C function has failed with.
local function check(status)
  if status ~= C.CEL_E_OK then fail("%s", ffi.string(C.cel_error_last().text)) end
end
M.check = check

-- ---- what is passed ---------------------------------------------------------

local int64, uint64 = ffi.typeof "int64_t", ffi.typeof "uint64_t"

local function is_memory(x)
  return type(x) == "cdata" and not ffi.istype(int64, x) and not ffi.istype(uint64, x)
end

--- How many bytes memory of FFI has, and its type; nil of what a pointer points to.
---@param p ffi.cdata*
---@return integer? bytes, string type
function M.room(p)
  local type_ = tostring(ffi.typeof(p)):match("^ctype<(.*)>$")
  if type_:find("%*[%l &]*$") or type_:find("(*", 1, true) then return nil, type_ end
  return ffi.sizeof(p), type_
end

-- Refuses memory of fewer bytes than `what` takes.
local function check_room(call, p, bytes, what, ...)
  local room, type_ = M.room(p)
  if room and room < bytes then
    fail("%s: %s has %.0f bytes, and %s take %.0f", call, type_, room, what:format(...),
      bytes)
  end
end

-- Address and bytes of `n` elements.
local function memory(call, p, n)
  if type(n) ~= "number" or n < 0 or n % 1 ~= 0 then
    fail("%s: memory is followed by the number of its elements, not by %s", call,
      type(n) == "number" and tostring(n) or words.a(n))
  end
  local good, size = pcall(function()
    return tonumber(ffi.cast("char *", p + 1) - ffi.cast("char *", p))
  end)
  if not good then
    fail("%s: %s is no pointer to elements", call, tostring(ffi.typeof(p)))
  end
  check_room(call, p, n * size, "%.0f elements", n)
  return ffi.cast("void *", p), n * size
end

local function root_of(self, call, root)
  if root == nil then return 0 end
  if type(root) ~= "number" or root % 1 ~= 0 or root < 0 or root >= self.ranks then
    fail("%s: there is no rank %s; there are 0 to %d", call,
      type(root) == "number" and tostring(root) or words.a(root), self.ranks - 1)
  end
  return root
end

-- A value as text, and back.
local function encode(call, value)
  local good, text = pcall(buffer.encode, value)
  if not good then
    fail("%s: %s cannot be sent to other ranks: numbers, strings, booleans and "
      .. "tables of these can", call, words.a(value))
  end
  return text
end

-- ---- calls ------------------------------------------------------------------

---@class celer.communicator
local Methods = {}

--- Until every rank has come here.
function Methods:barrier()
  place.method(self, Comm, "comm:barrier")
  check(C.cel_comm_barrier(self.comm))
end

local function broadcast_value(self, value, root)
  local text = self.rank == root and encode("comm:broadcast", value) or ""
  local length = ffi.new("uint64_t[1]", #text)
  check(C.cel_comm_broadcast(self.comm, length, 8, root))
  local n = tonumber(length[0])
  local bytes = ffi.new("char[?]", n)
  if self.rank == root then ffi.copy(bytes, text, n) end
  check(C.cel_comm_broadcast(self.comm, bytes, n, root))
  return decode(ffi.string(bytes, n))
end

--- The value of rank `root`, on every rank; or its memory, into that of all:
--- comm:broadcast(value, root), comm:broadcast(pointer, elements, root).
---@param value any
---@param ... any
---@return any
function Methods:broadcast(value, ...)
  local call = "comm:broadcast"
  place.method(self, Comm, call)
  if not is_memory(value) then
    return broadcast_value(self, value, root_of(self, call, (...)))
  end
  local p, bytes = memory(call, value, (...))
  check(C.cel_comm_broadcast(self.comm, p, bytes,
    root_of(self, call, (select(2, ...)))))
end

-- Every rank's text, in the order of ranks, on `root`.
local function gather_texts(self, text, root)
  local ranks = self.ranks
  local longest = ffi.new("uint64_t[1]")
  check(C.cel_comm_reduce(self.comm, C.CEL_COMM_MAX, C.CEL_COMM_UINT64,
    ffi.new("uint64_t[1]", #text), longest, 1, ALL))
  -- The length, then the text; each slot begins at a multiple of 8.
  local slot = 8 + math.ceil(tonumber(longest[0]) / 8) * 8
  local mine = ffi.new("char[?]", slot)
  ffi.cast("uint64_t *", mine)[0] = #text
  ffi.copy(mine + 8, text, #text)
  local wanted = root == ALL or root == self.rank
  local all = ffi.new("char[?]", wanted and slot * ranks or 0)
  check(C.cel_comm_gather(self.comm, mine, slot, all, root))
  if not wanted then return nil end
  local out = {}
  for k = 0, ranks - 1 do
    local at = all + k * slot
    out[k] = ffi.string(at + 8, tonumber(ffi.cast("uint64_t *", at)[0]))
  end
  return out
end

local function gather(self, call, root, value)
  local texts = gather_texts(self, encode(call, value), root)
  if not texts then return nil end
  for k = 0, self.ranks - 1 do texts[k] = decode(texts[k]) end
  return texts
end

local function gather_memory(self, call, root, p, n, all)
  local mine, bytes = memory(call, p, n)
  local wanted = root == ALL or root == self.rank
  if wanted then
    if not is_memory(all) then
      fail("%s: memory for %d times %d elements comes third, not %s", call, self.ranks,
        n, words.a(all))
    end
    check_room(call, all, self.ranks * bytes, "%d times %.0f elements", self.ranks, n)
  end
  check(C.cel_comm_gather(self.comm, mine, bytes,
    wanted and ffi.cast("void *", all) or nil, root))
end

--- Every rank's value on rank `root`, as a table from 0 on; nil on the others. Or
--- its memory: comm:gather(pointer, elements, all, root), `all` for those of all
--- ranks.
---@param value any
---@param ... any
---@return table  nil but on that rank
function Methods:gather(value, ...)
  local call = "comm:gather"
  place.method(self, Comm, call)
  if not is_memory(value) then
    return gather(self, call, root_of(self, call, (...)), value)
  end
  local n, all, root = ...
  gather_memory(self, call, root_of(self, call, root), value, n, all)
end

--- The same on every rank: comm:all_gather(value), or
--- comm:all_gather(pointer, elements, all).
---@param value any
---@param ... any
---@return table
function Methods:all_gather(value, ...)
  local call = "comm:all_gather"
  place.method(self, Comm, call)
  if not is_memory(value) then return gather(self, call, ALL, value) end
  gather_memory(self, call, ALL, value, ...)
end

-- ---- numbers combined -------------------------------------------------------

local ops = { sum = "SUM", prod = "PROD", min = "MIN", max = "MAX", ["and"] = "AND",
  ["or"] = "OR" }
local logical = { AND = true, OR = true }
-- By the type of a pointer.
local types = {}
for name, code in pairs { int8_t = "INT8", uint8_t = "UINT8", int16_t = "INT16",
  uint16_t = "UINT16", int32_t = "INT32", uint32_t = "UINT32", int64_t = "INT64",
  uint64_t = "UINT64", float = "FLOAT", double = "DOUBLE" } do
  types[tostring(ffi.typeof(name .. " *"))] = code
  types[tostring(ffi.typeof("const " .. name .. " *"))] = code
end
types[tostring(ffi.typeof "char *")] = "INT8"

local function op_of(call, op, code)
  local name = ops[op]
  if not name then
    fail("%s: %s does not name an operation%s", call, type(op) == "string"
      and ("'%s'"):format(op) or words.a(op), words.advice(op, ops))
  elseif logical[name] and (code == "FLOAT" or code == "DOUBLE") then
    fail("%s: '%s' is for whole numbers and booleans", call, op)
  end
  return C["CEL_COMM_" .. name]
end

local function reduce_memory(self, call, root, p, n, op)
  local at = memory(call, p, n)
  local code = types[tostring(ffi.typeof(p + 0))]
  if not code then
    fail("%s: %s is no pointer to numbers", call, tostring(ffi.typeof(p)))
  end
  local operation = op_of(call, op, code)
  check(C.cel_comm_reduce(self.comm, operation, C["CEL_COMM_" .. code], nil, at, n, root))
end

-- A cell that holds the value, its type, and how to get it out again.
local function boxed(call, value)
  if type(value) == "number" then return ffi.new("double[1]", value), "DOUBLE" end
  if type(value) == "boolean" then
    return ffi.new("int32_t[1]", value and 1 or 0), "INT32"
  elseif ffi.istype(int64, value) then return ffi.new("int64_t[1]", value), "INT64"
  elseif ffi.istype(uint64, value) then return ffi.new("uint64_t[1]", value), "UINT64"
  end
  fail("%s: numbers and booleans can be combined, not %s", call, words.a(value))
end

local function reduce_value(self, call, root, value, op)
  local mine, code = boxed(call, value)
  local operation = op_of(call, op, code)
  if type(value) == "boolean" and not logical[ops[op]] then
    fail("%s: '%s' is for numbers; booleans have 'and' and 'or'", call, op)
  end
  local out = ffi.new(ffi.typeof(mine))
  check(C.cel_comm_reduce(self.comm, operation, C["CEL_COMM_" .. code], mine, out, 1,
    root))
  if root ~= ALL and root ~= self.rank then return nil end
  if type(value) == "boolean" then return out[0] ~= 0 end
  if code == "DOUBLE" then return reals.load(element_types.find "double", out, 0) end
  return out[0]
end

--- All ranks' numbers combined by "sum", "prod", "min", "max", "and" or "or", on
--- rank `root`; nil on the others. Of memory each element by itself, in place:
--- comm:reduce(pointer, elements, op, root).
---@param value any
---@param ... any
---@return any
function Methods:reduce(value, ...)
  local call = "comm:reduce"
  place.method(self, Comm, call)
  if not is_memory(value) then
    local op, root = ...
    return reduce_value(self, call, root_of(self, call, root), value, op)
  end
  local n, op, root = ...
  reduce_memory(self, call, root_of(self, call, root), value, n, op)
end

--- The same on every rank: comm:all_reduce(value, op), or
--- comm:all_reduce(pointer, elements, op).
---@param value any
---@param ... any
---@return any
function Methods:all_reduce(value, ...)
  local call = "comm:all_reduce"
  place.method(self, Comm, call)
  if not is_memory(value) then return reduce_value(self, call, ALL, value, (...)) end
  reduce_memory(self, call, ALL, value, ...)
end

-- ---- files and handles ------------------------------------------------------

--- Opens a file on all ranks together, by MPI-IO. Modes: "r" reads, "w" makes it
--- anew, "r+" reads and writes it.
---@param path string
---@param mode? "r"|"w"|"r+"
---@return celer.shared_file
function Methods:open(path, mode)
  place.method(self, Comm, "comm:open")
  return require("celer.host.shared_file").open(self.comm, path, mode)
end

local function as_handle(fill)
  if C.cel_comm_handles_are_pointers() then
    local out = ffi.new("void *[1]")
    fill(out)
    return out[0]
  end
  local out = ffi.new("int[1]")
  fill(out)
  return out[0]
end

local lazy = {
  handle = function(self)
    return as_handle(function(out) check(C.cel_comm_handle(self.comm, out)) end)
  end,
  info = function(self)
    local _ = self.handle -- MPI is up
    return as_handle(C.cel_comm_no_info)
  end,
}

function Comm:__index(key)
  local make = lazy[key]
  if make then
    local value = make(self)
    rawset(self, key, value)
    return value
  end
  return Methods[key] or fail("a communicator has no '%s'%s", tostring(key),
    words.advice(key, Methods))
end

function Comm:__tostring()
  return ("communicator: rank %d of %d"):format(self.rank, self.ranks)
end

local made = {}

--- The one communicator of this thread.
---@param pointer userdata
---@return celer.communicator
function M.of(pointer)
  local comm = ffi.cast("cel_comm *", pointer)
  made.comm = made.comm or setmetatable({ comm = comm, rank = tonumber(comm.rank),
    ranks = tonumber(comm.ranks) }, Comm)
  return made.comm
end

return M
