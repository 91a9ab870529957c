/* nccl_state.h -- what the files of nccl.h share. */
#ifndef CEL_COMM_NCCL_NCCL_STATE_H
#define CEL_COMM_NCCL_NCCL_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/vec.h"
#include "comm/nccl/nccl.h"

struct cel__nccl;

/* A device's part of a collective, from when it is posted until it is through.
 */
typedef struct cel__nccl_end {
  struct cel__nccl *nccl;
  const cel_device_collective *collective;
} cel__nccl_end;

/* All ranks say that they have posted a collective. Tickets of the inner
 * transport that have the top bit are of handshakes. */
typedef struct cel__nccl_handshake {
  cel_collective collective;
  cel_strided piece;
  uint64_t nth; /* the collective */
  bool over;
  uint64_t word[]; /* by rank */
} cel__nccl_handshake;

/* NCCL takes a communicator from one thread at a time: asking how it is, too,
 * ends what was put last, and twice if two ask. */
typedef struct cel__nccl_device {
  ncclComm_t comm; /* null: none, or aborted */
  pthread_mutex_t lock;
  CUdeviceptr staging;
} cel__nccl_device;

/* What has been started: nothing; the ranks meet; all of it; it cannot be. */
typedef enum cel__nccl_stage {
  CEL__NCCL_APART,
  CEL__NCCL_MEETS,
  CEL__NCCL_JOINED,
  CEL__NCCL_REFUSED
} cel__nccl_stage;

typedef struct cel__nccl {
  cel_transport base; /* first */
  cel_transport *inner;
  const cel_cuda *cuda;
  const cel_nccl_api *api;
  int32_t devices; /* of each rank */
  int64_t members;
  uint64_t staging_bytes;          /* of each device */
  cel__nccl_device *device;        /* ours */
  int32_t *count, *start;          /* by rank: of handshakes */
  uint64_t handshakes;             /* ever begun: the inner's collectives */
  CEL_VEC(cel__nccl_end *) posted; /* not given out; in order */
  CEL_VEC(cel__nccl_handshake *) handshake; /* likewise */
  cel__nccl_stage stage;
  cel__nccl_handshake *meeting; /* while it lasts */
  char why[CEL_JOIN_WHY];       /* it was refused */
  CEL_VEC(cel_done) done;
  uint64_t put; /* ends that were given out and are not through */
  uint32_t polls;
  bool failed;
  cel_error error;
  _Atomic(bool) halted;     /* nothing more is put */
  _Atomic(int32_t) putting; /* threads that are at it */
} cel__nccl;

/* nccl_transport.c --------------------------------------------------------- */

/* Sets the error record: what failed, in NCCL's words. Thread: any. */
cel_status cel__nccl_fail(const cel__nccl *n, int32_t device, const char *doing,
                          ncclResult_t code);
/* What a call of NCCL comes to that is in progress: waits for it, until the
 * transport is halted, or until `deadline` in ns of cel_now_ns; 0: none.
 * CEL_E_CANCELLED. Thread: any. */
cel_status cel__nccl_await(cel__nccl *n, int32_t device, const char *doing,
                           ncclResult_t code, int64_t deadline);
/* Ends what is under way, on all devices. Thread: main, executor. */
void cel__nccl_abort(cel__nccl *n);
void cel__nccl_release(cel__nccl *n);
/* Bytes of each rank, by rank, into *all; waits, while nothing else is under
 * way. CEL_E_COMM. Thread: main, executor. */
cel_status cel__nccl_gather(cel__nccl *n, const void *mine, uint32_t size,
                            void *all);
void cel__nccl_init(cel__nccl *n, cel_transport *inner);

/* nccl_start.c, nccl_probe.c ----------------------------------------------- */

/* Until when peers are waited for at the start. */
int64_t cel__nccl_deadline(void);
/* Communicators and a probe; *good where all ranks have both. Collective.
 * CEL_E_COMM. Thread: main, executor. */
cel_status cel__nccl_start(cel__nccl *n, bool *good);
/* Collective; CEL_E_MISSING. Thread: main, executor. */
cel_status cel__nccl_probe(cel__nccl *n);

/* nccl_put.c --------------------------------------------------------------- */

/* See cel_chained; the context is a cel__nccl_end. */
cel_status cel__nccl_put(void *context, void *stream);

#endif
