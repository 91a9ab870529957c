/* fuzz.h -- what the files of fuzz_instr share: the world of one case.
 *
 *   fuzz.c           one case after the other; what the graphs emit
 *   fuzz_generate.c  random tasks, messages and collectives
 *   fuzz_model.c     what a task computes, on any memory
 *   fuzz_run.c       carries instructions out
 */
#ifndef SPEC_INSTR_FUZZ_H
#define SPEC_INSTR_FUZZ_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/vec.h"
#include "instr/instr.h"
#include "task/task_graph.h"

extern uint64_t fuzz_seed; /* of the case */

enum {
  BUFFERS = 4,
  ACCESSES = 3,
  MESSAGE_PIECES = 3,
  MESSAGES = 6,
  DIRECT_BYTES = 64,
  FAR_BYTES = 96
};

#define fail(...)                                                              \
  (fprintf(stderr, "seed %" PRIu64 ": ", fuzz_seed),                           \
   fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())
#define require(x) ((x) ? (void)0 : (fail("%s:%d: %s", __FILE__, __LINE__, #x)))

/* What the sequential interpreter holds of a buffer. */
typedef struct model {
  cel_buffer buffer;
  cel_init init;
  uint64_t *value;
  bool *defined;
  bool live;
} model;

/* Contents of one message, by sequence. */
typedef struct parcel {
  uint64_t *value;
  bool *defined;
} parcel;

typedef CEL_VEC(cel_box) boxes;

/* One per task; the accesses that it was submitted with. */
typedef struct job {
  cel_work work;
  cel_task_kind kind;
  cel_placement placement;
  int dims;
  bool taken; /* the task graph has not refused it */
  cel_box range;
  cel_split_kind permitted;
  int32_t oversubscribe;
  bool weighted;
  int64_t device_weight[8];
  uint32_t accesses;
  cel_access access[ACCESSES];
  int64_t params[ACCESSES][CEL_RULE_PARAMS];
  /* A job that checks compares with these instead. */
  const model *against;
  uint64_t *expect;
  bool *expect_defined;
  bool ran;
} job;

typedef struct world {
  cel_random random;
  cel_rules *rules;
  cel_task_graph *tasks;
  cel_instr_graph *instrs;
  cel_instr_graph *anew; /* which carries out nothing as before */
  int32_t devices, device_memory[8];
  bool near;                   /* the other rank is */
  bool far;                    /* else long messages are direct, too */
  uint64_t grain;              /* of memories; 0: committed on touch */
  uint64_t whole, block;       /* see instr.h */
  uint64_t capacity;           /* of every device's memory; 0: any */
  uint64_t held[CEL_MEMORIES]; /* bytes, grain by grain */
  uint64_t freed_bytes;        /* see instr.h */
  bool full;                   /* a command needed more by itself */
  bool warned, lookahead;
  CEL_VEC(model *) models; /* by buffer id */
  CEL_VEC(job *) jobs;
  CEL_VEC(cel_command *) commands;
  CEL_VEC(cel_piece *) pieces;
  CEL_VEC(cel_message *) messages; /* of one command each */
  CEL_VEC(cel_exchange *) exchanges;
  CEL_VEC(parcel) sent, received, exchanged;
  /* Emitted instructions by id - 1; null once done. */
  CEL_VEC(const cel_instr *) instr;
  CEL_VEC(uint64_t) hash; /* of each, by id - 1 */
  uint64_t anew_id;       /* of the last one of `anew` */
  uint64_t horizons[2];   /* ids: the last two made */
  uint64_t last_done_bound;
  const cel_task *last_task;
  CEL_VEC(uint64_t) task_of_bound; /* by instruction id - 1; 0 if no bound */
  CEL_VEC(const cel_allocation *) allocations;
  int policy;
  uint64_t done;
} world;

/* Over all cases. */
typedef struct totals {
  uint64_t kinds[CEL_INSTR_EPOCH + 1], refused, tasks, resizes, repeated,
      together, full, warned, digest;
} totals;
extern totals fuzz_total;

static inline int64_t index_in(const cel_box *layout, const int64_t at[3]) {
  int64_t e1 = layout->max[1] - layout->min[1];
  int64_t e2 = layout->max[2] - layout->min[2];
  return ((at[0] - layout->min[0]) * e1 + at[1] - layout->min[1]) * e2 + at[2] -
         layout->min[2];
}

#define each_point(p, box)                                                     \
  for (int64_t p[3] = {(box)->min[0]}; p[0] < (box)->max[0]; ++p[0])           \
    for (p[1] = (box)->min[1]; p[1] < (box)->max[1]; ++p[1])                   \
      for (p[2] = (box)->min[2]; p[2] < (box)->max[2]; ++p[2])

static inline int64_t any(world *w, int64_t lo, int64_t hi) {
  return cel_random_int(&w->random, lo, hi);
}

static inline bool chance(world *w, int percent) {
  return cel_random_chance(&w->random, percent);
}

/* fuzz.c */
/* A command for the graph, which the world owns; then gives it that. */
cel_command *fuzz_command_new(world *w, cel_command_kind kind,
                              const cel_task *task);
void fuzz_command_add(world *w, const cel_command *command);

/* fuzz_generate.c */
model *fuzz_model_new(world *w);
/* A random step of the program, and some of its carrying out. */
void fuzz_act(world *w);
/* Compares a whole buffer, by a task of this kind that reads all of it. */
void fuzz_check_buffer(world *w, const model *m, cel_task_kind kind);

/* fuzz_model.c */
/* What an element holds at first, where its buffer has contents from Lua. */
uint64_t fuzz_first_value(const cel_buffer *buffer, const int64_t at[3]);
cel_status fuzz_fill(const cel_init *init, const cel_box *box, void *out);
/* The work of a job, as the engine calls it; and on the models. */
cel_status fuzz_work(const cel_work *work, const cel_call *call);
void fuzz_interpret(const world *w, const job *j);

/* fuzz_run.c */
/* Carries out one ready instruction, by the case's policy: any, the newest, or
 * the oldest. False when there is none. */
bool fuzz_step(world *w);

#endif
