/* MPI for one rank that nobody launched: a C library or MPI-IO asks for it. It
 * takes a good part of a second to start, so it is not started before. */
#include <mpi.h>
#include <pthread.h>
#include <string.h>

#include "comm/communicator.h"
#include "comm/mpi/mpi.h"
#include "device/thread.h"

/* MPI_Finalize is for the thread that called MPI_Init, and lanes come and go:
 * hence one that only waits in between. `lock` guards all. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t news;
  pthread_t thread;
  bool started, settled, ending;
  cel_status status;
  cel_error error; /* unless status is OK */
} alone = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static cel_status start_mpi(bool *finalize) {
  int level;
  CEL_TRY(cel__mpi_init(MPI_THREAD_MULTIPLE, &level, finalize));
  return cel__mpi_status(
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "starting");
}

static void *alone_main(void *unused) {
  (void)unused;
  bool finalize = false;
  cel_status status = start_mpi(&finalize);
  pthread_mutex_lock(&alone.lock);
  alone.status = status;
  if (status != CEL_E_OK) alone.error = *cel_error_last();
  alone.settled = true;
  pthread_cond_broadcast(&alone.news);
  while (!alone.ending) pthread_cond_wait(&alone.news, &alone.lock);
  pthread_mutex_unlock(&alone.lock);
  if (status == CEL_E_OK && finalize) MPI_Finalize();
  return NULL;
}

cel_status cel_mpi_alone(void) {
  pthread_mutex_lock(&alone.lock);
  if (!alone.started &&
      cel_thread_start(&alone.thread, alone_main, NULL, "MPI") != CEL_E_OK) {
    pthread_mutex_unlock(&alone.lock);
    return cel_error_last()->code;
  }
  alone.started = true;
  while (!alone.settled) pthread_cond_wait(&alone.news, &alone.lock);
  cel_status status = alone.status;
  pthread_mutex_unlock(&alone.lock);
  return status == CEL_E_OK ? status : cel_fail_with(&alone.error);
}

void cel_mpi_alone_end(void) {
  pthread_mutex_lock(&alone.lock);
  bool runs = alone.started && !alone.ending;
  if (runs) alone.ending = true;
  pthread_cond_broadcast(&alone.news);
  pthread_mutex_unlock(&alone.lock);
  if (runs) pthread_join(alone.thread, NULL);
}

/* ---- the communicator -----------------------------------------------------
 */

typedef struct lone_comm {
  cel_comm base;
  MPI_Comm comm;
  bool made;
} lone_comm;

static cel_status handle(cel_comm *c, void *out) {
  lone_comm *lone = (lone_comm *)c;
  if (!lone->made) {
    CEL_TRY(cel_mpi_alone());
    CEL_TRY(cel__mpi_comm_of_group(c->group, &lone->comm));
    lone->made = true;
  }
  memcpy(out, &lone->comm, sizeof lone->comm);
  return CEL_E_OK;
}

static void destroy(cel_comm *c) {
  lone_comm *lone = (lone_comm *)c;
  if (lone->made) MPI_Comm_free(&lone->comm);
  cel_free(lone);
}

cel_status cel_comm_alone(uint32_t group, cel_comm **out) {
  lone_comm *lone = cel_alloc_zero(sizeof *lone);
  lone->base = (cel_comm){
      .ranks = 1, .group = group, .handle = handle, .destroy = destroy};
  *out = &lone->base;
  return CEL_E_OK;
}
