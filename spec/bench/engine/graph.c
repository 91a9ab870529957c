/* graph.c -- how long it takes to make the graphs of six topologies.
 *
 *   bench_graph [MILLISECONDS_PER_FIGURE]
 *   bench_graph messages [MILLISECONDS_PER_FIGURE]
 *   bench_graph shutdown [MILLISECONDS_PER_FIGURE]
 *   bench_graph [messages] once RANKS DEVICES TOPOLOGY [TIMES]
 *
 * The topologies and what Celerity takes for them (soup, chain, two trees,
 * wave_sim, jacobi; 2 cores of a Xeon, its master of August 2026). Time covers
 * the rules, the buffers, all tasks with their horizons, the graphs through the
 * stage named, for rank 0 of N, giving up what horizons have made old, and
 * tearing all down. A figure is the median of as many repetitions as fit.
 *
 * Collectives are on, as they are in the engine; `messages` goes without.
 * `once` makes one graph, for a profiler or a counter of instructions: without
 * devices through commands, without ranks the task graph alone. Topologies are
 * numbered from 0. It prints the least time of all that it made, too.
 *
 * `shutdown` draws figure 7 of Knorr et al., Declarative Data Flow: task and
 * command graph with the epoch at their end and without it, in turns, and what
 * it adds, in percent. The last line is JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/vec.h"
#include "bench/engine/topologies.h"

/* ---- measuring ----------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double once(const setup *setup, int topology, bool shutdown, run *r) {
  double begin = now();
  run_open(r, setup, 0);
  topologies[topology].build(r);
  if (shutdown) cel_task_graph_epoch(r->tasks, (cel_location){0});
  run_close(r);
  return now() - begin;
}

static double measure(const setup *setup, int topology, double budget, run *r) {
  CEL_VEC(double) times = {0};
  double end = now() + budget;
  do cel_vec_push(&times, once(setup, topology, true, r));
  while (now() < end && times.n < 10000);
  qsort(times.at, times.n, sizeof(double), ascending);
  double median = times.at[times.n / 2];
  cel_vec_release(&times);
  return median;
}

static const setup setups[] = {
    {"task graph", TASKS, 1, 1, false, {298, 24.5, 38.7, 40.1, 270, 79}},
    {"+ commands, 1 rank",
     COMMANDS,
     1,
     1,
     false,
     {792, 49.6, 102, 107, 642, 175}},
    {"4 ranks", COMMANDS, 4, 1, false, {1136, 221, 246, 246, 1532, 391}},
    {"16 ranks", COMMANDS, 16, 1, false, {1574, 806, 543, 563, 3343, 978}},
    {"64 ranks", COMMANDS, 64, 1, false, {3307, 3533, 1593, 1734, 10418, 3266}},
    {"256 ranks",
     COMMANDS,
     256,
     1,
     false,
     {10178, 16028, 5903, 6370, 38705, 12753}},
    {"1,024 ranks", COMMANDS, 1024, 1, true, {0}},
    {"+ instructions, 1 rank, 1 device",
     INSTRS,
     1,
     1,
     false,
     {3136, 133, 271, 395, 1751, 505}},
    {"2 ranks, 1 device",
     INSTRS,
     2,
     1,
     false,
     {3773, 474, 754, 800, 3711, 849}},
    {"2 ranks, 4 devices",
     INSTRS,
     2,
     4,
     false,
     {3796, 476, 756, 804, 10658, 3036}},
    {"2 ranks, 8 devices", INSTRS, 2, 8, false, {0}},
    {"2 ranks, 16 devices",
     INSTRS,
     2,
     16,
     false,
     {3951, 489, 770, 838, 43218, 44509}},
    {"4 ranks, 1 device",
     INSTRS,
     4,
     1,
     false,
     {3857, 749, 922, 933, 4087, 1044}},
    {"16 ranks, 1 device",
     INSTRS,
     16,
     1,
     false,
     {4253, 2810, 1577, 1557, 6017, 2057}},
    {"256 ranks, 1 device",
     INSTRS,
     256,
     1,
     false,
     {13171, 111413, 16654, 14832, 42572, 25608}},
};

/* The last line: microseconds and Celerity's, by topology. */
static void print_json(double us[][6]) {
  printf("{\"bench\": \"graph\", \"rows\": [");
  for (size_t s = 0; s < sizeof setups / sizeof *setups; ++s) {
    printf("%s{\"setup\": \"%s\", \"instructions\": %s, \"ranks\": %d, "
           "\"devices\": %d",
           s > 0 ? ", " : "", setups[s].name,
           setups[s].stage == INSTRS ? "true" : "false", (int)setups[s].ranks,
           (int)setups[s].devices);
    for (int t = 0; t < 6; ++t)
      printf(", \"%s\": {\"us\": %.4g, \"mark\": %.4g}", topologies[t].name,
             us[s][t], setups[s].marks[t]);
    printf("}");
  }
  printf("]}\n");
}

