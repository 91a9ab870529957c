-- The executor against a model of what is complete, through executor_check.
local celer = require("spec.support.celer")

local program = celer.command():gsub("celer$", "executor_check")

local function can_run()
  local file = io.open(program)
  if file then file:close() end
  return file ~= nil
end

describe("the executor", function()
  if not can_run() then
    pending("not built: " .. program)
    return
  end

  it("issues in order of priority and age, never too early, never late", function()
    local r = celer.exec({ program, "issue", 300 })
    assert.equal("300 graphs\n", r.stdout)
    assert.equal(0, r.status)
  end)

  it("hands memory on from what is freed to what waits for as much", function()
    local r = celer.exec({ program, "memory" })
    assert.equal("5 allocations\n", r.stdout)
    assert.equal(0, r.status)
  end)

  it("issues nothing after a failure, and takes in what runs", function()
    local r = celer.exec({ program, "failure" })
    assert.equal("200 graphs\n", r.stdout)
    assert.equal(0, r.status)
  end)
end)
