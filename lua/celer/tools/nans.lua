--- nans.lua -- `celer run --check-nan`: the first task that makes a NaN or an infinity.
---
--- Kernels of our own look through what a task reads before it is submitted, and
--- through what it writes afterwards, on whatever devices have it. The script waits for
--- what they find, so all ranks learn it, and all stop at the same task.
local asked = require "celer.mapper.asked"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local fields = require "celer.data.fields"
local groups = require "celer.submit.group"
local kernels = require "celer.kernel.kernel"
local place = require "celer.place"
local reals = require "celer.data.reals"
local snapshot = require "celer.data.snapshot"

local M = {}

-- ---- what looks --------------------------------------------------------------

-- C++ that hands over `at` for each number of an element, whose bytes are at `p + offset`.
local function look(node, offset, depth, out)
  if node.class == "f" then
    out[#out + 1] = ("    celer_look<uint%d_t>(p + %s, at, found);"):format(8 * node.size, offset)
  elseif node.of and reals.has_any(node) then
    local i = "i" .. depth
    out[#out + 1] = ("    for (int %s = 0; %s < %d; ++%s) {"):format(i, i, node.count, i)
    look(node.of, ("%s + %d * %s"):format(offset, node.of.size, i), depth + 1, out)
    out[#out + 1] = "    }"
  end
  for _, field in ipairs(node.fields or {}) do
    look(field.type, ("%s + %d"):format(offset, field.offset), depth, out)
  end
  return out
end

local items = { [0] = "", "it[0]", "it[0], it[1]", "it[0], it[1], it[2]" }
local numbers = { [0] = "0", "it[0]", "it[0] * n1 + it[1]", "(it[0] * n1 + it[1]) * n2 + it[2]" }

local text = [[
  template <class W, class F>
  CELER_FN void celer_look(const char *p, int64_t at, const F &found) {
    const W infinity = sizeof(W) == 8 ? W(0x7ffull << 52) : W(0x7f800000u);
    W bits;
    memcpy(&bits, p, sizeof bits);
    bits &= W(~W(0)) >> 1;
    if (bits > infinity) found(0).combine(at);
    if (bits == infinity) found(1).combine(at);
  }
  CELER_FN bool celer_alike(const char *a, const char *b, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
  kernel void look(item<D> it, ACCESS<T, D> u, int64_t n1, int64_t n2,
                   reducer<int64_t, 1> found GIVEN) {
    const T element = u(ITEM);
    const char *p = (const char *)&element;
    SKIPPED
    const int64_t at = NUMBER;
BODY
  }
]]

local known = {} -- type -> by parameter and dimensions

-- The kernel for buffers like this one. `keeps`: it looks at what is to be kept, of which some
-- may never have been written. `reduces`: it takes an identity, and skips elements that are it,
-- as those are that nothing was handed to.
local function kernel_for(buffer, keeps, reduces)
  local type_, dims = buffer.type, buffer.dims
  local mine, key = known[type_] or {}, (keeps and "w" or reduces and "i" or "r") .. dims
  known[type_] = mine
  if not mine[key] then
    local with = { T = type_.name, D = tostring(dims), ACCESS = keeps and "inout" or "in",
      ITEM = items[dims], NUMBER = numbers[dims],
      GIVEN = reduces and (", %s identity"):format(type_.name) or "",
      SKIPPED = reduces and "if (celer_alike(p, (const char *)&identity, sizeof element)) return;"
        or "",
      BODY = table.concat(look(fields.of(type_.ctype), "0", 0, {}), "\n") }
    mine[key] = kernels.new((text:gsub("%f[%w]%u+%f[^%w]", with)))
  end
  return mine[key]
end

local found -- the number of the first element that is a NaN, and of the first infinity

-- A future of the two, of a part of a buffer. `operator`: that it was reduced by, if any.
local function look_through(label, buffer, part, keeps, operator)
  found = found or buffers.new("int64_t", { 2 }, { name = "celer.check_nan" })
  local cg, size = groups.new(), buffer.extents
  cg:name(label)
  local mode, given = keeps and "write" or "read", {}
  if operator then given[1] = reals.load(buffer.type, operator.identity, 0) end
  cg:parallel_for(part, kernel_for(buffer, keeps, operator), cg[mode](cg, buffer),
    size[2] or 1, size[3] or 1, cg:reduce(found, "min"), unpack(given))
  groups.close(cg)
  local future = snapshot.request { snapshot.capture(found) }
  future.unadvised = true
  return future
end

-- ---- tasks -------------------------------------------------------------------

local told = {} -- "file:line", of what follows

-- Tells once at each line that a buffer is not looked through, where a kernel would have to
-- for each box of celer.boxes. There is no advice with --check-nan.
local function tell_of_many(access, message)
  local file, line = place.user()
  local where = ("%s:%d"):format(file or "?", line or 0)
  if told[where] or not tostring(message):find("celer.boxes gives", 1, true) then return end
  told[where] = true
  if core.rank() > 0 then return end
  io.stderr:write(("celer: warning: %s: --check-nan does not look through buffer '%s': its %s "
    .. "access here has too many boxes\n"):format(where, access.buffer.name, access.mode))
end

-- The parts of its buffer that an access touches; none where that is not to be known, which
-- the submission then says.
local function parts_of(access, space)
  local whole = buffers.whole(access.buffer)
  if access.mode == "reduce" then return { whole } end
  local ok, boxes = pcall(asked.evaluate, access.map, space.box, space.box, whole)
  if not ok then tell_of_many(access, boxes) end
  return ok and boxes or {}
end

-- Of what is read by an image that is all of the buffer, not the copy.
local function look_at(self, access, keeps)
  local buffer = rawget(access, "by_image") or access.buffer
  for _, part in ipairs(parts_of(access, self.space)) do
    self.seen[#self.seen + 1] = { buffer = buffer,
      future = look_through(self.label, buffer, part, keeps, rawget(access, "operator")) }
  end
end

-- The least number at `i` of what was found in `seen`, and in which buffer; nil: none.
local function first(seen, i)
  for _, one in ipairs(seen) do
    local at = tonumber(one.future:get()(i))
    if at < 2 ^ 62 then return at, one.buffer end
  end
end

local function coordinates(buffer, at)
  local out = {}
  for d = buffer.dims, 1, -1 do
    out[d] = at % buffer.size[d - 1]
    at = math.floor(at / buffer.size[d - 1])
  end
  return out
end

local kinds = { [0] = { "NaN", function(x) return x ~= x end },
  { "infinity", function(x) return math.abs(x) == math.huge end } }

-- The first number of a value that is of a kind, and the fields that lead to it.
local function number_in(node, value, kind, path)
  if node.class then
    if node.class == "f" and kinds[kind][2](value) then return value, path end
    return nil
  end
  for i = 0, (node.count or 0) - 1 do
    local x, where = number_in(node.of, value[i], kind, ("%s[%d]"):format(path, i))
    if x then return x, where end
  end
  for _, field in ipairs(node.fields or {}) do
    local inner = field.name and value[field.name] or value
    local x, where = number_in(field.type, inner, kind,
      field.name and path .. "." .. field.name or path)
    if x then return x, where end
  end
end

-- What is wrong with an element as it is now: the number, and where in the element it is.
local function number_at(buffer, at, kind)
  local hi = {}
  for d, x in ipairs(at) do hi[d] = x + 1 end
  local future = snapshot.request { snapshot.capture(buffer, box.new(at, hi)) }
  future.unadvised = true
  local x, path = number_in(fields.of(buffer.type.ctype), future:get()(unpack(at)), kind, "")
  return x, path == "" and "" or path:sub(2) .. " of "
end

local function stop(self, kind, number, buffer)
  local at = coordinates(buffer, number)
  local x, path = number_at(buffer, at, kind)
  place.fail("%s: it has written %s to %s%sbuffer '%s', and what it read had no %s: look in it "
    .. "for a division by zero, a root or logarithm of a negative number, or an overflow, and at "
    .. "the numbers that it is given (--check-nan)", self.label == self.noun
      and "this " .. self.noun or ("task '%s'"):format(self.label), tostring(x), path,
    #at > 0 and ("element (%s) of "):format(table.concat(at, ", ")) or "", buffer.name,
    kinds[kind][1])
end

---@class celer.nan_check

--- Looks through what a task that is about to be submitted reads, or keeps.
---@param noun string  what it is called that has no name
---@param label string  its name, or that
---@param accesses celer.access[]
---@param space celer.space
---@return celer.nan_check?  for M.after
function M.before(noun, label, accesses, space)
  if core.dry() then return nil end
  local self = { noun = noun, label = label, accesses = accesses, space = space, seen = {} }
  for _, access in ipairs(accesses) do
    local reads = access.mode ~= "discard_write"
      and (access.mode ~= "reduce" or rawget(access, "onto"))
    if reads and reals.test(access.buffer.type) then
      look_at(self, access, access.mode == "write")
    end
  end
  return self
end

--- Looks through what it writes, now that it is submitted, and waits; raises where there is
--- a NaN or an infinity that it did not read.
---@param self celer.nan_check
function M.after(self)
  local before = self.seen
  self.seen = {}
  for _, access in ipairs(self.accesses) do
    if access.mode ~= "read" and reals.test(access.buffer.type) then look_at(self, access) end
  end
  for kind = 0, 1 do
    local at, buffer = first(self.seen, kind)
    if at and not first(before, kind) then stop(self, kind, at, buffer) end
  end
end

return M
