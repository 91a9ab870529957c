#include "comm/mpi/mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/launch.h"
#include "tuning.h"

enum {
  CHECK_EVERY = 256 /* polls; in debug builds */
};

/* --- failures ---------------------------------------------------------- */

void cel__mpi_text(int code, char *text) {
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  text[length] = '\0';
}

void cel__mpi_fail(cel__mpi *m) {
  if (m->failed) return;
  m->failed = true;
  m->error = *cel_error_last();
}

bool cel__mpi_bad(cel__mpi *m, int code, const char *doing, int64_t peer) {
  if (code == MPI_SUCCESS) return false;
  char text[MPI_MAX_ERROR_STRING + 1], who[32] = "";
  cel__mpi_text(code, text);
  if (peer >= 0) snprintf(who, sizeof who, " rank %lld", (long long)peer);
  cel_fail(CEL_E_COMM, "MPI failed while %s%s: %s", doing, who, text);
  cel__mpi_fail(m);
  return true;
}

bool cel__mpi_breaks(cel__mpi *m, int code, const char *doing, int64_t peer) {
  if (!cel__mpi_bad(m, code, doing, peer)) return false;
  m->base.broken = &m->error;
  return true;
}

/* --- the table of requests --------------------------------------------- */

void cel__mpi_track(cel__mpi *m, MPI_Request request, cel__mpi_role role,
                    void *what) {
  cel_vec_push(&m->request, request);
  cel_vec_push(&m->row, (cel__mpi_row){role, what});
  cel_vec_reserve(&m->index, m->request.n);
  cel_vec_reserve(&m->status, m->request.n);
}

static void ended(cel__mpi *m, cel__mpi_row row, const MPI_Status *status,
                  int code) {
  bool data = row.role == CEL__SEND || row.role == CEL__RECEIVE;
  if (row.what == NULL) return; /* it has been reported as failed */
  cel__mpi_transfer *transfer = data ? row.what : NULL;
  if (row.role == CEL__COLLECTIVE) {
    bool bad = cel__mpi_bad(m, code, "in a collective", -1);
    cel__mpi_joined(m, row.what, !bad);
  } else if (row.role == CEL__GROUP) {
    bool bad = cel__mpi_bad(m, code, "making a communicator", -1);
    cel__mpi_group_made(m, row.what, !bad);
  } else if (data) {
    int64_t peer = transfer->message->peer;
    cel__mpi_bad(m, code,
                 row.role == CEL__SEND ? "sending to" : "receiving from", peer);
    cel__mpi_arrived(m, transfer, code == MPI_SUCCESS ? status : NULL);
  } else if (!cel__mpi_breaks(m, code, "exchanging control messages", -1)) {
    cel__mpi_control_ended(m, row, status);
  }
}

/* Takes the rows that have ended out of the table, which keeps its order. */
static void compact(cel__mpi *m, uint32_t ends) {
  uint32_t kept = (uint32_t)m->index.at[0];
  cel_vec_clear(&m->ended);
  for (uint32_t k = 0; k < ends; ++k) {
    uint32_t i = (uint32_t)m->index.at[k];
    cel_vec_push(&m->ended, m->row.at[i]);
    m->row.at[i].role = CEL__ENDED;
    if (i < kept) kept = i;
  }
  for (uint32_t i = kept; i < m->row.n; ++i) {
    if (m->row.at[i].role == CEL__ENDED) continue;
    m->row.at[kept] = m->row.at[i];
    m->request.at[kept++] = m->request.at[i];
  }
  m->row.n = m->request.n = kept;
}

static void progress(cel__mpi *m) {
  int ends = 0;
  if (m->request.n == 0) return;
  int code = MPI_Testsome((int)m->request.n, m->request.at, &ends, m->index.at,
                          m->status.at);
  bool each = code == MPI_ERR_IN_STATUS;
  if (!each && cel__mpi_breaks(m, code, "waiting for messages", -1)) return;
  if (ends <= 0) return; /* MPI_UNDEFINED is negative */
  compact(m, (uint32_t)ends);
  /* What ends may start more, and so grow the arrays: status is read first. */
  for (uint32_t k = 0; k < (uint32_t)ends; ++k) {
    MPI_Status status = m->status.at[k];
    ended(m, m->ended.at[k], &status, each ? status.MPI_ERROR : MPI_SUCCESS);
  }
}

