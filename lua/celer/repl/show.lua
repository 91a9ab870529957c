--- show.lua -- values as the session prints them.
local ffi = require "ffi"
local docs = require "celer.repl.docs"
local reals = require "celer.data.reals"
local tables = require "celer.tables"

local M = {}

local DEEP, MANY, WIDTH = 3, 40, 78 -- of tables: levels, entries, columns

-- A module of celer's that something has loaded; else there is no value of it.
local function loaded(name) return package.loaded["celer." .. name] end

local function is(name, test, value)
  local module = loaded(name)
  return module and module[test](value)
end

-- ---- tables -----------------------------------------------------------------

local text_of

local function key_text(key)
  if type(key) == "string" then
    return key:find "^[%a_][%w_]*$" and key or ("[%q]"):format(key)
  end
  return "[" .. text_of(key, DEEP, {}) .. "]"
end

-- What tells entries apart stands before them; those of a list need none.
local function entries_of(t, depth, above)
  local out, n = {}, 0
  local function add(text)
    n = n + 1
    if n <= MANY then out[n] = text end
  end
  local listed = 0
  for i, value in ipairs(t) do
    listed = i
    add(text_of(value, depth + 1, above))
  end
  local rest = {}
  for key in tables.each(t) do
    local counted = type(key) == "number" and key >= 1 and key <= listed and key % 1 == 0
    if not counted then rest[#rest + 1] = key end
  end
  table.sort(rest, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) .. tostring(a) < type(b) .. tostring(b)
  end)
  for _, key in ipairs(rest) do
    add(key_text(key) .. " = " .. text_of(t[key], depth + 1, above))
  end
  if n > MANY then out[MANY + 1] = ("... %d more"):format(n - MANY) end
  return out
end

local function table_text(t, depth, above)
  if above[t] then return "{... itself}" end
  if next(t) == nil then return "{}" end
  if depth >= DEEP then return "{...}" end
  above[t] = true
  local entries = entries_of(t, depth, above)
  above[t] = nil
  local line = "{" .. table.concat(entries, ", ") .. "}"
  if #line + 2 * depth <= WIDTH and not line:find "\n" then return line end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. table.concat(entries, ",\n" .. indent) .. "\n"
    .. ("  "):rep(depth) .. "}"
end

-- ---- other values -----------------------------------------------------------

local function cdata_text(value)
  for _, type_ in ipairs(is("data.types", "all_structs") or {}) do
    if ffi.istype(type_.ctype, value) then
      local one = ffi.new(ffi.typeof("$[1]", type_.ctype), value)
      return require("celer.repl.contents").struct(type_, reals.load(type_, one, 0))
    end
  end
  return tostring(value)
end

-- What celer's own functions are called with, and the first sentence on them.
local function function_text(f)
  local doc = docs.of_function(f)
  if not doc then return tostring(f) end
  local prose = table.concat(doc.text, " ")
  return ("function(%s)%s"):format(table.concat(doc.parameters, ", "),
    prose == "" and "" or "  " .. (prose:match "^.-%.%f[%s%z]" or prose))
end

function text_of(value, depth, above)
  local kind = type(value)
  if kind == "string" then return depth == 0 and value or ("%q"):format(value) end
  if kind == "cdata" then return cdata_text(value) end
  if kind == "function" then return depth == 0 and function_text(value) or kind end
  if kind ~= "table" then return tostring(value) end
  local meta = getmetatable(value)
  if type(meta) ~= "table" then return table_text(value, depth, above) end
  if meta.__tostring then return tostring(value) end
  local noun = rawget(meta, "__noun")
  return (noun and noun .. " " or "") .. table_text(value, depth, above)
end

-- ---- celer's ----------------------------------------------------------------

local function kernel_lines(kernel)
  local info = kernel:info()
  if info.backend == "cpu" then return { tostring(kernel), " for the processor" } end
  return { tostring(kernel), (" for %s: %d registers, %d bytes of shared memory; blocks of at "
    .. "most %d threads"):format(info.architecture, info.registers, info.shared_bytes,
      info.threads_per_block) }
end

local function kernels_lines(all)
  local out = {}
  for _, kernel in tables.sorted_pairs(all) do out[#out + 1] = tostring(kernel) end
  return out
end

local function queue_lines(q)
  local out = { tostring(q) }
  if next(q.hints) then out[2] = " hints " .. text_of(q.hints, 1, {}) end
  return out
end

local function with_contents(value, lines)
  return { tostring(value), unpack(lines) }
end

-- The lines of a value that has some of its own; nil for the others.
local function lines_of(value)
  if value == package.loaded.celer then
    return { (require("celer.repl.about").line()) }
  elseif is("data.buffer", "is_buffer", value) then
    return with_contents(value, require("celer.repl.contents").of_buffer(value))
  elseif is("data.view", "is_view", value) then
    return with_contents(value, require("celer.repl.contents").lines(value))
  elseif is("kernel.kernel", "is_kernel", value) then
    return kernel_lines(value)
  elseif is("kernel.kernel", "is_collection", value) then
    return kernels_lines(value)
  elseif is("submit.queue", "is_queue", value) then
    return queue_lines(value)
  end
end

--- Prints its arguments: those with lines of their own by themselves, what is
--- between them on a line.
function M.values(...)
  local line = {}
  local function flush()
    if #line > 0 then print(table.concat(line, "\t")) end
    line = {}
  end
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    local lines = lines_of(value)
    if lines then
      flush()
      print(table.concat(lines, "\n"))
    else
      line[#line + 1] = text_of(value, 0, {})
    end
  end
  flush()
end

return M
