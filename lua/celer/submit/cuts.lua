--- cuts.lua -- weights from what a buffer holds: chunks of rows with like sums.
---
--- A task adds up the rows and finds where the sum reaches each of a number of equal parts;
--- the script waits for these places. All ranks get the same ones, so they cut alike.
local box = require "celer.box"
local core = require "celer.core"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local buffers = require "celer.data.buffer"
local queues = require "celer.submit.queue"
local scans = require "celer.arrays.scan"

local fail = place.fail

local M = {}

-- Parts of a rank: so many devices share them evenly, or nearly so.
local PARTS = 120

local source = [[
kernel void rows(item<1> it, in<T, 1> u, out<double, 1> v, reducer<double> least) {
  const double x = (double)u(it[0]);
  v(it[0]) = x;
  least.combine(x);
}
// Row i holds [before, upto) of the sum; where part j of `parts` begins there, the cut lies on
// the nearer side of the row.
kernel void cuts(item<1> it, in<double, 1> sums, in<double, 1> all, reducer<int64_t, 1> cut,
                 int64_t n, int64_t parts) {
  const int64_t i = it[0];
  double before = 0;
  if (i > 0) before = sums(i - 1);
  const double upto = sums(i), total = all(n - 1);
  if (!(total > 0)) return;
  int64_t j = (int64_t)(before / total * (double)parts) - 1;
  if (j < 1) j = 1;
  for (; j < parts; ++j) {
    const double begin = total * ((double)j / (double)parts);
    if (begin > upto) break;
    if (begin > before) cut(j).combine(begin - before <= upto - begin ? i : i + 1);
  }
}
]]

local compiled = {} -- by type

local function kernels_for(type_)
  if not compiled[type_] then
    local text = source:gsub("%f[%w]T%f[%W]", type_.name)
    compiled[type_] = kernels.new(text)
  end
  return compiled[type_]
end

local function with_one_before(chunk)
  return box.new({ mapper.max(chunk.min[0] - 1, 0) }, { chunk.max[0] })
end

local told = false

local function tell_dry(from)
  if told then return end
  told = true
  local file, line = place.user()
  io.stderr:write(("celer: warning: %s:%d: nothing is known of what %s holds in a dry run: "
    .. "celer.weights cuts its rows evenly\n"):format(file or "?", line, from.name))
end

-- Raises unless that is what rows may weigh.
local function check_rows(from, total, low)
  if low < 0 or low ~= low then
    fail("celer.weights: the buffer %s holds %s, not numbers of at least 0", from.name,
      tostring(low))
  elseif not (total > 0 and total < math.huge) then
    fail("celer.weights: the elements of %s add up to %s; somebody has to compute", from.name,
      tostring(total))
  end
end

-- Says of each part where it begins.
local function find(from, parts)
  local n, list = from.size[0], kernels_for(from.type)
  local sums, least = buffers.new("double", { n }), buffers.new "double"
  local cut = buffers.new("int64_t", { parts })
  queues.run("celer.weights", function(cg)
    cg:name "celer.weights"
    cg:parallel_for({ n }, list.rows, cg:read(from), cg:discard_write(sums),
      cg:reduce(least, "min"))
  end)
  scans.scan("sum", sums, sums)
  local last = box.new({ n - 1 }, { n })
  queues.run("celer.weights", function(cg)
    cg:name "celer.weights"
    cg:parallel_for({ n }, list.cuts, cg:read(sums, with_one_before),
      cg:read(sums, mapper.fixed(last)), cg:reduce(cut, "max"), n, parts)
  end)
  local dry, where, total, low = core.dry(), nil, nil, nil
  if not dry then
    local capture = require("celer.data.snapshot").capture
    where, total, low = queues.new():wait(cut, capture(sums, last), least)
  end
  for _, buffer in ipairs { sums, least, cut } do buffer:free() end
  if dry then -- nothing is computed
    tell_dry(from)
    return function(part) return math.floor(part * n / parts) end
  end
  check_rows(from, total(n - 1), low())
  return function(part)
    if part == 0 or part == parts then return part == 0 and 0 or n end
    return tonumber(where(part))
  end
end

local function check(from)
  local call = "celer.weights"
  buffers.check(from, call .. ": from")
  if from.dims ~= 1 or not from.type.class:find "^[iuf]$" then
    fail("%s: from is a buffer of numbers with one dimension, a number for each row; here is %s",
      call, tostring(from))
  elseif from.size[0] == 0 then
    fail("%s: the buffer %s has no elements", call, from.name)
  end
end

-- Rows of each rank, and of each of this rank's devices.
local function divide(at, ranks)
  local me = core.rank()
  local _, devices = place.check(core.devices())
  local by_rank, by_device = {}, {}
  for k = 0, ranks - 1 do by_rank[k + 1] = at((k + 1) * PARTS) - at(k * PARTS) end
  local function of_device(d) return at(me * PARTS + math.floor(d * PARTS / devices + 0.5)) end
  for d = 0, devices - 1 do by_device[d + 1] = of_device(d + 1) - of_device(d) end
  return by_rank, by_device
end

local known = setmetatable({}, { __mode = "k" }) -- by buffer: its changes, and the weights
local made = 0

--- Weights by which ranks, and their devices, get rows that add up to the same. It waits for
--- the buffer; as long as that does not change the same weights come back at once.
---@param from celer.buffer
---@param make fun(by_rank: integer[], by_device: integer[], text: string): celer.weights
---@return celer.weights
function M.of(from, make)
  queues.check_outside "celer.weights { from = ... }"
  check(from)
  local changes = core.buffer_changes(from.handle)
  local kept = known[from]
  if kept and kept.changes == changes then return kept.weights end
  local _, ranks = core.rank()
  local by_rank, by_device = divide(find(from, PARTS * ranks), ranks)
  made = made + 1
  local text = ("%s of %s, number %d"):format(table.concat(by_rank, " "), from.name, made)
  known[from] = { changes = changes, weights = make(by_rank, by_device, text) }
  return known[from].weights
end

return M