/* A send that waits for a credit counts, too: the credit wakes nobody. */
static bool busy(cel_transport *t) {
  const cel__mpi *m = (const cel__mpi *)t;
  return m->transfers > 0 || m->words_out > 0 || m->telling || m->awaited > 0 ||
         m->groups.making || m->done_head < m->done.n ||
         m->told_head < m->told.n;
}

static uint32_t poll(cel_transport *t, cel_done *out, uint32_t max) {
  cel__mpi *m = (cel__mpi *)t;
  cel_assert_driver();
#ifdef CEL_DEBUG
  if (m->polls % CHECK_EVERY == 0) cel__mpi_check(m);
#endif
  cel__mpi_make_groups(m);
  if (m->base.broken == NULL) progress(m);
  if (m->failed) cel__mpi_fail_all(m);
  if (++m->polls % CEL_TUNE_MPI_LISTEN_EVERY == 0 || !busy(t))
    cel__mpi_listen(m);
  uint32_t n = m->done.n - m->done_head;
  if (n > max) n = max;
  if (n > 0) memcpy(out, m->done.at + m->done_head, n * sizeof *out);
  m->done_head += n;
  if (m->done_head == m->done.n) m->done_head = m->done.n = 0;
  return n;
}

/* --- the end ----------------------------------------------------------- */

#ifdef OPEN_MPI
/* MPI_Abort without the banner, which would bury our own message. */
extern int ompi_mpi_abort(MPI_Comm comm, int status) __attribute__((weak));
#endif

static void end_all(void *self, int status) {
  const cel__mpi *m = self;
  if (m->heartbeat != NULL) cel_heartbeat_end(m->heartbeat);
  fflush(NULL);
#ifdef OPEN_MPI
  if (ompi_mpi_abort != NULL) ompi_mpi_abort(MPI_COMM_WORLD, status);
#endif
  MPI_Abort(MPI_COMM_WORLD, status);
}

/* Lets what is still under way come to its end, on all ranks: what we sent, and
 * what others sent us before they came here. */
static void quiesce(cel__mpi *m) {
  MPI_Request request = MPI_REQUEST_NULL;
  int over = 0;
  bool waiting = false;
  while (!over && !m->failed) {
    if (!waiting && m->words_out == 0) {
      waiting = true;
      cel__mpi_breaks(m, MPI_Ibarrier(m->control, &request), "ending", -1);
    }
    if (waiting && !m->failed)
      cel__mpi_breaks(m, MPI_Test(&request, &over, MPI_STATUS_IGNORE), "ending",
                      -1);
    progress(m);
    cel__mpi_listen(m);
  }
}

/* After the barrier nothing new can come; the open receives are taken back. */
static void cancel_receives(cel__mpi *m) {
  for (uint32_t i = 0; i < m->row.n; ++i) {
    cel__mpi_role role = m->row.at[i].role;
    if (role != CEL__CREDIT_IN && role != CEL__BALLOT_IN) continue;
    MPI_Cancel(&m->request.at[i]);
    MPI_Wait(&m->request.at[i], MPI_STATUS_IGNORE);
    if (role == CEL__CREDIT_IN) cel_free(m->row.at[i].what);
  }
}

void cel__mpi_release_work(cel__mpi *m) {
  cel__mpi_release_control(m);
  cel__mpi_release_votes(m);
  cel__mpi_release_peers(m);
  cel_vec_release(&m->request);
  cel_vec_release(&m->row);
  cel_vec_release(&m->index);
  cel_vec_release(&m->status);
  cel_vec_release(&m->ended);
  for (uint32_t i = m->done_head; i < m->done.n; ++i)
    cel_free(m->done.at[i].error);
  cel_vec_release(&m->done);
}

static void release(cel__mpi *m) {
  cel__mpi_release_work(m);
  cel__mpi_release_pool(m);
  cel__mpi_release_collective(m);
  cel__mpi_release_groups(&m->groups);
  cel_free(m);
}

