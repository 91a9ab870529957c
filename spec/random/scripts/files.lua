--- files.lua -- random programs with files, checkpoints and changing weights, beside
--- what plain Lua tables come to.
---
---   celer run --measure spec/random/scripts/files.lua FOLDER SEED COUNT [STEPS]
---
--- Buffers are computed with, saved and loaded, whole or a part of them, kept and
--- restored, and now and then compared; nothing is waited for in between, so that files
--- are written while the next tasks run. What buffers hold goes to a list, too, which is
--- kept with them. A folder may hold the checkpoint of an earlier
--- run, on any number of ranks: its contents are compared with their sum first, and the
--- first program goes on from there. Says the seed of a program that fails.
local celer = require "celer"

local folder, first, count = arg[1], tonumber(arg[2]), tonumber(arg[3])
local steps = tonumber(arg[4]) or 24
local BINS = 5
local q = celer.queue()
local k = celer.kernel([[
  kernel void grow(item<2> it, inout<int, 2> u, int by) {
    u(it[0], it[1]) = (u(it[0], it[1]) * 3 + by + int(it[0]) * 7 + int(it[1])) % 65521;
  }
  kernel void mix(item<2> it, in<int, 2> v, inout<int, 2> u, int rows) {
    u(it[0], it[1]) = (u(it[0], it[1]) + v((it[0] * 5 + 3) % rows, it[1])) % 65521;
  }
  kernel void push(item<2> it, in<int, 2> u, route<int> out) {
    const int x = u(it[0], it[1]);
    if (x % 3 > 0) out.push(x % BINS, x);
  }
]], { defines = { BINS = BINS } })

-- The same on all ranks.
local state
local function random(n)
  state = (state * 1103515245 + 12345) % 2 ^ 31
  return math.floor(state / 2 ^ 31 * n)
end

-- ---- what must come of it ----------------------------------------------------

-- {rows, columns, u = .., v = ..: buffer and table of rows each; list, and bins: what they hold}
local program

local function copy(rows, from, to)
  local out = {}
  for i = from or 1, to or #rows do out[#out + 1] = { unpack(rows[i]) } end
  return out
end

local function sum_of(rows)
  local sum = 0
  for i, row in ipairs(rows) do
    for j, x in ipairs(row) do sum = (sum * 31 + x * i + j) % 1000003 end
  end
  return sum
end

local function compare(what, view, rows)
  for i, row in ipairs(rows) do
    for j, x in ipairs(row) do
      if view(i - 1, j - 1) ~= x then
        error(("seed %d, %s: element (%d, %d) is %d, not %d"):format(program.seed, what,
          i - 1, j - 1, view(i - 1, j - 1), x), 0)
      end
    end
  end
end

-- ---- what programs do --------------------------------------------------------

local function either() return random(2) == 0 and program.u or program.v end

local doings = {}

function doings.grow()
  local one, by = either(), random(1000)
  q:submit(function(cg)
    cg:parallel_for({ program.rows, program.columns }, k.grow, cg:read_write(one.buffer), by)
  end)
  for i, row in ipairs(one.rows) do
    for j, x in ipairs(row) do row[j] = (x * 3 + by + (i - 1) * 7 + j - 1) % 65521 end
  end
end

function doings.mix()
  local into, from, n = program.u, program.v, program.rows
  if random(2) == 0 then into, from = from, into end
  q:submit(function(cg)
    local all = cg:read(from.buffer, celer.all)
    cg:parallel_for({ n, program.columns }, k.mix, all, cg:read_write(into.buffer), n)
  end)
  for i, row in ipairs(into.rows) do
    local other = from.rows[((i - 1) * 5 + 3) % n + 1]
    for j, x in ipairs(row) do row[j] = (x + other[j]) % 65521 end
  end
end

function doings.push()
  local one, keep = either(), random(2) == 0
  q:submit(function(cg)
    cg:parallel_for({ program.rows, program.columns }, k.push, cg:read(one.buffer),
      cg:route(program.list, "append", { include_current = keep }))
  end)
  for b = 1, keep and 0 or BINS do program.bins[b] = {} end
  for _, row in ipairs(one.rows) do
    for _, x in ipairs(row) do
      if x % 3 > 0 then table.insert(program.bins[x % BINS + 1], x) end
    end
  end
end

local function path_of(number) return ("%s/%d.npy"):format(folder, number) end

function doings.save()
  local number, one = random(3), either()
  celer.io.save(path_of(number), one.buffer)
  program.files[number] = copy(one.rows)
end

