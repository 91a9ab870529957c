--- communicator.lua -- part.comm of a collective host task: how its calls on all
--- ranks talk to each other. All of them make the same calls in the same order, but for
--- send and receive, which are of two of them.
---
--- Values are numbers, strings, booleans and tables of these; memory is a pointer
--- or an array of FFI, followed by the number of its elements.
local buffer = require "string.buffer"
local ffi = require "ffi"
local core = require "celer.core"
local decode = require "celer.host.decode"
local each = require("celer.tables").each
local place = require "celer.place"
local reals = require "celer.data.reals"
local reductions = require "celer.kernel.reduce"
local element_types = require "celer.data.types"
local words = require "celer.words"

ffi.cdef(core.embedded "engine/comm/file.h")

local C, fail = ffi.C, place.fail
local ALL, UPTO, BEFORE = C.CEL_COMM_ALL, C.CEL_COMM_UPTO, C.CEL_COMM_BEFORE
local TAGS = C.CEL_COMM_TAGS

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

local function is_count(n) return type(n) == "number" and n >= 0 and n % 1 == 0 end

local function shown(value)
  return type(value) == "number" and tostring(value) or words.a(value)
end

-- The bytes of one element.
local function size_of(call, p)
  local good, size = pcall(function()
    return tonumber(ffi.cast("char *", p + 1) - ffi.cast("char *", p))
  end)
  if good then return size end
  fail("%s: %s is no pointer to elements", call, tostring(ffi.typeof(p)))
end

-- Address and bytes of `n` elements.
local function memory(call, p, n)
  if not is_count(n) then
    fail("%s: memory is followed by the number of its elements, not by %s", call, shown(n))
  end
  local size = size_of(call, p)
  check_room(call, p, n * size, "%.0f elements", n)
  return ffi.cast("void *", p), n * size
end

local function check_rank(self, call, rank)
  if not is_count(rank) or rank >= self.ranks then
    fail("%s: there is no rank %s; there are 0 to %d", call, shown(rank), self.ranks - 1)
  end
  return rank
end

local function root_of(self, call, root)
  return root == nil and 0 or check_rank(self, call, root)
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

-- What rank 0 gets of no ranks at all.
local identities = { SUM = 0, PROD = 1, AND = 1, OR = 0 }

local function nothing(name, code)
  if identities[name] then return identities[name] end
  return reductions.identity(name:lower(), element_types.find(code:lower()
    .. (code:find "INT" and "_t" or "")))
end

-- What is true becomes 1, also where no other rank's is combined with it.
local function make_logical(p, n)
  for i = 0, n - 1 do p[i] = p[i] ~= 0 and 1 or 0 end
end

local function reduce_memory(self, call, root, p, n, op)
  local at = memory(call, p, n)
  local code = types[tostring(ffi.typeof(p + 0))]
  if not code then
    fail("%s: %s is no pointer to numbers", call, tostring(ffi.typeof(p)))
  end
  local operation = op_of(call, op, code)
  if logical[ops[op]] and (root < 0 or self.ranks == 1) then make_logical(p, n) end
  check(C.cel_comm_reduce(self.comm, operation, C["CEL_COMM_" .. code], nil, at, n, root))
  if root ~= BEFORE or self.rank > 0 then return end
  local value = nothing(ops[op], code)
  for i = 0, n - 1 do p[i] = value end
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
  if logical[ops[op]] then make_logical(mine, 1) end
  local out = ffi.new(ffi.typeof(mine))
  if root == BEFORE then out[0] = nothing(ops[op], code) end
  check(C.cel_comm_reduce(self.comm, operation, C["CEL_COMM_" .. code], mine, out, 1,
    root))
  if root >= 0 and root ~= self.rank then return nil end
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

local scan_options = { exclusive = true }

-- Which ranks' numbers each gets.
local function scanned(call, options)
  options = words.check_options(call, options or {}, scan_options, "{ exclusive = true }")
  return options.exclusive and BEFORE or UPTO
end

--- The numbers of all ranks up to this one combined, on each rank; exclusive: of those
--- before it, and on rank 0 what changes nothing, as 0 for a sum. Of memory each element
--- by itself, in place: comm:scan(pointer, elements, op, options).
---@param value any
---@param ... any
---@return any
function Methods:scan(value, ...)
  local call = "comm:scan"
  place.method(self, Comm, call)
  if not is_memory(value) then
    local op, options = ...
    return reduce_value(self, call, scanned(call, options), value, op)
  end
  local n, op, options = ...
  reduce_memory(self, call, scanned(call, options), value, n, op)
end

-- ---- from each to each ------------------------------------------------------

