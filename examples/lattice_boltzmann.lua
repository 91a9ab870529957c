-- Flow past a cylinder by the lattice-Boltzmann method (D2Q9), with pictures of the
-- vorticity: the wake breaks up into a Karman vortex street.
-- The kernels are in C++, with `defines`, which the compiler knows.
--   celer run lattice_boltzmann.lua [height] [steps] [steps per picture] [folder]
local celer = require "celer"

local h = tonumber(arg[1]) or 120
local w = 3 * h
local steps = tonumber(arg[2]) or 4000
local every = tonumber(arg[3]) or 1000
local folder = arg[4] or "frames"

local wind, radius = 0.1, h / 12       -- in cells per step, and in cells
local viscosity = 2 * radius * wind / 150 -- a Reynolds number of 150
local omega = 1 / (3 * viscosity + 0.5)

local q = celer.queue()
-- How many particles of each cell go in each of nine directions.
local f = celer.buffer("float", { 9, h, w }, { name = "f" })
local g = celer.buffer("float", { 9, h, w }, { name = "g" })
local velocity = celer.buffer("float2", { h, w }, { name = "velocity" })
local vorticity = celer.buffer("float", { h, w }, { name = "vorticity" })

local kernels = celer.kernel([[
  // Direction q leads (DY[q], DX[q]) cells on: 3 to 5 to the next row, 6 to 8 to the
  // one before.
  #define DIRECTIONS const int DY[] = {0, 0, 0, 1, 1, 1, -1, -1, -1}, \
                               DX[] = {0, 1, -1, 0, 1, -1, 0, -1, 1}
  __device__ int opposite(int q) { return q == 0 ? 0 : q < 3 ? 3 - q : q < 6 ? q + 3 : q - 3; }

  // What there is of each direction when density and velocity are settled.
  __device__ float settled(int dy, int dx, float density, float v, float u) {
    const float weight = (dy == 0 ? 4.f : 1.f) * (dx == 0 ? 4.f : 1.f) / 36;
    const float along = 3 * (dy * v + dx * u);
    return weight * density * (1 + along + along * along / 2 - 1.5f * (v * v + u * u));
  }

  __device__ bool solid(int y, int x) {
    const float dy = y - CY, dx = x - CX;
    return dy * dy + dx * dx < RADIUS * RADIUS;
  }

  // A wind from the left, with a gust that saves waiting for the first vortex. The
  // radius may be a whole number, by which an x would be divided without a rest.
  kernel void begin(item<2> it, out<float, 3> f) {
    DIRECTIONS;
    const int y = it[0], x = it[1];
    for (int q = 0; q < 9; ++q)
      f(q, y, x) = settled(DY[q], DX[q], 1, 0.1f * WIND * sinf(x / float(RADIUS)), WIND);
  }

  kernel void step(item<2> it, in<float, 3> f, out<float, 3> g) {
    DIRECTIONS;
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const bool free = y == 0 || y == h - 1 || x == 0; // where the wind is as it was
    float here[9], density = 0, v = 0, u = 0;
    #pragma unroll
    for (int q = 0; q < 9; ++q) { // who arrives; the cylinder sends back
      const int fy = clamp(y - DY[q], 0, h - 1), fx = clamp(x - DX[q], 0, w - 1);
      here[q] = solid(fy, fx) ? f(opposite(q), y, x) : f(q, fy, fx);
      density += here[q];
      v += DY[q] * here[q];
      u += DX[q] * here[q];
    }
    density = free ? 1 : density;
    v = free ? 0 : v / density;
    u = free ? WIND : u / density;
    #pragma unroll
    for (int q = 0; q < 9; ++q) { // they collide
      const float goal = settled(DY[q], DX[q], density, v, u);
      g(q, y, x) = free ? goal : here[q] + OMEGA * (goal - here[q]);
    }
  }

  kernel void move(item<2> it, in<float, 3> f, out<float2, 2> velocity) {
    DIRECTIONS;
    float density = 0, v = 0, u = 0;
    #pragma unroll
    for (int q = 0; q < 9; ++q) {
      const float n = f(q, it[0], it[1]);
      density += n;
      v += DY[q] * n;
      u += DX[q] * n;
    }
    velocity(it[0], it[1]) = make_float2(u / density, v / density);
  }

  // No number inside of the cylinder, so that the picture shows it.
  kernel void turn(item<2> it, in<float2, 2> velocity, out<float, 2> vorticity) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const float dv = velocity(y, min(x + 1, w - 1)).y - velocity(y, max(x - 1, 0)).y;
    const float du = velocity(min(y + 1, h - 1), x).x - velocity(max(y - 1, 0), x).x;
    vorticity(y, x) = solid(y, x) ? NAN : (dv - du) * RADIUS / WIND;
  }
]], { defines = { WIND = wind, OMEGA = omega, RADIUS = radius, CY = 0.49 * h, CX = h / 2 } })

-- The nine directions of a chunk's cells.
local function cells(chunk)
  return celer.box({ 0, chunk.min[0], chunk.min[1] }, { 9, chunk.max[0], chunk.max[1] })
end
-- With the cells around it: from the row before come three directions, and three from
-- the one after.
local function around(chunk)
  local near = cells(chunk):grow(0, 0, 1)
  local first, last = chunk.min[0], chunk.max[0]
  return near, near:with(0, 3, 6):with(1, celer.max(first - 1, 0), last),
    near:with(0, 6, 9):with(1, first, celer.min(last + 1, h))
end

local function picture(step)
  q:submit(function(cg)
    cg:parallel_for({ h, w }, kernels.move, cg:read(f, cells), cg:discard_write(velocity))
  end)
  q:submit(function(cg)
    local v = cg:read(velocity, celer.neighborhood(1, 1, "along_axes"))
    cg:parallel_for({ h, w }, kernels.turn, v, cg:discard_write(vorticity))
  end)
  q:submit(function(cg)
    cg:name "picture"
    cg:host_task(celer.on_master, function(_, seen)
      celer.png(("%s/flow_%05d.png"):format(folder, step), seen,
        { min = -2, max = 2, colors = "diverging" })
    end, cg:read(vorticity, celer.all))
  end)
end

q:submit(function(cg)
  cg:parallel_for({ h, w }, kernels.begin, cg:discard_write(f, cells))
end)
for t in celer.progress(steps) do
  q:submit(function(cg)
    local from, to = cg:read(f, around), cg:discard_write(g, cells)
    cg:parallel_for({ h, w }, kernels.step, from, to)
  end)
  f, g = g, f
  if t % every == 0 or t == steps then picture(t) end
end

local wake = math.floor(w / 2)
local column = q:drain(celer.capture(velocity, celer.box({ 0, wake }, { h, wake + 1 })))
local least, most = 0, 0
for y = 0, h - 1 do
  local v = column(y, wake).y
  least, most = math.min(least, v), math.max(most, v)
end
print(("%d steps of %d x %d cells"):format(steps, h, w))
print(("across the wake the wind is from %.9g to %.9g"):format(least, most))
print(("last picture: %s/flow_%05d.png"):format(folder, steps))
