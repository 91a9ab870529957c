-- What a range mapper reads may change between two submissions: the rule is that of now.
local script = require("spec.support.script")

local shapes = { shapes = { script.shapes[2] } }

-- moves(what, map): map() gives a mapper, which is to reach as far as `reach` says, set by
-- change(reach). Each time all of `a` is new, so what a rank does not have is old.
local moves = script.sums .. [==[
local one = celer.kernel [[ kernel void one(item<1> it, out<int, 1> a, int n) { a(it[0]) = n; } ]]
local n = 0
function moves(what, map, change)
  local kept = map()
  for _, reach in ipairs { 0, 1, 3, 2, 0, 5 } do
    change(reach)
    for _, mapper in ipairs { map(), kept } do
      for _ = 1, 2 do
        n = n + 1
        q:submit(function(cg) cg:parallel_for({ 12 }, one, cg:discard_write(a), n) end)
        q:submit(function(cg)
          cg:parallel_for({ 12 }, k, cg:read(a, mapper), cg:discard_write(b), 0, reach)
        end)
        local s = q:wait(b)
        for i = 0, 11 do
          same(("%s, reach %d at %d"):format(what, reach, i), s[i],
            n * (math.min(i + reach, 11) - math.max(i - reach, 0) + 1))
        end
      end
    end
  end
end
]==]

script.everywhere("a mapper sees fields of libraries as they are", moves .. [==[
celer.by = 0
moves("a number of celer", function() return function(chunk) return chunk:grow(celer.by) end end,
  function(reach) celer.by = reach end)
local maths = math
moves("a number of math", function() return function(chunk) return chunk:grow(maths.by) end end,
  function(reach) math.by = reach end)
moves("a number of math, a global",
  function() return function(chunk) return chunk:grow(math.by) end end,
  function(reach) math.by = reach end)
moves("a function of celer", function() return function(chunk) return celer.near(chunk) end end,
  function(reach) function celer.near(chunk) return chunk:grow(reach) end end)
moves("a function of math",
  function() return function(chunk) return chunk:grow(maths.far(1)) end end,
  function(reach) function math.far() return reach end end)
moves("a helper's", function()
  local function far() return celer.by end
  return function(chunk) return chunk:grow(far()) end
end, function(reach) celer.by = reach end)
moves("an inner function's", function()
  return function(chunk)
    local function far() return celer.by end
    return chunk:grow(far())
  end
end, function(reach) celer.by = reach end)
moves("a local variable's", function()
  return function(chunk)
    local c = celer
    return chunk:grow(c.by)
  end
end, function(reach) celer.by = reach end)
local min, floor = celer.min, math.floor
moves("one that is replaced", function()
  return function(chunk) return chunk:grow(celer.min(7, 5)) end
end, function(reach) function celer.min() return reach end end)
celer.min = min
moves("one of math that is replaced", function()
  return function(chunk) return chunk:grow(math.floor(0.5)) end
end, function(reach) function math.floor() return reach end end)
math.floor = floor
moves("one that is replaced by another of celer", function()
  return function(chunk) return chunk:grow(celer.min(5, celer.by)) end
end, function(reach)
  celer.by = reach == 5 and 4 or reach
  celer.min = reach == 5 and celer.max or min
end)
celer.min = min
package.loaded.mine = { by = 0 }
moves("of a module", function()
  return function(chunk) return chunk:grow(require("mine").by) end
end, function(reach) package.loaded.mine.by = reach end)
local rawget = rawget
moves("by rawget", function()
  return function(chunk) return chunk:grow(rawget(celer, "by")) end
end, function(reach) celer.by = reach end)
]==], nil, shapes)

script.everywhere("so does one that branches", moves .. [==[
celer.by = 0
moves("a number of celer", function()
  return function(chunk)
    if chunk.min[0] > 100 then return chunk end
    return chunk:grow(celer.by)
  end
end, function(reach) celer.by = reach end)
by = 0
moves("a global", function()
  return function(chunk)
    if chunk.min[0] > 100 then return chunk end
    return chunk:grow(by)
  end
end, function(reach) by = reach end)
moves("a function of math", function()
  return function(chunk)
    if chunk.min[0] > 100 then return chunk end
    return chunk:grow(math.far(1))
  end
end, function(reach) function math.far() return reach end end)
]==], nil, shapes)
