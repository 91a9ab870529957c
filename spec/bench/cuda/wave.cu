// The wave step by hand: rows are divided among the GPUs; boundary rows come
// first, and their peer copies run beside the interior.
//   wave GPUS rows columns steps [one|idle]
// Without `one` each GPU has a submitting thread; `idle` stamps each step.
#include <atomic>
#include <thread>

#include "common.cuh"

__global__ void drop(float *u, long first, int h, int w, int rows) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const float dy = first + y - rows / 4, dx = x - w / 3, width = w / 24;
  u[(long)y * w + x] = expf(-(dy * dy + dx * dx) / (width * width));
}

__device__ static unsigned long long stamp() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// Rows y0, y0 + skip, ... (count of them); row 0 of the pointers is the first
// that this GPU owns; a halo row lies before it and after the last.
template <bool STAMPED>
__global__ void step(float *__restrict__ up, const float *__restrict__ u,
                     int y0, int skip, int count, int w, int lowest,
                     int highest, float c, unsigned long long *begin,
                     unsigned long long *end) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int k = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || k >= count) return;
  const int y = y0 + k * skip;
  if (STAMPED && x == 0) begin[y] = stamp();
  const long r = (long)y * w;
  const float uy = u[(long)min(y + 1, highest) * w + x] +
                   u[(long)max(y - 1, lowest) * w + x];
  const float ux = u[r + min(x + 1, w - 1)] + u[r + max(x - 1, 0)];
  up[r + x] = 2 * u[r + x] - up[r + x] + c * (ux + uy - 4 * u[r + x]);
  if (STAMPED && x == w - 1) end[y] = stamp();
}

__global__ void row_sums(const float *u, double *sums, int h, int w) {
  const int y = blockIdx.x * blockDim.x + threadIdx.x;
  if (y >= h) return;
  double sum = 0;
  for (int x = 0; x < w; ++x) sum += fabsf(u[(long)y * w + x]);
  sums[y] = sum;
}

struct Part {
  int h, lowest, highest;
  long first;
  float *field[2]; // at the first row owned
  cudaStream_t edge, inner;
  cudaEvent_t computed[2], sent[2], done[2];
  std::atomic<int> issued{0};
};

static Part part[8];
static int devices, w;
static unsigned long long *begins, *ends;
static const dim3 block(32, 8);

static dim3 grid(int h) {
  return dim3((w + 31) / 32, (h + 7) / 8);
}

static void launch(Part &p, cudaStream_t s, int t, int y0, int skip,
                   int count) {
  float *up = p.field[t & 1], *u = p.field[~t & 1];
  if (begins)
    step<true><<<grid(count), block, 0, s>>>(
        up, u, y0, skip, count, w, p.lowest, p.highest, 0.25f,
        begins + (long)t * p.h, ends + (long)t * p.h);
  else
    step<false><<<grid(count), block, 0, s>>>(up, u, y0, skip, count, w,
                                              p.lowest, p.highest, 0.25f,
                                              nullptr, nullptr);
}

// Step t of GPU d. Its neighbours have issued step t - 1.
static void issue(int d, int t) {
  Part &p = part[d];
  if (devices == 1) {
    launch(p, p.inner, t, 0, 1, p.h);
    return;
  }
  const int now = t & 1, before = ~t & 1;
  if (t > 0) {
    CHECK(cudaStreamWaitEvent(p.edge, p.done[before]));
    if (d > 0) CHECK(cudaStreamWaitEvent(p.edge, part[d - 1].sent[before]));
    if (d + 1 < devices)
      CHECK(cudaStreamWaitEvent(p.edge, part[d + 1].sent[before]));
    CHECK(cudaStreamWaitEvent(p.inner, p.computed[before]));
  }
  launch(p, p.edge, t, 0, p.h - 1, 2);
  CHECK(cudaEventRecord(p.computed[now], p.edge));
  launch(p, p.inner, t, 1, 1, p.h - 2);
  CHECK(cudaEventRecord(p.done[now], p.inner));
  float *mine = p.field[now];
  const size_t row = w * sizeof(float);
  if (d > 0) {
    Part &q = part[d - 1];
    CHECK(cudaMemcpyPeerAsync(q.field[now] + (long)q.h * w, d - 1, mine, d, row,
                              p.edge));
  }
  if (d + 1 < devices)
    CHECK(cudaMemcpyPeerAsync(part[d + 1].field[now] - w, d + 1,
                              mine + (long)(p.h - 1) * w, d, row, p.edge));
  CHECK(cudaEventRecord(p.sent[now], p.edge));
}

