-- Which exchanges are collectives, in small cases; random ones against brute
-- force are in fuzz_command.
local ffi = require("ffi")
local ranks = require("spec.command.ranks")
local program = require("spec.task.program")
local asked = require("spec.command.exchanges")
local exchanges, mine, silent, new = asked.exchanges, asked.mine, asked.silent, asked.new
local write, read_all, rows, columns = asked.write, asked.read_all, asked.rows, asked.columns

describe("collective patterns", function()
  it("are not looked for unless that is asked for", function()
    local r = ranks.new(3)
    local u = r:buffer({ 9 })
    write(r, u, 9)
    local t = read_all(r, u, 9)
    assert.same({}, exchanges(r, 1, t))
    assert.equal(2, #r:messages(1, "push", t))
  end)

  it("are an all-gather where each has a part and all read all", function()
    local r = new(3)
    local u = r:buffer({ 9 })
    write(r, u, 9)
    local t = read_all(r, u, 9)
    silent(r, t)
    for k = 0, 2 do
      assert.same({ "all_gather 0@0:9" }, exchanges(r, k, t))
      assert.equal(k * 3 .. ":" .. k * 3 + 3, mine(r, k, t))
    end
    local later = read_all(r, u, 9)
    silent(r, later)
    assert.same({}, exchanges(r, 0, later))
  end)

  it("are an all-gather, too, where few have a part and all read all", function()
    local r = new(8)
    local u = r:buffer({ 32 })
    write(r, u, 32)
    local t = r:submit({ range = { 32 }, { u, "read", { { { 2, 10 } } } } })
    silent(r, t)
    for k = 0, 7 do assert.same({ "all_gather 0@2:10" }, exchanges(r, k, t)) end
    assert.equal("8:10", mine(r, 2, t))
    assert.equal(ranks.box_text(ffi.new("cel_box"), 1), mine(r, 5, t))
  end)

  it("take the partial results of a reduction that all read to all", function()
    local r = new(3)
    local u = r:buffer({ 2 })
    local reduced = r:submit({ range = { 9 },
      { u, "discard_write", reducer = r.program:reducer() } })
    local t = read_all(r, u, 9)
    local combine = t - 1
    for k = 0, 2 do
      assert.same({}, exchanges(r, k, t))
      assert.same({ "all_gather 1@0:3 0:2" }, exchanges(r, k, combine))
      assert.equal(("%d:%d 0:2"):format(k, k + 1), mine(r, k, combine))
      assert.equal("0:2", r:of(k, "execute", combine)[1].chunk)
      assert.equal(1, #r:of(k, "execute", reduced))
    end
    silent(r, combine)
    silent(r, t)
    local once = r:submit({ range = { 1 }, { u, "read", program.all(1) } })
    silent(r, once)
    assert.same({}, exchanges(r, 0, once))
  end)

  it("are an all-reduce of what ranks have combined of whole numbers", function()
    local r = new(3)
    local u = r:buffer({ 2 })
    r:submit({ range = { 9 },
      { u, "discard_write", reducer = r.program:reducer(0, { "MAX", "u" }) } })
    local t = read_all(r, u, 9)
    local combine = t - 1
    for k = 0, 2 do
      assert.same({ "all_reduce 0@0:2" }, exchanges(r, k, combine))
      local before, it = r:of(k, "execute", combine)[1], r:of(k, "collective", combine)[1]
      assert.equal("true", it.deps[before.id])
      assert.equal("true", r:of(k, "execute", t)[1].deps[it.id])
      assert.equal("0:2", mine(r, k, combine))
      assert.equal(1, it.raw.exchange.gets)
    end
    silent(r, combine)
    silent(r, t)
    assert.same({}, exchanges(r, 0, t))
  end)

  it("are a broadcast where one rank has all", function()
    local r = new(4)
    local u = r:buffer({ 8 })
    write(r, u, 8, "once")
    local t = read_all(r, u, 8)
    silent(r, t)
    for k = 0, 3 do
      assert.same({ "broadcast 0@0:8" }, exchanges(r, k, t))
      assert.equal(k == 0 and "0:8" or "0:0", mine(r, k, t))
      assert.equal(0, tonumber(r:of(k, "collective", t)[1].raw.exchange.root))
    end
  end)

  it("are a broadcast where what is read lies within one rank's part", function()
    local r = new(4)
    local u = r:buffer({ 16 })
    write(r, u, 16)
    local t = r:submit({ range = { 16 }, { u, "read", { { { 9, 11 } } } } })
    silent(r, t)
    for k = 0, 3 do
      assert.same({ "broadcast 0@9:11" }, exchanges(r, k, t))
      assert.equal(2, tonumber(r:of(k, "collective", t)[1].raw.exchange.root))
    end
  end)

  it("are a scatter where one rank has all and each reads a part of its own", function()
    local r = new(4)
    local u = r:buffer({ 8 })
    write(r, u, 8, "once")
    local t = r:submit({ range = { 8 }, { u, "read", program.same(1) } })
    silent(r, t)
    for k = 0, 3 do
      assert.same({ "scatter 0@0:8" }, exchanges(r, k, t))
      local x = r:of(k, "collective", t)[1].raw.exchange
      assert.equal(k == 0 and "0:8" or k * 2 .. ":" .. k * 2 + 2,
        ranks.box_text(x.hull, 1))
    end
  end)

  -- What rank k gives to each rank, or gets from each, in elements; they are
  -- carried out in pairs.
  local function given(r, k, task, from)
    local x = r:of(k, "collective", task)[1].raw.exchange
    local parts, counts = from and x.from or x.to, {}
    for peer = 0, r.n - 1 do
      local count = parts.count ~= nil and parts.count or parts.wide_count
      counts[peer + 1] = tonumber(count[peer]) * tonumber(parts.unit)
    end
    return counts
  end

  it("are a scatter also where parts overlap, but not where few ranks read", function()
    local r = new(4)
    local u = r:buffer({ 8 })
    write(r, u, 8, "once")
    local halo = r:submit({ range = { 8 },
      { u, "read", program.grown(1), { clamp = true } } })
    silent(r, halo)
    for k = 0, 3 do assert.same({ "scatter 0@0:8" }, exchanges(r, k, halo)) end
    assert.same({ 0, 4, 4, 3 }, given(r, 0, halo))
    assert.same({ 4, 0, 0, 0 }, given(r, 2, halo, true))
    assert.same({ 0, 0, 0, 0 }, given(r, 2, halo))
    local v = r:buffer({ 64 })
    write(r, v, 64)
    -- Each entry is of many owners, and only neighbours lack any of it.
    local few = r:submit({ range = { 64 }, { v, "read", program.grown(2), { clamp = true } } })
    for k = 0, 3 do assert.same({}, exchanges(r, k, few)) end
  end)

  it("are an all-to-all where rows were written and columns are read", function()
    local r = new(3)
    local u = r:buffer({ 6, 9 })
    r:submit({ range = { 6 }, { u, "discard_write", rows() } })
    local t = r:submit({ range = { 9 }, { u, "read", columns() } })
    silent(r, t)
    for k = 0, 2 do
      assert.same({ "all_to_all 0@0:6 0:9" }, exchanges(r, k, t))
      local x = r:of(k, "collective", t)[1].raw.exchange
      assert.equal(("%d:%d 0:9"):format(2 * k, 2 * k + 2), mine(r, k, t))
      assert.equal(("0:6 %d:%d"):format(3 * k, 3 * k + 3), ranks.box_text(x.wanted, 2))
      for peer = 0, 2 do
        assert.equal(peer == k and 0 or 6, x.to.count[peer] * tonumber(x.to.unit))
        assert.equal(peer == k and 0 or 6, x.from.count[peer] * tonumber(x.from.unit))
      end
    end
    local again = r:submit({ range = { 9 }, { u, "read", columns() } })
    silent(r, again)
    assert.same({}, exchanges(r, 0, again))
  end)

  it("are one where columns overlap, and where some ranks have no chunk", function()
    local r = new(4)
    local u = r:buffer({ 3, 8 })
    r:submit({ range = { 3 }, { u, "discard_write", rows() } })
    local t = r:submit({ range = { 8 }, { u, "read", columns(1), { clamp = true } } })
    silent(r, t)
    for k = 0, 3 do assert.same({ "all_to_all 0@0:3 0:8" }, exchanges(r, k, t)) end
    local x = r:of(3, "collective", t)[1].raw.exchange
    assert.equal("0:0 0:0", mine(r, 3, t))
    assert.equal("0:3 5:8", ranks.box_text(x.wanted, 2))
    assert.equal(9, x.from.count[0] * tonumber(x.from.unit)
      + x.from.count[1] * tonumber(x.from.unit) + x.from.count[2] * tonumber(x.from.unit))
  end)

  it("are found in a matrix of more than 2^31 elements", function()
    local r = new(4)
    local u = r:buffer({ 65536, 65536 })
    r:submit({ range = { 65536 }, { u, "discard_write", rows() } })
    local t = r:submit({ range = { 65536 }, { u, "read", columns() } })
    silent(r, t)
    assert.same({ "all_to_all 0@0:65536 0:65536" }, exchanges(r, 2, t))
    assert.equal(2 ^ 28, tonumber(r:of(2, "collective", t)[1].raw.exchange.to.count[1]))
    assert.is_false(r:of(2, "collective", t)[1].raw.exchange.wide)
    -- Of two ranks each has 2^31: more than an int can count.
    local few = new(2)
    local v = few:buffer({ 65536, 65536 })
    few:submit({ range = { 65536 }, { v, "discard_write", rows() } })
    local s = few:submit({ range = { 65536 }, { v, "read", columns() } })
    assert.same({ "all_to_all 0@0:65536 0:65536" }, exchanges(few, 1, s))
    assert.is_true(few:of(1, "collective", s)[1].raw.exchange.wide)
    assert.same({ 2 ^ 30, 0 }, given(few, 1, s))
  end)

  it("are found for more than 2^31 elements, whatever they are", function()
    local n, r = 2 ^ 33, new(2)
    local u, v = r:buffer({ n }), r:buffer({ n })
    write(r, u, n)
    local gathered = r:submit({ range = { 1 }, { u, "read", program.all(1) } })
    assert.same({ ("gather 0@0:%d"):format(n) }, exchanges(r, 1, gathered))
    assert.same({ n / 2, 0 }, given(r, 1, gathered))
    write(r, u, n)
    local all = read_all(r, u, n)
    assert.same({ ("all_gather 0@0:%d"):format(n) }, exchanges(r, 1, all))
    assert.same({ n / 2, 0 }, given(r, 1, all, true))
    write(r, v, n, "once")
    local scattered = r:submit({ range = { n }, { v, "read", program.same(1) } })
    assert.same({ ("scatter 1@0:%d"):format(n) }, exchanges(r, 1, scattered))
    assert.same({ 0, n / 2 }, given(r, 0, scattered))
    write(r, v, n, "once")
    local spread = read_all(r, v, n)
    assert.same({ ("broadcast 1@0:%d"):format(n) }, exchanges(r, 1, spread))
    for _, t in ipairs { gathered, all, scattered, spread } do silent(r, t) end
  end)

  it("share the tables of an all-to-all from step to step", function()
    local r = new(4)
    local u, v = r:buffer({ 8, 8 }), r:buffer({ 8, 8 })
    local to
    for _ = 1, 4 do
      r:submit({ range = { 8 }, { u, "discard_write", rows() } })
      local t = r:submit({ range = { 8 }, { u, "read", columns() } })
      local x = r:of(1, "collective", t)[1].raw.exchange
      to = to or x.to
      assert.equal(to, x.to)
      u, v = v, u
    end
  end)

  it("are found after a gather, which the paper misses", function()
    local r = new(4)
    local u = r:buffer({ 16 })
    write(r, u, 16)
    local gathered = r:submit({ range = { 16 }, placement = "once",
      { u, "read", program.all(1) } })
    silent(r, gathered)
    for k = 0, 3 do assert.same({ "gather 0@0:16" }, exchanges(r, k, gathered)) end
    assert.equal("4:8", mine(r, 1, gathered))
    local t = read_all(r, u, 16)
    silent(r, t)
    for k = 0, 3 do assert.same({ "all_gather 0@0:16" }, exchanges(r, k, t)) end
  end)

  it("are left where most ranks have most of it", function()
    local r = new(4)
    local u = r:buffer({ 16 })
    write(r, u, 16)
    -- All but the outermost ranks have all of it already.
    r:submit({ range = { 16 }, { u, "read", program.grown(8), { clamp = true } } })
    local t = read_all(r, u, 16)
    for k = 0, 3 do assert.same({}, exchanges(r, k, t)) end
  end)

  it("come in one order on all ranks, also on those that compute nothing", function()
    local r = new(4, { small_bytes = 128, large_bytes = 128 })
    local u, v = r:buffer({ 16 }), r:buffer({ 16 })
    write(r, u, 16)
    write(r, v, 16, "once")
    local t = r:submit({ range = { 16 }, { v, "read", program.all(1) },
      { u, "read", program.all(1) } })
    for k = 0, 3 do
      assert.same({ "broadcast 1@0:16", "all_gather 0@0:16" }, exchanges(r, k, t))
      for i, command in ipairs(r:of(k, "collective", t)) do
        assert.equal(i - 1, tonumber(command.raw.exchange.nth))
      end
    end
  end)

  -- Tiles over a grid of ranks; each reads the row of tiles that its own is in.
  local function tiles(r, u)
    local cut = { true, true }
    r:submit({ range = { 8, 8 }, cut = cut, { u, "discard_write", program.same(2) } })
    return r:submit({ range = { 8, 8 }, cut = cut,
      { u, "read", { { program.span(0), program.whole(1) } } } })
  end

  it("are an all-gather in groups where tiles were written and rows of them are read", function()
    local r = new(16)
    local t = tiles(r, r:buffer({ 8, 8 }))
    silent(r, t)
    for k = 0, 15 do
      assert.same({ "all_gather 0@0:8 0:8" }, exchanges(r, k, t))
      assert.equal(4, tonumber(r:of(k, "collective", t)[1].raw.exchange.subgroup))
    end
    assert.same({ 0, 0, 0, 0, 4, 0, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0 }, given(r, 5, t))
    assert.same(given(r, 5, t), given(r, 5, t, true))
  end)

  it("are not looked for in groups of few of many ranks", function()
    local r = new(9)
    local t = tiles(r, r:buffer({ 8, 8 }))
    for k = 0, 8 do
      assert.same({}, exchanges(r, k, t))
      assert.equal(2, #r:messages(k, "push", t))
    end
  end)

  it("leave out ranks that have no chunk", function()
    local r = new(4)
    local u, v = r:buffer({ 16 }), r:buffer({ 16 })
    write(r, u, 16)
    write(r, v, 16, "once")
    local two = r:submit({ range = { 2 }, { u, "read", program.all(1) } })
    silent(r, two)
    for k = 0, 3 do assert.same({ "all_gather 0@0:16" }, exchanges(r, k, two)) end
    assert.same({ 4, 4, 0, 0 }, given(r, 3, two))
    assert.same({ 0, 0, 0, 0 }, given(r, 3, two, true))
    local three = r:submit({ range = { 3 }, { v, "read", program.all(1) } })
    silent(r, three)
    assert.same({ "broadcast 1@0:16" }, exchanges(r, 3, three))
    for k, place in pairs { [0] = "0:16", "0:16", "0:16", "0:0" } do
      assert.equal(place, ranks.box_text(r:of(k, "collective", three)[1].raw.exchange.hull, 1))
    end
    -- Less than half of the ranks, who would get something from each.
    local many = new(5)
    local x = many:buffer({ 20 })
    write(many, x, 20)
    local few = many:submit({ range = { 2 }, { x, "read", program.all(1) } })
    silent(many, few)
    assert.same({ "all_gather 0@0:20" }, exchanges(many, 0, few))
    assert.same({ 4, 4, 0, 0, 0 }, given(many, 3, few))
    -- Less than half, of what less than half have: messages.
    local m = new(7)
    x = m:buffer({ 14 })
    write(m, x, 14)
    few = m:submit({ range = { 3 }, { x, "read", { { { 0, 5 } } } } })
    assert.same({}, exchanges(m, 0, few))
    assert.equal(2, #m:messages(2, "push", few))
  end)

  it("concern many ranks of still more", function()
    for n = 63, 64 do
      local r = new(130)
      local x = r:buffer({ n })
      write(r, x, n)
      local t = r:submit({ range = { n }, { x, "read", program.all(1) } })
      local found = exchanges(r, 129, t)
      assert.same(n == 64 and { "all_gather 0@0:64" } or {}, found)
      assert.equal(n == 64 and 0 or 62, #r:messages(0, "push", t))
    end
  end)

  it("leave out ranks that weights give nothing", function()
    local weights = { ranks = { 1, 0, 2, 0, 1 } }
    local r = new(5)
    local u, v = r:buffer({ 8 }), r:buffer({ 8, 8 })
    local function submit(access) return r:submit { range = { 8 }, weights = weights, access } end
    submit { u, "discard_write", program.same(1) }
    local all = read_all(r, u, 8)
    silent(r, all)
    assert.same({ "all_gather 0@0:8" }, exchanges(r, 1, all))
    local parts = r:of(3, "collective", all)[1].raw.exchange.parts
    for k, count in ipairs { 2, 0, 4, 0, 2 } do
      assert.equal(count, parts.count[k - 1] * tonumber(parts.unit))
    end
    submit { u, "discard_write", program.same(1) }
    local some = submit { u, "read", program.all(1) }
    silent(r, some)
    assert.same({ "all_gather 0@0:8" }, exchanges(r, 1, some))
    assert.same({ 4, 0, 0, 0, 4 }, given(r, 2, some))
    assert.same({ 0, 0, 0, 0, 0 }, given(r, 1, some, true))
    assert.equal("0:0", ranks.box_text(r:of(1, "collective", some)[1].raw.exchange.hull, 1))
    submit { v, "discard_write", rows() }
    local turned = submit { v, "read", columns(1), { clamp = true } }
    silent(r, turned)
    assert.same({ "all_to_all 1@0:8 0:8" }, exchanges(r, 3, turned))
    assert.same({ 12, 0, 0, 0, 12 }, given(r, 2, turned))
    write(r, u, 8, "once")
    local halo = submit { u, "read", program.grown(1), { clamp = true } }
    silent(r, halo)
    assert.same({ "scatter 0@0:8" }, exchanges(r, 3, halo))
    assert.same({ 0, 0, 6, 0, 3 }, given(r, 0, halo))
    -- The only one with work gathers.
    write(r, u, 8)
    local one = r:submit { range = { 8 }, weights = { ranks = { 0, 0, 0, 1, 0 }, hash = 2 },
      { u, "read", program.all(1) } }
    silent(r, one)
    assert.same({ "gather 0@0:8" }, exchanges(r, 1, one))
    assert.equal(3, tonumber(r:of(1, "collective", one)[1].raw.exchange.root))
  end)

  it("are not for what is large, unless each has a part that all read", function()
    local r = new(4, { small_bytes = 200 })
    local u, v = r:buffer({ 128 }), r:buffer({ 16, 16 })
    local function gather() return r:submit { range = { 1 }, { u, "read", program.all(1) } } end
    local function scatter() return r:submit { range = { 128 }, { u, "read", program.same(1) } } end
    write(r, u, 128)
    assert.same({ "all_gather 0@0:128" }, exchanges(r, 1, read_all(r, u, 128)))
    write(r, u, 128)
    local t = gather()
    assert.same({}, exchanges(r, 1, t))
    assert.equal(3, #r:messages(0, "await_push", t))
    write(r, u, 128, "once")
    assert.same({}, exchanges(r, 1, scatter()))
    write(r, u, 128, "once")
    assert.same({}, exchanges(r, 1, read_all(r, u, 128)))
    r:submit { range = { 16 }, { v, "discard_write", rows() } }
    t = r:submit { range = { 16 }, { v, "read", columns() } }
    assert.same({ "all_to_all 1@0:16 0:16" }, exchanges(r, 1, t)) -- 128 bytes a pair
    local other = new(4, { small_bytes = 127 })
    v = other:buffer({ 16, 16 })
    other:submit { range = { 16 }, { v, "discard_write", rows() } }
    t = other:submit { range = { 16 }, { v, "read", columns() } }
    assert.same({}, exchanges(other, 1, t))
    assert.equal(3, #other:messages(1, "push", t))
  end)

  it("are a gather to whichever rank reads all alone", function()
    local r = new(4)
    local u = r:buffer({ 8, 12 })
    -- Row 5, cut over the ranks; that of rank 2 reads it by rows.
    r:submit({ range = { 12 }, { u, "discard_write", { { { 5, 6 }, program.span(0) } } } })
    local t = r:submit({ range = { 8 },
      { u, "read", { { program.span(0), program.whole(1) } } } })
    silent(r, t)
    for k = 0, 3 do
      assert.same({ "gather 0@5:6 0:12" }, exchanges(r, k, t))
      local x = r:of(k, "collective", t)[1].raw.exchange
      assert.equal(2, tonumber(x.root))
      assert.equal(k == 2 and "5:6 0:12" or ("5:6 %d:%d"):format(3 * k, 3 * k + 3),
        ranks.box_text(x.hull, 2))
    end
  end)

  it("share their parts, whatever row they are of", function()
    local r = new(4)
    local u = r:buffer({ 8, 12 })
    local parts
    for t = 0, 7 do
      r:submit({ range = { 12 }, { u, "discard_write",
        { { { t, t + 1 }, { { "min", 0 }, { "max", 0 } } } } } })
      local task = r:submit({ range = { 12 },
        { u, "read", { { { t, t + 1 }, { 0, { "buffer", 1 } } } } } })
      local x = r:of(2, "collective", task)[1].raw.exchange
      parts = parts or x.parts
      assert.equal(parts, x.parts)
      assert.equal(3, x.parts.count[2])
      assert.equal(6, x.parts.start[2])
    end
  end)
end)
