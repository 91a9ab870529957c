-- The table of what one step costs: that all of its rows come out, not their values.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local function step(...)
  return celer.exec({ "luajit", "spec/bench/step.lua", ... },
    { env = { CELER_BUILD = os.getenv("CELER_BUILD") } })
end

local function is_there(command)
  return celer.exec({ "sh", "-c", "command -v " .. command }).status == 0
end

-- All values that a turn of next to nothing gives: finite numbers, one for each figure.
local function assert_measured(row)
  for _, figure in ipairs(row.figures) do
    local where = row.row .. ", " .. figure.name
    assert.is_number(figure.target, where)
    assert.is_number(figure.value, where)
    assert.is_true(math.abs(figure.value) < math.huge, where)
    assert.same({ figure.value }, figure.turns, where)
    local met = figure.value <= figure.target
    if row.sense == ">=" then met = figure.value >= figure.target end
    assert.equal(met, figure.met, where)
  end
end

describe("step.lua", function()
  it("prints all rows, with the machine, and writes them as JSON", function()
    if not is_there("taskset") or not is_there("mpicc") then
      return pending("needs taskset and mpicc")
    end
    local path = scratch.path()
    local r = step("--tiny", "--turns", "1", "--json", path)
    assert.equal("", r.stderr)
    assert.equal(0, r.status, r.stdout)
    local result = cjson.decode(scratch.read(path))
    assert.same(result, cjson.decode((r.stdout:match("{[^\n]*}\n$"))))
    assert.is_number(result.machine.cores)
    assert.is_number(result.machine.load)
    assert.equal(not result.machine.quiet, r.stdout:find("WARNING: ", 1, true) ~= nil)
    local names = {}
    for line in step("--list").stdout:gmatch("(%w+)[^\n]*\n") do names[#names + 1] = line end
    assert.equal(#names, #result.rows)
    for i, row in ipairs(result.rows) do
      assert.equal(names[i], row.row)
      assert.truthy(r.stdout:find("\n" .. row.row .. " +" .. row.what:gsub("%p", "%%%0")),
        row.row)
      if row.row ~= "prepared" then assert_measured(row) end
    end
  end)

  it("takes medians of the turns, and runs nothing for other rows", function()
    local r = step("--tiny", "--turns", "3", "--only", "graphs")
    assert.equal(0, r.status, r.stdout)
    local result = cjson.decode((r.stdout:match("{[^\n]*}\n$")))
    assert.equal(1, #result.rows)
    for _, figure in ipairs(result.rows[1].figures) do
      table.sort(figure.turns)
      assert.equal(3, #figure.turns)
      assert.equal(figure.turns[2], figure.value)
    end
  end)

  it("refuses what it does not know", function()
    local r = step("--only", "nothing")
    assert.equal(1, r.status)
    assert.equal("there is no row nothing; --list names them\n", r.stderr)
    r = step("--turns", "0")
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("^usage: "))
  end)

  it("says which rows a program that fails leaves empty", function()
    local r = celer.exec({ "luajit", "spec/bench/step.lua", "--tiny", "--only", "graphs" },
      { env = { CELER_BUILD = "no/such/build" } })
    assert.equal(1, r.status)
    assert.truthy(r.stdout:find("FAILED / FAILED / FAILED", 1, true), r.stdout)
    assert.truthy(r.stdout:find("graph FAILED: ", 1, true), r.stdout)
  end)
end)