static void from_one_thread(int from, int to) {
  for (int t = from; t < to; ++t)
    for (int d = 0; d < devices; ++d) {
      CHECK(cudaSetDevice(d));
      issue(d, t);
    }
}

static void submit(int d, int from, int to) {
  CHECK(cudaSetDevice(d));
  for (int t = from; t < to; ++t) {
    if (d > 0)
      while (part[d - 1].issued.load() < t) {
      }
    if (d + 1 < devices)
      while (part[d + 1].issued.load() < t) {
      }
    issue(d, t);
    part[d].issued.store(t + 1);
  }
}

static void from_threads(int from, int to) {
  std::vector<std::thread> threads;
  for (int d = 1; d < devices; ++d) threads.emplace_back(submit, d, from, to);
  submit(0, from, to);
  for (auto &t : threads) t.join();
}

static void prepare(int d, int rows) {
  CHECK(cudaSetDevice(d));
  Part &p = part[d];
  p.first = (long)rows * d / devices;
  p.h = (int)((long)rows * (d + 1) / devices - p.first);
  p.lowest = d > 0 ? -1 : 0;
  p.highest = d + 1 < devices ? p.h : p.h - 1;
  CHECK(cudaStreamCreateWithPriority(&p.edge, cudaStreamNonBlocking, -1));
  CHECK(cudaStreamCreateWithFlags(&p.inner, cudaStreamNonBlocking));
  for (int i = 0; i < 2; ++i) {
    p.field[i] = room<float>((long)(p.h + 2) * w) + w;
    drop<<<grid(p.h + 2), block>>>(p.field[i] - w, p.first - 1, p.h + 2, w,
                                   rows);
    for (cudaEvent_t *e : {&p.computed[i], &p.sent[i], &p.done[i]})
      CHECK(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
  }
}

static double checksum(int last) {
  double total = 0;
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    const int h = part[d].h;
    double *sums = room<double>(h);
    std::vector<double> host(h);
    row_sums<<<(h + 31) / 32, 32>>>(part[d].field[last], sums, h, w);
    CHECK(cudaMemcpy(host.data(), sums, h * sizeof(double),
                     cudaMemcpyDeviceToHost));
    for (double s : host) total += s;
  }
  return total;
}

// Mean time between the end of a step and the start of the next, in us.
static double idle(int from, int to, int h) {
  const size_t count = (size_t)to * h;
  std::vector<unsigned long long> b(count), e(count);
  const size_t bytes = count * sizeof b[0];
  CHECK(cudaMemcpy(b.data(), begins, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(e.data(), ends, bytes, cudaMemcpyDeviceToHost));
  double total = 0;
  for (int t = from; t + 1 < to; ++t) {
    unsigned long long end = 0, begin = ~0ull;
    for (int y = 0; y < h; ++y) {
      end = std::max(end, e[(size_t)t * h + y]);
      begin = std::min(begin, b[(size_t)(t + 1) * h + y]);
    }
    total += (double)(long long)(begin - end);
  }
  return total / (to - from - 1) / 1e3;
}

int main(int argc, char **argv) {
  devices = (int)number(argc, argv, 1, 1);
  const int rows = (int)number(argc, argv, 2, 4096), warm = 10;
  w = (int)number(argc, argv, 3, 4096);
  const int last = warm + (int)number(argc, argv, 4, 100);
  const bool one = word(argc, argv, "one") || devices == 1;
  double begin = now();
  connect(devices);
  for (int d = 0; d < devices; ++d) prepare(d, rows);
  if (word(argc, argv, "idle") && devices == 1) {
    begins = room<unsigned long long>((long)last * rows);
    ends = room<unsigned long long>((long)last * rows);
  }
  wait_all(devices);
  one ? from_one_thread(0, warm) : from_threads(0, warm);
  wait_all(devices);
  const double prepared = now() - begin;
  begin = now();
  one ? from_one_thread(warm, last) : from_threads(warm, last);
  wait_all(devices);
  const double seconds = now() - begin;
  report(prepared, seconds, checksum(~last & 1),
         begins ? idle(warm, last, rows) : -1);
}
