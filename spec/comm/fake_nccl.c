#include "comm/fake_nccl.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/vec.h"
#include "device/fake_cuda.h"
#include "device/fake_memory.h"

enum { MEMBERS = 16, RING = 1000, VERSION = 22809 };

/* From one member to another. */
typedef struct ring {
  _Atomic(uint64_t) put, taken; /* bytes ever */
  unsigned char byte[RING];
} ring;

typedef enum call { PAIR, BROADCAST, ALL_GATHER, ALL_REDUCE } call;

typedef struct head {
  uint64_t call, bytes;
} head;

/* What the members know of each other, behind the rings. */
typedef struct table {
  _Atomic(int64_t) rank[MEMBERS], puts[MEMBERS];
} table;

struct ncclComm {
  ring *rings; /* of all pairs */
  table *table;
  int running; /* groups */
  int member, members, waits;
  unsigned connected; /* to whom, since its first group: later is too late */
  bool started;
  bool aborted;
  _Atomic(bool) asked; /* by a thread that is at it */
};

typedef struct transfer {
  ncclComm_t comm;
  ring *ring;
  bool sends;
  head head;
  size_t headed, bytes, done;
  unsigned char *at;
} transfer;

/* What is to be done when all members' numbers are here. */
typedef struct reduction {
  int members, me;
  cel_operator by;
  unsigned char *at, *got; /* by member: owned */
  size_t bytes;
} reduction;

/* What a group puts on one stream. */
typedef struct group {
  CUstream stream;
  ncclComm_t comm;
  CEL_VEC(transfer) transfer;
  CEL_VEC(reduction) reduction;
} group;

static cel_random dice;
static int depth;
static CEL_VEC(group *) open_groups;
static int64_t calls_left = INT64_MAX;
static int64_t own_rank = -1; /* fake_nccl_pairs */
static int most_running, running;
static bool slow;

/* ---- communicators ------------------------------------------------------- */

typedef struct identity {
  int pid, file;
} identity;

static size_t all_rings(void) {
  return sizeof(ring) * MEMBERS * MEMBERS + sizeof(table);
}

static ncclResult_t get_version(int *version) {
  *version = VERSION;
  return ncclSuccess;
}

static const char *error_string(ncclResult_t code) {
  return code == 3 ? "internal error" : "no error";
}

static const char *last_error(ncclComm_t comm) {
  (void)comm;
  return "it is a fake";
}

static ncclResult_t get_id(ncclUniqueId *out) {
  identity id = {getpid(), fake_file_make(all_rings())};
  memcpy(out->internal, &id, sizeof id);
  return ncclSuccess;
}

/* A call fails, or is in progress for a while. */
static ncclResult_t answer(ncclComm_t comm) {
  if (calls_left-- <= 0) return 3;
  comm->waits = slow ? 300 : (int)cel_random_int(&dice, 0, 5);
  return ncclInProgress;
}

static ncclResult_t init(ncclComm_t *out, int members, ncclUniqueId from,
                         int member, ncclConfig *config) {
  identity id;
  memcpy(&id, from.internal, sizeof id);
  cel_assert(members <= MEMBERS && config->blocking == 0);
  cel_assert(config->size == sizeof *config);
  int file = fake_file_open(id.pid, id.file);
  void *at = fake_file_map(file, all_rings());
  close(file);
  *out = cel_alloc_zero(sizeof **out);
  table *all = (table *)((ring *)at + MEMBERS * MEMBERS);
  **out = (struct ncclComm){
      .rings = at, .table = all, .member = member, .members = members};
  atomic_store(&all->rank[member], own_rank);
  return answer(*out);
}

static ncclResult_t async_error(ncclComm_t comm, ncclResult_t *out) {
  if (atomic_exchange(&comm->asked, true))
    cel_bug("fake NCCL: two threads at one communicator");
  if (slow) usleep(100);
  *out = comm->waits > 0 ? ncclInProgress : ncclSuccess;
  if (comm->waits > 0) --comm->waits;
  atomic_store(&comm->asked, false);
  return ncclSuccess;
}

static ncclResult_t finalize(ncclComm_t comm) {
  return answer(comm);
}

/* Work that it is in may still be on a stream. */
static ncclResult_t end(ncclComm_t comm) {
  comm->aborted = true;
  return ncclSuccess;
}

/* ---- bytes --------------------------------------------------------------- */

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Moves what goes now; how much. */
static size_t move(ring *r, bool sends, unsigned char *at, size_t n) {
  uint64_t put = atomic_load(&r->put), taken = atomic_load(&r->taken);
  n = least(n, sends ? RING - (put - taken) : put - taken);
  for (size_t i = 0; i < n; ++i) {
    if (sends)
      r->byte[(put + i) % RING] = at[i];
    else
      at[i] = r->byte[(taken + i) % RING];
  }
  atomic_fetch_add(sends ? &r->put : &r->taken, n);
  return n;
}

