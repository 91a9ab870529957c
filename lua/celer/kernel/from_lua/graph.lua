--- graph.lua -- what a function computes: blocks of nodes, each computed once.
---
--- The graph is in static single assignment form (Braun and others, Simple and Efficient
--- Construction of SSA Form): an assignment gives a variable another node, and where
--- blocks meet a *phi* chooses the node by where the item comes from. Difference to the
--- paper: bytecode says beforehand which slots a loop assigns to, so that no other
--- variable gets a phi there.
local M = {}

---@class celer.node
---@field op string
---@field id integer
---@field file string  the user's
---@field line integer
---@field block celer.block|false
---@field args? celer.node[]
---@field index? celer.node[]  coordinates of an element, and then indices in its field
---@field array? table  see lift.lua
---@field effect? boolean  it is there though nobody uses it
---@field same? celer.node  what it turned out to be
---@field kind? string  and low, high: see kinds.lua
---@field [string] any  what only some have

---@class celer.block
---@field id integer  in the order in which they come
---@field phis celer.node[]
---@field nodes celer.node[]
---@field preds celer.block[]
---@field values table<string, celer.node>  variables at its end
---@field ends? {to: celer.block?, cond: celer.node?, yes: celer.block?, no: celer.block?}
---@field header? boolean  a loop begins with it
---@field forward? integer  of a header: preds that are not in the loop
---@field written? table<string, boolean>  variables that the loop assigns to
---@field complete? boolean  all preds are known
---@field loop? celer.counted_loop

---@class celer.graph
---@field blocks celer.block[]
---@field all celer.node[]
---@field now celer.block?  the block at hand; none where no item gets to
local Graph = {}
Graph.__index = Graph

function M.new() return setmetatable({ blocks = {}, all = {}, now = false }, Graph) end

--- What a node is.
---@param node celer.node
---@return celer.node
local function resolve(node)
  while node.same do node = node.same end
  return node
end
M.resolve = resolve

--- Makes a node that no block computes: a constant, a coordinate.
function Graph:make(op, fields)
  local node = fields or {}
  node.op, node.id, node.file, node.line = op, #self.all + 1, self.file, self.line
  if node.block == nil then node.block = false end
  self.all[node.id] = node
  return node
end

--- Makes one that the block at hand computes.
function Graph:add(op, fields)
  local node = self:make(op, fields)
  node.block = self.now
  table.insert(self.now.nodes, node)
  return node
end

function Graph:number(k) return self:make("number", { k = k }) end

function M.block() return { id = 0, phis = {}, nodes = {}, preds = {}, values = {} } end

--- Goes on in a block.
function Graph:start(block)
  block.id = #self.blocks + 1
  self.blocks[block.id], self.now = block, block
end

--- Ends the block at hand by going to `block`.
function Graph:jump(block)
  self.now.ends = { to = block }
  table.insert(block.preds, self.now)
  self.now = false
end

--- Ends the block at hand by going to `yes` or `no`.
function Graph:branch(cond, yes, no)
  if yes == no then return self:jump(yes) end
  self.now.ends = { cond = cond, yes = yes, no = no }
  table.insert(yes.preds, self.now)
  table.insert(no.preds, self.now)
  self.now = false
end

local read

-- What a phi takes of a scalar that the kernel sets: what it is by then.
local function value_at(self, block, node)
  return node.op == "scalar" and read(self, block, node.variable) or node
end

local function phi(self, block, variable)
  local node = self:make("phi", { args = {}, block = block, variable = variable })
  table.insert(block.phis, node)
  return node
end

-- A variable that the block's loop assigns to.
local function read_in_header(self, block, variable)
  local node = phi(self, block, variable)
  block.values[variable] = node
  if block.complete then
    for k, pred in ipairs(block.preds) do
      node.args[k] = value_at(self, pred, read(self, pred, variable))
    end
  else
    block.open = block.open or {}
    table.insert(block.open, node)
  end
  return node
end

