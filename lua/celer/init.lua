--- celer -- the language that users see.
---
---   local celer = require "celer"
---   local q = celer.queue()
---
--- Each name is loaded when first used.
local place = require "celer.place"

-- name = { module, field (nil: all of it), for the driver alone? }
local names = {
  box = { "box", "new" },
  floor = { "mapper.builtin", "floor" },
  ceil = { "mapper.builtin", "ceil" },
  min = { "mapper.builtin", "min" },
  max = { "mapper.builtin", "max" },
  clamp = { "mapper.builtin", "clamp" },
  one_to_one = { "mapper.builtin", "one_to_one" },
  all = { "mapper.builtin", "all" },
  fixed = { "mapper.builtin", "fixed" },
  slice = { "mapper.builtin", "slice" },
  neighborhood = { "mapper.builtin", "neighborhood" },
  periodic = { "mapper.builtin", "periodic" },
  clamped = { "mapper.builtin", "clamped" },
  mirrored = { "mapper.builtin", "mirrored" },
  constant = { "mapper.builtin", "constant" },
  transposed = { "mapper.builtin", "transposed" },
  boxes = { "mapper.boxes", "boxes" },
  image = { "submit.image", "new", true },
  even_split = { "mapper.builtin", "even_split" },
  rule = { "mapper.rules", "describe", true },
  buffer = { "data.buffer", "new", true },
  scalar = { "data.scalar", "new", true },
  list = { "data.list", "new", true },
  fill = { "data.contents", "fill", true },
  copy = { "data.contents", "copy", true },
  host_object = { "data.object", "new", true },
  struct = { "data.types", "struct" },
  complex = { "data.complex", "new" },
  kernel = { "kernel.kernel", "new", true },
  cuda_module = { "kernel.plain", "load", true },
  chunk_size = { "kernel.plain", "chunk_size", true },
  chunk_start = { "kernel.plain", "chunk_start", true },
  range_size = { "kernel.plain", "range_size", true },
  stride = { "kernel.plain", "stride", true },
  access = { "kernel.from_lua.function", "access", true },
  reduce = { "kernel.from_lua.function", "reduce", true },
  sum = { "kernel.from_lua.function", "sum", true },
  route = { "submit.route", "new", true },
  math = { "arrays.math", nil, true },
  select = { "arrays.expression", "select", true },
  cast = { "arrays.expression", "cast", true },
  array = { "arrays.make", "array", true },
  zeros = { "arrays.make", "zeros", true },
  ones = { "arrays.make", "ones", true },
  full = { "arrays.make", "full", true },
  like = { "arrays.make", "like", true },
  arange = { "arrays.make", "arange", true },
  linspace = { "arrays.make", "linspace", true },
  map = { "arrays.skeletons", "map", true },
  map_reduce = { "arrays.skeletons", "map_reduce", true },
  stencil = { "arrays.skeletons", "stencil", true },
  spmv = { "arrays.spmv", "spmv", true },
  scan = { "arrays.scan", "scan", true },
  compact = { "arrays.compact", "compact", true },
  histogram = { "arrays.indexed", "histogram", true },
  gather = { "arrays.indexed", "gather", true },
  scatter = { "arrays.indexed", "scatter", true },
  pipe = { "arrays.skeletons", "pipe", true },
  sort = { "arrays.sort", "sort", true },
  top = { "arrays.sort", "top", true },
  unique = { "arrays.compact", "unique", true },
  preimage = { "arrays.preimage", "new", true },
  nd_range = { "kernel.nd_range", "new", true },
  queue = { "submit.queue", "new", true },
  submit = { "submit.default", "submit", true },
  parallel_for = { "submit.default", "parallel_for", true },
  host_task = { "submit.default", "host_task", true },
  when = { "submit.default", "when", true },
  wait = { "submit.default", "wait", true },
  drain = { "submit.default", "drain", true },
  fence = { "submit.default", "fence", true },
  weights = { "submit.weights", "new", true },
  rebalance = { "submit.balance", "rebalance", true },
  once = { "submit.placement", "once", true },
  on_master = { "submit.placement", "on_master", true },
  at = { "submit.placement", "at", true },
  where = { "submit.placement", "where", true },
  collective = { "submit.collective", "collective", true },
  capture = { "data.snapshot", "capture", true },
  random = { "run.random", "random", true },
  philox = { "run.philox", "uniform" },
  time = { "run.time", "time" },
  ranks = { "run.ranks", "ranks" },
  seed = { "run.random", "seed", true },
  png = { "io.image", "png" },
  plot = { "draw.plot", "plot" },
  show = { "draw.show", "show", true },
  series = { "io.series", "new", true },
  csv = { "io.csv" },
  matrix = { "io.matrix" },
  io = { "io.files", nil, true },
  checkpoint = { "io.checkpoint", "save", true },
  checkpoint_every = { "io.every", "checkpoint", true },
  restore = { "io.checkpoint", "restore", true },
  progress = { "run.progress", "loop", true },
  sorted_pairs = { "tables", "sorted_pairs" },
}

---@class celer
local celer = {}

local function load(self, name)
  local entry = names[name]
  if not entry then
    local method = require("celer.repl.docs").method(name)
    place.fail("there is no celer.%s%s", tostring(name), method and ": it is " .. method
      or require("celer.words").advice(name, names))
  end
  local value
  if entry[3] and require("celer.core").view then -- a lane's core has views
    value = require("celer.host.absent").new("celer." .. name)
  else
    value = require("celer." .. entry[1])
    if entry[2] then value = value[entry[2]] end
  end
  rawset(self, name, value)
  return value
end

return setmetatable(celer, {
  __index = load,
  __names = names, -- for completion
  __tostring = function() return "celer" end,
})
