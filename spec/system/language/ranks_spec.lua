-- The whole model where the numbers do not fit: more ranks than there is work,
-- sizes that nothing divides, ranks that get none of it.
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on two ranks with three devices", devices = 3, ranks = 2 },
  { name = "on four ranks", devices = 1, ranks = 4 },
  { name = "on seven ranks", devices = 1, ranks = 7 },
}

describe("a program of few and odd sizes", function()
  script.everywhere("computes, tells and keeps the same", [==[
local rank, ranks = require("celer.core").rank()
assert(celer.ranks() == ranks)
local path = arg[0]:gsub("case%.lua$", "")
local k = celer.kernel [=[
  kernel void add(item<2> it, inout<int, 2> u, int x) { u(it[0], it[1]) += x; }
  kernel void blur(item<2> it, in<int, 2> u, out<int, 2> v) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    v(y, x) = u(min(y + 1, h - 1), x) + 3 * u(max(y - 1, 0), x) + 5 * u(y, max(x - 1, 0))
      + 7 * u(y, min(x + 1, w - 1));
  }
]=]
local function blurred(t)
  local new = {}
  for y = 0, #t do
    new[y] = {}
    for x = 0, #t[y] do
      new[y][x] = t[math.min(y + 1, #t)][x] + 3 * t[math.max(y - 1, 0)][x]
        + 5 * t[y][math.max(x - 1, 0)] + 7 * t[y][math.min(x + 1, #t[y])]
    end
  end
  return new
end
local function submit(kernel, range, hints, ...)
  local a = { ... }
  q:submit(function(cg)
    cg:hint(hints)
    for i = 1, #a do
      if type(a[i]) == "table" and a[i].mode then
        a[i] = cg[a[i].mode](cg, a[i].of, a[i].map)
      end
    end
    cg:parallel_for(range, kernel, unpack(a))
  end)
end
local function is_even(r) return (r + 1) % 2 end -- rank 0 counts, rank 1 does not
local divisions = { {}, { split = "2d" }, { weights = is_even }, { oversubscribe = 3 },
  { weights = function(r, n) return n - r end, split = "2d" } }

for _, size in ipairs { { 1, 1 }, { 1, 9 }, { 5, 3 }, { 11, 7 } } do
  local h, w = size[1], size[2]
  local model = {}
  for y = 0, h - 1 do
    model[y] = {}
    for x = 0, w - 1 do model[y][x] = 10 * y + x + 3 end
  end
  local u = celer.buffer("int", { h, w },
    { name = "u", init = function(y, x) return 10 * y + x end })
  local v = celer.buffer("int", { h, w }, { name = "v" })
  local rows = celer.host_object(function() return { n = 0 } end, { name = "rows" })
  local mass = celer.host_object("struct { double sum; }", { name = "mass" })
  submit(k.add, { h, w }, { split = "2d" }, { mode = "read_write", of = u }, 3)
  for _, hints in ipairs(divisions) do
    submit(k.blur, { h, w }, hints,
      { mode = "read", of = u, map = celer.neighborhood(1, 1, "along_axes") },
      { mode = "discard_write", of = v })
    u, v = v, u
    model = blurred(model)
    q:submit(function(cg)
      cg:hint { weights = is_even }
      local r, m = cg:side_effect(rows), cg:side_effect(mass, "relaxed")
      local mine = cg:read(u, function(chunk)
        return celer.box({ chunk.min[0], 0 }, { chunk.max[0], w })
      end)
      cg:host_task({ h }, function(part, r, m, mine)
        r.n = r.n + part.size[0]
        for y = part.min[0], part.max[0] - 1 do
          for x = 0, w - 1 do m:add("sum", mine(y, x)) end
        end
      end, r, m, mine)
    end)
    q:submit(function(cg)
      cg:host_task(celer.collective(), function(part, u)
        local sizes, mine = part.comm:all_gather(u.size[0]), 0
        for y = u.min[0], u.max[0] - 1 do
          for x = 0, w - 1 do mine = mine + u(y, x) end
        end
        part.kept.sum = part.comm:all_reduce(mine, "sum")
        local all = 0
        for r = 0, part.ranks - 1 do all = all + sizes[r] end
        if all ~= h then error("rows: " .. all) end
      end, cg:read(u, celer.even_split))
    end)
  end
  local function mine(r, n)
    return celer.box({ celer.floor(h * r / n), 0 }, { celer.floor(h * (r + 1) / n), w })
  end
  local all, part, counted = q:wait(u, celer.capture(u, mine),
    celer.capture(rows, function(r) return r.n end))
  part, counted = part:here(), counted:here() or 0
  local sum = 0
  for y = 0, h - 1 do
    for x = 0, w - 1 do
      same("element", all(y, x), model[y][x])
      sum = sum + all(y, x)
    end
  end
  for y = part.min[0], part.max[0] - 1 do same("of the part", part(y, w - 1), model[y][w - 1]) end
  same("rows here", rank % 2 == 0 or counted == 0, true)
  if ranks == 1 then same("rows", counted, 5 * h) end
  local total = celer.buffer("double", { ranks })
  q:submit(function(cg)
    cg:host_task(celer.collective(), function(part, total)
      total[part.rank] = part.kept.sum
    end, cg:discard_write(total))
  end)
  same("told", q:wait(total)[ranks - 1], sum)

  celer.io.save(path .. "u.npy", u)
  celer.io.save(path .. "u.h5", u, { box = celer.box({ h - 1, 0 }, { h, w }) })
  celer.checkpoint(path .. "kept", { u = u, none = celer.buffer("int", { 0, 3 }) }, { h = h })
  submit(k.add, { h, w }, {}, { mode = "read_write", of = u }, 1)
  local kept, extra = celer.restore(path .. "kept")
  same("kept", extra.h, h)
  for _, s in ipairs { { q:wait(kept.u, celer.io.load(path .. "u.npy")) } } do
    for y = 0, h - 1 do
      same("restored", s[1](y, w - 1), model[y][w - 1])
      same("loaded", s[2](y, 0), model[y][0])
    end
  end
  same("one row", q:wait(celer.io.load(path .. "u.h5"))(0, w - 1), model[h - 1][w - 1])
end
]==], nil, { shapes = shapes })
end)
