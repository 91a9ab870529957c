/* translate.h -- from an instruction to what a backend, a host lane or a
 * transport takes.
 *
 * Records are pooled: the arrays of a record grow to the most that it was ever
 * used for and stay, so that a steady program allocates nothing here.
 * Confined to the executor.
 */
#ifndef CEL_EXEC_TRANSLATE_H
#define CEL_EXEC_TRANSLATE_H

#include "base/vec.h"
#include "comm/transport.h"
#include "device/backend.h"
#include "device/fold.h"
#include "device/sample.h"
#include "instr/instr.h"

/* The ticket of what is under way for an instruction is its id. Beside it,
 * from this bit on, is which of its messages it is of. */
enum { CEL_TICKET_MESSAGE = 44 };

static inline uint64_t cel_ticket_id(uint64_t ticket) {
  return ticket & ((1ull << CEL_TICKET_MESSAGE) - 1);
}

/* A message that is posted, or was. */
typedef struct cel_transit {
  cel_posted posted;
  const cel_sent *sent; /* the instruction's */
  int16_t track;        /* see cel_timeline_post */
  bool there;           /* its ticket is back */
} cel_transit;

/* What is under way for one instruction. */
typedef struct cel_record {
  struct cel_record *next; /* while free */
  cel_job job;
  CEL_VEC(cel_transit) messages;
  uint32_t missing; /* of these, not there */
  cel_collective collective;
  cel_device_collective device_collective;
  int64_t issued;    /* ns of cel_now_ns; only where somebody notes times */
  int16_t track;     /* of a collective, as of a message */
  cel_sample sample; /* of its job's call */
  CEL_VEC(cel_view) views;
  CEL_VEC(cel_fold_view) uses; /* of a step of a fold, one for each view */
  struct cel_folding *folding; /* of a fold: folding.h */
  CEL_VEC(cel_after) afters;
  uint64_t *known; /* of a job in a lane, where the backend chains: lanes.h */
  CEL_VEC(cel_strided) pieces;
  CEL_VEC(cel_collective_parts) parts;
} cel_record;

typedef struct cel_records {
  cel_record *free;
} cel_records;

cel_record *cel_records_take(cel_records *records);
void cel_records_give(cel_records *records, cel_record *record);
/* Frees those that were given back. */
void cel_records_release(cel_records *records);

/* How far an access reaches around items, or that it writes them, as one of an
 * array; of array -1: it reads otherwise. False: it writes otherwise. */
bool cel_translate_use(const cel_access *access, cel_fold_view *out);
/* One row of partial results as a view of what is reduced into. */
void cel_translate_row(cel_view *view, const cel_reducer *reducer);
/* COPY, INIT, KERNEL without a fold, HOST: fills record->job. */
void cel_translate_job(cel_record *record, const cel_instr *instr, int64_t rank,
                       int64_t ranks);
/* SEND, RECEIVE: fills record->messages, but for `chained`. */
void cel_translate_message(cel_record *record, const cel_instr *instr);
/* COLLECTIVE: fills record->collective. O(ranks) only where the whole is not
 * dense in its allocation. */
void cel_translate_collective(cel_record *record, const cel_instr *instr,
                              int64_t rank);

/* The same of a device's part, into record->device_collective. O(members). */
void cel_translate_device_collective(cel_record *record, const cel_instr *instr,
                                     int64_t rank, int64_t ranks);

#endif
