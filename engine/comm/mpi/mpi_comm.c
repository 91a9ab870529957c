/* Communicators of groups over MPI.
 * Threads: the driver makes them (cel__mpi_make_groups, cel__mpi_group_made). A
 * group's own thread uses its communicator, at the same time as the driver and
 * as other groups: MPI_THREAD_MULTIPLE. */
#include <limits.h>
#include <string.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi.h"

enum { REDUCED_AT_ONCE = 1 << 30 };

typedef struct group_comm {
  cel_comm base;
  MPI_Comm comm;
  cel__mpi *mpi;
  uint32_t group;
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

static cel_status reduce(cel_comm *c, const cel_comm_sum *what,
                         const void *mine, void *out, int64_t root) {
  MPI_Datatype type = type_of(what->type);
  MPI_Op op = op_of(what->op);
  uint64_t size = size_of(what->type);
  MPI_User_function *own = own_of(what);
  bool gets = root == CEL_COMM_ALL || root == c->rank;
  int code = own != NULL ? MPI_Op_create(own, 1, &op) : MPI_SUCCESS;
  for (uint64_t at = 0; at < what->count && code == MPI_SUCCESS;
       at += REDUCED_AT_ONCE) {
    uint64_t left = what->count - at;
    int n = (int)(left < REDUCED_AT_ONCE ? left : REDUCED_AT_ONCE);
    char *to = (char *)out + at * size;
    const void *from = mine != NULL ? (const char *)mine + at * size
                       : gets       ? MPI_IN_PLACE
                                    : to;
    code = root == CEL_COMM_ALL
               ? MPI_Allreduce(from, to, n, type, op, comm_of(c))
               : MPI_Reduce(from, to, n, type, op, (int)root, comm_of(c));
  }
  if (own != NULL && code == MPI_SUCCESS) code = MPI_Op_free(&op);
  return cel__mpi_status(code, "reducing");
}

static cel_status handle(cel_comm *c, void *out) {
  memcpy(out, &((group_comm *)c)->comm, sizeof(MPI_Comm));
  return CEL_E_OK;
}

static void destroy(cel_comm *c) {
  group_comm *g = (group_comm *)c;
  MPI_Comm_free(&g->comm);
  lose_group(g->mpi, g->group);
  cel_free(g);
}

static const cel_comm table = {.barrier = barrier,
                               .broadcast = broadcast,
                               .gather = gather,
                               .reduce = reduce,
                               .handle = handle,
                               .destroy = destroy};

cel_status cel__mpi_join(void *self, uint32_t group, cel_comm **out) {
  MPI_Comm comm;
  cel__mpi *m = self;
  CEL_TRY(await_group(m, group, &comm));
  group_comm *g = cel_alloc_zero(sizeof *g);
  *g = (group_comm){.base = table, .comm = comm, .mpi = m, .group = group};
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