-- A file that was saved becomes one of the two; or some of its rows are compared.
function doings.load()
  local number, one = random(3), either()
  local rows = program.files[number]
  if not rows then return end
  if random(2) == 0 then
    one.buffer, one.rows = celer.io.load(path_of(number)), copy(rows)
    return
  end
  local from = random(program.rows)
  local to = from + 1 + random(program.rows - from)
  local box = celer.box({ from, 0 }, { to, program.columns })
  local part = celer.io.load(path_of(number), { box = box })
  compare("rows of a file", q:wait(part), copy(rows, from + 1, to))
end

local function kept_path() return folder .. "/kept" end

function doings.checkpoint()
  local u, v = program.u, program.v
  celer.checkpoint(kept_path(), { u = u.buffer, v = v.buffer, list = program.list },
    { rows = program.rows, columns = program.columns,
      sum = sum_of(u.rows) + sum_of(v.rows) + sum_of(program.bins) })
  program.kept = { u = copy(u.rows), v = copy(v.rows), bins = copy(program.bins) }
end

function doings.restore()
  local kept = program.kept
  if not kept then return end
  if random(2) == 0 then
    local got = celer.restore(kept_path())
    program.u.buffer, program.v.buffer, program.list = got.u, got.v, got.list
    program.bins = copy(kept.bins)
  else
    celer.restore(kept_path(), { u = program.u.buffer, v = program.v.buffer })
  end
  program.u.rows, program.v.rows = copy(kept.u), copy(kept.v)
end

-- What devices have computed in which time is made up, the same on all ranks.
function doings.rebalance()
  local seed = random(1000)
  celer.rebalance { seconds = function(rank, device, items)
    return items * (1 + (seed * (rank + 1) * 7 + device * 3) % 5)
  end }
end

function doings.compare()
  local u, v = q:wait(program.u.buffer, program.v.buffer)
  compare("u", u, program.u.rows)
  compare("v", v, program.v.rows)
  local bins = program.list:get()
  for b = 1, BINS do
    local got, wanted = table.concat(bins[b - 1], " "), table.concat(program.bins[b], " ")
    if got ~= wanted then
      error(("seed %d: bin %d holds %s, not %s"):format(program.seed, b - 1, got, wanted), 0)
    end
  end
end

-- ---- programs ----------------------------------------------------------------

local words = { "grow", "grow", "grow", "mix", "mix", "push", "save", "load", "checkpoint",
  "restore", "rebalance", "compare" }

local function fresh(name)
  local rows = {}
  for i = 1, program.rows do
    rows[i] = {}
    for j = 1, program.columns do rows[i][j] = i * 100 + j end
  end
  return { rows = rows, buffer = celer.buffer("int", { program.rows, program.columns },
    { name = name, init = function(i, j) return (i + 1) * 100 + j + 1 end }) }
end

local function rows_of(view)
  local rows = {}
  for i = 1, program.rows do
    rows[i] = {}
    for j = 1, program.columns do rows[i][j] = view(i - 1, j - 1) end
  end
  return rows
end

-- From what an earlier run kept, if there is any.
local function resume()
  local kept, extra = celer.restore(kept_path())
  if not kept then return false end
  program.rows, program.columns = extra.rows, extra.columns
  local u, v = q:wait(kept.u, kept.v)
  program.u = { buffer = kept.u, rows = rows_of(u) }
  program.v = { buffer = kept.v, rows = rows_of(v) }
  program.list, program.bins = kept.list, {}
  for b, bin in pairs(kept.list:get()) do program.bins[b + 1] = bin end
  local sum = sum_of(program.u.rows) + sum_of(program.v.rows) + sum_of(program.bins)
  if sum ~= extra.sum then
    error(("seed %d: what was kept has the sum %d, not %d"):format(program.seed, sum,
      extra.sum), 0)
  end
  program.kept = { u = copy(program.u.rows), v = copy(program.v.rows),
    bins = copy(program.bins) }
  return true
end

local resumed = false
for seed = first, first + count - 1 do
  state = seed * 2654435761 % 2 ^ 31
  program = { seed = seed, files = {}, rows = 1 + random(40), columns = 1 + random(6) }
  if seed == first and resume() then
    resumed = true
  else
    program.u, program.v = fresh "u", fresh "v"
    program.list, program.bins = celer.list("int", { bins = BINS, name = "list" }), {}
    for b = 1, BINS do program.bins[b] = {} end
  end
  for _ = 1, steps do doings[words[random(#words) + 1]]() end
  doings.compare()
end
doings.checkpoint()
q:drain()
print(("%d programs with files, %s"):format(count, resumed and "after a restore" or "afresh"))
