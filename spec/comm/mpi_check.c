/* mpi_check.c -- the MPI transport between real processes.
 *
 *   mpirun -n 4 mpi_check exchange --seed 7 --messages 500 --window 4 ...
 *
 * `exchange`: every pair of ranks exchanges messages of random sizes and shapes
 * (exchange.h). Texts and agreements go along.
 * `share`: all ranks exchange together what is of random sizes and shapes, too
 * (share.h).
 * `renew`: messages, texts and votes are left under way, and forgotten.
 *
 * The other commands end badly on purpose; the spec looks how.
 * The last line of a good run is `N passed, 0 failed`.
 */
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/random.h"
#include "comm/exchange.h"
#include "comm/launch.h"
#include "comm/mpi/mpi.h"
#include "comm/report.h"
#include "comm/share.h"
#include "comm/transport.h"

typedef struct settings {
  uint64_t seed;
  int64_t messages, texts, votes, large;
  cel_mpi_config bounds;
} settings;

/* --- the list ---------------------------------------------------------- */

static void plan_shape(exchange_planned *p, cel_random *r, bool large) {
  int64_t top = large ? 700 : cel_random_chance(r, 20) ? 60 : 8;
  p->pieces = (uint32_t)cel_random_int(r, cel_random_chance(r, 5) ? 0 : 1,
                                       cel_random_chance(r, 50) ? 1 : 5);
  for (uint32_t i = 0; i < p->pieces; ++i) {
    p->count[i][0] = (uint64_t)cel_random_int(r, 1, large ? 20 : 4);
    p->count[i][1] = (uint64_t)cel_random_int(r, 1, top);
    p->run[i] = (uint64_t)cel_random_int(r, 1, top);
    p->bytes += p->count[i][0] * p->count[i][1] * p->run[i];
  }
}

static exchange_planned *make_plan(const settings *set, int64_t ranks,
                                   int64_t *n) {
  cel_random r = {set->seed};
  *n = set->messages * ranks;
  exchange_planned *plan = cel_alloc_zero((size_t)*n * sizeof *plan);
  for (int64_t i = 0; i < *n; ++i) {
    exchange_planned *p = &plan[i];
    p->from = cel_random_int(&r, 0, ranks - 1);
    p->to = cel_random_int(&r, 0, ranks - 1);
    p->line = 0;
    if (cel_random_chance(&r, 30)) p->line = (uint8_t)cel_random_int(&r, 1, 3);
    p->salt = cel_random_next(&r);
    plan_shape(p, &r, cel_random_chance(&r, (int)set->large));
  }
  exchange_number(plan, *n, ranks);
  return plan;
}

/* --- texts and votes --------------------------------------------------- */

typedef struct extras {
  int64_t told, to_be_told; /* texts taken in; how many will come */
  int64_t *heard;           /* per peer: the next number expected */
  int64_t vote, voted;
  uint64_t faults;
} extras;

static uint32_t text_size(const settings *set, int64_t from, int64_t i) {
  uint64_t h = cel_hash(&i, sizeof i, set->seed + (uint64_t)from);
  return h % 10 == 0 ? (uint32_t)(h >> 8) % 100000 : (uint32_t)(h >> 8) % 200;
}

static void tell_one(cel_transport *t, const settings *set, int64_t i) {
  int64_t to = (t->rank + i) % t->ranks;
  uint32_t size = text_size(set, t->rank, i);
  char *text = cel_alloc(size + 1);
  memset(text, (int)(i & 127), size);
  t->control.tell(t->control.self, to, (int32_t)i, text, size);
  cel_free(text);
}

/* Texts of one peer come in order and whole. */
static void hear(cel_transport *t, const settings *set, extras *x) {
  for (cel_told *told; (told = t->control.told(t->control.self)) != NULL;
       cel_free(told)) {
    int64_t i = told->kind;
    ++x->told;
    x->faults += i <= x->heard[told->peer] ||
                 told->size != text_size(set, told->peer, i) ||
                 (told->peer + i) % t->ranks != t->rank;
    x->heard[told->peer] = i;
    for (uint32_t k = 0; k < told->size; ++k)
      x->faults += told->data[k] != (char)(i & 127);
  }
}

