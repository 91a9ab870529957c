/* fuzz_state.h -- what the files that run a random program share.
 *
 *   fuzz_run.c      task by task through a command graph per rank
 *   fuzz_check.c    what these emitted, beside what brute force says
 *   fuzz_execute.c  the commands, in an order that they permit
 */
#ifndef SPEC_COMMAND_FUZZ_STATE_H
#define SPEC_COMMAND_FUZZ_STATE_H

#include <string.h>

#include "base/vec.h"
#include "command/command_graph.h"
#include "command/fuzz.h"

enum { NOBODY = -1, EVERYBODY = -2, VALUE_INIT = 100, VALUE_FREED = 200 };

/* A command, with copies of what its arena holds. */
typedef struct seen {
  cel_command command;
  const cel_command *emitted;
  int task;         /* in the program; -1 for the epochs around it */
  int waits;        /* commands it depends on that are not done */
  uint32_t awaited; /* AWAIT_PUSH: messages that are not there */
  bool begun;       /* COLLECTIVE */
  bool done;
  const cel_message *message; /* PUSH, AWAIT_PUSH: a copy of the list */
  uint8_t **data; /* AWAIT_PUSH: what the senders had, by place in the list */
  cel_exchange exchange;
} seen;

typedef CEL_VEC(seen) seen_list;

typedef struct run {
  fuzz_program program;
  fuzz_records *records;
  cel_random random;
  fuzz_stats *stats;
  cel_command_graph *graph[FUZZ_RANKS];
  seen_list seen[FUZZ_RANKS];
  uint32_t task_begin[FUZZ_RANKS]; /* first command of the task at hand */
  int task;
  uint64_t retired[FUZZ_RANKS];
  uint64_t sequence[FUZZ_RANKS][FUZZ_RANKS];
  int64_t exchanges;           /* emitted by each rank */
  CEL_VEC(uint8_t *) gathered; /* their contents, by number */
  uint64_t begins[FUZZ_RANKS]; /* the next to begin */
  int64_t near[FUZZ_RANKS][FUZZ_RANKS];
  /* Truth: who wrote last, who holds it, and which task wrote it. */
  int owner[FUZZ_BUFFERS][FUZZ_POINTS];
  uint32_t fresh[FUZZ_BUFFERS][FUZZ_POINTS];
  uint8_t value[FUZZ_BUFFERS][FUZZ_POINTS];
  uint8_t before[FUZZ_TASKS][FUZZ_BUFFERS][FUZZ_POINTS];
  uint8_t local[FUZZ_RANKS][FUZZ_BUFFERS][FUZZ_POINTS];
  bool got[FUZZ_BUFFERS][FUZZ_POINTS], want[FUZZ_BUFFERS][FUZZ_POINTS];
  bool shared[FUZZ_BUFFERS][FUZZ_POINTS]; /* comes by a collective */
  /* Boxes that tasks before this one read: what a version may hold. */
  int reads[FUZZ_BUFFERS];
  fuzz_fault fault;
} run;

typedef struct points {
  const int64_t *ext;
  cel_box box;
  int64_t at[3];
} points;

static inline int index_of(const points *p) {
  return (int)((p->at[0] * p->ext[1] + p->at[1]) * p->ext[2] + p->at[2]);
}

static inline points points_of(const run *r, int buffer, const cel_box *box) {
  points p = {.ext = r->program.buffer[buffer].ext, .box = *box};
  memcpy(p.at, box->min, sizeof p.at);
  return p;
}

static inline bool next(points *p) {
  for (int d = 3; d-- > 0;) {
    if (++p->at[d] < p->box.max[d]) return true;
    p->at[d] = p->box.min[d];
  }
  return false;
}

/* Each point x of a box of buffer b. */
#define EACH_POINT(r, b, box, x)                                               \
  for (points p_##x = points_of((r), (b), (box)),                              \
              *more_##x = cel_box_is_empty(box) ? NULL : &p_##x;               \
       more_##x != NULL; more_##x = next(&p_##x) ? &p_##x : NULL)              \
    for (int x = index_of(&p_##x), once_##x = 1; once_##x; once_##x = 0)

static inline bool is_near(const run *r, int a, int64_t b) {
  int hosts = r->program.hosts;
  return hosts > 0 && a % hosts == b % hosts && a != b;
}

/* Before which task the FREE at `i` of the program comes to `rank`. */
static inline int free_at(const run *r, int i, int rank) {
  int late = r->program.task[i].late[rank];
  return late > i ? late : i + 1;
}

/* fuzz_run.c */
/* Keeps the first fault; false, to be returned. */
bool fuzz_fail(run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The rank's chunk of the task at hand; false: it has none. */
bool fuzz_chunk_of(const run *r, int rank, cel_box *out);
typedef void visit(run *r, int buffer, int x, int rank, void *context);
/* Each point that the rank's chunk of the task at hand produces, or consumes.
 */
void fuzz_each_access_point(run *r, bool produces, int rank, visit *fn,
                            void *context);

/* fuzz_check.c */
/* Ids, dependencies and order of one command. */
bool fuzz_check_command(run *r, int rank, uint32_t i);
/* All that the ranks emitted for the task at hand. */
bool fuzz_check_task(run *r);

/* fuzz_execute.c */
bool fuzz_execute_all(run *r);

#endif
