-- Conjugate gradients: solves the five-point equations of an n x n grid, and stops
-- once it has converged.
--
--   celer run cg.lua [n] [tolerance]
--
-- Every step makes two numbers of all elements, by reductions, and needs them in
-- the next kernel. They never leave the devices but for the residual, which the
-- script asks for AHEAD steps before it looks: the devices always have work.
local celer = require "celer"
local q = celer.queue()

local n = tonumber(arg[1]) or 256
local tolerance = tonumber(arg[2]) or 1e-8
local AHEAD = 4

local kernels = celer.kernel [[
  // The solution, which is 0 around the grid, and -laplace of it.
  __device__ double wanted(int i, int n) { return double(i + 1) * (n - i); }

  kernel void start(item<2> it, out<double, 2> x, out<double, 2> r, out<double, 2> p,
                    reducer<double> rr) {
    const int i = it[0], j = it[1], n = it.range(0);
    const double b = 2 * (wanted(i, n) + wanted(j, n));
    x(i, j) = 0;
    r(i, j) = p(i, j) = b;
    rr += b * b;
  }
  // q = A p, and p . q.
  kernel void apply(item<2> it, in<double, 2> p, out<double, 2> q, reducer<double> pq) {
    const int i = it[0], j = it[1], n = it.range(0);
    const double around = (i > 0 ? p(i - 1, j) : 0) + (i < n - 1 ? p(i + 1, j) : 0)
      + (j > 0 ? p(i, j - 1) : 0) + (j < n - 1 ? p(i, j + 1) : 0);
    const double v = 4 * p(i, j) - around;
    q(i, j) = v;
    pq += p(i, j) * v;
  }
  // One step along p, and what is left.
  kernel void step(item<2> it, in<double, 2> p, in<double, 2> q, in<double, 0> rr,
                   in<double, 0> pq, inout<double, 2> x, inout<double, 2> r,
                   reducer<double> left) {
    const double a = pq() > 0 ? rr() / pq() : 0;
    x(it[0], it[1]) += a * p(it[0], it[1]);
    const double v = r(it[0], it[1]) - a * q(it[0], it[1]);
    r(it[0], it[1]) = v;
    left += v * v;
  }
  // The next direction.
  kernel void turn(item<2> it, in<double, 2> r, in<double, 0> rr, in<double, 0> before,
                   inout<double, 2> p) {
    const double b = before() > 0 ? rr() / before() : 0;
    p(it[0], it[1]) = r(it[0], it[1]) + b * p(it[0], it[1]);
  }
  kernel void compare(item<2> it, in<double, 2> x, reducer<double> error) {
    const int n = it.range(0);
    error.combine(fabs(x(it[0], it[1]) - wanted(it[0], n) * wanted(it[1], n)));
  }
]]

local function grid(name) return celer.buffer("double", { n, n }, { name = name }) end
local function number(name) return celer.buffer("double", {}, { name = name }) end
local x, r, p, v = grid "x", grid "r", grid "p", grid "q"
local rr, before, pq, error_ = number "rr", number "before", number "pq", number "error"

local function launch(kernel, declare)
  q:submit(function(cg) cg:parallel_for({ n, n }, kernel, declare(cg)) end)
end

launch(kernels.start, function(cg)
  return cg:discard_write(x), cg:discard_write(r), cg:discard_write(p), cg:reduce(rr, "sum")
end)

local around = celer.neighborhood(1, 1, "along_axes")
local residuals, steps, first = {}, 0, nil
repeat
  launch(kernels.apply, function(cg)
    return cg:read(p, around), cg:discard_write(v), cg:reduce(pq, "sum")
  end)
  rr, before = before, rr
  launch(kernels.step, function(cg)
    return cg:read(p), cg:read(v), cg:read(before, celer.all), cg:read(pq, celer.all),
      cg:read_write(x), cg:read_write(r), cg:reduce(rr, "sum")
  end)
  launch(kernels.turn, function(cg)
    return cg:read(r), cg:read(rr, celer.all), cg:read(before, celer.all), cg:read_write(p)
  end)
  steps = steps + 1
  residuals[steps] = q:fence(rr)
  local seen = steps - AHEAD
  local left = seen > 0 and residuals[seen]:get()()
  first = first or left
  if seen > 0 then residuals[seen] = nil end
until (left and left <= tolerance ^ 2 * first) or steps >= 4 * n

launch(kernels.compare, function(cg) return cg:read(x), cg:reduce(error_, "max") end)
local worst = q:drain(error_)() / (n + 1) ^ 4 * 16 -- of the largest value
print(("%d x %d: %d steps, relative error below %.0e: %s"):format(n, n, steps,
  100 * tolerance, worst < 100 * tolerance))
