/* fuzz.h -- random programs for the command graph, as plain data.
 *
 * A program is small enough to copy, to shrink and to print. It is turned into
 * cel_task records for the engine, and evaluated point by point, without the
 * rule or ownership code, for the oracle.
 */
#ifndef SPEC_COMMAND_FUZZ_H
#define SPEC_COMMAND_FUZZ_H

#include "base/random.h"
#include "command/command.h"
#include "task/assignment.h"
#include "task/task_graph.h"

enum {
  FUZZ_RANKS = 16,
  FUZZ_BUFFERS = 3,
  FUZZ_TASKS = 24,
  FUZZ_ACCESSES = 3,
  FUZZ_BOXES = 3,
  FUZZ_WEIGHTS = 2,
  FUZZ_POINTS = 512,
  FUZZ_IMAGE = FUZZ_BOXES * FUZZ_POINTS, /* boxes of a chunk, by families */
  FUZZ_SMALL = 10000                     /* bytes: any box is small */
};

/* floor(a * chunk.{min|max}[dim] / divisor) + c; a == 0: c. */
typedef struct fuzz_bound {
  int a, of_max, dim, divisor, c;
} fuzz_bound;

typedef struct fuzz_access {
  int buffer;
  cel_mode mode;
  int boxes;
  bool params; /* constants are parameters of the rule */
  int each;    /* 0; d + 1: a box for each index of the chunk in dimension d */
  fuzz_bound bound[FUZZ_BOXES][3][2];
} fuzz_access;

typedef struct fuzz_task {
  cel_task_kind kind; /* FREE frees `freed` */
  int freed;
  int late[FUZZ_RANKS]; /* FREE: before which task the rank does so */
  cel_placement placement;
  int dims;
  cel_box range;
  cel_split_kind permitted;
  int weights; /* which of the program's, from 1; 0: none */
  int accesses;
  fuzz_access access[FUZZ_ACCESSES];
} fuzz_task;

typedef struct fuzz_program {
  int ranks, buffers, tasks;
  int replications;
  uint32_t squeeze; /* the ranks whose caches are tiny, as bits */
  uint64_t small_bytes, large_bytes;
  int64_t weight[FUZZ_WEIGHTS][FUZZ_RANKS];
  bool collectives;
  int64_t count_most, tree_least;
  int hosts; /* rank k is on host k % hosts, whose ranks are near; 0: none is */
  struct {
    int dims;
    int64_t ext[3];
    bool init;
    int element_size;
  } buffer[FUZZ_BUFFERS];
  fuzz_task task[FUZZ_TASKS];
} fuzz_program;

void fuzz_generate(fuzz_program *program, uint64_t seed, int max_ranks);
void fuzz_print(const fuzz_program *program);

/* Boxes of one chunk, clipped to the buffer; returns how many. */
int fuzz_image(const fuzz_program *program, const fuzz_access *access,
               const cel_box *chunk, cel_box out[FUZZ_IMAGE]);

/* The program as the engine sees it. */
typedef struct fuzz_records {
  cel_rules *rules;
  cel_buffer buffer[FUZZ_BUFFERS];
  cel_init init;
  cel_task task[FUZZ_TASKS + 2]; /* an epoch first, one last */
  cel_access access[FUZZ_TASKS][FUZZ_ACCESSES];
  int64_t params[FUZZ_TASKS][FUZZ_ACCESSES][CEL_RULE_PARAMS];
  cel_split split[FUZZ_TASKS];
  int64_t sums[FUZZ_TASKS][CEL_TASK_CUT_ROOM(FUZZ_RANKS)];
} fuzz_records;

void fuzz_records_make(fuzz_records *records, const fuzz_program *program);
void fuzz_records_release(fuzz_records *records);

/* Empty when the program is right, else what is wrong. */
typedef struct fuzz_fault {
  char text[1024];
} fuzz_fault;

/* Sums over all programs. */
typedef struct fuzz_stats {
  uint64_t tasks, messages, points, refused, entries_most;
  uint64_t pairs, groups; /* collectives */
  uint64_t left_out;      /* whose readers weights have left some of without */
  uint64_t joined;        /* of several boxes */
  uint64_t passed;        /* points that come from who got them before */
  uint64_t patterns[CEL_PATTERN_ALL_TO_ALL + 1];
} fuzz_stats;

/* Whether what `of` each rank is the `nth` collective is one, of the buffer of
 * that extent, whose points `owner` wrote; else why not. */
const char *fuzz_exchange_check(const cel_exchange *const *of, int ranks,
                                int64_t nth, const int64_t *ext,
                                const int *owner);
/* Whether the heads of lists count what all of a list come to; else why not. */
const char *fuzz_exchange_sums(const cel_exchange *const *of, int ranks);

fuzz_fault fuzz_run(const fuzz_program *program, uint64_t seed,
                    fuzz_stats *stats);

#endif
