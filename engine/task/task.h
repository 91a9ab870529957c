/* task.h -- the record of one submitted command group, and its node.
 *
 * This is the seam: the Lua binding, the random programs, the benchmarks and
 * the specs all make cel_group records; everything below reads cel_task nodes.
 */
#ifndef CEL_TASK_TASK_H
#define CEL_TASK_TASK_H

#include "region/track.h"
#include "rule/rule.h"
#include "task/effect.h"
#include "task/late.h"

/* NAME, name, consumes, produces. `write` keeps what it does not overwrite and
 * so consumes too. */
#define CEL_MODES(_)                                                           \
  _(READ, read, 1, 0)                                                          \
  _(WRITE, write, 1, 1)                                                        \
  _(DISCARD_WRITE, discard_write, 0, 1)                                        \
  _(READ_WRITE, read_write, 1, 1)

typedef enum cel_mode {
#define CEL_MODE_ENUM(NAME, name, consumes, produces) CEL_MODE_##NAME,
  CEL_MODES(CEL_MODE_ENUM)
#undef CEL_MODE_ENUM
} cel_mode;

bool cel_mode_consumes(cel_mode mode);
bool cel_mode_produces(cel_mode mode);
const char *cel_mode_name(cel_mode mode);

/* How a buffer's first contents come about, identical on all ranks: fills
 * `box` (row-major, dense, at `out`). Null: uninitialised. With `lua` it runs
 * in a host lane's Lua state. */
typedef struct cel_init {
  cel_status (*fill)(const struct cel_init *init, const cel_box *box,
                     void *out);
  void (*destroy)(struct cel_init *init);
  bool lua;
  uint64_t hash; /* of what ranks must agree on of it; 0: of nothing */
  void *context;
} cel_init;

/* Immutable after creation; owned by the runtime, which frees it after every
 * layer has seen its CEL_TASK_FREE. `id` is dense from 0 and never reused. */
typedef struct cel_buffer {
  uint32_t id;
  int32_t dims;
  cel_box extent; /* min is 0; a 0-dimensional buffer is one element */
  uint32_t element_size;
  uint64_t type; /* hash of what an element is: equal on all ranks */
  const char *name;
  cel_init *init;
  /* What a memory has room for, where it has any of that; ranks may differ. */
  cel_box reserve;
  /* Each rank has contents of its own, of which no other knows: nobody sends
   * it. Host tasks write it, and may do so on several ranks at once. */
  bool apart;
  /* How many groups were submitted that may have changed it: main's alone, and
   * not immutable. Null: nobody counts. */
  uint64_t *changes;
} cel_buffer;

typedef struct cel_access {
  const cel_buffer *buffer;
  cel_mode mode;
  /* A group's, of what is read: the user says that no item reads there what
   * another item of the task writes. */
  bool disjoint;
  cel_rule_use use; /* use.extent is the buffer's, use.range the task's */
  /* A group's: not null, the kernel reduces into the whole buffer; the mode is
   * READ_WRITE to begin with what it holds, else DISCARD_WRITE, and `use` is of
   * no account. It is the work's, or at least its works live like that. */
  const cel_reducer *reducer;
  /* Null; or its words from `late_at` on say what it touches: no more than
   * `use`, which is the same on all ranks. */
  cel_late *late;
  int64_t late_at;
  /* A node's: 0; or what it writes are rows of partial results, so many for
   * each rank: chunk k of the ranks' split writes [k*rows, (k+1)*rows), its
   * parts a row each in order; use.range counts the chunks, of which ONCE has
   * one, wherever it is. Or it reads them,
   * each rank its own, which therefore nobody sends. */
  int64_t rows;
  bool in_place; /* a node's: what it writes is what the buffer comes to by
                    reducing; it is one chunk's and one part's */
  /* A node's: of nothing; or every rank writes all of the buffer, each
   * something else, and what they come to by this is then on all of them. */
  cel_operator by;
  /* A node's, where the graph is audited: what it reads that no earlier task
   * wrote. */
  uint32_t undefined_boxes;
  const cel_box *undefined;
} cel_access;

#ifndef CEL_CDEF
/* The name of a buffer or task, for messages. */
static inline const char *cel__name_of(const char *name) {
  return name != NULL ? name : "unnamed";
}

/* Of all that ranks must agree on of a buffer, chained from `seed`. */
uint64_t cel_buffer_hash(const cel_buffer *buffer, uint64_t seed);
#endif

/* NAME, name, what it is. */
#define CEL_TASK_KINDS(_)                                                      \
  _(KERNEL, kernel, "computes on devices")                                     \
  _(HOST, host, "computes on host lanes")                                      \
  _(HORIZON, horizon, "bounds all tracking (the talk on Celerity)")            \
  _(EPOCH, epoch,                                                              \
    "a synchronisation point (Knorr et al., Declarative Data Flow)")           \
  _(FREE, free, "the last mention of a buffer or a host object")

