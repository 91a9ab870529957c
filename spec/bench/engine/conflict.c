/* conflict [GRAPHS] -- how long the executor looks for what may start together.
 *
 *   bench_conflict | luajit spec/bench/conflict_figure.lua conflict.svg
 *
 * Measures and draws figure 8 of Knorr et al., Declarative Data Flow. `search`:
 * for so many commands that could start, with conflicts between so many of
 * their pairs, chosen evenly, the time of one search; and what the number of
 * candidates does to time and result. `pick`: the same from tasks with effects,
 * each exclusive on some of a number of objects, and everything around it.
 * Microseconds, medians over GRAPHS graphs; the last line is JSON.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "device/clock.h"
#include "exec/conflict.h"
#include "tuning.h"

enum { MOST_GRAPHS = 1000, LARGEST = 500, ROUNDS = 3 };

static const uint32_t sizes[] = {10, 20, 50, 100, 200, LARGEST};
static const double densities[] = {0,   0.001, 0.003, 0.01, 0.03, 0.1,
                                   0.2, 0.4,   0.6,   0.8,  0.9,  1};
enum {
  SIZES = sizeof sizes / sizeof *sizes,
  DENSITIES = sizeof densities / sizeof *densities
};

static int graphs = 100;
static cel_random chosen = {1};
static cel_conflict_room room;
static cel_conflict_set near[LARGEST];

static double now_us(void) {
  return (double)cel_now_ns() * 1e-3;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *at, int n) {
  qsort(at, (size_t)n, sizeof *at, by_value);
  return at[n / 2];
}

/* ---- searches -------------------------------------------------------------
 */

static void connect(uint32_t i, uint32_t k) {
  near[i].word[k / 64] |= (uint64_t)1 << (k % 64);
  near[k].word[i / 64] |= (uint64_t)1 << (i % 64);
}

static void make_graph(uint32_t n, double density) {
  for (uint32_t i = 0; i < n; ++i) {
    near[i] = (cel_conflict_set){0};
    for (uint32_t k = 0; k < i; ++k)
      if ((double)(cel_random_next(&chosen) >> 11) * 0x1p-53 < density)
        connect(i, k);
  }
}

/* Time and size of what is found, medians over graphs. */
static double search(uint32_t n, double density, uint32_t rejected,
                     double *size) {
  double took[MOST_GRAPHS], found[MOST_GRAPHS];
  chosen.state = 1;
  for (int g = 0; g < graphs; ++g) {
    cel_conflict_set set;
    make_graph(n, density);
    took[g] = 1e30;
    for (int r = 0; r < ROUNDS; ++r) {
      double start = now_us();
      found[g] = cel_conflict_search(near, n, rejected, &room, &set);
      double time = now_us() - start;
      if (time < took[g]) took[g] = time;
    }
  }
  *size = median(found, graphs);
  return median(took, graphs);
}

static double draw_searches(void) {
  double worst = 0, size;
  printf("search, %d candidates: microseconds\n%8s", CEL_TUNE_CONFLICT_REJECTED,
         "density");
  for (int s = 0; s < SIZES; ++s) printf(" %8u", sizes[s]);
  printf("  found of %d\n", LARGEST);
  for (int d = 0; d < DENSITIES; ++d) {
    printf("%8.3f", densities[d]);
    for (int s = 0; s < SIZES; ++s) {
      double time =
          search(sizes[s], densities[d], CEL_TUNE_CONFLICT_REJECTED, &size);
      printf(" %8.2f", time);
      if (time > worst) worst = time;
    }
    printf(" %8.0f\n", size);
  }
  return worst;
}

enum { LIMITS = 5 };
static const uint32_t limits[LIMITS] = {1, 10, 100, 1000, 10000};
static double took_us[LIMITS][DENSITIES], found[LIMITS][DENSITIES];

static void draw_limits(void) {
  printf("\n%d commands, by candidates: microseconds, and how many start\n",
         LARGEST);
  printf("%8s", "density");
  for (int l = 0; l < LIMITS; ++l) printf(" %14u", limits[l]);
  printf("\n");
  for (int d = 0; d < DENSITIES; ++d) {
    printf("%8.3f", densities[d]);
    for (int l = 0; l < LIMITS; ++l) {
      took_us[l][d] = search(LARGEST, densities[d], limits[l], &found[l][d]);
      printf(" %9.2f %4.0f", took_us[l][d], found[l][d]);
    }
    printf("\n");
  }
}

