-- Choosing and opening GPUs, on a driver that shows some which are not there.
local ffi = require("ffi")
local child = require("spec.support.child")
local fake = require("spec.device.fake_driver")
local c = require("spec.support.cdef")("device/cuda/cuda.h")

-- What rank `index` of `of` takes of `list`; nil and the message.
local function share(list, want, index, of)
  local out, n = ffi.new("int32_t[8]"), ffi.new("int32_t[1]")
  local status = c.cel_cuda_share(ffi.new("int32_t[?]", #list, list), #list, want, index, of,
    out, n)
  if status ~= 0 then return nil, ffi.string(c.cel_error_last().text) end
  local taken = {}
  for i = 1, n[0] do taken[i] = out[i - 1] end
  return table.concat(taken, " ")
end

describe("cel_cuda_share", function()
  it("gives as many GPUs to each rank, in contiguous blocks", function()
    local list = { 7, 6, 5, 4, 3, 2, 1, 0 }
    assert.equal("7 6 5 4 3 2 1 0", share(list, 0, 0, 1))
    for ranks = 1, 8 do
      local all, each = {}, math.floor(8 / ranks)
      for i = 0, ranks - 1 do
        all[#all + 1] = share(list, 0, i, ranks)
        assert.equal(each, #all[#all]:gsub(" ", ""))
      end
      assert.equal(table.concat(list, " ", 1, each * ranks), table.concat(all, " "))
    end
  end)

  it("lets ranks take turns where there are more of them", function()
    for i = 0, 6 do assert.equal(tostring(i % 3), share({ 0, 1, 2 }, 0, i, 7)) end
    for i = 0, 6 do assert.equal(tostring(i % 3), share({ 0, 1, 2 }, 1, i, 7)) end
  end)

  it("gives as many as are asked for, and refuses what is not there", function()
    assert.equal("0 1", share({ 0, 1, 2, 3 }, 2, 0, 2))
    assert.equal("2 3", share({ 0, 1, 2, 3 }, 2, 1, 2))
    assert.equal("1", share({ 0, 1, 2, 3 }, 1, 1, 2))
    local _, message = share({ 0, 1, 2 }, 2, 0, 2)
    assert.equal("2 GPUs per rank are asked for, and 2 ranks of this host have together 3",
      message)
    _, message = share({ 0 }, 2, 0, 1)
    assert.equal("2 GPUs per rank are asked for, and 1 rank of this host has 1", message)
  end)

  it("gives no more than a rank can have", function()
    local list = {}
    for i = 1, 16 do list[i] = i end
    assert.equal("1 2 3 4 5 6 7 8", share(list, 0, 0, 1))
  end)
end)

describe("GPUs", function()
  -- Runs `text` in a process whose driver is the fake one; what it prints.
  local function on(env, text)
    local r = child([[
      local ffi = require("ffi")
      local c = require("spec.support.cdef")("device/cuda/cuda.h")
      local why = ffi.new("char[256]")
      local function open(...)
        local out = ffi.new("cel_cuda *[1]")
        local n = select("#", ...)
        if c.cel_cuda_open(ffi.new("int32_t[?]", n, ...), n, out) == 0 then return out[0] end
        print(ffi.string(c.cel_error_last().text))
      end
    ]] .. text, fake.env(env))
    assert.equal("", r.stderr)
    return r.stdout
  end

  it("are counted, or it is said why there is none", function()
    local count = "print(c.cel_cuda_count(why, 256), ffi.string(why))"
    assert.equal("3\t\n", on({ FAKE_GPUS = 3 }, count))
    assert.equal("0\tthe NVIDIA driver shows no GPU\n", on({ FAKE_GPUS = 0 }, count))
    assert.equal("0\tthe NVIDIA driver: no CUDA-capable device is detected\n",
      on({ FAKE_GPUS = -1 }, count))
  end)

  it("are opened in the order given, with what the driver says of them", function()
    assert.equal("Fake 2\t2\t9\t0\tfalse\t-1\tfalse\t0000:12:00.0\nFake 0\ntrue\tfalse\tfalse\n",
      on({ FAKE_GPUS = 3 }, [[
      local cuda = open(2, 0)
      local d = cuda.device[0]
      print(ffi.string(d.name), d.ordinal, d.major, d.minor, d.virtual_memory, d.numa,
        d.host_virtual_memory, ffi.string(d.bus))
      print(ffi.string(cuda.device[1].name))
      print(d.peer[0] and d.context ~= nil, d.peer[1], cuda.device[1].peer[0])
      c.cel_cuda_close(cuda)
    ]]))
  end)

  it("know which of them reach which, themselves too", function()
    assert.equal("1101\n0110\n0010\n1101\n", on({ FAKE_GPUS = 3 }, [[
      local cuda = open(0, 1, 2, 0)
      for a = 0, 3 do
        local row = ""
        for b = 0, 3 do row = row .. (cuda.device[a].peer[b] and 1 or 0) end
        print(row)
      end
      c.cel_cuda_close(cuda)
    ]]))
  end)

  it("that are not there, too many, or broken are refused", function()
    assert.equal("there is no GPU 3: the driver shows 3, counted from 0\n",
      on({ FAKE_GPUS = 3 }, "open(0, 3)"))
    assert.equal("a rank has 1 to 8 GPUs, not 9\n",
      on({ FAKE_GPUS = 3 }, "open(0, 0, 0, 0, 0, 0, 0, 0, 0)"))
    assert.equal("GPU 1 cannot be used: its primary context: it is a fake\n",
      on({ FAKE_GPUS = 3, FAKE_BROKEN = 2 }, "open(0, 1)"))
  end)

  it("have an identity that does not depend on their numbers", function()
    local identity = "print(c.cel_cuda_identity())"
    local two = on({ FAKE_GPUS = 2 }, identity)
    assert.equal(two, on({ FAKE_GPUS = 2 }, identity))
    assert.not_equal(two, on({ FAKE_GPUS = 4, FAKE_VISIBLE = 1,
      CUDA_VISIBLE_DEVICES = "2,3" }, identity))
    assert.not_equal(two, on({ FAKE_GPUS = 1 }, identity))
  end)
end)
