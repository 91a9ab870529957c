/* transpose.c -- the transposition of the Parallel Research Kernels by hand,
 * with MPI: transpose STEPS REPETITIONS ORDER.
 *
 * In each step B += A^T, then A += 1. A rank has the same share of the columns
 * of both; here a matrix is stored as its transpose, so they are rows in
 * memory. It turns the square block that it has itself, and exchanges one
 * block with each other rank: turned into a buffer tile by tile, sent, and
 * added to B by who gets it.
 */
#include "measure.h"

enum { TILE = 32 };

static long n, m;     /* order; rows of this rank */
static double *a, *b; /* m x n */
static double *out, *in;

static long least(long x, long y) {
  return x < y ? x : y;
}

/* to(j, i) = from(i, j), or += with `add`; from += 1. */
static void turn(double *restrict to, long pitch, double *restrict from,
                 int add) {
  for (long i = 0; i < m; i += TILE)
    for (long j = 0; j < m; j += TILE)
      for (long y = j; y < least(m, j + TILE); ++y)
        for (long x = i; x < least(m, i + TILE); ++x) {
          double *value = &from[x * n + y], *at = &to[y * pitch + x];
          *at = add ? *at + *value : *value;
          *value += 1;
        }
}

static void step(void) {
  turn(b + rank * m, n, a + rank * m, 1);
  for (int k = 1; k < ranks; ++k) {
    int from = (rank + k) % ranks, to = (rank - k + ranks) % ranks;
    MPI_Request request[2];
    MPI_Irecv(in, (int)(m * m), MPI_DOUBLE, from, k, MPI_COMM_WORLD, request);
    turn(out, m, a + to * m, 0);
    MPI_Isend(out, (int)(m * m), MPI_DOUBLE, to, k, MPI_COMM_WORLD,
              request + 1);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    double *restrict target = b + from * m;
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < m; ++j) target[i * n + j] += in[i * m + j];
  }
}

int main(int argc, char **argv) {
  begin(&argc, &argv, 1);
  n = atol(argv[3]);
  require(n > 0 && n % ranks == 0, "the order is a multiple of the ranks");
  m = n / ranks;
  a = room((size_t)(m * n) * sizeof *a);
  b = room((size_t)(m * n) * sizeof *b);
  out = room((size_t)(m * m) * sizeof *out);
  in = room((size_t)(m * m) * sizeof *in);
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      a[i * n + j] = (double)((i + rank * m) * n + j);
      b[i * n + j] = 0;
    }
  double steps = (double)measure("transpose", argv, step), error = 0;
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      double first = (double)(j * n + i + rank * m);
      double right = steps * first + steps * (steps - 1) / 2;
      error +=
          b[i * n + j] < right ? right - b[i * n + j] : b[i * n + j] - right;
    }
  finish(error, 0);
  return 0;
}
