--- images.lua -- random programs of kernels in Lua that read where elements of index buffers say,
--- beside plain Lua.
---
---   celer run --advice off spec/random/scripts/images.lua SEED COUNT [gpu]
---
--- A kernel goes from item to rows and entries: through `next` from row to row, by offsets and
--- pairs from a row to entries, by `to` from an entry to a row; and reads on the way. Plain Lua
--- runs the same text on tables. Between the steps data and indices change. `gpu`: ranks of one
--- device bring rows as ranks of one GPU do. Says at the end how often what occurred; or the seed
--- that fails, and the kernel.
local celer = require "celer"
local core = require "celer.core"
local dice = require "chance"
local images = require "celer.submit.image"
local q = celer.queue()

local first, count = tonumber(arg[1]), tonumber(arg[2])
local STEPS = 7
local again = require "celer.submit.again"
local image_rows = require "celer.submit.image_rows"
local kept = require "celer.submit.kept"
if arg[3] == "gpu" then require("celer.arrays.alone").always_parts = celer.ranks() end
local random, between, chance, one_of = dice.random, dice.between, dice.chance, dice.one_of

local seen = {}
local function note(what) seen[what] = (seen[what] or 0) + 1 end
local by_road = again.submit
function again.submit(...)
  local is_short = by_road(...)
  if is_short then note "short" end
  return is_short
end
local submit_kept = kept.submit
function kept.submit(...)
  local is_short = submit_kept(...)
  if is_short then note "kept" end
  return is_short
end
local bring = image_rows.bring
function image_rows.bring(...) note "rows by kernels"; return bring(...) end

-- ---- buffers and their model -------------------------------------------------------------------

-- n rows and items, m entries, which entries of all kinds name.
local arrays = {
  { "u", "double", "n" }, { "v", "int", "n" }, { "w", "double", "m" }, { "r", "float", "n", 3 },
  { "z", "double", "n" },
  { "next", "int", "n" }, { "to", "int", "m" }, { "to1", "int64_t", "m" }, { "none", "int", "m" },
  { "ptr", "unsigned", "n" }, { "ptr1", "int", "n" }, { "pairs", "int", "n", 2 },
  { "conn", "int64_t", "n", 3 },
}
local names = {}
for k, array in ipairs(arrays) do names[k] = array[1] end

-- What an array holds: f(i, j).
local function contents(p, name)
  local n, m, a, b = p.n, p.m, between(1, 50), random(50)
  local near = chance(40)
  local function row(i) return near and (i * n / m + i % 3 - i % 3 % 2) % n or (i * a + b) % n end
  local function any(i) return math.floor(row(i)) end
  local offsets, at = {}, 0
  for i = 0, n do
    offsets[i] = at
    at = math.min(m, at + (chance(30) and 0 or random(2 * math.ceil(m / n) + 1)))
  end
  local makers = {
    next = any, to = any, to1 = function(i) return any(i) + 1 end,
    none = function(i) return i % 4 == 1 and -1 or any(i) end,
    ptr = function(i) return offsets[i] end, ptr1 = function(i) return offsets[i] + 1 end,
    pairs = function(i, j)
      local from = (i * a + b) % m
      return j == 0 and from or math.min(m, from + i % 4)
    end,
    conn = function(i, j) return (i * a + b + j * j) % n end,
  }
  return makers[name] or function(i, j) return (i * a + b + 7 * (j or 0)) % 100 end
end

local function size_of(p, array)
  local more = array[1]:find "^ptr" and 1 or array[1] == "z" and 2 or 0
  local rows = p[array[3]] + more
  return rows, array[4]
end

-- Gives an array new contents, in the buffer and in plain Lua.
local function renew(p, k)
  local array = arrays[k]
  local rows, columns = size_of(p, array)
  local f, held = contents(p, array[1]), {}
  for i = 0, rows - 1 do
    if columns then
      held[i] = {}
      for j = 0, columns - 1 do held[i][j] = f(i, j) end
    else
      held[i] = f(i)
    end
  end
  p.held[k] = held
  local fresh = celer.buffer(array[2], { rows, columns }, { name = array[1],
    init = columns and function(i, j) return held[i][j] end or function(i) return held[i] end })
  if p.buffers[k] and chance(70) then -- the same one, changed
    celer.copy(fresh, p.buffers[k])
    note "changed"
  else
    p.buffers[k] = fresh
  end
end

-- ---- kernels -----------------------------------------------------------------------------------

local Maker = {}
Maker.__index = Maker

function Maker:put(text, ...)
  table.insert(self.lines, ("  "):rep(self.depth + 1) .. text:format(...))
end

function Maker:name(letter)
  self.names = self.names + 1
  return letter .. self.names
end

function Maker:add(text, ...)
  self.reads = self.reads + 1
  self:put("s = (s * 3 + %s) %% 8191", text:format(...))
