/* region.c -- what boxes, regions, maps and trackers cost, in microseconds.
 *
 * The cases of Celerity's own grid benchmarks: random boxes in 2-D (few large
 * ones, many single points, many large ones) and maps of 1,024 x 1,024 in
 * stripes; plus trackers along a stencil. Sizes and distributions are theirs,
 * the drawn numbers are not.
 *
 *   bench_region          a table; the last line is the same as JSON
 *
 * `mark` is what Celerity reached on another machine (a Xeon), for orientation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/random.h"
#include "base/status.h"
#include "region/map.h"
#include "region/region.h"
#include "region/track.h"

enum { BATCHES = 15 };

typedef struct result {
  char name[64];
  double us, mark;
} result;

static result results[64];
static int n_results;

/* Processor time: what other programs take does not count. */
static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median time of one call over batches of up to 2 ms. */
static void measure(const char *name, double mark, void (*fn)(void *),
                    void *context) {
  double took[BATCHES];
  long calls = 1;
  for (double start = now_us(); now_us() - start < 2000; ++calls) fn(context);
  for (int b = 0; b < BATCHES; ++b) {
    double start = now_us();
    for (long i = 0; i < calls; ++i) fn(context);
    took[b] = (now_us() - start) / (double)calls;
  }
  qsort(took, BATCHES, sizeof *took, ascending);
  result *r = &results[n_results++];
  snprintf(r->name, sizeof r->name, "%s", name);
  r->us = took[BATCHES / 2];
  r->mark = mark;
}

/* ---------------------------------------------------------------- regions */

typedef struct operands {
  cel_box boxes[200];
  uint32_t n;
  cel_region a, b, out;
} operands;

/* `n` boxes within [0, grid)^2, with sides 1 + binomial(longest - 1, 1/2). */
static void random_boxes(cel_random *random, int64_t grid, int longest,
                         uint32_t n, cel_box *out) {
  for (uint32_t i = 0; i < n;) {
    cel_box box = cel_box_sized(1, 1, 1);
    bool inside = true;
    for (int d = 0; d < 2; ++d) {
      int64_t side = 1;
      for (int k = 1; k < longest; ++k) side += cel_random_chance(random, 50);
      box.min[d] = cel_random_int(random, 0, grid - 1);
      box.max[d] = box.min[d] + side;
      inside = inside && box.max[d] <= grid;
    }
    if (inside) out[i++] = box;
  }
}

static void normalise(void *context) {
  operands *o = context;
  cel_region_assign(&o->out, o->boxes, o->n);
}

static void unite(void *context) {
  operands *o = context;
  cel_region_unite(&o->out, &o->a, &o->b);
}

static void intersect(void *context) {
  operands *o = context;
  cel_region_intersect(&o->out, &o->a, &o->b);
}

static void subtract(void *context) {
  operands *o = context;
  cel_region_subtract(&o->out, &o->a, &o->b);
}

static void bench_regions(void) {
  static const struct {
    const char *label;
    int64_t grid;
    int longest;
    uint32_t n, n_operand;
    double mark[4];
  } sizes[] = {
      {"small", 10, 5, 4, 4, {0.35, 0.53, 0.16, 0.64}},
      {"medium", 50, 1, 50, 50, {3.6, 7.6, 2.2, 5.8}},
      {"large", 200, 20, 200, 100, {187, 153, 17, 646}},
  };
  static const struct {
    const char *label;
    void (*fn)(void *);
  } ops[] = {{"normalise", normalise},
             {"union", unite},
             {"intersection", intersect},
             {"difference", subtract}};
  operands *o = cel_alloc_zero(sizeof *o);
  for (int op = 0; op < 4; ++op)
    for (int s = 0; s < 3; ++s) {
      cel_random random = {42};
      char name[64];
      random_boxes(&random, sizes[s].grid, sizes[s].longest, sizes[s].n_operand,
                   o->boxes);
      cel_region_assign(&o->a, o->boxes, sizes[s].n_operand);
      random_boxes(&random, sizes[s].grid, sizes[s].longest, sizes[s].n_operand,
                   o->boxes);
      cel_region_assign(&o->b, o->boxes, sizes[s].n_operand);
      o->n = sizes[s].n;
      random_boxes(&random, sizes[s].grid, sizes[s].longest, o->n, o->boxes);
      snprintf(name, sizeof name, "%s 2-D %s", ops[op].label, sizes[s].label);
      measure(name, sizes[s].mark[op], ops[op].fn, o);
    }
  cel_region_release(&o->a);
  cel_region_release(&o->b);
  cel_region_release(&o->out);
  cel_free(o);
}

/* ------------------------------------------------------------------- maps */

typedef struct stripes {
  int64_t n, at;
  uint64_t value;
  cel_map *map;
  cel_map_entries hits;
} stripes;

enum { SIDE = 1024 };

