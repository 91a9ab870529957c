--- make.lua -- random functions of Lua that kernels can be made of.
---
--- Parameters: the item's coordinates i, j and k of [0, n), [0, n2), [0, n3), as many as the range
--- has dimensions; arrays of as many, which are read: u of doubles, g of floats, w of integers, b
--- of structs, and e of doubles, beyond its edges; arrays that are written at the item: v of
--- doubles, h of floats, o of integers, r of structs; a number c, which some have in a struct,
--- as c.deep.c; and scalars s of a double, z of an integer, y of a float. Captured: n, n2, n3, x
--- (a fraction), q (2), back (-3), a list t of four numbers, one l of whole numbers from -1 to 4, a
--- boolean flag, p.feed, and functions helper and total (of a table).
---
--- A function of no dimensions has arrays of one, and captures i. It writes at one place, and sets
--- scalars: a of a double, d of a float and f of an integer.
local M = {}

local random = math.random

local function pick(list) return list[random(#list)] end

local Maker = {}
Maker.__index = Maker

local coordinates, extents = { "i", "j", "k" }, { "n", "n2", "n3" }

local function new_maker(items)
  local dims = math.max(items, 1)
  return setmetatable({ numbers = {}, counters = { unpack(coordinates, 1, dims) }, flags = {},
    tables = {}, few = {}, structs = {}, places = {}, names = 0, depth = 0, lines = {}, dims = dims,
    is_alone = items == 0, items = table.concat(coordinates, "][", 1, dims) }, Maker)
end

function Maker:put(text, ...)
  table.insert(self.lines, ("  "):rep(self.depth + 1) .. text:format(...))
end

function Maker:name(letter)
  self.names = self.names + 1
  return letter .. self.names
end

-- ---- whole numbers, which stay small ----------------------------------------------------

local whole = {
  function() return tostring(random(-5, 5)) end,
  function(self, d) return ("(%s + %s)"):format(self:whole(d), self:whole(d)) end,
  function(self, d) return ("(%s - %s)"):format(self:whole(d), self:whole(d)) end,
  function(self, d)
    return ("math.%s(%s, %s)"):format(pick { "min", "max" }, self:whole(d), self:whole(d))
  end,
  function(self, d)
    return ("math.%s(%s, -(%s), %s)"):format(pick { "min", "max" }, self:whole(d), self:whole(d),
      self:whole(d))
  end,
  function(self, d) return ("celer.clamp(%s, -2, %s)"):format(self:whole(d), self:whole(d)) end,
  function(self, d) return ("(%s %% %d)"):format(self:whole(d), random(1, 9)) end,
  function(self, d) return ("math.floor(%s / %d)"):format(self:whole(d), random(1, 5)) end,
  function(self, d) return ("(%s * %d)"):format(self:whole(d), random(-3, 3)) end,
  function(self, d) return ("(-(%s))"):format(self:whole(d)) end,
  function(self, d) return ("math.abs(%s)"):format(self:whole(d)) end,
  function(self, d)
    return ("bit.%s(%s, %s)"):format(pick { "band", "bor", "bxor" }, self:whole(d), self:whole(d))
  end,
}

function Maker:whole(d)
  if d <= 0 or random(4) == 1 then return pick(self.counters) end
  return pick(whole)(self, d - 1)
end

-- The smaller or larger of numbers that may be fractions that were rounded, or NaN.
function Maker:brought(d)
  local r = random(4)
  if d > 0 and r > 1 then
    return ("math.%s(%s, %s)"):format(pick { "min", "max" }, self:brought(d - 1),
      self:brought(d - 1))
  end
  return pick { "%s", "math.floor(%s * 0.75)", "(%s %% (i - i))" }:format(self:whole(1))
end

-- Two choices by one bound: what compilers make one of, which is another for -0 and NaN.
function Maker:chosen(d)
  local x = pick { "(%s)", "-(%s)", "(%s %% (i - i))" }:format(self:number(d))
  local bound = pick { "0", "-0.0", "2", "i", "(i - i)" }
  for _ = 1, 2 do
    local a, b = x, bound
    if random(2) == 1 then a, b = b, a end
    x = pick { "math.min(A, B)", "math.max(A, B)", "(A < B and A or B)", "(A > B and A or B)" }
      :gsub("[AB]", { A = a, B = b })
  end
  return x
end

-- A whole number that an integer may not hold.
function Maker:far(d)
  return pick { "math.floor(%s * 1e10)", "math.floor(%s * -1e19)", "math.ceil(%s / (i - i))" }
    :format(self:number(d))
end

-- A condition that decides which index an item takes.
function Maker:side()
  local r, d = random(9), random(self.dims)
  local i, n = coordinates[d], extents[d]
  if r == 1 and not self.is_step then return ("(%s)"):format(self:condition(1)) end
  if r == 2 then return ("(%s > %d and %s < %s - 1)"):format(i, random(0, 1), i, n) end
  if r == 3 then return ("(%s <= 1 or %s == %s - 1)"):format(i, i, n) end
  if r == 4 and self.dims > 1 then return ("i + j < %d"):format(random(1, 6)) end
  if r <= 6 then return ("%s %s %s - 1"):format(i, pick { "==", "~=", "<" }, n) end
  return ("%s %s %d"):format(i, pick { "<", "<=", ">", ">=", "==", "~=" }, random(0, 2))
end

-- An index that is inside of dimension d, for whichever item.
local function arm(d)
  local i, n = coordinates[d], extents[d]
  return pick { i, i, "0", "1", n .. " - 1", n .. " - 1 - " .. i, n .. " - 2",
    ("math.floor(%s / 2)"):format(i), ("math.max(%s - 1, 0)"):format(i),
    ("math.min(%s + 1, %s - 1)"):format(i, n) }
end

-- The neighbour of dimension d on one side, and what stands for it where there is none.
function Maker:neighbour(d)
  local i, n, far, other = coordinates[d], extents[d], random(2), arm(d)
  return pick {
    ("(%s >= %d and %s - %d or %s)"):format(i, far, i, far, other),
    ("(%s < %d and %s or %s - %d)"):format(i, far, other, i, far),
    ("(%s + %d >= %s and %s or %s + %d)"):format(i, far, n, other, i, far),
    ("(%s ~= %s - 1 and %s + 1 or %s)"):format(i, n, i, other),
    ("(%s == 0 and %s or %s - 1)"):format(i, other, i),
    ("celer.select(%s, %s, %s)"):format(self:side(), arm(d), other),
    ("(%s and %s or %s)"):format(self:side(), arm(d), other),
    ("(%s and %s or %s and %s or %s)"):format(self:side(), arm(d), self:side(), arm(d),
      other),
  }
end

-- A local that is an index of dimension d, by conditions.
function Maker:place()
  local name, d, far, back = self:name "p", random(self.dims), random(2), random(2) == 1
  local i, n = coordinates[d], extents[d]
  self:put("local %s = %s %s %d", name, i, back and "-" or "+", far)
  self:put("if %s %s then", name, back and "< 0" or pick { ">= " .. n, "> " .. n .. " - 1" })
  self:put("  %s = %s", name, random(3) > 1 and arm(d)
    or ("%s %s %s"):format(name, back and "+" or "-", n))
  if random(3) == 1 then
    self:put("elseif %s then", self:side())
    self:put("  %s = %s", name, random(2) == 1 and self:neighbour(d) or arm(d))
  end
  self:put "end"
  if random(4) == 1 then self:put("if %s then %s = %s end", self:side(), name, arm(d)) end
  table.insert(self.places, { name = name, d = d })
end

-- An index inside of dimension d of the arrays.
function Maker:index_of(d, depth)
  local r, i, n = random(13), coordinates[d], extents[d]
  local place = #self.places > 0 and pick(self.places)
  if place and place.d == d and random(2) == 1 then return place.name end
  if r >= 12 then return self:neighbour(d) end
  if r == 1 or self.dims > 1 and random(2) == 1 then return i end
  if r == 2 then return ("math.max(math.min(%s, %s - 1), 0)"):format(self:whole(depth), n) end
  if r == 3 then return ("(%s %s %d) %% %s"):format(i, pick { "+", "-" }, random(0, 3), n) end
  if r == 4 and not self.is_step then
    return ("bit.band(%s, %d)"):format(self:whole(depth), self.dims == 1 and random(0, 31)
      or random(0, 2))
  end
  if r == 5 then return ("math.floor(%s / q)"):format(i) end
  if r == 6 then return ("math.min(%s * q + %d, %s - 1)"):format(i, random(0, 2), n) end
  if r == 8 then
    return ("(%s %s %s) %% %s"):format(i, pick { "+", "-" }, pick { "q", "back" }, n)
  end
  if r == 10 then return ("celer.clamp(%s, 0, %s - 1)"):format(self:brought(1), n) end
  if r == 11 then return ("math.max(math.min(%s, %s - 1), 0)"):format(self:brought(2), n) end
  if r == 9 then
    return pick { "math.max(%s - 1, 0)", "math.min(%s + 1, %s - 1)" }:format(i, n)
  end
  return ("(%s) %% %s"):format(self:whole(depth), n)
end

-- An element of an array.
function Maker:at(array, depth)
  local index = {}
  for d = 1, self.dims do index[d] = self:index_of(d, depth or 1) end
  if random(4) == 1 then return ("%s(%s)"):format(array, table.concat(index, ", ")) end
  return ("%s[%s]"):format(array, table.concat(index, "]["))
end

-- One that lies beside the item, also beyond the edges.
function Maker:beside()
  if self.is_alone then return pick { self:at "e", "a()", "d()", "f()" } end
  local index = {}
  for d = 1, self.dims do
    local i = coordinates[d]
    index[d] = random(2) == 1 and i or i .. pick { " - 1", " + 1", " + " .. random(-3, 3),
      " + (" .. self:whole(1) .. ") % 3" }
  end
  return ("e[%s]"):format(table.concat(index, "]["))
end

-- ---- numbers and conditions -------------------------------------------------------------

-- An element of a table that the function has made, of [first, first + 3).
function Maker:element(d)
  local one = pick(self.tables)
  if random(2) == 1 then return ("%s[%d]"):format(one.name, one.first + random(0, 2)) end
  return ("%s[(%s) %% 3 + (%d)]"):format(one.name, self:whole(d), one.first)
end

local literals = { "0", "1", "2", "3", "-1", "0.5", "-2.5", "1e-3", "7", "100", "0.1" }

local function operator(signs)
  return function(self, d)
    return ("(%s %s %s)"):format(self:number(d), pick(signs), self:number(d))
  end
end

local numbers = {
  function(self) return self:at "u" end,
  function(self) return self:at(self.floats and "g" or "u") end,
  function(self) return self:at(self.floats and "g" or "u") end,
  function(self) return self:at "w" end,
  function(self)
    local out = self.floats and pick { "v", "h", "o" } or pick { "v", "o" }
    return ("%s[%s]"):format(out, self.items)
  end,
  function(self)
    return (#self.structs > 0 and random(3) > 1 and pick(self.structs) or self:at "b")
      .. (self.floats and pick { ".x", ".y", ".n", ".z.x", ".z.y" } or pick { ".y", ".n" })
  end,
  function(self) return self:whole(2) end,
  function(self) return self:beside() end,
  function(self)
    return ("math.floor((%s - %s) / %s)"):format(self:at "w", self:whole(1), pick { "2", "3", "q" })
  end,
  function(self)
    return ("(%s %s %s)"):format(pick { "2", "o[" .. self.items .. "]", "i", "1" },
      pick { "+", "-", "*", "%" }, self:at "w")
  end,
  operator { "+", "-", "*" }, operator { "+", "-", "*" }, operator { "/" }, operator { "%" },
  function(self, d)
    return ("power%s(%s)"):format(pick { "2", "3", "4", "_half", "_1", "_2" }, self:number(d))
  end,
  function(self)
    return ("celer.philox(%s, %s, %s, %s)"):format(pick { "7", "n", "i" }, self:whole(1),
      self:whole(1), pick { "0", "1", "2", "i" })
  end,
  function(self, d) return ("(-(%s))"):format(self:number(d)) end,
  function(self, d)
    return ("math.%s(%s, %s)"):format(pick { "min", "max" }, self:number(d), self:number(d))
  end,
  function(self, d)
    return ("celer.clamp(%s, %s, %s)"):format(self:number(d), pick(literals), self:number(d))
  end,
  function(self, d) return self:chosen(d) end,
  function(self, d) return ("math.%s(%s)"):format(pick { "floor", "abs" }, self:number(d)) end,
  -- LuaJIT itself gives 0 or -0 for ceil(-0.7), by whether it has compiled the line.
  function(self, d) return ("(math.ceil(%s) + 0)"):format(self:number(d)) end,
  function(self, d) return ("math.sqrt(math.abs(%s))"):format(self:number(d)) end,
  function(self, d)
    local condition = self:condition(d)
    return (#condition % 2 == 0 and "(%s and %s or %s)" or "celer.select(%s, %s, %s)"):format(
      condition, self:number(d), self:number(d))
  end,
  function(self, d) return ("(%s or %s)"):format(self:number(d), self:number(d)) end,
  function(self)
    return pick { "c", "x", "u.size[0]", "p.feed", "s", "z", self.floats and "y" or "s" }
  end,
  function(self, d) return ("helper(%s, %s)"):format(self:number(d), self:number(d)) end,
  function(self) return ("t[(%s) %% 4]"):format(self:whole(1)) end,
  -- By a counter of few turns: an element of a list, or a number.
  function(self)
    if #self.few == 0 then return "t[2]" end
    return pick { "t[%s %% 4]", "l[%s]", "(l[%s] * q)", "%s",
      ("u[(i - l[%%s]) %%%% n]%s"):format(("[0]"):rep(self.dims - 1)) }:format(pick(self.few))
  end,
  function(self, d)
    if #self.tables == 0 then return "2" end
    return random(6) > 1 and self:element(1) or ("total(%s, %d)"):format(
      self.tables[#self.tables].name, self.tables[#self.tables].first)
      .. (d > 1 and " * " .. self:number(d - 1) or "")
  end,
}

function Maker:number(d)
  if d <= 0 or random(12) == 1 then
    return #self.numbers > 0 and random(3) > 1 and pick(self.numbers) or pick(literals)
  end
  return pick(numbers)(self, d - 1)
end

function Maker:condition(d)
  local r = random(9)
  if #self.few > 0 and random(2) == 1 then
    return ("%s %s %d"):format(pick(self.few), pick { "<", "<=", ">", ">=", "==", "~=" },
      random(-1, 4))
  end
  if d <= 0 or r <= 4 then
    local sign = pick { "<", "<=", ">", ">=", "==", "~=" }
    local depth = math.min(d, 1)
    return ("%s %s %s"):format(self:number(depth), sign, self:number(depth))
  end
  if r == 5 then return ("((%s) and (%s))"):format(self:condition(d - 1), self:condition(d - 1)) end
  if r == 6 then return ("((%s) or (%s))"):format(self:condition(d - 1), self:condition(d - 1)) end
  if r == 7 then return ("not (%s)"):format(self:condition(d - 1)) end
  return r == 8 and #self.flags > 0 and pick(self.flags) or "flag"
end

-- A struct.
function Maker:made(d)
  return ("{ x = %s, y = %s, n = %s, z = %s }"):format(self:number(d), self:number(d),
    random(4) == 1 and self:far(1) or self:whole(d), random(2) == 1 and self:at "b" .. ".z"
      or ("{ x = %s, y = %s }"):format(self:number(1), self:number(1)))
end

-- An assignment to an element of the item.
function Maker:store(d)
  local at = self.items
  if self.is_alone and random(3) == 1 then
    local name = pick { "a", "d", "f" }
    return self:put("%s:set(%s)", name, name == "f" and self:whole(d) or self:number(d))
  end
  local r = random(7)
  if r <= 2 then return self:put("v[%s] = %s", at, self:number(d)) end
  if r <= 4 then return self:put("h[%s] = %s", at, self:number(d)) end
  if r == 5 then
    return self:put("o[%s] = %s", at, random(4) == 1 and self:far(1) or self:whole(d))
  end
  if r == 6 then
    return self:put("r[%s]%s = %s", at, pick { ".x", ".y", ".z.x", ".z.y" }, self:number(d))
  end
  r = random(4)
  if r == 1 then return self:put("r[%s] = %s", at, self:at "b") end
  if r == 2 then return self:put("r[%s].n = %s", at, self:whole(d)) end
  if r == 3 then return self:put("r[%s] = %s", at, self:made(d)) end
  local name = self:name "m"
  self:put("local %s = %s", name, self:made(d))
  self:put("if %s then %s%s = %s end", self:condition(1), name, pick { ".x", ".y" }, self:number(1))
  self:put("r[%s] = %s", at, name)
end

-- ---- statements ---------------------------------------------------------------------------

-- What f declares is forgotten after it.
function Maker:scope(f)
  local lists = { self.numbers, self.counters, self.flags, self.tables, self.few, self.structs,
    self.places }
  local counts = {}
  for k, list in ipairs(lists) do counts[k] = #list end
  self.depth = self.depth + 1
  f()
  self.depth = self.depth - 1
  for k, list in ipairs(lists) do
    while #list > counts[k] do table.remove(list) end
  end
end

function Maker:block(d, most, in_loop)
  self:scope(function()
    for _ = 1, random(most) do self:statement(d - 1, in_loop) end
  end)
end

local statements = {
  function(self)
    local name = self:name "a"
    self:put("local %s = %s", name, self:number(3))
    table.insert(self.numbers, name)
  end,
  function(self)
    if #self.numbers > 0 then self:put("%s = %s", pick(self.numbers), self:number(3)) end
  end,
  function(self) self:place() end,
  function(self)
    local name = self:name "b"
    self:put("local %s = %s", name, self:condition(2))
    table.insert(self.flags, name)
  end,
  function(self, d, in_loop)
    if d <= 0 then return end
    self:put("if %s then", self:condition(2))
    self:block(d, 3, in_loop)
    if random(2) == 1 then
      self:put("elseif %s then", self:condition(1))
      self:block(d, 2, in_loop)
    end
    if random(2) == 1 then
      self:put "else"
      self:block(d, 3, in_loop)
    end
    self:put "end"
  end,
  function(self, d)
    if d <= 0 then return end
    local name = self:name "k"
    self:put("for %s = %s, %s%s do", name, pick { "-1", "0", "1", "i", "math.max(i - 2, 0)" },
      pick { "1", "3", "2", "n - 1", "i + 2" }, pick { "", "", ", 2" })
    self:scope(function()
      table.insert(self.counters, name)
      self:block(d, 3, true)
    end)
    self:put "end"
  end,
  function(self, d)
    if d <= 0 then return end
    local name = self:name "s"
    self:put("local %s = 0", name)
    self:put("while %s %s %s and %s do", name, pick { "<", "<=" },
      pick { random(6), "q", "n", "x" }, self:condition(1))
    self:put("  %s = %s + 1", name, name)
    self:block(d, 2, true)
    self:put "end"
    table.insert(self.numbers, name)
  end,
  function(self, d)
    if d <= 0 then return end
    local name = self:name "s"
    self:put("local %s = 0", name)
    self:put "repeat"
    self:put("  %s = %s + 1", name, name)
    self:block(d, 2, true)
    self:put("until %s > %d or %s", name, random(4), self:condition(1))
    table.insert(self.numbers, name)
  end,
  function(self, d, in_loop)
    if in_loop and d >= 0 then self:put("if %s then break end", self:condition(1)) end
  end,
  function(self) self:store(2) end, function(self) self:store(2) end,
  function(self)
    local rest = self.items:sub(2)
    self:put("if i ~= 0 then %s[%s] = u[i - 1%s] * %s end", pick { "v", "h" }, self.items, rest,
      self:number(1))
  end,
  function(self)
    local far, rest, out = random(2), self.items:sub(2), pick { "v", "h" }
    self:put("if i < %d or i == n - 1 or i == n - 2 then", far)
    self:put("  %s[%s] = %s", out, self.items, self:number(1))
    self:put("else")
    self:put("  %s[%s] = %s[i - %d%s] + w[i + %d%s]", out, self.items,
      self.floats and "g" or "u", far, rest, random(2), rest)
    self:put("end")
  end,
  -- What lies at a multiple of a coordinate, where that is inside.
  function(self)
    local name, d, by, out = self:name "p", random(self.dims), random(2, 3), pick { "v", "h" }
    local i, n = coordinates[d], extents[d]
    self:put("local %s = %s", name, pick { "%d * %s - %d", "%d * %s + %d", "%d - %s * %d" }:format(
      by, i, random(0, 5)))
    self:put("if %s then", pick { "%s >= 0 and %s < %s", "%s > 0 and not (%s >= %s)" }:format(name,
      name, n))
    self:scope(function()
      for _ = 1, 2 do table.insert(self.places, { name = name, d = d }) end
      self:put("  %s[%s] = %s * %s", out, self.items, self:at(self.floats and "g" or "u"),
        self:at "w")
    end)
    self:put "end"
  end,
  function(self)
    local name = self:name "e"
    self:put("local %s = %s", name, self:at "b")
    table.insert(self.structs, name)
  end,
  -- What goto makes: a part that is left out, and a loop.
  function(self, d, in_loop)
    if d <= 0 then return end
    local name = self:name "skip"
    self:put("do")
    self:put("  if %s then goto %s end", self:condition(1), name)
    self:put("  do")
    self.depth = self.depth + 1
    self:block(d, 2, in_loop)
    self.depth = self.depth - 1
    self:put("  end")
    self:put("  ::%s::", name)
    self:put("end")
  end,
  function(self, d)
    if d <= 0 then return end
    local name = self:name "s"
    self:put("local %s = 0", name)
    self:put("::top_%s::", name)
    self:put("%s = %s + 1", name, name)
    self:put("do")
    self:block(d, 2, false)
    self:put("end")
    self:put("if %s < %d and %s then goto top_%s end", name, random(5), self:condition(1), name)
    table.insert(self.numbers, name)
  end,
  function(self)
    local name = self:name "m"
    self:put("local %s = { %s, %s, %s }", name, self:number(2), self:number(1), pick(literals))
    table.insert(self.tables, { name = name, first = 1 })
  end,
  function(self)
    local name, first = self:name "m", random(-2, 2)
    self:put("local %s = {}", name)
    local counter = self:name "k"
    self:put("for %s = %d, %d do", counter, first, first + 2)
    self:scope(function()
      table.insert(self.counters, counter)
      self:put("%s[%s] = %s", name, counter, self:number(2))
      table.insert(self.numbers, ("%s[%s]"):format(name, counter))
      if random(2) == 1 then self:block(1, 2, false) end
    end)
    self:put "end"
    table.insert(self.tables, { name = name, first = first })
  end,
  function(self)
    if #self.tables > 0 then self:put("%s = %s", self:element(1), self:number(2)) end
  end,
  function(self)
    if #self.tables == 0 then return end
    local name, element = self:name "a", self:element(1)
    self:put("local %s = %s", name, element)
    self:put("%s = %s", element, self:number(2))
    self:put("%s = %s + %s", self:element(0), name, element)
  end,
}

-- A loop that is written out, also in another one: with steps, breaks and what is left out.
function Maker:few_turns(d)
  if d <= 0 or #self.few > 1 then return end
  local sum = self:name "a"
  self:put("local %s = %s", sum, pick(literals))
  table.insert(self.numbers, sum)
  local name, first, last = self:name "k", random(-1, 1), random(2, 4)
  local down = random(3) == 1
  self:put("for %s = %d, %d%s do", name, down and last or first, down and first or last,
    down and ", -1" or pick { "", ", 1", ", 2" })
  self:scope(function()
    table.insert(self.counters, name)
    table.insert(self.few, name)
    if #self.tables > 0 then self:put("%s = %s", self:element(1), self:number(2)) end
    if random(3) == 1 then self:put("if %s then goto next_%s end", self:condition(1), name) end
    self:put("if %s <= %d then %s = %s + l[%s] * %s end", name, random(0, 2), sum, sum, name,
      self:number(2))
    self:put "do"
    self:block(d, 3, true)
    self:put "end"
    self:put("::next_%s::", name)
  end)
  self:put "end"
end

function Maker:statement(d, in_loop)
  if random(8) == 1 then return self:few_turns(d) end
  pick(statements)(self, d, in_loop)
end

local ALONE = 16 -- of so many functions one has no dimensions

--- A random function: the dimensions of its items, and the text of its body.
---@param number integer
---@return integer dims, string text
function M.body(number)
  local dims = pick { 1, 1, 2, 3 }
  if number % ALONE == 6 then dims = 0 end
  local self = new_maker(dims)
  self.floats = random(3) > 1
  for _ = 1, random(1, 5) do self:statement(3, false) end
  for _ = 1, 2 do self:store(3) end
  self:put("%s[%s] = %s", pick { "v", "h" }, self.items, self:number(3))
  return dims, table.concat(self.lines, "\n")
end

--- A random step of one or two dimensions, which reads u where branches say, and writes v at its
--- item. Of n and n2 it takes any that are at least 3.
---@return integer dims, string text
function M.step()
  local dims = random(2)
  local self = new_maker(dims)
  self.is_step = true
  for _ = 1, random(0, 2) do self:place() end
  local terms = { ("0.5 * u[%s]"):format(self.items) }
  for _ = 1, random(3) do
    local at = {}
    for d = 1, dims do at[d] = random(3) > 1 and self:neighbour(d) or self:index_of(d, 1) end
    terms[#terms + 1] = ("%s * u[%s]"):format(pick { "0.25", "-0.125" }, table.concat(at, "]["))
  end
  self:put("v[%s] = %s", self.items, table.concat(terms, " + "))
  return dims, table.concat(self.lines, "\n")
end

return M
