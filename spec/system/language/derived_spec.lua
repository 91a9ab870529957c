-- What celer derives of the kernels of examples is what their authors wrote by hand, before the
-- kernels were written in Lua: mode, and the same elements for any chunk.
local celer = require "spec.support.celer"
local scratch = require "spec.support.scratch"

-- Runs an example. Each kernel's first submission is compared with `by_hand`: by kernel and
-- parameter, mode and mapper.
local watch = [==[
local celer = require "celer"
local box = require "celer.box"
local functions = require "celer.kernel.from_lua.function"
local mapper = require "celer.mapper.builtin"
local mappers = require "celer.kernel.from_lua.mappers"

local own, all = mapper.one_to_one, celer.all
local cross2 = celer.neighborhood(1, 1, "along_axes")
local function rows(chunk, buffer)
  return celer.box({ chunk.min[0], 0 }, { chunk.max[0], buffer.size[1] })
end
local function behind(chunk, buffer)
  return celer.box({ 0, chunk.min[0], chunk.min[1] }, { buffer.size[0], chunk.max[0],
    chunk.max[1] })
end
-- What a cell has, and what the cells have that lie `by` from those of the chunk along x, or
-- along y, where sides meet.
local function cells(chunk, buffer)
  return celer.box({ chunk.min[0], chunk.min[1], 0 }, { chunk.max[0], chunk.max[1],
    buffer.size[2] })
end
local function shifted(one, d, by)
  local low, high = {}, {}
  for i = 0, one.dims - 1 do
    local n = i == d and by or 0
    low[i + 1], high[i + 1] = one.min[i] + n, one.max[i] + n
  end
  return celer.box(low, high)
end
local function moved(d, ...)
  local by = { ... }
  return function(chunk, buffer)
    local boxes = {}
    for _, c in ipairs(by) do
      for side = -1, 1 do
        boxes[#boxes + 1] = shifted(cells(chunk, buffer), d, c + side * buffer.size[d])
      end
    end
    return unpack(boxes)
  end
end
local function edges_of(chunk) return celer.box({ chunk.min[0] }, { chunk.max[0] + 1 }) end
local function blocks(chunk) return celer.box({ chunk.min[0] }, { chunk.max[0] }) end
local by_hand = {
  wave_sim = {
    ["drop pond"] = { "discard_write", own }, ["step now"] = { "read", cross2 },
    ["step before"] = { "read_write", own } },
  heat3d = {
    ["wire curve"] = { "read", all }, ["wire heat"] = { "discard_write", own },
    ["spread u"] = { "read", celer.neighborhood(1, 1, 1, "along_axes") },
    ["spread after"] = { "discard_write", own }, ["look heat"] = { "read", behind },
    ["look seen"] = { "discard_write", own } },
  nbody = {
    ["accelerate bodies"] = { "read", all }, ["accelerate velocities"] = { "read_write", own },
    ["move bodies"] = { "read_write", own }, ["move velocities"] = { "read", own } },
  jacobi = {
    ["sweep a"] = { "read", rows }, ["sweep b"] = { "read", own }, ["sweep old"] = { "read", all },
    ["sweep new"] = { "discard_write", own } },
  game_of_life = {
    ["live now"] = { "read", celer.neighborhood(1, 1) },
    ["live after"] = { "discard_write", own } },
  mandelbrot = {
    ["draw steps"] = { "discard_write", own }, ["add_rows steps"] = { "read", rows },
    ["add_rows sums"] = { "discard_write", own } },
  transpose = {
    ["kernel from"] = { "read", celer.transposed(1, 0) },
    ["kernel to"] = { "discard_write", own } },
  cg = {
    ["start x"] = { "discard_write", own }, ["start r"] = { "discard_write", own },
    ["start p"] = { "discard_write", own }, ["apply p"] = { "read", cross2 },
    ["apply v"] = { "discard_write", own }, ["advance p"] = { "read", own },
    ["advance v"] = { "read", own }, ["advance rr"] = { "read", all },
    ["advance pv"] = { "read", all }, ["advance x"] = { "read_write", own },
    ["advance r"] = { "read_write", own }, ["turn r"] = { "read", own },
    ["turn rr"] = { "read", all }, ["turn before"] = { "read", all },
    ["turn p"] = { "read_write", own } },
  edges = {
    ["to_gray rgb"] = { "read", cells }, ["to_gray gray"] = { "discard_write", own },
    ["blur gray"] = { "read", celer.neighborhood(2, 0) },
    ["blur blurred"] = { "discard_write", own },
    ["find gray"] = { "read", celer.neighborhood(1, 1) },
    ["find lines"] = { "discard_write", own } },
  shallow_water = {
    ["step now"] = { "read", cross2 }, ["step after"] = { "discard_write", own } },
  multigrid = {
    ["zero u"] = { "discard_write", own },
    ["smooth u"] = { "read", cross2 }, ["smooth f"] = { "read", own },
    ["smooth next"] = { "discard_write", own },
    ["residual u"] = { "read", cross2 }, ["residual f"] = { "read", own },
    ["residual r"] = { "discard_write", own },
    ["restrict r"] = { "read", function(chunk)
      return celer.box({ 2 * chunk.min[0], 2 * chunk.min[1] },
        { 2 * chunk.max[0] + 1, 2 * chunk.max[1] + 1 })
    end }, ["restrict f"] = { "discard_write", own },
    ["correct u"] = { "read_write", own }, ["correct coarse"] = { "read", function(chunk)
      local function half(i) return math.floor(i / 2) end
      return celer.box({ half(chunk.min[0] - 1), half(chunk.min[1] - 1) },
        { half(chunk.max[0] - 1) + 1, half(chunk.max[1] - 1) + 1 })
    end },
    ["source u"] = { "discard_write", own }, ["source f"] = { "discard_write", own },
    ["measure u"] = { "read", cross2 }, ["measure f"] = { "read", own },
    ["distance u"] = { "read", own } },
  mhd = { -- what is first submitted is along x
    ["borders u"] = { "read", moved(1, -1, 0, 1) }, ["borders low"] = { "discard_write", cells },
    ["borders high"] = { "discard_write", cells }, ["cross low"] = { "read", cells },
    ["cross high"] = { "read", moved(1, -1) }, ["cross flow"] = { "discard_write", cells },
    ["advance before"] = { "read", cells }, ["advance u"] = { "read", cells },
    ["advance along_x"] = { "read", moved(1, 0, 1) },
    ["advance along_y"] = { "read", moved(0, 0, 1) },
    ["advance after"] = { "discard_write", cells } },
  adaptive = {
    ["flow mass"] = { "read", own }, ["flow courant"] = { "read", blocks },
    ["look courant"] = { "read", blocks }, ["look mass"] = { "read", function(chunk)
      return shifted(chunk, 1, 0), shifted(chunk, 1, 1), shifted(chunk, 2, 1)
    end },
    ["move mass"] = { "read", own }, ["compare mass"] = { "read", own },
    ["compare place"] = { "read", function(chunk)
      return celer.box({ chunk.min[0], 0 }, { chunk.max[0], 3 })
    end } },
  sparse = {
    ["start x"] = { "discard_write", own }, ["start r"] = { "discard_write", own },
    ["start p"] = { "discard_write", own }, ["apply v"] = { "discard_write", own },
    ["advance p"] = { "read", own }, ["advance v"] = { "read", own },
    ["advance rr"] = { "read", all }, ["advance pv"] = { "read", all },
    ["advance x"] = { "read_write", own }, ["advance r"] = { "read_write", own },
    ["turn r"] = { "read", own }, ["turn rr"] = { "read", all },
    ["turn before"] = { "read", all }, ["turn p"] = { "read_write", own },
    ["compare x"] = { "read", own } },
  graph = {
    ["graph_42 ptr"] = { "read", edges_of }, ["graph_42 degree"] = { "discard_write", own },
    ["search parent"] = { "write", own }, ["search level_next"] = { "discard_write", own },
    ["divide rank"] = { "read", own }, ["divide degree"] = { "read", own },
    ["divide share"] = { "discard_write", own }, ["collect lost"] = { "read", all },
    ["collect rank"] = { "discard_write", own } },
  mesh = {
    ["measure corner"] = { "read", rows },
    ["measure weight"] = { "discard_write", rows },
    ["apply corner"] = { "read", rows }, ["apply weight"] = { "read", rows },
    ["start inside"] = { "read", own }, ["start load"] = { "read", own },
    ["start u"] = { "discard_write", own }, ["start r"] = { "discard_write", own },
    ["start p"] = { "discard_write", own }, ["dot p"] = { "read", own },
    ["dot v"] = { "read", own }, ["advance inside"] = { "read", own },
    ["advance p"] = { "read", own }, ["advance v"] = { "read", own },
    ["advance u"] = { "read_write", own }, ["advance r"] = { "read_write", own },
    ["turn r"] = { "read", own }, ["turn p"] = { "read_write", own },
    ["compare x"] = { "read", own }, ["compare y"] = { "read", own },
    ["compare u"] = { "read", own } },
  plasma = {
    ["average total"] = { "read", all }, ["average to"] = { "discard_write", own } },
}
by_hand = by_hand[table.remove(arg, 1)]
if by_hand["to_gray rgb"] then -- its picture
  celer.io.save("in.png", celer.buffer("uint8_t", { 14, 18, 3 }, { init = function(y, x, c)
    return (y * 31 + x * 17 + c * 50) % 256
  end }))
  celer.drain()
end

local function points(map, chunk, buffer)
  local out, extents = {}, buffer.shape
  local function go(one, d, at)
    if d > #extents then out[at] = true return end
    for i = math.max(one.min[d - 1], 0), math.min(one.max[d - 1], extents[d]) - 1 do
      go(one, d + 1, at .. " " .. i)
    end
  end
  for _, one in ipairs { map(chunk, buffer) } do go(one, 1, "") end
  return out
end

local function covers(a, b)
  for at in pairs(a) do if not b[at] then return at end end
end

local function check(name, map, hand, range, buffer)
  for _ = 1, 12 do
    local low, high = {}, {}
    for d = 1, 3 do
      low[d] = range[d] and math.random(0, range[d] - 1)
      high[d] = range[d] and math.random(low[d] + 1, range[d])
    end
    local chunk = box.chunk(#range, low[1], low[2], low[3], high[1], high[2], high[3],
      range[1], range[2], range[3])
    local derived, wanted = points(map, chunk, buffer), points(hand, chunk, buffer)
    local more, less = covers(derived, wanted), covers(wanted, derived)
    if more or less then return print(name, "differs for", chunk, more, less) end
  end
  print(name)
end

local arrange, seen = functions.arrange, {}
function functions.arrange(cg, range, kernel, ...)
  local a = arrange(cg, range, kernel, ...)
  local short = kernel.name:gsub("^transpose_%d+$", "kernel")
  for _, p in ipairs(a.variant.order) do
    local argument, use = a.call.arguments[p.array], a.variant.uses[p.use]
    local name = use and short .. " " .. argument.name
    local hand = not seen[name or ""] and by_hand[name or ""]
    if hand then
      seen[name] = true
      if use.mode ~= hand[1] then print(name, "is", use.mode) end
      check(name, mappers.bind(mappers.of(a.variant, p.use), a.call), hand[2], a.call.most,
        a.given[p.array])
    end
  end
  return a
end
dofile(table.remove(arg, 1))
]==]

local programs = {
  { "wave_sim", "20", "4", accesses = 3 }, { "heat3d", "10", "2", accesses = 6 },
  { "nbody", "32", "1", accesses = 4 }, { "jacobi", "24", accesses = 4 },
  { "game_of_life", "20", "24", "2", accesses = 2 }, { "mandelbrot", "64", "20", accesses = 3 },
  { "transpose", "24", "12", accesses = 2 }, { "cg", "20", accesses = 15 },
  { "edges", "in.png", "out.png", accesses = 6 }, { "shallow_water", "24", "0.01", accesses = 2 },
  { "multigrid", "15", "1", accesses = 16 }, { "mhd", "vortex", "12", "0.005", accesses = 11 },
  { "adaptive", "4", "2", accesses = 7 }, { "sparse", "60", accesses = 15 },
  { "graph", "5", "4", "1", accesses = 9 }, { "mesh", "4", accesses = 21 },
  { "plasma", "16", "2", "1", accesses = 2 },
}

local root = io.popen("pwd"):read "*l"

describe("accesses", function()
  for _, program in ipairs(programs) do
    it("of " .. program[1] .. " are as they were by hand", function()
      local folder = scratch.folder()
      local path = folder .. "/watch.lua"
      local file = assert(io.open(path, "w"))
      file:write(watch)
      file:close()
      local words = { "run", "--advice", "off", "--no-sample", "--devices", "1", path,
        program[1], root .. "/examples/" .. program[1] .. ".lua", unpack(program, 2) }
      local r = celer.run(words, { cwd = folder, timeout = 120 })
      assert.equal(0, r.status, r.stderr)
      local n = 0
      for line in r.stdout:gmatch "[^\n]+" do
        assert.is_nil(line:match "^[%w_]+ [%l_]+\t.*", line)
        n = n + (line:find "^[%w_]+ [%l_]+$" and 1 or 0)
      end
      assert.equal(program.accesses, n, r.stdout)
    end)
  end
end)
