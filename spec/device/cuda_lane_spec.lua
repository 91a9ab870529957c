-- The lanes of a GPU, on the driver of fake_driver.lua.
local child = require("spec.support.child")
local fake = require("spec.device.fake_driver")

-- Copies on $FAKE_GPUS GPUs, $COPIES in the order of their submission, each as ticket and
-- GPU, with a + where it is to begin after the first: that is in a kernel lane, the others
-- in a copy lane. Prints tickets in the order in which they come back, with the words of
-- those that failed.
local SOME_COPIES = [[
  local ffi = require("ffi")
  local c = require("spec.support.cdef")("device/cuda/cuda.h")
  local cuda, backend = ffi.new("cel_cuda *[1]"), ffi.new("cel_backend *[1]")
  local gpus = tonumber(os.getenv("FAKE_GPUS"))
  local after = ffi.new("cel_after[1]", { { 0, 0, 1 } })
  assert(c.cel_cuda_open(ffi.new("int32_t[2]", { 0, 1 }), gpus, cuda) == 0)
  local config = ffi.new("cel_backend_config", { devices = gpus })
  assert(c.cel_backend_cuda(config, cuda[0], backend) == 0)
  local b, from, to = backend[0], ffi.new("int[8]"), ffi.new("int[8]")
  local box, jobs = ffi.new("cel_box", { { 0, 0, 0 }, { 1, 1, 8 } }), {}
  for ticket, gpu, follows in os.getenv("COPIES"):gmatch("(%d)@(%d)(%+?)") do
    local job = ffi.new("cel_job", { ticket = tonumber(ticket), kind = "CEL_JOB_COPY",
      element_size = 4, box = box })
    job.from, job.to = { from, box }, { to, box }
    if follows ~= "" then job.afters, job.after = 1, after end
    b.submit(b, tonumber(gpu), #jobs == 0 and 0 or b.kernel_lanes, job)
    jobs[#jobs + 1] = job
  end
  local done, n = ffi.new("cel_done[1]"), 0
  while n < #jobs do
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
  local function run(env)
    env.FAKE_GPUS = env.FAKE_GPUS or 1
    return child(SOME_COPIES, fake.env(env))
  end

  local function failed(gpu)
    return ("a copy failed on GPU %d: an illegal memory access was encountered "
      .. "(CUDA_ERROR_ILLEGAL_ADDRESS)"):format(gpu)
  end

  it("give back what is at fault before what is not complete because of it", function()
    local r = run({ FAKE_URGENT = 1, COPIES = "1@0 2@0" })
    assert.equal(("1\t%s\n2\t\n"):format(failed(0)), r.stdout, r.stderr)
  end)

  it("give it back before what another GPU has lost by waiting for it", function()
    local r = run({ FAKE_GPUS = 2, FAKE_LAST = 1, COPIES = "1@0 2@1+" })
    assert.equal(("1\t%s\n2\t%s\n"):format(failed(0), failed(1)), r.stdout, r.stderr)
  end)

  -- 2 is not told of 1, as 3 comes before it in its lane.
  it("give it back first, too, where an older job is behind one that waits for it", function()
    local r = run({ FAKE_GPUS = 2, FAKE_LAST = 1, COPIES = "1@0 3@1+ 2@1" })
    assert.equal("1\t" .. failed(0), r.stdout:match("^[^\n]*"), r.stderr)
  end)
end)
