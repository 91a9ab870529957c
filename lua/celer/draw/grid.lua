--- grid.lua -- which numbers of a buffer a picture shows: a field, a plane, a projection.
---
--- Of a buffer a kernel takes them out where they lie, so that only they travel. Along the
--- first dimension, which ranks share, each projects its own part, and rank 0 the rest.
local ffi = require "ffi"
local fields = require "celer.data.fields"
local words = require "celer.words"

local M = {}

---@class celer.draw.chosen
---@field names (string|integer)[]  from an element to its number
---@field field string  the same, in C
---@field dim integer?  the dimension that goes, from 0
---@field first integer?  of it, the first that counts
---@field last integer?  after the last that counts
---@field by string?  sum, mean or max
---@field over integer?  a mean is over so many, if not over last - first

local ways = { sum = true, mean = true, max = true }

-- Completes `out` by the way to a field, or gives why there is none.
local function find_field(type_, field, out)
  local way = type(field) == "string" and field:gsub("%[(%d+)%]", ".%1") or ""
  if ("." .. way):gsub("%.[%w_]+", "") ~= "" then
    return ("field must be a name such as \"v.x\" or \"v[0]\", not %s"):format(
      type(field) == "string" and ("%q"):format(field) or words.a(field))
  end
  local ctype = fields.of(type_.ctype)
  for name in way:gmatch "[%w_]+" do
    local number, names = tonumber(name), {}
    if number and (not ctype.count or number >= ctype.count) then
      return ("has no field %s: there is no element [%s]"):format(field, name)
    end
    local inner = number and ctype.of or ctype.fields and fields.member(ctype, name, names)
    if not inner then
      return ("has no field %s%s"):format(field, next(names)
        and words.advice(name, names, (way:match("^(.*%.)" .. name) or ""))
        or type_.class == "s" and "" or "; it holds numbers")
    end
    ctype, out.names[#out.names + 1] = inner, number or name
    out.field = out.field .. (number and "[" .. name .. "]" or "." .. name)
  end
  if not ctype.class or not ("iuf"):find(ctype.class) then
    return ("has no number in its field %s"):format(field)
  end
end

local function is_whole(x) return type(x) == "number" and x % 1 == 0 end

-- Completes `out` by the dimension that goes, or gives why it cannot.
local function find_dim(what, dims, part, out)
  local given = what == "plane" and out.plane or out.project
  local other = what == "plane" and "at" or "by"
  local example = what == "plane" and "{ dim = 0, at = 12 }" or '{ dim = 0, by = "max" }'
  if type(given) ~= "table" or given.dim == nil or given[other] == nil then
    return ("%s must be a table such as %s, not %s"):format(what, example, words.a(given))
  elseif dims ~= 3 then
    return ("has %s; %s is for 3"):format(words.count(dims, "dimension"), what)
  elseif not is_whole(given.dim) or given.dim < 0 or given.dim > 2 then
    return ("%s: dim must be 0, 1 or 2, not %s"):format(what, tostring(given.dim))
  end
  out.dim = given.dim
  out.first, out.last = part.min[out.dim], part.max[out.dim]
  if what == "project" then
    if not ways[given.by] then
      return ("unknown projection '%s'%s"):format(tostring(given.by),
        words.advice(given.by, ways))
    end
    out.by = given.by
    return
  end
  local at = given.at
  if not is_whole(at) or at < out.first or at >= out.last then
    return ("has no plane %s along dimension %d: there are %d to %d"):format(tostring(at), out.dim,
      out.first, out.last - 1)
  end
  out.first, out.last, out.by = at, at + 1, "sum"
end

--- What options ask for; nil where a picture shows all there is; nil and why they cannot.
---@param type_ celer.type
---@param dims integer
---@param part {min: table, max: table}
---@param options {field: string?, plane: table?, project: table?}
---@return celer.draw.chosen? chosen, string? fault
function M.choose(type_, dims, part, options)
  local field, plane, project = options.field, options.plane, options.project
  if field == nil and plane == nil and project == nil then return nil end
  if plane ~= nil and project ~= nil then return nil, "is drawn by plane or by project" end
  local out = { names = {}, field = "", plane = plane, project = project }
  local fault
  if field ~= nil then
    fault = find_field(type_, field, out)
  elseif not ("iuf"):find(type_.class) then
    fault = "does not hold numbers" .. (type_.class == "s" and "; give a field" or "")
  end
  if not fault and (plane ~= nil or project ~= nil) then
    fault = find_dim(plane ~= nil and "plane" or "project", dims, part, out)
  elseif not fault and dims ~= 2 then
    fault = "has not 2 dimensions" .. (dims == 3 and "; give a plane, or project" or "")
  end
  out.plane, out.project = nil, nil
  if fault then return nil, fault end
  return out
end

-- The dimensions that a picture shows: down, and to the right.
local function shown(dim)
  return dim == 0 and 1 or 0, dim == nil and 1 or dim == 2 and 1 or 2
end
M.shown = shown

-- One number more in a projection; what is none stays.
local function fold(by, all, v)
  if by ~= "max" then return all + v end
  return all ~= all and all or (v > all or v ~= v) and v or all
end

-- A function from coordinates to the number there.
local function reader(data, names)
  if #names == 0 then return function(...) return tonumber(data(...)) end end
  return function(...)
    local value = data(...)
    for _, name in ipairs(names) do value = value[name] end
    return tonumber(value)
  end
end

--- The numbers of a view's picture, row by row; its height and width.
---@param data celer.view
---@param chosen celer.draw.chosen
---@return ffi.cdata* numbers, integer height, integer width
function M.values(data, chosen)
  local down, across = shown(chosen.dim)
  local height, width = data.size[down], data.size[across]
  local out, read, at = ffi.new("double[?]", height * width), reader(data, chosen.names), {}
  for y = 0, height - 1 do
    for x = 0, width - 1 do
      at[down], at[across] = data.min[down] + y, data.min[across] + x
      local all
      for k = chosen.first or 0, (chosen.last or 1) - 1 do
        if chosen.dim then at[chosen.dim] = k end
        local v = read(at[0], at[1], at[2])
        all = all and fold(chosen.by, all, v) or v
      end
      if chosen.by == "mean" then all = all / (chosen.over or chosen.last - chosen.first) end
      out[y * width + x] = all
    end
  end
  return out, height, width
end

return M
