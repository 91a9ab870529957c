-- rules.lua -- for the specs of rule/: expressions as Lua tables, compiled to
-- programs, and evaluated directly as the shadow model.
--
-- An expression is a number or {op, a, b}: {"min", d}, {"max", d},
-- {"gmin", d}, {"gmax", d}, {"buffer", d}, {"param", i}, {"item", d} or
-- {"+" | "-" | "*" | "//" | "low" | "high", a, b}.
local ffi = require("ffi")
local c = require("spec.support.cdef")("rule/rule.h")

local M = { c = c }

local LIMIT = 2 ^ 53
local codes = {}
for name in ([[CONST PARAM MIN MAX GLOBAL_MIN GLOBAL_MAX BUFFER ITEM ADD SUB MUL
FLOORDIV LOW HIGH]]):gmatch("%S+") do
  codes[name] = tonumber(ffi.cast("cel_rule_op", "CEL_RULE_" .. name))
end
local words = {
  param = codes.PARAM, min = codes.MIN, max = codes.MAX,
  gmin = codes.GLOBAL_MIN, gmax = codes.GLOBAL_MAX, buffer = codes.BUFFER, item = codes.ITEM,
  ["+"] = codes.ADD, ["-"] = codes.SUB, ["*"] = codes.MUL,
  ["//"] = codes.FLOORDIV, low = codes.LOW, high = codes.HIGH,
}

