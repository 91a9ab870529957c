--- npy.lua -- the header of NumPy's files: a line of Python before the data.
local M = {}

local MAGIC = "\147NUMPY"
local LONGEST = 2 ^ 20 -- bytes of a header

--- The header of a file of this type and shape.
---@param descr string  the type, see dtype.lua
---@param shape integer[]
---@return string
function M.header(descr, shape)
  local extents = {}
  for d = 1, #shape do extents[d] = ("%.0f"):format(shape[d]) end
  local text = ("{'descr': %s, 'fortran_order': False, 'shape': (%s%s), }"):format(
    descr, table.concat(extents, ", "), #shape == 1 and "," or "")
  local long = #text > 60000
  local before = #MAGIC + 2 + (long and 4 or 2)
  text = text .. (" "):rep(-(before + #text + 1) % 64) .. "\n"
  local n = #text
  local length = string.char(n % 256, math.floor(n / 256) % 256)
  if long then
    length = length .. string.char(math.floor(n / 65536) % 256, math.floor(n / 2 ^ 24))
  end
  return MAGIC .. (long and "\2\0" or "\1\0") .. length .. text
end

-- The value of `key` up to where its brackets close: canonical text, with one
-- space after each comma and none elsewhere.
local function value_of(text, key)
  local at = select(2, text:find("['\"]" .. key .. "['\"]%s*:%s*"))
  if not at then return nil end
  local out, depth, quote = {}, 0, nil
  for c in text:sub(at + 1):gmatch(".") do
    if quote then
      if c == quote then c, quote = "'", nil end
    elseif c == "'" or c == '"' then c, quote = "'", c
    elseif c == "(" or c == "[" or c == "{" then depth = depth + 1
    elseif (c == "," or c == "}") and depth == 0 then return table.concat(out)
    elseif c == ")" or c == "]" or c == "}" then
      depth = depth - 1
      if out[#out] == ", " then out[#out] = "," end
    elseif c == "," then c = ", "
    elseif c:find("%s") then c = "" end
    out[#out + 1] = c
  end
end

-- {3, 4} of "(3, 4)", or nil.
local function shape_of(text)
  local inner, shape = text:match("^%((.*)%)$"), {}
  if not inner then return nil end
  for word in inner:gmatch("[^,%s]+") do
    shape[#shape + 1] = tonumber(word:match("^(%d+)L?$"))
    if not shape[#shape] then return nil end
  end
  return shape
end

-- The Python text of a header, and where the data begins; or nil.
local function text_of(file)
  local ffi = require "ffi"
  local start = ffi.new("uint8_t[12]")
  if file:size() < 12 or not file:read(start, 12, 0)
    or ffi.string(start, 6) ~= MAGIC or start[6] < 1 or start[6] > 3 then
    return nil
  end
  local n, before = start[8] + 256 * start[9], 10
  if start[6] > 1 then
    n, before = n + 65536 * start[10] + 2 ^ 24 * start[11], 12
  end
  if n > LONGEST then return nil end
  local text = ffi.new("char[?]", n + 1)
  if not file:read(text, n, before) then return nil end
  return ffi.string(text, n), before + n
end

--- What a file holds; or nil and why it cannot be read.
---@param file celer.file
---@return {descr: string, shape: integer[], at: integer}? header, string? fault
function M.read(file)
  local text, at = text_of(file)
  local descr = text and value_of(text, "descr")
  local shape = text and value_of(text, "shape")
  shape = shape and shape_of(shape)
  if not descr or not shape then return nil, "it is no NPY file" end
  if value_of(text, "fortran_order") ~= "False" then
    return nil, "it is in Fortran order; save it with numpy.ascontiguousarray"
  elseif #shape > 3 then
    return nil, ("it has %d dimensions; 3 are the most"):format(#shape)
  end
  return { descr = descr, shape = shape, at = at }
end

return M
