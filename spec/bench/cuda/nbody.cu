// N-body by hand: tiles of bodies in shared memory; every GPU holds all places,
// moves its own bodies and sends them to the others.
//   nbody GPUS bodies steps [double]
#include "common.cuh"

template <typename T> struct alignas(16) Four { T x, y, z, w; };

constexpr int tile = 256;

__device__ static float inverse_root(float x) {
  return rsqrtf(x);
}
__device__ static double inverse_root(double x) {
  return rsqrt(x);
}

template <typename T>
__global__ void accelerate(const Four<T> *__restrict__ p, Four<T> *v, int first,
                           int n, T dt) {
  __shared__ Four<T> near[tile];
  const int i = blockIdx.x * tile + threadIdx.x;
  const Four<T> me = p[first + i];
  T ax = 0, ay = 0, az = 0;
  for (int t = 0; t < n; t += tile) {
    near[threadIdx.x] = p[t + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < tile; ++j) {
      const Four<T> o = near[j];
      const T dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
      const T r = inverse_root(dx * dx + dy * dy + dz * dz + T(1e-4));
      const T f = o.w * r * r * r;
      ax += f * dx;
      ay += f * dy;
      az += f * dz;
    }
    __syncthreads();
  }
  Four<T> mine = v[i];
  mine.x += ax * dt;
  mine.y += ay * dt;
  mine.z += az * dt;
  v[i] = mine;
}

template <typename T>
__global__ void move(Four<T> *p, const Four<T> *v, int first, T dt) {
  const int i = blockIdx.x * tile + threadIdx.x;
  Four<T> me = p[first + i];
  me.x += v[i].x * dt;
  me.y += v[i].y * dt;
  me.z += v[i].z * dt;
  p[first + i] = me;
}

template <typename T> __global__ void place(Four<T> *p, int n) {
  const int i = blockIdx.x * tile + threadIdx.x;
  const double angle = i * 2.39996, radius = sqrt((i + 0.5) / n);
  p[i] = {T(radius * cos(angle)), T(radius * sin(angle)), T((i % 7 - 3) / 30.0),
          T(1.0 / n)};
}

template <typename T> struct Part {
  Four<T> *p, *v;
  cudaStream_t stream;
  cudaEvent_t read, sent;
};

template <typename T> static void issue(Part<T> *part, int devices, int n) {
  const int own = n / devices, blocks = own / tile;
  const size_t bytes = own * sizeof(Four<T>);
  for (int d = 0; d < devices; ++d) {
    Part<T> &m = part[d];
    CHECK(cudaSetDevice(d));
    for (int e = 0; e < devices; ++e)
      CHECK(cudaStreamWaitEvent(m.stream, part[e].sent));
    accelerate<T><<<blocks, tile, 0, m.stream>>>(m.p, m.v, d * own, n, T(0.01));
    CHECK(cudaEventRecord(m.read, m.stream));
    move<T><<<blocks, tile, 0, m.stream>>>(m.p, m.v, d * own, T(0.01));
  }
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    for (int k = 1; k < devices; ++k) {
      const int e = (d + k) % devices;
      CHECK(cudaStreamWaitEvent(part[d].stream, part[e].read));
      CHECK(cudaMemcpyPeerAsync(part[e].p + d * own, e, part[d].p + d * own, d,
                                bytes, part[d].stream));
    }
    CHECK(cudaEventRecord(part[d].sent, part[d].stream));
  }
}

template <typename T> static void run(int devices, int n, int steps) {
  Part<T> part[8];
  const int own = n / devices, warm = 1;
  double begin = now();
  connect(devices);
  for (int d = 0; d < devices; ++d) {
    CHECK(cudaSetDevice(d));
    part[d].p = room<Four<T>>(n);
    part[d].v = room<Four<T>>(own);
    CHECK(cudaMemset(part[d].v, 0, own * sizeof(Four<T>)));
    place<T><<<n / tile, tile>>>(part[d].p, n);
    CHECK(cudaStreamCreateWithFlags(&part[d].stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&part[d].read, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&part[d].sent, cudaEventDisableTiming));
  }
  wait_all(devices);
  for (int t = 0; t < warm; ++t) issue(part, devices, n);
  wait_all(devices);
  const double prepared = now() - begin;
  begin = now();
  for (int t = 0; t < steps; ++t) issue(part, devices, n);
  wait_all(devices);
  const double seconds = now() - begin;
  std::vector<Four<T>> v(own);
  double energy = 0;
  for (int d = 0; d < devices; ++d) {
    CHECK(
        cudaMemcpy(v.data(), part[d].v, own * sizeof v[0], cudaMemcpyDefault));
    for (auto &o : v)
      energy += (double)o.x * o.x + (double)o.y * o.y + (double)o.z * o.z;
  }
  report(prepared, seconds, energy);
}

int main(int argc, char **argv) {
  const int devices = (int)number(argc, argv, 1, 1);
  const int n = (int)number(argc, argv, 2, 131072);
  const int steps = (int)number(argc, argv, 3, 10);
  if (n % (devices * tile)) {
    std::fprintf(stderr, "%d bodies are not tiles for all\n", n);
    return 1;
  }
  if (word(argc, argv, "double"))
    run<double>(devices, n, steps);
  else
    run<float>(devices, n, steps);
}