typedef enum cel_task_kind {
#define CEL_TASK_ENUM(NAME, name, text) CEL_TASK_##NAME,
  CEL_TASK_KINDS(CEL_TASK_ENUM)
#undef CEL_TASK_ENUM
} cel_task_kind;

/* Which ranks compute what. */
typedef enum cel_placement {
  CEL_PLACE_SPLIT, /* the range, cut along the permitted dimensions */
  CEL_PLACE_ONCE,  /* one rank computes all of it: rank 0, or its home */
  CEL_PLACE_EACH,  /* every rank computes one chunk: rank k gets [k, k+1) of
                      the range [0, ranks) */
  CEL_PLACE_ALL    /* every rank computes all of it, alike, so all have what it
                      writes; a kernel, whose rules do not ask for the chunk */
} cel_placement;

/* Where a task of CEL_PLACE_ONCE is computed: on `rank`; or where most of `box`
 * of a buffer lies, which the command graph finds out (command/own/own.h). */
typedef struct cel_home {
  int64_t rank;
  const cel_buffer *buffer; /* or null */
  cel_box box;
} cel_home;

/* How much each rank is to compute of a task that is split, and of that each of
 * this rank's devices, in proportion. */
typedef struct cel_weights {
  const int64_t *rank;   /* for each of them, not all 0; null: all alike */
  const int64_t *device; /* for each of this rank's; null: all alike */
  int32_t devices;       /* how many those are */
  uint64_t hash; /* of those of all ranks and devices: equal on all ranks */
} cel_weights;

/* What is submitted. Everything is borrowed for the call. */
typedef struct cel_group {
  cel_task_kind kind; /* KERNEL or HOST */
  cel_placement placement;
  uint32_t collective_group; /* a HOST task of CEL_PLACE_EACH: its group, from
                          1; 0: no collective task */
  int32_t dims;              /* of the index space, 0 to 3 */
  cel_box range; /* empty: the group submits nothing, and does nothing but
                    that what it reduces into comes to the identity */
  cel_split_kind permitted;
  /* SPLIT: what a device or host lane gets is cut further along dimension 0,
   * into so many runs at most, so that what one needs or leaves may travel
   * while another computes; 0 and 1: not. A task with effects is not. */
  int32_t oversubscribe;
  int32_t fold; /* as a step of a fold (fold/fold.h), of so many steps at most;
                   1: of none; 0: as many as are worth it (fold/depth.h) */
  const cel_weights *weights; /* null: all alike */
  const cel_home *home;       /* of ONCE; null: rank 0 */
  uint32_t accesses;
  const cel_access *access;
  uint32_t effects; /* of HOST; each object at most once */
  const cel_effect *effect;
  cel_work *work;   /* the graph takes a reference of its own */
  const char *name; /* may be null */
  cel_location location;
  cel_location
      reduced; /* combines: where was reduced what it does; else null */
  /* Null; or what the caller remembers of groups like this: known.h. */
  struct cel_known *known;
} cel_group;

/* A node of the task graph. Lives in the arena of its horizon; immutable once
 * emitted. */
typedef struct cel_task {
  uint64_t id; /* ascending from 1 */
  cel_task_kind kind;
  cel_placement placement;
  uint32_t collective_group;
  int32_t dims;
  cel_box range;
  cel_split_kind permitted;
  int32_t oversubscribe;
  int32_t fold;           /* as of the group */
  uint64_t weights;       /* hash of the weights; 0: there are none */
  uint64_t reduces;       /* hash of what it reduces into, and how; or 0 */
  const cel_split *split; /* over the ranks, with its sums; null: evenly, or at
                             a home that is still to be found */
  const cel_home *home;   /* as of the group */
  const int64_t *device_weight; /* null: all alike */
  bool listed;   /* some mapper is opaque: chunks are cut no further than
                    task/chunks.h says */
  bool late;     /* some access is late */
  bool disjoint; /* proved: under every permitted split no two chunks write one
                  element */
  uint32_t accesses;
  const cel_access *access; /* params copied into the arena; a reference on
                               each rule and on what is late until the node is
                               retired */
  uint32_t effects;
  const cel_effect *effect;
  cel_work *work;
  const cel_buffer *freed; /* CEL_TASK_FREE: a buffer, or else an object */
  const cel_object *ended;
  const char *name;
  cel_location location, reduced;
  uint32_t deps;
  const cel_dep *dep; /* on earlier tasks */
  uint64_t hash;      /* equal on all ranks */
  uint64_t lap;       /* that it is in (task_graph.h); of a HORIZON or EPOCH the
                         one that it begins */
  /* HORIZON and EPOCH: running hash and count of all submitted so far. */
  uint64_t agreement_hash, agreement_count;
  const struct cel_fold *folded; /* null; or the tasks that this one stands for:
                                    fold/fold.h */
} cel_task;

#endif
