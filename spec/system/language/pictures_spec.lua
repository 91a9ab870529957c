-- Pictures of fields, planes and projections, with what stands around them.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder
setup(function() folder = scratch.folder() end)
teardown(function() os.execute("rm -rf " .. folder) end)

local function run(text, ranks)
  scratch.write(folder .. "/case.lua", "local celer = require 'celer'; local q = celer.queue();"
    .. text)
  local r = celer.run({ "run", "--devices", celer.devices(1, ranks), "case.lua" },
    { ranks = ranks, cwd = folder })
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  return r.stdout
end

-- The gray levels of what celer.io.save draws, and a host task with celer.png, are `wanted`.
local taken = [[
local function drawn(path) return q:wait(celer.io.load(path)) end
local function same(u, options, wanted)
  options.min, options.max = 0, 255
  celer.io.save("saved.png", u, options)
  q:submit(function(cg)
    cg:host_task(celer.on_master, function(_, u) celer.png("shown.png", u, options) end,
      cg:read(u, celer.all))
  end)
  q:wait()
  for _, path in ipairs { "saved.png", "shown.png" } do
    local p = drawn(path)
    assert(p.size[0] == #wanted and p.size[1] == #wanted[1], path)
    for i, row in ipairs(wanted) do
      for j, value in ipairs(row) do
        if p(i - 1, j - 1) ~= value then
          error(("%s (%d, %d) is %d, not %d"):format(path, i - 1, j - 1, p(i - 1, j - 1), value), 2)
        end
      end
    end
  end
end
local u = celer.buffer("int16_t", { 4, 2, 3 }, { name = "u", init = function(i, j, k)
  return 12 * i + 4 * j + k
end })]]

describe("a picture", function()
  for _, ranks in ipairs { 1, 3 } do
    it("shows a plane or a projection on " .. ranks .. " rank(s)", function()
      assert.equal("checked\n", run(taken .. [[
same(u, { plane = { dim = 0, at = 1 } }, { { 12, 13, 14 }, { 16, 17, 18 } })
same(u, { plane = { dim = 2, at = 2 } }, { { 2, 6 }, { 14, 18 }, { 26, 30 }, { 38, 42 } })
same(u, { project = { dim = 0, by = "sum" } }, { { 72, 76, 80 }, { 88, 92, 96 } })
same(u, { project = { dim = 0, by = "mean" } }, { { 18, 19, 20 }, { 22, 23, 24 } })
same(u, { project = { dim = 1, by = "max" } }, { { 4, 5, 6 }, { 16, 17, 18 }, { 28, 29, 30 },
  { 40, 41, 42 } })
celer.io.save("part.png", u, { box = celer.box({ 1, 1, 0 }, { 3, 2, 2 }), min = 0, max = 255,
  project = { dim = 0, by = "max" } })
local p = drawn("part.png")
assert(p.size[0] == 1 and p.size[1] == 2 and p(0, 0) == 28 and p(0, 1) == 29)
print "checked"]], ranks > 1 and ranks or nil))
    end)

    it("shows a field on " .. ranks .. " rank(s)", function()
      assert.equal("checked\n", run(taken .. [[
local cell = celer.struct("cell", "char tag; struct { float x; float y; } v; int id[2];")
local s = celer.buffer(cell, { 3, 2 }, { init = function(i, j)
  return { v = { x = i, y = 10 * i + j }, id = { 7, 100 + i } }
end })
same(s, { field = "v.y" }, { { 0, 1 }, { 10, 11 }, { 20, 21 } })
same(s, { field = "id[1]" }, { { 100, 100 }, { 101, 101 }, { 102, 102 } })
print "checked"]], ranks > 1 and ranks or nil))
    end)
  end

  it("keeps a NaN in every projection", function()
    assert.equal("80 80 80\n", run([[
local u = celer.buffer("float", { 3, 1, 1 }, { init = { 1, 0 / 0, 2 } })
local seen = {}
for _, by in ipairs { "max", "mean", "sum" } do
  celer.io.save("nan.png", u, { project = { dim = 0, by = by }, min = 0, max = 1 })
  seen[#seen + 1] = q:wait(celer.io.load("nan.png"))(0, 0)
end
print(table.concat(seen, " "))]], 2))
  end)

  it("is enlarged point by point, and stays so within its frame", function()
    assert.equal("6 x 9\nchecked\n", run([[
local u = celer.buffer("int", { 2, 3 }, { init = function(i, j) return 3 * i + j end })
local function drawn(name, options)
  celer.io.save(name, u, options)
  return q:wait(celer.io.load(name))
end
local large = drawn("large.png", { scale = 3, max = 255 })
print(large.size[0] .. " x " .. large.size[1])
for i = 0, 5 do
  for j = 0, 8 do assert(large(i, j) == 3 * math.floor(i / 3) + math.floor(j / 3)) end
end
-- Without a colour bar, the frame's first column is that of its left line.
local framed = drawn("framed.png", { scale = 40, max = 255, title = "T" })
local top, left = 16, 4
for i = 0, 79 do
  for j = 0, 119 do
    assert(framed(top + i, left + j) == 3 * math.floor(i / 40) + math.floor(j / 40))
  end
end
assert(framed(top - 1, left) == 0 and framed(top, left - 1) == 0 and framed(0, 0) == 255)
-- The title: the bar of the T, and its stem.
for x = 4, 8 do assert(framed(4, x) == 0) end
assert(framed(10, 6) == 0 and framed(10, 5) == 255)
print "checked"]]))
  end)

  it("has axes and a colour bar, also where numbers are equal, few or none", function()
    assert.equal("checked\n", run([[
for i, value in ipairs { 5, 0 / 0, 1 / 0, -1e300 } do
  local u = celer.buffer("double", { 30, 40 }, { init = function() return value end })
  celer.io.save(i .. ".png", u, { axes = true, colorbar = true, xlabel = "x", ylabel = "y",
    title = "a title that is wider than all of the picture below it, \195\164 too" })
  local p = q:wait(celer.io.load(i .. ".png"))
  assert(p.size[0] > 30 + 16 and p.size[1] > 6 * 60, p.size[1])
end
-- The bar has the greatest number on top.
local u = celer.buffer("int", { 100, 10 }, { init = function(i) return i end })
celer.io.save("bar.png", u, { colorbar = true })
local p = q:wait(celer.io.load("bar.png"))
local x = 4 + 10 + 4 + 3
assert(p(4, x) == 255 and p(103, x) == 0, p(4, x) .. " " .. p(103, x))
-- Axes have marks at round numbers: 0, 50 and 100 of 101 rows.
local v = celer.buffer("int", { 101, 10 }, { init = 0 })
celer.io.save("axes.png", v, { axes = true, ylim = { 0, 100 } })
p = q:wait(celer.io.load("axes.png"))
local marks, left = {}, 4 + 3 + 18 + 1
for i = 4, 104 do
  if p(i, left - 3) == 0 and p(i, left - 2) == 0 then marks[#marks + 1] = i - 4 end
end
assert(table.concat(marks, " ") == "0 50 100" or table.concat(marks, " ") == "0 20 40 60 80 100",
  table.concat(marks, " "))
print "checked"]]))
  end)

  it("is refused at the script's line", function()
    assert.equal("checked\n", run([[

local cell = celer.struct("cell", "float mass; float v[3]; bool on;")
local s = celer.buffer(cell, { 3, 2 }, { name = "s",
  init = { mass = 1, v = { 1, 2, 3 }, on = true } })
local u = celer.buffer("int", { 4, 3, 2 }, { name = "u", init = 0 })
local f = celer.buffer("int", { 4, 3 }, { name = "f", init = 0 })
local function refused(words, b, options)
  for _, draw in ipairs { celer.io.save, celer.png } do
    local what = draw == celer.png and q:wait(b) or b
    local ok, message = pcall(draw, "a.png", what, options)
    if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
      error(words .. ": " .. tostring(message), 2)
    end
  end
end
refused("s does not hold numbers", s, {})
refused("s has no field mas, did you mean mass?", s, { field = "mas" })
refused("s has no number in its field v", s, { field = "v" })
refused("s has no number in its field on", s, { field = "on" })
refused("s has no field v[3]: there is no element [3]", s, { field = "v[3]" })
refused("s field must be a name", s, { field = "v..x" })
refused("f has no field x; it holds numbers", f, { field = "x" })
refused("f has 2 dimensions; plane is for 3", f, { plane = { dim = 0, at = 0 } })
refused("u has no plane 4 along dimension 0: there are 0 to 3", u, { plane = { dim = 0, at = 4 } })
refused("plane must be a table such as { dim = 0, at = 12 }, not a number", u, { plane = 3 })
refused("project: dim must be 0, 1 or 2, not 3", u, { project = { dim = 3, by = "max" } })
refused("unknown projection 'maxx', did you mean max?", u, { project = { dim = 0, by = "maxx" } })
refused("is drawn by plane or by project", u, { plane = { dim = 0, at = 0 }, project = {} })
refused("scale must be a whole number from 1 on, not 0", f, { scale = 0 })
refused("a picture 10000 times as large has more than 2^26 points", f, { scale = 10000 })
refused("title must be a string, not a number", f, { title = 3 })
refused("xlim must be two different numbers", f, { xlim = { 1, 1 } })
refused("unknown option 'plain', did you mean plane?", u, { plain = 3 })
print "checked"]]))
  end)
end)
