--- arithmetic.lua -- operators of a struct in C++ kernels: what vector.cuh asks for.
local fields = require "celer.data.fields"
local place = require "celer.place"

local M = {}

local MOST = 256 -- numbers

local spellings = { i = "int%d_t", u = "uint%d_t" }

local function spelling(ctype)
  if ctype.class == "f" then return ctype.size == 4 and "float" or "double" end
  return spellings[ctype.class]:format(ctype.size * 8)
end

local wider = { i = 1, u = 1, f = 2 }

-- All numbers of a struct: {path, type}.
local function leaves(ctype, path, out, fail)
  if ctype.fields then
    if ctype.union then fail(path, "is a union") end
    for _, field in ipairs(ctype.fields) do
      local inner = field.name and path .. "." .. field.name or path
      leaves(field.type, inner, out, fail)
    end
  elseif ctype.plain then
    for k = 0, ctype.count - 1 do leaves(ctype.of, ("%s[%d]"):format(path, k), out, fail) end
  elseif wider[ctype.class] then
    out[#out + 1] = { path = path, ctype = ctype }
    if #out > MOST then fail(path, ("comes after more than %d numbers"):format(MOST)) end
  else
    fail(path, ctype.class == "b" and "is a bool" or "is no number")
  end
  return out
end

-- The type that can hold all of them.
local function scalar_of(list)
  local widest
  for _, leaf in ipairs(list) do
    local class, size = wider[leaf.ctype.class], leaf.ctype.size
    if not widest or class > widest.class or class == widest.class and size > widest.size then
      widest = { class = class, size = size, text = spelling(leaf.ctype) }
    end
  end
  return widest.text
end

--- The specialisation of celer::arithmetic.
---@param type_ celer.type
---@return string
function M.of(type_)
  local name = type_.name
  local list = leaves(fields.of(type_.ctype), "", {}, function(path, what)
    place.fail("celer.struct %s: it has no arithmetic, as %s %s", name,
      path == "" and "it" or "its field " .. path:sub(2), what)
  end)
  local each, all = {}, {}
  for k, leaf in ipairs(list) do
    each[k] = ("r%s = F::of(a%s, b%s);"):format(leaf.path, leaf.path, leaf.path)
    all[k] = ("r%s = %s(s);"):format(leaf.path, spelling(leaf.ctype))
  end
  return ([[namespace celer {
template <> struct arithmetic<%s> {
  using type = %s;
  using scalar = %s;
  template <class F> static CELER_FN type each(const type &a, const type &b) {
    type r;
    %s
    return r;
  }
  static CELER_FN type all(scalar s) {
    type r;
    %s
    return r;
  }
};
}]]):format(name, name, scalar_of(list), table.concat(each, " "), table.concat(all, " "))
end

return M
