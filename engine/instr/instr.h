/* instr.h -- how this rank carries out its commands: allocations, copies,
 * launches, messages.
 *
 * Memories: 0 is the host; device d of `devices` works in memory
 * device_memory[d] (0 when it shares the host's, as a single CPU device does;
 * of several none does).
 * A buffer is backed per memory by allocations that cover the boxes needed
 * there, never by the whole buffer; allocations of one buffer in one memory
 * never overlap. An allocation's layout box reserves address space for all of
 * dimension 0 and commits on touch, so that growth along it copies nothing
 * (RSIM); growth in other dimensions is a new allocation around both, a copy
 * of what is still current, and a free. Where a backend does not commit on
 * touch, a COMMIT precedes all that touches rows of an allocation for the first
 * time.
 *
 * Coherence: per buffer a map from boxes to the set of memories that hold the
 * current version on this rank; the pseudo-memory CEL_MEMORY_INIT stands for
 * "still the initial contents". What an access lacks is copied from where it
 * is current, just the boxes that are missing; all copies of a task come
 * before its first launch. A chunk is cut again over this rank's devices, in
 * the dimensions and at the granularity that the task permits, and where the
 * task is oversubscribed each device's part into runs along dimension 0: the
 * copies and messages of one then overlap the kernel of another.
 *
 * Collectives take place in host memory, where one allocation has all that
 * this rank gives and gets; or, where the exchange says so, in the memories of
 * devices, with an instruction for each device, whose memory has what that one
 * gives and gets (command/collective/member.h). They are to be begun in the
 * order of their numbers, and of the devices; what they bring is tracked as if
 * it were written at once.
 *
 * Messages leave from host memory and arrive there; those between devices that
 * the transport reaches itself, direct ones, in device memory. Both ends decide
 * alike, by what both know: the peer, the bytes and the kind of the task that
 * is served. What a host task asks for stays in host memory. Where many ranks
 * bring parts of a box for a task, one RECEIVE has all these messages, and who
 * reads the box depends on it alone.
 *
 * Boundaries: a chunk that lacks part of what it reads (a halo) is launched in
 * up to three pieces along each dimension that may be cut, where the first is
 * large enough: the interior, which neither lacks anything nor waits for a
 * message and may start at once, and what lies around it, which waits for
 * copies and messages, and goes first when they are there, because others wait
 * for it.
 *
 * Room: a memory may have a capacity. What would go beyond it is preceded by
 * *spilling*: of what the present command does not need, that which was not
 * touched for longest is copied to host memory, where it is current nowhere
 * else, and its memory given back; whoever needs it later copies it back. A
 * chunk that needs more than there is at once is carried out in *rounds*, one
 * run of it after another.
 *
 * Folds: where the backend takes several steps as one job, a fold whose steps
 * all fit into the memory of the rank's one device is one KERNEL. It has those
 * allocations that its steps write for itself: the executor may leave what they
 * hold in other memory of the same size, which is theirs from then on.
 *
 * Lookahead: commands are held back while they would allocate, until two
 * horizons pass without a new allocation, or an epoch or flush comes; then one
 * allocation serves all that was seen. Commands that allocate nothing go
 * through at once when nothing is held back.
 *
 * Dependencies are by id, ascending from 1, found with one tracker per
 * allocation. An instruction depends only on instructions at or after the
 * horizon before the last one: ids that are older than a completed horizon
 * count as complete.
 * Pure. Thread: scheduler.
 */
#ifndef CEL_INSTR_INSTR_H
#define CEL_INSTR_INSTR_H

#include "base/limits.h"
#include "command/command.h"

/* NAME, name, lane: who carries it out. The one list. */
#define CEL_INSTR_KINDS(_)                                                     \
  _(ALLOC, alloc, MEMORY)       /* Reserve memory; yields an address. */       \
  _(COMMIT, commit, MEMORY)     /* Put memory behind a part of it. */          \
  _(DECOMMIT, decommit, MEMORY) /* Take it from a part again. */               \
  _(FREE, free, MEMORY)         /* Give it back. */                            \
  _(INIT, init, HOST)       /* Initial contents of a box, into the host. */    \
  _(COPY, copy, COPY)       /* Strided box copy, any memory to any. */         \
  _(KERNEL, kernel, DEVICE) /* Launch over one chunk of the range. */          \
  _(HOST, host, HOST)       /* Run a host task over one chunk. */              \
  _(RELEASE, release, HOST) /* What the end of a host object takes. */         \
  _(SEND, send, COMM)       /* One message out of a memory. */                 \
  _(RECEIVE, receive, COMM) /* Messages into a memory; one, mostly. */         \
  _(COLLECTIVE, collective, COMM) /* What all ranks exchange. */               \
  _(HORIZON, horizon, NONE) /* Everything before it has been completed. */     \
  _(EPOCH, epoch, NONE)     /* Likewise, and main may be waiting for it. */

