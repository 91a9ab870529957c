// molecules.cu -- examples/molecules.lua by hand, on one GPU: molecules.c, with
// an item for each atom.
//
//   molecules SIDE STEPS
//
// Atoms are counted into cells by atomics, so their order within a cell differs
// from run to run. The last line is JSON.
#include "particles.cuh"

struct atom {
  double x, y, z, u, v, w;
};

static const int THREADS = 128;

struct space {
  int side, n, across, cells;
  double length, width, reach2, dt, shift;
  const int *near;
  int *to, *count;
};

__device__ int layer(const space &s, double x) {
  const int at = int(floor(x / s.width));
  return at < 0 ? 0 : at >= s.across ? s.across - 1 : at;
}
__device__ int cell_of(const space &s, const atom &a) {
  return (layer(s, a.x) * s.across + layer(s, a.y)) * s.across + layer(s, a.z);
}
__device__ double nearest(const space &s, double d) {
  return d > s.length / 2 ? d - s.length : d < -s.length / 2 ? d + s.length : d;
}
__device__ double wrap(const space &s, double x) {
  return x < 0 ? x + s.length : x >= s.length ? x - s.length : x;
}

// celer.philox(seed, item, step): Philox4x32-10.
__device__ double uniform(unsigned seed, unsigned long long item,
                          unsigned step) {
  unsigned c[4] = {0, step, unsigned(item), unsigned(item >> 32)};
  unsigned key0 = seed, key1 = 0;
  for (int r = 0; r < 10; ++r) {
    const unsigned long long a = 0xd2511f53ull * c[0], b = 0xcd9e8d57ull * c[2];
    const unsigned d[4] = {unsigned(b >> 32) ^ c[1] ^ key0, unsigned(b),
                           unsigned(a >> 32) ^ c[3] ^ key1, unsigned(a)};
    for (int k = 0; k < 4; ++k) c[k] = d[k];
    key0 += 0x9e3779b9;
    key1 += 0xbb67ae85;
  }
  return (double(c[0] >> 5) * 67108864 + double(c[1] >> 6)) /
         9007199254740992.0;
}

__device__ void settle(const space &s, int i, const atom &a, atom *next) {
  next[i] = a;
  atomicAdd(&s.count[s.to[i] = cell_of(s, a)], 1);
}

__global__ void seed(space s, atom *next) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.n) return;
  const int cell = i / 4, j = i % 4;
  const double a = s.length / s.side, sign = i % 2 == 0 ? 1 : -1;
  double r[3];
  for (int k = 0; k < 3; ++k) r[k] = 4 * (uniform(1, i / 2, k) - 0.5) * sign;
  settle(s, i,
         {(cell / (s.side * s.side) + 0.25 + (j > 1 ? 0.5 : 0)) * a,
          (cell / s.side % s.side + 0.25 + (j % 2) / 2.0) * a,
          (cell % s.side + 0.25 + (j == 1 || j == 2 ? 0.5 : 0)) * a, r[0], r[1],
          r[2]},
         next);
}

__global__ void place(space s, const atom *next, atom *now, int *at) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < s.n) now[atomicAdd(&at[s.to[i]], 1)] = next[i];
}

