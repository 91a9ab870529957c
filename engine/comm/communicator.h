/* communicator.h -- what the collective tasks of one group talk through.
 *
 * Each group has a communicator of all ranks to itself, joined by the group's
 * own thread before its first task (transport.h), so a call that blocks holds
 * up nobody else, and no call meets one of another group. All ranks make the
 * same calls in the same order, but for those that send and receive letters. A
 * call that another rank never makes blocks until the job ends.
 *
 * A letter goes from one rank to one rank, with a tag; those of one pair and
 * tag arrive in the order in which they were sent. Sending copies it and never
 * waits, so that ranks may all send first; the task ends when all that it sent
 * has been received. What a rank sends itself stays here, in `letters`.
 *
 * On one rank without a launcher nothing needs MPI, which is started by the
 * first that asks for a handle.
 *
 * Lua calls these functions through FFI (lua/celer/host/communicator.lua).
 * Threads: the group's alone.
 */
#ifndef CEL_COMM_COMMUNICATOR_H
#define CEL_COMM_COMMUNICATOR_H

#include "base/status.h"

/* NAME, how ranks' numbers become one. AND and OR are of whole numbers, where 0
 * is false. */
#define CEL_COMM_OPS(_)                                                        \
  _(SUM, sum)                                                                  \
  _(PROD, prod)                                                                \
  _(MIN, min)                                                                  \
  _(MAX, max)                                                                  \
  _(AND, and)                                                                  \
  _(OR, or)

typedef enum cel_comm_op {
#define CEL_COMM_OP(NAME, name) CEL_COMM_##NAME,
  CEL_COMM_OPS(CEL_COMM_OP)
#undef CEL_COMM_OP
} cel_comm_op;

/* NAME, the C type of a number, bytes. */
#define CEL_COMM_TYPES(_)                                                      \
  _(INT8, int8_t, 1)                                                           \
  _(UINT8, uint8_t, 1)                                                         \
  _(INT16, int16_t, 2)                                                         \
  _(UINT16, uint16_t, 2)                                                       \
  _(INT32, int32_t, 4)                                                         \
  _(UINT32, uint32_t, 4)                                                       \
  _(INT64, int64_t, 8)                                                         \
  _(UINT64, uint64_t, 8)                                                       \
  _(FLOAT, float, 4)                                                           \
  _(DOUBLE, double, 8)

typedef enum cel_comm_type {
#define CEL_COMM_TYPE(NAME, type, size) CEL_COMM_##NAME,
  CEL_COMM_TYPES(CEL_COMM_TYPE)
#undef CEL_COMM_TYPE
} cel_comm_type;

/* `count` numbers of each rank, combined one by one. */
typedef struct cel_comm_sum {
  cel_comm_op op;
  cel_comm_type type;
  uint64_t count;
} cel_comm_sum;

/* For `root`: who gets what. The last two are of numbers that are combined. */
enum {
  CEL_COMM_ALL = -1,   /* every rank the result */
  CEL_COMM_UPTO = -2,  /* each that of all ranks up to itself */
  CEL_COMM_BEFORE = -3 /* each that of all before it; rank 0 nothing */
};

enum { CEL_COMM_TAGS = 10000 };

/* Of fewer ranks an exchange among all is as fast as one among few. */
enum { CEL_COMM_MANY = 64 };

/* What is said of a letter before it comes. */
typedef struct cel_comm_head {
  uint64_t kind;        /* the caller's */
  uint64_t size, count; /* of its elements: one's bytes, and how many */
} cel_comm_head;

typedef struct cel_comm_letter cel_comm_letter;

typedef struct cel_comm cel_comm;
struct cel_comm {
  int64_t rank, ranks;
  uint32_t group;
  uint64_t calls; /* made; of the simulated cluster */
  /* Not received yet, the oldest first: to this rank itself, and those of
   * others of which the head has come. */
  cel_comm_letter *letters;
  cel_status (*barrier)(cel_comm *c);
  cel_status (*broadcast)(cel_comm *c, void *data, uint64_t bytes,
                          int64_t root);
  cel_status (*gather)(cel_comm *c, const void *mine, uint64_t bytes, void *all,
                       int64_t root);
  cel_status (*reduce)(cel_comm *c, const cel_comm_sum *what, const void *mine,
                       void *out, int64_t root);
  cel_status (*all_to_all)(cel_comm *c, const void *mine, uint64_t bytes,
                           void *all);
  /* The same, where only some of `mine` are sent, and what nobody sends stays
   * as it is in `all`; null: it has no shorter way. */
  cel_status (*notify)(cel_comm *c, const void *mine, uint64_t bytes,
                       const bool *is_sent, void *all);
  cel_status (*all_to_allv)(cel_comm *c, const void *mine, const uint64_t *give,
                            void *all, const uint64_t *get);
  /* Between two ranks. What is sent is freed when it has been received. */
  cel_status (*send)(cel_comm *c, int64_t to, int32_t tag,
                     const cel_comm_head *head, void *data);
  cel_status (*await)(cel_comm *c, int64_t from, int32_t tag,
                      cel_comm_head *out);
  cel_status (*take)(cel_comm *c, int64_t from, int32_t tag, void *into,
                     uint64_t bytes);
  cel_status (*settle)(cel_comm *c); /* until all that was sent is received */
  cel_status (*handle)(cel_comm *c, void *out);
  void (*destroy)(cel_comm *c);
};

