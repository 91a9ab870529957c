// What all GPUs exchange, by bare calls of NCCL from one thread, between kernels
// that touch next to nothing of it.
//   collectives GPUS MiB rounds all_gather|uneven|broadcast|scatter|gather
#include "nccl.cuh"

enum { ROWS = 16 };

__global__ void touch(float4 *u, long row, int t) {
  u[(blockIdx.x * 32 + threadIdx.x) * row].x = t;
}

__global__ void look(const float4 *u, double *seen, int n, long row) {
  double sum = 0;
  for (int r = 0; r < n; ++r) sum += u[r * row].x;
  *seen = sum;
}

struct state {
  int devices;
  long rows, row, first[9]; /* rows of device d: [first[d], first[d + 1]) */
  float4 *u[8];
  double *seen[8];
  cudaStream_t stream[8];
  ncclComm_t comm[8];

  float4 *part(int on, int d) const { return u[on] + first[d] * row; }
  size_t bytes(int d) const {
    return (first[d + 1] - first[d]) * row * sizeof(float4);
  }
};

/* What device d has of the round's collective; within a group. */
static void exchange(const state &s, const char *pattern, int d) {
  const size_t all = s.rows * s.row * sizeof(float4);
  if (!std::strcmp(pattern, "all_gather"))
    NCCL(ncclAllGather(s.part(d, d), s.u[d], s.bytes(d), ncclInt8, s.comm[d],
                       s.stream[d]));
  else if (!std::strcmp(pattern, "uneven"))
    for (int e = 0; e < s.devices; ++e)
      NCCL(ncclBroadcast(s.part(d, e), s.part(d, e), s.bytes(e), ncclInt8, e,
                         s.comm[d], s.stream[d]));
  else if (!std::strcmp(pattern, "broadcast"))
    NCCL(ncclBroadcast(s.u[d], s.u[d], all, ncclInt8, 0, s.comm[d],
                       s.stream[d]));
  else
    for (int e = 1; e < s.devices; ++e) {
      const bool out = !std::strcmp(pattern, "scatter");
      if (d != 0 && d != e) continue;
      if ((d == 0) == out)
        NCCL(ncclSend(s.part(d, e), s.bytes(e), ncclInt8, d == 0 ? e : 0,
                      s.comm[d], s.stream[d]));
      else
        NCCL(ncclRecv(s.part(d, e), s.bytes(e), ncclInt8, d == 0 ? e : 0,
                      s.comm[d], s.stream[d]));
    }
}

static void round(const state &s, const char *pattern, int t) {
  const bool one = !std::strcmp(pattern, "broadcast") ||
                   !std::strcmp(pattern, "scatter");
  for (int d = 0; d < s.devices; ++d) {
    if (one && d > 0) break;
    CHECK(cudaSetDevice(d));
    const int n = (int)(one ? s.rows : s.first[d + 1] - s.first[d]);
    for (int at = 0; at < n; at += 32)
      touch<<<1, n - at < 32 ? n - at : 32, 0, s.stream[d]>>>(
          s.part(d, one ? 0 : d) + at * s.row, s.row, t);
  }
  NCCL(ncclGroupStart());
  for (int d = 0; d < s.devices; ++d) exchange(s, pattern, d);
  NCCL(ncclGroupEnd());
  const bool part = !std::strcmp(pattern, "scatter");
  for (int d = 0; d < s.devices; ++d) {
    if (d > 0 && !std::strcmp(pattern, "gather")) break;
    CHECK(cudaSetDevice(d));
    look<<<1, 1, 0, s.stream[d]>>>(part ? s.part(d, d) : s.u[d], s.seen[d],
                                   (int)(part ? ROWS : s.rows), s.row);
  }
}

int main(int argc, char **argv) {
  state s;
  s.devices = (int)number(argc, argv, 1, 2);
  const long mib = number(argc, argv, 2, 64);
  const int steps = (int)number(argc, argv, 3, 100), warm = 10;
  const char *pattern = argc > 4 ? argv[4] : "all_gather";
  const double started = now();
  s.rows = s.devices * ROWS + !std::strcmp(pattern, "uneven");
  s.row = (mib << 16) / s.rows;
  for (int d = 0; d <= s.devices; ++d)
    s.first[d] = d * ROWS + (d < s.rows % s.devices ? d : s.rows % s.devices);
  for (int d = 0; d < s.devices; ++d) {
    CHECK(cudaSetDevice(d));
    s.u[d] = room<float4>(s.rows * s.row);
    s.seen[d] = room<double>(1);
    CHECK(cudaMemset(s.u[d], 0, s.rows * s.row * sizeof(float4)));
    CHECK(cudaStreamCreateWithFlags(&s.stream[d], cudaStreamNonBlocking));
  }
  NCCL(ncclCommInitAll(s.comm, s.devices, nullptr));
  wait_all(s.devices);
  for (int t = 0; t < warm; ++t) round(s, pattern, t);
  wait_all(s.devices);
  const double prepared = now() - started;
  const double begin = now();
  for (int t = warm; t < warm + steps; ++t) round(s, pattern, t);
  wait_all(s.devices);
  const double seconds = now() - begin;
  double sum;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(&sum, s.seen[0], sizeof sum, cudaMemcpyDefault));
  report(prepared, seconds, sum);
}