/* Every fifth vote one rank disagrees, in hash or in count. */
static cel_agreement vote_of(const cel_transport *t, int64_t i) {
  bool odd = i % 5 == 4 && t->rank == i % t->ranks && t->ranks > 1;
  cel_agreement a = {.index = (uint64_t)i,
                     .hash = 0x8000000000000000u + (uint64_t)i * 977,
                     .count = (uint64_t)i * 3,
                     .awaited = i % 3 == 0};
  if (odd && i % 2 == 0) a.hash ^= (uint64_t)1 << (i % 64);
  if (odd && i % 2 == 1) a.count += 1;
  return a;
}

static void vote(cel_transport *t, const settings *set, extras *x,
                 cel_random *r) {
  uint64_t index = 0;
  if (x->vote < set->votes && x->vote - x->voted < 4 &&
      cel_random_chance(r, 30)) {
    cel_agreement mine = vote_of(t, x->vote++);
    t->control.agree(t->control.self, &mine);
  }
  cel_agreed how = t->control.agreed(t->control.self, &index);
  if (how == CEL_AGREED_PENDING) return;
  bool same = x->voted % 5 != 4 || t->ranks == 1;
  x->faults += index != (uint64_t)x->voted ||
               how != (same ? CEL_AGREED_SAME : CEL_AGREED_DIFFERENT);
  ++x->voted;
}

static int64_t texts_for(const cel_transport *t, const settings *set) {
  int64_t sum = 0;
  for (int64_t from = 0; from < t->ranks; ++from)
    for (int64_t i = 1; i <= set->texts; ++i)
      sum += (from + i) % t->ranks == t->rank;
  return sum;
}

/* --- exchange ---------------------------------------------------------- */

/* What goes on beside the messages. */
typedef struct talk {
  cel_transport *t;
  const settings *set;
  cel_random *r;
  extras *extras;
  int64_t texts;
} talk;

static bool talk_on(void *context, uint64_t *did) {
  talk *k = context;
  extras *x = k->extras;
  int64_t before = x->told + x->voted;
  if (k->texts < k->set->texts && cel_random_chance(k->r, 20))
    tell_one(k->t, k->set, ++k->texts);
  vote(k->t, k->set, x, k->r);
  hear(k->t, k->set, x);
  *did += (uint64_t)(x->told + x->voted - before);
  return x->told < x->to_be_told || x->voted < k->set->votes ||
         k->texts < k->set->texts;
}

static int exchange(const settings *set) {
  cel_transport *t;
  if (cel_transport_mpi_with(&set->bounds, &t) != CEL_E_OK) {
    fprintf(stderr, "mpi_check: %s\n", cel_error_last()->text);
    return 1;
  }
  int64_t messages;
  cel_random r = {set->seed + (uint64_t)t->rank * 7919};
  exchange_planned *plan = make_plan(set, t->ranks, &messages);
  exchange_ends ends;
  exchange_make_ends(&ends, plan, messages, t->rank, &r, 60, NULL);
  extras x = {.to_be_told = texts_for(t, set)};
  x.heard = cel_alloc_zero((size_t)t->ranks * sizeof *x.heard);
  talk beside = {t, set, &r, &x, 0};
  exchange_run(t, &ends, &r, talk_on, &beside);
  if (ends.faults + x.faults > 0)
    exchange_give_up(t, "wrong bytes, texts or votes");
  exchange_free_ends(&ends);
  cel_free(plan);
  cel_free(x.heard);
  if (t->rank == 0)
    printf("%lld messages between %lld ranks\n1 passed, 0 failed\n",
           (long long)messages, (long long)t->ranks);
  t->destroy(t);
  return 0;
}

/* --- other commands ---------------------------------------------------- */

static cel_transport *join(void) {
  cel_transport *t;
  if (cel_transport_mpi(&t) == CEL_E_OK) return t;
  if (cel_launch_rank() == 0)
    fprintf(stderr, "mpi_check: %s\n", cel_error_last()->text);
  exit(1);
}

