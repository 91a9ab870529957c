--- affine.lua -- nodes as a constant and multiples of other nodes.
local M = {}

---@class celer.affine
---@field c number
---@field of table<celer.node, number>  factors

--- a + factor * b.
---@param a celer.affine
---@param b celer.affine
---@param factor number
---@return celer.affine
function M.add(a, b, factor)
  local of = {}
  for node, x in pairs(a.of) do of[node] = x end
  for node, x in pairs(b.of) do
    local sum = (of[node] or 0) + factor * x
    of[node] = sum ~= 0 and sum or nil
  end
  return { c = a.c + factor * b.c, of = of }
end
local add = M.add

local zero = { c = 0, of = {} }

local known = setmetatable({}, { __mode = "k" })
local of_node

local make = {}

function make.number(node) return { c = node.k, of = {} } end
function make.add(node)
  if not node.steps then return add(of_node(node.args[1]), of_node(node.args[2]), 1) end
end
function make.sub(node) return add(of_node(node.args[1]), of_node(node.args[2]), -1) end
function make.neg(node) return add(zero, of_node(node.args[1]), -1) end
function make.mul(node)
  local a, b = of_node(node.args[1]), of_node(node.args[2])
  if next(a.of) then a, b = b, a end
  if not next(a.of) then return add(zero, b, a.c) end
end
function make.floor(node)
  if node.args[1].kind == "int" then return of_node(node.args[1]) end
end
make.ceil = make.floor

--- The form of a node: itself, where it is no sum.
---@param node celer.node
---@return celer.affine
function M.of(node)
  local found = known[node]
  if not found then
    found = make[node.op] and make[node.op](node) or { c = 0, of = { [node] = 1 } }
    known[node] = found
  end
  return found
end
of_node = M.of

--- The nodes of a form, in an order that all ranks share.
---@param form celer.affine
---@return celer.node[]
function M.nodes(form)
  local out = {}
  for node in pairs(form.of) do out[#out + 1] = node end
  table.sort(out, function(a, b) return a.id < b.id end)
  return out
end

--- A form as text, equal for equal forms.
---@param form celer.affine
---@return string
function M.key(form)
  local out = { ("%.17g"):format(form.c) }
  for _, node in ipairs(M.nodes(form)) do
    out[#out + 1] = ("%.17g*%d"):format(form.of[node], node.id)
  end
  return table.concat(out, "+")
end

return M
