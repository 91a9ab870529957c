-- Host lanes with threads, through lanes_check, hush_check and groups_check.
local celer = require("spec.support.celer")

local function check(name)
  local program = celer.command():gsub("celer$", name)
  local file = io.open(program)
  if not file then return pending("not built: " .. program) end
  file:close()
  local r = celer.exec({ program })
  assert.equal(0, r.status)
  return r.stdout
end

describe("host lanes", function()
  it("do each job once, each lane in a state of its own", function()
    assert.equal("2000 jobs\n", check("lanes_check"))
  end)

  it("wake the executor when somebody waits for what is done, and once for a chain", function()
    assert.equal("told\n", check("hush_check"))
  end)

  it("give each group of collective tasks a thread, which may block", function()
    assert.equal("3 groups\n", check("groups_check"))
  end)
end)
