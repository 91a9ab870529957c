#define _GNU_SOURCE /* pthread_setname_np */
#include "exec/trace/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/park.h"
#include "device/thread.h"
#include "exec/trace/timeline_files.h"
#include "exec/trace/timeline_text.h"
#include "tuning.h"

enum {
  NAME = 48,
  CACHE_LINE = 64,
  WAKE_EVERY = CEL_TUNE_TIMELINE_RECORDS / 4, /* records of a ring */
  FLUSH_US = 100000, /* what is less is written so often, should we be killed */
};

/* A span and the text that its name points to. */
typedef struct entry {
  cel_span span;
  char name[NAME];
} entry;

typedef struct ring {
  entry *at;
  _Alignas(CACHE_LINE) _Atomic(uint32_t) head; /* by the timeline's thread */
  _Alignas(CACHE_LINE) _Atomic(uint32_t) tail; /* by its owner */
} ring;

enum { MAIN, SCHEDULER, EXECUTOR, RINGS };

struct cel_timeline {
  ring ring[RINGS];
  cel_park news, room; /* the thread's; of who waits for room */
  _Atomic(bool) stop, over, closing;
  bool started;
  pthread_t thread;
  /* The thread's, and before it starts and after it has ended main's: */
  int file;
  char *path; /* of this rank's file */
  int error;  /* errno of a write that failed; what came later is lost */
  cel_timeline_text text;
  /* The executor's: bit by bit the tracks that are taken. */
  CEL_VEC(uint64_t) taken[2];
};

/* ---- adding -------------------------------------------------------------- */

static ring *ring_of(cel_timeline *t, cel_span_kind kind) {
  switch (cel_span_track_of(kind)) {
  case CEL_TRACK_MAIN: return &t->ring[MAIN];
  case CEL_TRACK_SCHEDULER: return &t->ring[SCHEDULER];
  default: return &t->ring[EXECUTOR];
  }
}

/* Its own copy; a character that is cut goes altogether. */
static void take_name(entry *e) {
  if (e->span.name == NULL) return;
  snprintf(e->name, NAME, "%s", e->span.name);
  size_t n = strlen(e->name);
  if (n < NAME - 1) return;
  while (n > 0 && (e->name[n - 1] & 0xc0) == 0x80) --n;
  if (n > 0 && (e->name[n - 1] & 0x80) != 0) --n;
  e->name[n] = '\0';
}

static bool has_room(ring *r, uint32_t tail) {
  uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
  return tail - head < CEL_TUNE_TIMELINE_RECORDS;
}

/* False when nothing is written any more. */
static bool wait_for_room(cel_timeline *t, ring *r, uint32_t tail) {
  for (;;) {
    uint32_t seen = cel_park_prepare(&t->room);
    if (atomic_load_explicit(&t->over, memory_order_acquire)) return false;
    if (has_room(r, tail)) return true;
    cel_park_wake(&t->news);
    cel_park_wait(&t->room, seen, CEL_TUNE_TIMELINE_ROOM_US);
  }
}

void cel_timeline_add(cel_timeline *timeline, const cel_span *span) {
  ring *r = ring_of(timeline, span->kind);
  uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
  if (!has_room(r, tail) && !wait_for_room(timeline, r, tail)) return;
  entry *e = &r->at[tail % CEL_TUNE_TIMELINE_RECORDS];
  e->span = *span;
  take_name(e);
  atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
  if (tail % WAKE_EVERY == 0) cel_park_wake(&timeline->news);
}

int16_t cel_timeline_post(cel_timeline *timeline, bool sending) {
  uint32_t word = 0;
  while (word < timeline->taken[sending].n &&
         timeline->taken[sending].at[word] == UINT64_MAX)
    ++word;
  if (word == timeline->taken[sending].n)
    cel_vec_push(&timeline->taken[sending], 0);
  uint64_t *bits = &timeline->taken[sending].at[word];
  int bit = __builtin_ctzll(~*bits);
  *bits |= (uint64_t)1 << bit;
  return (int16_t)(64 * word + (uint32_t)bit);
}

void cel_timeline_arrive(cel_timeline *timeline, bool sending, int16_t track) {
  timeline->taken[sending].at[track / 64] &= ~((uint64_t)1 << track % 64);
}

