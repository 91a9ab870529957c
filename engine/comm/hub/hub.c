#include "comm/hub/hub.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/hub/wires.h"
#include "comm/hub/words.h"
#include "device/clock.h"
#include "device/thread.h"

enum {
  CUT_MS = 500,    /* after HALT, */
  BEHIND_MS = 400, /* and longer where a rank is behind */
  LAST_MS = 2000   /* for what the others have written last */
};

/* What is added to the bell so that the thread looks at the time anew. */
#define WAKE (UINT64_C(1) << 32)

typedef enum frame_kind {
  TEXT,
  LINE,
  HALT,
  STOP,
  CUT,
  FROZEN,
  END,
  WORDS /* that the rank has written */
} frame_kind;

/* In the order of bytes that all hosts of a job share. */
typedef struct frame {
  uint32_t kind, failed;
  uint64_t line, passed, size; /* bytes that follow */
} frame;

typedef enum phase { GOES, HALTED, STOPPING, OVER } phase;

typedef struct text {
  void *data;
  uint64_t size;
} text;

struct cel_hub {
  int64_t rank, ranks;
  void (*cut)(void);
  int *file; /* rank 0: by rank, [0] is the bell; else [0] leads to rank 0 */
  pthread_t thread;
  bool listens;     /* there is the thread */
  cel_words *words; /* null: somebody reads what is written here */
  pthread_mutex_t writing;
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t news;
  bool closing;
  int64_t gone; /* the rank that is not there any more, or -1 */
  uint64_t line;
  /* What main is doing. */
  bool running, halted, stopped, was_cut;
  uint64_t passed, limit;
  CEL_VEC(text) texts; /* that main has not taken, from `taken` on */
  uint32_t taken;
  /* Of rank 0. */
  cel_hub_end *end; /* by rank */
  phase phase;
  int64_t cut_ns;
};

/* ---- files ----------------------------------------------------------------
 */

/* To rank 0, or from there to rank `to`; in one packet, if it is short. */
static bool say(cel_hub *h, int64_t to, const frame *f, const void *data) {
  char *all = cel_alloc(sizeof *f + f->size);
  memcpy(all, f, sizeof *f);
  if (data != NULL) memcpy(all + sizeof *f, data, f->size);
  pthread_mutex_lock(&h->writing);
  bool good = cel__wires_write(h->file[to], all, sizeof *f + f->size);
  pthread_mutex_unlock(&h->writing);
  cel_free(all);
  return good;
}

/* ---- the line here; lock held --------------------------------------------
 */

static void halt_here(cel_hub *h) {
  h->halted = true;
  h->limit = h->passed;
}

static void stop_here(cel_hub *h, uint64_t limit) {
  h->stopped = true;
  h->limit = limit;
  pthread_cond_broadcast(&h->news);
}

static void cut_here(cel_hub *h) {
  h->was_cut = true;
  pthread_cond_broadcast(&h->news);
  if (h->running) h->cut();
}

static void begin_line(cel_hub *h, uint64_t line) {
  h->line = line;
  h->halted = h->stopped = h->was_cut = false;
  h->passed = h->limit = 0;
}

/* ---- rank 0: all ranks; lock held -----------------------------------------
 */

static void say_unended(cel_hub *h, frame_kind kind, uint64_t passed) {
  frame f = {.kind = kind, .line = h->line, .passed = passed};
  for (int64_t k = 1; k < h->ranks; ++k)
    if (!h->end[k].ended) say(h, k, &f, NULL);
}

/* Once each rank has said how far it is: to the farthest, if all can get there.
 */
static void stop_all(cel_hub *h) {
  uint64_t most = 0, least = UINT64_MAX, least_ended = UINT64_MAX;
  for (int64_t k = 0; k < h->ranks; ++k) {
    const cel_hub_end *e = &h->end[k];
    if (!e->ended && !e->frozen) return;
    if (e->passed > most) most = e->passed;
    if (e->passed < least) least = e->passed;
    if (e->ended && e->passed < least_ended) least_ended = e->passed;
  }
  if (least < most && least_ended >= most)
    h->cut_ns += BEHIND_MS * INT64_C(1000000);
  if (least_ended < most) most = 0;
  h->phase = STOPPING;
  say_unended(h, STOP, most);
  stop_here(h, most);
}

