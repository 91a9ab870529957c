/* mpi.h -- the MPI transport's inside, shared by the files mpi_*.c.
 *
 *   mpi.c              starts and ends it; the tables of functions
 *   mpi_data.c         messages: windows, bounds, starting and completing them
 *   mpi_pack.c         what a message looks like to MPI: direct, typed, packed
 *   mpi_collectives.c  collectives
 *   mpi_control.c      credits, announcements, short texts
 *   mpi_agree.c        agreements
 *   mpi_renew.c        after a failure: forgets what is under way
 *   mpi_calls.c        what all ranks do together before the executor starts
 *   mpi_comm.c         communicators of collective tasks, how they come to be
 *   mpi_file.c         their files
 *   mpi_alone.c        MPI for one rank without a launcher
 *   mpi_window.c       which transfers of one direction of one pair may start
 *
 * Every MPI request is a row of one table, tested together. Four
 * communicators keep data, collectives, control and agreements from matching
 * each other; a fifth is of the ranks of one host.
 *
 * Invariants:
 *   1. flow[d].in_flight counts the rows of role SEND (d = 0), RECEIVE (1).
 *   2. in_flight <= most + peers in use, where each message is one row: beyond
 *      `most` only the first incomplete transfer of a channel starts. What has
 *      parts starts as a whole: in_flight <= most + (peers in use + 1) * parts.
 *   3. A side is in its flow's line iff `lined`.
 *   4. Agreements complete in the order in which they were started, or at least
 *      are reported so.
 *   5. A message that fails fails all others, now and later (`failed`); texts
 *      and agreements go on, so that the ranks can find out why. Where those
 *      fail, or the table cannot be tested, all ends (`base.broken`, too).
 * Confined to the thread that drives the transport, but for mpi_comm.c,
 * mpi_file.c and mpi_alone.c.
 */
#ifndef CEL_COMM_MPI_MPI_H
#define CEL_COMM_MPI_MPI_H

#ifndef CEL_CDEF
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/vec.h"
#include "comm/heartbeat/heartbeat.h"
#include "comm/mpi/mpi_window.h"
#include "comm/report.h"
#include "comm/transport.h"

typedef struct cel_mpi_config {
  uint32_t window;          /* W: a power of two, 2 or more */
  uint32_t sends, receives; /* requests outstanding, each */
  uint64_t small_bytes;     /* up to here a strided message is packed */
  /* Of a message to another host: beyond so many bytes it is announced, and
   * travels in parts of so many. */
  uint64_t announced_bytes, part_bytes;
  bool apart; /* each rank is taken to be on a host of its own; for specs */
} cel_mpi_config;

/* As cel_transport_mpi, with other bounds; for specs. */
cel_status cel_transport_mpi_with(const cel_mpi_config *config,
                                  cel_transport **out);

enum {
  CEL__TAG_STOP = 0,
  CEL__TAG_CREDIT = 1,
  CEL__TAG_TELL = 2,
  CEL__TAG_VOTE = 3,
  CEL__TAG_CARD = 4,
  CEL__TAG_GATHER = 5,
  CEL__TAG_GREETING = 6,
  CEL__CREDIT_RECEIVES = 4,
  CEL__MPI_LINES = 4 /* a power of two */
};
enum { CEL__MPI_NO_GROUPS = 384, CEL__MPI_UNITS = 8 };
/* Ranks that run different programs may take different messages or collectives
 * for the same. Of more bytes than the first of these Open MPI (4.1, between
 * processes of a host) writes what is longer than expected behind the memory
 * that is there for it. So those of other lengths have other tags or
 * communicators, most of them, and do not meet; what waits is told why by the
 * agreement of the next horizon. */
enum {
  CEL__MPI_SAFE_BYTES = 1024,
  CEL__MPI_COLLECTIVES = 8,
  CEL__MPI_TAGS = 1 << 24 /* at most */
};
enum { CEL__MPI_OPERATIONS = CEL_OP_FIXED };
enum { CEL__POOL_SMALLEST = 10, CEL__POOL_CLASSES = 7 };

typedef enum cel__mpi_role {
  CEL__SEND,
  CEL__RECEIVE,
  CEL__COLLECTIVE, /* what: cel__mpi_collective */
  CEL__WORD_OUT,   /* a credit, an announcement or a text; what: the bytes,
                      freed when done */
  CEL__CREDIT_IN,  /* or an announcement; what: uint64_t, posted again */
  CEL__TELL_IN,    /* what: cel_told */
  CEL__BALLOT_IN,  /* what: cel__mpi_step */
  CEL__CALL,       /* what: cel__mpi_call */
  CEL__GROUP,      /* what: cel__mpi_group */
  CEL__ENDED       /* to be taken out of the table */
} cel__mpi_role;

