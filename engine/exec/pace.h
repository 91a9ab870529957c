/* pace.h -- how much each device of this rank has computed, and how long that
 * took it, since somebody last asked.
 *
 * Counted are kernels that are cut as tasks are that ask for no weights of
 * their own: all devices have computed some of the same ones then, so items per
 * second compare. What calls a library counts as nothing: it is gone before its
 * work is done.
 * Cost: two additions per kernel.
 * Threads: the executor adds, any other takes when no kernel is under way.
 */
#ifndef CEL_EXEC_PACE_H
#define CEL_EXEC_PACE_H

#include "device/backend.h"
#include "instr/instr.h"

typedef struct cel_pace cel_pace;

/* The caller owns the result. Thread: main. */
cel_pace *cel_pace_create(void);
void cel_pace_destroy(cel_pace *pace);
/* The weights, by their hash, of tasks that ask for none. Thread: main, when no
 * kernel is under way. */
void cel_pace_follow(cel_pace *pace, uint64_t weights);
/* A job that is complete. Thread: executor. */
void cel_pace_add(cel_pace *pace, const cel_instr *instr, const cel_job *job);
/* What device d has computed since the last time, in items and ns. */
void cel_pace_take(cel_pace *pace, int32_t d, int64_t *items, int64_t *ns);

#endif
