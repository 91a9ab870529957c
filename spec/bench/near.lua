--- near.lua -- neighbours beyond edges by near<T, D>, in C++ and in Lua, beside the same by hand,
--- in turns, in one run.
---
---   celer run --fold 1 [--backend cuda] spec/bench/near.lua [rounds [extents ...]]
---
--- Extents are as `500x300x700`, of two or three dimensions. `by hand` compares each index, as
--- `i > 0 ? i - 1 : n - 1`. A ratio is the time by hand over that of near<T, D>, the median of
--- the rounds; target: at least 0.97. All three have to give the same bits. The last line is
--- JSON.
local celer = require "celer"
local gpu = require("celer.core").devices() == "cuda"
local rounds = tonumber(arg[1]) or (gpu and 9 or 5)
local sizes = { unpack(arg, 2) }
if not sizes[1] then
  sizes = gpu and { "512x512x512", "500x300x700", "8192x8192" } or { "160x160x160", "2048x2048" }
end

local q = celer.queue()

-- What comes in front of index i of n and behind it; the constant is beside elements.
local by_hand = {
  periodic = { "i > 0 ? i - 1 : n - 1", "i < n - 1 ? i + 1 : 0" },
  clamped = { "max(i - 1, 0)", "min(i + 1, n - 1)" },
  mirrored = { "max(i - 1, 0)", "min(i + 1, n - 1)" },
  constant = { "max(i - 1, 0)", "min(i + 1, n - 1)" },
}
local guards = { "i > 0", "i < n - 1" }

-- The kernel of D dimensions that adds what lies around an item along the axes.
local function source(dims, kind)
  local items, here, lines, terms = {}, {}, {}, {}
  for d = 1, dims do here[d] = ("xyz"):sub(dims - d + 1, dims - d + 1) end
  for d, i in ipairs(here) do
    items[d] = ("%s = it[%d]"):format(i, d - 1)
    for side, beside in ipairs { i .. " - 1", i .. " + 1" } do
      local at = { unpack(here) }
      at[d] = beside
      local term = ("u(%s)"):format(table.concat(at, ", "))
      if kind then
        local function put(text)
          return (text:gsub("%f[%w]i%f[%W]", i):gsub("%f[%w]n%f[%W]", "n" .. i))
        end
        at[d] = i .. side
        lines[#lines + 1] = ("const int %s = %s;"):format(at[d], put(by_hand[kind][side]))
        term = ("u(%s)"):format(table.concat(at, ", "))
        if kind == "constant" then term = ("(%s ? %s : 7.f)"):format(put(guards[side]), term) end
      end
      terms[#terms + 1] = term
    end
    if kind then items[dims + d] = ("n%s = it.range(%d)"):format(i, d - 1) end
  end
  local center = table.concat(here, ", ")
  return ([[kernel void %s(item<%d> it, %s<float, %d> u, out<float, %d> v, float c) {
    const int %s;
    %s
    v(%s) = (u(%s) + %s) * c;
  }]]):format(kind and "by_hand" or "beside", dims, kind and "in" or "near", dims, dims,
    table.concat(items, ", "), table.concat(lines, "\n    "), center, center,
    table.concat(terms, " + "))
end

local in_lua = {
  [2] = celer.kernel(function(y, x, u, v, c)
    v[y][x] = (u(y, x) + u(y - 1, x) + u(y + 1, x) + u(y, x - 1) + u(y, x + 1)) * c
  end),
  [3] = celer.kernel(function(z, y, x, u, v, c)
    v[z][y][x] = (u(z, y, x) + u(z - 1, y, x) + u(z + 1, y, x) + u(z, y - 1, x) + u(z, y + 1, x)
      + u(z, y, x - 1) + u(z, y, x + 1)) * c
  end),
}
local differences = {
  [2] = celer.kernel(function(y, x, a, b, n) if a[y][x] ~= b[y][x] then n:add(1) end end),
  [3] = celer.kernel(function(z, y, x, a, b, n)
    if a[z][y][x] ~= b[z][y][x] then n:add(1) end
  end),
}

local function edge_of(kind, ...)
  if kind == "constant" then
    if type((...)) == "table" then return celer.constant(..., 7) end
    return celer.constant(7, ...)
  end
  return celer[kind](...)
end

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local function seconds_of(times, step)
  local begin = celer.time()
  for _ = 1, times do step() end
  q:wait()
  return (celer.time() - begin) / times
end

local function check(extents, step, results)
  local n = celer.buffer("int", {}, { init = 0 })
  for i = 1, #results do step[i](results[i]) end
  for i = 2, #results do
    differences[#extents](extents, results[1], results[i], celer.sum(n))
    assert(q:wait(n)() == 0, "results differ")
  end
end

local rows = {}
for _, size in ipairs(sizes) do
  local extents, ones, items = {}, {}, 1
  for n in size:gmatch("%d+") do
    extents[#extents + 1], ones[#ones + 1], items = tonumber(n), 1, items * n
  end
  ones[#ones + 1] = "along_axes"
  local u, results = celer.buffer("float", extents), {}
  u:set(celer.math.uniform(1))
  for i = 1, 3 do results[i] = celer.buffer("float", extents) end
  local times = math.max(3, math.ceil((gpu and 4e9 or 1e8) / items))
  for _, kind in ipairs { "periodic", "clamped", "mirrored", "constant" } do
    local hand, near = celer.kernel(source(#extents, kind)), celer.kernel(source(#extents))
    local function in_cpp(kernel)
      return function(v)
        q:submit(function(cg)
          cg:parallel_for(extents, kernel, cg:read(u, edge_of(kind, unpack(ones))),
            cg:discard_write(v or results[1]), 0.125)
        end)
      end
    end
    local step = { in_cpp(hand), in_cpp(near), function(v)
      q:parallel_for(extents, in_lua[#extents], edge_of(kind, u), v or results[1], 0.125)
    end }
    check(extents, step, results)
    local taken, ratio = { {}, {}, {} }, { {}, {}, {} }
    for round = 1, rounds do
      for i = 1, 3 do taken[i][round] = seconds_of(times, step[i]) end
      for i = 2, 3 do ratio[i][round] = taken[1][round] / taken[i][round] end
    end
    local us = {}
    for i = 1, 3 do us[i] = median(taken[i]) * 1e6 end
    local cpp, lua = median(ratio[2]), median(ratio[3])
    rows[#rows + 1] = ('{"edge": "%s", "size": "%s", "hand_us": %.1f, "cpp_us": %.1f, '
      .. '"lua_us": %.1f, "cpp": %.4f, "lua": %.4f}'):format(kind, size, us[1], us[2], us[3],
      cpp, lua)
    print(("%-8s %-12s %9.1f us by hand; near in C++ %9.1f, %.3f; in Lua %9.1f, %.3f"):format(
      kind, size, us[1], us[2], cpp, us[3], lua))
  end
end
print(('{"bench": "near", "backend": "%s", "target": 0.97, "rows": [%s]}'):format(
  gpu and "cuda" or "cpu", table.concat(rows, ", ")))