/* Prints where it is: rank, ranks, place on the host. */
static int where(void) {
  cel_transport *t = join();
  printf("rank %lld of %lld, %d of %d here\n", (long long)t->rank,
         (long long)t->ranks, t->local_rank, t->local_ranks);
  char text[256];
  cel_mpi_describe(text, sizeof text);
  if (t->rank == 0) puts(text);
  t->destroy(t);
  return 0;
}

/* Rank 0's bytes on all, in three sizes. */
static int spread(void) {
  cel_transport *t = join();
  for (uint64_t size = 0; size <= 3000000; size = size * 1000 + 3) {
    uint64_t bytes = t->rank == 0 ? size : 1, faults = 0;
    void *data = cel_alloc(bytes + 1);
    memset(data, t->rank == 0 ? 7 : 1, bytes);
    if (t->control.broadcast(t->control.self, &data, &bytes) != CEL_E_OK)
      exchange_give_up(t, cel_error_last()->text);
    faults += bytes != size;
    for (uint64_t i = 0; i < bytes; ++i) faults += ((char *)data)[i] != 7;
    if (faults > 0) exchange_give_up(t, "broadcast garbled the bytes");
    cel_free(data);
  }
  if (t->rank == 0) puts("1 passed, 0 failed");
  t->destroy(t);
  return 0;
}

static int share(const settings *set) {
  cel_transport *t = join();
  uint64_t wrong = share_all(t, set->seed, set->messages);
  printf("%d passed, %" PRIu64 " failed\n", wrong == 0, wrong);
  t->destroy(t);
  return wrong > 0;
}

static int clocks(void) {
  cel_transport *t = join();
  exchange_compare_clocks(t);
  if (t->rank == 0) puts("1 passed, 0 failed");
  t->destroy(t);
  return 0;
}

/* Rank 1 fails before it comes to where the others wait for it. */
static int absent(const char *where) {
  cel_transport *t = join();
  uint64_t size = 4 << 20; /* more than leaves before anybody takes it */
  void *data = cel_alloc_zero(size);
  int64_t most = 1, all[4];
  if (t->rank == 1) exchange_fail_alone(t);
  if (strcmp(where, "broadcast") == 0)
    t->control.broadcast(t->control.self, &data, &size);
  if (strcmp(where, "gather") == 0)
    t->control.gather(t->control.self, &most, sizeof most, all);
  if (strcmp(where, "most") == 0)
    t->control.all_reduce_max(t->control.self, &most);
  if (strcmp(where, "clocks") == 0) exchange_compare_clocks(t);
  if (t->rank == 0) exchange_give_up(t, "rank 1 is not missed");
  for (;;) exchange_nap();
}

static bool probes_fail;

/* Before MPI's own, which is reached by its other name. */
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag,
               MPI_Status *status) {
  if (probes_fail) return MPI_ERR_OTHER;
  return PMPI_Iprobe(source, tag, comm, flag, status);
}

/* MPI breaks while rank 0 waits for rank 1, which comes later: what is still
 * written then lies in memory that is kept for it. */
static int outlives(void) {
  cel_transport *t = join();
  cel__mpi *m = (cel__mpi *)t;
  int64_t most = t->rank == 0 ? 3 : 7;
  probes_fail = t->rank == 0;
  if (t->rank == 0 &&
      t->control.all_reduce_max(t->control.self, &most) == CEL_E_OK)
    exchange_give_up(t, "MPI does not break");
  MPI_Barrier(MPI_COMM_WORLD);
  if (t->rank > 0) t->control.all_reduce_max(t->control.self, &most);
  if (t->rank > 0)
    for (;;) exchange_nap();
  if (m->row.n != 1) exchange_give_up(t, "nobody keeps the request");
  const cel__mpi_call *call = m->row.at[0].what;
  MPI_Wait(&m->request.at[0], MPI_STATUS_IGNORE);
  memcpy(&most, call->bytes, sizeof most);
  printf("%s; %lld\n", t->broken->text, (long long)most);
  t->control.abort(t->control.self, 4);
  return 1;
}