typedef enum cel_instr_lane {
  CEL_LANE_NONE,
  CEL_LANE_MEMORY,
  CEL_LANE_COPY,
  CEL_LANE_DEVICE,
  CEL_LANE_HOST,
  CEL_LANE_COMM
} cel_instr_lane;

typedef enum cel_instr_kind {
#define CEL_INSTR_ENUM(NAME, name, lane) CEL_INSTR_##NAME,
  CEL_INSTR_KINDS(CEL_INSTR_ENUM)
#undef CEL_INSTR_ENUM
} cel_instr_kind;

enum { CEL_RECEIVE_MOST = 1 << 19 }; /* messages of one */

enum {
  CEL_MEMORY_HOST = 0,
  CEL_MEMORY_ARRIVED = 62, /* a mark beside others: a message brought it */
  CEL_MEMORY_INIT = 63,
  CEL_MEMORIES = 62
};

/* Made by the instruction graph, which frees the record after the FREE has
 * been retired; `address` is written by the executor when the ALLOC completes
 * and read by instructions that depend on it. */
typedef struct cel_allocation {
  uint64_t id;
  int32_t memory;
  const cel_buffer *buffer;
  cel_box layout;   /* row-major, dense; what the address covers */
  uint64_t reserve; /* bytes of the layout */
  void *address;
} cel_allocation;

/* A box within one allocation. */
typedef struct cel_place_in {
  cel_allocation *allocation; /* null when the box is empty */
  cel_box box;
} cel_place_in;

/* A message, or the head of a list of those that a RECEIVE brings. */
typedef struct cel_sent {
  const struct cel_sent *next;
  int64_t peer;
  uint64_t sequence, bytes;
  bool direct;  /* the pieces lie in device memory; then it is alone */
  bool far;     /* direct, with a rank that is not near */
  uint64_t nth; /* from 0: of the direct messages, or of the others, between
                   the two ranks in this direction */
  uint32_t pieces;
  const cel_place_in *piece;
} cel_sent;

/* A step of a fold that is one KERNEL. Where it reads around the ends of the
 * range, chunk and views go on beyond them as what lies at the other ends
 * (cel_box_on_ring). */
typedef struct cel_instr_step {
  const cel_task *task;
  cel_box chunk;
  const cel_place_in *view; /* task->accesses of them */
} cel_instr_step;

typedef struct cel_instr_fold {
  int32_t steps;
  const cel_instr_step *step;
  /* What of the allocations that steps write must stay as it is. All else there
   * is either written by the last step of its buffer, or of no account. */
  uint32_t kept;
  const cel_place_in *keeps;
} cel_instr_fold;

typedef struct cel_instr {
  uint64_t id;
  cel_instr_kind kind;
  int32_t device;       /* KERNEL: which; COPY: the device end, -1 if none;
                           COLLECTIVE: which, -1 if it is in host memory */
  int32_t priority;     /* higher first */
  const cel_task *task; /* for names and places; null where none */
  uint32_t deps;
  const cel_dep *dep;
  union {
    struct {
      cel_allocation *allocation;
      /* COMMIT, DECOMMIT: bytes, at the grain or the block, or the end. */
      uint64_t begin, end;
    } memory; /* ALLOC, COMMIT, DECOMMIT, FREE */
    struct {
      cel_allocation *from, *to; /* INIT: from is null */
      cel_box box;
    } copy; /* COPY, INIT */
    struct {
      cel_box chunk;
      const cel_place_in *view;   /* task->accesses of them */
      const cel_instr_fold *fold; /* of a KERNEL; else null */
    } run;                        /* KERNEL, HOST, RELEASE */
    cel_sent message;             /* SEND, RECEIVE */
    struct {
      const cel_exchange *exchange; /* the command's */
      /* Of its place, and of those of others in its list; or the device's. */
      const cel_place_in *place;
    } collective; /* COLLECTIVE */
  };
} cel_instr;

