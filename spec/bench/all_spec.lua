-- The command that runs the benchmarks.
local cjson = require("cjson")
local celer = require("spec.support.celer")

local function all(...)
  return celer.exec({ "luajit", "spec/bench/all.lua", ... },
    { env = { CELER_BUILD = os.getenv("CELER_BUILD") } })
end

describe("all.lua", function()
  it("prints a table with targets, and writes it as JSON", function()
    local path = os.tmpname()
    local r = all("--only", "memory", "--only", "hello", "--json", path)
    assert.equal("", r.stderr)
    assert.equal(0, r.status, r.stdout)
    assert.truthy(r.stdout:find("\nhello +hello.lua, warm cache +%S+ ms +<= 100 +%S+\n"), r.stdout)
    local file = assert(io.open(path))
    local report = cjson.decode(file:read("*a"))
    file:close()
    os.remove(path)
    assert.is_number(report.machine.cores)
    assert.same({}, report.failed)
    local row = report.rows[#report.rows]
    assert.equal("hello", row.name)
    assert.equal("<= 100", row.target)
    assert.equal(row.value <= 100, row.met)
  end)

  it("refuses what it does not know", function()
    local r = all("--fast")
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("^usage: "))
  end)

  it("fails when a benchmark does", function()
    local r = celer.exec({ "luajit", "spec/bench/all.lua", "--only", "memory" },
      { env = { CELER_BUILD = "no/such/build" } })
    assert.equal(1, r.status)
    assert.truthy(r.stdout:find("memory FAILED: ", 1, true))
  end)
end)
