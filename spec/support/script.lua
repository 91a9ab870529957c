-- script.lua -- runs the text of a script as a user would, in several shapes.
--
--   local script = require("spec.support.script")
--   script.everywhere("adds up", "same('sum', 1 + 1, 2)")
--
-- A text that checks itself prints nothing but its last word. It begins with a
-- prelude of its own, on one line, so that its first line is line 2.
local assert = require("luassert")
local busted = require("busted")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local M = {}

--- One rank, three, and one with two devices.
M.shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on three ranks", devices = 1, ranks = 3 },
  { name = "on two devices", devices = 2 },
}

--- For what runs on GPUs alone: where there are fewer they are named several times.
M.gpus = {
  { name = "on one device", devices = 1 },
  { name = "on four devices", devices = 4 },
  { name = "on four ranks", devices = 1, ranks = 4 },
}

--- Where it matters how a range is cut: more ranks, more devices.
M.divided = {
  { name = "on four devices", devices = 4 },
  { name = "on two ranks with three devices", devices = 3, ranks = 2 },
  { name = "on four ranks", devices = 1, ranks = 4 },
  { name = "on four ranks with four devices", devices = 4, ranks = 4 },
}

-- same(what, got, wanted) raises where they differ; refused(words, f) raises
-- unless f fails at a line of its own with these words (without a tail call, which
-- leaves no line).
local prelude = [[
local celer = require "celer"
local q = celer.queue()
function same(what, got, wanted)
  if got == wanted then return end
  error(("%s: got %s, wanted %s"):format(what, tostring(got), tostring(wanted)), 2)
end
function refused(words, f)
  local ok, message = pcall(f)
  message = type(message) == "table" and message.message or tostring(message)
  local info = debug.getinfo(f, "S")
  local line = tonumber(message:match("/case%.lua:(%d+): ")) or 0
  if ok or line < info.linedefined or line > info.lastlinedefined
    or not message:find(words, 1, true) then
    error(("line %d: wanted %s, got %s"):format(info.linedefined, words,
      ok and "no error" or message), 2)
  end
end
]]
prelude = prelude:gsub("%s+", " ") .. "\n"

-- One folder for all runs of a process: the compiled kernels of a script are kept by its path, too,
-- and so serve all shapes.
local folder

