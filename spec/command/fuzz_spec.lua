-- Random programs on several ranks against brute force: a sample of what
-- `fuzz_command CASES SEED RANKS` does.
local celer = require("spec.support.celer")
local fuzz = celer.command():gsub("celer$", "fuzz_command")

describe("random programs on several ranks", function()
  local file = io.open(fuzz)
  if not file then
    pending("need the program fuzz_command")
    return
  end
  file:close()

  it("send what is lacked, once, from its last writer", function()
    local r = celer.exec({ fuzz, "2000", "1" })
    assert.equal("", r.stderr)
    assert.equal(0, r.status, r.stdout)
    assert.matches("2000 passed, 0 failed", r.stdout)
    for _, what in ipairs { "broadcast", "scatter", "gather", "all_gather", "all_to_all",
      "in pairs", "in groups", "that weights leave ranks out of", "joined", "points passed on" } do
      assert.is_true(tonumber((" " .. r.stdout):match("%s(%d+) " .. what)) > 0, r.stdout)
    end
  end)
end)
