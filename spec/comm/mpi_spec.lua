-- The MPI transport between real processes, through mpi_check.
local checker = require("spec.support.checker")

checker.describe("the MPI transport", "mpi_check", function(check)
  it("knows its place", function()
    local r = check(3, { "where" })
    assert.equal(0, r.status)
    for rank = 0, 2 do
      assert.matches(("rank %d of 3, %d of 3 here"):format(rank, rank), r.stdout, 1, true)
    end
    assert.matches("MPI.*, MPI_THREAD_%u+\n", r.stdout)
  end)

  it("broadcasts bytes of any number", function()
    local r = check(3, { "spread" })
    assert.equal("1 passed, 0 failed\n", r.stdout)
  end)

  it("lets ranks compare their clocks", function()
    for ranks = 2, 4 do
      local r = check(ranks, { "clocks" })
      assert.equal("1 passed, 0 failed\n", r.stdout, r.stderr)
    end
  end)

  -- Windows and bounds far below what a run uses, so that all queues fill.
  local bounds = {
    { window = 2, sends = 1, receives = 1, ranks = 3, small = 100 },
    { window = 4, sends = 2, receives = 1, ranks = 4, small = 1000 },
    { window = 16, sends = 5, receives = 40, ranks = 2, small = 0 },
    { window = 1024, sends = 256, receives = 256, ranks = 4, small = 65536 },
    { window = 2, sends = 1, receives = 1, ranks = 3, small = 100, eager = 200, part = 70000 },
    { window = 16, sends = 5, receives = 40, ranks = 2, small = 1000, eager = 0, part = 3000 },
    { window = 1024, sends = 256, receives = 256, ranks = 4, small = 0, eager = 65536,
      part = 262144 },
  }
  for seed, b in ipairs(bounds) do
    local parts = b.part and (", parts of %d bytes"):format(b.part) or ""
    it(("exchanges messages, window %d, %d sends, %d receives%s"):format(
      b.window, b.sends, b.receives, parts), function()
      local r = check(b.ranks, {
        "exchange", "--seed", seed, "--messages", 400, "--window", b.window,
        "--sends", b.sends, "--receives", b.receives, "--small", b.small,
        "--eager", b.eager or 0, "--part", b.part or 0, "--apart", b.part and 1 or 0,
      })
      assert.equal("", r.stderr)
      assert.matches("1 passed, 0 failed", r.stdout, 1, true)
      assert.equal(0, r.status)
    end)
  end

  for ranks = 2, 4 do
    it(("lets %d ranks exchange together, several times at once"):format(ranks), function()
      local r = check(ranks, { "share", "--seed", ranks, "--messages", 300 })
      assert.equal("", r.stderr)
      assert.equal(("1 passed, 0 failed\n"):rep(ranks), r.stdout)
    end)
  end

  for _, far in ipairs { 0, 1 } do
    it("forgets what is under way, and leaves nothing behind" .. (far == 1 and ", in parts" or ""),
      function()
        local r = check(3, { "renew", "--window", 4, "--sends", 3, "--receives", 3, "--small", 1000,
          "--eager", 60000, "--part", 60000, "--apart", far })
        assert.equal("", r.stderr)
        local ranks = 0
        for more in r.stdout:gmatch "(%d+) bytes more\n" do
          ranks = ranks + 1
          assert.is_true(tonumber(more) < 2000, r.stdout)
        end
        assert.equal(3, ranks)
      end)
  end

  it("talks to itself when it is alone", function()
    local r = check(1, { "exchange" })
    assert.matches("1 passed, 0 failed", r.stdout, 1, true)
  end)

  it("lets half a window leave before anybody takes it, and stays awake", function()
    for _, window in ipairs({ 2, 16 }) do
      local r = check(2, { "flood", "--window", window, "--sends", 99, "--receives", 99 })
      assert.equal(window / 2 .. " left early, awake\n", r.stdout)
    end
  end)

  it("fails a message that is shorter or longer than expected, and no text", function()
    local r = check(2, { "mismatch", 11 })
    assert.matches("holds 10 bytes, but 11 are expected", r.stdout, 1, true)
    r = check(2, { "mismatch", 9 })
    assert.matches("receiving from rank 0: MPI_ERR_TRUNCATE", r.stdout, 1, true)
  end)

  it("says so when ranks cannot reach each other any more", function()
    local r = check(2, { "breaks" })
    assert.matches("^MPI failed while agreeing: MPI_ERR_COMM", r.stdout)
  end)

  it("keeps what MPI may still write to where it breaks", function()
    local r = check(2, { "outlives" })
    assert.matches("^MPI failed while looking for messages: [^\n]*; 7\n$", r.stdout)
  end)

  for _, where in ipairs({ "broadcast", "gather", "most", "clocks" }) do
    it("hears a rank that fails where others wait for it: " .. where, function()
      local r = check(3, { "absent", where })
      assert.equal("heard\n", r.stdout, r.stderr)
    end)
  end

  for _, how in ipairs({ "kill", "exit", "abort" }) do
    it("ends all ranks when one of them ends by " .. how, function()
      local r = check(3, { "die", how })
      -- 137 may be mpirun's own account of a rank that was killed.
      assert.is_true(r.status ~= 0 and r.status ~= 124, r.status)
      assert.is_nil((r.stdout .. r.stderr):find("still here", 1, true))
    end)
  end
end)
