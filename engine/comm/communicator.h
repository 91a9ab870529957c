/* communicator.h -- what the collective tasks of one group talk through.
 *
 * Each group has a communicator of all ranks to itself, joined by the group's
 * own thread before its first task (transport.h), so a call that blocks holds
 * up nobody else, and no call meets one of another group. All ranks make the
 * same calls in the same order. A call that another rank never makes blocks
 * until the job ends.
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

enum { CEL_COMM_ALL = -1 }; /* for `root`: every rank gets the result */

typedef struct cel_comm cel_comm;
struct cel_comm {
  int64_t rank, ranks;
  uint64_t calls; /* made; of the simulated cluster */
  cel_status (*barrier)(cel_comm *c);
  cel_status (*broadcast)(cel_comm *c, void *data, uint64_t bytes,
                          int64_t root);
  cel_status (*gather)(cel_comm *c, const void *mine, uint64_t bytes, void *all,
                       int64_t root);
  cel_status (*reduce)(cel_comm *c, const cel_comm_sum *what, const void *mine,
                       void *out, int64_t root);
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
 */
cel_status cel_comm_reduce(cel_comm *c, cel_comm_op op, cel_comm_type type,
                           const void *mine, void *out, uint64_t count,
                           int64_t root);
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
