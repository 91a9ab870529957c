--- strides.lua -- random kernels that write elements some steps apart, and leave what lies between.
---
---   celer run spec/random/functions/strides.lua FIRST COUNT
---
--- Each element is compared with what it should be, after a kernel that writes and one that adds
--- to what it wrote. Prints how many kernels there were.
local celer = require "celer"

local random = math.random
local first, count = tonumber(arg[1]), tonumber(arg[2])
local names = { "i", "j" }

-- An index, as text and as a function, within an extent; some items may have none there.
local function stride(n, name)
  local a, spare = random(1, 3), random(0, 2)
  local extent = a * (n - 1) + 1 + spare
  local low = random(0, spare)
  local part = random(3) == 1
  if part then extent, low = math.ceil(extent / 2), random(-3, 3) end
  local text, at = ("%d * %s + (%d)"):format(a, name, low), function(x) return a * x + low end
  if random(2) == 1 then
    local top = low + a * (n - 1)
    text, at = ("%d - %d * %s"):format(top, a, name), function(x) return top - a * x end
  end
  return text, at, extent, part
end

for number = first, first + count - 1 do
  math.randomseed(number)
  for _ = 1, 4 do random() end
  local dims = random(2)
  local n = { random(1, 40), dims == 2 and random(1, 12) or nil }
  local texts, at, extents, guards = {}, {}, {}, {}
  for d = 1, dims do
    local part
    texts[d], at[d], extents[d], part = stride(n[d], names[d])
    if part then
      guards[#guards + 1] = ("%s >= 0 and %s < %d"):format(texts[d], texts[d], extents[d])
    end
  end
  local place = "v[" .. table.concat(texts, "][") .. "]"
  local guard = #guards > 0 and table.concat(guards, " and ") or "true"
  local made = assert(loadstring(([[
    local function write(%s, v) if %s then %s = 3 * i + %s + 1 end end
    local function add(%s, v) if %s then %s = %s + i end end
    return write, add
  ]]):format(table.concat(names, ", ", 1, dims), guard, place, dims == 2 and "j" or "0",
    table.concat(names, ", ", 1, dims), guard, place, place), "=stride" .. number))
  local write, add = made()
  local v = celer.buffer("int", extents, { init = function(x, y) return -(5 * x + (y or 0)) end })
  celer.kernel(write)(n, v)
  celer.kernel(add)(n, v)
  local want = {}
  for i = 0, n[1] - 1 do
    for j = 0, dims == 2 and n[2] - 1 or 0 do
      local y = dims == 2 and at[2](j) or 0
      want[at[1](i) .. " " .. y] = 3 * i + j + 1 + i
    end
  end
  local found = celer.wait(v)
  for x = 0, extents[1] - 1 do
    for y = 0, dims == 2 and extents[2] - 1 or 0 do
      local is = dims == 2 and found(x, y) or found(x)
      local must = want[x .. " " .. y] or -(5 * x + y)
      if is ~= must then
        error(("%d: %s is %d at %d, %d, and should be %d"):format(number, place, is, x, y, must))
      end
    end
  end
  v:free()
end
print(count)
