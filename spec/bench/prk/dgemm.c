/* dgemm.c -- the matrix product of the Parallel Research Kernels by hand, with
 * MPI: dgemm STEPS REPETITIONS ORDER.
 *
 * In each step C += A B, where each element of A and B is the number of its
 * column. A rank has rows of all three. A panel of B's rows after the other is
 * broadcast, and each rank multiplies its part of A with it block by block: a
 * block of the panel and one of A are copied beside each other first.
 */
#include "measure.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32 };

static long n, m; /* order; rows of this rank */
static double *a, *b, *c, *panel;

static long least(long x, long y) {
  return x < y ? x : y;
}

/* c += a panel, for columns [k, k + BLOCK) of a. */
static void multiply(long k) {
  static double aa[BLOCK][BLOCK], bb[BLOCK][BLOCK], cc[BLOCK][BLOCK];
  long depth = least(BLOCK, n - k);
  for (long j = 0; j < n; j += BLOCK) {
    long width = least(BLOCK, n - j);
    memset(bb, 0, sizeof bb);
    for (long l = 0; l < depth; ++l)
      memcpy(bb[l], &panel[l * n + j], (size_t)width * sizeof **bb);
    for (long i = 0; i < m; i += BLOCK) {
      long height = least(BLOCK, m - i);
      memset(aa, 0, sizeof aa);
      for (long y = 0; y < height; ++y)
        memcpy(aa[y], &a[(i + y) * n + k], (size_t)depth * sizeof **aa);
      memset(cc, 0, sizeof cc);
      for (long y = 0; y < BLOCK; ++y)
        for (long l = 0; l < BLOCK; ++l)
          for (long x = 0; x < BLOCK; ++x) cc[y][x] += aa[y][l] * bb[l][x];
      for (long y = 0; y < height; ++y)
        for (long x = 0; x < width; ++x) c[(i + y) * n + j + x] += cc[y][x];
    }
  }
}

static void step(void) {
  for (long k = 0; k < n; k += BLOCK) {
    long depth = least(BLOCK, n - k);
    int root = (int)(k / m);
    if (root == rank)
      memcpy(panel, &b[(k - rank * m) * n], (size_t)(depth * n) * sizeof *b);
    MPI_Bcast(panel, (int)(depth * n), MPI_DOUBLE, root, MPI_COMM_WORLD);
    multiply(k);
  }
}

int main(int argc, char **argv) {
  begin(&argc, &argv, 1);
  n = atol(argv[3]);
  require(n > 0 && n % (BLOCK * ranks) == 0,
          "the order is a multiple of 32 times the ranks");
  m = n / ranks;
  size_t bytes = (size_t)(m * n) * sizeof(double);
  a = room(bytes);
  b = room(bytes);
  c = room(bytes);
  panel = room((size_t)(BLOCK * n) * sizeof *panel);
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      a[i * n + j] = b[i * n + j] = (double)j;
      c[i * n + j] = 0;
    }
  double steps = (double)measure("dgemm", argv, step), mine = 0, sum;
  for (long i = 0; i < m * n; ++i) mine += c[i];
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double order = (double)n;
  double right = 0.25 * order * order * order * (order - 1) * (order - 1);
  finish(fabs(sum - steps * right) / (steps * right), 1e-12);
  return 0;
}