end

-- Something at a row, which is there for certain.
function Maker:at_row(row)
  local what = random(8)
  if what == 0 then return self:add("u[%s]", row) end
  if what == 1 then return self:add("v[%s] * 2", row) end
  if what == 2 then return self:add("r[%s][%d]", row, random(3)) end
  if what == 3 then
    note "guards"
    self:put("if %s < n - 1 then s = (s * 5 + u[%s + 1]) %% 8191 end", row, row)
    self.reads = self.reads + 1
    return
  end
  if what == 4 then
    note "columns"
    return self:put("for j = 0, 2 do s = (s * 3 + r[%s][j]) %% 8191 end", row)
  end
  if what == 5 then return self:add("u[%s] - v[%s]", row, row) end
  note "beyond"
  self:add("z[%s + 2]", row)
  self:add("z[%s]", row)
end

function Maker:at_entry(entry)
  self:add(one_of { "w[%s]", "w[%s] * 2", "to[%s]" }, entry)
end

local row_from, entries_from

-- Reads at a row, or goes on from it.
function Maker:row(row, depth)
  if depth <= 0 or chance(row == "i" and 10 or 45) then return self:at_row(row) end
  if chance(35) then return row_from(self, row, depth - 1) end
  entries_from(self, row, depth - 1)
end

function Maker:inside(head, ...)
  self:put(head, ...)
  self.depth = self.depth + 1
end

function Maker:leave()
  self.depth = self.depth - 1
  self:put "end"
end

-- Another row.
function row_from(self, row, depth)
  if chance(60) then
    note "chains"
    local name = self:name "a"
    self:put("local %s = next[%s]", name, row)
    return self:row(name, depth)
  end
  note "tables"
  if chance(40) then
    return self:add("u[conn[%s][%d]] - u[conn[%s][%d]]", row, random(3), row, random(3))
  end
  self:row(("conn[%s][%d]"):format(row, random(3)), depth)
  if chance(40) then self:row(("conn[%s][%d]"):format(row, random(3)), depth) end
end

-- The row that an entry names.
local function through(self, k, depth)
  local what = random(4)
  if what == 0 then return self:row(("to[%s]"):format(k), depth) end
  if what == 1 then
    note "from 1"
    return self:row(("to1[%s] - 1"):format(k), depth)
  end
  note "sentinels"
  local name = self:name "c"
  self:put("local %s = none[%s]", name, k)
  self:inside("if %s %s then", name, what == 2 and ">= 0" or "~= -1")
  self:row(name, depth)
  self:leave()
  if chance(50) then
    self:put("if %s > 2 then s = (s * 5 + u[%s] - u[%s - 3]) %% 8191 end", name, name, name)
  end
end

local loops = {
  { "offsets", "ptr[%s]", "ptr[%s + 1] - 1" }, { "offsets", "ptr[%s]", "ptr[%s + 1] - 1" },
  { "from 1", "ptr1[%s] - 1", "ptr1[%s + 1] - 2" }, { "pairs", "pairs[%s][0]", "pairs[%s][1] - 1" },
  { "one less", "ptr[%s] + 1", "ptr[%s + 1] - 1" },
  { "later", "ptr[%s] + i %% 3", "ptr[%s + 1] - 1" },
}

-- The entries of a row.
function entries_from(self, row, depth)
  local what, step, k = one_of(loops), one_of { 1, 1, 1, 2, -1, -2 }, self:name "k"
  note(what[1])
  local from, to = what[2]:format(row), what[3]:format(row)
  if step < 0 then from, to = to, from end
  if step ~= 1 then note "steps" end
  self:inside("for %s = %s, %s, %d do", k, from, to, step)
  for _ = 1, between(1, 2) do
    if chance(40) then self:at_entry(k) else through(self, k, depth) end
  end
  if step == 2 and what[1] == "offsets" and chance(30) then
    self:put("if %s < m - 1 then s = (s * 5 + w[%s + 1]) %% 8191 end", k, k)
  end
  self:leave()
end

-- A kernel's text: parameters are all arrays, and what is written.
local function make()
  local self = setmetatable({ lines = {}, depth = 0, names = 0, reads = 0 }, Maker)
  self:put "local s = 0"
  for _ = 1, between(1, 3) do self:row("i", between(1, 3)) end
  if chance(30) then
    note "beside"
    self:add "u[i]"
  end
  self:put "out[i] = s"
  return table.concat(self.lines, "\n")
end

local function load_kernel(p, text)
  local whole = ("local n, m = ...\nreturn function(i, %s, out)\n%s\nend"):format(
    table.concat(names, ", "), text)
  return assert(loadstring(whole, "=kernel"))(p.n, p.m)
end

-- ---- programs ----------------------------------------------------------------------------------

