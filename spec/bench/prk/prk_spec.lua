-- The table of the Parallel Research Kernels: that all programs give the right result, in
-- celer and with MPI, and all rows come out; not their values.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local function prk(...)
  return celer.exec({ "luajit", "spec/bench/prk/prk.lua", ... },
    { env = { CELER_BUILD = os.getenv("CELER_BUILD") } })
end

describe("prk.lua", function()
  it("prints all rows, and writes them as JSON", function()
    if celer.exec({ "sh", "-c", "command -v mpicc" }).status ~= 0 then
      return pending("needs mpicc")
    end
    local path = scratch.path()
    local r = prk("--tiny", "--turns", "1", "--json", path)
    assert.equal("", r.stderr)
    assert.equal(0, r.status, r.stdout)
    local result = cjson.decode(scratch.read(path))
    assert.same(result, cjson.decode((r.stdout:match("{[^\n]*}\n$"))))
    local i = 0
    for name in prk("--list").stdout:gmatch("([%w_]+)\n") do
      for ranks = 1, 2 do
        i = i + 1
        local row = result.rows[i]
        assert.same({ name, ranks }, { row.row, row.ranks })
        assert.is_true(row.rate > 0 and row.rate < math.huge, name)
        assert.equal(row.rate >= row.target, row.met)
        assert.truthy(r.stdout:find(("\n%-16s %5d "):format(name, ranks), 1, true), name)
      end
    end
    assert.equal(i, #result.rows)
  end)

  it("refuses what it does not know, and says which program failed", function()
    local r = prk("--only", "nothing")
    assert.equal(1, r.status)
    assert.equal("there is no row nothing; --list names them\n", r.stderr)
    assert.truthy(prk("--turns", "0").stderr:find("^usage: "))
    r = celer.exec({ "luajit", "spec/bench/prk/prk.lua", "--tiny", "--only", "sparse" },
      { env = { CELER_BUILD = "no/such/build" } })
    assert.equal(1, r.status)
    assert.truthy(r.stdout:find("\nsparse +1 FAILED: "), r.stdout)
  end)
end)
