/* strided.cuh -- boxes from one layout to another, for rows that are too short
 * for the driver's own copies, and for several small boxes at once. Built in:
 * compiled as it is, not included.
 *
 * A thread moves a unit of 1 to 16 bytes at a time, and neighbours move
 * neighbouring units, so that what is dense at one end is read or written in
 * whole lines. Blocks of one blockIdx.y move one box.
 * engine/device/cuda/cuda_copy.h says the same of the structures.
 */
struct celer_strided {
  unsigned long long from, to;                               /* addresses */
  unsigned long long from_row, from_plane, to_row, to_plane; /* bytes */
  unsigned width, rows; /* units of a row, rows of a plane */
  unsigned units;       /* in all, below 2^31 */
  unsigned unused;
};
struct celer_boxes {
  celer_strided box[8];
};

template <typename unit>
static __device__ void celer_move(const celer_strided &s) {
  const unsigned step = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < s.units;
       i += step) {
    const unsigned line = i / s.width, x = i % s.width;
    const unsigned plane = line / s.rows, row = line % s.rows;
    const unsigned long long at = x * sizeof(unit);
    *(unit *)(s.to + plane * s.to_plane + row * s.to_row + at) =
        *(const unit *)(s.from + plane * s.from_plane + row * s.from_row + at);
  }
}

#define CELER_STRIDED(bytes, unit)                                             \
  extern "C" __global__ void celer_strided_##bytes(                            \
      const __grid_constant__ celer_boxes boxes) {                             \
    celer_move<unit>(boxes.box[blockIdx.y]);                                   \
  }
CELER_STRIDED(1, unsigned char)
CELER_STRIDED(2, unsigned short)
CELER_STRIDED(4, unsigned)
CELER_STRIDED(8, unsigned long long)
CELER_STRIDED(16, uint4)