static void draw_stages(double budget) {
  double taken[sizeof setups / sizeof *setups][6];
  printf("us for the whole graph (Celerity's / ours)\n%-34s", "");
  for (int t = 0; t < 6; ++t) printf("%18s", topologies[t].name);
  printf("\n");
  for (size_t s = 0; s < sizeof setups / sizeof *setups; ++s) {
    printf("%-34s", setups[s].name);
    for (int t = 0; t < 6; ++t) {
      run r;
      double us = taken[s][t] = measure(&setups[s], t, budget, &r);
      char factor[16] = "";
      if (setups[s].marks[t] > 0)
        snprintf(factor, sizeof factor, " (%.1fx)", setups[s].marks[t] / us);
      printf("%9.1f%-9s", us, factor);
      fflush(stdout);
    }
    printf("\n");
  }
  printf("user tasks:");
  for (int t = 0; t < 6; ++t) {
    run r;
    once(&setups[8], t, true, &r);
    printf(" %s %d (%d commands, %d instructions)", topologies[t].name,
           (int)r.user_tasks, (int)r.n_commands, (int)r.n_instrs);
  }
  printf("; counts at 2 ranks, 1 device\n");
  print_json(taken);
}

/* ---- the shutdown epoch -------------------------------------------------- */

/* Medians with the epoch at the end and without it, in turns. */
static void measure_both(const setup *setup, int topology, double budget,
                         double median[2]) {
  CEL_VEC(double) times[2] = {0};
  double end = now() + budget;
  do
    for (int i = 0; i < 2; ++i) {
      run r;
      cel_vec_push(&times[i], once(setup, topology, i == 1, &r));
    }
  while (now() < end && times[0].n < 10000);
  for (int i = 0; i < 2; ++i) {
    qsort(times[i].at, times[i].n, sizeof(double), ascending);
    median[i] = times[i].at[times[i].n / 2];
    cel_vec_release(&times[i]);
  }
}

static void draw_shutdown(double budget) {
  static const int64_t ranks[] = {1, 4, 16, 64};
  static const int drawn[] = {0, 1, 5, 4};
  double worst = 0;
  printf(
      "us for task and command graph: without the epoch at the end, and what "
      "it adds\n%-10s",
      "");
  for (int i = 0; i < 4; ++i) printf("%20s", topologies[drawn[i]].name);
  for (int k = 0; k < 4; ++k) {
    setup s = {"shutdown", COMMANDS, ranks[k], 1, false, {0}};
    printf("\n%2d ranks  ", (int)ranks[k]);
    for (int i = 0; i < 4; ++i) {
      double us[2];
      measure_both(&s, drawn[i], budget, us);
      double added = 100 * (us[1] / us[0] - 1);
      printf("%10.1f %+7.2f %%", us[0], added);
      fflush(stdout);
      /* The soup's tasks are all at its end, which nobody's program is. */
      if (drawn[i] != 0 && added > worst) worst = added;
    }
  }
  printf("\n{\"shutdown_worst_percent\": %.2f}\n", worst);
}

static int usage(void) {
  fprintf(stderr, "usage: bench_graph [messages | shutdown] [milliseconds]\n"
                  "       bench_graph [messages] once ranks devices topology "
                  "[times]\n");
  return 2;
}

static int make_once(int argc, char **argv) {
  int topology = argc > 4 ? atoi(argv[4]) : -1;
  int64_t ranks = argc > 2 ? atoll(argv[2]) : -1;
  int32_t devices = argc > 3 ? atoi(argv[3]) : -1;
  stage stage = ranks == 0 ? TASKS : devices == 0 ? COMMANDS : INSTRS;
  setup s = {"once", stage, ranks + (ranks == 0), devices, false, {0}};
  if (topology < 0 || topology > 5 || ranks < 0 || devices < 0 || devices > 16)
    return usage();
  run r;
  double least = 0;
  for (int i = argc > 5 ? atoi(argv[5]) : 1; i > 0; --i) {
    double us = once(&s, topology, true, &r);
    if (least == 0 || us < least) least = us;
  }
  printf("%s: %d tasks, %d commands, %d instructions, %.1f us\n",
         topologies[topology].name, (int)r.user_tasks, (int)r.n_commands,
         (int)r.n_instrs, least);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  retiring = true;
  bool shutdown = strcmp(what, "shutdown") == 0;
  collectives = strcmp(what, "messages") != 0;
  bool named = shutdown || !collectives;
  const char *text = argc > 1 + named ? argv[1 + named] : "50";
  if (strcmp(text, "once") == 0) return make_once(argc - named, argv + named);
  double budget = strtod(text, NULL) * 1e3;
  if (budget <= 0) return usage();
  (shutdown ? draw_shutdown : draw_stages)(budget);
  return 0;
}
