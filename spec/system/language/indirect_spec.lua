-- Kernels in Lua that read what an index buffer names, with nothing said of accesses.
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on three ranks with two devices", devices = 2, ranks = 3 },
}

local function everywhere(name, text)
  script.everywhere(name, text, nil, { shapes = shapes })
end

local setup = [==[
local images = require "celer.submit.image"
local n, m = 23, 60
local function at(i) return i * 7 % n end
local function ends(i) return math.min(m, math.floor(i * 2.7)) end
local function int(name, extents, init, type_)
  return celer.buffer(type_ or "int", extents, { name = name, init = init })
end
local ptr, col = int("ptr", n + 1, ends), int("col", m, at)
local val = celer.buffer("double", m, { name = "val", init = function(k) return k + 1 end })
local x = celer.buffer("double", n, { name = "x", init = function(i) return i * i + 1 end })
local y = celer.buffer("double", n, { name = "y", init = -1 })
local function X(i) return i * i + 1 end
local function holds(what, f)
  local s = q:wait(y)
  for i = 0, n - 1 do same(("%s, element %d"):format(what, i), s(i), f(i)) end
end
]==]

describe("a kernel in Lua that reads by an index", function()
  everywhere("multiplies a sparse matrix", setup .. [==[
local spmv = celer.kernel(function(i, ptr, col, val, x, y)
  local s = 0
  for k = ptr[i], ptr[i + 1] - 1 do s = s + val[k] * x[col[k]] end
  y[i] = s
end, { name = "spmv" })
local scale, to = 1, at
local function wanted(i)
  local s = 0
  for k = ends(i), ends(i + 1) - 1 do s = s + (k + 1) * scale * X(to(k)) end
  return s
end
spmv(n, ptr, col, val, x, y)
holds("at first", wanted)
same("accesses", spmv:accesses(n, ptr, col, val, x, y), table.concat({
  "read          ptr: celer.box({ chunk.min[0] }, { chunk.max[0] + 1 })",
  'read          col: celer.image(ptr, { as = "ranges" })',
  'read          val: celer.image(ptr, { as = "ranges" })',
  'read          x: celer.image(col, { of = celer.image(ptr, { as = "ranges" }) })',
  "discard_write y: celer.box({ chunk.min[0] }, { chunk.max[0] })" }, "\n"))
for _ = 1, 3 do spmv(n, ptr, col, val, x, y) end
local several = celer.ranks() > 1
same("inspections", images.traffic(x).inspections, several and 1 or 0)
same("exchanges", images.traffic(x).exchanges, several and 1 or 0)
same("bytes", images.traffic(x).bytes, images.traffic(x).needed)
celer.kernel(function(k, val) val[k] = 2 * val[k] end)(m, val)
scale = 2
spmv(n, ptr, col, val, x, y)
holds("after the values", wanted)
same("inspections for values", images.traffic(x).inspections, several and 1 or 0)
celer.kernel(function(k, col) col[k] = n - 1 - col[k] end)(m, col)
function to(k) return n - 1 - at(k) end
local step = q:group(function(cg, y) cg:parallel_for(n, spmv, ptr, col, val, x, y) end)
for _ = 1, 4 do step(y) end
holds("after the columns, in a group", wanted)
q:submit(function(cg)
  cg:hint { weights = function(rank) return rank + 1 end, oversubscribe = 2 }
  cg:parallel_for(n, spmv, ptr, col, val, x, y)
end)
holds("with weights", wanted)
-- What is given for it is not derived, from one submission to the next.
spmv(n, ptr, celer.access(col, celer.all), celer.access(val, celer.all),
  celer.access(x, celer.all), y)
holds("with accesses", wanted)
spmv(n, ptr, celer.access(col, celer.all), val, x, y)
holds("with one", wanted)
q:submit(function(cg)
  cg:parallel_for(n, spmv, cg:read(ptr, function(chunk)
    return celer.box({ chunk.min[0] }, { chunk.max[0] + 1 })
  end), col, val, x, cg:write(y))
end)
holds("with accesses of a group", wanted)
spmv(n, ptr, col, val, x, y)
holds("at last", wanted)
]==])

  everywhere("reads beside its items, from 1, with gaps and in tables", setup .. [==[
local beside = celer.kernel(function(i, col, x, y) y[i] = x[i] - x[col[i]] end)
beside(n, col, x, y)
holds("beside", function(i) return X(i) - X(at(i)) end)
same("accesses", beside:accesses(n, col, x, y), table.concat({
  "read          col: celer.box({ chunk.min[0] }, { chunk.max[0] })",
  "read          x: celer.box({ chunk.min[0] }, { chunk.max[0] })",
  "read          x: celer.image(col)",
  "discard_write y: celer.box({ chunk.min[0] }, { chunk.max[0] })" }, "\n"))
local from1 = int("from1", n, function(i) return at(i) + 1 end, "int64_t")
celer.kernel(function(i, from1, x, y) y[i] = x[from1[i] - 1] end)(n, from1, x, y)
holds("from 1", function(i) return X(at(i)) end)
local none = int("none", n, function(i) return i % 3 == 1 and -1 or i % 3 == 2 and 1e6 or at(i) end)
for k, f in ipairs {
  function(i, none, x, y)
    local c = none[i]
    if c >= 0 and c < n then y[i] = x[c] else y[i] = -1 end
  end,
  function(i, none, x, y)
    y[i] = none[i] < n and (none[i] ~= -1 and x[none[i]] or -1) or -1
  end,
} do
  y:fill(0)
  celer.kernel(f)(n, none, x, y)
  holds("sentinels " .. k, function(i) return i % 3 > 0 and -1 or X(at(i)) end)
end
local edges = int("edges", { n, 2 }, function(i, j) return (at(i) + 5 * j) % n end, "unsigned")
local across = celer.kernel(function(i, edges, x, y) y[i] = x[edges[i][0]] - x[edges[i][1]] end)
across(n, edges, x, y)
holds("edges", function(i) return X(at(i)) - X((at(i) + 5) % n) end)
assert(across:accesses(n, edges, x, y):find("x: celer.image(edges, { of = "
  .. "celer.box({ chunk.min[0], 0 }, { chunk.max[0], 2 }) })", 1, true))
local pairs = int("pairs", { n, 2 }, function(i, j) return ends(n - i - 1 + j) end)
celer.kernel(function(i, pairs, val, y)
  local s = 0
  for k = pairs[i][1] - 1, pairs[i][0], -1 do s = s + val[k] end
  y[i] = s
end)(n, pairs, val, y)
holds("pairs", function(i)
  local s = 0
  for k = ends(n - i - 1), ends(n - i) - 1 do s = s + k + 1 end
  return s
end)
local rows = celer.buffer("float", { n, 3 }, { init = function(i, j) return 10 * i + j end })
celer.kernel(function(i, col, rows, y)
  local s = 0
  for j = 0, 2 do s = s + rows[col[i]][j] end
  y[i] = s
end)(n, col, rows, y)
holds("rows", function(i) return 30 * at(i) + 3 end)
-- In two dimensions, and a box of another place.
local plane = int("plane", { n, n }, function(i, j) return (i + 3 * j) % n end)
local sums = celer.buffer("double", { n, n })
celer.kernel(function(i, j, plane, x, sums)
  sums[i][j] = x[plane[i][j]] + x[plane[math.max(i - 1, 0)][j]]
end)({ n, n }, plane, x, sums)
local s = q:wait(sums)
for i = 0, n - 1 do
  for j = 0, n - 1 do
    same("plane", s(i, j), X((i + 3 * j) % n) + X((math.max(i - 1, 0) + 3 * j) % n))
  end
end
-- From row to row, to what is the index itself, and to entries of those rows.
celer.kernel(function(i, col, ptr, val, y)
  local there = col[col[i]]
  local s = col[there]
  for k = ptr[there], ptr[there + 1] - 1 do s = s + val[k] end
  y[i] = s
end)(n, col, ptr, val, y)
holds("chains", function(i)
  local there = at(at(i))
  local s = at(there)
  for k = ends(there), ends(there + 1) - 1 do s = s + k + 1 end
  return s
end)
-- A number that a condition captures.
local most = 5
local below = celer.kernel(function(i, none, x, y)
  local c = none[i]
  y[i] = 0
  if c >= 0 and c < most then y[i] = x[c] end
end)
for _ = 1, 3 do
  below(n, none, x, y)
  holds("below " .. most, function(i)
    return i % 3 == 0 and at(i) < most and X(at(i)) or 0
  end)
  most = most + 6
end
]==])

  everywhere("looks at what is new in each of many submissions", setup .. [==[
local again = require "celer.submit.again"
local submit, short = again.submit, 0
function again.submit(...)
  local is_short = submit(...)
  if is_short then short = short + 1 end
  return is_short
end
local bound, to, more, from = n, at, 1, x
local gather = celer.kernel(function(i, col, x, y, more)
  local j = col[i]
  if j < bound then y[i] = x[j] * more else y[i] = -1 end
end)
local half = celer.kernel(function(j, x) x[j] = x[j] / 2 end)
local by, other = 1, celer.buffer("double", n, { init = function(i) return 5 * i end })
local function wanted(i)
  local j = to(i)
  if j >= bound then return -1 end
  return (from == other and 5 * j or X(j) * by) * more
end
local function holds_often(what)
  for turn = 1, 6 do
    if turn == 3 then
      half(n, x)
      by = by / 2
    end
    y:fill(0)
    gather(n, col, from, y, more)
    holds(what .. ", turn " .. turn, wanted)
  end
end
holds_often "at first"
local several = celer.ranks() > 1 or select(2, require("celer.core").devices()) > 1
assert(several or short > 3, "the short way")
more = 3 holds_often "a number"
bound = 9 holds_often "a bound"
bound = n holds_often "the bound again"
from = other holds_often "another buffer"
from = x
celer.kernel(function(k, col) col[k] = (col[k] + 5) % n end)(m, col)
to = function(i) return (at(i) + 5) % n end
holds_often "another index"
col = int("col", m, function(k) return k * 3 % n end)
to = function(i) return i * 3 % n end
holds_often "another buffer of the index"
local long = celer.buffer("double", n + 4, { init = function(i) return X(i) * by end })
local short_one = x
x, from = long, long
holds_often "a longer one"
x, from = short_one, short_one
half(n, x) -- as the long one was meanwhile
holds_often "the first again"
local function refused(what, message, ...)
  local ok, said = pcall(gather, ...)
  assert(not ok and said:find(message, 1, true), what .. ": " .. tostring(said))
end
refused("the same", "is written", n, col, y, y, more)
local gone = int("gone", m, at)
for _ = 1, 4 do gather(n, gone, x, y, more) end
gone:free()
refused("a freed index", "gone was freed", n, gone, x, y, more)
x:free()
refused("freed", "x was freed", n, col, x, y, more)
]==])

  everywhere("looks at an index only as kernels read by it", setup .. [==[
local walks = int("walks", n, function() return n - 2 end)
local named = celer.image(walks)
local walk = celer.kernel(function(i, walks, x, y)
  y[i] = x[walks[i]]
  walks[i] = walks[i] + 1
end)
for _ = 1, 2 do walk(n, walks, celer.access(x, named), y) end -- then it names no row of x
holds("the last row", function() return X(n - 1) end)
]==])

  -- By more images than are remembered, in an order that looks random.
  script.everywhere("submits the same on all ranks, whatever their collectors have taken",
    setup .. [==[
local rank, bound, turn, gathers = require("celer.core").rank(), 0, 1, {}
for k = 1, 6 do
  gathers[k] = celer.kernel(function(i, by, col, x, y)
    local c = by[i]
    y[i] = -1
    if c < bound then y[i] = x[col[c]] end
  end)
end
local function below(n)
  turn = turn * 16807 % 2147483647
  return turn % n
end
local by = int("by", n, at)
for _ = 1, 200 do
  bound = 3 + below(7)
  local gather = gathers[1 + below(6)]
  for _ = 0, below(5) do gather(n, by, col, x, y) end
  if below(2) == 0 and rank == 0 then collectgarbage() end
end
holds("the last one", function(i) return at(i) < bound and X(at(at(i))) or -1 end)
]==], nil, { shapes = { { name = "on two ranks", devices = 1, ranks = 2 } } })

  script.everywhere("is refused, with what to write, where it cannot follow", setup .. [==[
local narrow = int("narrow", n, 0, "int16_t")
celer.struct("link", "int to; int from;")
local links = celer.buffer("link", n, { name = "links", init = { to = 0, from = 0 } })
local other = int("other", n + 1, 0)
local function no(words, f, ...)
  local ok, message = pcall(celer.kernel(f), n, ...)
  message = type(message) == "table" and message.message or tostring(message)
  local line = debug.getinfo(f, "S").linedefined
  assert(not ok and message:find(words, 1, true), ("line %d: %s"):format(line, message))
end
no("an index holds int32_t, uint32_t or int64_t, not int16_t as 'narrow' does",
  function(i, narrow, x, y) y[i] = x[narrow[i]] end, narrow, x, y)
no("an index holds int32_t, uint32_t or int64_t, not link as 'links' does",
  function(i, links, x, y) y[i] = x[links[i].to] end, links, x, y)
no("celer follows an element of an index with a constant added, as in x[col[k] + 1]",
  function(i, col, x, y) y[i] = x[2 * col[i]] end, col, x, y)
no("celer follows a counter from ptr[i] to ptr[i + 1] - 1, and from pairs[i][0]",
  function(i, ptr, other, val, y)
    y[i] = 0
    for k = ptr[i], other[i] do y[i] = y[i] + val[k] end
  end, ptr, other, val, y)
no("celer follows a counter", function(i, ptr, val, y)
  y[i] = 0
  for k = 0, ptr[i] do y[i] = y[i] + val[k] end
end, ptr, val, y)
no("the kernel writes 'other': an index must not change meanwhile",
  function(i, other, x, y) y[i], other[i] = x[other[i]], 0 end, other, x, y)
no("the kernel also writes 'y': write to a second buffer",
  function(i, col, y) y[i] = y[col[i]] end, col, y)
no("'col' is read beyond its edges, and cannot be an index",
  function(i, col, x, y) y[i] = x[col[i - 1]] end, celer.clamped(col), x, y)
no("What is written where elements say is not followed: let each item gather what it needs, "
  .. "as in y[i] = x[from[i]], push to it, as by celer.route(y, \"sum\"), or reduce into it, "
  .. "as by celer.sum(y), or",
  function(i, col, x, y) y[col[i]] = x[i] end, col, x, y)
no("which part of 'col' a chunk touches cannot be derived: index 0",
  function(i, col, x, y) y[i] = x[col[math.floor(x[i])]] end, col, x, y)
no("index 1 of 'rows' is 3 for an item of the range, and buffer rows has 0 to 2",
  function(i, col, rows, y) y[i] = rows[col[i]][3] end, col,
  celer.buffer("float", { n, 3 }, { name = "rows", init = 0 }), y)
no("says no ranges", function(i, table, val, y)
  y[i] = 0
  for k = table[i][0], table[i][1] - 1 do y[i] = y[i] + val[k] end
end, int("table", { n, 3 }, 0), val, y)
]==], nil, { shapes = { shapes[1] } })

  it("names the item, the entry and both lines where one names no row", function()
    for _, ranks in ipairs { 1, 3 } do
      local r = script.run([==[
local n = 12
local ptr = celer.buffer("int", n + 1, { name = "ptr", init = function(i) return 2 * i end })
local col = celer.buffer("int", 2 * n, { name = "col", init = function(k)
  return k == 17 and n or k % n
end })
local x = celer.buffer("double", n, { name = "x", init = 1 })
local y = celer.buffer("double", n, { name = "y" })
local sums = celer.kernel(function(i, ptr, col, x, y)
  local s = 0
  for k = ptr[i], ptr[i + 1] - 1 do
    s = s + x[col[k]]
  end
  y[i] = s
end)
sums(n, ptr, col, x, y)
q:wait()
print "not reached"]==], { devices = 2, ranks = ranks > 1 and ranks or nil })
      assert.not_equal(0, r.status)
      assert.equal("", r.stdout)
      assert.truthy(r.stderr:find("/case.lua:16: celer.image: col(17) is 12, and x has rows 0 to "
        .. "11; item 8 reads it, at case.lua:12", 1, true), r.stderr)
    end
  end)

  everywhere("shares a row among items", setup .. [==[
local each, back = 3, celer.buffer("double", { n, 3 }, { name = "back", init = 0 })
local share = celer.kernel(function(i, j, ptr, val, out)
  local s = 0
  for k = ptr[i] + j, ptr[i + 1] - 1, each do s = s + val[k] end
  for k = ptr[i + 1] - 1, ptr[i] + j, -2 do s = s + 100 * val[k] end
  out[i][j] = s
end)
share({ n, each }, ptr, val, back)
local s = q:wait(back)
for i = 0, n - 1 do
  for j = 0, 2 do
    local wanted = 0
    for k = ends(i) + j, ends(i + 1) - 1, 3 do wanted = wanted + k + 1 end
    for k = ends(i + 1) - 1, ends(i) + j, -2 do wanted = wanted + 100 * (k + 1) end
    same("item " .. i .. ", " .. j, s(i, j), wanted)
  end
end
same("accesses", (share:accesses({ n, each }, ptr, val, back):match "val: ([^\n]*)"),
  'celer.image(ptr, { as = "ranges", of = celer.box({ chunk.min[0] }, { chunk.max[0] }) })')
local less = celer.kernel(function(i, j, ptr, val, out)
  for k = ptr[i] - j, ptr[i + 1] - 1 do out[i][j] = val[k] end
end)
same("refused", tostring(select(2, pcall(less, { n, each }, ptr, val, back)))
  :match "celer follows a counter from ptr%[i%]", "celer follows a counter from ptr[i]")
]==])
end)
