-- How many one-way delays a step takes whose ranks exchange halos, and nothing else: one. A
-- message for which its sender asks first takes three. Delays are so long that nothing else
-- counts, and the median so short of what a machine that pauses does.
local hosts = require("spec.support.hosts")
local measure = require("spec.bench.hosts.measure")

local DELAY_MS = 50

describe("a step without fences on hosts far apart", function()
  for _, case in ipairs {
    { name = "4 KiB", rows = 64, columns = 1024 },
    { name = "256 KiB", rows = 20, columns = 65536 },
    { name = "1 MiB", rows = 16, columns = 262144 },
  } do
    it("waits for one flight of a halo of " .. case.name, function()
      local why = hosts.missing({ delay = DELAY_MS })
      if why then return pending("cannot bring hosts up: " .. why) end
      local r = measure.wave({ hosts = 2, delay = DELAY_MS, rows = case.rows,
        columns = case.columns, steps = 30, sleep_us = 0 })
      assert.is_true(r.step_ms >= DELAY_MS * 0.9, r.step_ms)
      assert.is_true(r.step_ms < DELAY_MS * 2, r.step_ms)
    end)
  end

  it("waits less where steps are taken together", function()
    local why = hosts.missing({ delay = DELAY_MS })
    if why then return pending("cannot bring hosts up: " .. why) end
    local r = measure.wave({ hosts = 2, delay = DELAY_MS, rows = 64, columns = 1024, steps = 64,
      sleep_us = 0, together = true })
    assert.is_true(r.mean_ms < DELAY_MS * 0.5, r.mean_ms)
  end)
end)
