/* reduce.h -- reductions, made of ordinary tasks over hidden buffers.
 *
 * A task that reduces into buffer B is given a buffer of partial results P
 * instead: `rows` rows for each rank that has a chunk, one for each part that
 * the rank cuts its chunk into, each row as long as B. B itself is then
 * *pending*: at the first access that wants any of its contents, a task
 * combines all rows of P in order into B. It is rank 0's, and from there B
 * travels as anything does. Where all ranks read the same of B and the operator
 * is one of ours it is every rank's: of whole numbers each combines its own
 * rows, and an all-reduce does the rest, which between GPUs has fewer
 * operators; else, where the rows are few bytes, each combines all of them,
 * after an all-gather. All ranks hence see the same bits. What is never asked
 * for, or overwritten before, is never combined.
 *
 * On one rank with one device that can, an array needs no rows: the task writes
 * B itself, and nothing is pending.
 *
 * Invariant: a row that nobody writes holds the identity. P begins with it, and
 * is only ever written by tasks that are cut alike, over ranks, devices and
 * runs: `P`s are kept by all that the cuts depend on, a few for each buffer.
 * Which ones there are follows from submissions alone, so all ranks agree.
 *
 * Cost: nothing for a task that reduces nothing but a look whether anything is
 * pending. Confined. Thread: main.
 */
#ifndef CEL_TASK_REDUCE_H
#define CEL_TASK_REDUCE_H

#include "base/arena.h"
#include "base/vec.h"
#include "task/task.h"

enum { CEL__PARTIALS = 4 }; /* kept for a buffer */

/* What follows B's name in that of P. */
#define CEL_REDUCE_ROWS ", partial"

/* Rows of tasks that are cut alike. */
typedef struct cel__partial {
  uint64_t key;  /* of all that the cuts depend on */
  uint64_t used; /* when */
  const cel_buffer *buffer;
} cel__partial;

/* What a buffer has been reduced from. */
typedef struct cel__reduced {
  const cel_buffer *buffer;
  uint32_t partials;
  cel__partial partial[CEL__PARTIALS];
  /* Pending: the rows, and what combines them; one reference. Else null. */
  const cel_buffer *rows;
  int64_t each; /* rows of a rank; 0: rows are not by rank */
  cel_work *combine;
  cel_operator by;
  bool onto;             /* what the buffer holds */
  cel_location location; /* of the group that reduced */
} cel__reduced;

/* What of the graph's configuration reductions depend on: see there. */
typedef struct cel__reduce_config {
  int64_t ranks, reducing;
  bool in_place;
  bool collectives;
  cel_all_reduces all_reduces;
  cel_rules *rules;
  const cel_buffer *(*make)(void *context, int32_t dims,
                            const int64_t extent[3], uint32_t element_size,
                            const char *name, cel_init *init);
  void (*drop)(void *context, const cel_buffer *buffer);
  void *context;
} cel__reduce_config;

/* Begins with its configuration, all else zero. */
typedef struct cel__reductions {
  cel__reduce_config config;
  CEL_VEC(cel__reduced) all;
  uint32_t pending;
  uint64_t clock;
  CEL_VEC(const cel_buffer *) gone; /* rows that made room for others */
  const cel_rule *row, *whole[CEL_DIMS + 1]; /* made when first needed */
} cel__reductions;

void cel__reductions_release(cel__reductions *reductions);

/* What is wrong with what a group reduces, in itself. */
cel_status cel__reductions_check(const cel_group *group);

/* Gives the accesses of `task`, a copy of the group whose split is known, that
 * reduce their rows; their buffers are pending from then on. `access` is the
 * task's. */
void cel__reductions_lower(cel__reductions *reductions, cel_arena *arena,
                           const cel_group *group, cel_task *task,
                           cel_access *access);

/* The same for a group without items, which is no task: what does not begin
 * with what the buffer holds comes to the identity. */
void cel__reductions_none(cel__reductions *reductions, const cel_group *group);

/* Frees what made room, once the task has been emitted. */
void cel__reductions_tidy(cel__reductions *reductions);

/* Null, or what is pending in the buffer. */
cel__reduced *cel__reductions_find(cel__reductions *reductions,
                                   const cel_buffer *buffer);
/* Nobody will see what was pending. */
void cel__reductions_forget(cel__reductions *reductions, cel__reduced *at);

/* The task that settles what is pending, which then no longer is, for a group
 * that was just checked and asks for it. `group` is filled in but for its
 * location, with `access` for its two, and takes over the reference on its
 * work.
 */
void cel__reductions_settle(cel__reductions *reductions,
                            const cel_group *asking, cel__reduced *at,
                            cel_group *group, cel_access access[2]);
/* The buffer is freed: so are its rows. */
void cel__reductions_free(cel__reductions *reductions,
                          const cel_buffer *buffer);

#endif
