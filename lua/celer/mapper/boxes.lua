--- boxes.lua -- a box for each index of a chunk: celer.boxes.
---
--- What it gives is a *family*: a function from an index to boxes, and the indices. While a
--- mapper is traced, the function is called once, with a symbol, and its boxes say that they
--- are one for each index (rule.h). For plain numbers it is called when somebody asks what
--- a chunk comes to, and no more often than they want to know (confirm.lua).
local box = require "celer.box"
local place = require "celer.place"
local symbol = require "celer.symbol"
local words = require "celer.words"

local fail = place.fail

local M = {}

---@class celer.family
---@field dim integer  of the chunk
---@field lo integer  indices from here
---@field hi integer  up to here, and without
---@field f function
---@field symbolic? any[]  what f gives for a symbol
---@field dims integer  of boxes that were seen
local Family = {}
Family.__index = Family
Family.__tostring = function() return "what celer.boxes gives" end

--- Whether celer.boxes gave it.
function M.is_family(value) return getmetatable(value) == Family end

-- What f returned, as a list.
local function list(first, ...)
  local boxes = { first, ... }
  if type(first) == "table" and not box.is_box(first) and select("#", ...) == 0 then
    boxes = first
  end
  for b = 1, math.max(#boxes, 1) do
    if not box.is_box(boxes[b]) then
      fail("the function of celer.boxes must return a celer.box, or several; this one returned "
        .. "%s", words.a(boxes[b]))
    end
  end
  return boxes
end

--- The boxes of one index.
---@return celer.box[]
function Family:at(i) return list(self.f(i)) end

-- Bounds of the chunk in the same dimension are other numbers than the index, and would be
-- those of the whole chunk.
local function check_bounds(boxes, dim)
  for _, one in ipairs(boxes) do
    for d = 0, one.dims - 1 do
      for _, bound in ipairs { one.min[d], one.max[d] } do
        if symbol.depends(bound, "min", dim) or symbol.depends(bound, "max", dim) then
          symbol.refuse(("its boxes for each index depend on the chunk's bounds in dimension %d "
            .. "too"):format(dim))
        end
      end
    end
  end
  return boxes
end

--- A box for each index of the chunk, or several: what the chunk touches is all of them. The
--- function is called once, with a symbol, as a mapper is. Along the dimension `dim`, 0
--- unless it is said, of the chunk; in others a box may depend on the chunk's bounds.
---@param chunk celer.chunk  that the mapper was given
---@param f fun(i: integer): celer.box, ...  from an index to its box, or boxes
---@param dim? integer
---@return any  for the mapper to return
function M.boxes(chunk, f, dim)
  dim = dim or 0
  if not box.is_chunk(chunk) then
    fail("celer.boxes takes the chunk that a range mapper is given, and a function of an index: "
      .. "function(chunk) return celer.boxes(chunk, function(i) return celer.box(...) end) end")
  elseif type(f) ~= "function" then
    fail("celer.boxes takes the chunk, and a function of an index that gives a celer.box, not %s",
      words.a(f))
  elseif type(dim) ~= "number" or dim % 1 ~= 0 or dim < 0 or dim >= chunk.dims then
    fail("celer.boxes: there is no dimension %s in an index space of %s; they count from 0",
      tostring(dim), words.count(chunk.dims, "dimension"))
  end
  local lo, hi = chunk.min[dim], chunk.max[dim]
  local self = setmetatable({ dim = dim, lo = lo, hi = hi, f = f }, Family)
  if symbol.is_symbol(lo) then
    self.symbolic = check_bounds(self:at(symbol.variable("item", dim)), dim)
  end
  return self
end

return M