/* Waits for a message that never comes; rank 1 dies by `how`. */
static int die(const char *how) {
  cel_transport *t = join();
  char byte;
  cel_strided piece = {&byte, {1, 1}, {1, 1}, 1};
  cel_posted wanted = {.ticket = 1,
                       .peer = (t->rank + 1) % t->ranks,
                       .bytes = 1,
                       .pieces = 1,
                       .piece = &piece};
  cel_done done;
  t->messages.receive(t->messages.self, &wanted);
  double since = exchange_now();
  while (t->poll(t, &done, 1) == 0) {
    if (t->rank == 1 && exchange_now() - since > 0.3) {
      if (how[0] == 'k') raise(SIGKILL);
      if (how[0] == 'e') exit(3);
      t->control.abort(t->control.self, 7);
    }
    if (exchange_now() - since > 120)
      exchange_give_up(t, "still here after 120 s");
    exchange_nap();
  }
  return 1;
}

/* Rank 0 sends 100 small messages while rank 1 expects none: half a window may
 * leave, whatever MPI would swallow, and the rest keeps rank 0 awake. Then rank
 * 1 takes them all. */
static int flood(const settings *set) {
  enum { N = 100 };
  cel_transport *t;
  if (cel_transport_mpi_with(&set->bounds, &t) != CEL_E_OK) return 1;
  char byte[N] = {0};
  cel_strided piece[N];
  cel_posted message[N];
  cel_done done;
  uint32_t early = 0, over = 0;
  for (uint64_t i = 0; i < N; ++i) {
    piece[i] = (cel_strided){&byte[i], {1, 1}, {1, 1}, 1};
    message[i] = (cel_posted){.ticket = i,
                              .peer = 1 - t->rank,
                              .sequence = i,
                              .bytes = 1,
                              .pieces = 1,
                              .piece = &piece[i]};
    if (t->rank == 0) t->messages.send(t->messages.self, &message[i]);
  }
  for (double since = exchange_now(); exchange_now() - since < 0.3;
       exchange_nap())
    early += t->poll(t, &done, 1);
  bool awake = t->busy(t);
  for (uint64_t i = 0; t->rank == 1 && i < N; ++i)
    t->messages.receive(t->messages.self, &message[i]);
  for (over = early; over < N; exchange_nap()) over += t->poll(t, &done, 1);
  for (double since = exchange_now(); t->busy(t); t->poll(t, &done, 1))
    if (exchange_now() - since > 120) exchange_give_up(t, "busy with nothing");
  if (t->rank == 0)
    printf("%u left early, %s\n", early, awake ? "awake" : "asleep");
  t->destroy(t);
  return 0;
}

/* A text and an agreement of two ranks; gives up when there is none. */
static void keep_in_touch(cel_transport *t) {
  cel_agreement mine = {.hash = 7};
  cel_done done;
  cel_told *told = NULL;
  cel_agreed agreed = CEL_AGREED_PENDING;
  uint64_t index;
  t->control.tell(t->control.self, 1 - t->rank, 1, "well", 4);
  t->control.agree(t->control.self, &mine);
  for (double since = exchange_now();
       told == NULL || agreed == CEL_AGREED_PENDING;) {
    if (exchange_now() - since > 120)
      exchange_give_up(t, "no text, or no agreement");
    if (t->poll(t, &done, 1) > 0) exchange_give_up(t, "a ticket too many");
    if (told == NULL) told = t->control.told(t->control.self);
    if (agreed == CEL_AGREED_PENDING)
      agreed = t->control.agreed(t->control.self, &index);
    exchange_nap();
  }
  cel_free(told);
}

