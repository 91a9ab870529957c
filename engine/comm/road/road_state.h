/* road_state.h -- what the files of road.h share. Confined to the transport's
 * driver. */
#ifndef CEL_COMM_ROAD_ROAD_STATE_H
#define CEL_COMM_ROAD_ROAD_STATE_H

#include <stdatomic.h>

#include "base/vec.h"
#include "comm/cursor.h"
#include "comm/road/road.h"
#include "device/cuda/cuda_memory.h"

/* A message from when it is posted until it is reported. */
typedef struct cel__road_transfer {
  const cel_posted *message;
  struct cel__road_channel *channel;
  bool trial;           /* a lane's, of no number */
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
  bool packed; /* in a buffer; else where it belongs */
  cel_posted posted;
  cel_strided piece;
} cel__road_chunk;

/* One direction of one pair of ranks. */
typedef struct cel__road_channel {
  int64_t peer;
  bool sends;
  struct cel__road_lane *lane; /* or null */
  bool tried;                  /* it has a lane, or both ends do without */
  bool by_lane;                /* so messages go now; else in chunks */
  uint64_t hold;               /* messages from this number on wait */
  uint64_t taken;              /* bytes of those that have been begun */
  uint32_t under;              /* messages begun, and not through */
  bool lined;                  /* in road->line */
  uint32_t held;               /* buffers */
  uint64_t next;               /* number of the first of `waiting` */
  uint64_t chunks;             /* until now */
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
  cel_cuda_memory memory; /* pinned, or the GPU's; once `opened` */
  const cel_nccl_api *nccl;
  CEL_VEC(struct cel__road_lane *) lanes;
  CEL_VEC(struct cel__road_letter *) letters; /* on their way */
  uint32_t polls;
  _Atomic(bool) halted;
  bool opened;
  uint32_t buffers;     /* made */
  CEL_VEC(void *) free; /* buffers */
  CEL_VEC(cel_done) done;
  bool failed;
  cel_error error;
} cel__road;

enum { CEL__ROAD_SLAB = 8 /* buffers */ };

/* Tickets of the inner transport that have the first of these bits are of
 * chunks, and with the second of letters. */
#define CEL__ROAD_CHUNK (1ull << 62)
#define CEL__ROAD_LETTER (1ull << 61)
/* The inner transport's lines, of chunks, and of a channel's letters. */
enum { CEL__LINE_CHUNKS = 1, CEL__LINE_FORTH = 2, CEL__LINE_BACK = 3 };

/* What an end of a channel tells the other one; as long as both expect. */
typedef struct cel__road_note {
  char why[120]; /* it cannot go on; empty: it can */
  bool full;     /* it has as many lanes as it may have */
  bool more;     /* the sender's: there is another trial */
  bool by_lane;  /* it, or all from now on, goes by NCCL */
  uint64_t next; /* the first message that it has not begun */
  int32_t version;
  uint64_t gpu;
  ncclUniqueId id; /* the sender's, of the two */
} cel__road_note;

typedef struct cel__road_letter {
  struct cel__road_lane *lane;
  cel_posted posted;
  cel_strided piece;
  cel__road_note note;
  bool comes;  /* else it goes, and is freed when it has gone */
  bool unread; /* it has come */
  uint32_t at; /* in road->letters, if it goes */
} cel__road_letter;

typedef enum cel__road_stage {
  CEL__LANE_OFFERS, /* the sender has said what it has; the other answers */
  CEL__LANE_STARTS, /* NCCL does */
  CEL__LANE_HEARS,  /* whether it has started at the other end */
  CEL__LANE_STOPS,  /* the receiver is told from which message on it waits */
  CEL__LANE_DRAINS, /* those before it come to an end */
  CEL__LANE_TRIES,  /* trials, one way after the other */
  CEL__LANE_SETTLED
} cel__road_stage;

