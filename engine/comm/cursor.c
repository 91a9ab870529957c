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
 * row, rows within a plane, or planes. `from` is in the piece, `to` dense. */
static cel_cuda_move first_of(const cel_strided *piece, uint64_t within,
                              uint64_t bytes, CUdeviceptr dense) {
  uint64_t run = piece->run, lines = piece->count[1], line = within / run;
  cel_cuda_move m = {
      .from = {.at = (uintptr_t)piece->base + line / lines * piece->stride[0] +
                     line % lines * piece->stride[1] + within % run,
               .row = lines > 1 ? piece->stride[1] : run,
               .plane = piece->stride[0]},
      .width = run - within % run,
      .planes = 1,
      .rows = 1};
  if (bytes < m.width) m.width = bytes;
  if (within % (run * lines) == 0 && bytes >= run * lines) {
    m.planes = bytes / (run * lines);
    m.rows = lines;
  } else if (within % run == 0 && bytes >= run) {
    m.rows = bytes / run;
    if (m.rows > lines - line % lines) m.rows = lines - line % lines;
  }
  if (m.planes == 1) m.from.plane = m.from.row * m.rows;
  m.to = (cel_cuda_end){.at = dense, .row = m.width, .plane = m.width * m.rows};
  return m;
}

/* The next copy of those `bytes`, which are more than 0; what is left of them
 * and where that lies is set. */
static cel_cuda_move next(const cel_posted *message, cel_cursor *at,
                          uint64_t *bytes, CUdeviceptr *dense) {
  uint64_t left;
  while ((left = left_of(message, at)) == 0) advance(at, 0, 0);
  cel_cuda_move m = first_of(&message->piece[at->piece], at->within,
                             left < *bytes ? left : *bytes, *dense);
  uint64_t n = m.planes * m.rows * m.width;
  *dense += n;
  *bytes -= n;
  advance(at, n, left);
  return m;
}

static void turn(cel_cuda_move *m) {
  const cel_cuda_end from = m->from;
  m->from = m->to, m->to = from;
}

CUresult cel_cursor_copy(const cel_cuda *cuda, const cel_posted *message,
                         cel_cursor *at, uint64_t bytes, CUdeviceptr dense,
                         bool out, CUstream stream) {
  CUresult code = CUDA_SUCCESS;
  while (bytes > 0 && code == CUDA_SUCCESS) {
    cel_cuda_move m = next(message, at, &bytes, &dense);
    if (!out) turn(&m);
    code =
        cel_cuda_copy(cuda, 0, m.from, m.to, m.width, m.planes, m.rows, stream);
  }
  return code;
}

bool cel_cursor_scatter(const cel_cuda *cuda, const cel_posted *message,
                        cel_cursor *at, uint64_t bytes, CUdeviceptr dense,
                        CUstream stream, CUresult *code) {
  if (cuda->device[0].pack[0] == NULL || bytes == 0) return false;
  cel_cuda_move move[CEL_CUDA_BOXES];
  cel_cursor end = *at;
  uint32_t n = 0;
  for (; bytes > 0 && n < CEL_CUDA_BOXES; ++n) {
    move[n] = next(message, &end, &bytes, &dense);
    turn(&move[n]);
  }
  if (bytes > 0) return false;
  *code = cel_cuda_pack(cuda, 0, move, n, stream);
  *at = end;
  return true;
}
