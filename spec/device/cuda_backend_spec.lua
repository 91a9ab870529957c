-- The CUDA backend on all GPUs of this machine, through cuda_check.
local celer = require("spec.support.celer")

local program = celer.command():gsub("celer$", "cuda_check")

local function check(words)
  local argv = { program }
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  return celer.exec(argv)
end

local first = check({ "jobs", "1" })
if first.status == 77 then
  describe("the CUDA backend", function()
    pending("no GPU: " .. first.stdout:gsub("%s+$", ""))
  end)
  return
end

describe("the CUDA backend", function()
  it("copies and launches in the order that its jobs ask for", function()
    local r = check({ "jobs", "60", "1" })
    assert.matches("60 passed, 0 failed\n", r.stdout, 1, true)
    assert.equal(0, r.status)
  end)
end)
