--- describe.lua -- what a mapper was compiled to, and what could be proved of it.
---
--- The proofs are the engine's: `c` is whatever gives cel_rule_print,
--- cel_rule_classify and cel_rule_prove_* through FFI (rule/rule.h, declared by
--- the caller).
local ffi = require "ffi"
local box = require "celer.box"
local trace = require "celer.mapper.trace"

local M = {}

local facts = require("celer.core").facts
local proofs = facts.proof
local PROVED, REFUTED = proofs.proved, proofs.refuted
-- As cel_rule_class has them, in words.
local classes = {}
for name, number in pairs(facts.class) do classes[number] = name end

--- A cel_rule_desc from what trace.rule gives; the other results keep alive what it
--- points to.
---@param desc celer.rule_desc
function M.desc(desc)
  local out = ffi.new("cel_rule_desc")
  local code = ffi.new("int64_t[?]", #desc.code + 1, desc.code)
  local programs = ffi.new("cel_rule_box[?]", desc.boxes + 1)
  out.task_dims, out.buffer_dims = desc.task_dims, desc.buffer_dims
  out.boxes, out.params = desc.boxes, desc.params
  out.box, out.code, out.code_length = programs, code, #desc.code
  local at = 1
  for b = 0, desc.boxes - 1 do
    programs[b].clamp, programs[b].each = desc.clamp[b + 1], desc.each[b + 1]
    for j = 0, desc.buffer_dims - 1 do
      for upper = 0, 1 do
        programs[b].start[j][upper] = desc.spans[at]
        programs[b].length[j][upper] = desc.spans[at + 1]
        at = at + 2
      end
    end
  end
  return out, code, programs
end

-- A box of plain numbers as cel_box.
local function fill_box(out, b)
  local lo, hi = box.bounds(b)
  for d = 0, 2 do
    out.min[d], out.max[d] = lo[d + 1] or 0, hi[d + 1] or 1
  end
end

--- A cel_rule_use; the second result keeps its parameters alive. They are
--- anchored separately because C only borrows them.
function M.use(rule, params, range, extent)
  local use = ffi.new("cel_rule_use")
  local words = ffi.new("int64_t[?]", #params + 1, params)
  use.rule, use.params = rule, words
  fill_box(use.range, range)
  fill_box(use.extent, extent)
  return use, words
end

-- The chunk in the dimensions that were cut: "[0,2)".
local function chunk_text(chunk, kind)
  local parts = {}
  for d = 0, 2 do
    if kind.cut[d] then
      parts[#parts + 1] = ("[%d,%d)"):format(tonumber(chunk.min[d]), tonumber(chunk.max[d]))
    end
  end
  return table.concat(parts, "x")
end

local function point_text(point, dims)
  local parts = {}
  for d = 0, dims - 1 do parts[d + 1] = tostring(tonumber(point[d])) end
  return "(" .. table.concat(parts, ", ") .. ")"
end

local function disjoint_text(c, use, kind, dims)
  local why = ffi.new("cel_counter_example")
  local proof = tonumber(c.cel_rule_prove_disjoint(use, kind, why))
  if proof == PROVED then return "proved", proof end
  if proof ~= REFUTED then return "unknown, to be checked on the actual split", proof end
  return ("refuted, chunks %s and %s both touch %s"):format(chunk_text(why.a, kind),
    chunk_text(why.b, kind), point_text(why.point, dims)), proof
end

local function union_text(c, use, kind, dims)
  local why = ffi.new("cel_counter_example")
  local proof = tonumber(c.cel_rule_prove_union(use, kind, why))
  if proof == PROVED then return "proved", proof end
  if proof ~= REFUTED then return "unknown, to be evaluated at the finest chunk", proof end
  return ("refuted, chunks %s and %s differ from both as one chunk at %s"):format(
    chunk_text(why.a, kind), chunk_text(why.b, kind), point_text(why.point, dims)), proof
end

-- What it is fit for. A chunk may be read by a box around what its parts map to.
local function fitness(c, use, kind, union, disjoint)
  local writes = disjoint ~= REFUTED
  if union ~= REFUTED then
    return writes and "fit for reading and writing" or "fit for reading only"
  end
  local why = ffi.new("cel_counter_example")
  if tonumber(c.cel_rule_prove_hull(use, kind, why)) == REFUTED then
    return writes and "fit for writing only" or "fit for neither reading nor writing"
  end
  return writes and "fit for writing, and for reading more than the parts of a chunk need"
    or "fit for reading only, of more than the parts of a chunk need"
end

local function print_rule(c, rule, params)
  local n = c.cel_rule_print(rule, params, nil, 0)
  local text = ffi.new("char[?]", n + 1)
  c.cel_rule_print(rule, params, text, n + 1)
  return ffi.string(text)
end

-- Which dimensions may be cut: dimension 0 alone unless `split` says otherwise.
local function split_kind(split)
  local kind = ffi.new("cel_split_kind")
  for d = 0, 2 do
    if split then kind.cut[d] = split.cut[d + 1] or false else kind.cut[d] = d == 0 end
    kind.granularity[d] = split and split.granularity and split.granularity[d + 1] or 1
  end
  return kind
end

--- The text of celer.rule.
---@param c table  the engine's functions, by FFI
---@param intern fun(desc: celer.rule_desc): any  gives a const cel_rule *
---@param f function  the mapper
---@param range celer.box  the index space
---@param extent celer.box  the buffer
---@param split? {cut: boolean[], granularity: integer[]?}
---@return string
function M.rule(c, intern, f, range, extent, split)
  local rule, params = trace.rule(f, range, extent)
  local lines = {}
  if rule.opaque then
    lines[1] = "rule: opaque: " .. rule.reason
    lines[2] = "evaluated for every chunk when submitted"
  else
    local compiled = ffi.cast("const cel_rule *", intern(rule.desc))
    local use, words = M.use(compiled, params, range, extent)
    local kind, dims = split_kind(split), extent.dims
    local union, union_proof = union_text(c, use, kind, dims)
    local disjoint, disjoint_proof = disjoint_text(c, use, kind, dims)
    lines[1] = "rule: " .. print_rule(c, compiled, words)
    lines[2] = ("%s; union homomorphism: %s; non-overlapping: %s: %s"):format(
      classes[tonumber(c.cel_rule_classify(use))], union, disjoint,
      fitness(c, use, kind, union_proof, disjoint_proof))
  end
  if rule.volatile then
    lines[#lines + 1] = "traced at each use: " .. rule.volatile
  end
  return table.concat(lines, "\n")
end

return M
