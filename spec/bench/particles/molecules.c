/* molecules.c -- examples/molecules.lua by hand, on one core.
 *
 *   molecules SIDE STEPS
 *
 * The same algorithm: atoms lie in the order of their cells; each one meets
 * those of 27 cells, is moved, and counted into the cell where it is then. As
 * there, the energy at the end counts no pair twice. The last line is JSON. */
#include "particles.h"

typedef struct atom {
  double x, y, z, u, v, w;
} atom;

static long side, n, across, cells;
static double length, width;
static atom *now, *next;
static long *first, *to;
static int *near;
static const double REACH2 = 6.25, DT = 0.002;

static long layer(double x) {
  long at = (long)floor(x / width);
  return at < 0 ? 0 : at >= across ? across - 1 : at;
}

static long cell_of(const atom *a) {
  return (layer(a->x) * across + layer(a->y)) * across + layer(a->z);
}

static double nearest(double d) {
  return d > length / 2 ? d - length : d < -length / 2 ? d + length : d;
}

static double wrap(double x) {
  return x < 0 ? x + length : x >= length ? x - length : x;
}

/* Atoms of `from`, whose cells are in `to`, in the order of these. */
static void sort(const atom *from, atom *into) {
  memset(first, 0, (size_t)(cells + 1) * sizeof *first);
  for (long i = 0; i < n; ++i) ++first[to[i] + 1];
  for (long c = 0; c < cells; ++c) first[c + 1] += first[c];
  for (long i = 0; i < n; ++i) into[first[to[i]]++] = from[i];
  for (long c = cells; c > 0; --c) first[c] = first[c - 1];
  first[0] = 0;
}

static void seed(void) {
  double a = length / (double)side;
  for (long i = 0; i < n; ++i) {
    long cell = i / 4, j = i % 4;
    double sign = i % 2 == 0 ? 1 : -1, s[3];
    for (int k = 0; k < 3; ++k)
      s[k] = 4 * (uniform(1, (uint64_t)(i / 2), (uint32_t)k) - 0.5) * sign;
    next[i] = (atom){
        ((double)(cell / (side * side)) + 0.25 + (j > 1 ? 0.5 : 0)) * a,
        ((double)(cell / side % side) + 0.25 + (double)(j % 2) / 2) * a,
        ((double)(cell % side) + 0.25 + (j == 1 || j == 2 ? 0.5 : 0)) * a,
        s[0],
        s[1],
        s[2]};
    to[i] = cell_of(&next[i]);
  }
  sort(next, now);
}

static long beside(long c, long m, long by, long of) {
  return (c / by + m / of % 3 - 1 + across) % across;
}

static void step(double half, double *potential, double *kinetic) {
  const double shift = 4 * (pow(REACH2, -6) - pow(REACH2, -3));
  *potential = *kinetic = 0;
  for (long c = 0; c < cells; ++c)
    for (long i = first[c]; i < first[c + 1]; ++i) {
      atom a = now[i];
      double fx = 0, fy = 0, fz = 0, energy = 0;
      for (int m = 0; m < 27; ++m) {
        long end = first[near[27 * c + m] + 1];
        for (long k = first[near[27 * c + m]]; k < end; ++k) {
          double dx = nearest(a.x - now[k].x), dy = nearest(a.y - now[k].y),
                 dz = nearest(a.z - now[k].z);
          double r2 = dx * dx + dy * dy + dz * dz;
          if (r2 < REACH2 && r2 > 0) {
            double s = 1 / r2, s3 = s * s * s, f = 48 * s * s3 * (s3 - 0.5);
            fx += f * dx;
            fy += f * dy;
            fz += f * dz;
            energy += 4 * s3 * (s3 - 1) - shift;
          }
        }
      }
      double um = a.u + half * fx, vm = a.v + half * fy, wm = a.w + half * fz;
      *potential += energy / 2;
      *kinetic += (um * um + vm * vm + wm * wm) / 2;
      a.u = um + DT / 2 * fx;
      a.v = vm + DT / 2 * fy;
      a.w = wm + DT / 2 * fz;
      a.x = wrap(a.x + DT * a.u);
      a.y = wrap(a.y + DT * a.v);
      a.z = wrap(a.z + DT * a.w);
      next[i] = a;
      to[i] = cell_of(&a);
    }
  sort(next, now);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  side = atol(argv[1]);
  long steps = atol(argv[2]);
  n = 4 * side * side * side;
  length = pow((double)n / 0.8442, 1.0 / 3);
  across = (long)floor(length / 2.5);
  cells = across * across * across;
  width = length / (double)across;
  now = room((size_t)n * sizeof *now);
  next = room((size_t)n * sizeof *next);
  to = room((size_t)n * sizeof *to);
  first = room((size_t)(cells + 1) * sizeof *first);
  near = room((size_t)cells * 27 * sizeof *near);
  for (long c = 0; c < cells; ++c)
    for (long m = 0; m < 27; ++m)
      near[27 * c + m] = (int)((beside(c, m, across * across, 9) * across +
                                beside(c, m, across, 3)) *
                                   across +
                               beside(c, m, 1, 1));
  seed();
  double potential, kinetic, begin = seconds();
  for (long t = 0; t <= steps; ++t)
    step(t == 0 ? 0 : DT / 2, &potential, &kinetic);
  printf("{\"seconds\": %.9f, \"result\": %.12g}\n",
         (seconds() - begin) / (double)(steps + 1),
         (potential + kinetic) / (double)n);
  return 0;
}
