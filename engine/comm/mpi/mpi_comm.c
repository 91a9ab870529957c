/* Communicators of groups over MPI.
 * Threads: the driver makes them (cel__mpi_make_groups, cel__mpi_group_made). A
 * group's own thread uses its communicator, at the same time as the driver and
 * as other groups: MPI_THREAD_MULTIPLE. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi.h"

enum { REDUCED_AT_ONCE = 1 << 30 };

/* A letter on its way: its head, and a message of its bytes where it has any.
 */
typedef struct sent {
  MPI_Request request[2];
  cel_comm_head head;
  void *data;
} sent;

typedef struct group_comm {
  cel_comm base;
  MPI_Comm comm;
  cel__mpi *mpi;
  CEL_VEC(sent *) sent;
  uint32_t notices; /* calls of `notify` */
} group_comm;

/* ---- how they come to be ---------------------------------------------------
 *
 * One after the other in the order in which the program came to use them, which
 * is the same on all ranks, and without waiting. Open MPI (4.1) finds a context
 * for one communicator of a process at a time: made by the groups' own threads,
 * as MPI_Comm_create_group allows, that of a group whose first task comes late
 * on one rank held up all others.
 * Threads: found by main, made by the transport's driver, awaited by the
 * group's own.
 */

void cel__mpi_init_groups(cel__mpi_groups *groups) {
  pthread_mutex_init(&groups->lock, NULL);
  pthread_cond_init(&groups->news, NULL);
}

void cel__mpi_release_groups(cel__mpi_groups *groups) {
  for (uint32_t i = 0; i < groups->all.n; ++i) cel_free(groups->all.at[i]);
  cel_vec_release(&groups->all);
  pthread_cond_destroy(&groups->news);
  pthread_mutex_destroy(&groups->lock);
}

void cel__mpi_forget_groups(cel__mpi_groups *groups) {
  pthread_mutex_lock(&groups->lock);
  for (uint32_t i = 0; i < groups->all.n; ++i) groups->all.at[i]->number = 0;
  groups->begun = groups->all.n;
  groups->making = groups->failed = false;
  pthread_mutex_unlock(&groups->lock);
}

/* Null: it has not been found. */
static cel__mpi_group *find_group(const cel__mpi_groups *groups,
                                  uint32_t number) {
  for (uint32_t i = 0; i < groups->all.n; ++i)
    if (groups->all.at[i]->number == number) return groups->all.at[i];
  return NULL;
}

static void lose_group(cel__mpi *m, uint32_t number) {
  pthread_mutex_lock(&m->groups.lock);
  cel__mpi_group *group = find_group(&m->groups, number);
  if (group != NULL) group->number = 0;
  pthread_mutex_unlock(&m->groups.lock);
}

void cel__mpi_declare_group(void *self, uint32_t number) {
  cel__mpi_groups *groups = &((cel__mpi *)self)->groups;
  cel_assert_thread(CEL_THREAD_MAIN);
  pthread_mutex_lock(&groups->lock);
  if (find_group(groups, number) == NULL) {
    cel__mpi_group *group = cel_alloc_zero(sizeof *group);
    group->number = number;
    cel_vec_push(&groups->all, group);
    atomic_store_explicit(&groups->found, groups->all.n, memory_order_release);
  }
  pthread_mutex_unlock(&groups->lock);
}

/* ---- the driver ---------------------------------------------------------- */

/* It is there; or null: none that is waited for will come. */
static void tell_group(cel__mpi_groups *groups, cel__mpi_group *group) {
  pthread_mutex_lock(&groups->lock);
  if (group != NULL)
    group->made = true;
  else
    groups->failed = true;
  pthread_cond_broadcast(&groups->news);
  pthread_mutex_unlock(&groups->lock);
}

static cel__mpi_group *group_at(cel__mpi_groups *groups, uint32_t i) {
  pthread_mutex_lock(&groups->lock);
  cel__mpi_group *group = groups->all.at[i];
  pthread_mutex_unlock(&groups->lock);
  return group;
}

static void begin(cel__mpi *m, cel__mpi_group *group) {
  MPI_Request request;
  m->groups.making = true;
  int code = MPI_Comm_idup(m->data, &group->comm, &request);
  if (cel__mpi_bad(m, code, "making a communicator", -1))
    cel__mpi_group_made(m, group, false);
  else
    cel__mpi_track(m, request, CEL__GROUP, group);
}

void cel__mpi_make_groups(cel__mpi *m) {
  cel__mpi_groups *groups = &m->groups;
  uint32_t found = atomic_load_explicit(&groups->found, memory_order_acquire);
  if (m->failed && !groups->failed) tell_group(groups, NULL);
  if (!m->failed && !groups->making && groups->begun < found)
    begin(m, group_at(groups, groups->begun++));
}