static void check(const transfer *t, const head *got) {
  if (got->call != t->head.call || got->bytes != t->head.bytes)
    cel_bug("fake NCCL: member %d is at a call %llu of %llu bytes, and another "
            "at a call %llu of %llu",
            t->comm->member, (unsigned long long)t->head.call,
            (unsigned long long)t->head.bytes, (unsigned long long)got->call,
            (unsigned long long)got->bytes);
}

static void move_head(transfer *t) {
  head got;
  if (t->headed == sizeof got) return;
  if (t->sends) {
    t->headed += move(t->ring, true, (unsigned char *)&t->head + t->headed,
                      sizeof got - t->headed);
    return;
  }
  if (atomic_load(&t->ring->put) - atomic_load(&t->ring->taken) < sizeof got)
    return;
  t->headed = move(t->ring, false, (unsigned char *)&got, sizeof got);
  check(t, &got);
}

/* Parts between two members go one after the other. */
static bool is_next(const group *g, uint32_t i) {
  for (uint32_t k = 0; k < i; ++k)
    if (g->transfer.at[k].ring == g->transfer.at[i].ring &&
        g->transfer.at[k].done < g->transfer.at[k].bytes)
      return false;
  return true;
}

/* In the order of members. */
static void reduce(const reduction *r) {
  memcpy(r->got + (size_t)r->me * r->bytes, r->at, r->bytes);
  for (int k = 1; k < r->members; ++k)
    cel_operator_fold(&r->by, r->got, r->got + (size_t)k * r->bytes, r->bytes);
  memcpy(r->at, r->got, r->bytes);
  cel_free(r->got);
}

static bool progress(void *context) {
  group *g = context;
  bool all = true;
  for (uint32_t i = 0; i < g->transfer.n; ++i) {
    transfer *t = &g->transfer.at[i];
    if (t->comm->aborted || !is_next(g, i)) continue;
    move_head(t);
    if (t->headed == sizeof t->head)
      t->done += move(t->ring, t->sends, t->at + t->done, t->bytes - t->done);
  }
  for (uint32_t i = 0; i < g->transfer.n; ++i) {
    const transfer *t = &g->transfer.at[i];
    all &= t->comm->aborted || t->done == t->bytes;
  }
  if (!all) return false;
  for (uint32_t i = 0; i < g->reduction.n; ++i) reduce(&g->reduction.at[i]);
  if (--g->comm->running == 0) --running;
  cel_vec_release(&g->reduction);
  cel_vec_release(&g->transfer);
  cel_free(g);
  return true;
}

/* ---- calls --------------------------------------------------------------- */

static group *group_of(CUstream stream) {
  for (uint32_t i = 0; i < open_groups.n; ++i)
    if (open_groups.at[i]->stream == stream) return open_groups.at[i];
  group *made = cel_alloc_zero(sizeof *made);
  made->stream = stream;
  cel_vec_push(&open_groups, made);
  return made;
}

static void add(ncclComm_t comm, CUstream stream, call call, int peer,
                bool sends, const void *at, size_t bytes) {
  int from = sends ? comm->member : peer, to = sends ? peer : comm->member;
  cel_assert(depth > 0 && bytes > 0 && peer != comm->member);
  if (!comm->started && call == PAIR) comm->connected |= 1u << peer;
  if (call == PAIR && (comm->connected >> peer & 1) == 0)
    cel_bug("fake NCCL: members are connected in the middle of a run");
  transfer t = {.comm = comm,
                .ring = &comm->rings[from * MEMBERS + to],
                .sends = sends,
                .head = {call, bytes},
                .bytes = bytes,
                .at = (unsigned char *)(uintptr_t)at};
  cel_vec_push(&group_of(stream)->transfer, t);
}

static ncclResult_t group_start(void) {
  ++depth;
  return ncclSuccess;
}

/* See fake_nccl_pairs. */
static void check_pair(ncclComm_t comm) {
  const table *all = comm->table;
  int me = comm->member, other = 1 - me;
  if (own_rank < 0) return;
  if (atomic_load(&all->rank[other]) < own_rank &&
      atomic_load(&all->puts[other]) <= atomic_load(&all->puts[me]))
    cel_bug("fake NCCL: the end of the higher rank is put first");
  if (comm->running > 1) cel_bug("fake NCCL: a second part is put");
  if (running > most_running)
    cel_bug("fake NCCL: %d communicators are at it", running);
}

