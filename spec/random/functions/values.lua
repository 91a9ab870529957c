--- values.lua -- what the reference evaluator knows of a value before it runs: its kind, and the
--- number itself where the function's text says it.
---
---   W, F, D  numbers (kinds.lua); a W with `k` is a number that the text says, `counted` if it
---            comes from the counter of a loop that is written out
---   bool, nil, mixed
---   host     a function or table of the script; text: a string
---   array, part, struct, sizes  a buffer, u[i] of two dimensions, an element, u.size
---   scalar, set  a buffer of no dimensions that the function sets, and what does so
---   own      a table that the function makes
local kinds = require "kinds"

local M = {}

local kept = {}

-- Equal values are one table.
local function intern(key, make)
  local value = kept[key]
  if not value then
    value = make()
    value.key, kept[key] = key, value
  end
  return value
end

--- A value of a kind.
function M.of(kind) return intern(kind, function() return { kind = kind } end) end

M.mixed, M.none, M.bool = M.of "mixed", M.of "nil", M.of "bool"

--- A number that the text says, made at one place of it.
function M.number(k, place, counted)
  return { kind = "W", k = k, counted = counted, key = ("%s %.17g %s"):format(place, k,
    tostring(counted)) }
end

--- A thing of the script, or of the function: known by what it is.
function M.thing(kind, what, more)
  local value = { kind = kind, what = what, key = ("%s %s"):format(kind, tostring(what)) }
  for name, x in pairs(more or {}) do
    value[name], value.key = x, ("%s %s=%s"):format(value.key, name, tostring(x))
  end
  return value
end

--- What a slot holds that gets one value here and another one there.
function M.join(a, b)
  if a.key == b.key then return a end
  local kind = kinds.join(a.kind, b.kind)
  if kind then return M.of(kind) end
  return a.kind == "bool" and b.kind == "bool" and M.bool or M.mixed
end

--- Without the number that it is.
function M.unknown(value) return value.k and M.of "W" or value end

-- Whether a number is a whole one that LuaJIT may hold as an integer.
local function is_whole(k) return k % 1 == 0 and math.abs(k) < 2 ^ 53 and (k ~= 0 or 1 / k > 0) end

--- A number that the text says and that is whole.
function M.is_count(value) return value.k ~= nil and is_whole(value.k) end

--- What sums, products and remainders of two such numbers are: such a number; or nil.
function M.fold(op, a, b, place)
  if op ~= "add" and op ~= "sub" and op ~= "mul" and op ~= "mod" then return nil end
  if not M.is_count(a) or not M.is_count(b) then return nil end
  local k = kinds.compute.D[op](a.k, b.k)
  return is_whole(k) and M.number(k, place, a.counted or b.counted) or nil
end

return M
