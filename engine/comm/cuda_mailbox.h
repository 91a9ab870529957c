/* cuda_mailbox.h -- device memory that other processes of the host read.
 *
 * A rank makes one, and the others open it by the handles that it gives them
 * (CUDA IPC). It is cut into slots of a few sizes; each has an event that says
 * when it has been filled, for other processes' streams to wait for.
 * Confined; the context of cuda->device[0] must be current, but for `make` and
 * `open`, which make it so.
 */
#ifndef CEL_COMM_CUDA_MAILBOX_H
#define CEL_COMM_CUDA_MAILBOX_H

#include "device/cuda.h"

enum { CEL_MAIL_SIZES = 3, CEL_MAIL_SLOTS = 43 };

/* The slots of one size. A copy from another GPU costs about 4 us besides its
 * bytes, so the largest are large. */
typedef struct cel_mail_size {
  uint32_t first, slots;
  uint64_t bytes;
} cel_mail_size;

/* Ascending; 124 MiB in all. */
extern const cel_mail_size cel_mail_sizes[CEL_MAIL_SIZES];

typedef struct cel_mailbox {
  const cel_cuda *cuda;
  CUdeviceptr base;
  bool opened; /* another process's */
  CUevent event[CEL_MAIL_SLOTS];
} cel_mailbox;

typedef struct cel_mailbox_handles {
  CUipcHandle memory, event[CEL_MAIL_SLOTS];
} cel_mailbox_handles;

/* A mailbox of this rank's only device. CEL_E_MISSING says which call failed,
 * and then nothing is left to close. `cuda` is borrowed. */
cel_status cel_mailbox_make(cel_mailbox *mailbox, const cel_cuda *cuda,
                            cel_mailbox_handles *out);
cel_status cel_mailbox_open(cel_mailbox *mailbox, const cel_cuda *cuda,
                            const cel_mailbox_handles *handles);
/* What was opened is closed before its maker closes it. */
void cel_mailbox_close(cel_mailbox *mailbox);
CUdeviceptr cel_mailbox_slot(const cel_mailbox *mailbox, uint32_t slot);
/* CEL_E_MISSING: "cuMemAlloc: out of memory". */
cel_status cel_mailbox_fail(const cel_cuda *cuda, const char *call,
                            CUresult code);
#endif
