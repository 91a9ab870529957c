-- Direct messages between hosts, through road_check: ranks take each other to be on hosts of
-- their own; with a driver that is none everywhere, and with GPUs where there are some.
local checker = require("spec.support.checker")

checker.describe("the road between the GPUs of several hosts", "road_check", function(check)
  for seed, buffers in ipairs({ 1, 3, 40 }) do
    it(("moves messages of all shapes, by %d buffers"):format(buffers), function()
      local r = check(seed + 1, { "exchange", "--fake", "--seed", seed, "--buffers", buffers })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end)
  end

  it("moves messages in chunks of usual lengths", function()
    local r = check(2, { "exchange", "--fake", "--large", "--messages", 40 })
    assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
  end)

  it("is not made where a rank has no GPU, or several", function()
    local r = check(3, { "refused", "--fake" })
    assert.equal("pending: rank 2: it uses no GPU\n", r.stdout, r.stderr)
    r = check(2, { "several", "--fake" })
    assert.equal("pending: rank 1: it has several GPUs\n", r.stdout, r.stderr)
  end)

  it("tells a receiver that expects another length", function()
    local r = check(2, { "mismatch", "--fake" })
    assert.matches("from rank 0 holds 100 bytes, but 120 are expected", r.stdout, 1, true)
    assert.equal(4, r.status)
  end)

  it("gives all back when the driver fails", function()
    local r = check(2, { "breaks", "--fake" })
    assert.matches("^GPU 0 failed while copying a message %a+ between hosts: the fake driver "
      .. "refuses\nall came back\n", r.stdout)
    assert.equal(3, r.status)
  end)

  it("does all of it on GPUs, which ranks may share", function()
    for _, words in ipairs({ { "exchange" }, { "exchange", "--large", "--buffers", 0 } }) do
      checker.passes(check(3, words), pending)
    end
  end)
end)
