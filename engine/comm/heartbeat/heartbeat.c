#define _GNU_SOURCE /* ppoll */
#include "comm/heartbeat/heartbeat.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm/heartbeat/launcher.h"
#include "comm/report.h"
#include "device/clock.h"
#include "device/thread.h"

/* That the launcher has to end the job, and itself, from when a loss is known:
 * the ranks take 3.5 s of it (beats.c). */
enum { LAUNCHER_MS = 8500 };

/* A datagram, in the order of bytes that all hosts of a job share. */
enum { MAGIC = 0x63656c31, BATCH = 64 };
typedef struct datagram {
  uint32_t magic, kind;
  uint64_t key; /* the receiver's */
  int64_t from, finder, lost;
  uint64_t hears;
} datagram;

typedef struct reach {
  cel_card card;
  uint32_t heard_at; /* the address that it spoke from; 0: it never did */
} reach;

struct cel_heartbeat {
  cel_card card;
  int beats, news, wake;       /* files; news and wake end a sleep */
  reach peer[CEL_BEATS_PEERS]; /* of those of `state` */
  bool running;
  bool warned, ending; /* the thread's */
  atomic_bool hushed;
  atomic_bool stop;
  pthread_t thread;
  cel_watch watch;
  pthread_mutex_t lock; /* of `state` and the peers' heard_at */
  cel_beats state;
};

/* ---- saying ---------------------------------------------------------------
 */

static void send_to(const cel_heartbeat *h, const cel_card *card, bool news,
                    uint32_t address, const datagram *d) {
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons(news ? card->news : card->beats),
                           .sin_addr.s_addr = address};
  /* What cannot be sent is as good as what goes astray. */
  (void)!sendto(news ? h->news : h->beats, d, sizeof *d, MSG_DONTWAIT,
                (struct sockaddr *)&to, sizeof to);
}

/* By all ways that there may be, until one of them has been heard at both
 * ends. */
static void say(const cel_heartbeat *h, int32_t i, const cel_beat *beat) {
  const reach *p = &h->peer[i];
  datagram d = {.magic = MAGIC,
                .kind = (uint32_t)beat->kind,
                .key = p->card.key,
                .from = beat->from,
                .finder = beat->finder,
                .lost = beat->lost,
                .hears = beat->hears};
  bool news = beat->kind == CEL_BEAT_NEWS;
  if (p->card.beats == 0 || h->beats < 0) return;
  if (!news && h->state.peer[i].hears && beat->hears && p->heard_at != 0) {
    send_to(h, &p->card, news, p->heard_at, &d);
    return;
  }
  for (int k = 0; k < CEL_CARD_ADDRESSES && p->card.address[k] != 0; ++k)
    send_to(h, &p->card, news, p->card.address[k], &d);
}

static void say_all(cel_heartbeat *h, int64_t now_ns) {
  cel_beat beat;
  for (int32_t i = 0; i < h->state.peers; ++i)
    if (cel_beats_say(&h->state, i, now_ns, &beat)) say(h, i, &beat);
}

static void say_bye(cel_heartbeat *h) {
  cel_beat bye = {.kind = CEL_BEAT_BYE, .from = h->state.rank};
  for (int again = 0; again < 3; ++again)
    for (int32_t i = 0; i < h->state.peers; ++i)
      if (h->state.peer[i].neighbour) say(h, i, &bye);
}

/* ---- hearing --------------------------------------------------------------
 */

static void take(cel_heartbeat *h, const datagram *d, uint32_t address,
                 int64_t now_ns) {
  cel_beat beat = {.kind = (cel_beat_kind)d->kind,
                   .from = d->from,
                   .hears = d->hears != 0,
                   .finder = d->finder,
                   .lost = d->lost};
  if (d->magic != MAGIC || d->key != h->card.key || d->kind > CEL_BEAT_NEWS)
    return;
  for (int32_t i = 0; i < h->state.peers; ++i)
    if (h->state.peer[i].rank == d->from) h->peer[i].heard_at = address;
  cel_beats_hear(&h->state, &beat, now_ns);
}

