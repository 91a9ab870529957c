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

local function everywhere(name, text, check)
  script.everywhere(name, text, check, { shapes = shapes })
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
  refused("a communicator has no 'alltoall'", function() return comm.alltoall() end)
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
    part.comm:barrier()
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
