-- Lines over axes, as PNG and SVG files.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder
setup(function() folder = scratch.folder() end)
teardown(function() os.execute("rm -rf " .. folder) end)

local function run(text, ranks)
  scratch.write(folder .. "/case.lua", "local celer = require 'celer'; local q = celer.queue();"
    .. text)
  local r = celer.run({ "run", "case.lua" }, { ranks = ranks, cwd = folder })
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  return r.stdout
end

-- The coloured lines of an SVG file: two ends each.
local function drawn(name)
  local out = {}
  for x, y, u, v, color in scratch.read(folder .. "/" .. name)
    :gmatch 'd="M(%S+) (%S-)L(%S+) (%S-)" stroke="(#%x+)"' do
    if color ~= "#000000" then
      out[#out + 1] = { tonumber(x), tonumber(y), tonumber(u), tonumber(v), color }
    end
  end
  return out
end

describe("a plot", function()
  it("has its points where the axes say, on two ranks", function()
    run([[
local b = celer.buffer("double", { 3 }, { init = { 0, 5, 10 } })
local options = { xlim = { 0, 2 }, ylim = { 0, 10 }, title = "a < b & c" }
celer.plot("new/a.svg", { { x = { 0, 1, 2 }, y = q:wait(b) } }, options)
celer.plot("a.png", { { x = { 0, 1, 2 }, y = { 0, 5, 10 } } }, options)
q:wait()]], 2)
    local lines = drawn("new/a.svg")
    local first, last = lines[1], lines[#lines]
    assert.equal(3, #lines)
    assert.near((first[1] + last[3]) / 2, last[1], 0.01)
    assert.near((first[2] + last[4]) / 2, last[2], 0.01)
    local text = scratch.read(folder .. "/new/a.svg")
    assert.matches(">a &lt; b &amp; c</text>", text, 1, true)
    -- The PNG has the blue of the line where the SVG has its middle, and black axes.
    assert.equal("true\ttrue\ttrue\n", run(([[
local p = q:wait(celer.io.load("a.png", { colors = "rgb" }))
print(p(%d, %d, 2) == 0xa8, p.size[0] == 500, p.size[1] == 800)]]):format(last[2] + 0.5,
      last[1] + 0.5)))
  end)

  it("is of x and y, or of y alone, also of snapshots", function()
    run([[
local x, y = { 0, 1, 4 }, { 5, 7, 6 }
local b = celer.buffer("double", 3, { init = y })
local options = { title = "t" }
celer.plot("lines.svg", { { x = x, y = y } }, options)
celer.plot("x and y.svg", x, q:wait(b), options)
celer.plot("of y.svg", { { y = y } })
celer.plot("y alone.svg", y)
celer.host_task(celer.on_master, function(_, b) celer.plot("task.svg", b) end, b)]])
    assert.equal(scratch.read(folder .. "/lines.svg"), scratch.read(folder .. "/x and y.svg"))
    local wanted = scratch.read(folder .. "/of y.svg")
    assert.equal(wanted, scratch.read(folder .. "/y alone.svg"))
    assert.equal(wanted, scratch.read(folder .. "/task.svg"))
  end)

  it("takes logarithms", function()
    run([[celer.plot("log.svg", { { x = { 1, 10, 1000 }, y = { 1, 100, 1e6 }, label = "n" } },
      { log = "xy", xlim = { 1, 1000 }, ylim = { 1, 1e6 }, legend = false })]])
    local lines = drawn("log.svg")
    local first, last = lines[1], lines[#lines]
    assert.near(first[1] + (last[3] - first[1]) / 3, last[1], 0.01)
    assert.near(first[2] + (last[4] - first[2]) / 3, last[2], 0.01)
    assert.matches(">1e3</text>", scratch.read(folder .. "/log.svg"), 1, true)
  end)

  it("is cut at its limits, and interrupted where there is no number", function()
    run([[celer.plot("cut.svg", { { x = { -10, 10 }, y = { -10, 10 } },
      { y = { 1, 1, 0 / 0, 1, 1 / 0, 1 }, label = "gaps" } }, { xlim = { 0, 4 }, ylim = { 0, 4 },
      legend = false })
    celer.plot("equal.svg", { { y = { 7, 7 } } })
    celer.plot("zero.png", { { y = { 0 } } })
    celer.plot("huge.svg", { { y = { -1e300, 1e300 } } })]])
    local seen = {}
    for _, line in ipairs(drawn("cut.svg")) do
      for i = 1, 3, 2 do assert.is_true(line[i] >= 20 and line[i] <= 761) end
      seen[line[5]] = (seen[line[5]] or 0) + 1
    end
    assert.same({ ["#1f5fa8"] = 1, ["#c44e1d"] = 3 }, seen)
  end)

  it("is refused at the script's line", function()
    assert.equal("checked\n", run([[

local function refused(words, ...)
  local ok, message = pcall(celer.plot, ...)
  if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
local y = { { y = { 1, 2 } } }
refused('must end in .png or .svg: "a.pdf"', "a.pdf", y)
refused("takes x and y, or a list of lines", "a.png", 3)
refused("takes x and y, or a list of lines", nil, y)
refused('as must be "kitty", "sixel" or "blocks", not "foot"', y, { as = "foot" })
refused("'as' is for terminals", "a.png", y, { as = "kitty" })
refused("not an empty table", "a.png", {})
refused("not a table", "a.png", { x = { 1, 2 }, y = { 1, 2 } })
refused("line 1 has 1 x and 2 y", "a.png", { { x = { 1 }, y = { 1, 2 } } })
refused("line 1.y[2] is a string, not a number", "a.png", { { y = { 1, "2" } } })
refused("line 1.y must be a list of numbers or a snapshot, not nil", "a.png", { {} })
refused("line 1: unknown option 'lable', did you mean label?", "a.png", { { y = {}, lable = "" } })
refused("there is no point to draw: no line has finite numbers", "a.png", { { y = { 0 / 0 } } })
refused("there is no point to draw", "a.png", { { y = {} } })
refused("logarithms are of positive numbers", "a.png", { { y = { -1, 0 } } }, { log = "y" })
refused('log must be "x", "y" or "xy", not "z"', "a.png", y, { log = "z" })
refused("xlim must be two different numbers", "a.png", y, { xlim = { 1, 1 } })
refused("ylim must be two different, positive numbers", "a.png", y, { ylim = { 0, 1 }, log = "y" })
refused("must be numbers in 1 dimension", "a.png",
  { { y = q:wait(celer.buffer("int", { 2, 2 }, { init = 0 })) } })
refused("Not a directory", "case.lua/a.svg", y)
refused("cannot write /sys/a.png", "/sys/a.png", y)
print "checked"]]))
  end)
end)