typedef struct cel_instr_graph cel_instr_graph;

typedef struct cel_instr_graph_config {
  int64_t rank, ranks;
  int32_t devices;                    /* >= 1 */
  int32_t device_memory[CEL_DEVICES]; /* CEL_MEMORY_HOST or 1 + something */
  /* Of all memories, in bytes, a power of two; 0: committed on touch. The
   * host's always is. */
  uint64_t grain;
  /* Allocations that reserve less have all their memory from the ALLOC to the
   * FREE, and no COMMIT, as all have where there is no grain. */
  uint64_t whole;
  /* DECOMMITs are for multiples of so many bytes, a power of two and no less
   * than the grain. Of no account where no memory has a capacity. */
  uint64_t block;
  /* Bytes that may be committed at once, by memory; 0: as many as are needed,
   * as in the host's always. */
  uint64_t capacity[CEL_MEMORIES];
  /* Ranks that direct messages are exchanged with, ascending; borrowed. Rank a
   * is near b as b is near a. Of no account unless there is one device, with a
   * memory of its own. */
  const int64_t *near;
  int32_t nears;
  uint64_t direct_bytes; /* of a direct message at least */
  /* Of one with any other rank; 0: none is direct with these. Likewise. */
  uint64_t far_bytes;
  /* Of what is copied at once from the host to a device, so that the parts of
   * a box follow the messages that bring them; default CEL_TUNE_LARGE_BYTES. */
  uint64_t large_bytes;
  /* So many ranks at least for each box, to which messages bring parts of it
   * for one task, have one RECEIVE; default CEL_TUNE_TOGETHER_PEERS. */
  uint32_t together_peers;
  /* Of what has been freed in a memory, by the end of a buffer, so much at most
   * may still be there when more is allocated; default CEL_TUNE_FREED_BYTES, or
   * more where the memory has a large capacity. */
  uint64_t freed_bytes;
  bool lookahead;
  /* What an interior touches at least, taken to be an element of each access
   * for each item; 0: chunks stay whole; less: chunks of so much are cut
   * whatever they lack, for specs. */
  int64_t interior_bytes;
  bool fuses; /* the backend's: a fold may be one KERNEL */
  /* For specs: a fold's steps go in sweeps (fold.c) where they touch more than
   * this, whatever the memory holds; 0: where they touch more than it holds. */
  uint64_t sweep_bytes;
  /* For specs: plans each task anew, also one that comes again. */
  bool anew;
  void (*emit)(void *context, const cel_instr *instr);
  bool advise; /* warns also of buffers that are allocated anew again and again
                */
  /* The first time that a memory is too small for all; may be null. */
  void (*warn)(void *context, const cel_task *task, const char *text);
  void *context;
} cel_instr_graph_config;

cel_instr_graph *cel_instr_graph_create(const cel_instr_graph_config *config);
/* Frees all records; every instruction has been executed or never will be. */
void cel_instr_graph_destroy(cel_instr_graph *graph);
/* Takes the next command, in command order; emits what it leads to, now or
 * later. CEL_E_MEMORY: a command needs more than a capacity by itself; then
 * nothing may be added any more. */
cel_status cel_instr_graph_add(cel_instr_graph *graph,
                               const cel_command *command);
/* Emits what the lookahead holds back. */
cel_status cel_instr_graph_flush(cel_instr_graph *graph);
/* Frees the arenas whose instructions are all older than the horizon or epoch
 * instruction `id`, known to have been executed. */
void cel_instr_graph_retire(cel_instr_graph *graph, uint64_t id);
size_t cel_instr_graph_bytes(const cel_instr_graph *graph);
/* Asserts the invariants of memory.h, coherence.h and emission.h; between
 * commands, of which none has failed. It looks at everything: for specs, and
 * for debug builds, which call it at each epoch. Thread: scheduler. */
void cel_instr_graph_check(const cel_instr_graph *graph);

const char *cel_instr_name(cel_instr_kind kind);
cel_instr_lane cel_instr_lane_of(cel_instr_kind kind);

#endif
