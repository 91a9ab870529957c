/* transport.h -- messages between ranks.
 *
 * MPI, in-process (N virtual ranks of one process), one rank alone, and one of
 * several that are imagined.
 * Messages are matched by (peer, sequence): no pilots. Sends may start in any
 * order, receives may be posted in any order; the transport bounds what is
 * outstanding (a window per peer, acknowledged by credits) and queues the rest.
 * Collectives are matched by the order in which they are posted.
 *
 * Beside the data there is a control plane: short texts to a peer, and the
 * agreement of all ranks on what they submitted. So there are three tables of
 * functions, of messages, collectives and control.
 *
 * Threads: every call from the executor, once it runs; from main before; `join`
 * from the thread of its group.
 */
#ifndef CEL_COMM_TRANSPORT_H
#define CEL_COMM_TRANSPORT_H

#include "base/confined.h"
#include "comm/communicator.h"
#include "command/command.h"
#include "device/backend.h"

/* count[0] x count[1] runs of `run` bytes, `stride` bytes apart. */
typedef struct cel_strided {
  void *base;
  uint64_t count[2], stride[2], run;
} cel_strided;

/* A posted message. The poster owns it, and its pieces, until its ticket comes
 * back. */
typedef struct cel_posted {
  uint64_t ticket;
  int64_t peer;
  uint64_t sequence, bytes; /* direct messages are numbered apart */
  uint32_t pieces;
  const cel_strided *piece;
  bool direct;  /* between device memories, whose addresses the pieces are; with
                   a near rank */
  bool chained; /* direct, of chain_bytes at most; see cel_chained */
  bool far;     /* direct, with a rank that is not near; see far_bytes */
  /* Between hosts a transport may number messages of its own apart from all
   * others: by lines 1 to 3 of those of the transport below. */
  uint8_t line;
} cel_posted;

/* What a rank gives to each other one, or gets from each: parts of a box in its
 * memory, by rank. Nothing is made for every rank. */
typedef struct cel_collective_parts {
  const cel_parts *parts;
  void *base; /* of the box, which may be of no elements */
  /* Elements along each dimension, and bytes from one to the next. */
  uint64_t extent[CEL_DIMS], stride[CEL_DIMS];
} cel_collective_parts;

/* A posted collective: of a whole each rank gives what it has, and gets what it
 * is to get. All ranks post the same ones in the same order, whatever is still
 * under way; they and messages do not wait for each other. The poster owns it,
 * its pieces and counts, until its ticket comes back. */
typedef struct cel_collective {
  uint64_t ticket;
  uint64_t nth; /* from 0, without gaps */
  cel_pattern pattern;
  int64_t root;    /* BROADCAST, SCATTER, GATHER */
  cel_operator by; /* ALL_REDUCE */
  uint64_t bytes;  /* of the whole */
  /* ALL_TO_ALL: what it gives to each rank, and gets from each; none of it is
   * its own. The others have what follows. */
  cel_collective_parts to, from;
  bool wide; /* counts may not fit into ints; the same on all ranks */
  /* All but BROADCAST and ALL_REDUCE: see cel_parts. */
  uint64_t unit; /* bytes */
  const int32_t *count, *start;
  /* Who gives all or gets all has one piece, the whole, which is dense unless
   * it is broadcast (of an ALL_REDUCE always), and where the parts lie as
   * `start` says; or else the ranks' parts, by rank. Others have one piece,
   * their part. */
  uint32_t pieces;
  const cel_strided *piece;
  /* Of so many boxes, whose parts are packed: those of a rank lie box after
   * box, and are counted in bytes, also by what `to` and `from` have. Then
   * `each` says where they are, box by box: what it gives to each rank, and
   * gets from each; of all but an ALL_TO_ALL both are the wholes (of a
   * BROADCAST without parts), and there are no pieces. 0: of one. */
  uint32_t several;
  const cel_collective_parts *each[2];
} cel_collective;

/* A device's part in a collective between the devices of all ranks, its
 * *members*: number rank * devices + device. Each rank posts one for each of
 * its devices, in order of the collectives and of the devices. Its end is given
 * out by `chained` once all members' have been posted, in that order too; then
 * none waits for what has not been put. The poster owns it, and its pieces,
 * until its ticket comes back. */
