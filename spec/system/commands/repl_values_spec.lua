-- How a session shows values.
local celer = require("spec.support.celer")

-- What a session shows of the last of `lines`, after the others.
local function shown(...)
  local lines = { ... }
  local last = table.remove(lines)
  local r = celer.run({ "repl" }, { stdin = table.concat(lines, "\n") .. "\nprint '--'\n"
    .. last .. "\n" })
  assert.same({ "", 0 }, { r.stderr, r.status })
  return r.stdout:match "%-%-\n(.*)\n$"
end

local function text(...) return table.concat({ ... }, "\n") end

describe("a buffer", function()
  it("that is small is shown whole", function()
    assert.equal(text("buffer u: float[2][3], 24 bytes", "    0  0.5    1",
      "   10 10.5   11"), shown("celer.buffer('float', {2, 3}, {name = 'u', "
      .. "init = function(i, j) return 10 * i + j / 2 end})"))
    assert.equal(text("buffer b: int[3], 12 bytes", "   7   8   9"),
      shown("celer.buffer('int', {3}, {name = 'b', init = {7, 8, 9}})"))
    assert.equal(text("buffer one: double, 8 bytes", " 0.1"),
      shown("celer.buffer('double', {}, {name = 'one', init = 0.1})"))
    assert.equal(text("buffer c: int8_t[2][1][3], 6 bytes", " [0]", "   0   1   2", " [1]",
      "  10  11  12"), shown("celer.buffer('int8_t', {2, 1, 3}, {name = 'c', "
      .. "init = function(i, j, k) return 10 * i + k end})"))
  end)

  it("of one dimension has coordinates where it takes several lines", function()
    local seen = shown("celer.buffer('int', {30}, {name = 'u', init = function(i) return i end})")
    assert.equal(text("buffer u: int[30], 120 bytes",
      "  [0]   0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15  16  17",
      " [18]  18  19  20  21  22  23  24  25  26  27  28  29"), seen)
  end)

  it("that is large is summed up, with what is no number", function()
    assert.equal(text("buffer w: float[400][500], 800000 bytes",
      "    0   -1   -2  ... -497 -498 -499",
      "    1    0   -1  ... -496 -497 -498",
      "    2    1    0  ... -495 -496 -497",
      "  ...",
      "  397  396  395  ... -100 -101 -102",
      "  398  397  396  ...  -99 -100 -101",
      "  399  398  397  ...  -98  -99 -100",
      " min -499, max 399; 500 are nan"), shown("celer.buffer('float', {400, 500}, "
      .. "{name = 'w', init = function(i, j) return i == 5 and 0 / 0 or i - j end})"))
  end)

  it("that is small and has long rows is shown whole, in blocks of columns", function()
    local make = "celer.buffer('double', {2, 9}, {name = 'u', "
      .. "init = function(i, j) return i / 3 + j end})"
    assert.equal(text("buffer u: double[2][9], 144 bytes",
      " columns 0 to 3",
      "                0                1                2                3",
      " 0.33333333333333  1.3333333333333  2.3333333333333  3.3333333333333",
      " columns 4 to 7",
      "                4                5                6                7",
      "  4.3333333333333  5.3333333333333  6.3333333333333  7.3333333333333",
      " column 8",
      "                8",
      "  8.3333333333333"), shown(make))
  end)

  it("that is large and has long rows is shown by its edges, in blocks of columns", function()
    local make = "celer.buffer('double', {40, 40}, {name = 'u', init = 2 / 3})"
    local row = " 0.66666666666667 0.66666666666667 0.66666666666667"
    assert.equal(text("buffer u: double[40][40], 12800 bytes", " columns 0 to 2",
      row .. "              ...", row .. "              ...", row .. "              ...",
      "              ...", row .. "              ...", row .. "              ...",
      row .. "              ...", " columns 37 to 39", row, row, row, "              ...", row, row,
      row, " min 0.6666667, max 0.6666667"), shown(make))
  end)

  it("that no host could hold shows its first elements", function()
    assert.equal(text("buffer h: float[1048576][1048576], 4398046511104 bytes",
      "   0   1   2", "   1   2   3", "   2   3   4", " ... the first of them"),
      shown("celer.buffer('float', {2 ^ 20, 2 ^ 20}, {name = 'h', "
        .. "init = function(i, j) return i + j end})"))
  end)

  it("of structs shows their fields", function()
    local body = "body = celer.struct('body', 'float x, v; unsigned int id; int n[2];')"
    local make = "b = celer.buffer(body, {2}, {name = 'b', "
      .. "init = function(i) return {x = i, v = 0.5, id = 7} end})"
    assert.equal(text("buffer b: body[2], 40 bytes", " [0] {x = 0, v = 0.5, id = 7, n = {0, 0}}",
      " [1] {x = 1, v = 0.5, id = 7, n = {0, 0}}"), shown(body, make, "b"))
    assert.equal("{x = 1, v = 0.5, id = 7, n = {0, 0}}",
      shown(body, make, "celer.queue():wait(b)(1)"))
    assert.equal(text("buffer f: float2[1][2], 16 bytes", " {x = 1, y = 2} {x = 3, y = 4}"),
      shown("celer.buffer('float2', {1, 2}, {name = 'f', init = {{{1, 2}, {3, 4}}}})"))
  end)

  it("that is empty or freed says so", function()
    assert.equal("buffer e: int[0], 0 bytes",
      shown("celer.buffer('int', {0}, {name = 'e'})"))
    assert.equal(text("buffer u: int[3], 12 bytes", " freed"),
      shown("u = celer.buffer('int', {3}, {name = 'u'})", "u:free()", "u"))
  end)
end)