typedef struct cel__mpi_row {
  cel__mpi_role role;
  void *what;
} cel__mpi_row;

typedef struct cel__mpi_transfer cel__mpi_transfer;

/* One direction of one line of one pair of ranks. */
typedef struct cel__mpi_side cel__mpi_side;
struct cel__mpi_side {
  cel_mpi_window window;
  int64_t peer;
  uint8_t line;       /* see cel_posted */
  cel__mpi_role role; /* CEL__SEND or CEL__RECEIVE */
  bool apart;         /* the peer is on another host */
  uint64_t told;      /* RECEIVE: the base that the sender knows */
  /* SEND: what waits to be announced, and numbers announced before they were
   * handed over. */
  CEL_VEC(cel__mpi_transfer *) unannounced;
  CEL_VEC(uint64_t) announced;
  cel__mpi_side *next; /* in the flow's line */
  bool lined;
};

typedef struct cel__mpi_peer {
  cel__mpi_side side[2]; /* by role */
} cel__mpi_peer;

/* All sends, or all receives: those started, and the line of sides that have
 * some to start. */
typedef struct cel__mpi_flow {
  uint32_t in_flight, most;
  cel__mpi_side *first, *last;
} cel__mpi_flow;

/* A message on its way; ours until its ticket is reported. */
struct cel__mpi_transfer {
  const cel_posted *message;
  cel__mpi_side *side;
  void *staging; /* packed bytes, or null */
  MPI_Datatype type;
  uint32_t parts; /* rows of it */
  bool failed;    /* one of them has */
  uint64_t got;   /* bytes received */
};

/* A collective on its way; ours until its ticket is reported. */
typedef struct cel__mpi_collective {
  const cel_collective *collective;
  void *got;         /* ALL_TO_ALL: where MPI puts what it gets */
  char *staging[2];  /* what it gives and gets as one run, or null; both are in
                        the first but for an ALL_TO_ALL */
  MPI_Datatype type; /* made for it, or none */
  struct cel__mpi_types *wide;
  char nothing[2]; /* an address for each end that has none: where both have
                      one address MPI takes them to be in place */
} cel__mpi_collective;

/* The type of so many bytes, kept for the next collective of that unit. */
typedef struct cel__mpi_unit {
  uint64_t bytes; /* 0: none */
  MPI_Datatype type;
} cel__mpi_unit;

typedef struct cel__mpi_operation {
  bool made;
  MPI_Op op;
} cel__mpi_operation;

/* What a rank says, and whether all that it has heard of say the same. */
typedef struct cel__mpi_ballot {
  uint64_t index, hash, count, same;
} cel__mpi_ballot;

/* The receive that stands open for ballots of a step. */
typedef struct cel__mpi_step {
  cel__mpi_ballot ballot;
  bool here; /* it has come, and no vote has taken it */
} cel__mpi_step;

typedef struct cel__mpi_vote cel__mpi_vote;
struct cel__mpi_vote {
  cel__mpi_ballot said;
  uint32_t step; /* that it is in; `steps`: it is over */
  bool awaited;
  cel__mpi_vote *next;
};

/* A call that all ranks make, or a host's, and that is waited for. The caller's
 * once it is over; until then, and for good where MPI breaks, the request's. */
typedef struct cel__mpi_call {
  bool over;
  _Alignas(max_align_t) char bytes[];
} cel__mpi_call;

typedef struct cel__mpi_block {
  struct cel__mpi_block *next;
} cel__mpi_block;

/* Staging memory by power-of-two class; a few of each are kept. */
typedef struct cel__mpi_pool {
  cel__mpi_block *free[CEL__POOL_CLASSES];
  uint32_t kept[CEL__POOL_CLASSES];
} cel__mpi_pool;

/* Of collective tasks. */
typedef struct cel__mpi_group {
  uint32_t number; /* 0: it is no more */
  bool made;
  MPI_Comm comm; /* once `made`: of the group's thread */
} cel__mpi_group;

typedef struct cel__mpi_groups {
  pthread_mutex_t lock; /* of `all`, what is in there, and `failed` */
  pthread_cond_t news;
  CEL_VEC(cel__mpi_group *) all; /* as they were found */
  _Atomic(uint32_t) found;       /* how many these are */
  bool failed;
  /* The driver's: how many are made or being made, and whether one is. */
  uint32_t begun;
  bool making;
} cel__mpi_groups;

