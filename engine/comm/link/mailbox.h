/* mailbox.h -- memory of two GPUs through which two processes of a host
 * exchange messages.
 *
 * Each has one for the other: memory of its own GPU that the other one fills,
 * as writing to another GPU is faster than reading from it. It is cut into
 * slots of a few sizes; each has an event that says when it has been filled,
 * for the streams of both processes to wait for. Memory and events are opened
 * by handles (CUDA IPC).
 * Confined; the context of cuda->device[0] must be current, but for `make` and
 * `open`, which make it so.
 */
#ifndef CEL_COMM_LINK_MAILBOX_H
#define CEL_COMM_LINK_MAILBOX_H

#include "device/cuda/cuda.h"

enum { CEL_MAIL_SIZES = 3, CEL_MAIL_SLOTS = 22 };

/* The slots of one size. A copy to another GPU costs about 4 us besides its
 * bytes, and 7 with its event, so the largest are large. */
typedef struct cel_mail_size {
  uint32_t first, slots;
  uint64_t bytes;
} cel_mail_size;

/* Ascending; 116 MiB in all. */
extern const cel_mail_size cel_mail_sizes[CEL_MAIL_SIZES];

typedef struct cel_mailbox {
  const cel_cuda *cuda;
  CUdeviceptr in;                  /* ours; the other one fills it */
  CUdeviceptr out;                 /* the other's; we fill it */
  CUevent filled[CEL_MAIL_SLOTS];  /* ours, of `out` */
  CUevent arrived[CEL_MAIL_SLOTS]; /* the other's, of `in` */
} cel_mailbox;

typedef struct cel_mailbox_handles {
  CUipcHandle memory, event[CEL_MAIL_SLOTS];
} cel_mailbox_handles;

/* Makes what is ours, of this rank's only device. CEL_E_MISSING says which call
 * failed. `cuda` is borrowed. */
cel_status cel_mailbox_make(cel_mailbox *mailbox, const cel_cuda *cuda,
                            cel_mailbox_handles *out);
/* Opens what is the other's. CEL_E_MISSING. */
cel_status cel_mailbox_open(cel_mailbox *mailbox,
                            const cel_mailbox_handles *theirs);
/* Closes what was opened; both do that before either calls cel_mailbox_close,
 * which frees what is ours. Of what is not there, neither does anything. */
void cel_mailbox_let_go(cel_mailbox *mailbox);
void cel_mailbox_close(cel_mailbox *mailbox);
/* Of `in` or of `out`. */
CUdeviceptr cel_mailbox_slot(CUdeviceptr base, uint32_t slot);
/* CEL_E_MISSING: "cuMemAlloc: out of memory". */
cel_status cel_mailbox_fail(const cel_cuda *cuda, const char *call,
                            CUresult code);
#endif
