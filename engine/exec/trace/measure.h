/* measure.h -- what the executor notes of instructions, where anybody asked:
 * spans for its profile and its timeline, and paces.
 *
 * Cost: a comparison for each instruction where nobody did. Confined to the
 * executor; internal to exec/.
 */
#ifndef CEL_EXEC_TRACE_MEASURE_H
#define CEL_EXEC_TRACE_MEASURE_H

#include "exec/pace.h"
#include "exec/trace/profile.h"
#include "exec/trace/timeline.h"

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
/* A message that no lane had is complete. */
void cel__measure_message(const cel_measures *measure, const cel_node *node,
                          bool failed);
/* A job is. */
void cel__measure_job(const cel_measures *measure, const cel_node *node,
                      bool failed);
/* What has been done since `begin`, if it is of that lane; 0: nobody asked. */
void cel__measure_step(const cel_measures *measure, const cel_instr *instr,
                       cel_instr_lane lane, int64_t begin);
#endif

#endif