/* In a job that has failed MPI_Finalize may wait for a rank that never comes:
 * then all ranks are ended instead. */
static void destroy(cel_transport *t) {
  cel__mpi *m = (cel__mpi *)t;
  if (!m->failed && m->transfers == 0) quiesce(m);
  if (m->failed || m->transfers > 0) end_all(m, 1);
  cancel_receives(m);
  MPI_Comm_free(&m->data);
  for (int i = 0; i < CEL__MPI_COLLECTIVES; ++i)
    MPI_Comm_free(&m->collective[i]);
  MPI_Comm_free(&m->control);
  MPI_Comm_free(&m->host);
  MPI_Comm_free(&m->agreement);
  bool finalize = m->finalize;
  cel_heartbeat *heartbeat = m->heartbeat;
  release(m);
  if (finalize) MPI_Finalize();
  if (heartbeat != NULL) cel_heartbeat_stop(heartbeat);
}

/* --- start ------------------------------------------------------------- */

static const char *thread_name(int level) {
  switch (level) {
  case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
  case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
  case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
  default: return "MPI_THREAD_MULTIPLE";
  }
}

/* The first line of what the library says about itself. */
static void library_name(char *name) {
  int length = 0;
  MPI_Get_library_version(name, &length);
  name[strcspn(name, ",\n")] = '\0';
}

void cel_mpi_describe(char *text, size_t size) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int up = 0, over = 0, level = MPI_THREAD_SINGLE;
  library_name(library);
  MPI_Initialized(&up);
  MPI_Finalized(&over);
  bool running = up && !over;
  if (running) MPI_Query_thread(&level);
  snprintf(text, size, "%s, %s", library,
           running ? thread_name(level) : "not started");
}

/* An extension, which not every library has. One that says no, or nothing, may
 * read such an address as one of the host's and end the process, so it is not
 * tried out. */
bool cel_mpi_takes_gpus(char *why, size_t size) {
  static const char name[] = "MPIX_Query_cuda_support";
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int (*query)(void);
  void *symbol = dlsym(RTLD_DEFAULT, name);
  memcpy(&query, &symbol, sizeof query);
  if (symbol != NULL && query() == 1) return true;
  library_name(library);
  snprintf(why, size, "%.60s %s %s", library,
           symbol != NULL ? "does not take the memory of GPUs, says its"
                          : "does not say whether it takes GPUs' memory: no",
           name);
  return false;
}

/* Half of the time that Open MPI takes to start goes into a search for networks
 * that ranks of one host do not use. Whoever has chosen for Open MPI, or for
 * all programs of this user, is not contradicted. */
static void spare_search(void) {
  cel_launch launch;
  if (!cel_launch_find(&launch) || !launch.one_host) return;
  if (getenv("OMPI_MCA_mtl") != NULL) return;
  char path[4096];
  const char *home = getenv("HOME");
  snprintf(path, sizeof path, "%s/.openmpi/mca-params.conf",
           home != NULL ? home : "");
  if (access(path, F_OK) != 0) setenv("OMPI_MCA_pml", "ob1", 0);
}

cel_status cel__mpi_init(int least, int *level, bool *finalize) {
  int up = 0;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Initialized(&up);
  if (!up) spare_search();
  if (up)
    MPI_Query_thread(level);
  else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level) !=
           MPI_SUCCESS)
    return cel_fail(CEL_E_COMM, "MPI_Init_thread failed");
  *finalize = !up;
  if (*level >= least) return CEL_E_OK;
  library_name(library);
  if (!up) MPI_Finalize();
  return cel_fail(CEL_E_COMM,
                  "celer needs %s or more, but this MPI (%s) gives %s: use one "
                  "that is built with thread support",
                  thread_name(least), library, thread_name(*level));
}

/* Everything else goes without. */
static void forbid_groups(cel__mpi *m, int level) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  if (level >= MPI_THREAD_MULTIPLE) return;
  library_name(library);
  snprintf(m->no_groups, sizeof m->no_groups,
           "a collective task calls MPI in a thread of its own, which needs "
           "MPI_THREAD_MULTIPLE, but this MPI (%.200s) gives %s: use one that "
           "is built with thread support",
           library, thread_name(level));
  m->base.control.no_groups = m->no_groups;
}

