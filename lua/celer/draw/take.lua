--- take.lua -- a kernel that takes a picture's numbers out of a buffer, where they lie.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local grid = require "celer.draw.grid"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local placement = require "celer.submit.placement"
local queues = require "celer.submit.queue"

local M = {}

local SOURCE = [[
kernel void take(item<ITEMS> it, in<TYPE, DIMS> from, out<double, ITEMS> to, int64_t y, int64_t x,
                 int64_t first, int64_t last, int64_t step) {
  int64_t k = first PIECE;
  const int64_t end = END;
  double all = double(from(AT)FIELD);
  for (++k; k < end; ++k) {
    const double v = double(from(AT)FIELD);
    all = FOLD;
  }
  to(TO) = all MEAN;
}]]

local known = {}

-- `cut`: along the dimension that goes, in pieces of `step`.
local function kernel_for(buffer, chosen, cut)
  local at = { [0] = "k", "k", "k" }
  local down, across = grid.shown(chosen.dim)
  at[down], at[across] = cut and "it[1] + y" or "it[0] + y", cut and "it[2] + x" or "it[1] + x"
  local words = { ITEMS = cut and "3" or "2", TYPE = buffer.type.name, DIMS = tostring(buffer.dims),
    PIECE = cut and "+ it[0] * step" or "", FIELD = chosen.field,
    END = cut and "k + step < last ? k + step : last" or "last",
    AT = table.concat(at, ", ", 0, buffer.dims - 1), TO = cut and "it[0], it[1], it[2]"
      or "it[0], it[1]",
    FOLD = chosen.by == "max" and "all != all ? all : v > all || v != v ? v : all" or "all + v",
    MEAN = chosen.by == "mean" and not cut and "/ double(last - first)" or "" }
  local source = SOURCE:gsub("%f[%w]%u+%f[%W]", words)
  known[source] = known[source] or kernels.new(source)
  return known[source]
end

-- What a chunk of the picture reads.
local function reads(dims, part, chosen, step)
  local dim, first, last = chosen.dim, chosen.first, chosen.last
  local a, b, c = unpack((box.bounds(part)))
  if step then
    return function(chunk)
      return box.make(3, first + chunk.min[0] * step, b + chunk.min[1], c + chunk.min[2],
        mapper.min(first + chunk.max[0] * step, last), b + chunk.max[1], c + chunk.max[2])
    end
  elseif dims == 2 then
    return function(chunk)
      return box.make(2, a + chunk.min[0], b + chunk.min[1], 0, a + chunk.max[0],
        b + chunk.max[1], 1)
    end
  elseif dim == 0 then
    return function(chunk)
      return box.make(3, first, b + chunk.min[0], c + chunk.min[1], last, b + chunk.max[0],
        c + chunk.max[1])
    end
  elseif dim == 1 then
    return function(chunk)
      return box.make(3, a + chunk.min[0], first, c + chunk.min[1], a + chunk.max[0], last,
        c + chunk.max[1])
    end
  end
  return function(chunk)
    return box.make(3, a + chunk.min[0], b + chunk.min[1], first, a + chunk.max[0],
      b + chunk.max[1], last)
  end
end

--- A buffer of a picture's numbers, which the caller frees, and what is still to be done with
--- them on one rank.
---@param call string  for messages
---@param buffer celer.buffer
---@param part celer.box
---@param chosen celer.draw.chosen
---@return celer.buffer numbers, celer.draw.chosen rest
function M.numbers(call, buffer, part, chosen)
  local down, across = grid.shown(chosen.dim)
  local height, width = part.size[down], part.size[across]
  local n = chosen.dim and chosen.last - chosen.first or 1
  local cut = chosen.dim == 0 and n > 1
  local step = math.ceil(n / select(2, core.rank()))
  local extents = cut and { math.ceil(n / step), height, width } or { height, width }
  local out = buffers.new("double", extents, { name = call })
  local kernel = kernel_for(buffer, chosen, cut)
  queues.run(call, function(cg)
    cg:name(call .. ": picture")
    if chosen.dim == 0 and not cut then cg:hint { place = placement.where(buffer, part) } end
    cg:parallel_for(extents, kernel, cg:read(buffer, reads(buffer.dims, part, chosen,
      cut and step or nil)), cg:discard_write(out), part.min[down], part.min[across],
      chosen.first or 0, chosen.last or 1, step)
  end)
  if not cut then return out, { names = {}, field = "" } end
  return out, { names = {}, field = "", dim = 0, first = 0, last = extents[1], by = chosen.by,
    over = n }
end

return M