local function read_from_preds(self, block, variable)
  local n = block.header and block.forward or #block.preds
  if n == 0 then return self:make "nil" end
  local found, alike = {}, true
  for k = 1, n do
    found[k] = read(self, block.preds[k], variable)
    alike = alike and found[k] == found[1]
  end
  if alike then return found[1] end
  local node = phi(self, block, variable)
  for k = 1, n do node.args[k] = value_at(self, block.preds[k], found[k]) end
  return node
end

function read(self, block, variable)
  local node = block.values[variable]
  if node then return resolve(node) end
  if block.written and block.written[variable] then
    return read_in_header(self, block, variable)
  end
  node = read_from_preds(self, block, variable)
  block.values[variable] = node
  return node
end

--- The node that a variable is, at the end of a block.
---@param block celer.block
---@param variable string
---@return celer.node
function Graph:read(block, variable) return read(self, block, variable) end

-- The one node that a phi chooses, if it is one.
local function only(node)
  local found
  for k, arg in ipairs(node.args) do
    arg = resolve(arg)
    node.args[k] = arg
    if arg ~= node then
      if found and found ~= arg then return nil end
      found = arg
    end
  end
  return found
end

--- All preds of a header are known.
function Graph:complete(header)
  local n = 1
  while header.open and header.open[n] do -- reading may add to them
    local node = header.open[n]
    for k, pred in ipairs(header.preds) do
      node.args[k] = value_at(self, pred, read(self, pred, node.variable))
    end
    n = n + 1
  end
  header.complete = true
end

local function each_use(self, f)
  for _, node in ipairs(self.all) do
    for _, list in ipairs { node.args or {}, node.index or {} } do
      for k, arg in ipairs(list) do list[k] = f(arg) end
    end
    local loop = node.loop
    if loop then loop.first, loop.last, loop.step = f(loop.first), f(loop.last), f(loop.step) end
  end
  for _, block in ipairs(self.blocks) do
    if block.ends and block.ends.cond then block.ends.cond = f(block.ends.cond) end
  end
end

-- What a loop's header gets for a variable that the loop left alone after all.
local function fill_phis(self)
  for _, block in ipairs(self.blocks) do
    for _, node in ipairs(block.header and block.phis or {}) do
      for k = #node.args + 1, #block.preds do node.args[k] = node end
    end
  end
end

-- Phis that choose nothing, until there are none.
local function remove_phis(self)
  local changed = true
  while changed do
    changed = false
    for _, block in ipairs(self.blocks) do
      for k = #block.phis, 1, -1 do
        local node = block.phis[k]
        local same = not node.loop and only(node)
        if same then
          node.same, changed = same, true
          table.remove(block.phis, k)
        end
      end
    end
    each_use(self, resolve)
  end
end

-- What something is computed from that has an effect, or decides where an item goes.
local function mark(self)
  local work = {}
  local function need(node)
    if node.needed then return end
    node.needed = true
    work[#work + 1] = node
  end
  for _, block in ipairs(self.blocks) do
    for _, node in ipairs(block.nodes) do
      if node.effect or self.keep_reads and node.op == "load" then need(node) end
    end
    if block.ends and block.ends.cond then need(block.ends.cond) end
  end
  while #work > 0 do
    local node = table.remove(work)
    for _, arg in ipairs(node.args or {}) do need(arg) end
    for _, arg in ipairs(node.index or {}) do need(arg) end
  end
end

local function needed(list)
  local out = {}
  for _, node in ipairs(list) do
    if node.needed then out[#out + 1] = node end
  end
  return out
end

--- Ends the construction: only what is needed is left.
function Graph:finish()
  fill_phis(self)
  each_use(self, resolve)
  remove_phis(self)
  mark(self)
  for _, block in ipairs(self.blocks) do
    block.phis, block.nodes = needed(block.phis), needed(block.nodes)
  end
end

--- Calls f for each node that is computed, block by block.
---@param f fun(node: celer.node)
function Graph:each(f)
  for _, block in ipairs(self.blocks) do
    for _, node in ipairs(block.phis) do f(node) end
    for _, node in ipairs(block.nodes) do f(node) end
  end
end

return M