void cel__mpi_group_made(cel__mpi *m, cel__mpi_group *group, bool good) {
  m->groups.making = false;
  if (good)
    good = !cel__mpi_bad(
        m, MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN),
        "making a communicator", -1);
  tell_group(&m->groups, good ? group : NULL);
}

/* ---- the group's thread ---------------------------------------------------
 */

cel_status cel__mpi_comm_of_group(uint32_t group, MPI_Comm *out) {
  MPI_Group all;
  int code = MPI_Comm_group(MPI_COMM_WORLD, &all);
  if (code == MPI_SUCCESS) {
    code = MPI_Comm_create_group(MPI_COMM_WORLD, all, (int)group, out);
    MPI_Group_free(&all);
  }
  if (code == MPI_SUCCESS)
    code = MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
  return cel__mpi_status(code, "making a communicator");
}

/* That of a group that was found is waited for. */
static cel_status await_group(cel__mpi *m, uint32_t number, MPI_Comm *out) {
  cel__mpi_groups *groups = &m->groups;
  pthread_mutex_lock(&groups->lock);
  cel__mpi_group *group = find_group(groups, number);
  while (group != NULL && !group->made && !groups->failed)
    pthread_cond_wait(&groups->news, &groups->lock);
  pthread_mutex_unlock(&groups->lock);
  if (group == NULL) return cel__mpi_comm_of_group(number, out);
  if (!group->made)
    return cel_fail(CEL_E_COMM, "no communicator could be made");
  *out = group->comm;
  return CEL_E_OK;
}

/* ---- numbers and bytes ----------------------------------------------------
 */

static MPI_Op op_of(cel_comm_op op) {
  switch (op) {
  case CEL_COMM_SUM: return MPI_SUM;
  case CEL_COMM_PROD: return MPI_PROD;
  case CEL_COMM_MIN: return MPI_MIN;
  case CEL_COMM_MAX: return MPI_MAX;
  case CEL_COMM_AND: return MPI_LAND;
  case CEL_COMM_OR: return MPI_LOR;
  }
  cel_bug("an operation %d", (int)op);
}

static MPI_Datatype type_of(cel_comm_type type) {
  switch (type) {
  case CEL_COMM_INT8: return MPI_INT8_T;
  case CEL_COMM_UINT8: return MPI_UINT8_T;
  case CEL_COMM_INT16: return MPI_INT16_T;
  case CEL_COMM_UINT16: return MPI_UINT16_T;
  case CEL_COMM_INT32: return MPI_INT32_T;
  case CEL_COMM_UINT32: return MPI_UINT32_T;
  case CEL_COMM_INT64: return MPI_INT64_T;
  case CEL_COMM_UINT64: return MPI_UINT64_T;
  case CEL_COMM_FLOAT: return MPI_FLOAT;
  case CEL_COMM_DOUBLE: return MPI_DOUBLE;
  }
  cel_bug("a type of numbers %d", (int)type);
}

static uint64_t size_of(cel_comm_type type) {
  int size = 0;
  MPI_Type_size(type_of(type), &size);
  return (uint64_t)size;
}

