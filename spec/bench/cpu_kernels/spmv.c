/* spmv.c -- a sparse matrix in compressed rows times a vector in plain C with
 * OpenMP: the product of ../spmv.lua, with the same matrices.
 *   spmv rows steps band | scrambled | kronecker
 */
#include <stdint.h>
#include <string.h>

#include "common.h"

static uint64_t mixed(uint64_t z) {
  z = (z + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static int *ints(long n) {
  return (int *)room((size_t)n);
}

static double *doubles(long n) {
  return (double *)room(2 * (size_t)n);
}

static int scrambled(long k, long rows) {
  const long in_block = k % 129;
  const long row = k / 129 * 16 + (in_block < 9 ? 0 : 1 + (in_block - 9) / 8);
  const uint64_t z = mixed((uint64_t)k);
  const long near = row + (long)(z % 2000) - 1000;
  if (in_block == 8) return (int)(z % (uint64_t)rows);
  return (int)(near < 0 ? 0 : near < rows ? near : rows - 1);
}

static void edge(long k, long rows, int *row, int *col) {
  long r = 0, c = 0;
  uint64_t z = mixed((uint64_t)k + 77);
  for (long half = 1; half < rows; half *= 2) {
    const int p = (int)(z % 100);
    z = mixed(z);
    r = 2 * r + (p >= 76), c = 2 * c + ((p >= 57 && p < 76) || p >= 95);
  }
  *row = (int)(r % rows), *col = (int)(c % rows);
}

/* Edges in the order of their rows. */
static void kronecker(long rows, long n, int *ptr, int *col) {
  int row, c, *next = ints(rows + 1);
  for (long k = 0; k < n; ++k) {
    edge(k, rows, &row, &c);
    ++ptr[row + 1];
  }
  for (long i = 0; i < rows; ++i) ptr[i + 1] += ptr[i];
  memcpy(next, ptr, (size_t)rows * sizeof *next);
  for (long k = 0; k < n; ++k) {
    edge(k, rows, &row, &c);
    col[next[row]++] = c;
  }
}

static void multiply(long rows, const int *restrict ptr,
                     const int *restrict col, const double *restrict val,
                     const double *restrict x, double *restrict y) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < rows; ++i) {
    double sum = 0;
    for (int k = ptr[i]; k < ptr[i + 1]; ++k) sum += val[k] * x[col[k]];
    y[i] = sum;
  }
}

int main(int argc, char **argv) {
  const long rows = number(argc, argv, 1, 1000);
  const int steps = number(argc, argv, 2, 20);
  const char *kind = argc > 3 ? argv[3] : "band";
  const int is_mesh = strcmp(kind, "scrambled") == 0;
  const double begin = now();
  const long n = is_mesh ? 8 * rows + (rows + 15) / 16 : 9 * rows;
  int *ptr = ints(rows + 1), *col = ints(n);
  double *val = doubles(n), *x = doubles(rows), *y = doubles(rows);
  if (strcmp(kind, "kronecker") == 0) {
    kronecker(rows, n, ptr, col);
  } else {
    for (long i = 0; i <= rows; ++i)
      ptr[i] = (int)(is_mesh ? 8 * i + (i + 15) / 16 : 9 * i);
    for (long k = 0; k < n; ++k)
      col[k] = is_mesh ? scrambled(k, rows)
                       : (int)((k / 9 + k % 9 + rows - 4) % rows);
  }
  for (long k = 0; k < n; ++k) val[k] = (double)(k % 13) / 13;
  for (long i = 0; i < rows; ++i) x[i] = (double)(i % 17) / 17;
  for (int t = 0; t < 10; ++t) multiply(rows, ptr, col, val, x, y);
  const double start = now();
  for (int t = 0; t < steps; ++t) multiply(rows, ptr, col, val, x, y);
  const double stop = now();
  double sum = 0;
  for (long i = 0; i < rows; ++i) sum += y[i];
  report(start - begin, stop - start, sum);
  return 0;
}