/* ---- writing ------------------------------------------------------------- */

static void write_out(cel_timeline *t) {
  for (uint32_t at = 0; at < t->text.out.n && t->error == 0;) {
    ssize_t n = write(t->file, t->text.out.at + at, t->text.out.n - at);
    if (n >= 0) at += (uint32_t)n;
    if (n < 0 && errno != EINTR) t->error = errno;
  }
  cel_vec_clear(&t->text.out);
}

/* What is in the ring now. */
static void drain(cel_timeline *t, ring *r) {
  uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
  uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
  for (; head != tail; ++head) {
    entry *e = &r->at[head % CEL_TUNE_TIMELINE_RECORDS];
    if (e->span.name != NULL) e->span.name = e->name;
    cel_timeline_text_add(&t->text, &e->span);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    if (t->text.out.n >= CEL_TUNE_TIMELINE_WRITE) write_out(t);
  }
}

static void *write_main(void *timeline) {
  cel_timeline *t = timeline;
  pthread_setname_np(pthread_self(), "timeline");
  for (bool stop = false; !stop;) {
    uint32_t seen = cel_park_prepare(&t->news);
    stop = atomic_load(&t->stop);
    for (int i = 0; i < RINGS; ++i) drain(t, &t->ring[i]);
    write_out(t);
    cel_park_wake(&t->room);
    if (!stop) cel_park_wait(&t->news, seen, FLUSH_US);
  }
  return NULL;
}

/* ---- life ---------------------------------------------------------------- */

cel_status cel_timeline_open(const cel_timeline_config *config,
                             cel_timeline **out) {
  char *path = cel_timeline_path(config->path, config->number);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) {
    int error = errno;
    cel_fail(CEL_E_IO, "the timeline cannot be written: %s: %s", path,
             strerror(error));
    cel_free(path);
    return CEL_E_IO;
  }
  cel_timeline *t = cel_alloc_lines(sizeof *t);
  t->file = file;
  t->path = path;
  t->text.rank = config->rank;
  cel_park_init(&t->news);
  cel_park_init(&t->room);
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, sizeof host - 1);
  cel_timeline_text_begin(&t->text, host);
  write_out(t);
  *out = t;
  return CEL_E_OK;
}

cel_status cel_timeline_start(cel_timeline *timeline, int64_t offset,
                              int32_t kernel_lanes) {
  if (timeline->started) return CEL_E_OK;
  timeline->text.offset = offset;
  timeline->text.kernel_lanes = kernel_lanes;
  for (int i = 0; i < RINGS; ++i)
    timeline->ring[i].at = cel_alloc(CEL_TUNE_TIMELINE_RECORDS * sizeof(entry));
  CEL_TRY(cel_thread_start(&timeline->thread, write_main, timeline,
                           "the timeline"));
  timeline->started = true;
  return CEL_E_OK;
}

bool cel_timeline_is_closed(const cel_timeline *timeline) {
  return atomic_load(&timeline->closing);
}

cel_status cel_timeline_close(cel_timeline *timeline) {
  cel_timeline *t = timeline;
  if (atomic_exchange(&t->closing, true)) return CEL_E_OK;
  if (t->started) {
    atomic_store(&t->stop, true);
    cel_park_wake(&t->news);
    pthread_join(t->thread, NULL);
  }
  atomic_store(&t->over, true);
  cel_park_wake(&t->room);
  cel_timeline_text_end(&t->text);
  write_out(t);
  if (close(t->file) != 0 && t->error == 0) t->error = errno;
  t->file = -1;
  if (t->error == 0) return CEL_E_OK;
  return cel_fail(CEL_E_IO, "the timeline ends early: %s: %s", t->path,
                  strerror(t->error));
}

void cel_timeline_destroy(cel_timeline *timeline) {
  if (timeline == NULL) return;
  cel_assert(timeline->file < 0);
  for (int i = 0; i < RINGS; ++i) cel_free(timeline->ring[i].at);
  for (int i = 0; i < 2; ++i) cel_vec_release(&timeline->taken[i]);
  cel_timeline_text_release(&timeline->text);
  cel_free(timeline->path);
  cel_free(timeline);
}
