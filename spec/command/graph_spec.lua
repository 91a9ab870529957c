local ffi = require("ffi")
local ranks = require("spec.command.ranks")
local program = require("spec.task.program")
local rules = require("spec.rule.rules")

local function stencil(r, from, to, n)
  return r:submit({ range = { n, 8 },
    { from, "read", program.grown(1, 1), { clamp = true } },
    { to, "discard_write", program.same(2) } })
end

local function two_buffers(r, n)
  return r:buffer({ n, 8 }, { init = true }), r:buffer({ n, 8 })
end

describe("the command graph", function()
  it("sends nothing of what every rank can compute", function()
    local r = ranks.new(4)
    local u, v = two_buffers(r, 16)
    local t = stencil(r, u, v, 16)
    for k = 0, 3 do
      assert.same({}, r:messages(k, "push", t))
      assert.equal(k * 4 .. ":" .. k * 4 + 4 .. " 0:8", r:of(k, "execute", t)[1].chunk)
    end
  end)

  it("exchanges the edges of a stencil with its neighbours alone", function()
    local r = ranks.new(4)
    local u, v = two_buffers(r, 16)
    stencil(r, u, v, 16)
    local t = stencil(r, v, u, 16)
    assert.same({ "1: 1@3:4 0:8" }, r:messages(0, "push", t))
    assert.same({ "0: 1@4:5 0:8", "2: 1@7:8 0:8" }, r:messages(1, "push", t))
    assert.same({ "0: 1@3:4 0:8", "2: 1@8:9 0:8" }, r:messages(1, "await_push", t))
    assert.same({ "2: 1@11:12 0:8" }, r:messages(3, "await_push", t))
  end)

  it("lets nothing travel across corners for a stencil along the axes", function()
    local function diagonal(mapper)
      local r = ranks.new(9)
      local u, v = r:buffer({ 12, 12 }), r:buffer({ 12, 12 })
      local tiles = { true, true }
      r:submit({ range = { 12, 12 }, cut = tiles, { u, "discard_write", program.same(2) } })
      local t = r:submit({ range = { 12, 12 }, cut = tiles,
        { u, "read", mapper, { clamp = true } }, { v, "discard_write", program.same(2) } })
      return r:messages(4, "await_push", t)
    end
    local sides = { "1: 0@3:4 4:8", "3: 0@4:8 3:4", "5: 0@4:8 8:9", "7: 0@8:9 4:8" }
    assert.same(sides, diagonal(program.cross))
    assert.equal(8, #diagonal(program.grown(1, 1)))
  end)

  it("sends nothing for an access that touches nothing", function()
    local r = ranks.new(3)
    local u, v = r:buffer({ 9 }), r:buffer({ 9 })
    r:submit({ range = { 9 }, { u, "discard_write", program.same(1) } })
    -- For two ranks an empty box in the midst of what the third owns.
    local t = r:submit({ range = { 9 },
      { u, "read", { { { { "high", { "min", 0 }, 7 }, { "high", { "max", 0 }, 7 } } } } },
      { v, "discard_write", program.same(1) } })
    for k = 0, 2 do
      assert.same({}, r:messages(k, "push", t))
      assert.same({}, r:messages(k, "await_push", t))
      assert.equal(1, #r:of(k, "execute", t))
    end
  end)

  it("names the same messages at both ends, numbered per pair", function()
    local r = ranks.new(3)
    local u, v = two_buffers(r, 12)
    for _ = 1, 6 do
      stencil(r, u, v, 12)
      u, v = v, u
    end
    local ends = { push = {}, await_push = {} }
    for k = 0, 2 do
      for kind, list in pairs(ends) do
        local next_of = {}
        for _, m in ipairs(r:messages_of(k, kind)) do
          assert.equal(next_of[m.peer] or 0, m.sequence)
          next_of[m.peer] = m.sequence + 1
          local from, to = k, m.peer
          if kind == "await_push" then from, to = to, from end
          list[#list + 1] = ("%d>%d %d %s"):format(from, to, m.sequence, m.pieces)
        end
      end
    end
    table.sort(ends.push)
    table.sort(ends.await_push)
    assert.equal(5 * 4, #ends.push)
    assert.same(ends.push, ends.await_push)
  end)

  it("does not send twice what nobody wrote since", function()
    local r = ranks.new(3)
    local u, v = two_buffers(r, 12)
    stencil(r, u, v, 12)
    stencil(r, v, u, 12)
    local narrow = r:submit({ range = { 12, 8 }, { v, "read", program.same(2) } })
    local again = r:submit({ range = { 12, 8 },
      { v, "read", program.grown(1, 1), { clamp = true } } })
    for k = 0, 2 do
      assert.same({}, r:messages(k, "push", narrow))
      assert.same({}, r:messages(k, "push", again))
    end
  end)

  it("sends nothing of what each rank has for itself", function()
    local r = ranks.new(3)
    local own, v = r:buffer({ 9 }, { apart = true }), r:buffer({ 9 })
    for _ = 1, 2 do
      local w = r:submit({ kind = "host", placement = "each", collective = 1, range = { 3 },
        { own, "discard_write", program.all(1) } })
      local t = r:submit({ range = { 9 }, { own, "read", program.grown(2), { clamp = true } },
        { v, "discard_write", program.same(1) } })
      local e = r:submit({ kind = "host", range = { 9 }, { own, "write", program.all(1) } })
      local last = r:submit({ range = { 9 }, { own, "read", program.all(1) } })
      for k = 0, 2 do
        for _, task in ipairs { w, t, e, last } do
          assert.same({}, r:messages(k, "push", task))
          assert.same({}, r:messages(k, "await_push", task))
          assert.same({}, r:of(k, "collective", task))
          assert.equal(1, #r:of(k, "execute", task))
        end
      end
    end
  end)

  it("gathers for all, once", function()
    local r = ranks.new(3)
    local u, v = r:buffer({ 9 }), r:buffer({ 9 })
    r:submit({ range = { 9 }, { u, "discard_write", program.same(1) } })
    local t = r:submit({ range = { 9 }, { u, "read", program.all(1) },
      { v, "discard_write", program.same(1) } })
    assert.same({ "0: 0@3:6", "2: 0@3:6" }, r:messages(1, "push", t))
    assert.same({ "0: 0@0:3", "2: 0@6:9" }, r:messages(1, "await_push", t))
    local later = r:submit({ range = { 3 }, placement = "each", kind = "host",
      { u, "read", program.all(1) } })
    assert.same({}, r:messages(1, "push", later))
    for k = 0, 2 do assert.equal(2, (r:counts(k))) end
  end)

  it("broadcasts what rank 0 computed alone", function()
    local r = ranks.new(3)
    local u = r:buffer({ 9 })
    local write = r:submit({ range = { 9 }, placement = "once",
      { u, "discard_write", program.same(1) } })
    assert.same({}, r:of(1, "execute", write))
    local t = r:submit({ range = { 3 }, placement = "each", kind = "host",
      { u, "read", program.all(1) } })
    assert.same({ "1: 0@0:9", "2: 0@0:9" }, r:messages(0, "push", t))
    assert.same({ "0: 0@0:9" }, r:messages(2, "await_push", t))
    local chunk = r:of(2, "execute", t)[1].chunk
    assert.equal("2:3", chunk)
  end)

  it("packs small boxes together and cuts large ones", function()
    local r = ranks.new(2, { small_bytes = 64, large_bytes = 256 })
    local a, b = r:buffer({ 8, 4 }), r:buffer({ 4 })
    local grid = r:buffer({ 24, 8 })
    local both = { { program.span(0), program.whole(1) } }
    r:submit({ range = { 8 }, { a, "discard_write", both } })
    r:submit({ range = { 4 }, { b, "discard_write", program.same(1) } })
    r:submit({ range = { 24 }, { grid, "discard_write", both } })
    local t = r:submit({ range = { 1 }, { grid, "read", program.all(2) },
      { a, "read", { { { 4, 5 }, program.whole(1) } } }, { b, "read", program.all(1) } })
    assert.same({ "0: 0@4:5 0:4, 1@2:4", "0: 2@12:16 0:8", "0: 2@16:20 0:8",
      "0: 2@20:24 0:8" }, r:messages(1, "push", t))
    assert.equal(0, #r:of(1, "execute", t))
  end)

  it("cuts no large box that goes from device to device", function()
    local r = ranks.new(3, { small_bytes = 64, large_bytes = 256 }, {
      [0] = { near = ffi.new("int64_t[1]", { 1 }), nears = 1 },
      [1] = { near = ffi.new("int64_t[1]", { 0 }), nears = 1 },
    })
    local grid = r:buffer({ 24, 8 })
    local both = { { program.span(0), program.whole(1) } }
    r:submit({ range = { 24 }, { grid, "discard_write", both } })
    local function reader(kind)
      return r:submit({ kind = kind, range = { 1 }, { grid, "read", program.all(2) } })
    end
    local t = reader()
    assert.same({ "0: 0@8:16 0:8" }, r:messages(1, "push", t))
    assert.same({ "0: 0@16:20 0:8", "0: 0@20:24 0:8" }, r:messages(2, "push", t))
    assert.same({ "1: 0@8:16 0:8", "2: 0@16:20 0:8", "2: 0@20:24 0:8" },
      r:messages(0, "await_push", t))
    r:submit({ range = { 24 }, { grid, "discard_write", both } })
    t = reader("host")
    assert.same({ "0: 0@8:12 0:8", "0: 0@12:16 0:8" }, r:messages(1, "push", t))
  end)

  it("orders a send after the writer and a receive before the reader", function()
    local r = ranks.new(2)
    local u = r:buffer({ 8 })
    local w = r:submit({ range = { 8 }, { u, "discard_write", program.same(1) } })
    local t = r:submit({ range = { 8 }, { u, "read", program.all(1) } })
    local over = r:submit({ range = { 8 }, { u, "discard_write", program.same(1) } })
    local write, push = r:of(0, "execute", w)[1], r:of(0, "push", t)[1]
    local await, read = r:of(0, "await_push", t)[1], r:of(0, "execute", t)[1]
    assert.equal("true", push.deps[write.id])
    assert.equal("true", read.deps[await.id])
    assert.equal("anti", r:of(0, "execute", over)[1].deps[push.id])
    assert.is_false(r:reaches(0, await.id, write.id))
  end)

  it("sends what was there before the same task overwrites it", function()
    local r = ranks.new(3)
    local u = r:buffer({ 9 })
    r:submit({ range = { 9 }, { u, "discard_write", program.same(1) } })
    local t = r:submit({ range = { 9 }, { u, "read", program.all(1) },
      { u, "discard_write", program.same(1) } })
    for k = 0, 2 do
      local execute, pushes = r:of(k, "execute", t)[1], r:of(k, "push", t)
      assert.equal(1, #pushes)
      assert.equal(2, #pushes[1].messages)
      assert.equal("anti", execute.deps[pushes[1].id])
    end
  end)

  it("has epochs between all that comes before and all that comes after", function()
    local r = ranks.new(3)
    local u, v = two_buffers(r, 12)
    for step = 1, 7 do
      stencil(r, u, v, 12)
      stencil(r, v, u, 12)
      if step % 3 == 0 then r:epoch() end
    end
    for k = 0, 2 do
      local epochs = r:of(k, "epoch")
      assert.equal(3, #epochs) -- with the one it begins with
      for i, epoch in ipairs(epochs) do
        local before, next_ = epochs[i - 1], epochs[i + 1]
        for id = before and before.id + 1 or epoch.id + 1, epoch.id - 1 do
          assert.is_true(r:reaches(k, epoch.id, id))
        end
        for id = epoch.id + 1, (next_ and next_.id or #r.rank[k].commands) do
          assert.is_true(r:reaches(k, id, epoch.id))
          for dep in pairs(r.rank[k].commands[id].deps) do assert.is_true(dep >= epoch.id) end
        end
      end
    end
  end)

  it("frees after all users", function()
    local r = ranks.new(2)
    local u = r:buffer({ 8 })
    local w = r:submit({ range = { 8 }, { u, "discard_write", program.same(1) } })
    local t = r:submit({ range = { 8 }, { u, "read", program.all(1) } })
    r:free(u)
    for k = 0, 1 do
      local free = r:of(k, "free")[1]
      for _, kind in ipairs({ "push", "await_push", "execute" }) do
        assert.is_true(r:reaches(k, free.id, r:of(k, kind, t)[1].id))
      end
      assert.is_true(r:reaches(k, free.id, r:of(k, "execute", w)[1].id))
      assert.equal(0, (r:counts(k)))
    end
  end)

  it("emits the same without dependencies for who goes by memory", function()
    local function commands(n, config)
      local r = ranks.new(n, config)
      local u, o = r:buffer({ 9 }), r:object({ scope = "cluster" })
      for _ = 1, 5 do
        r:submit({ range = { 9 }, { u, "discard_write", program.same(1) } })
        r:submit({ kind = "host", range = { 9 }, { u, "read", program.all(1) },
          effects = { { o, "sequential" } } })
      end
      r:free(u)
      r:end_object(o)
      r:epoch()
      local list, deps = {}, 0
      for k = 0, n - 1 do
        for _, command in ipairs(r.rank[k].commands) do
          deps = deps + command.raw.deps
          local text = { ("%d %s %d %s"):format(k, command.kind, command.task,
            tostring(command.chunk)) }
          for _, m in ipairs(command.messages or {}) do
            text[#text + 1] = ("%d#%d %s"):format(m.peer, m.sequence, m.pieces)
          end
          list[#list + 1] = table.concat(text, " ")
        end
      end
      return list, deps
    end
    for n = 1, 3 do
      local list, deps = commands(n, {})
      assert.is_true(deps > #list - 2)
      local same, none = commands(n, { unordered = true })
      assert.same(list, same)
      assert.equal(0, none)
    end
  end)

  it("sends the same whenever each rank frees another buffer", function()
    local function shifted(by) return { { program.span(0, by, by) } } end
    local function messages(free_early)
      local r = ranks.new(4, { replications = 2 })
      r:squeeze()
      local x, y = r:buffer({ 400 }), r:buffer({ 400 })
      local function read(buffer, by)
        return r:submit({ range = { 400 }, { buffer, "read", shifted(by), { clamp = true } } })
      end
      r:submit({ range = { 400 }, { x, "discard_write", program.same(1) } })
      read(x, 120)
      read(x, -130)
      if free_early then r:free_on(0, x) end
      r:submit({ range = { 400 }, { y, "discard_write", program.same(1) } })
      local list = {}
      for _, by in ipairs({ -130, 120, 250, 120, -130 }) do
        local t = read(y, by)
        for k = 0, 3 do
          list[#list + 1] = table.concat(r:messages(k, "push", t), "; ")
          list[#list + 1] = table.concat(r:messages(k, "await_push", t), "; ")
        end
      end
      return list
    end
    assert.same(messages(false), messages(true))
  end)

  it("forgets nothing that a task reads before all of it has been read", function()
    local function shifted(by) return { { program.span(0, by, by) } } end
    local function messages(most)
      local r = ranks.new(4, { replications = most })
      local u = r:buffer({ 400 })
      local function read(...)
        local spec = { range = { 400 } }
        for i, by in ipairs({ ... }) do
          spec[i] = { u, "read", shifted(by), { clamp = true } }
        end
        return r:submit(spec)
      end
      r:submit({ range = { 400 }, { u, "discard_write", program.same(1) } })
      read(120)
      local t, list = read(-130, 120, 250, -130), {}
      for k = 0, 3 do list[k + 1] = r:messages(k, "await_push", t) end
      local _, kept = r:counts(0)
      return list, kept, #r:of(0, "push", read(-130)) + #r:of(0, "await_push", read(120))
    end
    local all, kept, again = messages(16)
    assert.same({ 3, 0 }, { kept, again })
    local same
    same, kept, again = messages(1)
    assert.same(all, same)
    assert.equal(1, kept)
    assert.is_true(again > 0)
  end)

  it("sends again one box of a task that reads one more than are kept, not all", function()
    local r = ranks.new(4, { replications = 2 })
    local u = r:buffer({ 400 })
    r:submit({ range = { 400 }, { u, "discard_write", program.same(1) } })
    local function bytes()
      local sum, spec = 0, { range = { 400 } }
      for i, by in ipairs({ 101, -120, 250 }) do
        spec[i] = { u, "read", { { program.span(0, by, by) } }, { clamp = true } }
      end
      local t = r:submit(spec)
      for k = 0, 3 do
        for _, m in ipairs(r:messages_of(k, "push", t)) do sum = sum + m.bytes end
      end
      return sum / u.element_size
    end
    assert.equal(299 + 280 + 150, bytes())
    for _, box in ipairs({ 299, 280, 150, 299 }) do assert.equal(box, bytes()) end
  end)

  it("refuses writes that overlap on the split, and names them", function()
    local r = ranks.new(2)
    local u = r:buffer({ 8 }, { name = "field" })
    local store = r.program.rules
    local rule = assert(rules.rule(store, 1, 1,
      { { { { "-", { "min", 0 }, 1 }, { "max", 0 } } } }, { clamp = true }))
    local access = ffi.new("cel_access[1]")
    access[0].buffer, access[0].mode = u, 2
    access[0].use = { rule = rule, range = rules.box({ 0 }, { 8 }), extent = u.extent }
    local task = ffi.new("cel_task", { id = 99, dims = 1, accesses = 1 })
    task.range, task.access, task.name = rules.box({ 0 }, { 8 }), access, "blur"
    task.permitted.cut[0], task.permitted.granularity[0] = true, 1
    local before = #r.rank[0].commands
    local ok, text, code = r:add_raw(task)
    assert.is_nil(ok)
    assert.equal("overlap", code:lower())
    for _, part in ipairs({ "blur", "field", "[3, 4)", "[0, 4)", "[4, 8)" }) do
      assert.matches(part, text, 1, true)
    end
    assert.equal(before, #r.rank[0].commands)
  end)

  it("keeps the state of a buffer that grows by a row per step", function()
    local r = ranks.new(3)
    local u = r:buffer({ 500, 12 })
    local old = { { { 0, { "param", 0 } }, program.whole(1) } }
    local new = { { { { "param", 0 }, { "+", { "param", 0 }, 1 } }, program.span(0) } }
    local first
    for t = 1, 399 do
      r:submit({ range = { 12 }, { u, "discard_write", new, { params = { t } } },
        { u, "read", old, { params = { t } } } })
      if t % 50 == 0 then r:retire() end
      if t == 20 then first = { r:counts(1) } end
    end
    local entries, replications = r:counts(1)
    assert.equal(first[1], entries)
    assert.equal(first[2], replications)
  end)
end)