typedef struct cel_device_collective {
  uint64_t ticket;
  uint64_t nth; /* as cel_collective's */
  cel_pattern pattern;
  int32_t device;
  int64_t root;    /* the member; BROADCAST, SCATTER, GATHER */
  cel_operator by; /* ALL_REDUCE: one that is for GPUs */
  bool zero;       /* likewise: it gives 0, not what is in its memory */
  uint64_t bytes;  /* of the whole */
  bool even; /* ALL_GATHER: all members have parts of one length, in ascending
                order unless those lie in memory with gaps anyway */
  /* By member: its part, if this one gives or gets it, in this device's memory;
   * else of no bytes. BROADCAST, ALL_REDUCE: one, the whole. ALL_TO_ALL: what
   * it gives to the member, and what it gets from it, which do not meet. */
  uint32_t pieces;
  const cel_strided *piece, *from;
} cel_device_collective;

/* The poster's end of a message that is chained at both ends, or of a
 * collective between devices: some copying, for
 * a stream of its device that is in order with all that the message waits for.
 * So that may still be on its way when the message is posted, and what waits
 * for the message can be put on a stream when this has been. To put the
 * receiver's end takes until the sender's has been put; that is given out when
 * the sender's is on its way, so the oldest that is not put waits for nobody.
 * Without streams, where jobs are simulated, it may answer CEL_E_AGAIN: it is
 * to be put again later, before what comes after it in its lane.
 */
typedef struct cel_chained {
  uint64_t ticket;
  /* Puts it on the stream. Thread: any, once. */
  cel_status (*enqueue)(void *context, void *stream);
  void *context;
} cel_chained;

/* What one rank says about its program at a horizon or epoch. */
typedef struct cel_agreement {
  uint64_t index; /* 0, 1, 2, ... */
  uint64_t hash, count;
  bool awaited; /* somebody waits for it; else it may take its time */
} cel_agreement;

typedef enum cel_agreed {
  CEL_AGREED_PENDING,
  CEL_AGREED_SAME,
  CEL_AGREED_DIFFERENT
} cel_agreed;

/* A control message; the receiver frees it with cel_free. */
typedef struct cel_told {
  int64_t peer;
  int32_t kind; /* the caller's meaning */
  uint32_t size;
  char data[];
} cel_told;

/* How ranks find out that one of them is lost; comm/heartbeat/README.md. */
typedef struct cel_watch {
  int64_t lost_ns; /* a rank that is silent for so long is lost */
  /* The job ends, so main is to say nothing more. Once. Thread: the
   * heartbeat's. */
  void (*hush)(void *context);
  /* The job ends, and this process is to: does not come back. `text` says why,
   * on the rank that is to print it; else null. Main may hang in MPI, or hold
   * any lock. Thread: the heartbeat's. */
  void (*lost)(void *context, const char *text);
  /* Beats do not get through to a rank. Thread: the heartbeat's. */
  void (*warn)(void *context, const char *text);
  void *context;
} cel_watch;

/* A transport is three tables, each with the `self` that its functions take,
 * and what concerns all of them. A null slot is what the transport cannot do. A
 * transport around another one begins as a copy of it. It replaces the tables
 * of what it does itself, and all of `poll` to `destroy`, as these take the
 * transport: its own call the inner one's. A table that it leaves still leads
 * to the inner transport, past it. */

/* What moves messages. */
typedef struct cel_message_table {
  void *self;
  /* Ranks that it moves direct messages of so many bytes at least to and from,
   * ascending; the transport owns the list. */
  const int64_t *near;
  int32_t nears;
  uint64_t direct_bytes;
  uint64_t chain_bytes; /* of a chained message at most; 0: there are none */
  /* Messages of so many bytes at least are direct between all other ranks, too,
   * each with one device; those are never chained. 0: there are none. */
  uint64_t far_bytes;
  void (*send)(void *self, const cel_posted *message);
  void (*receive)(void *self, const cel_posted *message);
  /* A chained message's end will be put on a stream before whatever the poster
   * puts there later. Null, as the next one, where no message is chained. */
  void (*carry)(void *self, void *context);
  /* The stream has done it, or never will. */
  void (*unchain)(void *self, void *context);
} cel_message_table;

typedef enum cel_joined {
  CEL_JOIN_PENDING,
  CEL_JOIN_DONE,
  CEL_JOIN_REFUSED
} cel_joined;

enum { CEL_JOIN_WHY = 256 };

/* What carries out collectives. */
typedef struct cel_collective_table {
  void *self;
  /* Of those between devices, if there are any. */
  cel_collective_limits limits;
  /* In host memory. Null where all are between devices, unless those can be
   * refused. */
  void (*exchange)(void *self, const cel_collective *collective);
  /* Collectives between devices may take seconds to start: so they do when they
   * are first needed. Nothing is under way on this rank then, and all ranks
   * come here. To be called again, with polls between, while it is pending; at
   * the end the same on all ranks. Refused: limits.devices is 0 from now on, so
   * `exchange` does what is left, and `why` says what is missing; that is of
   * CEL_JOIN_WHY bytes. Fails where it cannot be agreed. Null: nothing is to
   * start. */
  cel_status (*join)(void *self, cel_joined *out, char *why);
  /* Null, as the next one, where limits.devices is 0. */
  void (*exchange_devices)(void *self, const cel_device_collective *collective);
  /* The stream has done this end, or never will. */
  void (*unjoin)(void *self, void *context);
} cel_collective_table;

