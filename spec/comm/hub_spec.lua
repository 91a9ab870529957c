-- What ranks of a session say to each other, between real processes: hub_check.c.
local celer = require("spec.support.celer")

-- Runs a case; what it prints.
local function check(case, ranks, argument)
  local r = celer.exec({ (celer.command():gsub("celer$", "hub_check")), case, ranks, argument },
    { timeout = 120 })
  assert.same({ 0, "" }, { r.status, r.stderr })
  return r.stdout
end

describe("a hub", function()
  for _, ranks in ipairs { 2, 3, 8 } do
    it("ends lines at the same place on all ranks, on " .. ranks, function()
      for seed = 1, 3 do check("lines", ranks, seed) end
    end)

    it("cuts a line in which nothing is submitted, on " .. ranks, function()
      check("cuts", ranks, 0)
    end)
  end

  it("takes in more ranks at a time than wait for it", function() check("lines", 60, 1) end)

  it("is not disturbed by signals", function()
    for seed = 1, 3 do check("signals", 3, seed) end
  end)

  it("sends strangers away", function() check("strangers", 3, 1) end)

  it("says that a rank has ended", function()
    assert.equal("the connection to rank 1 has ended\n", check("loss", 3, 0))
  end)

  -- Of the ranks one has so few files left; the others' errors follow from its own.
  for case, messages in pairs {
    scarce_first = { "cannot listen for other ranks: Too many open files",
      "rank 0 cannot take in 3 other ranks: Too many open files %(see ulimit %-n%)" },
    scarce_other = { "rank 1 on .* cannot reach rank 0 on .*: Too many open files",
      "the system refuses a file for what the rank prints: Too many open files" },
  } do
    it("says what it lacks, and no rank waits for another: " .. case, function()
      local said = {}
      for files = 0, 9 do
        said[files + 1] = check(case, 4, files)
        assert.is_true(select(2, said[files + 1]:gsub("\n", "")) <= 1, said[files + 1])
      end
      local all = table.concat(said)
      for _, message in ipairs(messages) do assert.matches(message, all) end
      assert.equal("", said[#said])
    end)
  end

  local numbers = {}
  for i = 0, 19999 do numbers[i + 1] = i .. "\n" end

  it("shows what nobody would see, though a child of the user's still could write", function()
    assert.equal(table.concat(numbers), check("words", 2, 0))
  end)

  it("shows it whatever signals come", function()
    assert.equal(table.concat(numbers), check("words", 2, 1))
  end)
end)
