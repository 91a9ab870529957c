/* measure.h -- what the executor notes of instructions, where anybody asked:
 * spans for its profile and its timeline, and paces.
 *
 * Cost: a comparison for each instruction where nobody did. Confined to the
 * executor, except what says otherwise.
 */
#ifndef CEL_EXEC_TRACE_MEASURE_H
#define CEL_EXEC_TRACE_MEASURE_H

#include "exec/trace/profile.h"
#include "exec/trace/timeline.h"

/* How much each device of this rank has computed, and how long that took it,
 * since somebody last asked.
 *
 * Counted are kernels that are cut as tasks are that ask for no weights of
 * their own: all devices have computed some of the same ones then, so items per
 * second compare. What calls a library counts as nothing: it is gone before its
 * work is done.
 * Cost: two additions per kernel.
 * Threads: the executor adds, any other takes when no kernel is under way. */
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

/* Who asked; borrowed, null where nobody did. Backend and host lanes are timed
 * where any of these is there. */
typedef struct cel_measures {
  cel_profile *profile;   /* when jobs ran */
  cel_timeline *timeline; /* likewise, and messages and memory */
  cel_pace *pace;         /* adds up kernels that were timed */
} cel_measures;

#ifndef CEL_CDEF
#include "exec/window.h"

/* The time, where there is a timeline; else 0. */
int64_t cel__measure_now(const cel_measures *measure);
/* The instruction's message of that number, or its collective, that no lane had
 * is complete. */
void cel__measure_message(const cel_measures *measure, const cel_node *node,
                          uint64_t which, bool failed);
/* A job is. */
void cel__measure_job(const cel_measures *measure, const cel_node *node,
                      bool failed);
/* What has been done since `begin`, if it is of that lane; 0: nobody asked. */
void cel__measure_step(const cel_measures *measure, const cel_instr *instr,
                       cel_instr_lane lane, int64_t begin);
#endif

#endif
