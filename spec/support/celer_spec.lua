local celer = require("spec.support.celer")

describe("celer.exec", function()
  it("gives status, stdout and stderr apart", function()
    local r = celer.exec({ "sh", "-c", "cat; echo no >&2; exit 3" }, { stdin = "yes" })
    assert.equal(3, r.status)
    assert.equal("yes", r.stdout)
    assert.equal("no\n", r.stderr)
  end)

  it("passes words and variables as they are", function()
    local word = "it's \"$HOME\" *"
    local r = celer.exec({ "sh", "-c", "echo \"$1$V\"", "sh", word }, { env = { V = word } })
    assert.equal(word .. word .. "\n", r.stdout)
  end)

  it("kills what takes too long", function()
    local r = celer.exec({ "sleep", "20" }, { timeout = 0.2 })
    assert.is_true(r.timed_out)
  end)
end)

describe("celer.run", function()
  it("starts the command under test", function()
    assert.equal(0, celer.run({ "--version" }).status)
  end)

  it("starts it on several ranks", function()
    local r = celer.run({ "--version" }, { ranks = 3 })
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end)
end)
