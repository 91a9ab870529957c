--- spmv.lua -- what a sparse matrix times a vector sends, and how fast it goes.
---
---   mpirun -n 4 celer run --backend cpu spec/bench/spmv.lua [rows] [steps] [kind]
---
--- y = A x, then x from y, in steps: A in compressed rows, as a band, scrambled (each row
--- has random columns near it and a few far away) or like a Kronecker graph. x is read by
--- celer.image, then by celer.all. The line of each kind has the bytes that ranks sent in
--- a step, over those of the rows that they needed of other ranks, and the steps per
--- second of both. The results of both must be the same to the bit. On an idle machine
--- with cores for all ranks, else it holds what threads wait for each other. The last
--- line is JSON.
local celer = require "celer"
local images = require "celer.submit.image"

local rows, steps = tonumber(arg[1]) or 200000, tonumber(arg[2]) or 50
local ranks = celer.ranks()
local q = celer.queue()

local state = 1
local function below(m)
  state = (state * 16807) % 2147483647
  return state % m
end

-- The columns of row i, into `out`.
local kinds = {
  band = function(i, out)
    for c = math.max(i - 4, 0), math.min(i + 4, rows - 1) do out[#out + 1] = c end
  end,
  scrambled = function(i, out)
    for _ = 1, 8 do out[#out + 1] = math.min(math.max(i + below(2000) - 1000, 0), rows - 1) end
    if i % 16 == 0 then out[#out + 1] = below(rows) end
  end,
  kronecker = function(_, out)
    for _ = 1, 9 do
      local c, half = 0, rows
      while half > 1 do
        half = math.ceil(half / 2)
        if below(100) < 24 then c = c + half end
      end
      out[#out + 1] = c % rows
    end
  end,
}

local k = celer.kernel [[
  kernel void spmv(item<1> it, in<int, 1> ptr, in<int, 1> col, in<double, 1> val,
                   in<double, 1> x, out<double, 1> y) {
    double sum = 0;
    for (int k = ptr(it[0]); k < ptr(it[0] + 1); ++k) sum += val(k) * x(col(k));
    y(it[0]) = sum;
  }
  kernel void next(item<1> it, in<double, 1> y, inout<double, 1> x) {
    x(it[0]) = x(it[0]) / 2 + y(it[0]) / 16;
  }
]]

local function one_more(chunk) return chunk:with(0, chunk.min[0], chunk.max[0] + 1) end

local function matrix(columns)
  local ffi = require "ffi"
  local ptr, list = ffi.new("int[?]", rows + 1), {}
  for i = 0, rows - 1 do
    columns(i, list)
    ptr[i + 1] = #list
  end
  local col, val = ffi.new("int[?]", #list), ffi.new("double[?]", #list)
  for i, c in ipairs(list) do col[i - 1], val[i - 1] = c, (i % 13) / 13 end
  return celer.buffer("int", { rows + 1 }, { name = "ptr", init = ptr }),
    celer.buffer("int", { #list }, { name = "col", init = col }),
    celer.buffer("double", { #list }, { name = "val", init = val })
end

-- Steps per second with x read by a mapper, x, and what was sent in a step.
local function run(ptr, col, val, entries, of_x)
  local x = celer.buffer("double", { rows }, { name = "x", init = 1 })
  local y = celer.buffer("double", { rows }, { name = "y" })
  local function step()
    q:submit(function(cg)
      cg:parallel_for(rows, k.spmv, cg:read(ptr, one_more), cg:read(col, entries),
        cg:read(val, entries), cg:read(x, of_x), cg:discard_write(y))
    end)
    q:submit(function(cg) cg:parallel_for(rows, k.next, cg:read(y), cg:read_write(x)) end)
  end
  for _ = 1, 3 do step() end
  q:wait()
  local begin = celer.time()
  for _ = 1, steps do step() end
  q:wait()
  return steps / (celer.time() - begin), q:wait(x), images.traffic(x)
end

local out = {}
for _, name in ipairs { "band", "scrambled", "kronecker" } do
  if not arg[3] or arg[3] == name then
    local ptr, col, val = matrix(kinds[name])
    local entries = celer.image(ptr, { as = "ranges" })
    local fast, mine, t = run(ptr, col, val, entries, celer.image(col, { of = entries }))
    local slow, theirs = run(ptr, col, val, entries, celer.all)
    for i = 0, rows - 1 do assert(mine(i) == theirs(i), "the results differ") end
    local per_step = t.exchanges > 0 and t.bytes / t.exchanges or 0
    local ratio = t.needed > 0 and t.bytes / t.needed or 1
    print(("%-10s %9.0f bytes a step, %.3f of what is needed; %8.1f steps/s, by celer.all "
      .. "%9.0f bytes, %8.1f"):format(name, per_step, ratio, fast, (ranks - 1) * rows * 8, slow))
    out[#out + 1] = ('"%s": {"bytes_per_step": %.0f, "ratio": %.4f, "steps_per_second": %.2f, '
      .. '"all_steps_per_second": %.2f}'):format(name, per_step, ratio, fast, slow)
  end
end
print(("{\"ranks\": %d, \"rows\": %d, %s}"):format(ranks, rows, table.concat(out, ", ")))