static ncclResult_t group_end(void) {
  cel_assert(depth == 1);
  ncclResult_t code = ncclSuccess;
  for (uint32_t i = 0; i < open_groups.n; ++i) {
    group *g = open_groups.at[i];
    ncclComm_t comm = g->transfer.at[0].comm;
    comm->started = true;
    g->comm = comm;
    if (comm->running++ == 0) ++running;
    check_pair(comm);
    atomic_fetch_add(&comm->table->puts[comm->member], 1);
    code = answer(comm);
    fake_cuda_call(g->stream, progress, g);
  }
  cel_vec_clear(&open_groups);
  --depth;
  return code;
}

static ncclResult_t nccl_send(const void *from, size_t n, ncclDataType_t type,
                              int peer, ncclComm_t comm, CUstream stream) {
  (void)type;
  add(comm, stream, PAIR, peer, true, from, n);
  return ncclSuccess;
}

static ncclResult_t nccl_recv(void *to, size_t n, ncclDataType_t type, int peer,
                              ncclComm_t comm, CUstream stream) {
  (void)type;
  add(comm, stream, PAIR, peer, false, to, n);
  return ncclSuccess;
}

static ncclResult_t broadcast(const void *from, void *to, size_t n,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              CUstream stream) {
  (void)type;
  cel_assert(from == to);
  for (int k = 0; k < comm->members && root == comm->member; ++k)
    if (k != root) add(comm, stream, BROADCAST, k, true, from, n);
  if (root != comm->member) add(comm, stream, BROADCAST, root, false, to, n);
  return ncclSuccess;
}

static ncclResult_t all_gather(const void *from, void *to, size_t n,
                               ncclDataType_t type, ncclComm_t comm,
                               CUstream stream) {
  (void)type;
  cel_assert(from == (char *)to + (size_t)comm->member * n);
  for (int k = 0; k < comm->members; ++k) {
    if (k == comm->member) continue;
    add(comm, stream, ALL_GATHER, k, true, from, n);
    add(comm, stream, ALL_GATHER, k, false, (char *)to + (size_t)k * n, n);
  }
  return ncclSuccess;
}

static cel_operator operator_of(ncclDataType_t type, ncclRedOp_t op) {
  static const cel_operator numbers[] = {
      [ncclInt8] = {.class_ = 'i', .size = 1},
      [ncclUint8] = {.class_ = 'u', .size = 1},
      [ncclInt32] = {.class_ = 'i', .size = 4},
      [ncclUint32] = {.class_ = 'u', .size = 4},
      [ncclInt64] = {.class_ = 'i', .size = 8},
      [ncclUint64] = {.class_ = 'u', .size = 8}};
  static const cel_op ops[] = {
      [ncclSum] = CEL_OP_SUM, [ncclMax] = CEL_OP_MAX, [ncclMin] = CEL_OP_MIN};
  cel_operator by = numbers[type];
  by.op = ops[op];
  return by;
}

static ncclResult_t all_reduce(const void *from, void *to, size_t n,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, CUstream stream) {
  cel_assert(from == to);
  reduction r = {.members = comm->members,
                 .me = comm->member,
                 .by = operator_of(type, op),
                 .at = to};
  r.bytes = n * r.by.size;
  r.got = cel_alloc((size_t)r.members * r.bytes);
  for (int k = 0; k < comm->members; ++k) {
    if (k == comm->member) continue;
    add(comm, stream, ALL_REDUCE, k, true, from, r.bytes);
    add(comm, stream, ALL_REDUCE, k, false, r.got + (size_t)k * r.bytes,
        r.bytes);
  }
  cel_vec_push(&group_of(stream)->reduction, r);
  return ncclSuccess;
}

void fake_nccl_pairs(int64_t rank, int most) {
  own_rank = rank;
  most_running = most;
}

void fake_nccl_break(int64_t calls) {
  calls_left = calls;
}

void fake_nccl_slow(void) {
  slow = true;
}

const cel_nccl_api *fake_nccl(uint64_t seed) {
  static const cel_nccl_api api = {.ncclGetVersion = get_version,
                                   .ncclGetErrorString = error_string,
                                   .ncclGetLastError = last_error,
                                   .ncclGetUniqueId = get_id,
                                   .ncclCommInitRankConfig = init,
                                   .ncclCommGetAsyncError = async_error,
                                   .ncclCommFinalize = finalize,
                                   .ncclCommDestroy = end,
                                   .ncclCommAbort = end,
                                   .ncclGroupStart = group_start,
                                   .ncclGroupEnd = group_end,
                                   .ncclBroadcast = broadcast,
                                   .ncclAllGather = all_gather,
                                   .ncclAllReduce = all_reduce,
                                   .ncclSend = nccl_send,
                                   .ncclRecv = nccl_recv};
  dice.state = seed;
  own_rank = -1;
  return &api;
}
