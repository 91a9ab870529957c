--- linear.lua -- bounds of indices, as text of a range mapper that is compared by proof.
---
--- A bound is a constant and multiples of *atoms*: chunk.min[d], chunk.max[d], captured
--- numbers, and celer.min, max and floor of other bounds, each known by its text.
local M = {}

---@class celer.bound
---@field c number
---@field of table<string, number>  factors of atoms

---@class celer.bounds_context
---@field atoms table<string, {choice: "min"|"max", [1]: celer.bound, [2]: celer.bound}>
---@field least table<string, number>  of captured numbers that are positive, or lie near 0
---@field most table<string, number>  of those that lie near 0
---@field reaches {name: string, dim: integer}[]  those that are at least chunk.max[dim]
---@field from_zero boolean  whether no coordinate is negative

---@return celer.bounds_context
function M.context(from_zero)
  return { atoms = {}, least = {}, most = {}, reaches = {}, from_zero = from_zero }
end

function M.constant(c) return { c = c, of = {} } end

function M.atom(name, c) return { c = c or 0, of = { [name] = 1 } } end

--- a + factor * b.
---@return celer.bound
function M.add(a, b, factor)
  local of = {}
  for name, x in pairs(a.of) do of[name] = x end
  for name, x in pairs(b.of) do
    local sum = (of[name] or 0) + factor * x
    of[name] = sum ~= 0 and sum or nil
  end
  return { c = a.c + factor * b.c, of = of }
end
local add = M.add

function M.shift(a, c) return { c = a.c + c, of = a.of } end

local function sorted(of)
  local names = {}
  for name in pairs(of) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- A bound as Lua.
---@param bound celer.bound
---@return string
function M.text(bound)
  local out = {}
  for _, name in ipairs(sorted(bound.of)) do
    local x = bound.of[name]
    local sign = x < 0 and (#out == 0 and "-" or " - ") or #out == 0 and "" or " + "
    out[#out + 1] = sign .. (math.abs(x) == 1 and "" or ("%.17g * "):format(math.abs(x))) .. name
  end
  if #out == 0 then return ("%.17g"):format(bound.c) end
  if bound.c ~= 0 then
    out[#out + 1] = (bound.c < 0 and " - " or " + ") .. ("%.17g"):format(math.abs(bound.c))
  end
  return table.concat(out)
end

-- The one choice that a bound is a multiple of: what it then chooses from, and which of them.
local function choice_of(context, bound)
  local name, x = next(bound.of)
  local choice = name and not next(bound.of, name) and context.atoms[name]
  if not choice then return nil end
  local out = { choice = (choice.choice == "min") == (x > 0) and "min" or "max" }
  for k = 1, 2 do out[k] = add(M.constant(bound.c), choice[k], x) end
  return out
end

-- Which bound of the chunk an atom is, and of which dimension.
local function of_chunk(name)
  local what, dim = name:match "^chunk%.(%l+)%[(%d)%]$"
  return what, tonumber(dim)
end

-- Takes chunk.min or max with a negative factor together with a number that is above it.
local function cancel(context, of, name)
  local what, dim = of_chunk(name)
  local x = of[name]
  if not what or x >= 0 then return 0 end
  local apart = what == "min" and -x or 0 -- chunk.min is at most chunk.max - 1
  local above = ("chunk.max[%d]"):format(dim)
  if what == "min" and (of[above] or 0) >= -x then
    of[above], of[name] = of[above] + x, 0
    return apart
  end
  for _, reach in ipairs(context.reaches) do
    if reach.dim == dim and (of[reach.name] or 0) >= -x then
      of[reach.name], of[name] = of[reach.name] + x, 0
      return apart
    end
  end
  return 0
end

-- Whether c and the atoms come to at least 0.
local function is_positive(context, form)
  local of, c = {}, form.c
  for name, x in pairs(form.of) do of[name] = x end
  for _, name in ipairs(sorted(form.of)) do c = c + cancel(context, of, name) end
  for name, x in pairs(of) do
    local what = of_chunk(name)
    if x ~= 0 then
      local least = what == "min" and 0 or what == "max" and 1 or nil
      if not context.from_zero then least = nil end
      least = context.least[name] or least
      if x < 0 then least = context.most[name] end
      if not least then return false end
      c = c + x * least
    end
  end
  return c >= 0
end

local DEEPEST = 6

-- Whether `test` holds for all, or for one, of what a bound chooses from.
local function try(choice, all, test)
  for k = 1, 2 do
    local ok = test(choice[k])
    if ok ~= all then return ok end
  end
  return all
end

--- Whether a <= b is proved.
---@param context celer.bounds_context
---@param a celer.bound
---@param b celer.bound
---@return boolean
function M.at_most(context, a, b, depth)
  depth = depth or 0
  if depth > DEEPEST then return false end
  if is_positive(context, add(b, a, -1)) then return true end
  local choice = choice_of(context, a)
  if choice and try(choice, choice.choice == "max", function(one)
    return M.at_most(context, one, b, depth + 1)
  end) then return true end
  choice = choice_of(context, b)
  return choice ~= nil and try(choice, choice.choice == "min", function(one)
    return M.at_most(context, a, one, depth + 1)
  end)
end

--- The smaller or the larger of two bounds.
---@param what "min"|"max"
---@return celer.bound
function M.choose(context, what, a, b)
  if M.at_most(context, a, b) then return what == "min" and a or b end
  if M.at_most(context, b, a) then return what == "min" and b or a end
  local x, y = M.text(a), M.text(b)
  if x > y then x, y, a, b = y, x, b, a end
  local name = ("celer.%s(%s, %s)"):format(what, x, y)
  context.atoms[name] = { a, b, choice = what }
  return M.atom(name)
end

--- floor(a / b), b positive.
---@return celer.bound
function M.divide(a, b)
  if not next(a.of) and not next(b.of) then return M.constant(math.floor(a.c / b.c)) end
  return M.atom(("celer.floor((%s) / (%s))"):format(M.text(a), M.text(b)))
end

--- a * b.
---@return celer.bound
function M.multiply(a, b) return M.atom(("(%s) * (%s)"):format(M.text(a), M.text(b))) end

return M