/* A receiver that expects fewer, or more, bytes than are sent. */
static int mismatch(int64_t wanted) {
  cel_transport *t = join();
  char bytes[64] = {0};
  uint64_t size = t->rank == 0 ? 10 : (uint64_t)wanted;
  cel_strided piece = {bytes, {1, 1}, {size, size}, size};
  cel_posted message = {.ticket = 1,
                        .peer = 1 - t->rank,
                        .bytes = size,
                        .pieces = 1,
                        .piece = &piece};
  cel_done done;
  if (t->rank == 0)
    t->messages.send(t->messages.self, &message);
  else
    t->messages.receive(t->messages.self, &message);
  while (t->poll(t, &done, 1) == 0) exchange_nap();
  keep_in_touch(t);
  if (t->rank == 0)
    for (;;) t->poll(t, &done, 1), exchange_nap();
  printf("%s\n", done.error != NULL ? done.error->text : "no error");
  fflush(stdout);
  t->control.abort(t->control.self, 4);
  return 1;
}

/* --- beginning anew ---------------------------------------------------- */

enum { RENEWALS = 120, WARM = 20, OF_A_PEER = 6, LONGEST = 300000 };

/* A message of the `turn`, and the bytes that it has. */
typedef struct lost_message {
  cel_strided piece;
  cel_posted posted;
} lost_message;

static void lay_message(lost_message *message, char *bytes, int64_t peer,
                        uint64_t sequence, uint64_t size) {
  message->piece = (cel_strided){bytes, {1, 1}, {size, size}, size};
  message->posted = (cel_posted){.ticket = 1 + sequence,
                                 .peer = peer,
                                 .sequence = sequence,
                                 .bytes = size,
                                 .pieces = 1,
                                 .piece = &message->piece};
}

/* One that is strided is packed. */
static void halve_runs(lost_message *message) {
  cel_strided *piece = &message->piece;
  uint64_t run = piece->run / 2;
  *piece = (cel_strided){piece->base, {1, 2}, {2 * run, run + 1}, run};
  message->posted.bytes = 2 * run;
}

/* Sends the next rank messages of which it receives some, awaits some from the
 * one before that it never sends; and texts and votes that most never hear. */
static void leave_under_way(cel_transport *t, int turn, lost_message *message,
                            char *bytes) {
  static const uint64_t sizes[OF_A_PEER] = {8, 60000, 4, 200000, 1000, LONGEST};
  int64_t next = (t->rank + 1) % t->ranks,
          before = (t->rank + t->ranks - 1) % t->ranks;
  cel_agreement mine = {.hash = 7, .awaited = true};
  cel_done done[4];
  for (int i = 0; i < OF_A_PEER; ++i) {
    lost_message *out = message++, *in = message++;
    lay_message(out, bytes, next, (uint64_t)i, sizes[i]);
    lay_message(in, bytes + LONGEST + 1, before, (uint64_t)i, sizes[i]);
    if (i % 2 == 0) halve_runs(out), halve_runs(in);
    if ((turn + i + t->rank) % 5 > 0)
      t->messages.send(t->messages.self, &out->posted);
    if ((turn + i * t->rank) % 3 > 0)
      t->messages.receive(t->messages.self, &in->posted);
  }
  if (t->rank == turn % t->ranks) t->control.agree(t->control.self, &mine);
  t->control.tell(t->control.self, next, 1, "lost", 5);
  for (int i = 0; i < turn % 7 * 3; ++i) {
    uint32_t n = t->poll(t, done, 4);
    for (uint32_t k = 0; k < n; ++k) cel_free(done[k].error);
  }
}

