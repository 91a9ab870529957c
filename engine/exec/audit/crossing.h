/* crossing.h -- elements that one chunk of a task reads and another writes, or
 * one item of a kernel and another, as both did: which value is read is then a
 * matter of chance.
 *
 * Of tasks that read a buffer by one access and write it by another, what each
 * job touched is kept, and held against that of the task's later jobs on this
 * rank. Jobs of one task end near each other, so what belongs to a task long
 * before is let go.
 * Cost: nothing for other tasks; for these, the maps of a few tasks, and a look
 * at what two chunks have in common.
 * Threads: as the audit's.
 */
#ifndef CEL_EXEC_AUDIT_CROSSING_H
#define CEL_EXEC_AUDIT_CROSSING_H

#include "base/vec.h"
#include "instr/instr.h"

#ifndef CEL_CDEF
/* What a job touched by one access. */
typedef struct cel_trace {
  uint64_t task;
  uint32_t access;
  cel_box chunk;
  cel_view view; /* its `touched` is the owner's */
} cel_trace;

typedef struct cel_crossings {
  CEL_VEC(cel_trace) traces;
} cel_crossings;

typedef struct cel_crossing {
  uint32_t access; /* the one that reads */
  int64_t count, at[3];
  cel_box reader, writer; /* chunks */
} cel_crossing;

/* Whether an access reads what another of its task writes, or the reverse. */
bool cel_crossings_concern(const cel_task *task, uint32_t access);
/* Whether, moreover, items by themselves are looked at: those of a kernel, but
 * for work groups, which may wait for each other. */
bool cel_crossings_concern_items(const cel_task *task, uint32_t access);
/* What items of one job touched, by an access that reads and one that writes,
 * of the views of all accesses; false if they do not cross, or are not looked
 * at. `reader` and `writer` are items then; empty where there are several. */
bool cel_crossings_within(const cel_task *task, uint32_t reads, uint32_t writes,
                          const cel_view *view, cel_crossing *out);
/* Holds what a job touched by such an access against the task's trace `i`;
 * false if they do not cross. */
bool cel_crossings_with(const cel_crossings *crossings, uint32_t i,
                        const cel_instr *instr, uint32_t access,
                        const cel_view *view, cel_crossing *out);
/* Keeps what a job touched by such an access; takes over view->touched, which
 * is null then. */
void cel_crossings_keep(cel_crossings *crossings, const cel_instr *instr,
                        uint32_t access, cel_view *view);
void cel_crossings_release(cel_crossings *crossings);
#endif

#endif
