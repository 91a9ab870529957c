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

  for _, way in ipairs({ "mpi", "nccl" }) do
    it("moves messages of all shapes by " .. way, function()
      for seed = 1, 2 do
        local r = check(seed + 1, { "exchange", "--fake", "--way", way, "--seed", seed,
          "--messages", 30 })
        assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
      end
    end)
  end

  it("finds out which way is faster, in the middle of messages", function()
    for _, seed in ipairs({ 1, 2, 4, 5 }) do -- receivers are ahead of senders in some
      local r = check(seed + 1, { "exchange", "--fake", "--way", "chosen", "--seed", seed,
        "--messages", 30 })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end
  end)

  it("comes to an end where ranks are still at finding out", function()
    for messages = 2, 4 do
      local r = check(3, { "exchange", "--fake", "--way", "chosen", "--messages", messages })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end
  end)

  -- In each of the trials; the first one connects.
  for calls = 1, 3 do
    it(("does without NCCL where it fails after %d calls"):format(calls), function()
      local r = check(2, { "exchange", "--fake", "--way", "chosen", "--calls", calls,
        "--messages", 30 })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end)
  end

  it("measures the way between two ranks", function()
    for way, number in pairs({ staged = 0, mpi = 1, nccl = 2 }) do
      local r = check(3, { "measure", "--fake", "--way", way })
      assert.equal(("%d, fast\n1 passed, 0 failed\n"):format(number), r.stdout, r.stderr)
    end
    local r = check(2, { "measure", "--fake", "--way", "chosen" })
    assert.matches("^[02], fast\n1 passed, 0 failed\n", r.stdout)
  end)

  it("sends what NCCL has no room for in chunks", function()
    local r = check(3, { "exchange", "--fake", "--way", "nccl", "--lanes", 2,
      "--messages", 30 })
    assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
  end)

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

  it("is not made by an MPI that does not take GPUs' memory", function()
    local r = check(2, { "exchange", "--fake", "--way", "mpi", "--deaf" })
    assert.equal("pending: rank 0: its MPI does not take GPUs' memory\n", r.stdout, r.stderr)
  end)

  it("says so on both ranks when NCCL does not start on one", function()
    local r = check(2, { "fails", "--fake", "--way", "nccl" })
    assert.matches("rank %d: messages between the GPUs of ranks %d and %d cannot go by NCCL "
      .. "%(%-%-between nccl%): rank 1: NCCL: internal error\n", r.stderr)
    assert.is_true(r.status ~= 0 and r.status ~= 124, r.status)
  end)

  it("lets a stream go on which NCCL waits for a rank that does not come", function()
    local r = check(2, { "lost", "--fake", "--way", "nccl" })
    assert.equal("the stream is free, and the message is CANCELLED\n", r.stdout, r.stderr)
    assert.equal(3, r.status)
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

  it("gives all back when the driver or NCCL fails", function()
    local r = check(2, { "breaks", "--fake", "--way", "nccl" })
    assert.matches("^GPU 0[^\n]+ while [^\n]+\nall came back\n", r.stdout)
    assert.equal(3, r.status)
  end)

  it("does all of it on GPUs, which ranks may share", function()
    for _, words in ipairs({ { "exchange" }, { "exchange", "--large", "--buffers", 0 } }) do
      checker.passes(check(3, words), pending)
    end
  end)

  -- Each rank is on a host of its own for NCCL, so that they may share a GPU.
  it("does so by NCCL between GPUs, which ranks may share", function()
    for _, words in ipairs({ { "exchange", "--way", "nccl" }, { "exchange", "--way", "chosen" },
      { "exchange", "--large", "--messages", 20, "--way", "nccl" } }) do
      checker.passes(check(2, words, { NCCL_IB_DISABLE = 1, NCCL_SOCKET_IFNAME = "lo" }), pending)
    end
  end)
end)
