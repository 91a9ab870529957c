// Do CUDA graphs pay for chains of short kernels whose parameters change in
// each step, as an engine's do?
//   nvcc -O3 -std=c++17 -arch=native -o graph spec/bench/cuda/graph.cu
//   graph [kernels per chain [chains [microseconds that a task costs]]]
// Chains of kernels of 0 (nearly), 1, 2, 5 and 10 us, each after the one
// before:
//   launches  on a stream
//   graph     a graph of the chain, launched as it was captured
//   replay    the same, with every node given new parameters before
//   replay 2  that with two graphs in turns, of which one runs
// ns per kernel: `all`, of chains in a row, from the first call to the end of
// the last kernel; `gpu`, of the same between two events; `thread`, what the
// calls take the thread while the GPU has nothing to do with them. The last
// lines say where replay pays, and then the figures as JSON.
#include <algorithm>
#include <functional>
#include <string>

#include "common.cuh"

// As large as those of a kernel with a few accessors.
struct parameters {
  long long cycles, add;
  long long *sum;
  long long rest[19];
};

__global__ void spin(const __grid_constant__ parameters p) {
  const long long begin = clock64();
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.sum += p.add;
  while (clock64() - begin < p.cycles) {
  }
}

constexpr int blocks = 128, threads = 128, rounds = 7;

static long kernels, chains;
static cudaStream_t s;
static cudaEvent_t first, last;
static parameters now_of;  // those of the kernel that comes next
static long long expected; // sum of all that ran with parameters of their own

// The next kernel's parameters: never those of the one before.
static void *next_parameters() {
  static void *list[] = {&now_of};
  now_of.add = now_of.add % 1000 + 1;
  expected += now_of.add;
  return list;
}

static void launch() {
  CHECK(cudaLaunchKernel((const void *)spin, blocks, threads,
                         (void **)next_parameters(), 0, s));
}

struct captured {
  cudaGraphExec_t exec = nullptr;
  std::vector<cudaGraphNode_t> nodes;
  long long adds = 0; // of one launch as captured
};

static captured capture() {
  captured c;
  cudaGraph_t graph;
  const long long before = expected;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  for (long i = 0; i < kernels; ++i) launch();
  CHECK(cudaStreamEndCapture(s, &graph));
  c.adds = expected - before;
  expected = before;
  size_t n = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &n));
  c.nodes.resize(n);
  CHECK(cudaGraphGetNodes(graph, c.nodes.data(), &n));
  CHECK(cudaGraphInstantiate(&c.exec, graph, 0));
  return c;
}

static void give_parameters(const captured &c) {
  for (cudaGraphNode_t node : c.nodes) {
    cudaKernelNodeParams p = {};
    p.func = (void *)spin;
    p.gridDim = dim3(blocks);
    p.blockDim = dim3(threads);
    p.kernelParams = (void **)next_parameters();
    CHECK(cudaGraphExecKernelNodeSetParams(c.exec, node, &p));
  }
}

struct figures {
  double all, gpu, thread; // ns per kernel
};

static double median(std::vector<double> list) {
  std::sort(list.begin(), list.end());
  return list[list.size() / 2];
}

static figures measure(const std::function<void(long)> &chain) {
  std::vector<double> all, gpu, thread;
  const double per = 1e9 / (double)(kernels * chains);
  for (int r = -1; r < rounds; ++r) {
    float ms = 0;
    CHECK(cudaStreamSynchronize(s));
    double begin = now();
    CHECK(cudaEventRecord(first, s));
    for (long t = 0; t < chains; ++t) chain(t);
    CHECK(cudaEventRecord(last, s));
    CHECK(cudaStreamSynchronize(s));
    const double took = now() - begin;
    CHECK(cudaEventElapsedTime(&ms, first, last));
    double called = 0;
    for (long t = 0; t < chains; ++t) {
      begin = now();
      chain(t);
      called += now() - begin;
      CHECK(cudaStreamSynchronize(s));
    }
    if (r < 0) continue;
    all.push_back(took * per);
    gpu.push_back(ms * 1e-3 * per);
    thread.push_back(called * per);
  }
  return {median(all), median(gpu), median(thread)};
}