/* Open MPI ends the process, with a page of text, when srun started it without
 * PMIx: say it better, before. */
static cel_status check_before(void) {
  cel_launch launch;
  if (!cel_launch_find(&launch) || launch.pmi || launch.ranks == 1)
    return CEL_E_OK;
  return cel_fail(CEL_E_COMM,
                  "srun started %lld tasks, but offers MPI no way to join "
                  "them: start with `srun --mpi=pmix`",
                  (long long)launch.ranks);
}

static cel_status check_after(int ranks) {
  cel_launch launch;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  if (!cel_launch_find(&launch) || launch.ranks <= 1 || ranks > 1)
    return CEL_E_OK;
  library_name(library);
  return cel_fail(CEL_E_COMM,
                  "%s started %lld processes, but each is alone in its MPI: "
                  "celer is built with %s; start it with the mpirun of that "
                  "MPI, or with `srun --mpi=pmix`",
                  launch.by, (long long)launch.ranks, library);
}

static int dup_world(MPI_Comm *out) {
  int code = MPI_Comm_dup(MPI_COMM_WORLD, out);
  if (code != MPI_SUCCESS) return code;
  return MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
}

int cel__mpi_dup_all(cel__mpi *m) {
  int code = dup_world(&m->data);
  for (int i = 0; i < CEL__MPI_COLLECTIVES && code == MPI_SUCCESS; ++i)
    code = dup_world(&m->collective[i]);
  if (code == MPI_SUCCESS) code = dup_world(&m->control);
  if (code == MPI_SUCCESS) code = dup_world(&m->agreement);
  return code;
}

static int find_place(cel__mpi *m) {
  cel_transport *t = &m->base;
  int rank, ranks, local_rank, local_ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  t->rank = rank;
  t->ranks = ranks;
  int code = cel__mpi_meet(m);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank,
                             MPI_INFO_NULL, &m->host);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_rank(m->host, &local_rank);
  MPI_Comm_size(m->host, &local_ranks);
  t->local_rank = local_rank;
  t->local_ranks = local_ranks;
  return MPI_Comm_set_errhandler(m->host, MPI_ERRORS_RETURN);
}

/* All ranks of `comm` give their card to the one above or below at a distance,
 * and get that of the one on the other side. */
static int pass_card(cel__mpi *m, const cel_card *mine, MPI_Comm comm, int by) {
  struct {
    cel_card card;
    int64_t rank;
  } out = {*mine, m->base.rank}, in;
  int rank, ranks;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  int code = MPI_Sendrecv(&out, sizeof out, MPI_BYTE,
                          (rank + by + ranks) % ranks, CEL__TAG_CARD, &in,
                          sizeof in, MPI_BYTE, (rank - by + ranks) % ranks,
                          CEL__TAG_CARD, comm, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS) cel_heartbeat_meet(m->heartbeat, in.rank, &in.card);
  return code;
}

static int open_heartbeat(cel__mpi *m) {
  cel_card card;
  int code = MPI_SUCCESS;
  if (m->base.ranks == 1) return MPI_SUCCESS;
  cel_heartbeat_open(m->base.rank, m->base.ranks,
                     m->base.local_ranks == m->base.ranks, &m->heartbeat,
                     &card);
  for (int by = 1; by < m->base.ranks && code == MPI_SUCCESS; by *= 2) {
    code = pass_card(m, &card, m->control, by);
    if (code == MPI_SUCCESS) code = pass_card(m, &card, m->control, -by);
  }
  for (int by = -1; by <= 1 && code == MPI_SUCCESS; by += 2)
    code = pass_card(m, &card, m->host, by);
  return code;
}

static cel_status watch(void *self, const cel_watch *how) {
  const cel__mpi *m = self;
  return m->heartbeat != NULL ? cel_heartbeat_start(m->heartbeat, how)
                              : CEL_E_OK;
}

static void tell_silent(void *self, char *text, size_t size) {
  const cel__mpi *m = self;
  if (m->heartbeat != NULL) cel_heartbeat_tell(m->heartbeat, text, size);
}