/* Of the part of a message that is next. */
typedef enum cel__road_step {
  CEL__PART_NONE,
  CEL__PART_AWAITS, /* the other end */
  CEL__PART_PUT,    /* NCCL is at it */
  CEL__PART_RUNS    /* on the stream */
} cel__road_step;

/* What a channel has if it goes by NCCL. */
typedef struct cel__road_lane {
  cel__road_channel *channel;
  cel__road_stage stage;
  cel__road_note mine;
  ncclComm_t comm;
  CUstream stream;
  CUevent through;
  int64_t deadline; /* of the start */
  cel__road_letter in;
  uint64_t came, went; /* letters */
  cel__road_step step;
  cel__road_transfer *transfer; /* some of it is to be begun, or under way */
  uint64_t bytes;               /* of the part */
  CUdeviceptr at;
  cel_cursor cursor; /* of its first byte */
  bool packed;       /* it is in the buffer */
  ncclResult_t code;
  CUdeviceptr buffer; /* of config.part_most bytes; 0: none was needed yet */
  cel_posted trial;   /* a message from or to the buffer */
  cel_strided whole;
  int32_t trials;         /* until now */
  bool tries, arrived;    /* a trial is under way, and through at this end */
  bool listens;           /* for a letter about trials */
  bool broken;            /* NCCL failed in one, at one of the ends */
  int64_t begun, best[2]; /* ns: in chunks, by the lane; of the sender */
} cel__road_lane;

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

/* road_lane.c */
/* What the lane of a channel may do that goes by it. */
void cel__road_lane_go_on(cel__road *road, cel__road_lane *lane);

/* road_trial.c */
/* Both ends have started NCCL; when they know which way is faster, the lane is
 * settled. */
void cel__road_try(cel__road *road, cel__road_lane *lane);
/* Messages go that way from now on. */
void cel__road_settle(cel__road *road, cel__road_lane *lane, bool by_lane);

/* road_meet.c */
/* The channel is to have a lane; its two ends begin to meet. */
void cel__road_open_lane(cel__road *road, cel__road_channel *channel);
/* Goes on with that. Afterwards the channel may have none. */
void cel__road_meet(cel__road *road, cel__road_lane *lane);
/* `size` bytes of a note to the other end; or the next one from there, which
 * is in lane->in when it has been heard. */
void cel__road_tell(cel__road *road, cel__road_lane *lane,
                    const cel__road_note *note, uint32_t size);
void cel__road_expect(cel__road *road, cel__road_lane *lane, uint32_t size);
bool cel__road_heard(cel__road_lane *lane);
/* A letter has come, or gone. */
void cel__road_delivered(cel__road *road, cel__road_letter *letter);
/* For so long an end waits for the other one's NCCL from now on. */
int64_t cel__road_deadline(const cel__road *road);
/* Ends what waits on streams for others. */
void cel__road_abort_lanes(cel__road *road);
/* Ends the communicators, by aborting them unless all is well. */
void cel__road_close_lanes(cel__road *road, bool good);
void cel__road_clear_lanes(cel__road *road);

/* road_staged.c */
cel__road_channel *cel__road_channel_of(cel__road *road, int64_t peer,
                                        bool sends);
/* Before all that wait. */
void cel__road_post_trial(cel__road *road, cel__road_lane *lane);
/* The next message, if it may begin; else null. */
cel__road_transfer *cel__road_next(const cel__road_channel *channel);
/* The first message of which nothing has been begun. */
uint64_t cel__road_unbegun(const cel__road_channel *channel);
/* That one is not to be begun any more. */
void cel__road_taken(cel__road_channel *channel);
/* What the channel may do. */
void cel__road_go_on(cel__road *road, cel__road_channel *channel);

/* road_pool.c */

/* A buffer of config.chunk_most bytes; null where there is none: all are in
 * use, unless it is `needed`; or it has failed. */
void *cel__road_take(cel__road *road, bool needed);
void cel__road_clear_pool(cel__road *road);

#endif