// Cycles of the multiprocessors' clock in a microsecond, while they work.
static double cycles_per_us() {
  float ms = 0;
  now_of.cycles = 20 * 1000 * 1000;
  for (int r = 0; r < 3; ++r) {
    CHECK(cudaEventRecord(first, s));
    launch();
    CHECK(cudaEventRecord(last, s));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaEventElapsedTime(&ms, first, last));
  }
  return (double)now_of.cycles / (ms * 1e3);
}

static std::string json;

static figures show(double us, const char *how, figures f) {
  char line[256];
  std::printf("%5.0f us  %-10s %10.0f %10.0f %10.0f\n", us, how, f.all, f.gpu,
              f.thread);
  std::snprintf(line, sizeof line,
                "{\"bench\": \"cuda_graph\", \"kernel_us\": %.0f, \"how\": "
                "\"%s\", \"kernels\": %ld, \"all_ns\": %.1f, \"gpu_ns\": %.1f, "
                "\"thread_ns\": %.1f}\n",
                us, how, kernels, f.all, f.gpu, f.thread);
  json += line;
  return f;
}

// What replay is worth where the rest of the engine is no faster than `task`.
static void judge(double us, double task, figures plain, figures replay) {
  const double before = std::max(plain.all, task * 1e3);
  const double after = std::max(replay.all, task * 1e3);
  std::printf(
      "kernels of %2.0f us: replay with new parameters takes %.2f of the time "
      "of launches, %.2f of the thread's; in an engine whose tasks cost %.1f "
      "us, %.2f: it %s\n",
      us, replay.all / plain.all, replay.thread / plain.thread, task,
      after / before, after < 0.95 * before ? "pays" : "does not pay");
}

static void check(const char *how) {
  long long sum = 0;
  CHECK(cudaMemcpy(&sum, now_of.sum, sizeof sum, cudaMemcpyDefault));
  if (sum == expected) return;
  std::fprintf(stderr, "%s: the kernels had other parameters\n", how);
  std::exit(1);
}

int main(int argc, char **argv) {
  kernels = number(argc, argv, 1, 100);
  chains = number(argc, argv, 2, 50);
  const double task = argc > 3 ? std::atof(argv[3]) : 4.8;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&first));
  CHECK(cudaEventCreate(&last));
  now_of.sum = room<long long>(1);
  CHECK(cudaMemset(now_of.sum, 0, sizeof(long long)));
  const double rate = cycles_per_us();
  const double lengths[] = {0, 1, 2, 5, 10};
  figures plain[5], replay[5];
  std::printf("ns per kernel       %17s %10s %10s\n", "all", "gpu", "thread");
  for (int i = 0; i < 5; ++i) {
    const double us = lengths[i];
    now_of.cycles = (long long)(us * rate);
    plain[i] = show(us, "launches", measure([](long) {
                      for (long k = 0; k < kernels; ++k) launch();
                    }));
    check("launches");
    const captured c[2] = {capture(), capture()};
    show(us, "graph", measure([&](long) {
           expected += c[0].adds;
           CHECK(cudaGraphLaunch(c[0].exec, s));
         }));
    check("graph");
    auto with_new = [&](const captured &one) {
      give_parameters(one);
      CHECK(cudaGraphLaunch(one.exec, s));
    };
    figures one = show(us, "replay", measure([&](long) { with_new(c[0]); }));
    check("replay");
    figures two =
        show(us, "replay 2", measure([&](long t) { with_new(c[t % 2]); }));
    check("replay 2");
    replay[i] = two.all < one.all ? two : one;
  }
  for (int i = 0; i < 5; ++i) judge(lengths[i], task, plain[i], replay[i]);
  std::printf("%s", json.c_str());
}