static void halt_all(cel_hub *h) {
  if (h->phase != GOES) return;
  h->phase = HALTED;
  h->cut_ns = cel_now_ns() + CUT_MS * INT64_C(1000000);
  say_unended(h, HALT, 0);
  if (!h->end[0].ended) {
    halt_here(h);
    h->end[0].frozen = true;
    h->end[0].passed = h->passed;
  }
  stop_all(h);
}

static void cut_all(cel_hub *h) {
  h->phase = OVER;
  say_unended(h, CUT, 0);
  cut_here(h);
}

static bool all_ended(const cel_hub *h) {
  for (int64_t k = 0; k < h->ranks; ++k)
    if (!h->end[k].ended) return false;
  return true;
}

static void take_end(cel_hub *h, int64_t rank, const frame *f, void *said) {
  cel_hub_end *e = &h->end[rank];
  if (f->line != h->line || e->ended) {
    cel_free(said);
    return;
  }
  if (f->kind == FROZEN)
    e->frozen = true;
  else
    e->ended = true;
  e->passed = f->passed;
  if (f->kind == END) {
    e->said = said;
    e->size = f->size;
  } else {
    cel_free(said);
  }
  if (all_ended(h)) pthread_cond_broadcast(&h->news);
  if (f->kind == END && f->failed != 0) halt_all(h);
  if (h->phase == HALTED) stop_all(h);
}

/* ---- the threads ----------------------------------------------------------
 */

/* What comes from `file`; false at its end. */
static bool hear(int file, frame *f, void **data) {
  if (!cel__wires_read(file, f, sizeof *f)) return false;
  *data = cel_alloc(f->size + 1);
  if (cel__wires_read(file, *data, f->size)) return true;
  cel_free(*data);
  return false;
}

static bool lose(cel_hub *h, int64_t rank) {
  pthread_mutex_lock(&h->lock);
  if (h->gone < 0) h->gone = rank;
  bool closing = h->closing;
  if (!closing) cut_here(h);
  pthread_cond_broadcast(&h->news);
  pthread_mutex_unlock(&h->lock);
  return closing;
}

/* How long rank 0's thread may sleep, in ms; -1: until there are news. */
static int patience(cel_hub *h) {
  if (h->phase != HALTED && h->phase != STOPPING) return -1;
  int64_t left = h->cut_ns - cel_now_ns();
  if (left > 0) return (int)(left / 1000000) + 1;
  cut_all(h);
  return -1;
}

static void hear_rank(cel_hub *h, struct pollfd *poll_of, int64_t rank) {
  frame f;
  void *said;
  if (!hear(h->file[rank], &f, &said)) {
    poll_of->fd = -1;
    lose(h, rank);
    return;
  }
  if (f.kind == WORDS) {
    cel__words_show(said, f.size);
    cel_free(said);
    return;
  }
  pthread_mutex_lock(&h->lock);
  take_end(h, rank, &f, said);
  pthread_mutex_unlock(&h->lock);
}

static bool hear_bell(cel_hub *h) {
  uint64_t rung = 0;
  (void)!read(h->file[0], &rung, sizeof rung);
  pthread_mutex_lock(&h->lock);
  bool closing = h->closing;
  if (!closing && rung % WAKE != 0) halt_all(h);
  pthread_mutex_unlock(&h->lock);
  return !closing;
}

static void hear_ranks(cel_hub *h, struct pollfd *files) {
  for (int64_t k = 1; k < h->ranks; ++k)
    if (files[k].revents != 0) hear_rank(h, &files[k], k);
}

/* What the others have written last; they close, too. */
static void hear_last(cel_hub *h, struct pollfd *files) {
  int64_t till = cel_now_ns() + LAST_MS * INT64_C(1000000);
  files[0].fd = -1;
  for (int64_t left = LAST_MS; left > 0;) {
    int64_t open = 0;
    for (int64_t k = 1; k < h->ranks; ++k) open += files[k].fd >= 0;
    if (open == 0) return;
    if (poll(files, (nfds_t)h->ranks, (int)left) > 0) hear_ranks(h, files);
    left = (till - cel_now_ns()) / 1000000;
  }
}

static void *listen_to_all(void *context) {
  cel_hub *h = context;
  struct pollfd *files = cel_alloc_zero((size_t)h->ranks * sizeof *files);
  for (int64_t k = 0; k < h->ranks; ++k)
    files[k] = (struct pollfd){.fd = h->file[k], .events = POLLIN};
  for (bool on = true; on;) {
    pthread_mutex_lock(&h->lock);
    int ms = patience(h);
    pthread_mutex_unlock(&h->lock);
    if (poll(files, (nfds_t)h->ranks, ms) <= 0) continue;
    if (files[0].revents != 0) on = hear_bell(h);
    hear_ranks(h, files);
  }
  hear_last(h, files);
  cel_free(files);
  return NULL;
}

