-- celer.sort: keys in order, and what belongs to them.
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
