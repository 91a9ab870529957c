--- patterns.lua -- how long what ranks exchange takes, of which nothing is computed.
---
---   mpirun -n 8 celer run [--no-collectives] spec/bench/patterns.lua
---     [programs] [sizes] [milliseconds | steps=N]
---
--- The programs of table 3 of Knorr et al., Collective Communication Patterns with empty
--- kernels: `all_gather`: all read what
--- all wrote, `two_all_gathers`: in two buffers of half the size, `weighted_all_gather`:
--- all but one, whom weights give nothing; `broadcast`: all read what one wrote,
--- `broadcast_most`: three of four do, `broadcast_few`: three of eight;
--- `broadcast_gather`: all do, and one reads what all wrote; `scatter_gather`: each reads
--- its part of what one wrote, and one reads what all wrote; `all_to_all`: a matrix, read
--- by columns and written by rows; `stencil`: the control. Buffers have `sizes` bytes, all
--- ranks together; of a matrix, the next square below. Names and sizes are lists with
--- commas. A step's time is the median of batches that take so long together; with
--- steps=N each program takes N steps and nothing is measured here. The last line is
--- JSON. `collectives.lua` and `dryrun.lua` run this.
local celer = require "celer"
local core = require "celer.core"

local BATCHES, WARM = 20, 40
local function zero() return 0 end
local names = arg[1] or "all_gather,two_all_gathers,weighted_all_gather,broadcast," ..
  "broadcast_most,broadcast_few,broadcast_gather,scatter_gather,all_to_all,stencil"
local sizes = arg[2] or "1024,4096,65536,1048576"
local seconds = (tonumber(arg[3]) or 1000) / 1000
local steps = tonumber((arg[3] or ""):match("^steps=(%d+)$"))
local _, ranks = core.rank()
local ITEMS = math.max(64, ranks)
local q = celer.queue()

local k = celer.kernel [[
  kernel void work(item<1> it, in<float, 1> from, out<float, 1> to) {}
  kernel void work2(item<1> it, in<float, 1> from, in<float, 1> from2,
                    out<float, 1> to, out<float, 1> to2) {}
  kernel void turn(item<1> it, in<float, 2> from, out<float, 2> to) {}
  kernel void make(item<1> it, out<float, 1> to) {}
  kernel void look(item<1> it, in<float, 1> from) {}
]]

-- Buffers that Lua's collector frees at some time are tasks, which are counted: none is.
local kept = {}