/* What rank 0 says; lock held. Whether `data` was kept. */
static bool take(cel_hub *h, const frame *f, void *data, bool *freezes) {
  bool here = f->line == h->line;
  switch ((frame_kind)f->kind) {
  case LINE: begin_line(h, f->line); /* fall through */
  case TEXT:
    cel_vec_push(&h->texts, ((text){data, f->size}));
    pthread_cond_broadcast(&h->news);
    return true;
  case HALT:
    *freezes = here;
    if (here) halt_here(h);
    return false;
  case STOP:
    if (here) stop_here(h, f->passed);
    return false;
  case CUT:
    if (here) cut_here(h);
    return false;
  case FROZEN:
  case END:
  case WORDS: return false;
  }
  return false;
}

static void *listen_to_first(void *context) {
  cel_hub *h = context;
  frame f;
  void *data;
  while (hear(h->file[0], &f, &data)) {
    bool freezes = false;
    pthread_mutex_lock(&h->lock);
    bool kept = take(h, &f, data, &freezes);
    frame answer = {.kind = FROZEN, .line = h->line, .passed = h->passed};
    pthread_mutex_unlock(&h->lock);
    if (!kept) cel_free(data);
    if (freezes) say(h, 0, &answer, NULL);
  }
  lose(h, 0);
  return NULL;
}

/* ---- lines ----------------------------------------------------------------
 */

static cel_status fail_gone(int64_t rank) {
  return cel_fail(CEL_E_COMM, "the connection to rank %lld has ended",
                  (long long)rank);
}

static void forget_ends(cel_hub *h) {
  for (int64_t k = 0; k < h->ranks; ++k) {
    cel_free(h->end[k].said);
    h->end[k] = (cel_hub_end){.ended = false};
  }
}

cel_status cel_hub_give(cel_hub *hub, bool line, const void *text_,
                        uint64_t size) {
  cel_hub *h = hub;
  pthread_mutex_lock(&h->lock);
  if (line) {
    uint64_t old;
    (void)!read(h->file[0], &old, sizeof old); /* it was for the last one */
    begin_line(h, h->line + 1);
    forget_ends(h);
    h->phase = GOES;
  }
  frame f = {.kind = line ? LINE : TEXT, .line = h->line, .size = size};
  int64_t gone = 0;
  /* With the lock, so that no HALT of the line comes before it. */
  for (int64_t k = 1; k < h->ranks && gone == 0; ++k)
    if (!say(h, k, &f, text_)) gone = k;
  pthread_mutex_unlock(&h->lock);
  return gone == 0 ? CEL_E_OK : fail_gone(gone);
}

cel_status cel_hub_take(cel_hub *hub, void **text_, uint64_t *size) {
  cel_hub *h = hub;
  pthread_mutex_lock(&h->lock);
  while (h->taken == h->texts.n && h->gone < 0)
    pthread_cond_wait(&h->news, &h->lock);
  bool there = h->taken < h->texts.n;
  if (there) {
    *text_ = h->texts.at[h->taken].data;
    *size = h->texts.at[h->taken++].size;
  }
  if (h->taken == h->texts.n) h->taken = h->texts.n = 0;
  pthread_mutex_unlock(&h->lock);
  return there ? CEL_E_OK : fail_gone(0);
}

void cel_hub_begin(cel_hub *hub) {
  cel_hub *h = hub;
  pthread_mutex_lock(&h->lock);
  h->running = true;
  if (h->was_cut) h->cut();
  pthread_mutex_unlock(&h->lock);
}

void cel_hub_over(cel_hub *hub) {
  pthread_mutex_lock(&hub->lock);
  hub->running = false;
  pthread_mutex_unlock(&hub->lock);
}

bool cel_hub_pass(void *hub) {
  cel_hub *h = hub;
  pthread_mutex_lock(&h->lock);
  bool held;
  while ((held = h->running && h->halted && h->passed >= h->limit) &&
         !h->stopped && !h->was_cut)
    pthread_cond_wait(&h->news, &h->lock);
  bool may = !h->running || (!held && !h->was_cut);
  if (may) ++h->passed;
  pthread_mutex_unlock(&h->lock);
  return may;
}

