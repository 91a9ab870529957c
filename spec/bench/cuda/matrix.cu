// A matrix that is written by rows and read by columns, one block of rows and one
// of columns for each GPU, by bare calls of NCCL from one thread, between kernels
// that touch next to nothing of it. `transpose`: in row-major order, so that each
// block that travels is packed, and unpacked by who gets it; `blocks`: such blocks
// lie side by side.
//   matrix GPUS MiB rounds transpose|blocks
#include "nccl.cuh"

enum { ROWS = 16 };

/* Block (d, e) is what GPU d gives to e. */
struct state {
  int devices;
  bool blocks;
  long side, width; /* elements; of a block */
  float4 *u[8], *out[8], *in[8];
  double *seen[8];

  float4 *at(int on, int d, int e) const {
    if (blocks) return u[on] + (d * devices + e) * width * width;
    return u[on] + d * width * side + e * width;
  }
  size_t bytes() const { return width * width * sizeof(float4); }
  /* From one looked at to the next. */
  long step() const { return blocks ? width * width : side * (width / ROWS); }
  int looked_at() const { return blocks ? 1 : ROWS; }
};

__global__ void touch(float4 *u, long row, long column, int columns, int t) {
  for (int e = 0; e < columns; ++e) u[threadIdx.x * row + e * column].x = t;
}

__global__ void look(const float4 *u, double *seen, int n, long row) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += u[r * row].x;
  *seen = sum;
}

static void copy(const state &s, float4 *block, float4 *packed, bool pack,
                 cudaStream_t stream) {
  const size_t run = s.width * sizeof(float4), row = s.side * sizeof(float4);
  CHECK(cudaMemcpy2DAsync(pack ? packed : block, pack ? run : row,
                          pack ? block : packed, pack ? row : run, run,
                          s.width, cudaMemcpyDeviceToDevice, stream));
}

static void exchange(const state &s, const gpus &g, int d, int e) {
  const long block = e * s.width * s.width;
  const void *from = s.blocks ? s.at(d, d, e) : s.out[d] + block;
  void *to = s.blocks ? s.at(d, e, d) : s.in[d] + block;
  NCCL(ncclSend(from, s.bytes(), ncclInt8, e, g.comm[d], g.stream[d]));
  NCCL(ncclRecv(to, s.bytes(), ncclInt8, e, g.comm[d], g.stream[d]));
}

static void round(const state &s, const gpus &g, int t) {
  for (int d = 0; d < s.devices; ++d) {
    CHECK(cudaSetDevice(d));
    touch<<<1, s.looked_at(), 0, g.stream[d]>>>(
        s.at(d, d, 0), s.step(), s.at(d, d, 1) - s.at(d, d, 0), s.devices, t);
    for (int e = 0; e < s.devices && !s.blocks; ++e)
      if (e != d)
        copy(s, s.at(d, d, e), s.out[d] + e * s.width * s.width, true,
             g.stream[d]);
  }
  NCCL(ncclGroupStart());
  for (int d = 0; d < s.devices; ++d)
    for (int e = 0; e < s.devices; ++e)
      if (e != d) exchange(s, g, d, e);
  NCCL(ncclGroupEnd());
  for (int d = 0; d < s.devices; ++d) {
    CHECK(cudaSetDevice(d));
    for (int e = 0; e < s.devices && !s.blocks; ++e)
      if (e != d)
        copy(s, s.at(d, e, d), s.in[d] + e * s.width * s.width, false,
             g.stream[d]);
    look<<<1, 1, 0, g.stream[d]>>>(
        s.at(d, 0, d), s.seen[d], s.devices * s.looked_at(),
        s.blocks ? s.devices * s.step() : s.step());
  }
}

int main(int argc, char **argv) {
  state s;
  s.devices = (int)number(argc, argv, 1, 2);
  const long mib = number(argc, argv, 2, 64);
  const int steps = (int)number(argc, argv, 3, 100);
  s.blocks = word(argc, argv, "blocks");
  const double started = now();
  const long unit = s.devices * ROWS;
  s.side = 0;
  while ((s.side + unit) * (s.side + unit) <= mib << 16) s.side += unit;
  s.width = s.side / s.devices;
  for (int d = 0; d < s.devices; ++d) {
    CHECK(cudaSetDevice(d));
    s.u[d] = room<float4>(s.side * s.side);
    s.out[d] = room<float4>(s.side * s.width);
    s.in[d] = room<float4>(s.side * s.width);
    s.seen[d] = room<double>(1);
    CHECK(cudaMemset(s.u[d], 0, s.side * s.side * sizeof(float4)));
  }
  const gpus g(s.devices);
  wait_all(s.devices);
  const double prepared = now() - started;
  const double seconds =
      timed(s.devices, 10, steps, [&](int t) { round(s, g, t); });
  double sum;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(&sum, s.seen[0], sizeof sum, cudaMemcpyDefault));
  report(prepared, seconds, sum);
}
