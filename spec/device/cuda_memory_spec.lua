-- Memory of GPUs: committed, taken back, kept idle; with the fake driver, and on
-- a GPU where there is one.
local celer = require("spec.support.celer")
local fake = require("spec.device.fake_driver")
local check = celer.command():gsub("celer$", "memory_check")
local programs = celer.command():gsub("celer$", "random_programs")

-- As if there were two GPUs with so many MiB.
local function faked(program, args, memory)
  return celer.exec({ program, unpack(args) }, {
    env = fake.env({ FAKE_GPUS = 2, FAKE_MEMORY = memory, FAKE_COUNT = 1 }) })
end

describe("memory of a GPU", function()
  it("holds what was put there, and no more than there is", function()
    for seed = 1, 3 do
      local r = faked(check, { "1500", tostring(seed) }, 96) -- its capacity, and what it lends
      assert.equal("1500 steps passed\n", r.stdout, r.stderr)
      -- Most of it is used again.
      assert.is_true(tonumber(r.stderr:match("made (%d+)")) < 1500)
    end
  end)

  it("does so on a GPU", function()
    local r = celer.exec({ check, "3000", "7" })
    if r.status == 77 then return pending(r.stdout) end
    assert.equal("3000 steps passed\n", r.stdout, r.stderr)
  end)

  it("serves random programs that spill", function()
    for seed = 2, 20, 2 do -- odd ones copy by a kernel, which the fake has not
      local r = faked(programs, { "--cuda", "--count", "1", "--seed", tostring(seed) }, 512)
      assert.matches("1 programs, 0 failures\n$", r.stdout)
    end
  end)
end)
