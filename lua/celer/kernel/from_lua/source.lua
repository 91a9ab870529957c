--- source.lua -- the C++ of a graph: a kernel of celer's own language.
---
--- Blocks are labels and jumps are gotos: which a compiler makes the same loops of. Each
--- node that is used several times, or in another block, is a variable.
local expression = require "celer.kernel.from_lua.expression"

local M = {}

-- How often each node is used, and by what: a node, or the end of a block.
local function uses_of(graph)
  local count, user = {}, {}
  local function use(node, by, n)
    count[node], user[node] = (count[node] or 0) + n, by
  end
  graph:each(function(node)
    local n = node.op == "phi" and 2 or 1 -- a phi takes variables
    for _, arg in ipairs(node.args or {}) do use(arg, node, n) end
    for _, arg in ipairs(node.index or {}) do use(arg, node, n) end
  end)
  for _, block in ipairs(graph.blocks) do
    if block.ends and block.ends.cond then use(block.ends.cond, block.ends, 1) end
  end
  return count, user
end

local arithmetic = { add = true, sub = true, mul = true, div = true }
local stays_whole = { add = true, sub = true, mul = true }

local function is_fraction(node) return arithmetic[node.op] and node.kind ~= "int" end

-- Whole numbers of more than 32 bits that only fractions are computed from: doubles, which
-- have them as exactly, and which processors need not convert one by one.
local function take_as_doubles(graph)
  local kept, nodes = {}, {}
  for _, block in ipairs(graph.blocks) do
    if block.ends and block.ends.cond then kept[block.ends.cond] = true end
    for _, phi in ipairs(block.phis) do
      for _, arg in ipairs(phi.args) do kept[arg] = true end
    end
  end
  graph:each(function(node) nodes[#nodes + 1] = node end)
  for k = #nodes, 1, -1 do
    local node = nodes[k]
    if stays_whole[node.op] and not kept[node] and expression.type_of(node) == "long long" then
      node.kind = "weak"
    end
    if node.divides then -- it computes with the operands of its quotient
      local quotient = node.args[1]
      kept[quotient.args[1]], kept[quotient.args[2]] = true, true
    end
    for _, list in ipairs { node.args or {}, node.index or {} } do
      for _, arg in ipairs(list) do
        kept[arg] = kept[arg] or list == node.index or not is_fraction(node)
      end
    end
  end
end

local choices = { min = true, max = true }
local leaves = { coordinate = true, uniform = true, lookup = true, number = true, min = true,
  max = true }

-- Whether a whole number is no -x, whatever the compiler makes of it.
local function has_no_minus(node, written)
  local function is_leaf(arg)
    return leaves[arg.op] or arg.op == "load" and not written[arg.array]
  end
  if is_leaf(node) then return true end
  if node.op ~= "add" and node.op ~= "sub" then return false end
  local a, b = node.args[1], node.args[2]
  if node.op == "add" and a.op == "number" then a, b = b, a end
  return is_leaf(a) and b.op == "number"
end

-- Marks minima and maxima of ints of which another one may be taken, and -x: see lua.cuh.
local function mark_first(graph)
  local written = {}
  graph:each(function(node)
    if node.op == "store" then written[node.array] = true end
  end)
  local function has_minus(node)
    for _, arg in ipairs(choices[node.op] and node.args or {}) do
      if not has_no_minus(arg, written) then return true end
    end
  end
  graph:each(function(node)
    if not choices[node.op] and node.op ~= "phi" then return end
    for _, arg in ipairs(node.args) do
      if choices[arg.op] and (arg.op == node.op or node.op == "phi") then
        arg.first = arg.first or has_minus(arg) or has_minus(node)
      end
    end
  end)
end

-- Effects before each node of its block, and before the block's end.
local function effects_before(graph)
  local before = {}
  for _, block in ipairs(graph.blocks) do
    local n = 0
    for _, node in ipairs(block.nodes) do
      before[node] = n
      if node.effect then n = n + 1 end
    end
    if block.ends then before[block.ends] = n end
  end
  return before
end

-- Which nodes stand where they are used. None gets behind an effect: it may read what that changes,
-- and compilers for GPUs would keep its operands until then.
local function inlining(graph)
  local count, user = uses_of(graph)
  local before, known = effects_before(graph), {}
  local is_inline
  local function place_of(by)
    while by.op and is_inline(by) do by = user[by] end
    return by
  end
  function is_inline(node)
    if known[node] ~= nil then return known[node] end
    local by = user[node]
    local ok = node.block and not node.effect and node.op ~= "phi" and count[node] == 1
      and (by == node.block.ends or by.block == node.block and by.op ~= "phi")
    known[node] = ok and before[place_of(by)] == before[node] or false
    return known[node]
  end
  return is_inline, count
end

---@class celer.cpp_body
---@field lines string[]
---@field declared table<string, string[]>  variables by type
---@field is_inline fun(node: celer.node): boolean
---@field writer celer.cpp_writer
---@field fail fun(node: celer.node, message: string, ...)

local function put(self, text, ...) self.lines[#self.lines + 1] = text:format(...) end

local function declare_as(self, type_, name)
  self.declared[type_] = self.declared[type_] or {}
  table.insert(self.declared[type_], name)
end

local function declare(self, node)
  local type_ = expression.type_of(node)
  if not type_ then
    self.fail(node, "a variable here may hold a number, or else a boolean, nil or something else: "
      .. "use one variable for each")
  end
  declare_as(self, type_, "x" .. node.id)
end

-- What phis of a block are if an item comes from another one.
local function given_by(from, to)
  local at
  for k, pred in ipairs(to.preds) do
    if pred == from then at = k end
  end
  local out = {}
  for k, phi in ipairs(to.phis) do out[k] = phi.args[at] end
  return out
end

-- What going from one block to another assigns, all at once.
local function moves(from, to)
  local out = {}
  for k, node in ipairs(given_by(from, to)) do
    if node ~= to.phis[k] then out[#out + 1] = { phi = to.phis[k], node = node } end
  end
  return out
end

local function is_read_by_another(move, list)
  for _, other in ipairs(list) do
    if other ~= move and other.node == move.phi then return true end
  end
end

local function assignments(self, from, to)
  local list, text = moves(from, to), {}
  local kept = {} -- read before what they are overwritten with
  for _, move in ipairs(list) do
    if is_read_by_another(move, list) then
      local type_ = expression.type_of(move.phi)
      kept[move] = "t" .. move.phi.id
      declare_as(self, type_, kept[move])
      text[#text + 1] = ("%s = %s;"):format(kept[move], self.writer:as(move.node, type_))
    end
  end
  for _, move in ipairs(list) do
    if not kept[move] then
      text[#text + 1] = ("x%d = %s;"):format(move.phi.id,
        self.writer:as(move.node, expression.type_of(move.phi)))
    end
  end
  for _, move in ipairs(list) do
    if kept[move] then text[#text + 1] = ("x%d = %s;"):format(move.phi.id, kept[move]) end
  end
  return table.concat(text, " ")
end

-- Goes from a block to another; to the next one by going on.
local function go(self, from, to, after)
  local text = assignments(self, from, to)
  if to == after then return text end
  return ("%s%sgoto B%d;"):format(text, text ~= "" and " " or "", to.id)
end

-- Whether a block has but another condition for what the block before has one for.
local function is_conjunct(self, before, block)
  local ends, first = block.ends, before.ends
  if #block.preds > 1 or #block.phis > 0 or not (ends and ends.cond and first.yes == block)
    or ends.no ~= first.no then
    return false
  end
  for _, node in ipairs(block.nodes) do
    if not self.is_inline(node) then return false end
  end
  local other = given_by(before, ends.no)
  for k, node in ipairs(given_by(block, ends.no)) do
    if node ~= other[k] then return false end
  end
  return true
end

-- Gives how many blocks behind it end with it: of `a and b` one condition, as compilers for GPUs
-- make no single branch of two.
local function end_block(self, blocks, k)
  local block = blocks[k]
  local ends = block.ends
  if not ends then
    put(self, "  return;")
  elseif ends.to then
    local text = go(self, block, ends.to, blocks[k + 1])
    if text ~= "" then put(self, "  %s", text) end
  else
    local list = { self.writer:truth(ends.cond) }
    while blocks[k + 1] and is_conjunct(self, block, blocks[k + 1]) do
      k = k + 1
      block = blocks[k]
      list[#list + 1] = self.writer:truth(block.ends.cond)
    end
    -- Not by a condition's opposite, which compilers make no minimum of: it holds for NaN, too.
    put(self, "  if (%s) { %s }", table.concat(list, " && "),
      go(self, block, block.ends.yes, blocks[k + 1]))
    local text = go(self, block, block.ends.no, blocks[k + 1])
    if text ~= "" then put(self, "  else { %s }", text) end
  end
  return k
end

-- Gives the number of the last block that was written.
local function write_block(self, blocks, k, count)
  local block = blocks[k]
  for _, phi in ipairs(block.phis) do declare(self, phi) end
  if #block.preds > 0 then put(self, "B%d:;", block.id) end
  for _, node in ipairs(block.nodes) do
    if node.effect and not count[node] then
      put(self, "  %s", self.writer:statement(node))
    elseif node.op ~= "made" and not self.is_inline(node) then
      declare(self, node)
      put(self, "  x%d = %s;", node.id, self.writer:write(node))
    end
  end
  return end_block(self, blocks, k)
end

local function sorted_keys(t)
  local out = {}
  for key in pairs(t) do out[#out + 1] = key end
  table.sort(out)
  return out
end

-- An array, or a variable for each of its elements.
local function declarator(array)
  if not array.apart then
    return ("%s[%d]"):format(expression.table_name(array), array.count)
  end
  local names = {}
  for k = 1, array.count do
    names[k] = expression.element_name(array, array.first + k - 1)
  end
  return table.concat(names, ", ")
end

-- Captured lists, coordinates and variables.
local function declarations(self, spec)
  local out = {}
  for _, list in ipairs(spec.tables) do
    local numbers = {}
    for k, x in ipairs(list.type and list.values or {}) do
      numbers[k] = expression.literal(x, list.type)
    end
    if list.type then
      out[#out + 1] = ("  const %s %s[] = {%s};"):format(list.type, self.writer.lists[list],
        table.concat(numbers, ", "))
    end
  end
  for _, array in ipairs(spec.locals) do
    out[#out + 1] = ("  %s %s;"):format(expression.type_of(array), declarator(array))
  end
  for _, struct in ipairs(spec.structs) do
    local type_ = struct.type.name
    out[#out + 1] = ("  %s %s;"):format(struct.path == "" and type_
      or ("decltype(%s().%s)"):format(type_, struct.path), expression.table_name(struct))
  end
  for d = 0, spec.items - 1 do
    out[#out + 1] = ("  const %s i%d = it[%d];"):format(spec.wide and "long long" or "int", d, d)
  end
  for _, text in ipairs(self.writer.unknowns) do out[#out + 1] = "  " .. text end
  for _, type_ in ipairs(sorted_keys(self.declared)) do
    out[#out + 1] = ("  %s %s;"):format(type_, table.concat(self.declared[type_], ", "))
  end
  return out
end

---@class celer.cpp_spec
---@field name string  of the kernel
---@field items integer
---@field wide boolean
---@field params string[]  as they are declared
---@field names table<celer.node, string>
---@field arrays table<integer, string>
---@field tables celer.number_table[]
---@field lists table<celer.number_table, string>
---@field locals celer.local_array[]
---@field structs celer.made_struct[]

--- A kernel.
---@param graph celer.graph
---@param spec celer.cpp_spec
---@param fail fun(node: celer.node, message: string, ...)
---@return string
function M.write(graph, spec, fail)
  take_as_doubles(graph)
  mark_first(graph)
  local is_inline, count = inlining(graph)
  local self = { lines = {}, declared = {}, is_inline = is_inline, fail = fail,
    writer = expression.new { names = spec.names, arrays = spec.arrays, lists = spec.lists,
      is_inline = is_inline, unknowns = {}, fail = fail } }
  local written = 0
  while written < #graph.blocks do
    written = write_block(self, graph.blocks, written + 1, count)
  end
  local head = declarations(self, spec)
  return ("kernel void %s(%s) {\n%s\n%s\n}\n"):format(spec.name, table.concat(spec.params, ", "),
    table.concat(head, "\n"), table.concat(self.lines, "\n"))
end

return M
