-- Collective host tasks: one call per rank, groups that do not wait for each other,
-- and the communicator.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on two ranks", devices = 1, ranks = 2 },
  { name = "on three ranks with two devices", devices = 2, ranks = 3 },
  { name = "on four ranks", devices = 1, ranks = 4 },
}
local seven = { name = "on seven ranks", devices = 1, ranks = 7 }

local function everywhere(name, text, check)
  script.everywhere(name, text, check, { shapes = shapes })
end

local function among_many(name, text)
  script.everywhere(name, text, nil, { shapes = { shapes[1], shapes[2], shapes[3], seven } })
end

-- In front of a text: all(f, ...) submits a collective task.
local all = [[
function all(f, ...) local a, n = { ... }, select("#", ...)
  q:submit(function(cg) cg:host_task(celer.collective(), f, unpack(a, 1, n)) end) end
]]
all = all:gsub("%s+", " ")

describe("a collective host task", function()
  -- Until all is compiled, and values that differ each time.
  everywhere("gathers what ranks say in a call that is like a thousand others", all .. [==[
local function say(part)
  local n = (part.kept.n or 0) + 1
  part.kept.n = n
  local all = part.comm:all_gather(part.rank * n)
  for k = 0, part.ranks - 1 do
    if all[k] ~= k * n then error(("call %d: rank %d said %s"):format(n, k, all[k])) end
  end
end
for i = 1, 1000 do
  all(say)
  if i % 50 == 0 then q:wait() end
end
]==])

  everywhere("runs once on each rank, in order, and sees its part of buffers", [==[
local n = 11
local u = celer.buffer("int", { n, 3 }, { name = "u", init = function(i, j) return 10 * i + j end })
for t = 1, 3 do
  q:submit(function(cg)
    cg:host_task(celer.collective(), function(part, u, t)
      same("rank", part.min[0], part.rank)
      same("ranks", part.global[0], part.ranks)
      same("communicator's rank", part.comm.rank, part.rank)
      same("communicator's ranks", part.comm.ranks, part.ranks)
      same("task", (part.kept.t or 0) + 1, t)
      part.kept.t = t
      for i = u.min[0], u.max[0] - 1 do
        for j = 0, 2 do u:set(i, j, u(i, j) + 1) end
      end
      local rows = part.comm:all_gather(u.size[0])
      local sum = 0
      for k = 0, part.ranks - 1 do sum = sum + rows[k] end
      same("rows", sum, 11)
    end, cg:read_write(u, celer.even_split), t)
  end)
end
local s = q:wait(u)
for i = 0, n - 1 do
  for j = 0, 2 do same("element", s(i, j), 10 * i + j + 3) end
end
]==])

  everywhere("touches by even_split what the rank has computed", [==[
local ffi = require "ffi"
local set = celer.kernel [[ kernel void set(item<1> i, out<int, 1> u) { u(i[0]) = i[0]; } ]]
for _, n in ipairs { 2, 3, 7, 8, 9, 100 } do
  local u = celer.buffer("int", n)
  q:submit(function(cg) cg:parallel_for(n, set, cg:discard_write(u)) end)
  q:submit(function(cg)
    cg:host_task(celer.collective(), function(part, u)
      for i = u.min[0], u.max[0] - 1 do same("element", u[i], i) end
    end, cg:read(u, celer.even_split))
  end)
end
q:wait()
same("messages", require("celer.core").counts().messages, 0)
refused("here the index space has 2 and the buffer 1", function()
  local u = celer.buffer("int", 4)
  q:submit(function(cg)
    cg:host_task({ 2, 2 }, function() end, cg:read(u, celer.even_split))
  end)
end)
]==])

  everywhere("shares a communicator with those of its group alone", [==[
for _, name in ipairs { "a", "b", "a", "b", false, "a" } do
  q:submit(function(cg)
    cg:host_task(celer.collective(name or nil), function(part, name)
      local seen = part.kept
      if seen.handle then same("handle", part.comm.handle, seen.handle) end
      seen.handle = part.comm.handle
      print(tostring(name), tostring(part.comm.handle))
    end, name)
  end)
end
q:wait()
same("a group", celer.collective "a", celer.collective "a")
same("another", celer.collective "a" == celer.collective "b", false)
same("the default", celer.collective() == celer.collective "a", false)
]==], function(out, shape)
      local handles = {}
      for line in out:gmatch("[^\n]+") do
        local rank, name, handle = line:match("^%[?(%d?)%]? ?(%l+)\t(.*)$")
        handles[rank] = handles[rank] or {}
        handles[rank][name] = handles[rank][name] or handle
        assert.equal(handles[rank][name], handle)
      end
      local ranks = 0
      for _, of in pairs(handles) do
        ranks = ranks + 1
        assert.not_equal(of.a, of.b)
        assert.not_equal(of.a, of["false"])
        assert.not_equal(of.b, of["false"])
      end
      assert.equal(shape.ranks or 1, ranks)
    end)

  -- Group b waits on rank 0 for something slow. So there a's task begins first,
  -- and waits for that of the last rank, which needs what b's tasks bring about.
  everywhere("waits for other ranks without holding up other groups, or other tasks", [==[
local slow = celer.buffer("int", 1, { name = "slow", init = { 0 } })
local x = celer.buffer("int", 1, { name = "x", init = { 0 } })
local _, ranks = require("celer.core").rank()
local function on(k) return function(chunk)
  local away = chunk.min[0] - k
  return celer.box({ 0 }, { celer.max(0, celer.min(1, 1 - away * away)) })
end end
for t = 1, 5 do
  q:submit(function(cg)
    cg:host_task(celer.on_master, function(_, slow, t)
      os.execute "sleep 0.1"
      slow[0] = t
    end, cg:discard_write(slow, celer.all), t)
  end)
  q:submit(function(cg)
    cg:host_task(celer.collective "b", function(part, x, slow, t)
      if part.rank == 0 then same("slow", slow[0], t) end
      part.comm:barrier()
      if x.size[0] > 0 then x[0] = t end
    end, cg:write(x, on(ranks - 1)), cg:read(slow, on(0)), t)
  end)
  q:submit(function(cg)
    cg:host_task(celer.collective "a", function(part, x, t)
      if part.rank == part.ranks - 1 then same("x", x[0], t) end
      part.comm:barrier()
    end, cg:read(x, on(ranks - 1)), t)
  end)
end
q:wait()
]==])

  everywhere("is checked as others are", [==[
refused("celer.collective is a function: write celer.collective()", function()
  q:submit(function(cg) cg:host_task(celer.collective, print) end)
end)
refused("the second argument must be a function, not nil", function()
  q:submit(function(cg) cg:host_task(celer.collective()) end)
end)
refused("celer.collective: the name must be a string, not a number", function()
  celer.collective(7)
end)
refused("celer.collective(\"x\") is for host tasks", function()
  q:submit(function(cg) cg:interop_task(celer.collective "x", print) end)
end)
refused("which cannot be copied to where it runs", function()
  local group = celer.collective()
  q:submit(function(cg) cg:host_task(celer.once, function() return group end) end)
end)
refused("would be group 65 of collective tasks", function()
  for i = 1, 65 do
    q:submit(function(cg) cg:host_task(celer.collective("g" .. i), function() end) end)
  end
end)
if require("celer.core").rank() == 0 then refused("write", function() error "write" end) end
]==])
end)

