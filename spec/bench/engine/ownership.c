/* ownership.c -- what the command graph costs per task as ranks grow.
 *
 *   ownership            the stencil at 4 and 65,536 ranks, and their ratio
 *   ownership patterns   every program at 4, 1,024 and 65,536 ranks (1,024 at
 *                        most where all send to all: O(ranks) messages a task)
 *   ownership growth     entries and replications after 10 to 10,000 steps
 *
 * Times are microseconds of processor time per task as the slowest of ranks 0,
 * N/2 and N-1: the best of several runs, submission of the prepared record to
 * the last command emitted, horizons and retirement included. The last line is
 * JSON. Target of the ratio: at most 1.5.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "command/programs.h"

enum { WARM = 8, RUNS = 7 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Per task, as one rank. */
static double cost(const prog_kind *kind, int64_t rank, int64_t ranks,
                   int steps) {
  prog p;
  double best = 0;
  prog_init(&p, kind, rank, ranks);
  int64_t t = 1;
  for (; t <= WARM; ++t) kind->step(&p, t);
  for (int run = 0; run < RUNS; ++run) {
    int64_t tasks = p.tasks;
    double begin = now_us();
    for (int i = 0; i < steps; ++i) kind->step(&p, t++);
    double each = (now_us() - begin) / (double)(p.tasks - tasks);
    if (run == 0 || each < best) best = each;
  }
  prog_release(&p);
  return best;
}

static double worst(const prog_kind *kind, int64_t ranks, int steps) {
  const int64_t rank[] = {0, ranks / 2, ranks - 1};
  double most = 0;
  for (int i = 0; i < 3; ++i) {
    double each = cost(kind, rank[i], ranks, steps);
    if (each > most) most = each;
  }
  return most;
}

static int stencil(void) {
  double few = worst(&prog_kinds[0], 4, 2000);
  double many = worst(&prog_kinds[0], 65536, 2000);
  printf("stencil:     4 ranks %.2f us per task\n", few);
  printf("stencil: 65536 ranks %.2f us per task\n", many);
  printf("ratio: %.2f\n", many / few);
  printf("{\"bench\": \"ownership\", \"us_4\": %.3f, \"us_65536\": %.3f, "
         "\"ratio\": %.3f}\n",
         few, many, many / few);
  return 0;
}

static int patterns(void) {
  static const int64_t ranks[] = {4, 1024, 65536};
  printf("{\"bench\": \"ownership\"");
  for (int i = 0; i < PROG_KINDS; ++i)
    for (int r = 0; r < 3; ++r) {
      bool all_to_all = i >= PROG_ALL_TO_ALL;
      if (all_to_all && r == 2) continue;
      double each = worst(&prog_kinds[i], ranks[r], all_to_all ? 10 : 500);
      printf(", \"%s_%" PRId64 "\": %.3f", prog_kinds[i].name, ranks[r], each);
      fflush(stdout);
    }
  printf("}\n");
  return 0;
}

static int growth(void) {
  printf("{\"bench\": \"growth\"");
  for (int i = 0; i < PROG_KINDS; ++i) {
    prog p;
    prog_init(&p, &prog_kinds[i], 8, 16);
    printf(", \"%s\": [", prog_kinds[i].name);
    for (int64_t t = 1, at = 10; t <= 10000; ++t) {
      prog_kinds[i].step(&p, t);
      if (t != at) continue;
      uint64_t entries, replications, bytes;
      cel_command_graph_counts(p.graph, &entries, &replications, &bytes);
      printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", at > 10 ? ", " : "",
             entries, replications, bytes);
      at *= 10;
    }
    printf("]");
    prog_release(&p);
  }
  printf("}\n");
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "patterns") == 0) return patterns();
  if (argc > 1 && strcmp(argv[1], "growth") == 0) return growth();
  return stencil();
}
