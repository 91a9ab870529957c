// Columns of a matrix between memories: the driver's strided copies beside the
// kernel that celer takes for short rows, straight and by way of a dense piece.
//   nvcc -O3 -std=c++17 -arch=native -o column spec/bench/cuda/column.cu
//   column [GPUS [rows [row of the matrix in floats]]]
// Microseconds of one copy, of many in a row on one stream; the last lines are
// JSON. With two GPUs also between them.
#include <algorithm>
#include <functional>
#include <string>

#include "../../../kernels/strided.cuh"
#include "common.cuh"

static long rows, pitch;
static cudaStream_t stream[2];

struct end {
  char *at;
  size_t row;
};

static void pack(end from, end to, size_t width, cudaStream_t s) {
  size_t all = (size_t)from.at | (size_t)to.at | from.row | to.row | width;
  int unit = 0;
  while (unit < 4 && (all >> unit & 1) == 0) ++unit;
  celer_strided c = {(unsigned long long)from.at, (unsigned long long)to.at};
  c.from_row = from.row, c.to_row = to.row;
  c.width = (unsigned)(width >> unit), c.rows = (unsigned)rows;
  c.units = c.width * c.rows;
  const unsigned blocks = std::min((c.units + 255) / 256, 4096u);
  void (*const kernel[])(celer_strided) = {celer_strided_1, celer_strided_2,
                                           celer_strided_4, celer_strided_8,
                                           celer_strided_16};
  kernel[unit]<<<blocks, 256, 0, s>>>(c);
  CHECK(cudaGetLastError());
}

static void driver(end from, end to, size_t width, cudaStream_t s) {
  CHECK(cudaMemcpy2DAsync(to.at, to.row, from.at, from.row, width, rows,
                          cudaMemcpyDefault, s));
}

static void dense(char *from, char *to, size_t width, cudaStream_t s) {
  CHECK(cudaMemcpyAsync(to, from, width * rows, cudaMemcpyDefault, s));
}

static double median_us(int device, const std::function<void()> &copy) {
  enum { ROUNDS = 9, COPIES = 50 };
  std::vector<double> all;
  CHECK(cudaSetDevice(device));
  for (int i = -1; i < ROUNDS; ++i) {
    CHECK(cudaStreamSynchronize(stream[device]));
    const double begin = now();
    for (int k = 0; k < COPIES; ++k) copy();
    CHECK(cudaStreamSynchronize(stream[device]));
    if (i >= 0) all.push_back((now() - begin) / COPIES * 1e6);
  }
  std::sort(all.begin(), all.end());
  return all[ROUNDS / 2];
}

static std::string json;

static void show(const char *what, size_t width, const char *how, double us) {
  char line[256];
  std::printf("  %-24s %9.2f us %8.2f GB/s\n", how, us,
              (double)width * rows / us * 1e-3);
  std::snprintf(line, sizeof line,
                "{\"bench\": \"cuda_column\", \"what\": \"%s\", \"how\": "
                "\"%s\", \"rows\": %ld, \"bytes\": %zu, \"us\": %.3f}\n",
                what, how, rows, width, us);
  json += line;
}

static char *matrix[2], *piece[2], *host, *host_matrix;

/* One device, to and from a dense piece of the host; and to a strided one. */
static void with_host(size_t width) {
  const size_t row = pitch * sizeof(float);
  end m = {matrix[0] + row / 2, row}, h = {host, width};
  end wide = {host_matrix, 4096};
  cudaStream_t s = stream[0];
  std::printf("%ld rows of %zu bytes, GPU to host\n", rows, width);
  auto out = [&](const char *how, const std::function<void()> &copy) {
    show("out", width, how, median_us(0, copy));
  };
  out("driver", [&] { driver(m, h, width, s); });
  out("kernel", [&] { pack(m, h, width, s); });
  out("kernel, dense copy", [&] {
    pack(m, {piece[0], width}, width, s);
    dense(piece[0], host, width, s);
  });
  out("driver, to strided", [&] { driver(m, wide, width, s); });
  out("kernel, to strided", [&] { pack(m, wide, width, s); });
  std::printf("%ld rows of %zu bytes, host to GPU\n", rows, width);
  auto in = [&](const char *how, const std::function<void()> &copy) {
    show("in", width, how, median_us(0, copy));
  };
  in("driver", [&] { driver(h, m, width, s); });
  in("kernel", [&] { pack(h, m, width, s); });
  in("dense copy, kernel", [&] {
    dense(host, piece[0], width, s);
    pack({piece[0], width}, m, width, s);
  });
  in("driver, from strided", [&] { driver(wide, m, width, s); });
  in("kernel, from strided", [&] { pack(wide, m, width, s); });
}

static void within(size_t width) {
  const size_t row = pitch * sizeof(float);
  end m = {matrix[0] + row / 2, row}, p = {piece[0], width};
  cudaStream_t s = stream[0];
  std::printf("%ld rows of %zu bytes, within a GPU\n", rows, width);
  show("within", width, "driver",
       median_us(0, [&] { driver(m, p, width, s); }));
  show("within", width, "kernel", median_us(0, [&] { pack(m, p, width, s); }));
}

/* From GPU 0 to GPU 1: streams of the source push, of the target pull. */
static void between(size_t width) {
  const size_t row = pitch * sizeof(float);
  end a = {matrix[0] + row / 2, row}, b = {matrix[1], row};
  std::printf("%ld rows of %zu bytes, GPU to GPU\n", rows, width);
  for (int d = 0; d < 2; ++d) {
    const std::string how = d == 0 ? "push" : "pull";
    cudaStream_t s = stream[d];
    show("peer", width, ("driver, " + how).c_str(),
         median_us(d, [&] { driver(a, b, width, s); }));
    show("peer", width, ("kernel, " + how).c_str(),
         median_us(d, [&] { pack(a, b, width, s); }));
  }
  show("peer", width, "kernel, copy, kernel", median_us(1, [&] {
         pack(a, {piece[1], width}, width, stream[1]);
         pack({piece[1], width}, b, width, stream[1]);
       }));
}

int main(int argc, char **argv) {
  const int devices = (int)std::min(number(argc, argv, 1, 1), 2L);
  rows = number(argc, argv, 2, 16384);
  pitch = number(argc, argv, 3, 16384);
  connect(devices);
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    matrix[d] = room<char>(rows * pitch * sizeof(float));
    piece[d] = room<char>(rows * 4096);
    CHECK(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaHostAlloc((void **)&host, rows * 4096, cudaHostAllocPortable));
  CHECK(
      cudaHostAlloc((void **)&host_matrix, rows * 4096, cudaHostAllocPortable));
  for (size_t width : {4, 8, 12, 16, 32, 64, 128, 256, 512, 1024}) {
    with_host(width);
    within(width);
    if (devices > 1) between(width);
  }
  std::printf("%s", json.c_str());
}