/* Until every rank has called it. */
cel_status cel_comm_barrier(cel_comm *c);
/* `data` of rank `root` on all ranks. */
cel_status cel_comm_broadcast(cel_comm *c, void *data, uint64_t bytes,
                              int64_t root);
/* `bytes` of each rank, in the order of ranks, in `all` of `root`; of the
 * others it is not touched. */
cel_status cel_comm_gather(cel_comm *c, const void *mine, uint64_t bytes,
                           void *all, int64_t root);
/* Likewise what ranks' numbers combine to, in `out`; `mine` null: each rank's
 * lie there, and stay where they are not replaced. The order in which they
 * are combined is MPI's choice; with CEL_COMM_ALL all ranks get the same bits.
 * With CEL_COMM_BEFORE rank 0's `out` stays as it is. */
cel_status cel_comm_reduce(cel_comm *c, cel_comm_op op, cel_comm_type type,
                           const void *mine, void *out, uint64_t count,
                           int64_t root);
/* Part k of `mine`, of `bytes`, becomes on rank k part r of `all`, where r is
 * this rank. */
cel_status cel_comm_all_to_all(cel_comm *c, const void *mine, uint64_t bytes,
                               void *all);
/* The same, for parts of which most are zeros. From CEL_COMM_MANY ranks on
 * these are not sent: a rank talks to those that it has something for, and
 * takes part in a barrier. */
cel_status cel_comm_notify(cel_comm *c, const void *mine, uint64_t bytes,
                           void *all);
/* Likewise of any lengths: part k has give[k] bytes, and on rank k get[r]. Both
 * ends know them; only ranks with bytes for each other talk. */
cel_status cel_comm_all_to_allv(cel_comm *c, const void *mine,
                                const uint64_t *give, void *all,
                                const uint64_t *get);

/* Sends a copy of the head's elements. */
cel_status cel_comm_send(cel_comm *c, int64_t to, int32_t tag,
                         const cel_comm_head *head, const void *data);
/* Waits for the oldest letter of rank `from` with this tag, which stays until
 * it is taken: into as many bytes as its head says. */
cel_status cel_comm_await(cel_comm *c, int64_t from, int32_t tag,
                          cel_comm_head *out);
cel_status cel_comm_take(cel_comm *c, int64_t from, int32_t tag, void *into);
/* A task ends: waits until what it sent was received. Fails if it has left
 * letters that had come. With `failed` it only forgets them. */
cel_status cel_comm_settle(cel_comm *c, bool failed);

/* In which call the group's thread is on this rank, and for whom it waits,
 * added to a message; nothing where it is in none. Thread: any. */
void cel_comm_tell(uint32_t group, char *text, size_t size);

/* What all communicators of this process have sent: a message for each rank
 * that gets something by cel_comm_send or cel_comm_all_to_allv, and one for
 * each other call of all ranks in which this one gives something. Thread: any.
 */
void cel_comm_count(uint64_t *messages, uint64_t *bytes);

/* The MPI_Comm, of CEL_COMM_HANDLE bytes; the communicator's, not to be freed.
 */
cel_status cel_comm_handle(cel_comm *c, void *out);
/* MPI_INFO_NULL, which C libraries ask for beside a communicator; as long.
 * After cel_comm_handle. */
void cel_comm_no_info(void *out);
/* Whether both are pointers, as in Open MPI; else they are ints. */
bool cel_comm_handles_are_pointers(void);

/* Collective where it is more than one rank's. */
void cel_comm_destroy(cel_comm *c);

/* One rank alone, for a group of it; the caller owns *out. */
cel_status cel_comm_alone(uint32_t group, cel_comm **out);
/* Starts MPI for it, in a thread of its own, which calls MPI_Finalize in the
 * end, too. CEL_E_COMM unless it comes with MPI_THREAD_MULTIPLE. Thread: any.
 */
cel_status cel_mpi_alone(void);
/* Ends it if it runs; no communicator is used any more. Thread: main. */
void cel_mpi_alone_end(void);

#endif
