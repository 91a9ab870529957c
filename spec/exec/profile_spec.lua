-- What a job was, and what jobs add up to.
local ffi = require("ffi")
local c = require("spec.support.cdef")("exec/trace/profile.h", "base/status.h")

describe("a profile", function()
  local profile, keep
  before_each(function()
    profile, keep = ffi.gc(c.cel_profile_create(), c.cel_profile_destroy), {}
  end)

  local function kept(value)
    keep[#keep + 1] = value
    return value
  end

  -- Adds a span of `took` ns that begins at `begin`.
  local function add(kind, name, begin, took, options)
    options = options or {}
    local work = kept(ffi.new("cel_work", { lua = options.lua or false }))
    local text = name and kept(ffi.new("char[?]", #name + 1, name))
    local task = kept(ffi.new("cel_task",
      { id = options.task or 7, work = work, name = text, location = { line = 12 } }))
    local instr = kept(ffi.new("cel_instr"))
    instr.kind, instr.task = kind, task
    local job = kept(ffi.new("cel_job"))
    job.begin, job["end"], job.lane = begin, begin + took, options.host or 0
    if options.from then
      local buffer = kept(ffi.new("cel_buffer", { element_size = 4, dims = 3 }))
      instr.copy.box = { { 0, 0, 0 }, { 1, 1, options.elements } }
      instr.copy.from = kept(ffi.new("cel_allocation", { memory = options.from, buffer = buffer }))
      instr.copy.to = kept(ffi.new("cel_allocation", { memory = options.to, buffer = buffer }))
    end
    local span = ffi.new("cel_span")
    local timed = c.cel_span_of_job(instr, job, 3, options.device or 0, options.lane or 0, span)
    if timed then c.cel_profile_add(profile, span) end
    if text then ffi.fill(text, #name, 33) end -- it keeps its own
    return timed and span
  end

  local function rows()
    local out, list = ffi.new("const cel_profile_row *[1]"), {}
    for i = 0, c.cel_profile_rows(profile, out) - 1 do
      local row = out[0][i]
      local way = c.cel_profile_way(row)
      list[#list + 1] = ("%s %s%s: %d, %d, %d, %d"):format(
        ffi.string(c.cel_span_name(row.kind)), row.name ~= nil and ffi.string(row.name) or "-",
        way ~= nil and " " .. ffi.string(way) or "", tonumber(row.count), tonumber(row.total),
        tonumber(row.max), tonumber(row.bytes))
    end
    return list
  end

  it("adds up by kind, task and way", function()
    add("CEL_INSTR_KERNEL", "step", 100, 10)
    add("CEL_INSTR_KERNEL", "step", 120, 30)
    add("CEL_INSTR_KERNEL", "step", 200, 5, { lua = true })
    add("CEL_INSTR_HOST", "step", 300, 7)
    add("CEL_INSTR_COPY", "step", 400, 4, { from = 0, to = 1, elements = 25 })
    add("CEL_INSTR_COPY", "step", 410, 6, { from = 0, to = 2, elements = 25 })
    add("CEL_INSTR_COPY", "step", 420, 1, { from = 1, to = 2, elements = 1 })
    add("CEL_INSTR_COPY", "step", 420, 1, { from = 2, to = 2, elements = 1 })
    add("CEL_INSTR_COPY", "step", 420, 1, { from = 2, to = 0, elements = 1 })
    add("CEL_INSTR_COPY", nil, 420, 1, { from = 0, to = 0, elements = 1 })
    add("CEL_INSTR_KERNEL", "step", 0, 0) -- was not carried out
    assert.same({ "kernel step: 2, 40, 30, 0", "interop step: 1, 5, 5, 0", "host step: 1, 7, 7, 0",
      "copy step to a device: 2, 10, 6, 200", "copy step between devices: 1, 1, 1, 4",
      "copy step in a device: 1, 1, 1, 4", "copy step from a device: 1, 1, 1, 4",
      "copy - in the host: 1, 1, 1, 4" }, rows())
  end)

  it("is told what each job was", function()
    local a = add("CEL_INSTR_KERNEL", "a", 100, 10, { task = 3, device = 1, lane = 2 })
    assert.same({ 3, 100, 110, 3, 0, 12, 1, 2, -1, -1 }, { tonumber(a.task), tonumber(a.begin),
      tonumber(a["end"]), tonumber(a.issued), tonumber(a.bytes), a.location.line, a.device, a.lane,
      a.from, a.to })
    local b = add("CEL_INSTR_COPY", "b", 2 ^ 53, 20, { task = 4, from = 1, to = 0, elements = 3,
      lane = 7 })
    assert.same({ 4, 20, 12, 0, 7, 1, 0, 3 }, { tonumber(b.task), tonumber(b["end"] - b.begin),
      tonumber(b.bytes), b.device, b.lane, b.from, b.to, b.dims })
    local h = add("CEL_INSTR_HOST", "h", 5, 1, { lane = -1, device = -1, host = -3 })
    assert.same({ -1, -3 }, { h.device, h.lane })
  end)

  it("tells many names apart", function()
    for round = 1, 2 do
      for i = 1, 500 do add("CEL_INSTR_KERNEL", "task " .. i, round * 1000, i) end
    end
    local list = rows()
    assert.equal(500, #list)
    for i = 1, 500 do
      assert.equal(("kernel task %d: 2, %d, %d, 0"):format(i, 2 * i, i), list[i])
    end
  end)
end)
