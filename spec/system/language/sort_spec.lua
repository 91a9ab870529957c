-- celer.sort: keys in order, and what belongs to them; celer.top and unique, which sort.
local script = require("spec.support.script")

local shapes = { unpack(script.shapes) }
for _, ranks in ipairs { 2, 7 } do
  shapes[#shapes + 1] = { name = ("on %d ranks"):format(ranks), devices = 1, ranks = ranks }
end

describe("celer.sort", function()
  script.everywhere("puts keys in order, and others by them, of any number and type", [==[
local Pair = celer.struct("Pair", "int key; char tag[3];")
local function check(type_, n, init, options)
  local keys = celer.buffer(type_, n, { init = init })
  local index = celer.buffer("int", n, { init = function(i) return i end })
  local pairs_ = celer.buffer(Pair, n, { init = function(i) return { key = 3 * i } end })
  if options then celer.sort(keys, index, pairs_, options) else celer.sort(keys, index, pairs_) end
  local k, x, p = q:wait(keys, index, pairs_)
  local wanted = {}
  for i = 0, n - 1 do wanted[i + 1] = i end
  local down = options and options.descending
  table.sort(wanted, function(a, b)
    local x, y = init(a), init(b)
    if x == y then return a < b end
    if down then return x > y end
    return x < y
  end)
  for i = 0, n - 1 do
    local from = wanted[i + 1]
    same("index of " .. type_, x(i), from)
    local key = k(i)
    if type_ == "bool" then key = key and 1 or 0 end
    same("key of " .. type_, tonumber(key), init(from))
    same("pair of " .. type_, p(i).key, 3 * from)
  end
end
for _, n in ipairs { 0, 1, 2, 5, 97, 1000 } do
  check("double", n, function(i) return (i * 7919) % 101 - 50.5 end)
  check("float", n, function(i) return i % 2 == 0 and -i or 1 / (i + 1) > 0.25 and 1 or 2 end)
  check("int", n, function(i) return (i * 31) % 17 - 8 end, { descending = true })
  check("uint8_t", n, function(i) return (i * 37) % 256 end)
  check("int64_t", n, function(i) return (i * 7919) % 1009 * 2 ^ 40 - 2 ^ 49 end)
  check("uint64_t", n, function() return 2 ^ 52 end) -- all alike
  check("bool", n, function(i) return i % 3 == 0 and 1 or 0 end, { descending = true })
end
]==], nil, { shapes = shapes })

  script.everywhere("orders zeros, infinities and NaNs alike on any number of ranks", [==[
local inf, nan = math.huge, 0 / 0
local list = { nan, 0, -inf, -0, inf, nan, 1e-310, -1e-310, 0 }
local keys, index = celer.array(list), celer.arange("int", #list)
celer.sort(keys, index)
local x = q:wait(index)
for i, wanted in ipairs { 2, 7, 1, 3, 8, 6, 4, 0, 5 } do same("place " .. i, x(i - 1), wanted) end
]==], nil, { shapes = shapes })

  script.everywhere("goes on with what kernels write, and they with what it sorts", [==[
local n = 300
local keys, sums = celer.zeros("int", n), celer.zeros("int", n)
local fill = celer.kernel(function(i, keys, step) keys[i] = (i * 53 + step) % n end)
for step = 1, 3 do
  fill(n, keys, step)
  celer.sort(keys)
  sums:set(sums + keys)
end
local s = q:wait(sums)
for i = 0, n - 1 do same("sum", s(i), 3 * i) end
]==])

  script.everywhere("refuses what cannot be sorted, with the user's line", [==[
local u, v = celer.zeros("double", 8), celer.zeros("int", 9)
local plane, one = celer.zeros("int", { 4, 2 }), celer.zeros("int")
refused("celer.sort: argument 1 is a buffer, not nil", function() celer.sort() end)
refused("celer.sort: argument 1 is a buffer, not a table", function() celer.sort({ 3, 1 }) end)
refused("has 2 dimensions; what is sorted has one", function() celer.sort(plane) end)
refused("has 0 dimensions", function() celer.sort(one) end)
refused("has 9 elements, and the keys", function() celer.sort(u, v) end)
refused("is given twice", function() celer.sort(u, u) end)
refused("argument 2 is a buffer, not a number", function() celer.sort(u, 3) end)
refused("argument 2 is a buffer, not nil", function() celer.sort(u, nil) end)
refused("unknown option 'reverse'", function() celer.sort(u, { reverse = true }) end)
refused("descending is true or false, not a number", function()
  celer.sort(u, { descending = 1 })
end)
refused("keys are numbers", function() celer.sort(celer.zeros("complex64", 3)) end)
local gone = celer.zeros("int", 8)
gone:free()
refused("was freed", function() celer.sort(u, gone) end)
]==])
end)

local few = {}
for ranks = 1, 5 do
  few[ranks] = { name = ("on %d ranks"):format(ranks), devices = ranks % 2 + 1,
    ranks = ranks > 1 and ranks or nil }
end

describe("celer.top and celer.unique", function()
  script.everywhere("give the largest with their places, and what differs", [==[
local function check(type_, n, init)
  local u = celer.buffer(type_, n, { init = init })
  local order, different, seen = {}, {}, {}
  for i = 0, n - 1 do
    local x = init(i)
    order[i + 1] = i
    if not seen[x] then different[#different + 1], seen[x] = x, true end
  end
  table.sort(order, function(a, b)
    local x, y = init(a), init(b)
    return x > y or x == y and a < b
  end)
  table.sort(different)
  for _, k in ipairs { 0, math.floor(n / 3), n } do
    local values, places = celer.top(u, k)
    same("type", values.type, u.type)
    same("how many", places.size[0], k)
    local v, p = q:wait(values, places)
    for i = 0, k - 1 do
      same("place in " .. type_, tonumber(p(i)), order[i + 1])
      local x = v(i)
      if type_ == "bool" then x = x and 1 or 0 end
      same("value of " .. type_, tonumber(x), init(order[i + 1]))
    end
  end
  local list = celer.unique(u)
  same("different ones of " .. type_, list.size[0], #different)
  local l, untouched = q:wait(list, u)
  for i, wanted in ipairs(different) do
    local x = l(i - 1)
    if type_ == "bool" then x = x and 1 or 0 end
    same("different " .. type_, tonumber(x), wanted)
  end
  if n > 0 and type_ ~= "bool" then same("of itself", tonumber(untouched(n - 1)), init(n - 1)) end
end
for _, n in ipairs { 0, 1, 5, 700 } do
  check("double", n, function(i) return (i * 7919) % 101 - 50.5 end)
end
check("int", 200, function(i) return (i * 31) % 17 - 8 end)
check("uint64_t", 200, function(i) return (i * 37) % 150 * 2 ^ 43 end)
check("bool", 50, function(i) return i % 3 == 0 and 1 or 0 end)
]==], nil, { shapes = few })

  script.everywhere("take all NaNs for one number, larger than all else", [==[
local inf, nan = math.huge, 0 / 0
local u = celer.array { nan, 0, -inf, -0, inf, nan, -1, 0, nan }
local values, places = celer.top(u, 5)
local x, p, l = q:wait(values, places, celer.unique(u))
for i, wanted in ipairs { 0, 5, 8, 4, 1 } do same("place " .. i, tonumber(p(i - 1)), wanted) end
same("the largest", x(0) ~= x(0) and x(2) ~= x(2) and x(3), inf)
for i, wanted in ipairs { -inf, -1, 0, inf } do same("different " .. i, l(i - 1), wanted) end
same("the last", l(4) ~= l(4), true)
same("how many", l.size[0], 5)
]==])

  script.everywhere("refuse what they cannot sort, with the user's line", [==[
local u, plane = celer.zeros("double", 8), celer.zeros("int", { 4, 2 })
refused("celer.top: the first argument is a buffer, not nil", function() celer.top() end)
refused("from 0 to the 8 elements", function() celer.top(u, 9) end)
refused("from 0 to the 8 elements", function() celer.top(u, 2.5) end)
refused("not nil", function() celer.top(u) end)
refused("has 2 dimensions", function() celer.top(plane, 1) end)
refused("celer.unique: the argument is a buffer, not a number", function() celer.unique(3) end)
refused("celer.array(expression) makes one", function() celer.unique(u * 2) end)
refused("has 2 dimensions", function() celer.unique(plane) end)
refused("celer.unique: keys are numbers", function() celer.unique(celer.zeros("complex64", 3)) end)
u:free()
refused("was freed", function() celer.unique(u) end)
]==], nil, { shapes = { script.shapes[1] } })
end)