/* What is said from here on is heard, and nothing else. */
static void exchange_after(cel_transport *t, int turn, char *bytes) {
  lost_message out, in;
  int64_t next = (t->rank + 1) % t->ranks,
          before = (t->rank + t->ranks - 1) % t->ranks;
  uint64_t size = turn % 2 == 0 ? 8 : 200000;
  cel_agreement mine = {.hash = (uint64_t)turn, .awaited = true};
  cel_done done;
  memset(bytes, (int)(turn + t->rank) & 127, size);
  lay_message(&out, bytes, next, 0, size);
  lay_message(&in, bytes + LONGEST + 1, before, 0, size);
  t->messages.send(t->messages.self, &out.posted);
  t->messages.receive(t->messages.self, &in.posted);
  t->control.agree(t->control.self, &mine);
  t->control.tell(t->control.self, next, turn, "heard", 6);
  uint32_t over = 0;
  cel_told *told = NULL;
  cel_agreed agreed = CEL_AGREED_PENDING;
  for (double since = exchange_now();
       over < 2 || told == NULL || agreed == CEL_AGREED_PENDING;) {
    uint64_t index;
    if (exchange_now() - since > 60) exchange_give_up(t, "nothing comes");
    over += t->poll(t, &done, 1);
    if (told == NULL) told = t->control.told(t->control.self);
    if (agreed == CEL_AGREED_PENDING)
      agreed = t->control.agreed(t->control.self, &index);
  }
  bool good = agreed == CEL_AGREED_SAME && told->kind == turn &&
              memcmp(told->data, "heard", 6) == 0;
  for (uint64_t i = 0; i < size; ++i)
    good &= bytes[LONGEST + 1 + i] == (char)((turn + before) & 127);
  if (!good) exchange_give_up(t, "something else comes");
  cel_free(told);
}

/* How much memory more is in use after many renewals than after some. */
static int renew(const settings *set) {
  cel_transport *t;
  if (cel_transport_mpi_with(&set->bounds, &t) != CEL_E_OK) return 1;
  char *bytes = cel_alloc_zero(2 * (LONGEST + 1));
  lost_message message[2 * OF_A_PEER];
  int64_t before = 0;
  for (int turn = 0; turn < RENEWALS; ++turn) {
    if (turn == WARM) before = (int64_t)mallinfo2().uordblks;
    leave_under_way(t, turn, message, bytes);
    if (t->control.renew(t->control.self) != CEL_E_OK)
      exchange_give_up(t, cel_error_last()->text);
    exchange_after(t, turn, bytes);
    if (t->control.renew(t->control.self) != CEL_E_OK)
      exchange_give_up(t, cel_error_last()->text);
  }
  int64_t more = (int64_t)mallinfo2().uordblks - before;
  printf("%lld bytes more\n",
         (long long)(more > 0 ? more : 0) / (RENEWALS - WARM));
  cel_free(bytes);
  t->destroy(t);
  return 0;
}

/* An agreement cannot start while a message is awaited. */
static int breaks(void) {
  cel_transport *t = join();
  char byte;
  cel_strided piece = {&byte, {1, 1}, {1, 1}, 1};
  cel_posted wanted = {.ticket = 1,
                       .peer = 1 - t->rank,
                       .bytes = 1,
                       .pieces = 1,
                       .piece = &piece};
  cel_agreement mine = {.hash = 7};
  cel_done done = {0};
  ((cel__mpi *)t)->agreement = MPI_COMM_NULL;
  t->messages.receive(t->messages.self, &wanted);
  t->control.agree(t->control.self, &mine);
  if (t->broken == NULL || t->poll(t, &done, 1) == 0 || done.error == NULL)
    exchange_give_up(t, "nobody noticed");
  t->control.tell(t->control.self, 1 - t->rank, 1, "well", 4);
  if (t->rank > 0)
    for (;;) exchange_nap();
  printf("%s\n", t->broken->text);
  t->control.abort(t->control.self, 4);
  return 1;
}

static void print_error(const char *text) {
  fprintf(stderr, "%s\n", text);
}

static void print_slowly(const char *text) {
  print_error(text);
  for (double since = exchange_now(); exchange_now() - since < 3;)
    exchange_nap();
}

/* A failure, as the ranks of a program may have it: "all" alike, rank "1"
 * alone while rank 0 works on (its executor ticks) or is "deaf", or "two" with
 * rank 0 a little late. Rank "2" is where it began, the others are cancelled.
 * "several" have it at once, and whichever prints takes long over it. "heard"
 * is like "cancelled" of rank 1, whose question rank 0's executor has heard.
 */
