-- Ranges for a profiler, on the driver of fake_driver.lua: fake_profiler.c
-- attaches itself as NVIDIA's tools do.
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

describe("NVTX", function()
  local folder
  setup(function()
    folder = fake.build()
    local command = ("%s -std=gnu11 -fPIC -shared spec/device/fake_profiler.c -o %s/profiler.so")
      :format(os.getenv("CC") or "cc", folder)
    assert(os.execute(command) == 0, command)
  end)

  local function run(profiler)
    return script.run([==[
local k = celer.kernel "kernel void step(item<1> it, out<float, 1> a) { a(it[0]) = 1; }"
local a = celer.buffer("float", 512)
for i = 1, 2 do
  q:submit(function(cg)
    if i == 2 then cg:name "a name of its own" end
    cg:parallel_for(512, k, cg:discard_write(a))
  end)
end
q:wait()
]==], { devices = 1 }, { before = { "--backend", "cuda", "--fold", "1" }, env = fake.env({
      FAKE_GPUS = 1, NVTX_INJECTION64_PATH = profiler and folder .. "/" .. profiler }) })
  end

  it("has a range around each submission, named after the task", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = run("profiler.so")
    local launch = "launch 2 1 1 of 256 1 1\n"
    assert.equal("begin step\n" .. launch .. "end\nbegin a name of its own\n" .. launch .. "end\n",
      r.stderr)
    assert.equal(0, r.status)
  end)

  it("is nothing without a profiler, or with one that cannot be loaded", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    for _, profiler in ipairs({ false, "none.so", "libcuda.so.1" }) do
      local r = run(profiler)
      assert.equal(("launch 2 1 1 of 256 1 1\n"):rep(2), r.stderr)
      assert.equal(0, r.status)
    end
  end)
end)
