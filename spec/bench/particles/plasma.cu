// plasma.cu -- examples/plasma.lua by hand, on one GPU: plasma.c, with an item
// for each electron.
//
//   plasma CELLS PER_CELL QUARTERS
//
// Electrons are counted into cells by atomics, and leave their charge by
// atomics: so the order within a cell, and the last bits, differ from run to
// run. Few cells are counted in shared memory first. The last line is JSON.
#include "particles.cuh"

struct electron {
  double x, v;
};

static int cells, per_cell, n;
static const int THREADS = 256, FEW = 2048;

struct grid {
  int cells, per_cell, n;
  int *to, *count;
  double *density;
};

// Where an electron is then; its charge, and a place in its cell.
__device__ electron settle(const grid &g, int i, electron p, int *count,
                           double *density) {
  const double x = p.x < 0          ? p.x + g.cells
                   : p.x >= g.cells ? p.x - g.cells
                                    : p.x;
  const int cell = min(int(x), g.cells - 1);
  const double part = x - cell;
  g.to[i] = cell;
  atomicAdd(&count[cell], 1);
  atomicAdd(&density[cell], (1 - part) / g.per_cell);
  atomicAdd(&density[cell + 1 < g.cells ? cell + 1 : 0], part / g.per_cell);
  return {x, p.v};
}

template <bool IsFew, class F>
__device__ void each(const grid &g, F electron_of, electron *next) {
  extern __shared__ double room[];
  double *const density = IsFew ? room : g.density;
  int *const count = IsFew ? (int *)(room + g.cells) : g.count;
  if (IsFew) {
    for (int c = threadIdx.x; c < g.cells; c += blockDim.x)
      density[c] = 0, count[c] = 0;
    __syncthreads();
  }
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < g.n;
       i += gridDim.x * blockDim.x)
    next[i] = settle(g, i, electron_of(i), count, density);
  if (IsFew) {
    __syncthreads();
    for (int c = threadIdx.x; c < g.cells; c += blockDim.x) {
      if (count[c] != 0) atomicAdd(&g.count[c], count[c]);
      if (density[c] != 0) atomicAdd(&g.density[c], density[c]);
    }
  }
}

template <bool IsFew> __global__ void start(grid g, electron *next) {
  const double pi = acos(-1.0);
  each<IsFew>(
      g,
      [&](int i) {
        const double x = (i + 0.5) / g.per_cell;
        return electron{x + 0.2 * sin(2 * pi * x / g.cells), 0};
      },
      next);
}

template <bool IsFew>
__global__ void move(grid g, const electron *now, electron *next,
                     const double *field, double kick, double dt) {
  each<IsFew>(
      g,
      [&](int i) {
        electron p = now[i];
        const int cell = min(int(p.x), g.cells - 1);
        const double part = p.x - cell;
        p.v -= kick * ((1 - part) * field[cell] +
                       part * field[cell + 1 < g.cells ? cell + 1 : 0]);
        p.x += dt * p.v;
        return p;
      },
      next);
}

// The next place of each cell is in `first`. Those of a block that go to the
// same cell take their places together where cells are few.
template <bool IsFew>
__global__ void place(grid g, const electron *next, electron *now, int *first) {
  extern __shared__ double room[];
  int *const count = (int *)room;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if constexpr (!IsFew) {
    if (i < g.n) now[atomicAdd(&first[g.to[i]], 1)] = next[i];
  } else {
    for (int c = threadIdx.x; c < g.cells; c += blockDim.x) count[c] = 0;
    __syncthreads();
    int cell = 0, mine = 0;
    if (i < g.n) mine = atomicAdd(&count[cell = g.to[i]], 1);
    __syncthreads();
    for (int c = threadIdx.x; c < g.cells; c += blockDim.x)
      if (count[c] != 0) count[c] = atomicAdd(&first[c], count[c]);
    __syncthreads();
    if (i < g.n) now[count[cell] + mine] = next[i];
  }
}

__global__ void lack(const double *density, double *between, int n) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < n) between[c] = 1 - density[c];
}

__global__ void slope(const double *between, const double *total, double *field,
                      double *square, int n) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= n) return;
  const double e =
      0.5 * (between[c > 0 ? c - 1 : n - 1] + between[c]) - *total / n;
  field[c] = e;
  square[c] = e * e;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  cells = atoi(argv[1]);
  per_cell = atoi(argv[2]);
  const int quarters = atoi(argv[3]);
  n = cells * per_cell;
  const bool few = cells <= FEW;
  electron *now = zeros<electron>(n), *next = zeros<electron>(n);
  grid g = {cells,         per_cell,          n,
            zeros<int>(n), zeros<int>(cells), zeros<double>(cells)};
  int *first = zeros<int>(cells);
  double *between = zeros<double>(cells), *field = zeros<double>(cells);
  double *square = zeros<double>(cells), *sums = zeros<double>(2);
  const int blocks = (n + THREADS - 1) / THREADS;
  const int of_cells = (cells + THREADS - 1) / THREADS;
  const size_t bytes = few ? cells * 12 : 0;
  const int wide = few ? 132 * 4 : blocks;
  const double pi = acos(-1.0), dt = pi / 2 / 32;
  library cub;
  const auto sort = [&] {
    cub.exclusive(g.count, first, cells);
    const int each = few ? 1024 : THREADS;
    (few ? place<true>
         : place<false>)<<<(n + each - 1) / each, each, few ? cells * 4 : 0>>>(
        g, next, now, first);
  };
  const auto solve = [&] {
    lack<<<of_cells, THREADS>>>(g.density, between, cells);
    cub.inclusive(between, between, cells);
    cub.sum(between, sums, cells);
    slope<<<of_cells, THREADS>>>(between, sums, field, square, cells);
    cub.sum(square, sums + 1, cells);
  };
  const auto clear = [&] {
    CHECK(cudaMemsetAsync(g.count, 0, cells * 4));
    CHECK(cudaMemsetAsync(g.density, 0, cells * 8));
  };
  const auto step = [&](double kick) {
    clear();
    (few ? move<true> : move<false>)<<<wide, THREADS, bytes>>>(g, now, next,
                                                               field, kick, dt);
    sort();
    solve();
  };
  clear();
  (few ? start<true> : start<false>)<<<wide, THREADS, bytes>>>(g, next);
  sort();
  solve();
  step(dt / 2);
  CHECK(cudaDeviceSynchronize());
  const double begin = ::now();
  for (int t = 1; t < 32 * quarters; ++t) step(dt);
  double energy;
  CHECK(cudaMemcpy(&energy, sums + 1, 8, cudaMemcpyDefault));
  std::printf("{\"seconds\": %.9f, \"result\": %.12g}\n",
              (::now() - begin) / (32 * quarters - 1), energy);
  return 0;
}