static int report(const char *how) {
  cel_transport *t = join();
  cel_error error = {.code = CEL_E_TASK, .line = 12, .file = "sim.lua"};
  snprintf(error.text, sizeof error.text, "it went wrong");
  bool all = strcmp(how, "all") == 0, late = strcmp(how, "late") == 0;
  bool second = strcmp(how, "cancelled") == 0, deaf = strcmp(how, "deaf") == 0;
  double since = exchange_now();
  if (second && t->rank != 2) error.code = CEL_E_CANCELLED;
  bool several = strcmp(how, "several") == 0;
  if (all || second || ((late || several) && t->rank > 0) || t->rank == 1)
    cel_report_error(t, &error, several ? print_slowly : print_error);
  cel_report asked = {0};
  bool heard = strcmp(how, "heard") == 0;
  if (heard && t->rank > 1) error.code = CEL_E_CANCELLED;
  if (heard && t->rank > 1) cel_report_error(t, &error, print_error);
  while (!(heard && asked.asked) &&
         exchange_now() - since < (late && t->rank == 0 ? 0.5 : 120)) {
    cel_done done;
    cel_told *told;
    exchange_nap();
    if (deaf) continue;
    t->poll(t, &done, 1);
    while ((told = t->control.told(t->control.self)) != NULL) {
      cel_report_told(&asked, t, told);
      cel_free(told);
    }
    cel_report_tick(&asked, t);
  }
  if (heard) error.code = CEL_E_CANCELLED;
  cel_report_error(t, &error, print_error);
  return 1;
}

static settings read_settings(int argc, char **argv) {
  settings set = {1, 300, 20, 20, 3, {8, 3, 3, 4096, 65536, 65536, false}};
  const struct {
    const char *name;
    void *at;
    int size;
  } known[] = {
      {"--seed", &set.seed, 8},
      {"--messages", &set.messages, 8},
      {"--texts", &set.texts, 8},
      {"--votes", &set.votes, 8},
      {"--large", &set.large, 8},
      {"--window", &set.bounds.window, 4},
      {"--sends", &set.bounds.sends, 4},
      {"--receives", &set.bounds.receives, 4},
      {"--small", &set.bounds.small_bytes, 8},
      {"--eager", &set.bounds.announced_bytes, 8},
      {"--part", &set.bounds.part_bytes, 8},
      {"--apart", &set.bounds.apart, 1},
  };
  for (int i = 2; i + 1 < argc; i += 2)
    for (size_t k = 0; k < sizeof known / sizeof known[0]; ++k) {
      if (strcmp(argv[i], known[k].name) != 0) continue;
      uint64_t value = strtoull(argv[i + 1], NULL, 10);
      memcpy(known[k].at, &value, (size_t)known[k].size);
    }
  return set;
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  settings set = read_settings(argc, argv);
  if (strcmp(command, "exchange") == 0) return exchange(&set);
  if (strcmp(command, "share") == 0) return share(&set);
  if (strcmp(command, "where") == 0) return where();
  if (strcmp(command, "spread") == 0) return spread();
  if (strcmp(command, "clocks") == 0) return clocks();
  if (strcmp(command, "flood") == 0) return flood(&set);
  if (strcmp(command, "mismatch") == 0)
    return mismatch(argc > 2 ? atoi(argv[2]) : 9);
  if (strcmp(command, "breaks") == 0) return breaks();
  if (strcmp(command, "renew") == 0) return renew(&set);
  if (strcmp(command, "outlives") == 0) return outlives();
  if (strcmp(command, "absent") == 0) return absent(argc > 2 ? argv[2] : "");
  if (strcmp(command, "report") == 0) return report(argc > 2 ? argv[2] : "all");
  if (strcmp(command, "die") == 0) return die(argc > 2 ? argv[2] : "abort");
  if (strcmp(command, "launched") == 0) {
    puts(cel_transport_launched() ? "launched" : "alone");
    return 0;
  }
  fprintf(stderr,
          "usage: mpi_check "
          "exchange|share|where|spread|clocks|flood|mismatch|renew|breaks|"
          "outlives|absent|die|report|launched ...\n");
  return 2;
}