describe("part.comm", function()
  everywhere("broadcasts", all .. [==[
all(function(part)
  local comm = part.comm
  local last = part.ranks - 1
  same("from 0", comm:broadcast(part.rank == 0 and "hi" or nil), "hi")
  local t = comm:broadcast(part.rank == last and { 1, x = { "y" } } or 5, last)
  same("a table", t[1] .. t.x[1], "1y")
  same("nil", comm:broadcast(nil), nil)
  local ffi = require "ffi"
  local p = ffi.new("int[4]", part.rank)
  comm:broadcast(p + 1, 2, last)
  same("memory", p[0] + 10 * p[1] + 100 * p[2] + 1000 * p[3],
    part.rank * 1001 + last * 110)
  refused("there is no rank 7; there are 0 to " .. last, function() comm:broadcast(1, 7) end)
  refused("cannot be sent to other ranks", function() comm:all_gather(print) end)
  refused("followed by the number of its elements, not by nil", function()
    comm:broadcast(p)
  end)
  refused("comm:broadcast: int [4] has 16 bytes, and 5 elements take 20", function()
    comm:broadcast(p, 5)
  end)
  local two = ffi.new("struct { double x[2]; int *at; }")
  comm:broadcast(two.x, 2)
  refused("has 16 bytes, and 3 elements take 24", function() comm:broadcast(two.x, 3) end)
  two.at = p
  comm:broadcast(two.at, 4) -- how far a pointer reaches is not known
end)
q:wait()
]==])

  everywhere("gathers", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local comm, n = part.comm, part.ranks
  for root = 0, n - 1 do
    local got = comm:gather(("x"):rep(part.rank * 3), root)
    same("only there", got ~= nil, part.rank == root)
    for k = 0, got and n - 1 or -1 do same("text", got[k], ("x"):rep(k * 3)) end
  end
  local got = comm:all_gather { rank = part.rank }
  for k = 0, n - 1 do same("value", got[k].rank, k) end
  same("no more", got[n], nil)
  local mine, all = ffi.new("double[2]", part.rank, -part.rank), ffi.new("double[?]", 2 * n)
  comm:all_gather(mine, 2, all)
  for k = 0, n - 1 do same("memory", all[2 * k] * 10 + all[2 * k + 1], 9 * k) end
  ffi.fill(all, 16 * n)
  comm:gather(mine, 2, all, n - 1)
  same("memory there", all[2 * n - 2], part.rank == n - 1 and n - 1 or 0)
  refused("memory for " .. n .. " times 2 elements comes third, not nil", function()
    comm:all_gather(mine, 2)
  end)
  refused("comm:all_gather: double [2] has 16 bytes, and 3 elements take 24", function()
    comm:all_gather(mine, 3, all)
  end)
  local small = ffi.new("double[?]", 2 * n - 1)
  refused(("has %d bytes, and %d times 2 elements take %d"):format(16 * n - 8, n, 16 * n),
    function() comm:all_gather(mine, 2, small) end)
  if part.rank == n - 1 then
    refused("comm:gather: struct", function()
      comm:gather(mine, 2, ffi.new("struct { char c; }"), n - 1)
    end)
  end
  ffi.fill(all, 16 * n)
  comm:all_gather(mine, 2, all + 0)
  same("memory of a pointer", all[2 * n - 1], 1 - n)
end)
q:wait()
]==])

  it("reduces memory where it is, without another as large", function()
    local r = script.run(all .. [==[
all(function(part)
  local ffi = require "ffi"
  local function peak()
    for line in io.lines "/proc/self/status" do
      local kib = line:match "^VmHWM:%s*(%d+)"
      if kib then return tonumber(kib) end
    end
  end
  local n = 4e6
  local p = ffi.new("double[?]", n)
  for i = 0, n - 1 do p[i] = i end
  local before = peak()
  part.comm:all_reduce(p, n, "sum")
  part.comm:reduce(p, n, "max", 0)
  assert(p[0] == 0 and p[n - 1] == n - 1)
  print(peak() - before)
end)
q:wait()
]==], { devices = 1 })
    assert.equal("", r.stderr)
    assert.is_true(tonumber(r.stdout) < 8192, r.stdout)
  end)

  everywhere("reduces", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local comm, n, k = part.comm, part.ranks, part.rank
  same("sum", comm:all_reduce(k + 0.5, "sum"), n * (n - 1) / 2 + n / 2)
  same("prod", comm:all_reduce(k + 1, "prod"), ({ 1, 2, 6, 24 })[n])
  same("min", comm:all_reduce(-k, "min"), 1 - n)
  same("max", comm:all_reduce(k, "max"), n - 1)
  same("and", comm:all_reduce(k > 0, "and"), false)
  same("or", comm:all_reduce(k == n - 1, "or"), true)
  same("all and", comm:all_reduce(true, "and"), true)
  same("int64", comm:all_reduce(2LL ^ 60 + k, "max"), 2LL ^ 60 + n - 1)
  local at = comm:reduce(k, "sum", n - 1)
  if k == n - 1 then same("there", at, n * (n - 1) / 2) else same("nowhere else", at, nil) end
  for _, name in ipairs { "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
    "uint32_t", "int64_t", "uint64_t", "float", "double" } do
    local p = ffi.new(name .. "[3]", k, 1, 2 * k)
    comm:all_reduce(p, 3, "sum")
    same(name, tonumber(p[0] + 100 * p[1] + 1000 * p[2]), n * (n - 1) / 2 * 2001 + 100 * n)
  end
  for root = 0, n - 1 do -- in place there, and nothing elsewhere
    local p = ffi.new("int[70000]")
    for i = 0, 69999 do p[i] = k + i end
    comm:reduce(p, 70000, "sum", root)
    local here = k == root
    same("first there", p[0], here and n * (n - 1) / 2 or k)
    same("last there", p[69999], here and n * (n - 1) / 2 + n * 69999 or k + 69999)
  end
  for whose = 0, n - 1 do -- a NaN is the least and the greatest, whoever has it
    local mine = k == whose and 0 / 0 or k
    for _, op in ipairs { "min", "max" } do
      local one = comm:all_reduce(mine, op)
      same(op .. " of a NaN", one ~= one, true)
      local last = comm:reduce(mine, op, n - 1)
      same(op .. " there", last ~= last, k == n - 1)
      for _, name in ipairs { "float", "double" } do
        local p = ffi.new(name .. "[3]", k, mine, -k)
        comm:all_reduce(p, 3, op)
        same(op .. " of others", p[0] + p[2], 0 + (op == "min" and 1 - n or n - 1))
        same(op .. " in memory", p[1] ~= p[1], true)
      end
    end
  end
  local wraps = ffi.new("uint8_t[40]") -- as C does, however MPI sums
  for i = 0, 39 do wraps[i] = 200 end
  comm:all_reduce(wraps, 40, "sum")
  same("wrapped", wraps[39], 200 * n % 256)
  refused("'plus' does not name an operation", function() comm:all_reduce(1, "plus") end)
  refused("'and' is for whole numbers and booleans", function() comm:all_reduce(1.5, "and") end)
  refused("'sum' is for numbers; booleans have 'and' and 'or'", function()
    comm:all_reduce(true, "sum")
  end)
  refused("can be combined, not a string", function() comm:all_reduce("x", "sum") end)
  refused("is no pointer to numbers", function()
    local p = ffi.new("struct { int x; }[2]")
    comm:all_reduce(p, 2, "sum")
  end)
  local few = ffi.new("int[1]")
  refused("comm:reduce: int [1] has 4 bytes, and 5 elements take 20", function()
    comm:reduce(few, 5, "sum")
  end)
  refused("comm:all_reduce: int [1] has 4 bytes, and 2 elements take 8", function()
    comm:all_reduce(few, 2, "sum")
  end)
  refused("a communicator has no 'alltoall', did you mean all_to_all?", function()
    return comm.alltoall()
  end)
end)
q:wait()
]==])

  among_many("scans", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local comm, n, k = part.comm, part.ranks, part.rank
  local before = { exclusive = true }
  same("sum", comm:scan(k + 0.5, "sum"), (k + 1) * (k + 1) / 2)
  same("of those before", comm:scan(k + 0.5, "sum", before), k * k / 2)
  same("not before", comm:scan(k, "sum", { exclusive = false }), k * (k + 1) / 2)
  same("prod", comm:scan(2, "prod", before), 2 ^ k)
  same("min", comm:scan(-k, "min", before), k == 0 and math.huge or 1 - k)
  same("max", comm:scan(k, "max", before), k == 0 and -math.huge or k - 1)
  same("and", comm:scan(k ~= 1, "and"), k < 1)
  same("and before", comm:scan(k ~= 1, "and", before), k < 2)
  same("or before", comm:scan(k == 1, "or", before), k > 1)
  same("int64", comm:scan(2LL ^ 60 - k, "min", before), k == 0 and 2LL ^ 63 - 1 or 2LL ^ 60 - k + 1)
  same("uint64", comm:scan(1ULL * k, "max", before), k == 0 and 0ULL or 1ULL * k - 1)
  for _, case in ipairs { { "int8_t", 127, -128 }, { "uint8_t", 255, 0 },
    { "int16_t", 32767, -32768 }, { "uint16_t", 65535, 0 }, { "int32_t", 2 ^ 31 - 1, -2 ^ 31 },
    { "uint32_t", 2 ^ 32 - 1, 0 }, { "float", math.huge, -math.huge },
    { "double", math.huge, -math.huge } } do
    local name, ends = case[1], { case[2], case[3] }
    local p = ffi.new(name .. "[4]", k, 1, 2 * k, 77)
    comm:scan(p, 3, "sum")
    same(name, p[0] + 100 * p[1] + 1000 * p[2] + p[3], k * (k + 1) / 2 * 2001 + 100 * (k + 1) + 77)
    for i, op in ipairs { "min", "max" } do
      p[0] = k + 1
      comm:scan(p, 1, op, before)
      same(name .. " " .. op, p[0], k == 0 and ends[i] or op == "min" and 1 or k)
    end
    comm:scan(p, 3, "prod", before)
    if k == 0 then same(name .. " of none", p[0] + 10 * p[1] + 100 * p[2] + p[3], 111 + 77) end
    comm:scan(p, 0, "sum", before)
  end
  local bits = ffi.new("int[2]", 2, k)
  comm:scan(bits, 2, "and", before)
  same("logical", bits[0] + 10 * bits[1], k < 2 and 11 - 10 * k or 1)
  bits[0] = 4
  comm:all_reduce(bits, 1, "or")
  same("logical on all", bits[0], 1)
  same("a logical value", comm:scan(6LL, "or"), 1LL)
  local last = k == 1 and 0 / 0 or k -- a NaN stays in all that come after it
  for _, op in ipairs { "min", "max" } do
    local up, below = comm:scan(last, op), comm:scan(last, op, before)
    same("NaN, " .. op, up ~= up, k >= 1)
    same("NaN before, " .. op, below ~= below, k > 1)
  end
  refused("comm:scan: 'plus' does not name an operation", function() comm:scan(1, "plus") end)
  refused("comm:scan: unknown option 'exclusiv'", function()
    comm:scan(1, "sum", { exclusiv = 1 })
  end)
  refused("comm:scan: the options must be a table such as { exclusive = true }, not a boolean",
    function() comm:scan(1, "sum", true) end)
  refused("comm:scan: numbers and booleans can be combined, not a table", function()
    comm:scan({}, "sum")
  end)
  refused("comm:scan: int [2] has 8 bytes, and 3 elements take 12", function()
    comm:scan(bits, 3, "sum")
  end)
  refused("comm:scan: 'and' is for whole numbers and booleans", function()
    comm:scan(ffi.new "double[1]", 1, "and")
  end)
end)
q:wait()
]==])

  among_many("sends each rank's values to each", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local comm, n, k = part.comm, part.ranks, part.rank
  local values = {}
  for j = 0, n - 1 do values[j] = j ~= k and { from = k, text = ("x"):rep(1000 * j * k) } or nil end
  local got = comm:all_to_all(values)
  for j = 0, n - 1 do
    same("nil for itself", got[j] == nil, j == k)
    if j ~= k then
      same("from", got[j].from, j)
      same("text", #got[j].text, 1000 * j * k)
    end
  end
  same("no more", got[n], nil)
  local mine, all = ffi.new("int[?]", 3 * n), ffi.new("int[?]", 3 * n)
  for i = 0, 3 * n - 1 do mine[i] = 100 * k + i end
  comm:all_to_all(mine, 3, all)
  for i = 0, 3 * n - 1 do
    same("memory", all[i], 100 * math.floor(i / 3) + 3 * k + i % 3)
  end
  comm:all_to_all(mine, 0, all)
  same("nothing", all[0], 3 * k)
  comm:all_to_all(mine + 0, 1, all + 1)
  same("of pointers", all[n] + all[0], 100 * (n - 1) + k + 3 * k)
  refused("comm:all_to_all: a table with a value for each rank, from 0 on, comes first, not a "
    .. "number", function() comm:all_to_all(7) end)
  refused("comm:all_to_all: there is no rank " .. n .. "; there are 0 to " .. n - 1, function()
    comm:all_to_all { [n] = 1 }
  end)
  refused("comm:all_to_all: a function cannot be sent", function()
    comm:all_to_all { [0] = print }
  end)
  refused("memory for " .. n .. " times 2 elements comes third, not nil", function()
    comm:all_to_all(mine, 2)
  end)
  refused(("int [?] has %d bytes, and %d elements take %d"):format(12 * n, 4 * n, 16 * n),
    function() comm:all_to_all(mine, 4, all) end)
  refused("comm:all_to_all: int [1] has 4 bytes, and " .. n .. " times 3 elements", function()
    comm:all_to_all(mine, 3, ffi.new "int[1]")
  end)
  refused("comm:all_to_all: what is sent and what is received lie in the same memory", function()
    comm:all_to_all(mine, 3, mine)
  end)
  refused("followed by the number of its elements, not by -1", function()
    comm:all_to_all(mine, -1, all)
  end)
  if n > 1 then -- each rank finds one that differs
    refused("comm:all_to_all: rank " .. (k == 0 and 1 or 0) .. " has", function()
      comm:all_to_all(mine, k == 0 and 1 or 2, all)
    end)
  end
end)
q:wait()
]==])

  among_many("sends parts of any lengths", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local comm, n, k = part.comm, part.ranks, part.rank
  -- Rank k sends rank j so many, so there are pairs that send each other nothing.
  local function number(k, j) return (3 * k + j) % 4 == 0 and 0 or 700 * (k + j) end
  local of, numbers, sum = ffi.typeof "struct { double x; int16_t from, to; }[?]", {}, 0
  for j = 0, n - 1 do numbers[j] = number(k, j); sum = sum + numbers[j] end
  local mine, at = of(sum), 0
  for j = 0, n - 1 do
    for i = 1, numbers[j] do
      mine[at].x, mine[at].from, mine[at].to = i, k, j
      at = at + 1
    end
  end
  for _, counts in ipairs { numbers, ffi.new("int64_t[?]", n) } do
    for j = 0, n - 1 do counts[j] = numbers[j] end
    local got, lengths = comm:all_to_allv(mine, counts)
    collectgarbage()
    collectgarbage()
    local at = 0
    for j = 0, n - 1 do
      same("length", lengths[j], number(j, k))
      for i = 1, lengths[j] do
        same("x", got[at].x, i)
        same("from", got[at].from, j)
        same("to", got[at].to, k)
        at = at + 1
      end
    end
  end
  local none, zero = {}, ffi.new("float[?]", 0)
  for j = 0, n - 1 do none[j] = 0 end
  local nothing, lengths = comm:all_to_allv(zero, none)
  same("of none", lengths[n - 1], 0)
  same("type", tostring(ffi.typeof(nothing)), "ctype<float *>")
  refused("comm:all_to_allv: memory comes first, not a table; comm:all_to_all(values) takes",
    function() comm:all_to_allv({}, none) end)
  refused("a number of elements for each rank, from 0 on, comes second, not 7", function()
    comm:all_to_allv(zero, 7)
  end)
  refused("the number of elements for rank 0 is a whole number of at least 0, not nil", function()
    comm:all_to_allv(zero, {})
  end)
  refused("there is no rank " .. n .. "; there are 0 to " .. n - 1, function()
    comm:all_to_allv(zero, { [n] = 0 })
  end)
  refused("comm:all_to_allv: float [?] has 0 bytes, and 1 elements take 4", function()
    none[0] = 1
    comm:all_to_allv(zero, none)
  end)
  if n > 1 then
    none[0] = 0
    refused("comm:all_to_allv: the elements of rank", function()
      comm:all_to_allv(k == 0 and ffi.new "double[1]" or zero, none)
    end)
  end
end)
q:wait()
]==])

  -- What images and routes take from CEL_COMM_MANY ranks on. Ranks come into each round one after
  -- the other, and some leave it early; in the last one nobody has anything to say.
  among_many("says something to few", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local c, n, k = part.comm.comm, part.ranks, part.rank
  if n == 1 then return end
  local function is_said(round, from, to) return (5 * from + 3 * to + round) % 4 < 2 end
  for round = 1, 200 do
    local mine, all = ffi.new("int64_t[?]", 2 * n), ffi.new("int64_t[?]", 2 * n)
    local is_sent = ffi.new("bool[?]", n)
    for j = 0, n - 1 do
      mine[2 * j], mine[2 * j + 1] = round, 100 * k + j
      is_sent[j] = round < 200 and is_said(round, k, j)
    end
    if (round + k) % 17 == 0 then os.execute "sleep 0.003" end
    same("status", c.notify(c, mine, 16, is_sent, all), 0)
    for j = 0, n - 1 do
      local is_heard = round < 200 and is_said(round, j, k)
      same("round", tonumber(all[2 * j]), is_heard and round or 0)
      same("from", tonumber(all[2 * j + 1]), is_heard and 100 * j + k or 0)
    end
  end
end)
q:wait()
]==])

  -- All send before anybody receives, more than MPI takes along by itself.
  among_many("sends and receives", all .. [==[
all(function(part)
  local ffi = require "ffi"
  local comm, n, k = part.comm, part.ranks, part.rank
  local right, left = (k + 1) % n, (k + n - 1) % n
  local many = 300000
  local mine, theirs = ffi.new("double[?]", many, k), ffi.new("double[?]", many + 1)
  for i = 0, many - 1 do mine[i] = i + k end
  comm:send({ k, "first" }, right)
  comm:send(mine, many, right, 9999)
  mine[0] = -1
  comm:send(nil, right)
  comm:send("last", right)
  comm:send(mine, 0, right, 3)
  comm:send(ffi.new("struct { char c[3]; }[2]", { { "ab" }, { "cd" } }), 2, right, 4)
  same("elements", comm:receive(theirs, many + 1, left, 9999), many)
  for i = 0, many - 1 do same("element", theirs[i], i + left) end
  local first = comm:receive(left)
  same("first", first[1] .. first[2], left .. "first")
  same("second", comm:receive(left, 0), nil)
  same("none", comm:receive(theirs, 1, left, 3), 0)
  local pairs_ = ffi.new "struct { char c[3]; }[2]"
  same("structs", comm:receive(pairs_, 2, left, 4), 2)
  same("struct", ffi.string(pairs_[1].c), "cd")
  same("third", comm:receive(left), "last")

  -- What is refused is there for the next call.
  comm:send(7, right, 1)
  comm:send(ffi.new("int[3]", 1, 2, 3), 3, right, 2)
  local ints = ffi.new "int[3]"
  local from = "rank " .. left
  refused("comm:receive: " .. from .. " sends a value with tag 1, not memory: comm:receive("
    .. left .. ", 1) takes it", function() comm:receive(ints, 3, left, 1) end)
  refused("comm:receive: " .. from .. " sends 3 elements of type int32_t with tag 2, not a value: "
    .. "comm:receive(pointer, elements, " .. left .. ", 2) takes them",
    function() comm:receive(left, 2) end)
  refused("sends 3 elements of type int32_t with tag 2, and here is room for 2", function()
    comm:receive(ints, 2, left, 2)
  end)
  refused("sends 3 elements of type int32_t with tag 2, and here is room for 9 elements of type "
    .. "double", function() comm:receive(theirs, 9, left, 2) end)
  refused("sends 3 elements of type int32_t with tag 2, and here is room for 2 elements of 3 bytes",
    function() comm:receive(pairs_, 2, left, 2) end)
  same("value", comm:receive(left, 1), 7)
  same("ints", comm:receive(ints, 3, left, 2), 3)
  same("int", ints[2], 3)

  refused("comm:receive: rank " .. k .. " has sent itself nothing with tag 5", function()
    comm:receive(k, 5)
  end)
  refused("comm:send: there is no rank " .. n .. "; there are 0 to " .. n - 1, function()
    comm:send(1, n)
  end)
  refused("comm:send: there is no rank nil", function() comm:send(1) end)
  refused("comm:receive: there is no rank -1", function() comm:receive(-1) end)
  refused("comm:receive: there is no rank a string", function() comm:receive "x" end)
  refused("comm:receive: there is no rank nil", function() comm:receive(ints, 3) end)
  refused("comm:send: the tag is a whole number from 0 to 9999, not 10000", function()
    comm:send(1, 0, 10000)
  end)
  refused("comm:receive: the tag is a whole number from 0 to 9999, not 0.5", function()
    comm:receive(0, 0.5)
  end)
  refused("comm:send: a function cannot be sent to other ranks", function() comm:send(print, 0) end)
  refused("comm:send: int [3] has 12 bytes, and 4 elements take 16", function()
    comm:send(ints, 4, 0)
  end)
  refused("comm:receive: int [3] has 12 bytes, and 4 elements take 16", function()
    comm:receive(ints, 4, left)
  end)
  refused("call it with a colon: comm:send(...)", function() comm.send(1, 0) end)
end)
q:wait()
]==])

  everywhere("reads and writes files", all .. [==[
local path = arg[0]:gsub("[^/]*$", "") .. "u.raw"
local n, m = 7, 5
local u = celer.buffer("double", { n, m },
  { name = "u", init = function(i, j) return 10 * i + j end })
local v = celer.buffer("double", { n, m }, { name = "v" })
local w = celer.buffer("double", { n, m }, { name = "w" })
local function inner(chunk, buffer) return celer.even_split(chunk, buffer):with(1, 1, 3) end
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part, u, path)
    local file = part.comm:open(path, "w")
    file:write_at_all(u.min[0] * 5 * 8, u)
    if part.rank == 0 then file:write_at(35 * 8, "tail") end
    file:close()
    refused("file:size: " .. path .. " is closed", function() file:size() end)
  end, cg:read(u, celer.even_split), path)
end)
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part, v, w, path)
    local ffi = require "ffi"
    local file = part.comm:open(path)
    same("size", file:size(), 35 * 8 + 4)
    file:read_at_all(v.min[0] * 5 * 8, v)
    local row = ffi.new("double[2]")
    for i = w.min[0], w.max[0] - 1 do
      file:read_at((i * 5 + 1) * 8, row)
      w:set(i, 1, row[0])
      w:set(i, 2, row[1])
    end
    same("string", file:read_at(35 * 8, 4), "tail")
    refused("ends 4 bytes after the offset 280, before the 9", function()
      file:read_at(280, 9)
    end)
    refused("file:read_at: double [2] has 16 bytes, not 17", function()
      file:read_at(0, row, 17)
    end)
    refused("cannot write", function() file:write_at(0, "x") end)
    refused("file:write_at_all: double [2] has 16 bytes, not 32", function()
      file:write_at_all(0, row, 32)
    end)
    refused("writes a view, a string or memory, not nil", function() file:write_at(0) end)
    refused("the offset must be a whole number of bytes", function() file:read_at(-1, 2) end)
    refused("the offset must be a whole number of bytes", function() file:read_at(2 ^ 60, 2) end)
    refused("1099511627776 bytes are more than a string can have", function()
      file:read_at(0, 2 ^ 40)
    end)
    file:close()
  end, cg:discard_write(v, celer.even_split), cg:discard_write(w, inner), path)