-- What plain Lua makes of it.
local function model_of(p, f, lo, hi)
  local given, out = { unpack(p.held, 1, #arrays) }, {}
  given[#arrays + 1] = out
  for i = lo, hi - 1 do f(i, unpack(given, 1, #arrays + 1)) end
  return out
end

local function check(p, out, lo, hi)
  local wanted, s = model_of(p, p.f, lo, hi), q:wait(out)
  for i = lo, hi - 1 do
    if s(i) ~= wanted[i] then
      error(("item %d has %.17g, and plain Lua says %.17g"):format(i, s(i), wanted[i]), 0)
    end
  end
end

local function hints_of()
  local hints = {}
  if chance(20) then hints.granularity = between(2, 3) end
  if chance(20) then hints.oversubscribe = between(2, 3) end
  if chance(20) then hints.weights = function(rank) return rank % 3 + 1 end end
  return hints
end

-- As on devices whose memory is too small for what is read by images; for that they must have
-- some limit.
local function make_small()
  images.PART = chance(40) and 0 or 1
  if images.PART == 0 and select(2, core.room()) > 0 then note "small" end
end

local add = celer.kernel(function(i, u) u[i] = u[i] + 1 end)

-- While the same kernel comes again, data that it reads change.
local function change(p)
  q:parallel_for(p.n, add, p.buffers[1])
  for i = 0, p.n - 1 do p.held[1][i] = p.held[1][i] + 1 end
end

local function submit(p)
  make_small()
  local out = celer.buffer("double", { p.n }, { name = "out", init = 0 })
  local lo, hi = 0, p.n
  if chance(25) then
    lo = random(p.n)
    hi = between(lo + 1, p.n)
  end
  local given = { unpack(p.buffers, 1, #arrays) }
  given[#arrays + 1] = out
  if chance(15) then -- all of an index, as the user says
    note "given"
    local k = between(6, #arrays)
    given[k] = celer.access(given[k], celer.all)
  end
  local hints, often = hints_of(), chance(60) and between(1, 5)
  local ok, message = pcall(function()
    for k = 1, often or 0 do
      if k > 1 and chance(50) then change(p) end
      q:parallel_for(lo == 0 and hi or celer.box({ lo }, { hi }), p.kernel,
        unpack(given, 1, #arrays + 1))
    end
    if often then return end
    q:submit(function(cg)
      cg:hint(hints)
      cg:parallel_for(celer.box({ lo }, { hi }), p.kernel, unpack(given, 1, #arrays + 1))
    end)
  end)
  if not ok and tostring(message):find "are the most" then return note "too many" end
  if not ok then error(message, 0) end
  check(p, out, lo, hi)
end

local gather = celer.kernel [[
  kernel void gather(item<1> it, in<int, 1> next, in<double, 1> u, out<double, 1> out) {
    out(it[0]) = u(next(it[0]));
  }
]]

-- By an image that is written down, which may be wider than what is named.
local function submit_wide(p)
  local out, how = celer.buffer("double", { p.n }), one_of { "exact", "boxes", "hull" }
  note("how " .. how)
  make_small()
  local hints = hints_of()
  q:submit(function(cg)
    cg:hint(hints)
    cg:parallel_for(p.n, gather, cg:read(p.buffers[6]),
      cg:read(p.buffers[1], celer.image(p.buffers[6], { how = how })), cg:discard_write(out))
  end)
  local s, u, next_of = q:wait(out), p.held[1], p.held[6]
  for i = 0, p.n - 1 do
    if s(i) ~= u[next_of[i]] then
      error(("by %s item %d has %.17g, and plain Lua says %.17g"):format(how, i, s(i),
        u[next_of[i]]), 0)
    end
  end
end

local function run(p)
  p.n = between(1, 30)
  p.m = between(p.n, 3 * p.n)
  for k = 1, #arrays do renew(p, k) end
  p.text = make()
  p.f = load_kernel(p, p.text)
  p.kernel = celer.kernel(p.f, { name = "walk" })
  for _ = 1, STEPS do
    submit(p)
    if chance(30) then submit_wide(p) end
    for _ = 1, random(3) do renew(p, between(1, #arrays)) end
  end
  for k = 1, #arrays do
    if images.traffic(p.buffers[k]).exchanges > 0 then note "exchanges" end
  end
end

for seed = first, first + count - 1 do
  dice.begin(seed)
  local p = { buffers = {}, held = {} }
  local ok, message = pcall(run, p)
  if not ok then error(("seed %d: %s\n%s"):format(seed, tostring(message), p.text or ""), 0) end
end

local words = {}
for name, times in pairs(seen) do words[#words + 1] = name .. " " .. times end
table.sort(words)
print(("%d programs with images: %s"):format(count, table.concat(words, ", ")))
