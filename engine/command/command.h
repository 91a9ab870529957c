/* command.h -- what this rank does for each task: execute, push, await-push,
 * take part in a collective.
 *
 * One command graph per rank, of this rank's commands only. Who owns what is
 * known symbolically (own.h), so nothing here grows with ranks that this rank
 * exchanges nothing with.
 *
 * For one task the commands come in this order: collectives (what all ranks
 * lack, see pattern.h), pushes (what others lack besides and this rank owns),
 * await-pushes (what this rank lacks), both of what is passed on from rank to
 * rank (bcast_tree.h), tokens to and from other ranks where a
 * host object of cluster scope is touched (shared.h), then the execution, then
 * what wait for it: tokens, and a collective of what each rank has reduced.
 * All pushes of a task are one command, as are its await-pushes; only those of
 * a tree, and tokens, are commands of their own.
 * Messages: all boxes from one rank to another for one task are in canonical
 * order (buffer id, then box). Boxes of at most `small_bytes` travel together
 * as one message, the first (another begins where it would exceed
 * `large_bytes`); each larger box is a message of its own, cut along its
 * slowest dimension where it exceeds `large_bytes`. Both ends derive the same
 * messages, numbered per ordered pair of ranks in command order: no pilots.
 *
 * `large_bytes` is small because what leaves from a device and arrives in one
 * goes by the memories of two hosts: of the parts of a large box, one is copied
 * to the host while another travels and a third is copied to the device. Where
 * the transport moves messages between devices itself, it does that better:
 * with near ranks a box that a task on devices asks for travels whole.
 *
 * Collectives: every rank has the same ones, in the same order and numbered
 * alike, whether it executes a chunk of the task or not. They are to be begun
 * in that order everywhere: it is a linear extension of all dependencies, so
 * ranks that do so cannot wait for each other in a circle. They take place in
 * host memory, or in the memories of the devices of all ranks (member.h).
 *
 * Dependencies are among this rank's commands, by id, ids ascending from 1
 * (the first epoch). Horizons and epochs as in the task graph.
 * Pure. Thread: scheduler.
 */
#ifndef CEL_COMMAND_COMMAND_H
#define CEL_COMMAND_COMMAND_H

#include "task/task.h"

/* NAME, name, what it is. */
#define CEL_COMMAND_KINDS(_)                                                   \
  _(EXECUTE, execute, "this rank's chunk of a task")                           \
  _(PUSH, push, "messages to other ranks")                                     \
  _(AWAIT_PUSH, await_push, "messages from other ranks")                       \
  _(COLLECTIVE, collective, "this rank's part in what all ranks exchange")     \
  _(HORIZON, horizon, "bounds what is tracked")                                \
  _(EPOCH, epoch, "a synchronisation point of all ranks")                      \
  _(FREE, free, "the last mention of a buffer or a host object")

typedef enum cel_command_kind {
#define CEL_COMMAND_ENUM(NAME, name, text) CEL_COMMAND_##NAME,
  CEL_COMMAND_KINDS(CEL_COMMAND_ENUM)
#undef CEL_COMMAND_ENUM
} cel_command_kind;

/* A box of a buffer that travels. */
typedef struct cel_piece {
  const cel_buffer *buffer;
  cel_box box;
} cel_piece;

/* A message, or the head of a list that stands for all of it in a command: what
 * this rank sends to others for a task, or what it gets from them. */
typedef struct cel_message {
  const struct cel_message *next; /* in ascending order from this rank on */
  int64_t peer;
  uint64_t sequence; /* per ordered pair of ranks, from 0 */
  uint64_t bytes;
  uint32_t pieces; /* none: a token, see shared.h */
  const cel_piece *piece;
  /* A token's: it goes out when what an effect of `order` comes after has been
   * done, and what comes later in that order waits for it. */
  const cel_object *object;
  cel_order order;
} cel_message;