end)
-- A view that is a part of what lies in memory.
q:submit(function(cg)
  cg:host_task(celer.collective "other", function(part, w, path)
    local file = part.comm:open(path .. "2", "w")
    file:write_at_all(w.min[0] * 2 * 8, w)
    file:close()
    file = part.comm:open(path .. "2", "r+")
    file:read_at_all(w.min[0] * 2 * 8, w)
    file:close()
    refused("cannot open /no/such/folder", function()
      part.comm:open("/no/such/folder", "w")
    end)
    refused("there is no mode 'a'", function() part.comm:open(path, "a") end)
    if part.ranks > 1 then
      refused("the ranks give different modes", function()
        part.comm:open(path, part.rank == 0 and "r+" or "r")
      end)
    end
  end, cg:read_write(w, inner), path)
end)
local s, t = q:wait(v, celer.capture(w, celer.box({ 0, 1 }, { n, 3 })))
for i = 0, n - 1 do
  for j = 0, m - 1 do same("element", s(i, j), 10 * i + j) end
  for j = 1, 2 do same("inner", t(i, j), 10 * i + j) end
end
]==])

  it("starts MPI on one rank for a handle, and not before", function()
    local r = script.run([==[
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    local ffi = require "ffi"
    ffi.cdef "int MPI_Initialized(int *); int MPI_Comm_size(void *, int *);"
    local up = ffi.new "int[1]"
    part.comm:barrier()
    part.comm:all_reduce(1, "sum")
    ffi.C.MPI_Initialized(up)
    same("at first", up[0], 0)
    local n = ffi.new "int[1]"
    same("works", ffi.C.MPI_Comm_size(part.comm.handle, n), 0)
    same("ranks", n[0], 1)
    ffi.C.MPI_Initialized(up)
    same("then", up[0], 1)
  end)
end)
q:drain()
print "checked"
]==], { devices = 1 })
    assert.equal("", r.stderr)
    assert.equal("checked\n", r.stdout)
    assert.equal(0, r.status)
  end)
