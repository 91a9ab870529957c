// The kernel for short rows on the processor, thread by thread, and a driver
// that knows it and copies of planes. Built by cuda_pack_spec.lua.
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __device__
#define __global__
#define __grid_constant__
struct axis {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
static axis gridDim, blockDim, blockIdx, threadIdx;
#include "kernels/strided.cuh"

struct copy3d {
  size_t from_x, from_y, from_z, from_lod;
  int from_type;
  const void *from_host;
  unsigned long long from;
  void *from_array, *reserved0;
  size_t from_pitch, from_height;
  size_t to_x, to_y, to_z, to_lod;
  int to_type;
  void *to_host;
  unsigned long long to;
  void *to_array, *reserved1;
  size_t to_pitch, to_height;
  size_t width, height, depth;
};

extern "C" {
// What has been asked for; with `dry` nothing is carried out.
int launches, copies, dry;
unsigned long long units;
alignas(16) unsigned char memory[3][65536];
void (*functions[5])(celer_boxes) = {celer_strided_1, celer_strided_2,
                                     celer_strided_4, celer_strided_8,
                                     celer_strided_16};

int launch(void (*function)(celer_boxes), unsigned gx, unsigned gy, unsigned,
           unsigned bx, unsigned, unsigned, unsigned, void *, void **params,
           void **) {
  ++launches;
  celer_boxes boxes;
  memcpy(&boxes, params[0], sizeof boxes);
  gridDim.x = gx, blockDim.x = bx;
  for (blockIdx.y = 0; blockIdx.y < gy; ++blockIdx.y) {
    units += boxes.box[blockIdx.y].units;
    for (blockIdx.x = 0; blockIdx.x < gx && !dry; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < bx; ++threadIdx.x) function(boxes);
  }
  return 0;
}

int copy_1d(unsigned long long to, unsigned long long from, size_t size,
            void *) {
  ++copies;
  memcpy((void *)to, (const void *)from, size);
  return 0;
}

int copy_3d(const copy3d *c, void *) {
  ++copies;
  for (size_t i = 0; i < c->depth; ++i)
    for (size_t j = 0; j < c->height; ++j)
      memcpy((char *)c->to + (i * c->to_height + j) * c->to_pitch,
             (const char *)c->from + (i * c->from_height + j) * c->from_pitch,
             c->width);
  return 0;
}
}