--- Writes `files` (name to text) and `text` into a folder and runs it.
---@param text string
---@param shape {ranks: integer?, devices: integer}
---@param options? {files: table?, before: string[]?, after: string[]?, env: table?, bare: boolean?}
function M.run(text, shape, options)
  options = options or {}
  folder = folder or scratch.folder()
  local files = { ["case.lua"] = (options.bare and "" or prelude) .. text }
  for name, other in pairs(options.files or {}) do files[name] = other end
  for name, content in pairs(files) do
    local inner = name:match("^(.*)/")
    if inner then os.execute("mkdir -p '" .. folder .. "/" .. inner .. "'") end
    scratch.write(folder .. "/" .. name, content)
  end
  local before = options.before or {}
  local cpu = options.env and options.env.CELER_BACKEND == "cpu"
  for _, word in ipairs(before) do cpu = cpu or word == "cpu" end
  local args = { "run", "--devices", cpu and shape.devices
    or celer.devices(shape.devices, shape.ranks) }
  for _, word in ipairs(before) do args[#args + 1] = word end
  args[#args + 1] = folder .. "/case.lua"
  for _, word in ipairs(options.after or {}) do args[#args + 1] = word end
  -- What is advised is a matter of how fast the machine is.
  local env = { CELER_ADVICE = "off" }
  for variable, value in pairs(options.env or {}) do env[variable] = value end
  local r = celer.run(args, { ranks = shape.ranks, env = env })
  os.execute("rm -r '" .. folder .. "' && mkdir '" .. folder .. "'")
  return r
end

--- A test per shape. `check(stdout, shape, result)` sees what was printed;
--- without it the text checks itself.
---@param name string
---@param text string
---@param check? function
---@param options? table  as M.run takes them; `shapes` in place of M.shapes
function M.everywhere(name, text, check, options)
  if not check then text = text .. "\nprint 'checked'" end
  for _, shape in ipairs(options and options.shapes or M.shapes) do
    busted.it(name .. ", " .. shape.name, function()
      local r = M.run(text, shape, options)
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      if check then check(r.stdout, shape, r) else assert.equal("checked\n", r.stdout) end
    end)
  end
end

--- Rank 1 is killed in the middle of what all ranks exchange in a loop, and the job is to
--- end. `setup` makes a function step(), which submits some of it.
---@param setup string
---@param shape {ranks: integer?, devices: integer}
---@param options? table  as M.run takes them
function M.killed(setup, shape, options)
  options = options or {}
  options.env = options.env or celer.patient -- else mpirun may drop what was printed
  local r = M.run([[
local ffi = require "ffi"
ffi.cdef "int raise(int); char *getenv(const char *);"
]] .. setup .. [[

local function steps(n) for _ = 1, n do step() end end
steps(10)
q:wait()
print "begun"
io.stdout:flush()
steps(10)
if ffi.string(ffi.C.getenv("OMPI_COMM_WORLD_RANK")) == "1" then ffi.C.raise(9) end
steps(1000)
q:wait()
print "not reached"]], shape, options)
  assert.not_equal(0, r.status)
  assert.not_equal(124, r.status, "timed out")
  assert.equal("begun\n", r.stdout, r.stderr)
end

--- A setup with buffers a, b and c of 12 numbers, of which a holds 1 to 12, and a kernel k.
--- holds(what, n, reach, to): that b, or `to`, is n plus the sum of a's numbers around each.
M.sums = [==[
local function new(n) return celer.buffer("int", { n }, { init = function(i) return i + 1 end }) end
local a, b, c = new(12), new(12), new(12)
local k = celer.kernel [=[
  kernel void sum(item<1> it, in<int, 1> a, out<int, 1> b, int n, int reach) {
    int sum = n;
    for (int i = max(it[0] - reach, 0); i <= min(it[0] + reach, 11); ++i) sum += a(i);
    b(it[0]) = sum;
  }
]=]
local function holds(what, n, reach, to)
  local s = q:wait(to or b)
  for i = 0, 11 do
    local sum = n
    for j = math.max(i - reach, 0), math.min(i + reach, 11) do sum = sum + j + 1 end
    same(("%s, %d"):format(what, i), s[i], sum)
  end
end
-- Counts in `n` how often a module submits a function without running it.
local function count_short(name)
  local module, counted = require(name), { n = 0 }
  local submit = module.submit
  function module.submit(...)
    local is_short = submit(...)
    if is_short then counted.n = counted.n + 1 end
    return is_short
  end
  return counted
end
]==]

--- What all ranks exchange in a step, by what it is, of n x n elements: setups for M.killed.
---@param n integer
---@return table<string, string>
function M.exchanges(n)
  local begin = ([==[
local n = %d
local u = celer.buffer("int", { n, n }, { init = function(i, j) return i + j end })
local v = celer.buffer("int", { n, n }, { init = function(i, j) return i - j end })
local s = celer.buffer("int", 1)
local k = celer.kernel [=[
  kernel void from(item<1> it, in<int, 2> u, out<int, 2> v) { v(it[0], 7) = u(7, it[0]); }
  kernel void over(item<1> it, in<int, 2> u, out<int, 2> v) { v(it[0], 7) = u(it[0], 5); }
  kernel void alone(item<1> it, in<int, 2> u, out<int, 2> v) { v(7, 5) = u(5, 7); }
  kernel void row(item<1> it, inout<int, 2> u) { u(it[0], 7) += 1; }
  kernel void column(item<1> it, inout<int, 2> u) { u(7, it[0]) += 1; }
  kernel void count(item<1> it, reducer<int> s) { s += it[0]; }
  kernel void take(item<1> it, in<int, 1> s, inout<int, 2> u) { u(it[0], 7) += s(0); }
]=]
local function rows(c) return celer.box({ c.min[0], 0 }, { c.max[0], n }) end
local function columns(c) return celer.box({ 0, c.min[0] }, { n, c.max[0] }) end
local function step()
]==]):format(n)
  local function task(what)
    return "  q:submit(function(cg) cg:parallel_for(" .. what .. ") end)\n"
  end
  local alone = task "1, k.alone, cg:read(u, celer.all), cg:discard_write(v, celer.all)"
  return {
    ["all read what all wrote"] = begin ..
      task "n, k.from, cg:read(u, celer.all), cg:discard_write(v, rows)" .. "u, v = v, u end",
    ["one gathers, and all read"] = begin .. alone ..
      task "n, k.from, cg:read(v, celer.all), cg:discard_write(u, rows)" .. "end",
    ["one gathers and scatters"] = begin .. alone ..
      task "n, k.over, cg:read(v, rows), cg:discard_write(u, rows)" .. "end",
    ["a transposition"] = begin .. task "n, k.row, cg:read_write(u, rows)" ..
      task "n, k.column, cg:read_write(u, columns)" .. "end",
    ["a sum"] = begin .. task 'n, k.count, cg:reduce(s, "sum")' ..
      task "n, k.take, cg:read(s, celer.all), cg:read_write(u, rows)" .. "end",
  }
end

--- The lines of `text`, sorted, without the "[rank] " before each; and how many
--- there are of each rank.
function M.lines(text)
  local lines, counts = {}, {}
  for line in text:gmatch("[^\n]+") do
    local rank, rest = line:match("^%[(%d+)%] (.*)$")
    rank = tonumber(rank) or 0
    counts[rank] = (counts[rank] or 0) + 1
    lines[#lines + 1] = rest or line
  end
  table.sort(lines)
  return lines, counts
end

return M
