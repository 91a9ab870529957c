#include "comm/cursor.h"

#include "comm/strided.h"
#include "device/cuda/cuda_copy.h"

/* Of the piece that it is in, how many bytes are left. */
static uint64_t left_of(const cel_posted *message, const cel_cursor *at) {
  cel_assert(at->piece < message->pieces);
  const cel_strided *piece = &message->piece[at->piece];
  return piece->run * piece->count[0] * piece->count[1] - at->within;
}

/* By n bytes of that piece, which has `left`. */
static void advance(cel_cursor *at, uint64_t n, uint64_t left) {
  at->within += n;
  if (n == left) *at = (cel_cursor){at->piece + 1, 0};
}

CUdeviceptr cel_cursor_dense(const cel_posted *message, const cel_cursor *at,
                             uint64_t bytes) {
  uint32_t k = at->piece;
  while (k < message->pieces && cel__strided_bytes(&message->piece[k], 1) == 0)
    ++k;
  if (k == message->pieces) return 0;
  cel_strided piece = cel__strided_merged(message->piece[k]);
  uint64_t within = k == at->piece ? at->within : 0, run = piece.run;
  uint64_t line = within / run, lines = piece.count[1];
  if (within % run + bytes > run) return 0;
  return (uintptr_t)piece.base + line / lines * piece.stride[0] +
         line % lines * piece.stride[1] + within % run;
}

void cel_cursor_skip(const cel_posted *message, cel_cursor *at,
                     uint64_t bytes) {
  while (bytes > 0) {
    uint64_t left = left_of(message, at), n = left < bytes ? left : bytes;
    advance(at, n, left);
    bytes -= n;
  }
}

/* The first of `bytes` bytes, from `within` on, that are one copy: within a
 * row, rows within a plane, or planes. Returns how many. */
static uint64_t copy_some(const cel_cuda *cuda, const cel_strided *piece,
                          uint64_t within, uint64_t bytes, CUdeviceptr dense,
                          bool out, CUstream stream, CUresult *code) {
  uint64_t run = piece->run, lines = piece->count[1], line = within / run;
  uint64_t planes = 1, rows = 1, width = run - within % run;
  cel_cuda_end far = {.at = (uintptr_t)piece->base +
                            line / lines * piece->stride[0] +
                            line % lines * piece->stride[1] + within % run,
                      .row = lines > 1 ? piece->stride[1] : run,
                      .plane = piece->stride[0]};
  if (bytes < width) width = bytes;
  if (within % (run * lines) == 0 && bytes >= run * lines) {
    planes = bytes / (run * lines);
    rows = lines;
  } else if (within % run == 0 && bytes >= run) {
    rows = bytes / run;
    if (rows > lines - line % lines) rows = lines - line % lines;
  }
  if (planes == 1) far.plane = far.row * rows;
  cel_cuda_end near = {.at = dense, .row = width, .plane = width * rows};
  *code = out ? cel_cuda_copy(cuda, 0, far, near, width, planes, rows, stream)
              : cel_cuda_copy(cuda, 0, near, far, width, planes, rows, stream);
  return planes * rows * width;
}

CUresult cel_cursor_copy(const cel_cuda *cuda, const cel_posted *message,
                         cel_cursor *at, uint64_t bytes, CUdeviceptr dense,
                         bool out, CUstream stream) {
  CUresult code = CUDA_SUCCESS;
  while (bytes > 0 && code == CUDA_SUCCESS) {
    uint64_t left = left_of(message, at), n = 0;
    if (left > 0)
      n = copy_some(cuda, &message->piece[at->piece], at->within,
                    left < bytes ? left : bytes, dense, out, stream, &code);
    dense += n;
    bytes -= n;
    advance(at, n, left);
  }
  return code;
}
