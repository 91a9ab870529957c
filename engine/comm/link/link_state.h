/* link_state.h -- what direct messages are made of; internal to
 * comm/link. Confined to the transport's driver. */
#ifndef CEL_COMM_LINK_LINK_STATE_H
#define CEL_COMM_LINK_LINK_STATE_H

#include <stdatomic.h>

#include "base/vec.h"
#include "comm/cursor.h"
#include "comm/link/host_fds.h"
#include "comm/link/host_rings.h"
#include "comm/link/link.h"
#include "comm/link/mailbox.h"
#include "device/cuda/cuda_memory.h"

enum {
  CEL__LINK_WANT = 1, /* sequence, bytes expected */
  /* Slot, sequence, bytes; the parts of a message come in order. The last one's
   * event has been recorded, the others are there. */
  CEL__LINK_FILL,
  CEL__LINK_FREE,   /* slot */
  CEL__LINK_REFUSE, /* sequence, bytes there are: not those expected */
  /* Loan, offset, bytes: where some bytes of the message that is wanted next
   * are to land, in the order of its bytes. */
  CEL__LINK_LANDING,
  CEL__LINK_WANT_LANDING, /* how many landings, sequence, bytes expected */
  CEL__LINK_THERE,        /* sequence: all of it has landed */
  CEL__LINK_CANNOT,       /* sequence: it cannot land, nor on another loan */
  CEL__LINK_FILES         /* to be taken: there is no room for more of them */
};

enum { CEL__LINK_STREAMS = 2 };

typedef struct cel__link_transfer {
  struct cel__link *link;
  const cel_posted *message;
  struct cel__link_peer *peer;
  bool sends;
  /* Chained: */
  uint32_t slot;
  /* Others: */
  cel_cursor cursor;
  uint64_t begun;  /* bytes that have been given to a stream */
  uint32_t copies; /* of those, under way */
} cel__link_transfer;

/* A run of bytes of the receiver's lent memory. */
typedef struct cel__link_landing {
  uint32_t loan;
  uint64_t offset, bytes;
} cel__link_landing;

/* A message that the peer wants. */
typedef struct cel__link_wish {
  uint64_t sequence, bytes;
  uint32_t landings;
  cel__link_landing *landing; /* owned; null: it is to go through the mailbox */
} cel__link_wish;

/* A block of the peer's memory that we have mapped; of no bytes: not yet. */
typedef struct cel__link_opened {
  CUdeviceptr at;
  uint64_t bytes;
} cel__link_opened;

/* A message on its way to its landings. */
typedef struct cel__link_written {
  cel__link_transfer *transfer;
  CUevent event;
} cel__link_written;

/* A slot that we fill with a part of a message, or one that we empty. */
typedef struct cel__link_slot {
  cel__link_transfer *transfer;
  uint32_t number; /* in the mailbox */
  /* That we fill: */
  uint64_t bytes;
  bool last; /* of the message */
} cel__link_slot;

/* Another rank of this host. */
typedef struct cel__link_peer {
  int64_t rank;
  int32_t local; /* local_rank */
  cel_mailbox mailbox;
  bool full[CEL_MAIL_SLOTS];    /* of mailbox.out: until it is emptied ... */
  bool filling[CEL_MAIL_SLOTS]; /* ... and we know that it was filled */
  /* Empty slots in turns: while one is on its way, the other waits for its
   * event and begins. */
  CUstream stream[CEL__LINK_STREAMS];
  uint32_t turn;
  CUevent emptied[CEL_MAIL_SLOTS];
  CUevent sent[CEL_MAIL_SLOTS];  /* of mailbox.out, for ourselves */
  CEL_VEC(cel__link_slot) slots; /* being emptied, oldest first */
  CEL_VEC(cel__link_transfer *) receives;
  CEL_VEC(cel__link_transfer *) sends; /* that it does not want yet */
  CEL_VEC(cel__link_wish) wants;       /* of what we have not been given */
  CEL_VEC(cel_host_record) words;      /* that had no room in the ring */
  CEL_VEC(bool) given;                 /* by our loan: it has that one's file */
  bool refuses;                        /* it could not open a loan */
  CEL_VEC(cel__link_opened) opened;    /* by its loan */
  CEL_VEC(cel__link_landing) landings; /* of what it wants next */
} cel__link_peer;

typedef struct cel__link {
  cel_transport base; /* first */
  cel_transport *inner;
  cel_cuda *cuda;
  cel_host_rings *rings;
  cel_host_fds *fds;             /* or null: nothing is lent */
  struct cel__link_probe *probe; /* at the start */
  int32_t peers;
  cel__link_peer *peer;
  int64_t *near;
  CUstream stream;                      /* fills slots */
  CEL_VEC(cel__link_slot) slots;        /* being filled, oldest first */
  uint32_t told;                        /* of those */
  CEL_VEC(cel__link_transfer *) wanted; /* and not all in slots yet */
  CEL_VEC(cel_chained) chained;         /* that nobody took yet */
  CEL_VEC(cel__link_written) written;   /* oldest first */
  CEL_VEC(CUevent) spare;               /* for these */
  cel_cuda_loans loans;                 /* of the message that is posted */
  uint64_t landing_least;               /* bytes of one that is not chained */
  _Atomic(bool) halted;
  uint64_t transfers; /* given, not reported */
  CEL_VEC(cel_done) done;
  bool failed;
  cel_error error;
} cel__link;