/* ---- picks ----------------------------------------------------------------
 */

enum { EFFECTS = 3 };

static cel_object objects[LARGEST];
static cel_effect effects[LARGEST][EFFECTS];
static cel_task tasks[LARGEST];
static cel_instr instrs[LARGEST];

static void make_tasks(uint32_t among) {
  for (uint32_t i = 0; i < among; ++i) objects[i].id = i;
  for (uint32_t i = 0; i < LARGEST; ++i) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < EFFECTS && e < among; ++e) {
      const cel_object *o =
          &objects[cel_random_int(&chosen, 0, (int64_t)among - 1)];
      bool new = true;
      for (uint32_t k = 0; k < n; ++k) new &= effects[i][k].object != o;
      if (new) effects[i][n++] = (cel_effect){o, CEL_ORDER_EXCLUSIVE};
    }
    tasks[i] = (cel_task){.effects = n, .effect = effects[i]};
    instrs[i] = (cel_instr){.id = i + 1, .task = &tasks[i]};
  }
}

/* All that waits, from the first pick to the last: per pick. */
static double pick_all(uint32_t among, double *first) {
  double took[MOST_GRAPHS], one[MOST_GRAPHS];
  for (int g = 0; g < graphs; ++g) {
    cel_conflicts *c = cel_conflicts_create();
    uint32_t left = LARGEST, picks = 0, n;
    make_tasks(among);
    for (uint32_t i = 0; i < LARGEST; ++i) cel_conflicts_wait(c, &instrs[i]);
    double start = now_us();
    for (; left > 0; ++picks) {
      const uint64_t *ids = cel_conflicts_pick(c, &n);
      if (picks == 0) one[g] = now_us() - start;
      uint64_t picked[LARGEST];
      for (uint32_t i = 0; i < n; ++i) picked[i] = ids[i];
      for (uint32_t i = 0; i < n; ++i)
        cel_conflicts_done(c, &instrs[picked[i] - 1]);
      left -= n;
    }
    took[g] = (now_us() - start) / picks;
    cel_conflicts_destroy(c);
  }
  *first = median(one, graphs);
  return median(took, graphs);
}

static double draw_picks(void) {
  static const uint32_t among[] = {1, 2, 5, 10, 50, 200, LARGEST};
  double worst = 0;
  printf("\npick, %d tasks with up to %d exclusive effects each\n%8s %8s %8s\n",
         LARGEST, EFFECTS, "objects", "first", "each");
  for (int i = 0; i < 7; ++i) {
    double first, each = pick_all(among[i], &first);
    printf("%8u %8.2f %8.2f\n", among[i], first, each);
    if (first > worst) worst = first;
  }
  return worst;
}

static void print_row(const char *name, const double *row, int n) {
  printf("%s[", name);
  for (int i = 0; i < n; ++i) printf(i == 0 ? "%.7g" : ", %.7g", row[i]);
  printf("]");
}

static void print_json(double searched, double picked) {
  printf("{\"commands\": %d, \"search_worst_us\": %.2f, \"pick_worst_us\": "
         "%.2f",
         LARGEST, searched, picked);
  print_row(", \"densities\": ", densities, DENSITIES);
  printf(", \"by_candidates\": [");
  for (int l = 0; l < LIMITS; ++l) {
    printf("%s{\"candidates\": %u", l == 0 ? "" : ", ", limits[l]);
    print_row(", \"us\": ", took_us[l], DENSITIES);
    print_row(", \"found\": ", found[l], DENSITIES);
    printf("}");
  }
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc > 1) graphs = atoi(argv[1]);
  if (graphs < 1 || graphs > MOST_GRAPHS) {
    fprintf(stderr, "usage: conflict [1 to %d graphs]\n", MOST_GRAPHS);
    return 2;
  }
  double searched = draw_searches();
  draw_limits();
  double picked = draw_picks();
  print_json(searched, picked);
  return 0;
}