/* NAME, name, what it is. */
#define CEL_PATTERNS(_)                                                        \
  _(NONE, none, "no collective: messages between pairs of ranks")              \
  _(BROADCAST, broadcast, "one rank has it, all read all of it")               \
  _(SCATTER, scatter, "one rank has it, each reads a part")                    \
  _(GATHER, gather, "each rank has a part, one reads all of them")             \
  _(ALL_GATHER, all_gather, "each rank has a part, all read all of them")      \
  _(ALL_TO_ALL, all_to_all, "each rank has a part, each reads some of each")   \
  _(ALL_REDUCE, all_reduce, "each rank has one, all get what they come to")

typedef enum cel_pattern {
#define CEL_PATTERN_ENUM(NAME, name, text) CEL_PATTERN_##NAME,
  CEL_PATTERNS(CEL_PATTERN_ENUM)
#undef CEL_PATTERN_ENUM
} cel_pattern;

#ifndef CEL_CDEF
/* Whether the root gives all that is given. */
static inline bool cel_pattern_is_from_root(cel_pattern pattern) {
  return pattern == CEL_PATTERN_BROADCAST || pattern == CEL_PATTERN_SCATTER;
}

/* Whether all but the root have to do with their own part alone. */
static inline bool cel_pattern_is_by_parts(cel_pattern pattern) {
  return pattern == CEL_PATTERN_SCATTER || pattern == CEL_PATTERN_GATHER;
}
#endif

/* Which part of a box each rank has, one part at most. Made once for all
 * commands over the same parts, which share it; it lives as long as they do. */
typedef struct cel_parts {
  int64_t ranks;
  int64_t unit; /* elements */
  /* By rank: part k is count[k] units. Where `box` is null they are the slices
   * from start[k] on of dimension `along`, so units of the whole in row-major
   * order; else start[k] is where they are when each part is dense and the
   * parts lie one behind the other. Null where some do not fit into them; then
   * they are in the wide ones, which are null else. */
  int32_t along;
  const int32_t *count, *start;
  const int64_t *wide_count, *wide_start;
  const cel_box *box; /* by rank, as if the whole began at 0; may be empty */
} cel_parts;

#ifndef CEL_CDEF
static inline int64_t cel_parts_count(const cel_parts *parts, int64_t rank) {
  return parts->count != NULL ? parts->count[rank] : parts->wide_count[rank];
}

static inline int64_t cel_parts_start(const cel_parts *parts, int64_t rank) {
  return parts->start != NULL ? parts->start[rank] : parts->wide_start[rank];
}
#endif

/* What all ranks do together, as this one does it. Several boxes that a task
 * asks for may be exchanged as one collective (coalesce.h): then there is one
 * of these for each, in a list, and the boxes do not meet. */
typedef struct cel_exchange {
  /* The next of a list, whose head stands for all in a command; or null. */
  const struct cel_exchange *next;
  /* Of the head of several, else null: bytes of all that each rank has; or in
   * pairs what this rank gives to each, and what it gets from each. */
  const cel_parts *sum[2];
  cel_pattern pattern;
  /* Of each rank, in whose memories it takes place; 0: in host memory. */
  int32_t devices;
  uint64_t nth; /* from 0, the same on all ranks, as are the next four */
  int64_t root; /* BROADCAST, SCATTER: who has it; GATHER: who gets it */
  const cel_buffer *buffer;
  cel_box box; /* all that is exchanged */
  /* Of `box`; null for a BROADCAST, an ALL_REDUCE, and in pairs. */
  const cel_parts *parts;
  cel_operator by; /* ALL_REDUCE */
  cel_box mine;    /* what this rank gives; may be empty */
  /* In pairs, else null: what this rank reads, of its own too; which part of it
   * each other rank gives; and which part of `mine` each other one gets. So is
   * an ALL_TO_ALL, and of the others what is no such collective of MPI. */
  cel_box wanted;
  const cel_parts *from, *to;
  bool wide; /* in pairs: a count of some rank may not fit into an int */
  /* In pairs between devices: along which dimension what ranks give is cut over
   * their devices (-1: the first one gives all), and what they get (-1: each
   * gets all). */
  int32_t give_along, get_along;
  /* In pairs: of how many ranks each exchanges something among themselves
   * alone, or so many at most; 0: all do. */
  int64_t subgroup;
  /* What it gives and gets: all of `box`, or its part if it is neither the root
   * nor to get all; what is around `mine` and `wanted`. Empty when it has
   * nothing to do with it. */
  cel_box hull;
  uint32_t gets; /* boxes that it gets */
  /* `hull`, or `wanted`, but for `mine`; of an ALL_REDUCE both are all. */
  const cel_box *get;
} cel_exchange;