-- Of each rank, which sends `counts[k]` elements of `size` bytes to rank k: how many it
-- has for this one. They have the same size.
local function counts_for_me(self, call, counts, size)
  local n = self.ranks
  local mine, theirs = ffi.new("uint64_t[?]", 2 * n), ffi.new("uint64_t[?]", 2 * n)
  for k = 0, n - 1 do mine[2 * k], mine[2 * k + 1] = counts[k], size end
  check(C.cel_comm_all_to_all(self.comm, mine, 16, theirs))
  local out = {}
  for k = 0, n - 1 do
    out[k] = tonumber(theirs[2 * k])
    if theirs[2 * k + 1] ~= size then
      fail("%s: the elements of rank %d have %.0f bytes, and those of rank %d %.0f", call, k,
        tonumber(theirs[2 * k + 1]), self.rank, size)
    end
  end
  return out
end

-- Parts of `give[k]` elements become those of `get[k]`.
local function exchange(self, mine, give, all, get, size)
  local n = self.ranks
  local bytes, wanted = ffi.new("uint64_t[?]", n), ffi.new("uint64_t[?]", n)
  for k = 0, n - 1 do bytes[k], wanted[k] = give[k] * size, get[k] * size end
  check(C.cel_comm_all_to_allv(self.comm, ffi.cast("const void *", mine), bytes,
    ffi.cast("void *", all), wanted))
end

local function all_to_all(self, call, values)
  local n = self.ranks
  if type(values) ~= "table" or getmetatable(values) then
    fail("%s: a table with a value for each rank, from 0 on, comes first, not %s", call,
      words.a(values))
  end
  for k in each(values) do check_rank(self, call, k) end
  local texts, lengths, at = {}, {}, 0
  for k = 0, n - 1 do
    texts[k + 1] = encode(call, values[k])
    lengths[k] = #texts[k + 1]
  end
  local get = counts_for_me(self, call, lengths, 1)
  local total = 0
  for k = 0, n - 1 do total = total + get[k] end
  local all = ffi.new("char[?]", total)
  exchange(self, table.concat(texts), lengths, all, get, 1)
  local out = {}
  for k = 0, n - 1 do
    out[k] = decode(ffi.string(all + at, get[k]))
    at = at + get[k]
  end
  return out
end

local function check_apart(call, p, bytes, all)
  local from, to = ffi.cast("const char *", p), ffi.cast("const char *", all)
  if bytes > 0 and from < to + bytes and to < from + bytes then
    fail("%s: what is sent and what is received lie in the same memory", call)
  end
end

--- Each rank's value for each other: values[k] goes to rank k, and of the result [k] has
--- come from rank k. Of memory comm:all_to_all(pointer, elements, all): so many elements
--- for each rank, one rank's behind the other's, into `all`, which has the same room.
---@param values any
---@param ... any
---@return table
function Methods:all_to_all(values, ...)
  local call = "comm:all_to_all"
  place.method(self, Comm, call)
  if not is_memory(values) then return all_to_all(self, call, values) end
  local n, all = ...
  local ranks, give = self.ranks, {}
  local _, bytes = memory(call, values, is_count(n) and n * ranks or n)
  if not is_memory(all) then
    fail("%s: memory for %d times %d elements comes third, not %s", call, ranks, n, words.a(all))
  end
  check_room(call, all, bytes, "%d times %.0f elements", ranks, n)
  check_apart(call, values, bytes, all)
  for k = 0, ranks - 1 do give[k] = n end
  local size = size_of(call, values)
  local get = counts_for_me(self, call, give, size)
  for k = 0, ranks - 1 do
    if get[k] ~= n then
      fail("%s: rank %d has %.0f elements for each rank, and rank %d %.0f", call, k, get[k],
        self.rank, n)
    end
  end
  exchange(self, values, give, all, get, size)
end

-- `n` new elements, as a pointer of the type of `p` that keeps them.
local function room_for(p, n, size)
  local block = ffi.new("char[?]", math.max(n * size, 1))
  return ffi.gc(ffi.cast(ffi.typeof(p + 0), block), function() block = nil end)
end

--- Parts of memory that have any lengths, also none: counts[k] elements go to rank k, one
--- rank's behind the other's. Gives new memory with what all ranks have sent to this one,
--- in the order of ranks, and a table from 0 on of how many elements each has sent.
---@param p ffi.cdata*
---@param counts table|ffi.cdata*  from 0 on
---@return ffi.cdata* all, table<integer, integer> counts
function Methods:all_to_allv(p, counts)
  local call = "comm:all_to_allv"
  place.method(self, Comm, call)
  if not is_memory(p) then
    fail("%s: memory comes first, not %s; comm:all_to_all(values) takes values of any length",
      call, words.a(p))
  elseif type(counts) ~= "table" and not is_memory(counts) then
    fail("%s: a table with a number of elements for each rank, from 0 on, comes second, not %s",
      call, shown(counts))
  end
  local give, sum = {}, 0
  if type(counts) == "table" then
    for k in each(counts) do check_rank(self, call, k) end
  else
    memory(call, counts, self.ranks)
  end
  for k = 0, self.ranks - 1 do
    give[k] = tonumber(counts[k])
    if not is_count(give[k]) then
      fail("%s: the number of elements for rank %d is a whole number of at least 0, not %s", call,
        k, shown(counts[k]))
    end
    sum = sum + give[k]
  end
  memory(call, p, sum)
  local size, total = size_of(call, p), 0
  local get = counts_for_me(self, call, give, size)
  for k = 0, self.ranks - 1 do total = total + get[k] end
  local all = room_for(p, total, size)
  exchange(self, p, give, all, get, size)
  return all, get