static void look(void *self) {
  const cel__mpi *m = self;
  if (m->heartbeat != NULL) cel_heartbeat_look(m->heartbeat);
}

static void fill_tables(cel__mpi *m) {
  m->base.messages = (cel_message_table){
      .self = m, .send = cel__mpi_send, .receive = cel__mpi_receive};
  m->base.collectives =
      (cel_collective_table){.self = m, .exchange = cel__mpi_exchange};
  m->base.control =
      (cel_control_table){.self = m,
                          .agree = cel__mpi_agree,
                          .agreed = cel__mpi_agreed,
                          .tell = cel__mpi_tell,
                          .told = cel__mpi_told,
                          .broadcast = cel__mpi_broadcast,
                          .gather = cel__mpi_gather,
                          .all_reduce_max = cel__mpi_all_reduce_max,
                          .attend = cel__mpi_attend,
                          .declare_group = cel__mpi_declare_group,
                          .join = cel__mpi_join,
                          .watch = watch,
                          .tell_silent = tell_silent,
                          .renew = cel__mpi_renew,
                          .look = look,
                          .abort = end_all};
}

/* The tag bound of MPI may be as low as 32767. A tag is a message's place in
 * its window, its line, and which length it has, and one more: 0 is
 * CEL__TAG_STOP. */
static void divide_tags(cel__mpi *m) {
  int *greatest = NULL, there = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&greatest, &there);
  uint32_t tags = there ? (uint32_t)*greatest : CEL__MPI_TAGS;
  if (tags > CEL__MPI_TAGS) tags = CEL__MPI_TAGS;
  uint32_t window = m->config.window;
  while (window > 2 && window * CEL__MPI_LINES > tags) window /= 2;
  m->config.window = window;
  m->tag_lengths = (int)(tags / window / CEL__MPI_LINES);
}

static cel_status open_mpi(const cel_mpi_config *config, int level,
                           bool finalize, cel_transport **out) {
  cel__mpi *m = cel_alloc_zero(sizeof *m);
  m->base = (cel_transport){
      .name = "mpi", .poll = poll, .busy = busy, .destroy = destroy};
  fill_tables(m);
  m->config = *config;
  m->finalize = finalize;
  forbid_groups(m, level);
  cel__mpi_init_groups(&m->groups);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  divide_tags(m);
  m->flow[CEL__SEND].most = config->sends;
  m->flow[CEL__RECEIVE].most = config->receives;
  int code = find_place(m);
  if (code == MPI_SUCCESS) code = cel__mpi_dup_all(m);
  if (code == MPI_SUCCESS) code = open_heartbeat(m);
  if (cel__mpi_breaks(m, code, "making communicators", -1)) {
    cel_free(m); /* communicators die with the job */
    return cel_error_last()->code;
  }
  *out = &m->base;
  return CEL_E_OK;
}

cel_status cel_transport_mpi_with(const cel_mpi_config *config,
                                  cel_transport **out) {
  bool finalize = false;
  int over = 0, ranks = 0, level = MPI_THREAD_SINGLE;
  MPI_Finalized(&over);
  if (over) return cel_fail(CEL_E_COMM, "MPI has been finalized already");
  CEL_TRY(check_before());
  CEL_TRY(cel__mpi_init(MPI_THREAD_SERIALIZED, &level, &finalize));
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cel_status status = check_after(ranks);
  if (status != CEL_E_OK && finalize) MPI_Finalize();
  return status == CEL_E_OK ? open_mpi(config, level, finalize, out) : status;
}

cel_status cel_transport_mpi(cel_transport **out) {
  cel_mpi_config config = {CEL_TUNE_MPI_WINDOW,
                           CEL_TUNE_MPI_REQUESTS,
                           CEL_TUNE_MPI_REQUESTS,
                           CEL_TUNE_MPI_SMALL_BYTES,
                           CEL_TUNE_MPI_EAGER_BYTES,
                           CEL_TUNE_MPI_EAGER_BYTES,
                           false};
  return cel_transport_mpi_with(&config, out);
}
