-- Collectives between the GPUs of all ranks, through nccl_check: with a driver and an
-- NCCL that are none everywhere, and with GPUs where there are some.
local checker = require("spec.support.checker")

checker.describe("collectives by NCCL", "nccl_check", function(check)
  for ranks = 2, 4 do
    local devices = 4 - ranks > 0 and 4 - ranks or 1
    it(("bring what they must, %d ranks with %d GPUs each"):format(ranks, devices), function()
      local r = check(ranks, { "spread", "--fake", "--devices", devices, "--seed", ranks })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end)
  end

  it("are not made where a rank has no GPU", function()
    local r = check(2, { "spread" }, { CUDA_VISIBLE_DEVICES = "" })
    assert.equal("pending: rank 0: it uses no GPU\n", r.stdout, r.stderr)
  end)

  it("tell ranks that mean different ones, where NCCL would wait for ever", function()
    local r = check(2, { "differ", "--fake" })
    -- The rank that ends first may end the job before the other one has said it.
    assert.matches("rank (%d): ranks %1 and %d mean different collectives by number 0", r.stdout)
    assert.equal(3, r.status)
  end)

  it("let streams go that wait for a rank which does not come", function()
    local r = check(2, { "halt", "--fake" })
    assert.matches("the stream is free, and puts are CANCELLED\n", r.stdout, 1, true)
    assert.equal(3, r.status)
  end)

  it("end with the job when a rank is killed whose part others wait for", function()
    local r = check(2, { "die", "--fake" })
    -- 137 may be mpirun's own account of a rank that was killed.
    assert.is_true(r.status ~= 0 and r.status ~= 124, r.status)
    assert.is_nil((r.stdout .. r.stderr):find("still here", 1, true))
  end)

  it("are put by one thread while another asks how they are", function()
    local r = check(2, { "share", "--fake" })
    assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
  end)

  it("say so when NCCL fails", function()
    local r = check(2, { "refuse", "--fake" })
    assert.matches("rank %d: GPU 0: NCCL failed while %g+: internal error: it is a fake\n",
      r.stdout)
    assert.equal(3, r.status)
  end)

  it("go through host memory on all ranks if NCCL does not start on one", function()
    local r = check(3, { "refused", "--fake" })
    assert.equal("pending: rank 2: GPU 0: NCCL failed while connecting: internal error: "
      .. "it is a fake\n", r.stdout, r.stderr)
    assert.equal(0, r.status)
  end)

  for mode, where in pairs({ absent = "before they meet", late = "before NCCL starts",
    missing = "behind that" }) do
    it(("hear a rank that fails %s, while others wait for it"):format(where), function()
      local r = check(3, { mode, "--fake" })
      assert.equal("heard\n", r.stdout, r.stderr)
    end)
  end

  for devices = 1, 2 do
    it(("do all of it on GPUs, %d to a rank"):format(devices), function()
      checker.passes(check(2, { "spread", "--devices", devices }), pending)
    end)
  end
end)
