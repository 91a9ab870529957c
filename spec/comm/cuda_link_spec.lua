-- Direct messages between the GPUs of one host's ranks, through link_check:
-- with a driver that is none everywhere, and with GPUs where there are some.
local checker = require("spec.support.checker")

checker.describe("the link between GPUs", "link_check", function(check)
  for ranks = 2, 4 do
    it(("moves messages of all shapes between %d ranks"):format(ranks), function()
      local r = check(ranks, { "exchange", "--fake", "--messages", 30, "--seed", ranks })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end)
  end

  it("is not made where a rank has no GPU", function()
    local r = check(2, { "exchange" }, { CUDA_VISIBLE_DEVICES = "" })
    assert.equal("pending: rank 0: it uses no GPU\n", r.stdout, r.stderr)
  end)

  it("is not made where a probe fails, on all ranks and with nothing left", function()
    local r = check(3, { "refused", "--fake" })
    assert.equal("pending: rank 2: filling a mailbox: the fake driver refuses\n", r.stdout,
      r.stderr)
    assert.equal(0, r.status, r.stderr)
  end)

  it("goes through mailboxes alone where a rank cannot open what others lend", function()
    local r = check(3, { "unlent", "--fake", "--messages", 20, "--seed", 2 })
    local why = "unlent: rank 2: cuMemImportFromShareableHandle: the fake driver refuses"
    for rank = 0, 2 do
      assert.matches(("rank %d: %s\n"):format(rank, why), r.stdout, 1, true)
    end
    assert.matches("1 passed, 0 failed\n", r.stdout, 1, true)
  end)

  it("opens the blocks that it lacks of a message's", function()
    local r = check(2, { "blocks", "--fake", "--seed", 1 })
    assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
  end)

  it("writes to no block of memory that there is no more", function()
    local r = check(2, { "anew", "--fake" })
    assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
  end)

  it("tells both ends when their lengths differ", function()
    local r = check(2, { "mismatch", "--fake" })
    assert.matches("rank 0: direct message 0 has 100 bytes here, but 120 on rank 1",
      r.stdout, 1, true)
    assert.matches("rank 1: direct message 0 has 120 bytes here, but 100 on rank 0",
      r.stdout, 1, true)
  end)

  it("gives all back when the driver fails", function()
    local r = check(2, { "breaks", "--fake" })
    assert.matches("GPU 0 failed while %a+ %a+ rank 1: the fake driver refuses\n", r.stdout)
    assert.matches("all came back\n", r.stdout, 1, true)
    assert.equal(3, r.status)
  end)

  it("does all of it on GPUs", function()
    checker.passes(check(4, { "exchange", "--messages", 40 }), pending)
  end)
end)