__global__ void step(space s, const atom *now, atom *next, const int *first,
                     double half, double *potential, double *kinetic) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  double energy = 0, motion = 0;
  if (i < s.n) {
    atom a = now[i];
    const int c = cell_of(s, a);
    double fx = 0, fy = 0, fz = 0;
    for (int m = 0; m < 27; ++m) {
      const int other = s.near[27 * c + m], end = first[other + 1];
      for (int k = first[other]; k < end; ++k) {
        const double dx = nearest(s, a.x - now[k].x),
                     dy = nearest(s, a.y - now[k].y),
                     dz = nearest(s, a.z - now[k].z);
        const double r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < s.reach2 && r2 > 0) {
          const double q = 1 / r2, q3 = q * q * q, f = 48 * q * q3 * (q3 - 0.5);
          fx += f * dx;
          fy += f * dy;
          fz += f * dz;
          energy += 4 * q3 * (q3 - 1) - s.shift;
        }
      }
    }
    const double um = a.u + half * fx, vm = a.v + half * fy,
                 wm = a.w + half * fz;
    energy /= 2;
    motion = (um * um + vm * vm + wm * wm) / 2;
    a.u = um + s.dt / 2 * fx;
    a.v = vm + s.dt / 2 * fy;
    a.w = wm + s.dt / 2 * fz;
    a.x = wrap(s, a.x + s.dt * a.u);
    a.y = wrap(s, a.y + s.dt * a.v);
    a.z = wrap(s, a.z + s.dt * a.w);
    settle(s, i, a, next);
  }
  typedef cub::BlockReduce<double, THREADS> sum;
  __shared__ typename sum::TempStorage one, two;
  energy = sum(one).Sum(energy);
  motion = sum(two).Sum(motion);
  if (threadIdx.x == 0) {
    atomicAdd(potential, energy);
    atomicAdd(kinetic, motion);
  }
}

static int beside(const space &s, int c, int m, int by, int of) {
  return (c / by + m / of % 3 - 1 + s.across) % s.across;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  space s = {};
  s.side = atoi(argv[1]);
  const int steps = atoi(argv[2]);
  s.n = 4 * s.side * s.side * s.side;
  s.length = pow(s.n / 0.8442, 1.0 / 3);
  s.across = int(floor(s.length / 2.5));
  s.cells = s.across * s.across * s.across;
  s.width = s.length / s.across;
  s.reach2 = 6.25;
  s.dt = 0.002;
  s.shift = 4 * (pow(s.reach2, -6) - pow(s.reach2, -3));
  int *near = (int *)malloc(s.cells * 27 * sizeof(int));
  const int a = s.across;
  for (int c = 0; c < s.cells; ++c)
    for (int m = 0; m < 27; ++m)
      near[27 * c + m] =
          (beside(s, c, m, a * a, 9) * a + beside(s, c, m, a, 3)) * a +
          beside(s, c, m, 1, 1);
  int *there = zeros<int>(s.cells * 27);
  CHECK(cudaMemcpy(there, near, s.cells * 27 * sizeof(int), cudaMemcpyDefault));
  s.near = there;
  atom *now = zeros<atom>(s.n), *next = zeros<atom>(s.n);
  s.to = zeros<int>(s.n);
  s.count = zeros<int>(s.cells + 1);
  int *first = zeros<int>(s.cells + 1), *at = zeros<int>(s.cells + 1);
  double *sums = zeros<double>(2), found[2];
  library cub;
  const int blocks = (s.n + THREADS - 1) / THREADS;
  const auto sort = [&] {
    cub.exclusive(s.count, first, s.cells + 1);
    CHECK(cudaMemcpyAsync(at, first, s.cells * sizeof(int), cudaMemcpyDefault));
    place<<<blocks, THREADS>>>(s, next, now, at);
    CHECK(cudaMemsetAsync(s.count, 0, s.cells * sizeof(int)));
  };
  seed<<<blocks, THREADS>>>(s, next);
  sort();
  CHECK(cudaDeviceSynchronize());
  const double begin = ::now();
  for (int t = 0; t <= steps; ++t) {
    CHECK(cudaMemsetAsync(sums, 0, 2 * sizeof(double)));
    step<<<blocks, THREADS>>>(s, now, next, first, t == 0 ? 0 : s.dt / 2, sums,
                              sums + 1);
    sort();
  }
  CHECK(cudaMemcpy(found, sums, sizeof found, cudaMemcpyDefault));
  std::printf("{\"seconds\": %.9f, \"result\": %.12g}\n",
              (::now() - begin) / (steps + 1), (found[0] + found[1]) / s.n);
  return 0;
}