int cel__mpi_bytes_begin(uint64_t bytes, int *count, MPI_Datatype *type) {
  *count = (int)bytes;
  *type = MPI_BYTE;
  if (bytes <= INT_MAX) return MPI_SUCCESS;
  *count = 1;
  int code = cel__mpi_big_type(bytes, type);
  return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

void cel__mpi_bytes_end(MPI_Datatype *type) {
  if (*type != MPI_BYTE) MPI_Type_free(type);
}

cel_status cel__mpi_status(int code, const char *doing) {
  char text[MPI_MAX_ERROR_STRING + 1];
  if (code == MPI_SUCCESS) return CEL_E_OK;
  cel__mpi_text(code, text);
  return cel_fail(CEL_E_COMM, "MPI failed while %s: %s", doing, text);
}

/* ---- the table -------------------------------------------------------------
 */

static MPI_Comm comm_of(cel_comm *c) {
  return ((group_comm *)c)->comm;
}

static cel_status barrier(cel_comm *c) {
  return cel__mpi_status(MPI_Barrier(comm_of(c)), "in a barrier");
}

static cel_status broadcast(cel_comm *c, void *data, uint64_t bytes,
                            int64_t root) {
  int count;
  MPI_Datatype type;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = MPI_Bcast(data, count, type, (int)root, comm_of(c));
  cel__mpi_bytes_end(&type);
  return cel__mpi_status(code, "broadcasting");
}

static cel_status gather(cel_comm *c, const void *mine, uint64_t bytes,
                         void *all, int64_t root) {
  int count;
  MPI_Datatype type;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = root == CEL_COMM_ALL
               ? MPI_Allgather(mine, count, type, all, count, type, comm_of(c))
               : MPI_Gather(mine, count, type, all, count, type, (int)root,
                            comm_of(c));
  cel__mpi_bytes_end(&type);
  return cel__mpi_status(code, "gathering");
}

static void fold(cel_op op, int32_t class_, const void *in, void *into, int n,
                 MPI_Datatype type) {
  int size;
  MPI_Type_size(type, &size);
  const cel_operator by = {op, class_, (uint32_t)size};
  cel_operator_fold(&by, into, in, (uint64_t)n * by.size);
}

/* MPI's own sums of 8 and 16 bits may saturate, see mpi_collectives.c. */
static void add_wrapping(void *in, void *into, int *n, MPI_Datatype *type) {
  fold(CEL_OP_SUM, 'u', in, into, *n, *type);
}

/* Where one number is a NaN MPI's own give that or the other. */
static void least(void *in, void *into, int *n, MPI_Datatype *type) {
  fold(CEL_OP_MIN, 'f', in, into, *n, *type);
}

static void greatest(void *in, void *into, int *n, MPI_Datatype *type) {
  fold(CEL_OP_MAX, 'f', in, into, *n, *type);
}

/* What replaces MPI's own; null: nothing. */
static MPI_User_function *own_of(const cel_comm_sum *what) {
  bool real = what->type == CEL_COMM_FLOAT || what->type == CEL_COMM_DOUBLE;
  if (what->op == CEL_COMM_SUM && size_of(what->type) < sizeof(int32_t))
    return add_wrapping;
  if (real && what->op == CEL_COMM_MIN) return least;
  return real && what->op == CEL_COMM_MAX ? greatest : NULL;
}

static int combine(MPI_Comm comm, const void *from, void *to, int n,
                   MPI_Datatype type, MPI_Op op, int64_t root) {
  switch (root) {
  case CEL_COMM_ALL: return MPI_Allreduce(from, to, n, type, op, comm);
  case CEL_COMM_UPTO: return MPI_Scan(from, to, n, type, op, comm);
  case CEL_COMM_BEFORE: return MPI_Exscan(from, to, n, type, op, comm);
  default: return MPI_Reduce(from, to, n, type, op, (int)root, comm);
  }
}

static cel_status reduce(cel_comm *c, const cel_comm_sum *what,
                         const void *mine, void *out, int64_t root) {
  MPI_Datatype type = type_of(what->type);
  MPI_Op op = op_of(what->op);
  uint64_t size = size_of(what->type);
  MPI_User_function *own = own_of(what);
  bool gets = root < 0 || root == c->rank;
  int code = own != NULL ? MPI_Op_create(own, 1, &op) : MPI_SUCCESS;
  for (uint64_t at = 0; at < what->count && code == MPI_SUCCESS;
       at += REDUCED_AT_ONCE) {
    uint64_t left = what->count - at;
    int n = (int)(left < REDUCED_AT_ONCE ? left : REDUCED_AT_ONCE);
    char *to = (char *)out + at * size;
    const void *from = mine != NULL ? (const char *)mine + at * size
                       : gets       ? MPI_IN_PLACE
                                    : to;
    code = combine(comm_of(c), from, to, n, type, op, root);
  }
  if (own != NULL && code == MPI_SUCCESS) code = MPI_Op_free(&op);
  return cel__mpi_status(code, "reducing");
}

static cel_status all_to_all(cel_comm *c, const void *mine, uint64_t bytes,
                             void *all) {
  int count;
  MPI_Datatype type;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = MPI_Alltoall(mine, count, type, all, count, type, comm_of(c));
  cel__mpi_bytes_end(&type);
  return cel__mpi_status(code, "exchanging");
}

/* ---- from one rank to one rank ---------------------------------------------
 *
 * A receive is posted for as many bytes as come: longer messages Open MPI 4.1
 * may write behind it (mpi/README.md).
 */

/* The tag of all_to_allv; of notices, in turns. */
enum { PARTS = 2 * CEL_COMM_TAGS, NOTICES };

static int head_tag(int32_t tag) {
  return 2 * tag;
}

static int data_tag(int32_t tag) {
  return 2 * tag + 1;
}

static int begin_receive(MPI_Comm comm, void *into, uint64_t bytes,
                         int64_t from, int tag, MPI_Request *out) {
  int count;
  MPI_Datatype type;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = MPI_Irecv(into, count, type, (int)from, tag, comm, out);
  cel__mpi_bytes_end(&type);
  return code;
}

/* It completes when it is received, not before. */
static int begin_send(MPI_Comm comm, const void *data, uint64_t bytes,
                      int64_t to, int tag, MPI_Request *out) {
  int count;
  MPI_Datatype type;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = MPI_Issend(data, count, type, (int)to, tag, comm, out);
  cel__mpi_bytes_end(&type);
  return code;
}

static cel_status all_to_allv(cel_comm *c, const void *mine,
                              const uint64_t *give, void *all,
                              const uint64_t *get) {
  MPI_Request *request = cel_alloc(2 * (size_t)c->ranks * sizeof *request);
  int n = 0, code = MPI_SUCCESS;
  const char *from = mine;
  char *to = all;
  for (int64_t k = 0; k < c->ranks && code == MPI_SUCCESS; ++k) {
    if (k == c->rank) {
      if (give[k] > 0) memcpy(to, from, give[k]);
    } else {
      if (get[k] > 0)
        code = begin_receive(comm_of(c), to, get[k], k, PARTS, &request[n++]);
      if (give[k] > 0 && code == MPI_SUCCESS)
        code = begin_send(comm_of(c), from, give[k], k, PARTS, &request[n++]);
    }
    from += give[k];
    to += get[k];
  }
  if (code == MPI_SUCCESS) code = MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
  cel_free(request);
  return cel__mpi_status(code, "exchanging");
}

/* ---- notices ---------------------------------------------------------------
 *
 * Nobody knows who will send it something. So each sends its parts such that
 * they complete when they are received, then comes to a barrier, and receives
 * what there is until all have come there (Hoefler, Siebert, Lumsdaine:
 * Scalable Communication Protocols for Dynamic Sparse Data Exchange, PPoPP
 * 2010). A rank may leave, and send what belongs to the next round, while
 * others still receive: so rounds take turns with two tags. Two are enough, as
 * nobody comes to the end of the next round before all have left this one.
 */

/* One round; `left`: parts that are on their way, then the barrier. */
typedef struct round {
  MPI_Comm comm;
  int tag;
  int left;
  MPI_Request *request;
  bool is_at_barrier;
} round;

static int take_one(const round *r, char *all, uint64_t bytes) {
  MPI_Status status;
  MPI_Request request;
  int there = 0;
  int code = MPI_Iprobe(MPI_ANY_SOURCE, r->tag, r->comm, &there, &status);
  if (code != MPI_SUCCESS || !there) return code;
  int64_t from = status.MPI_SOURCE;
  code = begin_receive(r->comm, all + (uint64_t)from * bytes, bytes, from,
                       r->tag, &request);
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

static int come_together(round *r, char *all, uint64_t bytes) {
  int code = MPI_SUCCESS;
  while (code == MPI_SUCCESS) {
    int done = 0;
    code = take_one(r, all, bytes);
    if (code == MPI_SUCCESS)
      code = MPI_Testall(r->left, r->request, &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS || !done) continue;
    if (r->is_at_barrier) return code;
    r->is_at_barrier = true;
    r->left = 1;
    code = MPI_Ibarrier(r->comm, r->request);
  }
  return code;
}

static cel_status notify(cel_comm *c, const void *mine, uint64_t bytes,
                         const bool *is_sent, void *all) {
  group_comm *g = (group_comm *)c;
  round r = {.comm = g->comm,
             .tag = NOTICES + (int)(g->notices++ % 2),
             .request = cel_alloc((size_t)c->ranks * sizeof(MPI_Request))};
  int code = MPI_SUCCESS;
  for (int64_t k = 0; k < c->ranks && code == MPI_SUCCESS; ++k) {
    const char *part = (const char *)mine + (uint64_t)k * bytes;
    if (is_sent[k] && k == c->rank)
      memcpy((char *)all + (uint64_t)k * bytes, part, bytes);
    else if (is_sent[k])
      code = begin_send(g->comm, part, bytes, k, r.tag, &r.request[r.left++]);
  }
  if (code == MPI_SUCCESS) code = come_together(&r, all, bytes);
  cel_free(r.request);
  return cel__mpi_status(code, "exchanging");
}

/* ---- letters ---------------------------------------------------------------
 */

static void free_sent(sent *s) {
  free(s->data);
  cel_free(s);
}

/* Frees what has been received. */
static cel_status sweep(group_comm *g) {
  int code = MPI_SUCCESS, done = 1;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g->sent.n; ++i) {
    sent *s = g->sent.at[i];
    if (code == MPI_SUCCESS)
      code = MPI_Testall(2, s->request, &done, MPI_STATUSES_IGNORE);
    if (code == MPI_SUCCESS && done)
      free_sent(s);
    else
      g->sent.at[kept++] = s;
  }
  g->sent.n = kept;
  return cel__mpi_status(code, "sending");
}

static cel_status send_letter(cel_comm *c, int64_t to, int32_t tag,
                              const cel_comm_head *head, void *data) {
  group_comm *g = (group_comm *)c;
  uint64_t bytes = head->size * head->count;
  sent *s = cel_alloc(sizeof *s);
  *s = (sent){{MPI_REQUEST_NULL, MPI_REQUEST_NULL}, *head, data};
  cel_vec_push(&g->sent, s);
  int code = begin_send(g->comm, &s->head, sizeof s->head, to, head_tag(tag),
                        &s->request[0]);
  if (code == MPI_SUCCESS && bytes > 0)
    code = begin_send(g->comm, data, bytes, to, data_tag(tag), &s->request[1]);
  CEL_TRY(cel__mpi_status(code, "sending"));
  return sweep(g);
}

static cel_status await_letter(cel_comm *c, int64_t from, int32_t tag,
                               cel_comm_head *out) {
  return cel__mpi_status(MPI_Recv(out, sizeof *out, MPI_BYTE, (int)from,
                                  head_tag(tag), comm_of(c), MPI_STATUS_IGNORE),
                         "receiving");
}

static cel_status take_letter(cel_comm *c, int64_t from, int32_t tag,
                              void *into, uint64_t bytes) {
  MPI_Request request;
  int code =
      begin_receive(comm_of(c), into, bytes, from, data_tag(tag), &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  return cel__mpi_status(code, "receiving");
}

static cel_status settle(cel_comm *c) {
  group_comm *g = (group_comm *)c;
  int code = MPI_SUCCESS;
  for (uint32_t i = 0; i < g->sent.n && code == MPI_SUCCESS; ++i)
    code = MPI_Waitall(2, g->sent.at[i]->request, MPI_STATUSES_IGNORE);
  return code == MPI_SUCCESS ? sweep(g) : cel__mpi_status(code, "sending");
}

static cel_status handle(cel_comm *c, void *out) {
  memcpy(out, &((group_comm *)c)->comm, sizeof(MPI_Comm));
  return CEL_E_OK;
}

static void destroy(cel_comm *c) {
  group_comm *g = (group_comm *)c;
  /* Those that nobody received, after a failure: MPI may still read them. */
  if (sweep(g) == CEL_E_OK)
    for (uint32_t i = 0; i < g->sent.n; ++i)
      for (int k = 0; k < 2; ++k)
        if (g->sent.at[i]->request[k] != MPI_REQUEST_NULL)
          MPI_Request_free(&g->sent.at[i]->request[k]);
  cel_vec_release(&g->sent);
  MPI_Comm_free(&g->comm);
  lose_group(g->mpi, c->group);
  cel_free(g);
}

static const cel_comm table = {.barrier = barrier,
                               .broadcast = broadcast,
                               .gather = gather,
                               .reduce = reduce,
                               .all_to_all = all_to_all,
                               .notify = notify,
                               .all_to_allv = all_to_allv,
                               .send = send_letter,
                               .await = await_letter,
                               .take = take_letter,
                               .settle = settle,
                               .handle = handle,
                               .destroy = destroy};

cel_status cel__mpi_join(void *self, uint32_t group, cel_comm **out) {
  MPI_Comm comm;
  cel__mpi *m = self;
  CEL_TRY(await_group(m, group, &comm));
  group_comm *g = cel_alloc_zero(sizeof *g);
  *g = (group_comm){.base = table, .comm = comm, .mpi = m};
  g->base.group = group;
  g->base.rank = m->base.rank;
  g->base.ranks = m->base.ranks;
  *out = &g->base;
  return CEL_E_OK;
}

/* ---- handles for C libraries -----------------------------------------------
 */

void cel_comm_no_info(void *out) {
  MPI_Info info = MPI_INFO_NULL;
  memcpy(out, &info, sizeof info);
}

/* Whatever MPI this is built with, they are one or the other. */
_Static_assert(sizeof(MPI_Comm) == sizeof(MPI_Info) &&
                   (sizeof(MPI_Comm) == sizeof(void *) ||
                    sizeof(MPI_Comm) == sizeof(int)),
               "handles of MPI");

bool cel_comm_handles_are_pointers(void) {
  return sizeof(MPI_Comm) == sizeof(void *);
}
