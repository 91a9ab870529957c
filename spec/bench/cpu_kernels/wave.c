/* wave.c -- the wave step in plain C with OpenMP: what ../cuda/wave.lua
 * computes, written as one would for speed, with the edges apart.
 *   wave rows columns steps
 */
#include <math.h>

#include "common.h"

static void drop(float *u, int rows, int w) {
  const float width = w / 24;
#pragma omp parallel for schedule(static)
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < w; ++x) {
      const float dy = y - rows / 4, dx = x - w / 3;
      u[(size_t)y * w + x] = expf(-(dy * dy + dx * dx) / (width * width));
    }
}

static inline float next(float old, float at, float below, float above,
                         float right, float left, float c) {
  const float uy = below + above, ux = right + left;
  return 2 * at - old + c * (ux + uy - 4 * at);
}

static void row(float *restrict to, const float *restrict at,
                const float *restrict above, const float *restrict below, int w,
                float c) {
  to[0] = next(to[0], at[0], below[0], above[0], at[1], at[0], c);
  for (int x = 1; x < w - 1; ++x)
    to[x] = next(to[x], at[x], below[x], above[x], at[x + 1], at[x - 1], c);
  const int x = w - 1;
  to[x] = next(to[x], at[x], below[x], above[x], at[x], at[x - 1], c);
}

static void step(float *up, const float *u, int h, int w, float c) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < h; ++y) {
    const int above = y > 0 ? y - 1 : 0, below = y + 1 < h ? y + 1 : y;
    row(up + (size_t)y * w, u + (size_t)y * w, u + (size_t)above * w,
        u + (size_t)below * w, w, c);
  }
}

static double sum(const float *u, int h, int w) {
  double total = 0;
  for (int y = 0; y < h; ++y) {
    double s = 0;
    for (int x = 0; x < w; ++x) s += fabsf(u[(size_t)y * w + x]);
    total += s;
  }
  return total;
}

int main(int argc, char **argv) {
  const int h = number(argc, argv, 1, 256), w = number(argc, argv, 2, 256);
  const int steps = number(argc, argv, 3, 20), warm = 10;
  const double begin = now();
  double start = begin;
  float *u = room((size_t)h * w), *up = room((size_t)h * w);
  drop(u, h, w);
  drop(up, h, w);
  for (int t = 0; t < warm + steps; ++t) {
    if (t == warm) start = now();
    step(up, u, h, w, 0.25f);
    float *swap = u;
    u = up, up = swap;
  }
  const double stop = now();
  report(start - begin, stop - start, sum(u, h, w));
  return 0;
}
