/* road_state.h -- what the files of road.h share. Confined to the transport's
 * driver. */
#ifndef CEL_COMM_ROAD_ROAD_STATE_H
#define CEL_COMM_ROAD_ROAD_STATE_H

#include "base/vec.h"
#include "comm/cursor.h"
#include "comm/road/road.h"
#include "device/cuda/cuda_memory.h"

/* A message from when it is posted until it is reported. */
typedef struct cel__road_transfer {
  const cel_posted *message;
  struct cel__road_channel *channel;
  cel_cursor cursor;    /* behind what is in chunks */
  uint64_t begun, left; /* bytes in chunks until now; not through */
  uint32_t at;          /* in road->transfers */
} cel__road_transfer;

/* A part of a message, in a buffer. */
typedef struct cel__road_chunk {
  cel__road_transfer *transfer; /* of no account once all have failed */
  struct cel__road_channel *channel;
  cel_cursor cursor; /* of its first byte */
  void *buffer;
  CUevent copied;
  cel_posted posted;
  cel_strided piece;
} cel__road_chunk;

/* One direction of one pair of ranks. */
typedef struct cel__road_channel {
  int64_t peer;
  bool sends;
  bool lined;                            /* in road->line */
  uint32_t held;                         /* buffers */
  uint64_t next;                         /* number of the first of `waiting` */
  uint64_t chunks;                       /* until now */
  CEL_VEC(cel__road_transfer *) waiting; /* not all in chunks; by number */
} cel__road_channel;

typedef struct cel__road {
  cel_transport base; /* first */
  cel_transport *inner;
  cel_road_config config;
  CUstream stream[2];                      /* into the device; out of it */
  CEL_VEC(cel__road_chunk *) copying[2];   /* likewise; the oldest first */
  CEL_VEC(cel__road_channel *) channel;    /* sorted by peer and direction */
  CEL_VEC(cel__road_channel *) line;       /* may go on */
  CEL_VEC(cel__road_transfer *) transfers; /* all */
  CEL_VEC(cel__road_chunk *) chunks;       /* all, in use or not */
  CEL_VEC(cel__road_chunk *) spare;        /* of these: not in use */
  cel_cuda_memory memory;                  /* pinned; once `opened` */
  bool opened;
  uint32_t buffers;     /* made */
  CEL_VEC(void *) free; /* buffers */
  CEL_VEC(cel_done) done;
  bool failed;
  cel_error error;
} cel__road;

enum { CEL__ROAD_SLAB = 8 /* buffers */ };

/* Tickets of the inner transport that have this bit are of chunks. */
#define CEL__ROAD_CHUNK (1ull << 62)

/* road_transport.c */
/* All fails from the next poll on, as the thread's error record says. */
void cel__road_fail(cel__road *road);
/* Whether the code is an error: then all fails. */
bool cel__road_bad(cel__road *road, CUresult code, const char *doing);
/* Its bytes are through; it is freed. */
void cel__road_end(cel__road *road, cel__road_transfer *transfer);

/* road_staged.c */
void cel__road_post(cel__road *road, const cel_posted *message, bool sends);
/* The inner transport has ended a chunk. */
void cel__road_arrived(cel__road *road, cel__road_chunk *chunk);
/* What the streams have come to, and what may go on. */
void cel__road_progress(cel__road *road);

/* road_pool.c */
/* A buffer of config.chunk_most bytes; null where there is none: all are in
 * use, unless it is `needed`; or it has failed. */
void *cel__road_take(cel__road *road, bool needed);
void cel__road_clear_pool(cel__road *road);

#endif