typedef struct cel__mpi {
  cel_transport base; /* first */
  cel_mpi_config config;
  MPI_Comm data, collective[CEL__MPI_COLLECTIVES], control, agreement, host;
  int tag_lengths; /* classes of length, each with tags of its own */
  bool finalize;   /* we initialised MPI */
  bool failed;     /* no message can be relied on any more */
  cel_error error; /* the first, if `failed` */
  char no_groups[CEL__MPI_NO_GROUPS];
  cel__mpi_groups groups;
  /* The table of requests: three arrays of one length. */
  CEL_VEC(MPI_Request) request;
  CEL_VEC(cel__mpi_row) row;
  CEL_VEC(int) index; /* scratch of Testsome, as are: */
  CEL_VEC(MPI_Status) status;
  CEL_VEC(cel__mpi_row) ended;
  cel__mpi_flow flow[2];
  uint32_t parts_most; /* of any message so far */
  struct { /* open addressing by rank and line; a power of two of slots */
    cel__mpi_peer **at;
    uint32_t n, cap;
  } peers;
  cel__mpi_pool pool;
  cel__mpi_unit unit[CEL__MPI_UNITS]; /* what was used last comes first */
  cel__mpi_operation operation[CEL__MPI_OPERATIONS][2]; /* of signed numbers */
  CEL_VEC(cel_done) done; /* to report, from done_head on */
  uint32_t done_head;
  CEL_VEC(cel_told *) told; /* likewise */
  uint32_t told_head;
  bool telling;       /* a text is being received */
  bool credits;       /* receives for credits are posted */
  uint32_t transfers; /* handed over and not ended */
  uint32_t words_out; /* credits and texts being sent */
  uint32_t polls;
  uint64_t next_vote;
  cel__mpi_vote *first_vote, *last_vote;
  cel__mpi_step *step; /* null before the first vote */
  uint32_t steps;
  cel_report report;        /* who failed before the executor started */
  uint32_t awaited;         /* of the votes that have not been reported */
  cel_heartbeat *heartbeat; /* null: one rank */
} cel__mpi;

/* mpi.c */
/* Starts MPI unless it runs, and asks it for MPI_THREAD_MULTIPLE: what it gives
 * is at least `least`, or CEL_E_COMM. *finalize: it was not running. */
cel_status cel__mpi_init(int least, int *level, bool *finalize);
/* What a code says, in MPI_MAX_ERROR_STRING + 1 bytes. */
void cel__mpi_text(int code, char *text);
/* A row for a request; `what` as its role says. */
void cel__mpi_track(cel__mpi *m, MPI_Request request, cel__mpi_role role,
                    void *what);
/* Fails all messages with this thread's error record, unless they have been. */
void cel__mpi_fail(cel__mpi *m);
/* Whether `code` is a failure: then all messages fail. */
bool cel__mpi_bad(cel__mpi *m, int code, const char *doing, int64_t peer);
/* The same of what carries texts and agreements: then they end, too. */
bool cel__mpi_breaks(cel__mpi *m, int code, const char *doing, int64_t peer);

/* Makes the communicators. MPI's code. */
int cel__mpi_dup_all(cel__mpi *m);
/* Releases all that messages, texts and agreements have here. */
void cel__mpi_release_work(cel__mpi *m);

/* mpi_renew.c */
cel_status cel__mpi_renew(void *self);

/* mpi_data.c */
/* Asserts invariants 1 to 3, and those of windows, unless a message has failed.
 */
void cel__mpi_check(const cel__mpi *m);
void cel__mpi_send(void *self, const cel_posted *message);
void cel__mpi_receive(void *self, const cel_posted *message);
/* A send or receive has ended as `status` says, or failed (null). */
void cel__mpi_arrived(cel__mpi *m, cel__mpi_transfer *transfer,
                      const MPI_Status *status);
/* A credit came from `peer`. */
void cel__mpi_granted(cel__mpi *m, int64_t peer, uint8_t line, uint64_t base);
/* `peer` has announced the message of that number. */
void cel__mpi_announced(cel__mpi *m, int64_t peer, uint8_t line,
                        uint64_t sequence);
/* Whether a message waits until its receiver has announced it: then it is
 * dense, packed if need be, and travels in parts. */