end)

-- ---- how it ends --------------------------------------------------------------

describe("a job whose ranks wait for each other", function()
  local wait = [==[
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    if part.rank == %d then error("disk full") end
    part.comm:barrier()
  end)
end)
%s
]==]
  for _, case in ipairs { { 2, 0 }, { 2, 1 }, { 4, 0 }, { 4, 3 } } do
    it(("ends when rank %d of %d fails"):format(case[2], case[1]), function()
      for _, rest in ipairs { "q:drain()", "for _ = 1, 1e9 do q:wait() end" } do
        local r = script.run(wait:format(case[2], rest), { devices = 1, ranks = case[1] })
        assert.is_false(r.timed_out)
        local who = case[2] > 0 and ("rank %d: "):format(case[2]) or ""
        assert.matches("^celer: " .. who .. "%S*case.lua:4: disk full "
          .. "%(the task was submitted at %S*case.lua:3%)\n", r.stderr)
        assert.equal(1, select(2, r.stderr:gsub("disk full", "")))
        assert.equal(1, r.status)
      end
    end)
  end

  it("waits as long as it takes", function()
    local r = script.run([==[
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    if part.rank == 1 then os.execute "sleep 3" end
    part.comm:barrier()
    if part.rank == 0 then print "there" end
  end)
end)
q:drain()
]==], { devices = 1, ranks = 3 })
    assert.equal("", r.stderr)
    assert.equal("[0] there\n", r.stdout)
    assert.equal(0, r.status)
  end)

  -- Rank 0 waits for what nobody sends, or its task for who receives; two wait for each other.
  local stuck = {
    { "a rank receives what nobody sends", "if part.rank == 0 then comm:receive(1, 7) end",
      { [0] = "comm:receive, until rank 1 sends with tag 7" } },
    { "two ranks receive before they send",
      "comm:receive(1 - part.rank) comm:send(1, 1 - part.rank)",
      { [0] = "comm:receive, until rank 1 sends with tag 0",
        "comm:receive, until rank 0 sends with tag 0" } },
    { "a rank does not receive", "if part.rank == 0 then comm:send(1, 1) end",
      { [0] = "its end, until what it sent is received" } },
    { "a rank does not come to a call", "if part.rank == 1 then comm:scan(1, 'sum') end",
      { "comm:reduce or comm:scan, until all ranks come there" } },
  }
  for _, case in ipairs(stuck) do
    it("says so when " .. case[1], function()
      local text = [==[
local function beyond(part)
  local comm = part.comm
  CASE
end
q:submit(function(cg) cg:host_task(celer.collective(), beyond) end)
-- Until each has said so that has something to say.
q:submit(function(cg)
  cg:host_task(celer.collective "other", function(part, said, wanted)
    os.execute(("until [ $(grep -c 'it is in' %s) -ge %d ]; do sleep 0.1; done"):format(said,
      wanted))
    part.comm:barrier()
    error "seen"
  end, arg[1], WANTED)
end)
q:drain()
]==]
      local wanted, said = 0, scratch.path()
      for _ in pairs(case[3]) do wanted = wanted + 1 end
      text = text:gsub("CASE", case[2]):gsub("WANTED", wanted)
      local name = scratch.path(".lua")
      scratch.write(name, 'local celer = require "celer" local q = celer.queue()\n' .. text)
      local r = celer.exec { "sh", "-c", "exec \"$@\" 2>" .. said, "sh", "mpirun",
        "--oversubscribe", "--allow-run-as-root", "-n", "2", celer.command(), "run", "--watchdog",
        "1", "--backend", "cpu", "--devices", "1", name, said }
      local stderr = scratch.read(said)
      assert.is_false(r.timed_out)
      for rank, words in pairs(case[3]) do
        assert.matches(("warning: rank %d: nothing has moved for 1 s (--watchdog); it waits for\n")
          :format(rank), stderr, 1, true)
        assert.matches(":6), chunk [" .. rank .. ", " .. rank + 1 .. "): it was begun, or is next "
          .. "in its lane; it is in " .. words .. "\n", stderr, 1, true)
      end
      assert.matches("seen", stderr, 1, true)
    end)
  end

  it("refuses what nobody receives", function()
    local text = [==[
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    if part.rank == RANK then part.comm:send("x", RANK, 5) end
  end)
end)
q:drain()
]==]
    for ranks = 1, 2 do
      local r = script.run(text:gsub("RANK", ranks - 1),
        { devices = 1, ranks = ranks > 1 and ranks })
      assert.is_false(r.timed_out)
      assert.matches(("case.lua:3: the task has ended without comm:receive(%d, 5), which would "
        .. "give what rank %d has sent\n"):format(ranks - 1, ranks - 1), r.stderr, 1, true)
      assert.equal(1, r.status)
    end
  end)

  it("forgets what a task that failed has sent", function()
    local r = celer.exec({ celer.command(), "repl" }, { stdin = [==[
q = celer.queue()
function all(f) q:submit(function(cg) cg:host_task(celer.collective(), f) end) q:wait() end
all(function(part) part.comm:send("x", 0) error "no" end)
all(function(part) part.comm:send("y", 0) print(part.comm:receive(0)) end)
]==] })
    assert.matches("no", r.stdout .. r.stderr, 1, true)
    assert.matches("y\n", r.stdout, 1, true)
  end)

  it("ends when one is killed that others wait for", function()
    script.killed([==[
local function step()
  q:submit(function(cg)
    cg:host_task(celer.collective(), function(part)
      local n, k = part.ranks, part.rank
      part.comm:send(k, (k + 1) % n)
      same("value", part.comm:receive((k + n - 1) % n), (k + n - 1) % n)
    end)
  end)
end]==], { ranks = 3, devices = 1 })
  end)

  it("is told when one rank never comes", function()
    local r = script.run([==[
local rank = require("celer.core").rank()
local function meet(part) part.comm:barrier() end
if rank == 1 then
  q:submit(function(cg) cg:host_task(celer.collective "b", meet) end)
else
  q:submit(function(cg) cg:host_task(celer.collective "a", meet) end)
  q:submit(function(cg) cg:host_task(celer.once, print) end)
end
q:drain()
]==], { devices = 1, ranks = 2 })
    assert.is_false(r.timed_out)
    assert.matches("different programs", r.stderr, 1, true)
    assert.not_equal(0, r.status)
  end)

  it("is told when ranks name different groups", function()
    local r = script.run([==[
local rank = require("celer.core").rank()
q:submit(function(cg)
  cg:host_task(celer.collective(rank == 1 and "a" or "b"), function(part)
    part.comm:barrier()
  end)
end)
q:drain()
]==], { devices = 1, ranks = 2 })
    assert.matches("different programs", r.stderr, 1, true)
    assert.not_equal(0, r.status)
  end)

  it("ends at Ctrl-C", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", [==[
local celer = require "celer"
celer.queue():submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    if part.rank == 0 then print "up" while true do end end
    if part.rank == 1 then part.comm:barrier() else part.comm:receive(0) end
  end)
