/* own_fuzz.c -- random programs against the command graph.
 *
 *   own_fuzz [CASES] [SEED] [RANKS]
 *   own_fuzz --seconds N
 *
 * Every case runs one command graph per rank and compares with brute force,
 * see fuzz_run.c. A case that fails is shrunk and printed. Ends with
 * `N passed, N failed`.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command/fuzz.h"

static fuzz_stats ignored;

/* Tries a smaller program; keeps it when it fails as well. */
static bool keep(fuzz_program *p, const fuzz_program *smaller, uint64_t seed,
                 fuzz_fault *fault) {
  fuzz_fault f = fuzz_run(smaller, seed, &ignored);
  if (f.text[0] == 0) return false;
  *p = *smaller;
  *fault = f;
  return true;
}

static bool drop_task(fuzz_program *p, int i) {
  if (i >= p->tasks) return false;
  memmove(&p->task[i], &p->task[i + 1],
          (size_t)(--p->tasks - i) * sizeof p->task[0]);
  return true;
}

static bool drop_access(fuzz_program *p, int i) {
  fuzz_task *t = &p->task[i / FUZZ_ACCESSES];
  int a = i % FUZZ_ACCESSES;
  if (i / FUZZ_ACCESSES >= p->tasks || a >= t->accesses || t->accesses < 2)
    return false;
  memmove(&t->access[a], &t->access[a + 1],
          (size_t)(--t->accesses - a) * sizeof t->access[0]);
  return true;
}

static bool drop_box(fuzz_program *p, int i) {
  fuzz_task *t = &p->task[i / 9];
  fuzz_access *a = &t->access[i % 9 / 3];
  int b = i % 3;
  if (i / 9 >= p->tasks || i % 9 / 3 >= t->accesses || b >= a->boxes ||
      a->boxes < 2)
    return false;
  memmove(a->bound[b], a->bound[b + 1],
          (size_t)(--a->boxes - b) * sizeof a->bound[0]);
  return true;
}

static bool simplify(fuzz_program *p, int i) {
  if (i == 0) {
    p->squeeze = 0;
    p->small_bytes = p->large_bytes = FUZZ_SMALL;
    p->hosts = 0;
    return true;
  }
  if (i == 2 + FUZZ_TASKS) {
    p->collectives = false;
    p->count_most = p->tree_least = 0;
    return true;
  }
  if (i == 1) {
    if (p->ranks == 1) return false;
    --p->ranks;
    for (int t = 0; t < p->tasks; ++t)
      if (p->task[t].placement == CEL_PLACE_EACH)
        p->task[t].range.max[0] = p->ranks;
    return true;
  }
  fuzz_task *t = &p->task[i - 2];
  if (i - 2 >= p->tasks) return false;
  for (int a = 0; a < t->accesses; ++a) t->access[a].params = false;
  for (int d = 0; d < 3; ++d) t->permitted.granularity[d] = 1;
  if (t->weights > 1) t->weights = 1;
  return true;
}

static void shrink(fuzz_program *p, uint64_t seed, fuzz_fault *fault) {
  static bool (*const ways[])(fuzz_program *, int) = {drop_task, drop_access,
                                                      drop_box, simplify};
  for (bool again = true; again;) {
    again = false;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; ++w)
      for (int i = 9 * FUZZ_TASKS; i-- > 0;) {
        fuzz_program smaller = *p;
        if (ways[w](&smaller, i) && memcmp(&smaller, p, sizeof *p) != 0)
          again = keep(p, &smaller, seed, fault) || again;
      }
  }
}

static uint64_t current;

/* A case that does not end is a failure too. */
static void on_alarm(int signal_number) {
  (void)signal_number;
  char text[64];
  int n =
      snprintf(text, sizeof text, "case %" PRIu64 " does not end\n", current);
  if (write(2, text, (size_t)n) != n) _exit(2);
  abort();
}

static bool try_case(uint64_t seed, int max_ranks, fuzz_stats *stats) {
  fuzz_program program;
  current = seed;
  alarm(60);
  fuzz_generate(&program, seed, max_ranks);
  fuzz_fault fault = fuzz_run(&program, seed, stats);
  if (fault.text[0] == 0) return true;
  printf("case %" PRIu64 ": %s\n", seed, fault.text);
  shrink(&program, seed, &fault);
  printf("shrunk: %s\n", fault.text);
  fuzz_print(&program);
  return false;
}

int main(int argc, char **argv) {
  bool timed = argc > 2 && strcmp(argv[1], "--seconds") == 0;
  uint64_t cases = timed      ? UINT64_MAX
                   : argc > 1 ? strtoull(argv[1], 0, 10)
                              : 2000;
  uint64_t seed = timed ? 1 : argc > 2 ? strtoull(argv[2], 0, 10) : 1;
  int max_ranks = argc > 3 ? atoi(argv[3]) : 9;
  time_t end = timed ? time(NULL) + atoi(argv[2]) : 0;
  signal(SIGALRM, on_alarm);
  fuzz_stats stats = {0};
  uint64_t passed = 0, failed = 0;
  for (uint64_t i = 0; i < cases && failed < 3; ++i) {
    if (timed && time(NULL) >= end) break;
    if (try_case(seed * 10000000 + i, max_ranks, &stats))
      ++passed;
    else
      ++failed;
  }
  printf("%" PRIu64 " tasks, %" PRIu64 " messages, %" PRIu64
         " points sent, %" PRIu64 " tasks refused, %" PRIu64
         " entries at most\n",
         stats.tasks, stats.messages, stats.points, stats.refused,
         stats.entries_most);
  for (int i = CEL_PATTERN_BROADCAST; i <= CEL_PATTERN_ALL_TO_ALL; ++i)
    printf("%" PRIu64 " %s%s", stats.patterns[i],
           cel_pattern_name((cel_pattern)i),
           i < CEL_PATTERN_ALL_TO_ALL ? ", " : "; ");
  printf("%" PRIu64 " in pairs, %" PRIu64 " in groups, %" PRIu64
         " that weights leave ranks out of, %" PRIu64 " joined; %" PRIu64
         " points passed on\n",
         stats.pairs, stats.groups, stats.left_out, stats.joined, stats.passed);
  printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
  return failed > 0;
}
