-- Buffers that are apart: each rank has contents of its own, which tasks write that have
-- one chunk on each.
local ffi = require("ffi")
local program = require("spec.task.program")
require("spec.support.cdef")("task/known.h")
jit.off(true, true)

local same, all = program.same, program.all

describe("a buffer that is apart", function()
  local p, own, shared
  before_each(function()
    p = program.new({ ranks = 4 })
    own = p:buffer({ 8 }, { apart = true, name = "own" })
    shared = p:buffer({ 8 }, { name = "shared" })
  end)
  after_each(function() p:close() end)

  it("may be written whole by every chunk, also of a kernel", function()
    local _, text, code = p:submit({ kind = "host", range = { 8 },
      { shared, "discard_write", all(1) } })
    assert.equal("OVERLAP", code)
    assert.matches("overlaps", text)
    local a = assert(p:submit({ kind = "host", range = { 8 }, { own, "discard_write", all(1) } }))
    local b = assert(p:submit({ kind = "host", placement = "each", collective = 1, range = { 4 },
      { own, "read_write", all(1) } }))
    local c = assert(p:submit({ range = { 8 }, { own, "read", all(1) } }))
    local d = assert(p:submit({ range = { 4 }, { own, "discard_write", all(1) } }))
    assert.equal("true", p:depends(b, a))
    assert.equal("true", p:depends(c, b))
    assert.equal("anti", p:depends(d, c))
    assert.same({}, p.warnings)
  end)

  -- Two accesses of one host task, of which each has all, and two of a group like it.
  it("is told from one that is shared by what remembers groups", function()
    local known = ffi.new("cel_known")
    local work = ffi.new("cel_work", { references = 1 })
    local function submit(buffer)
      local group = p:group({ kind = "host", range = { 8 }, work = work,
        { buffer, "discard_write", all(1) } })
      group.known = known
      return p:submit_group(group)
    end
    for _ = 1, 3 do assert(submit(own)) end
    assert.is_nil(submit(shared))
    assert(submit(own))
  end)

  it("is written in no runs, and not reduced into", function()
    local function refused(words, spec)
      spec.line = 7
      local id, text, code, line = p:submit(spec)
      assert.is_nil(id)
      assert.matches(words, text)
      assert.equal("ARGUMENT", code)
      assert.equal(7, line)
    end
    for _, kind in ipairs { "kernel", "host" } do
      refused("not cut into runs", { kind = kind, range = { 8 }, oversubscribe = 2,
        { own, "write", same(1) } })
    end
    refused("nothing is reduced into", { range = { 8 },
      { own, "discard_write", reducer = p:reducer() } })
  end)

  it("makes no number that a kernel is for everybody", function()
    local number = p:buffer({}, { apart = true, init = true })
    local sum = p:buffer({}, { init = true })
    p:close()
    for _, alike in ipairs { true, false } do
      p = program.new({ ranks = 4, alike = true })
      local work = ffi.new("cel_work", { references = 1, alike = true })
      local id = assert(p:submit({ range = {}, work = work,
        { alike and sum or number, "read", all(0) }, { sum, "write", all(0) } }))
      assert.equal(alike and "all" or "split", p.tasks[id].placement)
      if alike then p:close() end
    end
  end)

  it("has another hash", function()
    local hashes = {}
    for i, apart in ipairs { false, true } do
      local q = program.new({ ranks = 4 })
      local u = q:buffer({ 8 }, { apart = apart })
      hashes[i] = q.tasks[q:submit({ range = { 8 }, { u, "read", all(1) } })].hash
      q:close()
    end
    assert.not_equal(hashes[1], hashes[2])
  end)
end)