bool cel__mpi_in_parts(const cel__mpi *m, const cel__mpi_transfer *transfer);
/* After a failure: every transfer fails. */
void cel__mpi_fail_all(cel__mpi *m);
/* Frees the transfers that have not started. */
void cel__mpi_forget_waiting(cel__mpi *m);
void cel__mpi_release_peers(cel__mpi *m);
/* The message of that ticket has ended, as the first failure says unless
 * `good`. */
void cel__mpi_report(cel__mpi *m, uint64_t ticket, bool good);

/* mpi_pack.c */
/* Finds out how `transfer` travels, and packs it if it does so packed and is
 * being sent. The address, count and type for MPI. */
cel_status cel__mpi_pack(cel__mpi *m, cel__mpi_transfer *transfer, void **base,
                         int *count, MPI_Datatype *type);
/* Unpacks what was received (if `arrived`) and gives staging and type back. */
void cel__mpi_unpack(cel__mpi *m, cel__mpi_transfer *transfer, bool arrived);
void cel__mpi_release_pool(cel__mpi *m);
/* The type of so many bytes in a row, more than an int can count; not yet
 * committed. */
int cel__mpi_big_type(uint64_t bytes, MPI_Datatype *out);
int cel__mpi_strided_type(const cel_strided *s, MPI_Datatype *out);

/* mpi_meet.c: the first words between ranks; MPI's code. Ends the job where
 * some hear nothing. */
int cel__mpi_meet(cel__mpi *m);

/* mpi_collectives.c */
void cel__mpi_exchange(void *self, const cel_collective *collective);
/* It has ended; `good` unless MPI says otherwise. */
void cel__mpi_joined(cel__mpi *m, cel__mpi_collective *mine, bool good);
void cel__mpi_release_collective(cel__mpi *m);
/* A number below `n`, another one for most other lengths: 0 if it is safe
 * anyway. */
int cel__mpi_length_class(uint64_t bytes, int n);

/* mpi_agree.c */
void cel__mpi_agree(void *self, const cel_agreement *mine);
cel_agreed cel__mpi_agreed(void *self, uint64_t *index);
/* A ballot of that step has come. */
void cel__mpi_voted(cel__mpi *m, cel__mpi_step *step);
void cel__mpi_release_votes(cel__mpi *m);

/* mpi_control.c */
void cel__mpi_tell(void *self, int64_t peer, int32_t kind, const void *data,
                   uint32_t size);
cel_told *cel__mpi_told(void *self);
/* To the other end of `side`. */
void cel__mpi_send_credit(cel__mpi *m, const cel__mpi_side *side,
                          uint64_t base);
void cel__mpi_announce(cel__mpi *m, const cel__mpi_side *side,
                       uint64_t sequence);
void cel__mpi_expect_credits(cel__mpi *m);
/* Begins to receive a text that has come, if there is one. */
void cel__mpi_listen(cel__mpi *m);
/* A row of one of the control roles has ended. */
void cel__mpi_control_ended(cel__mpi *m, cel__mpi_row row,
                            const MPI_Status *status);
void cel__mpi_release_control(cel__mpi *m);

/* mpi_calls.c */
cel_status cel__mpi_broadcast(void *self, void **data, uint64_t *size);
cel_status cel__mpi_gather(void *self, const void *mine, uint32_t size,
                           void *all);
cel_status cel__mpi_all_reduce_max(void *self, int64_t *n);
void cel__mpi_attend(void *self);

/* mpi_comm.c; Thread: any, where nothing else is said */
/* How MPI is told of any number of bytes: *count of *type. */
int cel__mpi_bytes_begin(uint64_t bytes, int *count, MPI_Datatype *type);
void cel__mpi_bytes_end(MPI_Datatype *type);
/* OK, or CEL_E_COMM and what went wrong. */
cel_status cel__mpi_status(int code, const char *doing);
/* Of all ranks; collective over the threads of that group, of which there is
 * one at a time. */
cel_status cel__mpi_comm_of_group(uint32_t group, MPI_Comm *out);
cel_status cel__mpi_join(void *self, uint32_t group, cel_comm **out);

void cel__mpi_init_groups(cel__mpi_groups *groups);
void cel__mpi_release_groups(cel__mpi_groups *groups);
/* Those found so far are found no more. */
void cel__mpi_forget_groups(cel__mpi_groups *groups);
/* Thread: main. */
void cel__mpi_declare_group(void *self, uint32_t number);
/* Begins the next communicator, unless one is being made or none is wanted.
 * Thread: the driver, as the next one. */
void cel__mpi_make_groups(cel__mpi *m);
/* The request for it has ended. */
void cel__mpi_group_made(cel__mpi *m, cel__mpi_group *group, bool good);
#endif

#endif
