/* plasma.c -- examples/plasma.lua by hand, on one core.
 *
 *   plasma CELLS PER_CELL QUARTERS
 *
 * The same algorithm: electrons lie in the order of their cells; each one is
 * moved by the field, counted into the cell where it is then, and leaves its
 * charge at the nodes beside it. The last line is JSON. */
#include "particles.h"

typedef struct electron {
  double x, v;
} electron;

static long cells, per_cell, n;
static electron *now, *next;
static long *first, *to;
static double *density, *between, *field;

static void settle(long i, electron p) {
  double x = p.x < 0                ? p.x + (double)cells
             : p.x >= (double)cells ? p.x - (double)cells
                                    : p.x;
  long cell = (long)x;
  if (cell >= cells) cell = cells - 1;
  double part = x - (double)cell;
  next[i] = (electron){x, p.v};
  to[i] = cell;
  density[cell] += (1 - part) / (double)per_cell;
  density[(cell + 1) % cells] += part / (double)per_cell;
}

static void sort(void) {
  memset(first, 0, (size_t)(cells + 1) * sizeof *first);
  for (long i = 0; i < n; ++i) ++first[to[i] + 1];
  for (long c = 0; c < cells; ++c) first[c + 1] += first[c];
  for (long i = 0; i < n; ++i) now[first[to[i]]++] = next[i];
}

static double solve(void) {
  double sum = 0, total = 0, energy = 0;
  for (long c = 0; c < cells; ++c) {
    between[c] = sum += 1 - density[c];
    total += sum;
  }
  for (long c = 0; c < cells; ++c) {
    field[c] = 0.5 * (between[(c + cells - 1) % cells] + between[c]) -
               total / (double)cells;
    energy += field[c] * field[c];
  }
  memset(density, 0, (size_t)cells * sizeof *density);
  return energy;
}

static void move(double kick, double dt) {
  for (long i = 0; i < n; ++i) {
    electron p = now[i];
    long cell = (long)p.x;
    if (cell >= cells) cell = cells - 1;
    double part = p.x - (double)cell;
    p.v -= kick * ((1 - part) * field[cell] + part * field[(cell + 1) % cells]);
    p.x += dt * p.v;
    settle(i, p);
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  cells = atol(argv[1]);
  per_cell = atol(argv[2]);
  int quarters = atoi(argv[3]);
  n = cells * per_cell;
  now = room((size_t)n * sizeof *now);
  next = room((size_t)n * sizeof *next);
  to = room((size_t)n * sizeof *to);
  first = room((size_t)(cells + 1) * sizeof *first);
  density = room((size_t)cells * sizeof *density);
  between = room((size_t)cells * sizeof *between);
  field = room((size_t)cells * sizeof *field);
  const double pi = acos(-1), dt = pi / 2 / 32;
  for (long i = 0; i < n; ++i) {
    double x = ((double)i + 0.5) / (double)per_cell;
    settle(i, (electron){x + 0.2 * sin(2 * pi * x / (double)cells), 0});
  }
  sort();
  double energy = solve(), begin = seconds();
  for (int step = 0; step < 32 * quarters; ++step) {
    move(step == 0 ? dt / 2 : dt, dt);
    sort();
    energy = solve();
  }
  printf("{\"seconds\": %.9f, \"result\": %.12g}\n",
         (seconds() - begin) / (32 * quarters), energy);
  return 0;
}