/* Lives in the arena of its horizon; immutable once emitted. */
typedef struct cel_command {
  uint64_t id;
  cel_command_kind kind;
  const cel_task *task;         /* the task that it serves */
  cel_box chunk;                /* EXECUTE */
  cel_message message;          /* PUSH, AWAIT_PUSH: the first */
  const cel_exchange *exchange; /* COLLECTIVE */
  uint32_t deps;                /* none in a graph that is `unordered` */
  const cel_dep *dep;
} cel_command;

typedef struct cel_command_graph cel_command_graph;

/* What collectives there are between devices; the same on all ranks. */
typedef struct cel_collective_limits {
  int32_t devices; /* of each rank; 0: they take place in host memory */
  bool pairs; /* and what one device gives to another: scatters, gathers, what
                 is in pairs */
  /* Bytes of the whole; what is smaller or larger goes by messages: less than
   * the second where each gets a part of its own, or one alone gets any. The
   * last: of what a device may have to pack, which is not whole rows of its
   * buffer. */
  uint64_t least, least_parts, most, packed_most;
} cel_collective_limits;

typedef struct cel_command_graph_config {
  int64_t rank, ranks;
  uint64_t small_bytes; /* default CEL_TUNE_SMALL_BYTES */
  uint64_t large_bytes; /* default CEL_TUNE_LARGE_BYTES */
  /* Ranks that messages between devices are exchanged with, ascending;
   * borrowed. Rank a is near b as b is near a. */
  const int64_t *near;
  int32_t nears;
  int32_t replications; /* of a version, default CEL_TUNE_REPLICATIONS */
  /* Whether patterns become collectives; the same on all ranks. */
  bool collectives;
  int64_t tree_least; /* readers of what is passed on, for specs; default
                         CEL_TUNE_TREE_LEAST */
  bool several_hosts; /* ranks are on several hosts; the same on all */
  int64_t count_most; /* that counts are taken to hold, for specs; default
                         INT32_MAX */
  /* Commands get no dependencies. Nobody needs them but who draws or checks
   * this graph: instructions are ordered by what they do to memory. */
  bool unordered;
  cel_collective_limits collective;
  /* Asked once, before the first collective between devices: whether there can
   * be any; the same on all ranks. If not, there are none, and what they would
   * have brought goes by collectives in host memory, or by messages. May be
   * null. */
  bool (*join)(void *context);
  bool messages_else;
  void (*emit)(void *context, const cel_command *command);
  void *context;
} cel_command_graph_config;

const char *cel_pattern_name(cel_pattern pattern);
/* Bytes of all that is exchanged, and of what this rank gives; of a list. */
uint64_t cel_exchange_bytes(const cel_exchange *exchange);
uint64_t cel_exchange_given(const cel_exchange *exchange);

/* Where `rank` is in an ascending list, or -1. Thread: any. */
int32_t cel_rank_find(const int64_t *list, int32_t n, int64_t rank);

cel_command_graph *
cel_command_graph_create(const cel_command_graph_config *config);
void cel_command_graph_destroy(cel_command_graph *graph);
/* Generates the commands of the next task, in task order, and emits each
 * finished. CEL_E_OVERLAP when a write that could not be proved disjoint does
 * overlap in the actual split. `task` must outlive the command's arena. */
cel_status cel_command_graph_add(cel_command_graph *graph,
                                 const cel_task *task);
/* Frees the arenas whose commands are all older than the horizon or epoch
 * command `id`, known to have been executed. */
void cel_command_graph_retire(cel_command_graph *graph, uint64_t id);
/* Entries and replications held over all buffers; bytes of bookkeeping. */
void cel_command_graph_counts(const cel_command_graph *graph, uint64_t *entries,
                              uint64_t *replications, uint64_t *bytes);

#endif
