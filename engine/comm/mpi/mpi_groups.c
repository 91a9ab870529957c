/* mpi_groups.c -- communicators of groups, made one after the other in the
 * order in which the program came to use them, which is the same on all ranks,
 * and without waiting. Open MPI (4.1) finds a context for one communicator of
 * a process at a time: made by the groups' own threads, as
 * MPI_Comm_create_group allows, that of a group whose first task comes late on
 * one rank held up all others.
 *
 * Threads: found by main, made by the transport's driver, awaited by the
 * group's own. */
#include "comm/mpi/mpi.h"

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

/* Null: it has not been found. */
static cel__mpi_group *find(const cel__mpi_groups *groups, uint32_t number) {
  for (uint32_t i = 0; i < groups->all.n; ++i)
    if (groups->all.at[i]->number == number) return groups->all.at[i];
  return NULL;
}

void cel__mpi_lose_group(cel__mpi *m, uint32_t number) {
  pthread_mutex_lock(&m->groups.lock);
  cel__mpi_group *group = find(&m->groups, number);
  if (group != NULL) group->number = 0;
  pthread_mutex_unlock(&m->groups.lock);
}

void cel__mpi_declare_group(void *self, uint32_t number) {
  cel__mpi_groups *groups = &((cel__mpi *)self)->groups;
  pthread_mutex_lock(&groups->lock);
  if (find(groups, number) == NULL) {
    cel__mpi_group *group = cel_alloc_zero(sizeof *group);
    group->number = number;
    cel_vec_push(&groups->all, group);
    atomic_store_explicit(&groups->found, groups->all.n, memory_order_release);
  }
  pthread_mutex_unlock(&groups->lock);
}

/* ---- the driver ---------------------------------------------------------- */

/* It is there; or null: none that is waited for will come. */
static void say(cel__mpi_groups *groups, cel__mpi_group *group) {
  pthread_mutex_lock(&groups->lock);
  if (group != NULL)
    group->made = true;
  else
    groups->failed = true;
  pthread_cond_broadcast(&groups->news);
  pthread_mutex_unlock(&groups->lock);
}

static cel__mpi_group *at(cel__mpi_groups *groups, uint32_t i) {
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
  if (m->failed && !groups->failed) say(groups, NULL);
  if (!m->failed && !groups->making && groups->begun < found)
    begin(m, at(groups, groups->begun++));
}

void cel__mpi_group_made(cel__mpi *m, cel__mpi_group *group, bool good) {
  m->groups.making = false;
  if (good)
    good = !cel__mpi_bad(
        m, MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN),
        "making a communicator", -1);
  say(&m->groups, good ? group : NULL);
}

/* ---- the group's thread ---------------------------------------------------
 */

cel_status cel__mpi_await_group(cel__mpi *m, uint32_t number, MPI_Comm *out) {
  cel__mpi_groups *groups = &m->groups;
  pthread_mutex_lock(&groups->lock);
  cel__mpi_group *group = find(groups, number);
  while (group != NULL && !group->made && !groups->failed)
    pthread_cond_wait(&groups->news, &groups->lock);
  pthread_mutex_unlock(&groups->lock);
  if (group == NULL) return cel__mpi_comm_of_group(number, out);
  if (!group->made)
    return cel_fail(CEL_E_COMM, "no communicator could be made");
  *out = group->comm;
  return CEL_E_OK;
}
