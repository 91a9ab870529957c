-- Which collectives of a task are carried out as one.
local program = require("spec.task.program")
local asked = require("spec.command.exchanges")
local exchanges, silent, new, write, read_all, rows, columns =
  asked.exchanges, asked.silent, asked.new, asked.write, asked.read_all, asked.rows, asked.columns

describe("collectives of one task", function()
  -- Bytes that rank k gives to, or gets from, each; or that each has.
  local function sums(r, k, task, from)
    local x, list = r:of(k, "collective", task)[1].raw.exchange, {}
    for peer = 0, r.n - 1 do list[peer + 1] = x.sum[from and 1 or 0].count[peer] end
    return list
  end

  it("are one for all that a task reads in pieces that several tasks wrote", function()
    local r = new(4)
    local u = r:buffer({ 24 })
    r:submit { range = { 8 }, { u, "discard_write", program.same(1) } }
    r:submit { range = { 8 }, { u, "discard_write", { { program.span(0, 16, 16) } } } }
    r:submit { range = { 1 }, { u, "discard_write", { { { 8, 11 } } } } }
    local t = read_all(r, u, 24)
    silent(r, t)
    for k = 0, 3 do
      assert.same({ "all_gather 0@0:8, 0@8:11, 0@16:24" }, exchanges(r, k, t))
      local size = r:of(k, "collective", t)[1].raw.exchange.buffer.element_size
      assert.same({ 7 * size, 4 * size, 4 * size, 4 * size }, sums(r, k, t))
    end
  end)

  it("are one for several buffers: in pairs where not all get all", function()
    local r = new(4)
    local u, v, w = r:buffer({ 4 }), r:buffer({ 8 }), r:buffer({ 4, 4 })
    local function again()
      write(r, u, 4)
      write(r, v, 8)
      r:submit({ range = { 4 }, { w, "discard_write", rows() } })
    end
    again()
    local size = u.element_size
    local function both(n)
      return r:submit { range = { n }, { u, "read", program.all(1) },
        { v, "read", program.all(1) } }
    end
    local t = both(1)
    silent(r, t)
    assert.same({ "gather 0@0:4, 1@0:8" }, exchanges(r, 2, t))
    assert.same({ 3 * size, 0, 0, 0 }, sums(r, 2, t))
    assert.same({ 0, 3 * size, 3 * size, 3 * size }, sums(r, 0, t, true))
    again()
    local turned = r:submit { range = { 4 }, { u, "read", program.all(1) },
      { w, "read", columns() }, { v, "read", program.all(1) } }
    silent(r, turned)
    for k = 0, 3 do
      assert.same({ "all_gather 0@0:4, 1@0:8", "all_to_all 2@0:4 0:4" }, exchanges(r, k, turned))
    end
    write(r, u, 4, "once")
    write(r, v, 8, "once")
    local spread = both(4)
    silent(r, spread)
    assert.same({ "broadcast 0@0:4, 1@0:8" }, exchanges(r, 3, spread))
    assert.equal(nil, r:of(3, "collective", spread)[1].raw.exchange.sum[0])
  end)

  it("share their sums from step to step", function()
    local r = new(4)
    local u, v = r:buffer({ 8 }), r:buffer({ 8 })
    local sum
    for _ = 1, 3 do
      write(r, u, 8)
      write(r, v, 8)
      local t = r:submit { range = { 8 }, { u, "read", program.all(1) },
        { v, "read", program.all(1) } }
      assert.same({ "all_gather 0@0:8, 1@0:8" }, exchanges(r, 1, t))
      local x = r:of(1, "collective", t)[1].raw.exchange
      sum = sum or x.sum[0]
      assert.equal(sum, x.sum[0])
    end
  end)

  it("stay apart where they are large: nothing has to be packed then", function()
    local r = new(4, { small_bytes = 100 })
    local u, v, w = r:buffer({ 8 }), r:buffer({ 8 }), r:buffer({ 101 })
    for _, b in ipairs { u, v } do write(r, b, 8) end
    write(r, w, 101)
    local t = r:submit { range = { 8 }, { u, "read", program.all(1) },
      { w, "read", program.all(1) }, { v, "read", program.all(1) } }
    assert.same({ "all_gather 0@0:8, 1@0:8", "all_gather 2@0:101" }, exchanges(r, 1, t))
  end)
end)
