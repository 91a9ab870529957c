-- Kernels written in Lua: what they compute, what is derived of them, and what they refuse.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- interpret(f, range, ...) runs f for each item; array(extents, init) is what stands for a
-- buffer then, and equal(what, snapshot, array, extents) compares.
local setup = [[
local function array(extents, init, d, ...)
  d = d or 1
  if d > #extents then return init(...) end
  local t, at = {}, { ... }
  for i = 0, extents[d] - 1 do
    at[d] = i
    t[i] = array(extents, init, d + 1, unpack(at))
  end
  return t
end
local function interpret(f, range, ...)
  local given, n, at = { ... }, select("#", ...), {}
  local function go(d)
    if d > #range then
      local all = { unpack(at) }
      for k = 1, n do all[#range + k] = given[k] end
      return f(unpack(all, 1, #range + n))
    end
    for i = 0, range[d] - 1 do
      at[d] = i
      go(d + 1)
    end
  end
  go(1)
end
local function equal(what, s, t, extents, ...)
  local at = { ... }
  if #at == #extents then
    local x = s(...)
    if type(x) == "cdata" and type(t) == "number" then x = tonumber(x) end
    local function all(path, a, b)
      if type(b) ~= "table" then return same(path, a, b) end
      for name, y in celer.sorted_pairs(b) do all(path .. "." .. name, a[name], y) end
    end
    return all(what, x, t)
  end
  for i = 0, extents[#at + 1] - 1 do
    local next_at = { unpack(at) }
    next_at[#next_at + 1] = i
    equal(what, s, t[i], extents, unpack(next_at))
  end
end
-- f as a kernel against f in the interpreter. Arrays are {type, extents, init}.
local function compare(what, f, range, ...)
  local buffers, arrays = { ... }, { ... }
  for k, given in ipairs { ... } do
    if type(given) == "table" then
      buffers[k] = celer.buffer(given[1], given[2], { init = given[3] })
      arrays[k] = array(given[2], given[3])
    end
  end
  celer.kernel(f, { options = { cuda = { "-fmad=false" } } })(range, unpack(buffers))
  interpret(f, range, unpack(arrays))
  for k, given in ipairs { ... } do
    if type(given) == "table" then
      equal(what .. " " .. k, celer.wait(buffers[k]), arrays[k], given[2])
    end
  end
end
local min, max, floor = math.min, math.max, math.floor
]]

-- The shortest program that there is, as its lines stand in the guide.
local smooth = [[
local celer = require "celer"
local n = 1000
local u = celer.buffer("float", {n}, {init = function(i) return i end})
local v = celer.buffer("float", {n})
local smooth = celer.kernel(function(i, u, v)
  v[i] = (u[math.max(i - 1, 0)] + u[i] + u[math.min(i + 1, n - 1)]) / 3
end)
smooth({n}, u, v)
print(v(10))
]]

describe("a kernel written in Lua", function()
  for ranks = 1, 3 do
    it("needs nine lines, on " .. ranks .. " ranks", function()
      local path = scratch.path(".lua")
      scratch.write(path, smooth)
      local r = celer.run({ "run", path }, { ranks = ranks > 1 and ranks or nil })
      assert.equal("", r.stderr)
      assert.equal("10\n", r.stdout)
      assert.equal(0, r.status)
    end)
  end

  script.everywhere("rounds quotients of more than 32 bits as the interpreter does", setup .. [[
compare("quotients", function(i, w, v) v[i] = floor((w[i] - 2) / 3) end, { 3 },
  { "int", { 3 }, function(i) return i == 1 and -2 ^ 31 or i end },
  { "double", { 3 }, function() return 0 end })
]])

  -- An int holds the results, and not what they are computed of.
  script.everywhere("computes by way of integers of more than 32 bits", setup .. [[
compare("integers", function(i, w, v)
  local x = w[i] + 1
  v[i][0] = -x < 0 and 1 or 2
  v[i][1] = max(x, 1) - 5 < 0 and 1 or 2
  v[i][2] = -5 + max(x, 1) < 0 and 1 or 2
  v[i][3] = max(x, 2 ^ 31 - 9) * -1 < 0 and 1 or 2
end, { 3 }, { "int", { 3 }, function(i) return i == 1 and 2 ^ 31 - 1 or i end },
  { "int", { 3, 4 }, function() return 0 end })
]])

  script.everywhere("computes with elements of uint32_t as with other numbers", setup .. [[
celer.struct("counted", "uint32_t n; int by;")
compare("unsigned", function(i, w, v)
  v[i][0] = w[i] + w[i]
  v[i][1] = -w[i] < 0 and 1 or 2
  v[i][2] = w[i] - w[2 - i] < 0 and 1 or 2
  v[i][3] = floor((w[i] + w[1]) / 3)
end, { 3 }, { "uint32_t", { 3 }, function(i) return i == 1 and 2 ^ 32 - 1 or i end },
  { "double", { 3, 4 }, function() return 0 end })
local c = celer.buffer("counted", 3, { init = { n = 2 ^ 32 - 1, by = 2 } })
local v = celer.buffer("double", 3)
celer.kernel(function(i, c, v) v[i] = c[i].n * c[i].by end)({ 3 }, c, v)
same("of a struct", q:wait(v)(1), 2 ^ 33 - 2)
]])

  -- Of NaN, -0, 0, 1 and -2. 1 / x tells -0 from 0.
  script.everywhere("has minima of NaN, of -0 and of -x as the interpreter has them", setup .. [[
local function contents(i) return ({ 0, -0.0, 0, 1, -2 })[i + 1] end
local function number(x) return x == x and 1 / x or 7 end
for _, type_ in ipairs { "float", "double" } do
  compare("of " .. type_, function(i, u, w, v)
    local x = u[i] / w[i]
    v[i][0] = number(max(max(0, x), 0))
    v[i][1] = number(min(max(max(i, x), i), 2))
    v[i][2] = number(min(x, 0))
    v[i][3] = number(max(x, -0.0))
    v[i][4] = number(max(min(2, x), x))
    local y = x < 0 and 0 or x
    v[i][5] = number(y > 0 and y or 0)
    v[i][6] = number(celer.clamp(max(x, x % 0), 0, 4))
  end, { 5 }, { type_, { 5 }, contents }, { type_, { 5 }, function(i) return min(i, 1) end },
    { type_, { 5, 7 }, function() return 0 end })
end
compare("of integers", function(i, j, v)
  local k = 2 - j
  v[i][j] = min(min(i, -j), k) + 10 * max(max(k, -i), j) + 100 * min(celer.clamp(i * -2, -2, -i), j)
end, { 5, 5 }, { "int", { 5, 5 }, function() return 0 end })
]])

  -- What g++ makes of it: see compile_cpu.c.
  script.everywhere("chooses by two comparisons with NaN as the interpreter does", setup .. [[
local t = { [0] = 2, -1, 0, 5 }
local function number(x) return x == x and x or 7 end
compare("choices", function(i, v)
  v[i] = number((i > (i < (t[i % 4] % (i - i)) and i or (t[i % 4] % (i - i))) and i
    or (i < (t[i % 4] % (i - i)) and i or (t[i % 4] % (i - i)))))
end, { 5 }, { "float", { 5 }, function() return 0 end })
compare("others", function(i, v)
  local x = t[i % 4] / t[2]
  v[i][0] = number((i < x or x < i) and i or x)
  v[i][1] = number(max(i, min(i, x % 0)))
  local y = i
  if i < x then y = x elseif not (x < i) then y = x end
  v[i][2] = number(y)
  v[i][3] = celer.select(x > i, celer.select(not (i < 3), i, x), celer.select(i == 1, -0.0, 2))
end, { 5 }, { "float", { 5, 4 }, function() return 0 end })
]])

  script.everywhere("compares fractions that are whole as the interpreter does", setup .. [[
local t = { [0] = 2, -1, 0, 5 }
local function square(x) return x ^ 2 end
compare("a minimum of a maximum of a maximum", function(i, j, k, v)
  local none = 0
  v[i][j][k] = min(max(-(max(square(none), t[i % 4])), 2), 2)
end, { 3, 4, 5 }, { "double", { 3, 4, 5 }, function() return 0 end })
]])

  script.everywhere("makes integers of what they cannot hold as the processor does", setup .. [[
local function contents(i) return ({ 0 / 0, 1 / 0, -1 / 0, 1e19, -1e19, 2 ^ 40 + 5, -3 })[i + 1] end
local wanted = { 0, 0, 0, 0, 0, 5, -3 }
for _, type_ in ipairs { "float", "double" } do
  local u = celer.buffer(type_, 7, { init = contents })
  local v = celer.buffer("int", 7)
  local k = celer.kernel(function(i, u, v)
    v[i] = floor(u[i])
    if i == 1 then v[i] = floor(1e19) end
  end)
  k(7, u, v)
  for i = 0, 6 do
    same(type_ .. i, v(i), type_ == "float" and i == 5 and 0 or wanted[i + 1])
  end
end
local late = celer.buffer("int", 3)
celer.kernel(function(i, v) v[i] = math.ceil(celer.philox(i, 1, 1, 2) / i) end)(3, late)
same("a quotient by 0", late(0), 0)
]])

  script.everywhere("computes stencils as the interpreter does", setup .. [[
local n = 13
local function waves(i, j) return math.sin(3 * i + 7 * j) end
local function zero() return 0 end
compare("wave", function(y, x, up, u, c)
  local uy = u[min(y + 1, n - 1)][x] + u[max(y - 1, 0)][x]
  local ux = u[y][min(x + 1, n - 1)] + u[y][max(x - 1, 0)]
  up[y][x] = 2 * u[y][x] - up[y][x] + c * (ux + uy - 4 * u[y][x])
end, { n, n }, { "double", { n, n }, waves }, { "double", { n, n }, waves }, 0.25)
compare("life", function(y, x, board, after)
  local neighbours = 0
  for dy = -1, 1 do
    for dx = -1, 1 do
      if (dy ~= 0 or dx ~= 0) and y + dy >= 0 and y + dy < n and x + dx >= 0 and x + dx < n then
        neighbours = neighbours + board[y + dy][x + dx]
      end
    end
  end
  after[y][x] = (neighbours == 3 or neighbours == 2 and board[y][x] == 1) and 1 or 0
end, { n, n }, { "uint8_t", { n, n }, function(i, j) return (i * 7 + j * j * 3) % 5 < 2 and 1 or 0
  end }, { "uint8_t", { n, n }, zero })
compare("a torus of structs", function(y, x, a, b)
  local here, north, south = a[y][x], a[(y - 1) % n][x], a[(y + 1) % n][x]
  local west, east = a[y][(x - 1) % n], a[y][(x + 1) % n]
  b[y][x].x = here.x + north.x + south.x + west.x + east.x - 4 * here.x
  b[y][x].y = here.y * here.x - north.y
end, { n, n }, { "double2", { n, n }, function(i, j)
  return { x = waves(i, j), y = waves(j, i) }
end }, { "double2", { n, n }, function() return { x = 0, y = 0 } end })
compare("in space", function(z, y, x, heat, after)
  local here = heat[z][y][x]
  local dz = heat[min(z + 1, 6)][y][x] + heat[max(z - 1, 0)][y][x]
  after[z][y][x] = here + 0.125 * (dz + heat[z][max(y - 1, 0)][x] - 3 * here)
end, { 7, 6, 5 }, { "double", { 7, 6, 5 }, function(i, j, k) return waves(i, j + k) end },
  { "double", { 7, 6, 5 }, zero })
]])

  script.everywhere("makes structs, in loops, branches and one another", setup .. [[
local none = function() return { x = 0, y = 0 } end
local spot = function() return { at = { x = 0, y = 0 }, n = 0, m = 0 } end
celer.struct("spot_of", "float2 at; int n; double m;")
local two_of = 2.5
local function at(x) return { x = x, y = x / 2 } end
compare("vectors", function(i, a, b)
  a[i] = { x = i, y = a[i].x + 1 }
  local two = at(i)
  if i > 3 then two.y = 7 elseif i > 2 then two.x, two.y = two_of, 1 end
  b[i] = two
end, { 9 }, { "float2", { 9 }, none }, { "double2", { 9 }, none })
compare("structs", function(i, s)
  for k = 0, i do
    local one = { at = { x = k, y = -k }, n = k * 3, m = i / (k + 1) }
    if k == 2 then one.at = s[i].at end
    s[i] = one
  end
end, { 9 }, { "spot_of", { 9 }, spot })
]])

  script.everywhere("has Lua's loops, conditions, calls and numbers", setup .. [[
local n, k, flag, most = 24, 0.75, true, 100
local list, options = { [0] = 2, -1, 0, 5 }, { feed = 0.03, on = true }
local function zero() return 0 end
local function value(i) return i * 0.37 - 3 end
local function whole(i) return (i * 5) % 11 - 4 end
compare("loops", function(i, v)
  local s = 0
  for j = 3, -1, -1 do
    if j == i then goto continue end
    s = s + j * k
    ::continue::
  end
  while s < 5 do
    s = s + 1.5
    if s == 3 then break end
  end
  repeat
    local t = s - 1
    s = t
  until t < 2 or not flag
  v[i] = s
end, { n }, { "double", { n }, zero })
local function steps(x, y)
  local a, b, j = 0, 0, 0
  while j < most and a * a + b * b < 4 do
    a, b = a * a - b * b + x, 2 * a * b + y
    j = j + 1
  end
  return j
end
compare("a count", function(y, x, o) o[y][x] = steps(x / n - 1.5, y / n - 1) end, { n, n },
  { "int", { n, n }, zero })
local function both(a) if a > 3 then return a, -a end return -1, a end
compare("results and choices", function(i, u, v)
  local a, b = both(u[i])
  v[i] = (a > 0 and options.on) and a * options.feed or (b or 7) + list[i % 4]
end, { n }, { "double", { n }, value }, { "double", { n }, zero })
compare("numbers of Lua", function(i, w, v, o)
  local a = w[i]
  v[i] = a / 4 + a % 3 - a % -3 + (a + 0.5) % 1.5 + 2 ^ (a % 5) + (-a) ^ 2 + floor(a / 3)
  if v[i] ~= v[i] then v[i] = -1 end
  o[i] = floor(a / 2) * 3 + a % 7 - max(a, -a) + bit.bxor(bit.lshift(a, 3), 5) % 1000
end, { n }, { "int", { n }, whole }, { "double", { n }, zero }, { "int", { n }, zero })
compare("what is beyond an int", function(i, w, v)
  v[i] = (w[i] + w[n - 1 - i]) * 2 - w[i] % 1000 + -w[i]
end, { n }, { "int", { n }, function(i)
  return i % 2 == 0 and 2147483647 - i or -2147483648 + i
end }, { "double", { n }, zero })
compare("the sign of 0", function(i, v)
  v[i] = 1 / -(i % 2) + 1 / ((-i) + (i - i)) % 7
  if v[i] ~= v[i] then v[i] = 1 / ((-(i % 3)) + 0) end
end, { n }, { "double", { n }, zero })
compare("booleans", function(i, b, v)
  b[i] = not b[i] and i > 3
  v[i] = b[i] == flag and 1 or 0
end, { n }, { "bool", { n }, function(i) return i % 3 == 0 end }, { "double", { n }, zero })
]])

  script.everywhere("makes tables of an item's own", setup .. [[
local n = 10
local function zero() return 0 end
local function value(i, j) return math.sin(3 * i + 7 * (j or 0)) end
local weights = { [-1] = 0.25, [0] = 0.5, 0.25 }
local function dot(a, b)
  local s = 0
  for k = -1, 1 do s = s + a[k] * b[k] end
  return s
end
local function sort(a, most)
  for j = 2, most do
    for k = most, j, -1 do
      if a[k] < a[k - 1] then a[k], a[k - 1] = a[k - 1], a[k] end
    end
  end
end
compare("a median", function(i, j, u, v)
  local here = { 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  for a = -1, 1 do
    for b = -1, 1 do here[a * 3 + b + 5] = u[(i + a) % n][(j + b) % n] end
  end
  sort(here, 9)
  v[i][j] = here[5]
end, { n, n }, { "double", { n, n }, value }, { "double", { n, n }, zero })
compare("a stack, whose top the item moves", function(i, u, v)
  local stack, top = {}, 2
  for k = 0, 5 do stack[k] = 0 end
  for turn = 1, 20 do
    local at = celer.clamp(top, 0, 5)
    stack[at] = stack[at] + turn
    if u[(i + turn) % n] > 0 then top = top - 1 else top = top + 1 end
  end
  stack[celer.clamp(math.floor(-0.3 * u[i]), 0, 5)] = 100 -- also of -0
  v[i] = stack[0] + 2 * stack[1] + 3 * stack[2] + 4 * stack[3] + 5 * stack[4] + 6 * stack[5]
end, { n }, { "double", { n }, value }, { "double", { n }, zero })
compare("the sign of 0 in a table", function(i, v)
  local a = { 1, 1, 1 }
  for k = 1, 3 do a[k] = -(i % (k + 1)) end
  v[i] = 1 / a[i % 3 + 1]
end, { n }, { "double", { n }, zero })
compare("a product", function(i, u, v, w)
  local here, flags, total = {}, { true, false }, 0
  for k = -1, 1 do here[k] = u[(i + k) % n] end
  for turn = 1, 3 do
    local next = {}
    for k = -1, 1 do next[k] = here[k] * turn end
    total = total + dot(next, here)
    here[0] = next[1]
    flags[turn % 2 + 1] = turn > i
  end
  v[i] = flags[1] and total or -total
  local count = { i % 3, 2, 7 }
  count[2] = count[1] + count[3]
  w[i] = count[2] * count[i % 3 + 1]
end, { n }, { "double", { n }, value }, { "double", { n }, zero }, { "int", { n }, zero })
compare("floats", function(i, u, v)
  local a = { u[i], 0.5, u[i] * 0.5 }
  a[2] = a[1] + a[3]
  v[i] = a[2] * weights[0] + weights[1]
end, { n }, { "float", { n }, function(i) return i * 0.25 end }, { "float", { n }, zero })
]])

  script.everywhere("writes loops of few turns out, with lists as they are", setup .. [[
local n = 12
local dx, weight = { 0, 1, -1, 2 }, { 0.1, 0.25, -1.5, 3 }
local function value(i) return math.sin(3 * i) end
local function zero() return 0 end
local function f(i, u, v)
  local here, s = {}, 0
  for k = 1, 4 do here[k] = u[(i - dx[k]) % n] * weight[k] end
  for k = 4, 1, -1 do
    for j = 1, k do
      if j == 2 and here[k] > 0.3 then break end
      if k == 3 then goto continue end
      s = s + here[k] * here[j] / (k + j)
      ::continue::
    end
    here[k] = s
  end
  v[i] = s + here[2] - here[3]
end
compare("at first", f, { n }, { "double", { n }, value }, { "double", { n }, zero })
dx[2], weight[4] = 3, -0.125
compare("other lists", f, { n }, { "double", { n }, value }, { "double", { n }, zero })
local last = n - 1
local function clamped(i, u, v)
  local s = 0
  for k = -1, 1 do s = s * 0.5 + u[max(0, min(i + k, last))] end
  v[i] = s
end
local u, v = celer.buffer("double", n, { init = value }), celer.buffer("double", n)
local k = celer.kernel(clamped)
for turn = 1, 3 do -- an edge that items lie beyond, and not
  last = turn == 2 and 5 or n - 1
  k(n, u, v)
  local out = {}
  interpret(clamped, { n }, array({ n }, value), out)
  local s = celer.wait(v)
  for i = 0, n - 1 do same("clamped, turn " .. turn, s(i), out[i]) end
end
]])

  script.everywhere("takes captured values as they are at each submission", [[
local v = celer.buffer("double", 8)
local c, n, list, options, flag = 0.5, 8, { [0] = 1, 2, 3, 4 }, { feed = 1 }, true
local function helper(x) return x * 2 end
local k = celer.kernel(function(i, v)
  v[i] = helper(c) + list[i % 4] + options.feed + (i < n and 100 or 0) + (flag and 1000 or 0)
end)
local function variants()
  local count = 0
  for _, list_of in pairs(k.variants) do count = count + #list_of end
  return count
end
local function holds(what, first, last, wanted)
  k(8, v)
  same(what .. ", first", v(0), first)
  same(what .. ", last", v(7), last)
  same(what .. ", compiled", variants(), wanted)
end
holds("at first", 1103, 1106, 1)
c = 2
holds("another number", 1106, 1109, 1)
options.feed, flag = 7, false
holds("another field and flag", 112, 115, 1)
n = 4
holds("a bound", 112, 15, 2)
n = 4.5
holds("one that is no longer whole", 112, 15, 3)
n = 8
holds("again", 112, 115, 3)
list[3] = 40
holds("a list", 112, 151, 4)
helper = function(x) return x * 3 end
holds("a function", 114, 153, 5)
flag = nil
local ok, message = pcall(k, 8, v)
same("nil", not ok and message:match "case%.lua:6: (.*)",
  "'flag' is nil where the kernel is submitted")
]])

  -- Each turn is what a loop does, often enough for a road; then something is not what it was.
  script.everywhere("looks at what is new in each of many submissions", [==[
local n, m = 8, 8
local function value(i) return i + 1 end
local u = celer.buffer("double", n, { name = "u", init = value })
local w = celer.buffer("double", n, { name = "w", init = function(i) return 10 * i end })
local v = celer.buffer("double", n, { name = "v", init = 0 })
local c, at, flag, list, options = 0.5, 2, true, { [0] = 1, 2, 3, 4 }, { feed = { rate = 1 } }
local function helper(x) return x * 2 end
local unused = celer.buffer("int", n, { name = "unused", init = 0 })
local k = celer.kernel(function(i, u, v, dt, shift, none)
  if i < m then
    v[i] = u[math.min(i + shift, n - 1)] * dt + helper(c) + list[i % 4] + options.feed.rate
      + (flag and 1000 or 0) + at
  end
end)
local range, dt, shift, from = { n }, 3, 1, u
local function wanted(i)
  if i >= m then return -1 end
  local j = math.min(i + shift, n - 1)
  local x = from == u and value(j) or 10 * j
  return x * dt + helper(c) + list[i % 4] + options.feed.rate + (flag and 1000 or 0) + at
end
local step = q:group(function(cg, from, v, dt, shift)
  cg:parallel_for(range, k, from, v, dt, shift, unused)
end)
local function holds(what, first, last)
  for turn = 1, 8 do
    v:fill(-1)
    if turn % 2 == 0 then
      step(from, v, dt, shift)
    else
      k(type(range) == "table" and not getmetatable(range) and { unpack(range) } or range, from,
        v, dt, shift, unused)
    end
    local s = celer.wait(v)
    for i = 0, n - 1 do
      local inside = i >= (first or 0) and i < (last or n)
      same(what .. ", turn " .. turn, s(i), inside and wanted(i) or -1)
    end
  end
end
holds "at first"
dt = 0.25 holds "a fraction"
dt = 7 holds "a number"
c = 2 holds "a captured number"
at = 2.5 holds "a captured fraction"
flag = false holds "a flag"
flag = true holds "the flag again"
shift = 2 holds "what the mapper holds"
shift = 0 holds "nothing"
from = w holds "another buffer"
from = u
helper = function(x) return x * 3 end
holds "a function"
list[2] = 40 holds "an element of a list"
list = { [0] = 1, 2, 3, 5 } holds "a list"
options.feed.rate = 5 holds "a field"
options.feed = { rate = 6 } holds "a table"
options = { feed = { rate = 8 } } holds "a table of tables"
local floor_of = math.min
math.min = function(a, b) if a < b then return a end return b end
holds "a function of math"
math.min = floor_of
m = 3 holds "a bound"
m = 8 holds "the bound again"
range = n holds "a range as a number"
range = { 5 } holds("a shorter range", 0, 5)
range = celer.box({ 2 }, { 6 }) holds("a box", 2, 6)
range = { n } holds "the range again"
local function refused(what, message, ...)
  local ok, said = pcall(k, ...)
  same(what, not ok and said:match(message), message:gsub("%%", ""))
end
refused("too few", "it was given 4 arguments", { n }, u, v, dt, shift)
refused("too many", "it was given 6 arguments", { n }, u, v, dt, shift, unused, 3)
refused("too many, nil", "it was given 6 arguments", { n }, u, v, dt, shift, unused, nil)
refused("the same", "is written: give two buffers", { n }, v, v, dt, shift, unused)
refused("no number", "is a string", { n }, u, v, "x", shift, unused)
local short = celer.buffer("double", n - 1, { name = "short", init = 0 })
refused("too short", "for an item of the range", { n }, short, v, dt, shift, unused)
flag = nil
refused("nil", "'flag' is nil", { n }, u, v, dt, shift, unused)
flag = true
u:free()
refused("freed", "was freed", { n }, u, v, dt, shift, unused)
unused:free()
refused("freed, and not used", "was freed", { n }, w, v, dt, shift, unused)
]==])

  script.everywhere("asks a mapper again that sees another number", [==[
local n, reach, more = 64, 1, 0
local u, v = celer.zeros("double", n), celer.zeros("double", n)
local function further(r) return r + more end
local near = celer.access(u, function(chunk) return chunk:grow(further(reach)) end)
local turn = celer.kernel(function(i, u) u[i] = u[i] + i end)
local k = celer.kernel(function(i, u, v, m)
  local sum = 0
  for j = -m, m do
    local at = i + j
    if at >= 0 and at < n then sum = sum + u[at] end
  end
  v[i] = sum
end)
for step = 1, 12 do
  reach, more = step > 4 and 3 or 1, step > 8 and 2 or 0
  local m = reach + more
  turn(n, u)
  k(n, near, v, m)
  same("step " .. step, v(32), 32 * (2 * m + 1) * step)
  same("an end, step " .. step, v(0), m * (m + 1) / 2 * step)
end
]==])

  it("has the line of each submission", function()
    local path = scratch.path(".lua")
    scratch.write(path, [[
local celer = require "celer"
local n = 800
local u = celer.buffer("double", n, { name = "u", init = 1 })
local index = celer.buffer("int", n, { name = "index", init = function(i) return i end })
local wrong = celer.buffer("int", n, { name = "index", init = function(i) return i + n end })
local v = celer.buffer("double", n, { name = "v" })
local gather = celer.kernel(function(i, u, index, v) v[i] = u[index[i] ] end)
for _ = 1, 8 do gather(n, celer.access(u, celer.all), index, v) end
celer.wait()
gather(n, celer.access(u, celer.all), wrong, v)
celer.wait()
]])
    local r = celer.run { "run", "--check-bounds", path }
    assert.matches("%.lua:10: ", r.stderr)
    assert.not_equal(0, r.status)
  end)

  -- So many counts are printed, of submissions that went the long way.
  local function are_few(counts, r)
    assert.equal("", r.stderr)
    for count in r.stdout:gmatch "%d+" do
      counts = counts - 1
      assert.is_true(tonumber(count) < 8, r.stdout)
    end
    assert.equal(0, counts, r.stdout)
  end

  it("is submitted the short way", function()
    local r = script.run([[
local functions = require "celer.kernel.from_lua.function"
local long, was = 0, functions.arrange
function functions.arrange(...)
  long = long + 1
  return was(...)
end
local n, dt = 16, 1
local u = celer.buffer("double", n, { init = 1 })
local v = celer.buffer("double", n, { init = 1 })
local k = celer.kernel(function(i, u, v, dt) v[i] = u[math.max(i - 1, 0)] * dt end)
local edges = celer.kernel(function(i, u, v, dt) v[i] = u[i - 1] * dt end)
local function steps(f)
  long = 0
  for _ = 1, 50 do
    f()
    u, v, dt = v, u, dt * 0.9
  end
  print(long)
end
steps(function() k({ n }, u, v, dt) end)
steps(function() edges({ n }, celer.periodic(u), v, dt) end)
steps(function() edges({ n }, celer.constant(u, 3), v, dt) end)
steps(function() q:submit(function(cg) cg:parallel_for({ n }, k, u, v, dt) end) end)
steps(function() celer.parallel_for(n, k, celer.access(u, celer.all), v, dt) end)
local step = q:group(function(cg, a, b, dt) cg:parallel_for({ n }, k, a, b, dt) end)
steps(function() step(u, v, dt) end)
local named = q:group(function(cg, a, dt)
  cg:name "step"
  cg:parallel_for(n, k, cg:read(a, celer.all), v, dt)
end)
steps(function() named(u, dt) end)
local f, g = celer.zeros("double", { 9, n, n }), celer.zeros("double", { 9, n, n })
local weight, to_y, to_x = { 9, 8, 7, 6, 5, 4, 3, 2, 1 }, { 0, 0, 0, 1, 1, 1, -1, -1, -1 },
  { 0, 1, -1, 0, 1, -1, 0, -1, 1 }
local most = n - 1
local lattice = celer.kernel(function(y, x, f, g, dt)
  for d = 1, 9 do
    local i, j = math.max(math.min(y - to_y[d], most), 0), math.max(math.min(x - to_x[d], most), 0)
    g[d - 1][y][x] = weight[d] * dt * f[d - 1][i][j]
  end
end)
steps(function() lattice({ n, n }, f, g, dt) end) -- nine boxes, and what they captured
]], { devices = 1 })
    are_few(8, r)
  end)

  it("in C++ is submitted the short way, too, where it is called", function()
    local r = script.run([[
local by_signature = require "celer.kernel.by_signature"
local long, was = 0, by_signature.accesses
function by_signature.accesses(...)
  long = long + 1
  return was(...)
end
local n, by = 16, 1
local u, v = celer.ones("double", n), celer.ones("double", n)
local k = celer.kernel [=[
  kernel void step(item<1> it, near<double, 1> u, out<double, 1> v, double by) {
    v(it[0]) = by * (u(it[0] - 1) + u(it[0] + 1));
  }
  kernel void total(item<1> it, in<double, 1> u, inout<double, 1> v) {
    double sum = 0;
    for (int i = 0; i < 16; ++i) sum += u(i);
    v(it[0]) += sum;
  }
]=]
local around, all = { [u] = celer.periodic(1), [v] = celer.mirrored(1) }, celer.all
local function steps(f)
  long = 0
  for _ = 1, 50 do
    f()
    u, v, by = v, u, by * 0.7
  end
  print(long)
end
steps(function() k.step({ n }, celer.access(u, around[u]), v, by) end)
steps(function() k.total(n, celer.access(u, all), v) end)
local function wide(chunk) return chunk:grow(n) end
steps(function() celer.parallel_for(n, k.total, celer.access(u, wide), v) end)
]], { devices = 1 })
    are_few(3, r)
  end)

  script.everywhere("is submitted in several ways", [==[
local n = 12
local a = celer.buffer("int", { n, n }, { name = "a", init = function(i, j) return i + j end })
local b = celer.buffer("int", { n, n }, { name = "b", init = function(i, j) return i - j end })
local c = celer.buffer("int", { n, n }, { name = "c" })
local product = celer.kernel(function(i, j, a, b, c)
  local sum = 0
  for k = 0, a:extent(1) - 1 do sum = sum + a[i][k] * b(k, j) end
  c[i][j] = sum
end, { name = "double" }) -- also a word of C++
same("its name", product.name, "double")
local function wanted(i, j)
  local sum = 0
  for k = 0, n - 1 do sum = sum + (i + k) * (k - j) end
  return sum
end
local function holds(what)
  same(what, c(3, 4), wanted(3, 4))
  c:fill(0)
end
product({ n, n }, a, b, c)
holds "by itself"
q:parallel_for({ n, n }, product, a, b, c)
holds "to a queue"
celer.parallel_for(celer.box({ 3, 4 }, { 4, 5 }), product, a, b, c)
holds "for a box"
q:submit(function(cg) cg:parallel_for({ n, n }, product, a, b, c) end)
holds "in a group"
q:submit(function(cg)
  local ra, rb, w = cg:read(a, celer.slice(1)), cg:read(b, celer.slice(0)), cg:discard_write(c)
  cg:name "of one's own"
  cg:parallel_for({ n, n }, product, ra, rb, w)
end)
holds "with accesses"
celer.submit(function(cg) cg:parallel_for({ n, n }, product, celer.access(a, celer.all), b, c) end)
holds "with a mapper"
same("accesses", product:accesses({ n, n }, a, b, c), table.concat({
  "read          a: celer.box({ chunk.min[0], 0 }, { chunk.max[0], a_size_1 })",
  "read          b: celer.box({ 0, chunk.min[1] }, { a_size_1, chunk.max[1] })",
  "discard_write c: celer.box({ chunk.min[0], chunk.min[1] }, { chunk.max[0], chunk.max[1] })" },
  "\n"))
same("source", product:source():match "kernel void ([%w_]+)", "double_")
same("info", product:info().backend ~= nil, true)
local turns = celer.kernel(function(i, v)
  local x, k = 1, 0
  while k < i and x < 4.5 do x, k = x * 1.5 + v[i], k + 1 end
  if x > 4.5 then v[i] = -k else v[i] = k end
end)
local counts = celer.zeros("double", 6)
turns(6, counts)
same("two conditions", counts(3) + 10 * counts(4) + 100 * counts(5), 3 - 40 - 400)
same("as one", select(2, turns:source():gsub(" && ", "")), 1)
same("with one bound", select(2, turns:source():gsub("lua::opaque", "")), 1)
local sum, largest = celer.buffer("double"), celer.buffer("double")
local histogram = celer.buffer("int", 4, { init = 1 })
local reduce = celer.kernel(function(i, j, a, s, m, h)
  s:add(a[i][j])
  m:max(a[i][j] / 2)
  h[(i + j) % 4]:add(1)
end)
reduce({ n, n }, a, celer.sum(sum), celer.reduce(largest, "max"),
  celer.sum(histogram, { include_current = true }))
same("a sum", sum(), n * n * (n - 1))
same("a maximum", largest(), n - 1)
same("a histogram", histogram(1), 1 + n * n / 4)
q:submit(function(cg)
  cg:parallel_for({ n, n }, celer.kernel(function(i, j, a, s) s:add(a[i][j]) end), a,
    cg:reduce(sum, "sum"))
end)
same("a sum in a group", sum(), n * n * (n - 1))
local index = celer.buffer("int", n, { init = function(i) return n - 1 - i end })
local x, y = celer.buffer("float", n, { init = function(i) return i end }), celer.buffer("float", n)
local gather = celer.kernel(function(i, x, index, y) y[i] = x[index[i]] end)
gather(n, celer.access(x, celer.all), index, y)
same("a gather", y(2), n - 3)
same("a fence", celer.fence(y):get()(0), n - 1)
same("after a drain", celer.drain(y)(1), n - 2)
gather(n, celer.access(x, celer.all), index, y)
same("a queue anew", y(11), 0)
]==])

  script.everywhere("has the random numbers of the script and of kernels in C++", [==[
local n, seed, draw = 40, 2 ^ 40 + 3, celer.philox
local v, w = celer.buffer("double", { n, 4 }), celer.buffer("double", { n, 4 })
celer.kernel(function(i, v, step)
  for k = 0, 3 do v[i][k] = celer.philox(seed, i - 5, step, k) + draw(7, 1) end
end)(n, v, 9)
local cpp = celer.kernel [[
  kernel void cpp(item<1> it, out<double, 2> w, double with) {
    philox random((1ULL << 40) + 3, it[0] - 5, 9);
    for (int k = 0; k < 4; ++k) w(it[0], k) = random.uniform_double() + with;
  }
]]
local function rows(chunk) return celer.box({ chunk.min[0], 0 }, { chunk.max[0], 4 }) end
q:submit(function(cg) cg:parallel_for(n, cpp, cg:discard_write(w, rows), celer.philox(7, 1)) end)
local a, b = celer.wait(v, w)
for i = 0, n - 1 do
  for k = 0, 3 do
    local wanted = celer.philox(seed, i - 5, 9, k) + celer.philox(7, 1)
    same("in Lua", a(i, k), wanted)
    same("in C++", b(i, k), wanted)
  end
end
q:submit(function(cg)
  cg:host_task(celer.once, function(_, wanted)
    same("in a host task", celer.philox(7, 1), wanted)
  end, celer.philox(7, 1))
end)
]==])

  script.everywhere("has small powers as products, and the root as the root", [==[
local n = 64
local u = celer.buffer("double", n, { init = function(i)
  local odd = { 0, -1 / (1 / 0), 1, -1, 2, -3, 1e200, -1e-200, 1 / 0, -1 / 0, 0 / 0 }
  return odd[i] or math.sin(i) * 10 ^ (i % 9)
end })
local v = celer.buffer("double", { n, 8 })
local two, half = 2, 0.5
celer.kernel(function(i, u, v)
  local x = u[i]
  v[i][0], v[i][1], v[i][2], v[i][3] = x ^ 2, x ^ 3, x ^ 4, x ^ -1
  v[i][4], v[i][5], v[i][6], v[i][7] = x ^ -2, x ^ 0.5, math.pow(x, two), x ^ half
end)(n, u, v)
local s, x_of = celer.wait(v, u)
for i = 0, n - 1 do
  local x = x_of(i)
  local root = x == -math.huge and math.huge or math.sqrt(x + 0)
  local y = x * x
  local powers = { [0] = y, y * x, y * y, 1 / x, 1 / y, root, y, root }
  for k, wanted in pairs(powers) do
    local got = s(i, k)
    if wanted == wanted then
      same("power " .. k .. " of " .. x, got, wanted)
      same("its sign", 1 / got, 1 / wanted)
    else
      same("power of what is none", got ~= got, true)
    end
  end
end
]==])

  script.everywhere("reads beyond edges what they say", [==[
local n, m = 9, 7
local function value(i, j) return i * 100 + (j or 0) + 1 end
local function inside(i, size) return i >= 0 and i < size end
local leads = { periodic = function(i, size) return i % size end,
  clamped = function(i, size) return math.max(0, math.min(i, size - 1)) end,
  mirrored = function(i, size) return i < 0 and -1 - i or i < size and i or 2 * size - 1 - i end,
  constant = function(i, size) return inside(i, size) and i or nil end }
local function wanted(kind, i, j)
  local y, x = leads[kind](i, n), leads[kind](j, m)
  return y and x and value(y, x) or 7
end
local function with_edge(kind, buffer, ...)
  if kind == "constant" then return celer.constant(buffer, 7, ...) end
  return celer[kind](buffer, ...)
end
local function edge(kind, ...)
  if kind == "constant" then return celer.constant(7, ...) end
  return celer[kind](...)
end
local u = celer.buffer("int", { n, m }, { name = "u", init = value })
local v = celer.buffer("int", { n, m }, { name = "v" })
local cross = celer.kernel(function(i, j, u, v)
  v[i][j] = u[i - 2][j] * 3 + u[i + 1][j] + u[i][j - 1] * 5 + u(i, j + 1)
end)
local square = celer.kernel(function(i, j, u, v)
  local s = 0
  for a = -1, 1 do
    for b = -2, 2 do s = s + u[i + a][j + b] * (a * 5 + b + 20) end
  end
  v[i][j] = s
end)
local cpp = celer.kernel [[
  kernel void cpp(item<2> it, near<int, 2> u, out<int, 2> v) {
    v(it[0], it[1]) = u(it[0] - 2, it[1]) * 3 + u(it[0] + 1, it[1]) + u(it[0], it[1] - 1) * 5
      + u(it[0], it[1] + 1);
  }
]]
local function holds(what, kind, by)
  local s = celer.wait(v)
  for i = 0, n - 1 do
    for j = 0, m - 1 do same(what .. " " .. kind, s(i, j), by(kind, i, j)) end
  end
end
local function of_cross(kind, i, j)
  return wanted(kind, i - 2, j) * 3 + wanted(kind, i + 1, j) + wanted(kind, i, j - 1) * 5
    + wanted(kind, i, j + 1)
end
local function of_square(kind, i, j)
  local s = 0
  for a = -1, 1 do
    for b = -2, 2 do s = s + wanted(kind, i + a, j + b) * (a * 5 + b + 20) end
  end
  return s
end
for _, kind in ipairs { "periodic", "clamped", "mirrored", "constant" } do
  cross({ n, m }, with_edge(kind, u), v)
  holds("as far as it reads", kind, of_cross)
  cross({ n, m }, with_edge(kind, u, 2, 1, "along_axes"), v)
  holds("as it says", kind, of_cross)
  celer.parallel_for({ n, m }, cross, celer.access(u, edge(kind, 3)), v)
  holds("with a mapper", kind, of_cross)
  for _, k in ipairs { cross, cpp } do
    q:submit(function(cg)
      cg:parallel_for({ n, m }, k, cg:read(u, edge(kind, 2)), cg:discard_write(v))
    end)
    holds("in a group", kind, of_cross)
  end
  square({ n, m }, with_edge(kind, u), v)
  holds("with corners", kind, of_square)
end
same("a cross", cross:accesses({ n, m }, celer.periodic(u), v):match "u: ([^\n]*)",
  'celer.periodic(2, 1, "along_axes")')
same("a square", square:accesses({ n, m }, celer.constant(u, 7), v):match "u: ([^\n]*)",
  "celer.constant(7, 1, 2)")
same("given", square:accesses({ n, m }, celer.clamped(u, 3), v):match "u: ([^\n]*)", "as given")
local p = celer.buffer("double2", n, { init = function(i) return { x = i, y = -i } end })
local r = celer.buffer("double", n)
celer.kernel(function(i, p, r) r[i] = p[i - 1].x + p[i + 1].y end)(n, celer.constant(p,
  { x = 0.5, y = 0.25 }), r)
same("a struct", r(0), -0.5)
same("a struct, too", r(n - 1), n - 2 + 0.25)
local reach = 2
local by_number = celer.kernel(function(i, p, r)
  local s = 0
  for d = -reach, reach do s = s + p[i + d].x end
  r[i] = s
end)
by_number(n, celer.clamped(p, 2), r)
same("by a number", r(0), 3)
]==])
  script.everywhere("moves by a captured number times a counter, whatever its sign", [[
local n = 41
local u = celer.buffer("double", n, { init = function(i) return i * i end })
local v = celer.buffer("double", n)
local along = celer.kernel(function(i, u, v, step)
  local sum = 0
  for k = -2, 3 do sum = sum + k * u[math.max(0, math.min(i + k * step, n - 1))] end
  v[i] = sum
end)
for _, step in ipairs { 1, 0, -1, 7, -6, 0 } do
  along(n, u, v, step)
  local s = celer.wait(v)
  for i = 0, n - 1 do
    local sum = 0
    for k = -2, 3 do sum = sum + k * math.max(0, math.min(i + k * step, n - 1)) ^ 2 end
    same(step .. " at " .. i, s(i), sum)
  end
end
]], nil, { before = { "--check-bounds" } })

  script.everywhere("keeps to the promises that are derived", [[
local n = 40
local u = celer.buffer("double", { n, n }, { init = function(i, j) return i * 3 + j end })
local v = celer.buffer("double", { n, n }, { init = 0 })
local k = celer.kernel(function(y, x, u, v)
  local s = 0
  for d = -2, 2 do s = s + u[math.min(math.max(y + d, 0), n - 1)][x] + u[y][(x + d) % n] end
  if x > 3 and y < 17 then v[y][x] = s else v[y][x] = -s end
end)
for _ = 1, 3 do k({ n, n }, u, v) end
local around = celer.kernel(function(y, x, u, v) v[y][x] = u[y - 1][x + 1] + u[y][x - 3] end)
for _, kind in ipairs { "periodic", "clamped", "mirrored" } do
  around({ n, n }, celer[kind](u), v)
end
celer.wait()
]], nil, { before = { "--check-bounds" } })

  it("is looked at by celer check", function()
    local path = scratch.path(".lua")
    scratch.write(path, smooth .. [[
local skewed = celer.kernel(function(i, u, v) v[i] = u[math.min(i + 3, n - 1)] end)
celer.submit(function(cg) cg:parallel_for({n}, skewed, cg:read(u), v) end)
celer.wait()
]])
    local r = celer.run { "check", path }
    assert.matches("%.lua:11: mistake: .*touches what it was not promised", r.stdout .. r.stderr)
    assert.not_matches("%.lua:8: ", r.stdout .. r.stderr)
    assert.not_equal(0, r.status)
  end)

  -- What is refused: parameters and body of a kernel, what it is submitted with, the message.
  -- Each is a line of its own, and the message names that line.
  local refusals = {
    { "i, v", "v[i] = u[i]", "v", "the kernel captures 'u', the buffer u: make it a parameter" },
    { "i, v", "v[i] = text", "v", "it takes a string" },
    { "i, v", "local a = 'x' .. i v[i] = 1", "v", "cannot join strings" },
    { "i, v", "local a = {} v[i] = a[1]", "v", "element %[1%] of a table may be read here" },
    { "i, v", "local a = { 1, 2 } v[i] = a[3]", "v", "element %[3%] of a table may be read" },
    { "i, v", "local a = {} for k = 1, 3 do if i > k then a[k] = 1 end end v[i] = a[2]", "v",
      "element %[2%] of a table may be read" },
    { "i, v", "local a = {} for k = 1, i do a[k % 3] = k end v[i] = a[1]", "v",
      "element %[1%] of a table may be read" },
    { "i, v", "local a = {} for k = 1, 2 do local s = a[k] or 0 a[k] = s v[i] = s end", "v",
      "element %[1%] of a table may be read" },
    { "i, v", "local a = {} for k = 1, n do a[k] = k end v[i] = a[1]", "v",
      "by a loop between literals" },
    { "i, v", "local a = {} a[i] = 1 v[i] = a[i]", "v", "a table of a kernel has at most 256" },
    { "i, v", "local a = { 1, 2 } v[i] = a[i / 2]", "v",
      "as by celer.clamp%(math.floor%(x%), 0, 9%)" },
    { "i, v", "local a = { x = 1 } v[i] = a.x", "v", "stored or pushed as a whole: .* 'x'" },
    { "i, v", "local a = { 1 } v[i] = a.x", "v", "a table of a kernel has elements by whole" },
    { "i, s", "s[i] = { 1, x = 2 }", "s", "or it is a struct and has fields: not both" },
    { "i, s", "s[i] = { 1, 2 }", "s", "'s' takes a pair_of, and is given a table without its f" },
    { "i, s", "s[i] = { x = 1 }", "s", "field 'y' of a pair_of may be without a value here" },
    { "i, s", "local a = { x = i } if i > 3 then a.y = 1 end s[i] = a", "s",
      "field 'y' of a pair_of may be without a value here" },
    { "i, s", "s[i] = { x = 1, y = 2, w = 3 }", "s", "a pair_of has no field 'w'" },
    { "i, s", "s[i] = { x = 1, y = i > 3 }", "s", "'y' has numbers: write c and 1 or 0" },
    { "i, s", "s[i] = { x = 1, y = { x = 1 } }", "s", "field 'y' of a pair_of is a number" },
    { "i, s", "s[i] = { x = 1, y = { 2 } }", "s", "field 'y' is given a table without fields" },
    { "i, s", "s[i].x = { x = 1, y = 2 }", "s", "'s' takes a number here, and is given a table" },
    { "i, s, p", "local a = { x = 1, y = 2 } s[i] = a p[i] = a", "s, p", "one table is two str" },
    { "i, s", "local a = { x = i, y = i } if i > 3 then a = { x = 2, y = 1 } end s[i] = a", "s",
      "a table with names is a struct" },
    { "i, v", "local a = { x = 1 } v[i] = 1", "v", "a table with names is a struct, which is st" },
    { "i, v", "local a = { 'x' } v[i] = 1", "v", "a table of a kernel has numbers or booleans" },
    { "i, v", "local a = { 1, true } v[i] = a[1]", "v", "has numbers, or else booleans" },
    { "i, v", "local a = { 1 } a[1] = nil v[i] = 1", "v", "cannot be nil" },
    { "i, v", "local a = { { 1 } } v[i] = a[1][1]", "v", "it takes a table" },
    { "i, v", "local a = { math.min(1, i) } v[i] = a", "v", "fill a table with all|it takes a" },
    { "i, v", "local a = { 1 } if i > 3 then a = { 2 } end v[i] = a[1]", "v",
      "cannot index a value that was chosen before" },
    { "i, v", "local f = function() return i end v[i] = f()", "v", "cannot make functions" },
    { "i, v", "v[i] = again(i)", "v", "'again' calls itself", 9 },
    { "i, v", "for k in pairs(list) do v[i] = k end", "v", "pairs cannot be called in a kernel" },
    { "i, v", "print(i) v[i] = 1", "v", "print cannot be called in a kernel: " },
    { "i, v", "v[i] = math.random()", "v", "math.random cannot be called.*celer.philox" },
    { "i, v", "v[i] = celer.random()", "v", "celer.random belongs to the script" },
    { "i, v", "v[i] = celer.philox(0.5, i)", "v", "the seed of celer.philox may be a fraction" },
    { "i, v", "v[i] = celer.philox(1)", "v", "celer.philox takes 2 arguments, got 1" },
    { "i, v", "v[i] = #v", "v", "length by '#': of a buffer use u.size.0. or .* local n = #t" },
    { "i, v", "v[i] = bit.rol(i, 3)", "v", "bit.rol cannot be called .*: write bit.bor" },
    { "i, v", "assert(i > 3) v[i] = 1", "v", "assert cannot be called .*: write what went wrong" },
    { "i, v", "v[i] = tonumber(i)", "v", "tonumber cannot be called .* numbers already" },
    { "i, v", "v[i] = object[3]", "v", "captures 'object', a table with a metatable" },
    { "i, v", "v[i] = nothing", "v", "'nothing' is nil where the kernel is submitted" },
    { "i, v", "v[i] = misspelt", "v", "'misspelt' is nil where the kernel is submitted" },
    { "i, v", "n = 3 v[i] = 1", "v", "cannot assign to 'n', which all items share" },
    { "i, v", "global = 3 v[i] = 1", "v", "cannot assign to the global 'global'" },
    { "i, v", "v[i] = 1 return 3", "v", "a kernel returns nothing" },
    { "i, v, ...", "v[i] = ...", "v", "a kernel cannot have '...'" },
    { "i, v, c", "v[i] = c", "v", "it was given 1 argument", "submit" },
    { "i, v", "v[i] = 1", "v, 3", "takes 2 parameters: .*, 1 argument; it was given 2 arguments",
      "submit" },
    { "i, v, c", "v[i] = c", "v, 'x'", "argument 2 %('c'%) is a string", "submit" },
    { "i, v", "v[i] = math.clamp(i, 0, 1)", "v", "there is no math.clamp: write celer.clamp" },
    { "i, v", "v[i] = celer.select(i > 0, 1)", "v", "celer.select takes 3 arguments, got 2" },
    { "i, v", "v[i] = bit.shift(i, 1)", "v", "there is no bit.shift" },
    { "i, v", "v[i][i] = 1", "v", "'v' has 1 dimension: too many indices" },
    { "i, m", "m[i] = 1", "m", "'m' has 2 dimensions, and is given 1 here" },
    { "i, m, v", "v[i] = m[i]", "m, v", "'m' has 2 dimensions, and is given 1 here" },
    { "i, m, v", "v[i] = m(i)", "m, v", "'m' has 2 dimensions, and is given 1 here" },
    { "i, u, v", "v[i] = u[i / 2]", "u, v", "index 0 of 'u' may be a fraction: write math.floor" },
    { "i, w", "w[i] = i / 2", "w", "'w' has whole numbers %(int%), and this may be a fraction" },
    { "i, v", "v[i] = i < 3", "v", "'v' has numbers: write c and 1 or 0" },
    { "i, b", "b[i] = 1", "b", "'b' has booleans: write x ~= 0" },
    { "i, b, v", "v[i] = b[i] + 1", "b, v", "cannot compute with a boolean" },
    { "i, v", "local x = false if i > 3 then x = 2 end v[i] = x", "v", "use one variable for" },
    { "i, v", "local x if i > 3 then x = 2 end v[i] = x", "v", "use one variable for each" },
    { "i, s", "s[i].z = 2", "s", "a pair_of has no field 'z'" },
    { "i, s, v", "v[i] = s[i].z", "s, v", "a pair_of has no field 'z'" },
    { "i, s, v", "v[i] = s[i] + 1", "s, v", "cannot compute with a struct" },
    { "i, s, v", "v[i] = s[i]", "s, v", "'v' takes a number here" },
    { "i, s", "s[i] = 1", "s", "'s' takes a pair_of here: assign one, or to its" },
    { "i, s, v", "local e if i > 3 then e = s[i] else e = s[0] end v[i] = e.x", "s, v",
      "cannot index a value that was chosen before" },
    { "i, u, w, v", "v[i] = u[2 * w[i]]", "u, w, v",
      "which part of 'u' .* index 0 is computed from an element.*celer.access%(buffer, mapper%)" },
    { "i, w, v", "v[w[i]] = 1", "w, v", "which part of 'v'|may write one element" },
    { "i, u, v", "local k = 0 while u[k] > 2 do k = k + 1 end v[i] = k", "u, v",
      "index 0 is changed by a loop whose turns are not counted" },
    { "i, v", "v[0] = i", "v", "two items may write one element of 'v'" },
    { "i, v", "v[i] = 1 v[i + 1] = 2", "v", "writes at another place" },
    { "i, v", "v[i] = v[math.max(i - 1, 0)]", "v", "'v' is read where other items may write" },
    { "i, u, v", "v[i] = u[i + 1]", "u, v", "index 0 of 'u' is 16 for an item of the range, and "
      .. "buffer u has 0 to 15; keep it inside, as by math.min%(i %+ 1" },
    { "i, u, v", "v[i] = u[i - 1]", "u, v", "index 0 of 'u' is %-1 for an item.*math.max%(i %- 1" },
    { "i, u, v", "v[i] = u[i * 2 ^ 62]", "u, v", "derived: index 0 may be larger than 2%^53" },
    { "i, u, v", "v[i] = u[i - 2]", "celer.clamped(u, 1), v",
      "index 0 of 'u' leads 2 from its item, and celer.clamped says 1" },
    { "i, u, v", "v[i] = u[2 * i]", "celer.clamped(u), v",
      "how far index 0 of 'u' leads from its item cannot be derived: .*clamped%(buffer, 2%)" },
    { "i, u, v", "u[i] = u[i - 1] v[i] = 1", "celer.periodic(u), v",
      "'u' is written here, and what is read beyond its edges is only read" },
    { "i, m, v", "v[i] = m[i][i - 1]", "celer.periodic(m), v", "'m' is read beyond its edges, and "
      .. "has 2 dimensions; the range has 1", "submit" },
    { "i, u, v", "v[i] = u[i]", "v, v", "the buffer v is both 'u' and 'v', and is written",
      "submit" },
    { "i, r, v", "v[i] = 1", "celer.sum(t), v", "'r' is given to be reduced into" },
    { "i, r, v", "v[i] = r()", "celer.sum(t), v", "'r' is reduced into, and cannot be read" },
    { "i, r", "r:min(i)", "celer.sum(t)", "'r' is reduced by \"sum\": write r:add%(x%)" },
    { "i, t", "t:add(i)", "t",
      "'t' is not given to be reduced into: .* celer.reduce%(buffer, \"sum\"%)" },
    { "i, w", "w[i % 3]:max(i)", "w", "'w' is not given to be reduced into: .*\"max\"" },
    { "i, j, v", "v[i] = j", "v",
      "of an item of 1 dimension, 2 arguments; it was given 1 argument; that fits a range of 2 dim",
      "submit" },
    { "i, r", "r.add(i)", "celer.sum(t)", "call it with a colon: r:add" },
    { "i, v", "v[i] = list[i]", "v", "'list' has %[1%] to %[3%], and this index may be another" },
    { "i, v", "list[i] = 1", "v", "cannot change the script's table 'list'" },
    { "i, v", "v[i] = n(3)", "v", "cannot call a number" },
    { "i, v", "v[i] = math.floor()", "v", "math.floor takes 1 argument, got 0" },
    { "i, v", "v[i] = math.modf(i)", "v", "math.modf cannot be called in a kernel: write" },
    { "i, v", "while true do v[i] = 1 end", "v", "the kernel never ends" },
    { "i, v", "v[i] = 3LL", "v", "cannot use numbers of 64 bits with LL" },
    { "i, v", "v:fill(3)", "v", "'v' has no method 'fill' in a kernel" },
    { "i, v", "v[i] = v:extent(3)", "v", "'v' has 1 dimension; they count from 0" },
    { "i, v", "v[i] = v.size[i]", "v", "'v.size' takes a dimension, as a number that" },
    { "i, v", "v[i] = v.size - i", "v", "take one of them, as in u.size%[0%]" },
    { "i, v, t", "v[i] = t[0]", "v, t", "too many indices, its name alone is its value" },
    { "i, v", "if v[i] == 'x' then v[i] = 1 end", "v", "it takes a string" },
    { "i, q", "q[i] = 1", "q", "their type is neither a number of at most 64 bits" },
  }

  -- Submits each of them, and prints what is said.
  local function script_of_refusals()
    local text = { [[
local n, list, text, nothing = 16, { 1, 2, 3 }, "text", nil
local object = setmetatable({}, { __index = function() return 1 end })
local u = celer.buffer("double", n, { name = "u", init = 1 })
local v, w = celer.buffer("double", n, { name = "v" }), celer.buffer("int", n, { init = 0 })
local m, b = celer.buffer("double", { n, n }, { init = 0 }), celer.buffer("bool", n)
local s = celer.buffer(celer.struct("pair_of", "double x, y;"), n, { init = { x = 1, y = 2 } })
local p = celer.buffer("double2", n, { init = { x = 1, y = 2 } })
local function again(x) if x > 1 then return 2 * again(x - 1) end return 1 end
local t, q = celer.buffer("double", {}, { name = "t" }), celer.buffer("uint64_t", n, { init = 0 })
local function try(k, ...)
  local ok, message = pcall(k, n, ...)
  if ok then ok, message = pcall(celer.wait) end
  print(ok and "no error" or message)
end]] }
    for _, case in ipairs(refusals) do
      text[#text + 1] = ("try(celer.kernel(function(%s) %s end), %s)"):format(case[1], case[2],
        case[3])
    end
    return table.concat(text, "\n")
  end

  for _, ranks in ipairs { 1, 3 } do
    it("refuses what it cannot compile, with its line, on " .. ranks .. " ranks", function()
      local r = script.run(script_of_refusals(),
        { ranks = ranks > 1 and ranks or nil, devices = 1 })
      assert.equal("", r.stderr)
      local line, k = 15, 0 -- that of the first, after the script's own
      for message in r.stdout:gmatch "[^\n]+" do
        k = k + 1
        local case = refusals[k]
        local one, other = case[4]:match "^(.-)|(.*)$"
        local where = case[5] == "submit" and 12 or case[5] or line + k
        local said = case[2] .. ": " .. message
        assert.truthy(message:find("case.lua:" .. where .. ": ", 1, true), said)
        assert.truthy(message:find(one or case[4]) or other and message:find(other), said)
      end
      assert.equal(#refusals, k)
    end)
  end
end)
