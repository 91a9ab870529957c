/* audit.h -- what tasks touch beside what their mappers promise, for `celer
 * check`.
 *
 * A row for each access of each submission in the script, by place and name of
 * the task, whatever number of chunks and steps it had: sums, and the first
 * example of each fault. Of works that mark what they touch (cel_work.marks);
 * what others are promised counts as touched. Of what is reduced into, the
 * whole array is promised, and a row has CEL_DIMS dimensions.
 * Cost: a byte per promised element while a job is under way, and two looks at
 * each.
 * Threads: the executor; main reads when nothing is under way.
 */
#ifndef CEL_EXEC_AUDIT_AUDIT_H
#define CEL_EXEC_AUDIT_AUDIT_H

#ifndef CEL_CDEF
#include "exec/audit/coverage.h"
#include "exec/audit/crossing.h"
#include "exec/translate.h"
#include "instr/instr.h"
#endif

typedef struct cel_audit cel_audit;

#ifndef CEL_CDEF
/* How often, and the first time: which element, of which chunk. */
typedef struct cel_fault_tally {
  int64_t count;
  int64_t at[3];
  cel_box chunk;
} cel_fault_tally;

typedef struct cel_audit_row {
  const char *name; /* of the task; the audit's; null: none */
  cel_location location;
  bool combines;  /* what was reduced there */
  int32_t access; /* from 0, in the task's order */
  int32_t dims, task_dims;
  bool marks;
  uint64_t element_size;
  int64_t chunks;
  cel_counted seen;        /* of an access that reads or keeps */
  cel_fault_tally outside; /* accesses to what was not promised */
  int32_t item_dims;       /* of the item that did; 0: none */
  int64_t item[3];
  cel_box promise;           /* the hull of what that chunk was promised */
  bool elsewhere;            /* it writes what another chunk was promised */
  cel_fault_tally unwritten; /* promised by discard_write, and not touched */
  cel_fault_tally undefined; /* touched, by reading, and never written */
  cel_fault_tally crossed;   /* read, and written by another chunk, */
  cel_box writer;            /* this one */
  cel_fault_tally raced; /* the same of items of one chunk; `chunk` is the */
  cel_box racer;         /* one that reads, this the one that writes; empty:
                            several */
  cel_fault_tally gap;   /* read by a box around what the parts of a chunk need,
                           and needed by none */
} cel_audit_row;

/* The caller owns the result. Thread: main. */
cel_audit *cel_audit_create(void);
void cel_audit_destroy(cel_audit *audit);
/* A task's job that is to run, and one that is back, which counts if it was
 * carried out. Thread: executor. */
void cel_audit_begin(cel_audit *audit, const cel_instr *instr,
                     cel_record *record);
void cel_audit_end(cel_audit *audit, const cel_instr *instr, cel_record *record,
                   bool done);
/* In the order of first appearance. */
uint32_t cel_audit_rows(cel_audit *audit, const cel_audit_row **out);
#endif

#endif