end

-- ---- from one rank to one rank ----------------------------------------------

-- Of a letter: a value, numbers by their type, or other elements.
local VALUE, OTHER = 0, 1
local kinds, kind_names = {}, {}
for _, code in each(types) do
  local kind = 2 + tonumber(ffi.cast("int", C["CEL_COMM_" .. code]))
  kinds[code] = kind
  kind_names[kind] = code:lower() .. (code:find "INT" and "_t" or "")
end

local function kind_of(p) return kinds[types[tostring(ffi.typeof(p + 0))]] or OTHER end

local function tag_of(call, tag)
  if tag == nil then return 0 end
  if not is_count(tag) or tag >= TAGS then
    fail("%s: the tag is a whole number from 0 to %d, not %s", call, TAGS - 1, shown(tag))
  end
  return tag
end

--- Sends rank `to` a value, or memory: comm:send(pointer, elements, to, tag). It copies
--- that and never waits; the task ends when `to` has received all in the same task.
--- Values with one tag arrive in their order. The tag is 0 where it is left out.
---@param value any
---@param ... any
function Methods:send(value, ...)
  local call = "comm:send"
  place.method(self, Comm, call)
  local data, head, to, tag
  if is_memory(value) then
    local n
    n, to, tag = ...
    memory(call, value, n)
    data = ffi.cast("const void *", value)
    head = ffi.new("cel_comm_head", kind_of(value), size_of(call, value), n)
  else
    to, tag = ...
    data = encode(call, value)
    head = ffi.new("cel_comm_head", VALUE, 1, #data)
  end
  check_rank(self, call, to)
  check(C.cel_comm_send(self.comm, to, tag_of(call, tag), head, data))
end

-- What comes from a rank, in words.
local function coming(head)
  local kind, n = tonumber(head.kind), tonumber(head.count)
  if kind == VALUE then return "a value" end
  if kind == OTHER then
    return ("%s of %.0f bytes"):format(words.count(n, "element"), tonumber(head.size))
  end
  return ("%s of type %s"):format(words.count(n, "element"), kind_names[kind])
end

local function receive_value(self, call, from, tag)
  local head = ffi.new "cel_comm_head"
  check_rank(self, call, from)
  check(C.cel_comm_await(self.comm, from, tag, head))
  if head.kind ~= VALUE then
    fail("%s: rank %d sends %s with tag %d, not a value: comm:receive(pointer, elements, %d, %d) "
      .. "takes them", call, from, coming(head), tag, from, tag)
  end
  local n = tonumber(head.count)
  local bytes = ffi.new("char[?]", n)
  check(C.cel_comm_take(self.comm, from, tag, bytes))
  return decode(ffi.string(bytes, n))
end

local function receive_memory(self, call, p, n, from, tag)
  local at = memory(call, p, n)
  local size, head = size_of(call, p), ffi.new "cel_comm_head"
  check_rank(self, call, from)
  check(C.cel_comm_await(self.comm, from, tag, head))
  if head.kind == VALUE then
    fail("%s: rank %d sends a value with tag %d, not memory: comm:receive(%d, %d) takes it", call,
      from, tag, from, tag)
  elseif head.kind ~= kind_of(p) or head.size ~= size then
    local mine = ffi.new("cel_comm_head", kind_of(p), size, n)
    fail("%s: rank %d sends %s with tag %d, and here is room for %s", call, from, coming(head),
      tag, coming(mine))
  elseif head.count > n then
    fail("%s: rank %d sends %s with tag %d, and here is room for %.0f", call, from,
      coming(head), tag, n)
  end
  check(C.cel_comm_take(self.comm, from, tag, at))
  return tonumber(head.count)
end

--- The value that rank `from` sends with this tag, for which it waits. Or its memory, of at
--- most so many elements: comm:receive(pointer, elements, from, tag), which gives how many
--- came. What does not fit is refused, and a later call receives it.
---@param from integer|ffi.cdata*
---@param ... any
---@return any
function Methods:receive(from, ...)
  local call = "comm:receive"
  place.method(self, Comm, call)
  if not is_memory(from) then return receive_value(self, call, from, tag_of(call, (...))) end
  local n, whose, tag = ...
  return receive_memory(self, call, from, n, whose, tag_of(call, tag))
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
