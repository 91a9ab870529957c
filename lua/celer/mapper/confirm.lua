--- confirm.lua -- whether a range mapper and the program that was made of it give
--- the same boxes.
local asked = require "celer.mapper.asked"
local box = require "celer.box"
local families = require "celer.mapper.boxes"
local symbol = require "celer.symbol"

jit.off(true, true) -- see trace.lua

local M = {}

local VARIABLE = symbol.variables

local function environment(chunk, shape, range, params)
  return {
    [VARIABLE.min] = chunk.min, [VARIABLE.max] = chunk.max,
    [VARIABLE.global_min] = range.min, [VARIABLE.global_max] = range.max,
    [VARIABLE.buffer] = shape.size, [VARIABLE.param] = params, [VARIABLE.item] = {},
  }
end

-- What gives the bounds of box b: lower and upper of each dimension.
local function program_of(desc, b)
  desc.programs = desc.programs or {}
  local program = desc.programs[b]
  if not program then
    local n = desc.buffer_dims
    program = symbol.compile(desc.code, desc.spans, (b - 1) * n * 4 + 1, 2 * n)
    desc.programs[b] = program
  end
  return program
end

-- Dimension d of a box; what it has may be no number.
local function spans_alike(one, d, lo, hi)
  local a, b = one.min[d], one.max[d]
  return type(a) == "number" and type(b) == "number" and a == lo and b == hi
end

-- A box without points is the same as any other.
local function is_void(n, a, b, c, d, e, f)
  return n > 0 and a >= b or n > 1 and c >= d or n > 2 and e >= f
end

local function box_agrees(desc, b, one, env)
  local n, l0, h0, l1, h1, l2, h2 = desc.buffer_dims, program_of(desc, b)(env)
  return (rawget(one, "clamp") or false) == desc.clamp[b]
    and (n < 1 or spans_alike(one, 0, l0, h0)) and (n < 2 or spans_alike(one, 1, l1, h1))
    and (n < 3 or spans_alike(one, 2, l2, h2))
    or is_void(n, l0, h0, l1, h1, l2, h2) and asked.is_empty(one)
end

-- Which of the indices from lo to hi - 1 are compared: both ends, and some between.
local function some_of(lo, hi)
  if hi - lo <= 8 then
    local all = {}
    for i = lo, hi - 1 do all[#all + 1] = i end
    return all
  end
  local size = hi - lo
  return { lo, lo + 1, lo + math.floor(size / 7), lo + math.floor(size / 3),
    lo + math.floor(size / 2), lo + math.floor(size * 0.8), hi - 2, hi - 1 }
end

-- Whether what celer.boxes gives for some indices are the boxes of the program behind b;
-- how many of them.
local function family_agrees(desc, b, family, env)
  local n
  for _, i in ipairs(some_of(family.lo, family.hi)) do
    env[VARIABLE.item][family.dim] = i
    local boxes = family:at(i)
    if n and #boxes ~= n or b + #boxes > desc.boxes then return false end
    n = #boxes
    for k = 1, n do
      if desc.each[b + k] ~= family.dim + 1 or not box_agrees(desc, b + k, boxes[k], env) then
        return false
      end
    end
  end
  return n
end

-- The same of all parts that the mapper returns.
local function parts_agree(desc, f, chunk, shape, env)
  local b = 0 -- boxes of the program that were compared
  for _, part in ipairs(asked.ask(f, chunk, shape, desc.buffer_dims)) do
    local more = families.is_family(part) and family_agrees(desc, b, part, env)
      or desc.each[b + 1] == 0 and box_agrees(desc, b + 1, part, env) and 1
    if not more then return false end
    b = b + more
  end
  return b == desc.boxes
end

-- Whether mapper and program give the same boxes for a chunk. Most mappers return one.
local function agrees_for(desc, f, chunk, shape, env)
  local ok, first, second = pcall(f, chunk, shape)
  if not ok then return false end
  if desc.boxes == 1 and desc.each[1] == 0 and second == nil and box.is_box(first) then
    local found, same = pcall(box_agrees, desc, 1, first, env)
    return found and same and first.dims == desc.buffer_dims
  end
  local valid, same = pcall(parts_agree, desc, f, chunk, shape, env)
  return valid and same
end

--- Whether they do for [lo, hi). params: from 0.
function M.agrees(desc, f, range, shape, lo, hi, params)
  local chunk = asked.chunk_of(range, lo, hi)
  return agrees_for(desc, f, chunk, shape, environment(chunk, shape, range, params))
end

--- The first item of the range as a chunk.
function M.first_corner(range)
  local lo, hi = {}, {}
  for d = 1, range.dims do
    lo[d], hi[d] = range.min[d - 1], range.min[d - 1] + 1
  end
  return lo, hi
end

--- What tells whether a known rule holds for new numbers: the first item of the
--- range as a chunk.
---@param desc celer.rule_desc
---@param range celer.box
---@param extent celer.box
---@return fun(f: function, params: integer[]): boolean
function M.spot_check(desc, range, extent)
  if asked.is_empty(range) then return function() return true end end
  local lo, hi = M.first_corner(range)
  local chunk, shape, from_zero = asked.chunk_of(range, lo, hi), asked.shape_of(extent), {}
  local env = environment(chunk, shape, range, from_zero)
  return function(f, params)
    for k = 1, #params do from_zero[k - 1] = params[k] end
    return agrees_for(desc, f, chunk, shape, env)
  end
end

-- Chunks that tell mappers apart: all of the range, its corners, its halves, and
-- some between.
local function samples(range)
  local min, max = box.bounds(range)
  local out = { { min, max } }
  local function add(pick)
    local lo, hi = {}, {}
    for d = 1, range.dims do lo[d], hi[d] = pick(min[d], max[d], d) end
    out[#out + 1] = { lo, hi }
  end
  add(function(a) return a, a + 1 end)
  add(function(_, b) return b - 1, b end)
  for turn = 0, 2 ^ range.dims - 1 do
    add(function(a, b, d)
      local half = a + math.ceil((b - a) / 2)
      if math.floor(turn / 2 ^ (d - 1)) % 2 == 0 then return a, half end
      return math.min(half, b - 1), b
    end)
  end
  local state = 12345
  local function random(n)
    state = state * 16807 % 2147483647
    return state % n
  end
  for _ = 1, 8 do
    add(function(a, b)
      local lo = a + random(b - a)
      return lo, lo + 1 + random(b - lo)
    end)
  end
  return out
end

--- Whether mapper and program agree on a sample of chunks of the range.
function M.confirm(desc, f, range, shape, params)
  if asked.is_empty(range) then return true end
  for _, s in ipairs(samples(range)) do
    if not M.agrees(desc, f, range, shape, s[1], s[2], params) then
      return false
    end
  end
  return true
end

return M
