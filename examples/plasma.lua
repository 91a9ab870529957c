-- A plasma oscillation, particle in cell: electrons before a background of ions.
--
--   celer run plasma.lua [cells] [electrons per cell] [quarters of an oscillation]
--
-- Electrons are a list, in the order of their cells. Each one pushes itself to the bin of its
-- new cell, and its charge to the nodes beside it, whatever ranks have these. Values come in the
-- order of electrons: so the result is the same to the bit on any number of ranks.
-- Lengths are in cells, and a whole oscillation takes a time of 2 pi.
local celer = require "celer"
local q = celer.queue()

local cells = tonumber(arg[1]) or 64
local per_cell = tonumber(arg[2]) or 100
local quarters = tonumber(arg[3]) or 4
local STEPS = 32 -- in a quarter of an oscillation
local dt = math.pi / 2 / STEPS

celer.struct("electron", "double x, v;")
local k = celer.kernel([[
  CELER_FN void settle(electron p, const route<electron> &out, const route<double> &density) {
    const double x = p.x < 0 ? p.x + CELLS : p.x >= CELLS ? p.x - CELLS : p.x;
    const int cell = min(int(x), CELLS - 1);
    out.push(cell, {x, p.v});
    density.push(cell, (1 - (x - cell)) / PER_CELL);
    density.push((cell + 1) % CELLS, (x - cell) / PER_CELL);
  }
  kernel void start(item<1> it, route<electron> out, route<double> density) {
    const double x = (it[0] + 0.5) / PER_CELL;
    settle({x + 0.2 * sin(2 * M_PI * x / CELLS), 0}, out, density);
  }
  kernel void move(item<1> it, in<electron, 1> now, in<int64_t, 0> count, in<double, 1> field,
                   route<electron> out, route<double> density, double kick, double dt) {
    if (it[0] >= count()) return;
    electron p = now(it[0]);
    const int cell = min(int(p.x), CELLS - 1);
    const double part = p.x - cell;
    p.v -= kick * ((1 - part) * field(cell) + part * field((cell + 1) % CELLS));
    p.x += dt * p.v;
    settle(p, out, density);
  }
]], { defines = { CELLS = cells, PER_CELL = per_cell } })

local electrons = celer.list("electron", { bins = cells, name = "electrons" })
local density = celer.buffer("double", cells, { name = "density" })
local between = celer.buffer("double", cells, { name = "between" }) -- the field, between nodes
local field = celer.buffer("double", cells, { name = "field" })
local sum, energy = celer.scalar("double", 0), celer.scalar("double", 0)
local lack = celer.kernel(function(i, charge, to, total) -- also all sums of what lacks up to a node
  local x = 1 - charge[i]
  to[i] = x
  total:add((cells - i) * x)
end, { name = "lack" })
local average = celer.kernel(function(i, e, total, to, square)
  local x = 0.5 * (e[i - 1] + e[i]) - total / cells
  to[i] = x
  square:add(x * x)
end, { name = "average" })
local exact = { reproducible = true }

-- Of the density: the field, whose slope is the charge, and what energy it has.
local function solve()
  lack(cells, density, between, celer.sum(sum, exact))
  celer.scan("sum", between, between)
  average(cells, celer.periodic(between), sum, field, celer.sum(energy, exact))
end

local routes = { most = 2 }
local energies = {}
q:submit(function(cg)
  cg:parallel_for(cells * per_cell, k.start, cg:route(electrons, "append"),
    cg:route(density, "sum", routes))
end)
solve()
energies[0] = q:fence(energy)
for step = 0, quarters * STEPS - 1 do
  q:submit(function(cg)
    cg:parallel_for(electrons, k.move, cg:read(electrons.values), cg:read(electrons.count),
      cg:read(field, celer.all), cg:route(electrons, "append"), cg:route(density, "sum", routes),
      step == 0 and dt / 2 or dt, dt) -- velocities are half a step ahead
  end)
  solve()
  if (step + 1) % STEPS == 0 then energies[(step + 1) / STEPS] = q:fence(energy) end
end
local first = energies[0]:get()()
for quarter = 0, quarters do
  print(("after %d/4 of an oscillation: %.4f of the field's energy"):format(quarter,
    energies[quarter]:get()() / first))
end
print(("%d electrons, |E|^2 = %.17g"):format(tonumber(electrons.count()),
  energies[quarters]:get()()))
