/* matmul.c -- a matrix product in plain C with OpenMP, the loops of
 * ../cuda/matmul.lua: a row times a column for each element, or by tiles of
 * 16 x 16.
 *   matmul size products [tiles]
 */
#include <string.h>

#include "common.h"

enum { T = 16 };

static void fill(float *m, int n, int seed) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      m[(size_t)i * n + j] = (i * 7 + j * 3 + seed) % 11 / 11.0f;
}

static void rows(const float *restrict a, const float *restrict b,
                 float *restrict c, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k)
        sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
      c[(size_t)i * n + j] = sum;
    }
}

static void tile(const float *restrict a, const float *restrict b,
                 float *restrict c, int n, int i, int j) {
  float ta[T][T], tb[T][T], sum[T][T] = {{0}};
  for (int t = 0; t < n; t += T) {
    for (int y = 0; y < T; ++y)
      for (int x = 0; x < T; ++x) {
        ta[y][x] = a[(size_t)(i + y) * n + t + x];
        tb[y][x] = b[(size_t)(t + y) * n + j + x];
      }
    for (int y = 0; y < T; ++y)
      for (int x = 0; x < T; ++x)
        for (int k = 0; k < T; ++k) sum[y][x] += ta[y][k] * tb[k][x];
  }
  for (int y = 0; y < T; ++y)
    for (int x = 0; x < T; ++x) c[(size_t)(i + y) * n + j + x] = sum[y][x];
}

static void tiles(const float *a, const float *b, float *c, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; i += T)
    for (int j = 0; j < n; j += T) tile(a, b, c, n, i, j);
}

static double sum(const float *c, int n) {
  double total = 0;
  for (int i = 0; i < n; ++i) {
    double s = 0;
    for (int j = 0; j < n; ++j) s += c[(size_t)i * n + j];
    total += s;
  }
  return total;
}

int main(int argc, char **argv) {
  const int n = number(argc, argv, 1, 64), steps = number(argc, argv, 2, 2);
  const int tiled = argc > 3 && strcmp(argv[3], "tiles") == 0;
  const double begin = now();
  double start = begin;
  float *a = room((size_t)n * n), *b = room((size_t)n * n);
  float *c = room((size_t)n * n);
  fill(a, n, 1);
  fill(b, n, 2);
  for (int t = 0; t < 1 + steps; ++t) {
    if (t == 1) start = now();
    (tiled ? tiles : rows)(a, b, c, n);
  }
  const double stop = now();
  report(start - begin, stop - start, sum(c, n));
  return 0;
}