/* What ranks say to each other beside the data, and what all of them do. */
typedef struct cel_control_table {
  void *self;
  /* Starts the next agreement; one at a time per index, indices in order. */
  void (*agree)(void *self, const cel_agreement *mine);
  /* The oldest agreement not yet reported; at most once each. */
  cel_agreed (*agreed)(void *self, uint64_t *index);
  void (*tell)(void *self, int64_t peer, int32_t kind, const void *data,
               uint32_t size);
  cel_told *(*told)(void *self); /* null: nothing */
  /* Rank 0's bytes on all ranks; *data is replaced on the others (cel_free).
   * Collective; before the executor starts. As the next two it waits for all,
   * and ranks that fail meanwhile are answered. Thread: main. */
  cel_status (*broadcast)(void *self, void **data, uint64_t *size);
  /* `size` bytes of every rank of this host, in the order of local_rank, into
   * *all. Collective over the host; when broadcast may be called. Null in the
   * simulated cluster. Thread: main. */
  cel_status (*gather)(void *self, const void *mine, uint32_t size, void *all);
  /* The largest of what all ranks have in *n, there. Collective; when broadcast
   * may be called. Null where there are no other processes. Thread: main. */
  cel_status (*all_reduce_max)(void *self, int64_t *n);
  /* Answers ranks that have failed, of which poll has heard; other texts stay.
   * For whoever polls until others have come, before the executor starts. Null
   * where there are no other processes. Thread: main. */
  void (*attend)(void *self);
  /* The program comes to use collective tasks of `group`: on all ranks in the
   * same order. More than once does nothing. May be null. Thread: main. */
  void (*declare_group)(void *self, uint32_t group);
  /* The communicator of collective tasks of `group`, from 1, which the caller
   * owns and destroys before the transport. Collective, blocking. Null in a dry
   * run. Thread: the group's. */
  cel_status (*join)(void *self, uint32_t group, cel_comm **out);
  const char *no_groups; /* null, or why there can be no collective tasks */
  /* From now on ranks listen whether the others are there. Once. Null, as the
   * next one, where there are no other processes. CEL_E_MISSING. Thread: main.
   */
  cel_status (*watch)(void *self, const cel_watch *watch);
  /* Forgets all that is under way, after a failure: from here on only what is
   * posted later counts, and `broken` is null. Memory that messages were to be
   * written to is free then. Collective, blocking; without an executor. Null
   * where there are no other processes. Thread: main. */
  cel_status (*renew)(void *self);
  /* Appends a line to `text` for each rank that is silent. Thread: any. */
  void (*tell_silent)(void *self, char *text, size_t size);
  /* Looks whether others have said that the job ends: then this rank has
   * nothing to say (cel_report_settled). Null where there are no other
   * processes. Thread: any. */
  void (*look)(void *self);
  /* Ends every rank of the job with `status`. Returns only where it cannot:
   * in-process, what waits in communicators fails. */
  void (*abort)(void *self, int status);
} cel_control_table;

typedef struct cel_transport cel_transport;
struct cel_transport {
  const char *name;
  int64_t rank, ranks;
  int32_t local_rank, local_ranks; /* on this host */
  bool dry; /* the other ranks are imagined: this process speaks for all */
  /* Null while texts and agreements get through; then why they do not, for
   * good, as poll has found out. A failed message alone does not set it. */
  const cel_error *broken;
  cel_message_table messages;
  cel_collective_table collectives;
  cel_control_table control;
  /* Progress, and up to `max` completions of sends, receives and
   * collectives. */
  uint32_t (*poll)(cel_transport *t, cel_done *out, uint32_t max);
  /* Up to `max` ends of chained messages, and of collectives between devices,
   * that are to be enqueued now. They do not complete by poll, unless they fail
   * before. Null where there are neither. */
  uint32_t (*chained)(cel_transport *t, cel_chained *out, uint32_t max);
  /* Nothing is to be put on streams any more: puts that wait for another rank
   * give up. May be null. */
  void (*halt)(cel_transport *t);
  /* Whether anything is outstanding, so that a waiter must nap, not sleep. An
   * agreement that nobody waits for is nothing of that kind. */
  bool (*busy)(cel_transport *t);
  /* With the inner one, if there is one. Collective where the transport is;
   * nothing is outstanding. */
  void (*destroy)(cel_transport *t);
};

