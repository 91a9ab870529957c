-- Molecular dynamics: atoms of Lennard-Jones, by lists of those in each cell.
--
--   celer run molecules.lua [cells of the crystal along a side, 5 or more] [steps]
--
-- Cells are as wide as atoms reach, at least, so an atom meets those of 27 cells. Items are atoms,
-- in the order of their cells: each one computes the force on it, moves, and pushes itself to the
-- cell where it is then. An atom knows its cell, so a rank reads those of its atoms' 27 cells
-- alone. Velocities are half a step behind; energies are of whole steps. Sums are exact: the bits
-- are those of any number of ranks.
local celer = require "celer"
local q = celer.queue()

local side, steps = tonumber(arg[1]) or 6, tonumber(arg[2]) or 100
local n = 4 * side ^ 3
local length = (n / 0.8442) ^ (1 / 3)
local REACH2, DT = 2.5 ^ 2, 0.002
local across = math.floor(length / 2.5) -- cells
local cells, width = across ^ 3, length / across
local SHIFT = 4 * (REACH2 ^ -6 - REACH2 ^ -3) -- the energy at the end of the reach

local function layer(x) return celer.clamp(math.floor(x / width), 0, across - 1) end
local function cell_of(x, y, z) return (layer(x) * across + layer(y)) * across + layer(z) end
local function nearest(d) -- the same way around a side
  if math.abs(d) <= length / 2 then return d end
  if d > 0 then return d - length end
  return d + length
end
local function wrap(x)
  if x < 0 then return x + length end
  if x >= length then return x - length end
  return x
end

-- A crystal whose atoms go anywhere, in pairs of which each is as fast as the other.
local function speed(i, axis)
  return 4 * (celer.philox(1, math.floor(i / 2), axis) - 0.5) * (1 - i % 2 * 2)
end
local seed = celer.kernel(function(i, atoms)
  local cell, j, a = math.floor(i / 4), i % 4, length / side
  local x = (math.floor(cell / side ^ 2) + 0.25 + (j > 1 and 0.5 or 0)) * a
  local y = (math.floor(cell / side) % side + 0.25 + j % 2 / 2) * a
  local z = (cell % side + 0.25 + ((j == 1 or j == 2) and 0.5 or 0)) * a
  local at = cell_of(x, y, z)
  atoms:push(at, { x = x, y = y, z = z, u = speed(i, 0), v = speed(i, 1), w = speed(i, 2),
    cell = at })
end, { name = "seed" })

local step = celer.kernel(function(i, first, now, near, half, atoms, potential, kinetic)
  local x, y, z, fx, fy, fz, energy = now[i].x, now[i].y, now[i].z, 0, 0, 0, 0
  local c = celer.clamp(now[i].cell, 0, cells - 1)
  for m = 0, 26 do
    for k = first[near[c][m]], first[near[c][m] + 1] - 1 do
      local dx, dy, dz = x - now[k].x, y - now[k].y, z - now[k].z
      dx, dy, dz = nearest(dx), nearest(dy), nearest(dz)
      local r2 = dx * dx + dy * dy + dz * dz
      if r2 < REACH2 and r2 > 0 then
        local s = 1 / r2
        local s3 = s * s * s
        local f = 48 * s * s3 * (s3 - 0.5)
        fx, fy, fz = fx + f * dx, fy + f * dy, fz + f * dz
        energy = energy + 4 * s3 * (s3 - 1) - SHIFT
      end
    end
  end
  local u, v, w = now[i].u, now[i].v, now[i].w -- to the middle of the step, then to its end
  local um, vm, wm = u + half * fx, v + half * fy, w + half * fz
  potential:add(energy / 2)
  kinetic:add((um * um + vm * vm + wm * wm) / 2)
  u, v, w = um + DT / 2 * fx, vm + DT / 2 * fy, wm + DT / 2 * fz
  x, y, z = wrap(x + DT * u), wrap(y + DT * v), wrap(z + DT * w)
  local cell = cell_of(x, y, z)
  atoms:push(cell, { x = x, y = y, z = z, u = u, v = v, w = w, cell = cell })
end, { name = "step" })

celer.struct("atom", "double x, y, z, u, v, w; int cell;")
local atoms = celer.list("atom", { bins = cells, capacity = n, name = "atoms" })
local near = celer.buffer("int", { cells, 27 }, { name = "near", init = function(c, m)
  local function beside(by, of)
    return (math.floor(c / by) + math.floor(m / of) % 3 - 1) % across
  end
  return (beside(across ^ 2, 9) * across + beside(across, 3)) * across + beside(1, 1)
end })
local potential, kinetic = celer.scalar("double", 0), celer.scalar("double", 0)
local exact = { reproducible = true }
q:parallel_for(n, seed, celer.route(atoms, "append"))
for t = 0, steps do
  q:parallel_for(n, step, atoms.offsets, atoms.values, near, t == 0 and 0 or DT / 2,
    celer.route(atoms, "append"), celer.sum(potential, exact), celer.sum(kinetic, exact))
  if t % math.max(steps / 4, 1) == 0 then
    local u, k, count = q:wait(potential, kinetic, atoms.count)
    print(("step %d: %.12g potential, %.12g kinetic, %.12g in all, of %d atoms"):format(t, u() / n,
      k() / n, (u() + k()) / n, tonumber(count())))
  end
end