static void hear(cel_heartbeat *h, int file, int64_t now_ns) {
  for (int n = 0; n < BATCH; ++n) {
    datagram d;
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    ssize_t got = recvfrom(file, &d, sizeof d, MSG_DONTWAIT | MSG_TRUNC,
                           (struct sockaddr *)&from, &size);
    if (got < 0) return;
    if (got == sizeof d) take(h, &d, from.sin_addr.s_addr, now_ns);
  }
}

/* ---- the thread -----------------------------------------------------------
 */

static double seconds(int64_t ns) {
  return (double)ns * 1e-9;
}

static int32_t index_of(const cel_heartbeat *h, int64_t rank) {
  int32_t i = 0;
  while (h->state.peer[i].rank != rank) ++i;
  return i;
}

/* Does not come back. */
static void end(cel_heartbeat *h, cel_beats_phase phase, int64_t lost) {
  char text[CEL_ERROR_TEXT];
  if (phase == CEL_BEATS_SPEAK)
    snprintf(text, sizeof text,
             "rank %lld on host %s is lost: rank %lld on host %s has heard "
             "nothing of it for %.0f s (--lost). It was stopped, or its host "
             "or the network between them fails; all ranks end",
             (long long)lost, h->peer[index_of(h, lost)].card.host,
             (long long)h->state.rank, h->card.host, seconds(h->watch.lost_ns));
  h->watch.lost(h->watch.context, phase == CEL_BEATS_SPEAK ? text : NULL);
}

/* The launcher may be told by another rank first, and kill this one within a
 * second. So what is to end the launcher is left behind at once. */
static void begin_end(cel_heartbeat *h) {
  if (!atomic_exchange(&h->hushed, true)) {
    cel_report_settle();
    h->watch.hush(h->watch.context);
  }
  if (!h->ending) cel_launcher_outlive(LAUNCHER_MS);
  h->ending = true;
}

/* Only this thread changes the state while it is ON. */
static void warn_unreached(cel_heartbeat *h) {
  char text[CEL_ERROR_TEXT];
  int64_t past = cel_now_ns() - h->state.begun_ns;
  if (h->warned || past < h->watch.lost_ns) return;
  h->warned = true;
  for (int32_t i = 0; i < h->state.peers; ++i) {
    if (!cel_beats_unreached(&h->state, i)) continue;
    snprintf(text, sizeof text,
             "no heartbeat gets through between rank %lld on host %s and rank "
             "%lld on host %s (UDP, perhaps by a firewall): if one is lost, "
             "the other does not notice",
             (long long)h->state.rank, h->card.host,
             (long long)h->state.peer[i].rank, h->peer[i].card.host);
    h->watch.warn(h->watch.context, text);
  }
}

/* Until it is time to say something, news have come, or it is to stop. */
static void sleep_until(cel_heartbeat *h, int64_t due_ns) {
  int64_t left = due_ns - cel_now_ns();
  if (left < 0) left = 0;
  struct timespec t = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
  struct pollfd files[] = {{.fd = h->news, .events = POLLIN},
                           {.fd = h->wake, .events = POLLIN}};
  uint64_t count;
  ppoll(files, 2, &t, NULL);
  (void)!read(h->wake, &count, sizeof count);
}

/* What has come, then what follows from it. *lost is set unless all goes on. */
static cel_beats_phase step(cel_heartbeat *h, int64_t *due_ns, int64_t *lost) {
  pthread_mutex_lock(&h->lock);
  int64_t now = cel_now_ns();
  hear(h, h->news, now);
  if (now >= h->state.due_ns) hear(h, h->beats, now);
  if (cel_beats_tick(&h->state, now)) say_all(h, now);
  *due_ns = h->state.due_ns;
  *lost = h->state.lost;
  cel_beats_phase phase = h->state.phase;
  pthread_mutex_unlock(&h->lock);
  return phase;
}