end)
celer.queue():drain()
]==])
    local shell = "set -m; mpirun --oversubscribe -n 3 " .. celer.command()
      .. " run case.lua >out 2>err & p=$!\n"
      .. "trap 'kill -KILL -- -$p; exit 1' TERM\n"
      .. "until grep -q up out; do sleep 0.1; done\n"
      .. "kill -INT $p; wait $p 2>/dev/null"
    local r = celer.exec({ "bash", "-c", shell }, { cwd = folder })
    os.execute("rm -r " .. folder)
    assert.is_false(r.timed_out)
    assert.not_equal(0, r.status)
  end)
end)

-- ---- an MPI with fewer threads --------------------------------------------------

describe("an MPI without MPI_THREAD_MULTIPLE", function()
  local env
  setup(function() env = preload("serialized_mpi") end)

  for _, ranks in ipairs { 1, 2 } do
    it(("does all but collective tasks, %d ranks"):format(ranks), function()
      local r = script.run([==[
local u = celer.buffer("int", 8, { init = function() return 1 end })
q:submit(function(cg)
  cg:host_task(celer.once, function(_, u) print(u[0] + u[7]) end, cg:read(u, celer.all))
end)
q:wait()
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part) print(part.comm.handle) end)
end)
q:drain()
]==], { devices = 1, ranks = ranks > 1 and ranks or nil },
        { env = env })
      assert.matches("2\n", r.stdout, 1, true)
      assert.matches("^celer: %S*case.lua:%d+: [^\n]*MPI_THREAD_MULTIPLE[^\n]* gives "
        .. "MPI_THREAD_SERIALIZED: use one that is built with thread support", r.stderr)
      assert.equal(1, r.status)
    end)
  end
end)