describe("other things of celer's", function()
  local one = "kernel void one(item<1> it, out<int, 1> v) { v(it[0]) = 1; } "
  local two = "kernel void two(item<1> it, inout<int, 1> v, int x) { v(it[0]) += x; }"

  it("are snapshots", function()
    assert.equal(text("snapshot of u: int [1, 3)", "   8   9"), shown("q = celer.queue()",
      "u = celer.buffer('int', {3}, {name = 'u', init = {7, 8, 9}})",
      "q:wait(celer.capture(u, celer.box({1}, {3})))"))
  end)

  it("are kernels", function()
    assert.matches("^kernel one%(item<1>, out<int, 1>%)\n for ", shown("celer.kernel [[" .. one
      .. "]]"))
    assert.equal(text("kernel one(item<1>, out<int, 1>)",
      "kernel two(item<1>, inout<int, 1>, int)"), shown("celer.kernel [[" .. one .. two .. "]]"))
  end)

  it("are queues, rules, mappers and celer itself", function()
    assert.equal(text("queue", " hints {split = \"2d\"}"), shown("q = celer.queue()",
      "q:hint {split = '2d'}", "q"))
    assert.matches("^rule: %[chunk.min0, chunk.max0%)\nidentity; ",
      shown("u = celer.buffer('int', {3})", "celer.rule(celer.one_to_one, u)"))
    assert.equal("function(chunk, buffer)  Each item touches the element at its own coordinates.",
      shown("celer.one_to_one"))
    assert.matches("^celer %S+  1 rank, %d+ device", shown("celer"))
  end)
end)

describe("tables", function()
  it("are shown as one would write them", function()
    assert.equal("{}", shown("{}"))
    assert.equal('{1, 2, "three", {a = true, ["b c"] = 4}}', shown("{1, 2, 'three', "
      .. "{['b c'] = 4, a = true}}"))
    assert.equal("{[-1] = 2, x = [1, 3)}", shown("{[-1] = 2, x = celer.box({1}, {3})}"))
  end)

  it("take several lines where they are long, and end", function()
    assert.equal(text("{", "  a = 1,", "  deep = {more = {most = {...}}},",
      '  long = "' .. ("x"):rep(70) .. '",', "  self = {... itself}", "}"),
      shown("t = {a = 1, long = ('x'):rep(70), deep = {more = {most = {hidden = 1}}}}",
        "t.self = t", "t"))
    assert.matches("  40,\n  ... 60 more\n}$", shown("t = {}", "for i = 1, 100 do t[i] = i end",
      "t"))
  end)
end)

it("values that are plain stand on one line", function()
  assert.equal("1\ttwo\tnil\ttrue\tnil", shown("1, 'two', nil, true, nil"))
  assert.equal(text("1", "buffer u: int[1], 4 bytes", "   5", "2"),
    shown("1, celer.buffer('int', {1}, {name = 'u', init = {5}}), 2"))
end)