static void *run(void *heartbeat) {
  cel_heartbeat *h = heartbeat;
  for (int64_t due = 0, lost = -1; !atomic_load(&h->stop);
       sleep_until(h, due)) {
    cel_beats_phase phase = step(h, &due, &lost);
    if (phase == CEL_BEATS_ON)
      warn_unreached(h);
    else
      begin_end(h);
    if (phase >= CEL_BEATS_SPEAK) end(h, phase, lost);
  }
  return NULL;
}

/* ---- life -----------------------------------------------------------------
 */

void cel_heartbeat_open(int64_t rank, int64_t ranks, bool one_host,
                        cel_heartbeat **out, cel_card *card) {
  cel_heartbeat *h = cel_alloc_zero(sizeof *h);
  cel_beats_init(&h->state, rank, ranks);
  h->wake = -1;
  cel__reach_open(one_host, &h->card, &h->beats, &h->news);
  pthread_mutex_init(&h->lock, NULL);
  *card = h->card;
  *out = h;
}

void cel_heartbeat_meet(cel_heartbeat *h, int64_t rank, const cel_card *card) {
  int32_t n = h->state.peers;
  cel_beats_meet(&h->state, rank);
  if (h->state.peers == n) return;
  h->peer[n].card = *card;
  cel__reach_narrow(&h->card, &h->peer[n].card);
}

cel_status cel_heartbeat_start(cel_heartbeat *h, const cel_watch *watch) {
  sigset_t all, before;
  h->watch = *watch;
  h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  cel_beats_start(&h->state, watch->lost_ns, cel_now_ns());
  sigfillset(&all); /* what is to be done on a signal others do */
  pthread_sigmask(SIG_BLOCK, &all, &before);
  cel_status status =
      cel_thread_start(&h->thread, run, h, "the heartbeat between ranks");
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  h->running = status == CEL_E_OK;
  return status;
}

static void wake(cel_heartbeat *h) {
  uint64_t one = 1;
  (void)!write(h->wake, &one, sizeof one);
}

void cel_heartbeat_end(cel_heartbeat *h) {
  if (!h->running) return;
  atomic_store(&h->hushed, true); /* main has the last word */
  pthread_mutex_lock(&h->lock);
  int64_t now = cel_now_ns();
  cel_beats_end(&h->state, now);
  say_all(h, now);
  pthread_mutex_unlock(&h->lock);
  wake(h);
}

void cel_heartbeat_look(cel_heartbeat *h) {
  if (!h->running) return;
  pthread_mutex_lock(&h->lock);
  hear(h, h->news, cel_now_ns());
  bool ends = h->state.phase != CEL_BEATS_ON;
  pthread_mutex_unlock(&h->lock);
  if (ends) cel_report_settle();
}

void cel_heartbeat_tell(cel_heartbeat *h, char *text, size_t size) {
  size_t n = strlen(text);
  if (!h->running) return;
  pthread_mutex_lock(&h->lock);
  int64_t now = cel_now_ns();
  for (int32_t i = 0; i < h->state.peers; ++i) {
    int64_t silent = cel_beats_silence(&h->state, i, now);
    if (silent == 0 || n >= size) continue;
    n +=
        (size_t)snprintf(text + n, size - n,
                         "rank %lld on host %s has been silent for %.0f s; "
                         "after %.0f s all ranks end (--lost)\n",
                         (long long)h->state.peer[i].rank, h->peer[i].card.host,
                         seconds(silent), seconds(h->watch.lost_ns));
  }
  pthread_mutex_unlock(&h->lock);
}

static void close_file(int file) {
  if (file >= 0) close(file);
}

void cel_heartbeat_stop(cel_heartbeat *h) {
  if (h->running) {
    pthread_mutex_lock(&h->lock);
    say_bye(h);
    pthread_mutex_unlock(&h->lock);
    atomic_store(&h->stop, true);
    wake(h);
    pthread_join(h->thread, NULL);
  }
  close_file(h->beats);
  close_file(h->news);
  close_file(h->wake);
  pthread_mutex_destroy(&h->lock);
  cel_free(h);
}
