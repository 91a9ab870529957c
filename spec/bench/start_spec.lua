-- What each rank does to start, as counts: none may grow faster than the logarithm of the
-- number of ranks.
local start = require("spec.bench.start")

describe("a job's start", function()
  it("takes each rank no more messages, connections and files than grow with the logarithm",
    function()
      local why = start.missing()
      if why then return pending(why) end
      start.job(2) -- compiles
      local jobs = { start.job(2), start.job(4), start.job(8) }
      local mean = {}
      for i, rows in ipairs(jobs) do
        mean[i] = start.summary(rows)
        for rank, row in ipairs(rows) do
          -- Those at the distances 1, 2, 4, ... both ways, as a rule.
          assert.is_true(row.peers <= 2 * i - 1, ("%d peers of one in %d"):format(row.peers, 2 ^ i))
          assert.is_true(row.beats <= 2)
          -- Two that begin at the same time may connect twice.
          assert.is_true(row.connections <= 2 * row.peers + 1)
          if rank > 1 then assert.equal(0, row.sources) end
        end
      end
      for _, name in ipairs { "messages", "bytes", "files" } do
        local first = mean[2][name].mean - mean[1][name].mean
        local second = mean[3][name].mean - mean[2][name].mean
        assert.is_true(second <= math.max(first, 1),
          ("%s: %.1f more on 4 ranks than on 2, and %.1f more on 8"):format(name, first, second))
      end
    end)
end)