/* The driver of a transport, one thread at a time: main, unless the executor
 * runs; then who is that. */
#define cel_assert_driver()                                                    \
  cel_assert_thread(CEL_THREAD_MAIN | CEL_THREAD_EXECUTOR)

/* One rank alone: no peer, agreements are always the same. */
cel_status cel_transport_single(cel_transport **out);

enum { CEL_DRY_RANKS = 1 << 24 };

/* Rank `rank` of a dry run of `ranks`, at most CEL_DRY_RANKS: messages complete
 * at once and carry nothing. CEL_E_RANGE. */
cel_status cel_transport_dry(int64_t rank, int64_t ranks, cel_transport **out);

typedef struct cel_dry_traffic {
  uint64_t sent, received, bytes_sent, bytes_received;
  uint64_t collectives, bytes_shared; /* of the wholes */
  uint64_t peers; /* ranks that it sent to or received from */
} cel_dry_traffic;
/* What went through it. When nothing is under way. */
void cel_transport_dry_count(const cel_transport *t, cel_dry_traffic *out);

/* A fault to inject, for specs of the specs: message number `fault_at` (from 1,
 * over all ranks) is lost, changes places with the next one between its two
 * ranks, or comes again in the next one's place. */
typedef enum cel_fault {
  CEL_FAULT_NONE,
  CEL_FAULT_DROP,
  CEL_FAULT_SWAP,
  CEL_FAULT_DUPLICATE,
  /* Of a rank, not of a message; with a heartbeat. */
  CEL_FAULT_DEAD,
  CEL_FAULT_SILENT /* nothing goes between it and the others */
} cel_fault;

/* The simulated cluster: fills out[0 .. ranks). With `seed` the delivery order
 * and the moment of each completion are chosen by it, and everything must be
 * called from one thread; with `threads` each endpoint may be used by its own
 * thread, and `park[k]` is woken when rank k has news. */
typedef struct cel_inprocess_config {
  int64_t ranks;
  /* Rank k is on host k mod `hosts`; those of one host are near, where messages
   * of so many bytes are direct. 0: one host, and no message is direct. */
  int64_t hosts;
  uint64_t direct_bytes;
  uint64_t far_bytes;               /* see cel_message_table */
  uint64_t chain_bytes;             /* of no account with threads or a fault */
  cel_collective_limits collective; /* likewise with threads */
  bool threads;
  uint64_t seed;
  cel_park **park; /* may be null */
  cel_fault fault;
  uint64_t fault_at;
  /* A heartbeat, on a clock that begins at 0: a rank is lost that is silent for
   * so long. 0: none. With a seed. */
  int64_t lost_ns;
  /* Of faults of a rank: whose, from when on, and for how long; 0: for ever. */
  int64_t fault_rank, fault_begin_ns, fault_ns;
} cel_inprocess_config;
cel_status cel_transport_inprocess(const cel_inprocess_config *config,
                                   cel_transport **out);

/* What the heartbeat of a simulated cluster has made of a rank. Whoever drives
 * it does not drive a rank any more that is not ON. */
typedef enum cel_inprocess_life {
  CEL_LIFE_ON,
  CEL_LIFE_DEAD,
  CEL_LIFE_SPOKE, /* it has said which rank is lost, and ended */
  CEL_LIFE_ENDED  /* it has ended */
} cel_inprocess_life;
cel_inprocess_life cel_inprocess_life_of(cel_transport *t);
/* Time passes for the whole cluster of `t`. */
void cel_inprocess_pass(cel_transport *t, int64_t ns);

/* Initialises MPI (MPI_THREAD_SERIALIZED at least; collective tasks need
 * MPI_THREAD_MULTIPLE). CEL_E_COMM with advice
 * when the library gives less, or when the launcher started N processes that
 * MPI sees as N jobs of one rank. Thread: main. */
cel_status cel_transport_mpi(cel_transport **out);
/* Whether a launcher started this process as one rank of several (looks at the
 * environment of mpirun, srun and PMIx); without one MPI is not touched. */
bool cel_transport_launched(void);
/* The MPI library and, once it is up, the thread level that it gives. Thread:
 * main. */
void cel_mpi_describe(char *text, size_t size);
/* Whether the MPI library says that it takes the addresses of GPUs' memory;
 * else why not. Thread: main. */
bool cel_mpi_takes_gpus(char *why, size_t size);
#endif