static cel_box stripe(const stripes *s, int64_t i) {
  cel_box box = cel_box_sized(SIDE, SIDE, 1);
  box.min[0] = i * SIDE / s->n;
  box.max[0] = (i + 1) * SIDE / s->n;
  return box;
}

static cel_map *striped_map(const stripes *s) {
  cel_box extent = cel_box_sized(SIDE, SIDE, 1);
  cel_map *map = cel_map_create(&extent, 0);
  for (int64_t i = 0; i < s->n; ++i) {
    cel_box box = stripe(s, i);
    cel_map_update(map, &box, (uint64_t)i + 1);
  }
  return map;
}

static void build_map(void *context) {
  cel_map_destroy(striped_map(context));
}

static void query_one(void *context) {
  stripes *s = context;
  s->at = (s->at + 7) % s->n;
  cel_box box = stripe(s, s->at);
  cel_map_query(s->map, &box, &s->hits);
}

static void query_all(void *context) {
  stripes *s = context;
  cel_box extent = cel_box_sized(SIDE, SIDE, 1);
  cel_map_query(s->map, &extent, &s->hits);
}

static void update_one(void *context) {
  stripes *s = context;
  s->at = (s->at + 7) % s->n;
  cel_box box = stripe(s, s->at);
  cel_map_update(s->map, &box, ++s->value);
}

static void bench_maps(void) {
  static const struct {
    int64_t n;
    double mark[4];
  } sizes[] = {{1, {0}},
               {4, {0}},
               {16, {4.9, 0.077, 0.68, 0.077}},
               {256, {164, 0.13, 60, 0.14}},
               {1024, {872, 0.19, 848, 0.25}}};
  static const struct {
    const char *label;
    void (*fn)(void *);
  } ops[] = {{"build", build_map},
             {"query one", query_one},
             {"query all", query_all},
             {"update one", update_one}};
  for (int op = 0; op < 4; ++op)
    for (int i = 0; i < 5; ++i) {
      stripes s = {.n = sizes[i].n, .value = 1 << 20};
      char name[64];
      s.map = striped_map(&s);
      snprintf(name, sizeof name, "map %s, %d stripes", ops[op].label,
               (int)s.n);
      measure(name, sizes[i].mark[op], ops[op].fn, &s);
      cel_map_destroy(s.map);
      cel_map_entries_release(&s.hits);
    }
}

/* --------------------------------------------------------------- trackers */

typedef struct stencil {
  cel_track *buffer[2];
  int64_t parts;
  uint64_t id, horizon, step;
  cel_deps deps;
} stencil;

/* One step: each part reads its rows and one more on either side from one
 * buffer, and writes its rows of the other. A floor every four steps. */
static void stencil_step(void *context) {
  stencil *s = context;
  cel_track *from = s->buffer[s->step % 2], *to = s->buffer[(s->step + 1) % 2];
  for (int64_t i = 0; i < s->parts; ++i) {
    cel_box own = cel_box_sized(SIDE, SIDE, 1), read;
    own.min[0] = i * SIDE / s->parts;
    own.max[0] = (i + 1) * SIDE / s->parts;
    read = own;
    read.min[0] -= read.min[0] > 0;
    read.max[0] += read.max[0] < SIDE;
    s->id++;
    cel_deps_clear(&s->deps);
    cel_track_read(from, &read, s->id, &s->deps);
    cel_track_write(to, &own, s->id, &s->deps);
  }
  if (++s->step % 4 == 0) {
    for (int i = 0; i < 2; ++i) cel_track_floor(s->buffer[i], s->horizon);
    s->horizon = s->id;
  }
}

static void bench_trackers(void) {
  cel_box extent = cel_box_sized(SIDE, SIDE, 1);
  for (int64_t parts = 1; parts <= 64; parts *= 4) {
    stencil s = {.parts = parts, .id = 1, .horizon = 1};
    char name[64];
    for (int i = 0; i < 2; ++i) s.buffer[i] = cel_track_create(&extent, 1);
    snprintf(name, sizeof name, "track stencil step, %d parts", (int)parts);
    measure(name, 0, stencil_step, &s);
    for (int i = 0; i < 2; ++i) cel_track_destroy(s.buffer[i]);
    cel_deps_release(&s.deps);
  }
}

int main(void) {
  bench_regions();
  bench_maps();
  bench_trackers();
  printf("%-32s %10s %10s %8s\n", "", "us", "mark", "times");
  for (int i = 0; i < n_results; ++i) {
    const result *r = &results[i];
    printf("%-32s %10.3f", r->name, r->us);
    if (r->mark > 0) printf(" %10.3f %8.1f", r->mark, r->mark / r->us);
    printf("\n");
  }
  printf("{\"bench\": \"region\", \"unit\": \"us\", \"results\": {");
  for (int i = 0; i < n_results; ++i)
    printf("%s\"%s\": %.4g", i ? ", " : "", results[i].name, results[i].us);
  printf("}}\n");
  return 0;
}