function M.compile(e, out)
  if type(e) == "number" then
    out[#out + 1], out[#out + 2] = codes.CONST, e
  elseif #e == 2 then
    out[#out + 1], out[#out + 2] = words[e[1]], e[2]
  else
    M.compile(e[2], out)
    M.compile(e[3], out)
    out[#out + 1] = words[e[1]]
  end
  return out
end

-- The value of an expression, or nil when it leaves the integers.
function M.value(e, env)
  if type(e) == "number" then return e end
  if #e == 2 then return env[e[1]][e[2]] end
  local a, b = M.value(e[2], env), M.value(e[3], env)
  if not a or not b then return nil end
  local op, r = e[1]
  if op == "+" then r = a + b
  elseif op == "-" then r = a - b
  elseif op == "*" then r = a * b
  elseif op == "//" then r = b > 0 and math.floor(a / b) or nil
  elseif op == "low" then r = math.min(a, b)
  else r = math.max(a, b) end
  return r and math.abs(r) <= LIMIT and r or nil
end

-- boxes: {{lo, hi} per buffer dimension, each = d: a family along d} per box. What desc
-- points to comes after it.
function M.desc(task_dims, buffer_dims, boxes, options)
  options = options or {}
  local desc, code = ffi.new("cel_rule_desc"), {}
  local programs = ffi.new("cel_rule_box[?]", #boxes + 1)
  desc.task_dims, desc.buffer_dims, desc.boxes = task_dims, buffer_dims, #boxes
  desc.params = options.params or 0
  for b, box in ipairs(boxes) do
    programs[b - 1].clamp = options.clamp or false
    programs[b - 1].each = box.each and box.each + 1 or 0
    for j, pair in ipairs(box) do
      for u = 0, 1 do
        programs[b - 1].start[j - 1][u] = #code
        M.compile(pair[u + 1], code)
        programs[b - 1].length[j - 1][u] = #code - programs[b - 1].start[j - 1][u]
      end
    end
  end
  local words_ = ffi.new("int64_t[?]", #code + 1, code)
  desc.box, desc.code, desc.code_length = programs, words_, #code
  return desc, words_, programs
end

local out = ffi.new("const cel_rule *[1]")

function M.intern(store, desc)
  local status = c.cel_rules_intern(store, desc, out)
  if status ~= 0 then return nil, ffi.string(c.cel_error_last().text) end
  return out[0]
end

function M.rule(store, ...)
  local desc, words_, programs = M.desc(...)
  local rule, message = M.intern(store, desc)
  assert(words_ and programs) -- kept alive until here
  return rule, message
end

function M.box(min, max)
  local b = ffi.new("cel_box")
  for d = 0, 2 do
    b.min[d], b.max[d] = min[d + 1] or 0, max[d + 1] or 1
  end
  return b
end

-- A use; `anchor` keeps the parameters alive.
function M.use(rule, range, extent, params)
  local use = ffi.new("cel_rule_use")
  local anchor = ffi.new("int64_t[?]", 32, params or {})
  use.rule, use.params, use.range, use.extent = rule, anchor, range, extent
  return use, anchor
end

function M.env(chunk, range, extent, params)
  return {
    min = chunk.min, max = chunk.max, gmin = range.min, gmax = range.max,
    buffer = extent.max, param = params or {},
  }
end

-- Plain numbers, so that the shadow model computes in doubles.
function M.plain(box)
  local p = { min = {}, max = {} }
  for d = 0, 2 do
    p.min[d], p.max[d] = tonumber(box.min[d]), tonumber(box.max[d])
  end
  return p
end

-- The raw box in plain numbers; nil when a bound leaves the integers.
function M.raw(box, dims, env)
  local r = { min = { [0] = 0, 0, 0 }, max = { [0] = 1, 1, 1 } }
  for j = 0, dims - 1 do
    r.min[j], r.max[j] = M.value(box[j + 1][1], env), M.value(box[j + 1][2], env)
    if not r.min[j] or not r.max[j] then return nil end
  end
  return r
end

function M.empty(b)
  return b.min[0] >= b.max[0] or b.min[1] >= b.max[1] or b.min[2] >= b.max[2]
end

-- Each box of a chunk, with what {"item", d} is for it.
function M.each(boxes, env)
  return coroutine.wrap(function()
    for _, box in ipairs(boxes) do
      local d = box.each
      for i = d and env.min[d] or 0, d and env.max[d] - 1 or 0 do
        coroutine.yield(true, box, d and { [d] = i })
      end
    end
  end)
end

-- The set of points of boxes clipped to the extent, keyed "i,j,k"; nil when a
-- bound overflows, or a box leaves the extent though it is not clamped.
function M.points(boxes, dims, env, extent, clamp)
  local set = {}
  for _, box, item in M.each(boxes, env) do
    env.item = item
    local r = M.raw(box, dims, env)
    if not r then return nil end
    if not M.empty(r) then
      for d = 0, 2 do
        if not clamp and (r.min[d] < 0 or r.max[d] > extent.max[d]) then
          return nil
        end
        r.min[d] = math.max(r.min[d], 0)
        r.max[d] = math.min(r.max[d], extent.max[d])
      end
      for i = r.min[0], r.max[0] - 1 do
        for j = r.min[1], r.max[1] - 1 do
          for k = r.min[2], r.max[2] - 1 do set[i .. "," .. j .. "," .. k] = true end
        end
      end
    end
  end
  return set
end

function M.region_points(region)
  local set = {}
  for n = 0, region.n - 1 do
    local b = M.plain(region.at[n])
    for i = b.min[0], b.max[0] - 1 do
      for j = b.min[1], b.max[1] - 1 do
        for k = b.min[2], b.max[2] - 1 do set[i .. "," .. j .. "," .. k] = true end
      end
    end
  end
  return set
end

-- Seeded; small, and the same under every Lua.
function M.random(seed)
  local state = seed % 2147483647
  return function(lo, hi)
    state = (state * 16807) % 2147483647
    return lo + state % (hi - lo + 1)
  end
end

-- The same expression for a family along `each`: of the index there instead of bounds.
function M.of_index(e, each)
  if not each or type(e) == "number" then return e end
  if (e[1] == "min" or e[1] == "max") and e[2] == each then return { "item", each } end
  if #e == 2 then return e end
  return { e[1], M.of_index(e[2], each), M.of_index(e[3], each) }
end

-- A random expression; shapes that mappers have come up more often.
function M.expression(pick, task_dims, buffer_dims, params, depth)
  if depth == 0 or pick(1, 4) == 1 then
    local kind = pick(1, 8)
    if task_dims > 0 and kind <= 4 then
      return { kind <= 2 and "min" or "max", pick(0, task_dims - 1) }
    elseif task_dims > 0 and kind == 5 then
      return { pick(0, 1) == 0 and "gmin" or "gmax", pick(0, task_dims - 1) }
    elseif buffer_dims > 0 and kind == 6 then
      return { "buffer", pick(0, buffer_dims - 1) }
    elseif params > 0 and kind == 7 then
      return { "param", pick(0, params - 1) }
    end
    return pick(-4, 4)
  end
  local op = ({ "+", "+", "-", "-", "*", "//", "low", "high" })[pick(1, 8)]
  local a = M.expression(pick, task_dims, buffer_dims, params, depth - 1)
  local b
  if op == "*" then b = pick(-3, 3)
  elseif op == "//" then b = pick(1, 3)
  elseif pick(0, 1) == 0 then b = pick(-4, 6)
  else b = M.expression(pick, task_dims, buffer_dims, params, depth - 1) end
  return { op, a, b }
end

return M
