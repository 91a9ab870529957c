-- The lanes of a GPU, on the driver of fake_driver.lua.
local child = require("spec.support.child")
local fake = require("spec.device.fake_driver")

-- Two copies on $FAKE_GPUS GPUs: one in a kernel lane, and one in a copy lane, or on
-- another GPU and after the first; tickets in the order in which they come back, with the
-- words of those that failed.
local TWO_COPIES = [[
  local ffi = require("ffi")
  local c = require("spec.support.cdef")("device/cuda.h")
  local cuda, backend = ffi.new("cel_cuda *[1]"), ffi.new("cel_backend *[1]")
  local gpus = tonumber(os.getenv("FAKE_GPUS"))
  local after = ffi.new("cel_after[1]", { { 0, 0, 1 } })
  assert(c.cel_cuda_open(ffi.new("int32_t[2]", { 0, 1 }), gpus, cuda) == 0)
  local config = ffi.new("cel_backend_config", { devices = gpus })
  assert(c.cel_backend_cuda(config, cuda[0], backend) == 0)
  local b, from, to = backend[0], ffi.new("int[8]"), ffi.new("int[8]")
  local box, jobs = ffi.new("cel_box", { { 0, 0, 0 }, { 1, 1, 8 } }), {}
  for i = 1, 2 do
    jobs[i] = ffi.new("cel_job", { ticket = i, kind = "CEL_JOB_COPY", element_size = 4, box = box })
    jobs[i].from, jobs[i].to = { from, box }, { to, box }
    if gpus > 1 and i == 2 then jobs[i].afters, jobs[i].after = 1, after end
    b.submit(b, gpus > 1 and i - 1 or 0, i == 1 and 0 or b.kernel_lanes, jobs[i])
  end
  local done, n = ffi.new("cel_done[1]"), 0
  while n < 2 do
    if b.poll(b, done, 1) == 1 then
      n = n + 1
      local failed = done[0].error ~= nil
      print(tonumber(done[0].ticket), failed and ffi.string(done[0].error.text) or "")
    end
  end
  b.destroy(b)
  c.cel_cuda_close(cuda[0])
]]

describe("lanes of a GPU", function()
  local function run(text, env)
    env.FAKE_GPUS = env.FAKE_GPUS or 1
    return child(text, fake.env(env))
  end

  local function failed(gpu)
    return ("a copy failed on GPU %d: an illegal memory access was encountered "
      .. "(CUDA_ERROR_ILLEGAL_ADDRESS)"):format(gpu)
  end

  it("give back what is at fault before what is not complete because of it", function()
    local r = run(TWO_COPIES, { FAKE_URGENT = 1 })
    assert.equal(("1\t%s\n2\t\n"):format(failed(0)), r.stdout, r.stderr)
  end)

  it("give it back before what another GPU has lost by waiting for it", function()
    local r = run(TWO_COPIES, { FAKE_GPUS = 2, FAKE_LAST = 1 })
    assert.equal(("1\t%s\n2\t%s\n"):format(failed(0), failed(1)), r.stdout, r.stderr)
  end)
end)
