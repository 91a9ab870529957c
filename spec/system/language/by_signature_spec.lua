-- Kernels in C++ that are given buffers: their parameters say the mode.
local script = require("spec.support.script")

local setup = [==[
local n = 10
local function new(name, value, extents)
  return celer.buffer("float", extents or n, { name = name, init = value })
end
local u, v, w, s, r = new("u", 1), new "v", new("w", 1, { n, n }), new("s", 3, {}), new("r", 0, {})
local k = celer.kernel [=[
  kernel void scale(item<1> it, in<float, 1> u, out<float, 1> v, float c) {
    v(it[0]) = c * u(it[0]);
  }
  kernel void add(item<1> it, inout<float, 1> u, in<float, 0> s, reducer<float> r) {
    u(it[0]) += s();
    r += u(it[0]);
  }
  kernel void rows(item<1> it, in<float, 2> w, out<float, 1> v) { v(it[0]) = w(it[0], 3) * 2; }
  kernel void around(item<1> it, near<float, 1> u, out<float, 1> v) {
    v(it[0]) = u(it[0] - 1) + u(it[0] + 1);
  }
]=]
local function rows(c) return celer.box({ c.min[0], 0 }, { c.max[0], n }) end
]==]

describe("a kernel in C++", function()
  script.everywhere("takes buffers in the place of accesses", setup .. [==[
for c = 1, 6 do -- the first ways, and those of submissions that come again
  k.scale(n, u, v, c)
  same("by itself", v(2), c)
end
q:parallel_for({ n }, k.scale, v, u, 10)
same("to a queue", u(9), 60)
for c = 1, 3 do
  q:submit(function(cg) cg:parallel_for(n, k.scale, u, cg:discard_write(v), c) end)
  same("beside an access", v(0), 60 * c)
end
k.add(n, u, s, celer.sum(r))
same("a reduction", r(), 630)
k.add(n, u, s, celer.reduce(r, "sum", { include_current = true }))
same("with options", r(), 630 + 660)
k.rows(n, celer.access(w, rows), v)
same("with a mapper", v(3), 2)
k.around(n, celer.periodic(u, 1), v)
same("with an edge", v(0), 132)
k.around(n, celer.constant(u, 5, 1), v)
same("with another one", v(n - 1), 71)
local step = q:group(function(cg, a, b, c) cg:parallel_for(n, k.scale, a, b, c) end)
step(u, v, 2)
same("in a group", v(4), 132)
q:when(celer.scalar("int", 0), n, k.scale, u, v, 100)
same("where a flag is 0", v(4), 132)
]==], nil, { env = { CELER_LOG = "error" } })

  script.everywhere("is refused buffers that say too little", setup .. [==[
refused("w has 2 dimensions, and the range 1: say which part a chunk touches",
  function() k.rows(n, w, v) end)
refused("say how far it reads, and what lies beyond the edges, as in celer.periodic(u, 1)",
  function() k.around(n, u, v) end)
refused("look into C++ for how far the kernel reads: say it, as in celer.periodic(u, 1)",
  function() k.around(n, celer.periodic(u), v) end)
refused("argument 3 of kernel scale: expected a number", function() k.scale(n, u, v, u) end)
refused("takes 3 arguments after its item, got 2", function() k.scale(n, u, v) end)
refused("takes 3 arguments after its item, got 4", function() k.scale(n, u, v, 3, u) end)
refused('give it celer.reduce(r, "sum")', function() k.add(n, u, s, r) end)
refused("a buffer or an access (out<float, 1>, from cg:discard_write or cg:write), got nil",
  function() k.scale(n, u, nil, 3) end)
refused("got an expression over buffers", function() k.scale(n, 2 * u, v, 3) end)
refused("expected a number (float), got a buffer", function() k.scale(n, u, v, u) end)
refused("is only read, and the kernel declares out<float, 1>",
  function() k.scale(n, u, celer.periodic(v, 1), 3) end)
refused("one number for each dimension, not a table: celer.periodic(u, 1, 1)",
  function() k.around(n, celer.periodic(u, { 1 }), v) end)
refused("r is accessed with cg:reduce; use cg:read",
  function() k.scale(n, celer.sum(r), v, 3) end)
refused("kernel scale takes an item<1>, but the range has 2 dimensions",
  function() k.scale({ n, n }, u, v, 3) end)
]==])
end)