/* Rank 0's thread, which may sleep for longer than until the line is cut. */
static void wake(const cel_hub *h) {
  uint64_t add = WAKE;
  (void)!write(h->file[0], &add, sizeof add);
}

cel_status cel_hub_tell(cel_hub *hub, bool failed, const void *said,
                        uint64_t size) {
  cel_hub *h = hub;
  frame f = {.kind = END, .failed = failed, .size = size};
  pthread_mutex_lock(&h->lock);
  f.line = h->line;
  f.passed = h->passed;
  if (h->rank == 0) {
    void *own = cel_alloc(size + 1);
    memcpy(own, said, size);
    take_end(h, 0, &f, own);
  }
  pthread_mutex_unlock(&h->lock);
  if (h->rank != 0 && !say(h, 0, &f, said)) return fail_gone(0);
  if (h->rank == 0 && failed) wake(h);
  return CEL_E_OK;
}

cel_status cel_hub_gather(cel_hub *hub, const cel_hub_end **out) {
  cel_hub *h = hub;
  pthread_mutex_lock(&h->lock);
  while (!all_ended(h) && h->gone < 0) pthread_cond_wait(&h->news, &h->lock);
  int64_t gone = h->gone;
  h->phase = OVER;
  pthread_mutex_unlock(&h->lock);
  if (gone >= 0) return fail_gone(gone);
  *out = h->end;
  return CEL_E_OK;
}

int cel_hub_bell(const cel_hub *hub) {
  return hub->file[0];
}

/* ---- life -----------------------------------------------------------------
 */

static void release(cel_hub *h) {
  if (h->end != NULL) forget_ends(h);
  for (int64_t k = 0; k < (h->rank == 0 ? h->ranks : 1); ++k)
    if (h->file[k] >= 0) close(h->file[k]);
  for (uint32_t i = h->taken; i < h->texts.n; ++i)
    cel_free(h->texts.at[i].data);
  cel_vec_release(&h->texts);
  pthread_mutex_destroy(&h->writing);
  pthread_mutex_destroy(&h->lock);
  pthread_cond_destroy(&h->news);
  cel_free(h->end);
  cel_free(h->file);
  cel_free(h);
}

static void pass_words_on(void *context, const void *bytes, uint64_t size) {
  cel_hub *h = context;
  frame f = {.kind = WORDS, .size = size};
  say(h, 0, &f, bytes);
}

static cel_status open_bell(cel_hub *h) {
  h->file[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return h->file[0] >= 0
             ? CEL_E_OK
             : cel_fail(CEL_E_MISSING,
                        "the system refuses a file for Ctrl-C: %s (see ulimit "
                        "-n)",
                        strerror(errno));
}

static cel_status start_listening(cel_hub *h) {
  CEL_TRY(cel_thread_start(&h->thread,
                           h->rank == 0 ? listen_to_all : listen_to_first, h,
                           "the other ranks"));
  h->listens = true;
  return CEL_E_OK;
}

static cel_status start(cel_hub *h, cel_transport *transport) {
  CEL_TRY(cel__wires_connect(transport, h->file));
  if (h->rank == 0)
    CEL_TRY(open_bell(h));
  else
    CEL_TRY(cel__words_open(pass_words_on, h, &h->words));
  return start_listening(h);
}

cel_status cel_hub_open(cel_transport *transport, void (*cut)(void),
                        cel_hub **out) {
  cel_hub *h = cel_alloc_zero(sizeof *h);
  h->rank = transport->rank;
  h->ranks = transport->ranks;
  h->cut = cut;
  h->gone = -1;
  h->phase = OVER;
  pthread_mutex_init(&h->writing, NULL);
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->news, NULL);
  h->file = cel_alloc((size_t)h->ranks * sizeof *h->file);
  for (int64_t k = 0; k < h->ranks; ++k) h->file[k] = -1;
  if (h->rank == 0) h->end = cel_alloc_zero((size_t)h->ranks * sizeof *h->end);
  cel_status status = start(h, transport);
  if (status == CEL_E_OK)
    *out = h;
  else
    cel_hub_close(h);
  return status;
}

void cel_hub_close(cel_hub *hub) {
  cel__words_close(hub->words);
  pthread_mutex_lock(&hub->lock);
  hub->closing = true;
  pthread_mutex_unlock(&hub->lock);
  if (hub->listens && hub->rank == 0) wake(hub);
  if (hub->listens && hub->rank != 0) shutdown(hub->file[0], SHUT_RDWR);
  if (hub->listens) pthread_join(hub->thread, NULL);
  release(hub);
}