-- Two buffers of so many floats, and the part of an item.
local function row_of(bytes)
  local n = math.floor(bytes / 4)
  local part = math.floor(n / ITEMS)
  local from = celer.buffer("float", { n }, { name = "from", init = zero })
  local to = celer.buffer("float", { n }, { name = "to", init = zero })
  kept[#kept + 1] = { from, to }
  return from, to, function(chunk)
    return celer.box({ chunk.min[0] * part }, { chunk.max[0] * part })
  end
end

local programs = {}

function programs.all_gather(bytes)
  local from, to, part = row_of(bytes)
  return function()
    q:submit(function(cg)
      cg:parallel_for(ITEMS, k.work, cg:read(from, celer.all), cg:discard_write(to, part))
    end)
    from, to = to, from
  end
end

function programs.two_all_gathers(bytes)
  local from, to, part = row_of(bytes / 2)
  local from2, to2 = row_of(bytes / 2)
  return function()
    q:submit(function(cg)
      cg:parallel_for(ITEMS, k.work2, cg:read(from, celer.all), cg:read(from2, celer.all),
        cg:discard_write(to, part), cg:discard_write(to2, part))
    end)
    from, to, from2, to2 = to, from, to2, from2
  end
end

function programs.weighted_all_gather(bytes)
  local from, to, part = row_of(bytes)
  local weights = celer.weights(function(rank, all)
    return rank == all - 2 and 0 or 1
  end)
  return function()
    q:submit(function(cg)
      cg:hint { weights = weights }
      cg:parallel_for(ITEMS, k.work, cg:read(from, celer.all), cg:discard_write(to, part))
    end)
    from, to = to, from
  end
end

-- By so many items.
local function broadcast(bytes, items)
  local from = row_of(bytes)
  return function()
    q:submit(function(cg)
      cg:parallel_for(1, k.make, cg:discard_write(from, celer.all))
    end)
    q:submit(function(cg) cg:parallel_for(items, k.look, cg:read(from, celer.all)) end)
  end
end

function programs.broadcast(bytes) return broadcast(bytes, ITEMS) end

function programs.broadcast_most(bytes) return broadcast(bytes, math.ceil(ranks * 3 / 4)) end

function programs.broadcast_few(bytes) return broadcast(bytes, math.ceil(ranks * 3 / 8)) end

-- One reads all that was written, and writes all that is read by `how`.
local function through_one(bytes, how)
  local from, to, part = row_of(bytes)
  return function()
    q:submit(function(cg)
      cg:parallel_for(1, k.work, cg:read(to, celer.all), cg:discard_write(from, celer.all))
    end)
    q:submit(function(cg)
      cg:parallel_for(ITEMS, k.work, cg:read(from, how or part), cg:discard_write(to, part))
    end)
  end
end

function programs.broadcast_gather(bytes) return through_one(bytes, celer.all) end

function programs.scatter_gather(bytes) return through_one(bytes) end

function programs.all_to_all(bytes)
  local n = math.floor(math.sqrt(bytes / 4))
  local from = celer.buffer("float", { n, n }, { name = "from", init = zero })
  local to = celer.buffer("float", { n, n }, { name = "to", init = zero })
  kept[#kept + 1] = { from, to }
  local function rows(chunk) return celer.box({ chunk.min[0], 0 }, { chunk.max[0], n }) end
  local function columns(chunk) return celer.box({ 0, chunk.min[0] }, { n, chunk.max[0] }) end
  return function()
    q:submit(function(cg)
      cg:parallel_for(n, k.turn, cg:read(from, columns), cg:discard_write(to, rows))
    end)
    from, to = to, from
  end
end

function programs.stencil(bytes)
  local from, to, part = row_of(bytes)
  local per = math.floor(bytes / 4 / ITEMS)
  local function around(chunk)
    return celer.box({ celer.max(chunk.min[0] * per - 1, 0) },
      { celer.min(chunk.max[0] * per + 1, per * ITEMS) })
  end
  return function()
    q:submit(function(cg)
      cg:parallel_for(ITEMS, k.work, cg:read(from, around), cg:discard_write(to, part))
    end)
    from, to = to, from
  end
end

-- Seconds of a step, with the wait for all ranks.
local function time_of(step, n)
  local start = celer.time()
  for _ = 1, n do step() end
  q:wait()
  return (celer.time() - start) / n
end

-- Microseconds of a step in batches that take so long together, the least first, and how
-- many steps one has.
local function measure(step)
  time_of(step, WARM) -- until all is compiled and everybody awake
  local n = math.max(1, math.floor(seconds / BATCHES / time_of(step, WARM)))
  local took = {}
  for i = 1, BATCHES do took[i] = time_of(step, n) * 1e6 end
  table.sort(took)
  return took, n
end

local rows = {}
for name in names:gmatch("[%w_]+") do
  local program = programs[name] or error("no program " .. name, 0)
  for size in sizes:gmatch("%d+") do
    local bytes = tonumber(size)
    local step = program(bytes)
    if steps then
      for _ = 1, steps do step() end
    else
      local took, n = measure(step)
      for i, us in ipairs(took) do took[i] = ("%.2f"):format(us) end
      rows[#rows + 1] = ('{"program": "%s", "bytes": %d, "us": %s, "steps": %d, "all": [%s]}')
        :format(name, bytes, took[BATCHES / 2], n, table.concat(took, ", "))
    end
  end
end
print(('{"bench": "patterns", "ranks": %d, "rows": [%s]}'):format(ranks,
  table.concat(rows, ", ")))
q:drain()