static inline bool cel__link_all_begun(const cel__link_transfer *transfer) {
  return transfer->begun == transfer->message->bytes;
}

/* ---- link_transport.c ------------------------------------------------------
 */

void cel__link_init(cel__link *link, cel_transport *inner);
/* Marks the link as failed where the code is an error; whether it is. `peer`
 * may be -1. */
bool cel__link_bad(cel__link *link, CUresult code, const char *doing,
                   int64_t peer);
/* Reports the transfer and frees it: fine, or with the last error. */
void cel__link_end(cel__link *link, cel__link_transfer *transfer, bool good);
void cel__link_tell(cel__link *link, cel__link_peer *peer,
                    cel_host_record word);
/* Sets the last error: lengths differ. */
void cel__link_mismatch(const cel_posted *message, uint64_t other);
/* Copies the next `bytes` of the transfer to or from a slot. */
CUresult cel__link_copy(cel__link *link, cel__link_transfer *transfer,
                        CUdeviceptr slot, uint64_t bytes, bool out,
                        CUstream stream);

/* ---- link_send.c ---------------------------------------------------- */

void cel__link_send(cel__link *link, cel__link_transfer *transfer);
void cel__link_want(cel__link *link, cel__link_peer *peer,
                    const cel_host_record *word);
void cel__link_free(cel__link_peer *peer, const cel_host_record *word);
/* Takes in what has been filled; fills what is empty. */
void cel__link_fill(cel__link *link);

/* ---- link_receive.c ------------------------------------------------- */

void cel__link_receive(cel__link *link, cel__link_transfer *transfer);
void cel__link_filled(cel__link *link, cel__link_peer *peer,
                      const cel_host_record *word);
void cel__link_refused(cel__link *link, cel__link_peer *peer,
                       const cel_host_record *word);
/* It has landed. */
void cel__link_there(cel__link *link, cel__link_peer *peer,
                     const cel_host_record *word);
/* It is to go through the mailbox instead. */
void cel__link_cannot(cel__link *link, cel__link_peer *peer,
                      const cel_host_record *word);
/* Takes in what has been emptied. */
void cel__link_empty(cel__link *link, cel__link_peer *peer);

/* ---- link_probe.c --------------------------------------------------- */

/* CEL_E_MISSING, all: what failed. All ranks do each before one does the next.
 */
cel_status cel__link_probe_send(cel__link *link, cel__link_peer *peer);
cel_status cel__link_probe_take(cel__link *link, cel__link_peer *peer);
/* Lends all peers some memory, writes to what all lend, and compares what
 * they wrote. */
cel_status cel__link_probe_lend(cel__link *link);
cel_status cel__link_probe_write(cel__link *link);
cel_status cel__link_probe_verify(cel__link *link);
/* Of lent memory; also where one of these failed. */
void cel__link_probe_end(cel__link *link);

/* ---- link_landing.c --------------------------------------------------- */

/* Hands the loan's file to the peer, once. CEL_E_MISSING, CEL_E_IO. */
cel_status cel__link_give(cel__link *link, cel__link_peer *peer,
                          const cel_cuda_loan *loan);
/* Opens all that has come, whoever lends it; what fails stays unopened, and the
 * last of that is told of. CEL_E_MISSING. */
cel_status cel__link_open_loans(cel__link *link);
/* Says where the message is to land; false where the mailbox is to be used. */
bool cel__link_lend(cel__link *link, const cel__link_transfer *transfer);
void cel__link_hear_landing(cel__link_peer *peer, const cel_host_record *word);
/* Copies the message to its landings; false, with nothing done, where they
 * cannot be opened. */
bool cel__link_write(cel__link *link, cel__link_transfer *transfer,
                     const cel__link_wish *want);
/* Takes in what has been written. */
void cel__link_take_written(cel__link *link);
void cel__link_fail_written(cel__link *link);
void cel__link_close_loans(cel__link *link, cel__link_peer *peer);

/* ---- link_chain.c --------------------------------------------------- */

/* The message is to go through this slot. */
void cel__link_chain_send(cel__link *link, cel__link_transfer *transfer,
                          uint32_t slot);
void cel__link_chain_receive(cel__link *link, cel__link_transfer *transfer,
                             uint32_t slot);
/* Ends what nobody took. */
void cel__link_chain_fail(cel__link *link);
uint32_t cel__link_chained(cel_transport *t, cel_chained *out, uint32_t max);
void cel__link_carry(void *self, void *context);
void cel__link_unchain(void *self, void *context);
void cel__link_halt(cel_transport *t);

/* ---- link_start.c --------------------------------------------------- */

/* Closes what was opened of others, then what is ours; between the two the
 * others must have come there, too. */
void cel__link_let_go(cel__link *link);
void cel__link_release(cel__link *link);

#endif
