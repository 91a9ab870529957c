#include "comm/heartbeat/beats.h"

#include <stddef.h>

#include "base/status.h"

/* Beats that a rank says before its silence is long enough for a loss, at
 * least; and how many in a row may go astray before it is worth a word. */
enum { LEAST = 5, MISSED = 3 };
#define PERIOD_NS INT64_C(1000000000) /* at most: who sleeps is to sleep */
/* News are repeated, as they may go astray, and a moment is given to others
 * that found a loss at the same time. Who is not to speak leaves time to who
 * is, and to the launcher. */
#define REPEAT_NS INT64_C(100000000)
#define SETTLE_NS INT64_C(500000000)
#define PATIENCE_NS INT64_C(3000000000)

/* ---- peers ----------------------------------------------------------------
 */

static cel_beats_peer *find_peer(cel_beats *b, int64_t rank) {
  for (int32_t i = 0; i < b->peers; ++i)
    if (b->peer[i].rank == rank) return &b->peer[i];
  return NULL;
}

void cel_beats_init(cel_beats *b, int64_t rank, int64_t ranks) {
  *b = (cel_beats){.rank = rank, .ranks = ranks, .finder = -1, .lost = -1};
}

void cel_beats_start(cel_beats *b, int64_t lost_ns, int64_t now_ns) {
  int64_t period = lost_ns / LEAST;
  b->lost_ns = lost_ns;
  b->period_ns = period < PERIOD_NS ? period : PERIOD_NS;
  b->begun_ns = b->due_ns = now_ns;
}

void cel_beats_meet(cel_beats *b, int64_t rank) {
  bool above = rank == (b->rank + 1) % b->ranks;
  bool below = b->rank == (rank + 1) % b->ranks;
  if (rank == b->rank || find_peer(b, rank) != NULL) return;
  cel_assert(b->peers < CEL_BEATS_PEERS);
  b->peer[b->peers++] =
      (cel_beats_peer){.rank = rank, .neighbour = above || below};
}

/* ---- what comes -----------------------------------------------------------
 */

/* Of several that found a loss at a time the lowest speaks, so that one does.
 */
static void take_news(cel_beats *b, int64_t finder, int64_t lost,
                      int64_t now_ns) {
  bool first = b->phase == CEL_BEATS_ON;
  if (!first && (b->phase != CEL_BEATS_SETTLING || finder >= b->finder)) return;
  if (first) b->since_ns = now_ns;
  b->phase = CEL_BEATS_SETTLING;
  b->finder = finder;
  b->lost = lost;
  b->due_ns = now_ns; /* to be passed on at once */
}

void cel_beats_hear(cel_beats *b, const cel_beat *beat, int64_t now_ns) {
  cel_beats_peer *peer = find_peer(b, beat->from);
  if (peer == NULL) return;
  switch (beat->kind) {
  case CEL_BEAT_HERE:
    peer->heard = true;
    peer->hears = beat->hears;
    peer->reached |= beat->hears;
    peer->heard_ns = now_ns;
    break;
  case CEL_BEAT_BYE: peer->left = true; break;
  case CEL_BEAT_NEWS: take_news(b, beat->finder, beat->lost, now_ns); break;
  }
}

void cel_beats_end(cel_beats *b, int64_t now_ns) {
  take_news(b, -1, -1, now_ns);
}

/* ---- what follows ---------------------------------------------------------
 */

/* One that never was heard of cannot be reached; that is no loss. */
static bool is_watched(const cel_beats_peer *p) {
  return p->neighbour && p->heard && !p->left;
}

static void find_loss(cel_beats *b, int64_t now_ns) {
  for (int32_t i = 0; i < b->peers; ++i) {
    const cel_beats_peer *p = &b->peer[i];
    if (is_watched(p) && now_ns - p->heard_ns > b->lost_ns)
      take_news(b, b->rank, p->rank, now_ns);
  }
}

static void settle(cel_beats *b, int64_t now_ns) {
  int64_t past = now_ns - b->since_ns - SETTLE_NS;
  if (past >= 0 && b->finder == b->rank)
    b->phase = CEL_BEATS_SPEAK;
  else if (past >= PATIENCE_NS)
    b->phase = CEL_BEATS_QUIET;
}

bool cel_beats_tick(cel_beats *b, int64_t now_ns) {
  int64_t late = now_ns - b->due_ns;
  if (late < 0) return false;
  if (b->phase == CEL_BEATS_ON && late > b->period_ns)
    for (int32_t i = 0; i < b->peers; ++i) {
      int64_t *heard = &b->peer[i].heard_ns;
      *heard = *heard + late < now_ns ? *heard + late : now_ns;
    }
  if (b->phase == CEL_BEATS_ON) find_loss(b, now_ns);
  if (b->phase == CEL_BEATS_SETTLING) settle(b, now_ns);
  b->due_ns = now_ns + (b->phase == CEL_BEATS_ON ? b->period_ns : REPEAT_NS);
  return true;
}

static bool heard_lately(const cel_beats *b, const cel_beats_peer *p,
                         int64_t now_ns) {
  return p->heard && now_ns - p->heard_ns <= MISSED * b->period_ns;
}

bool cel_beats_say(const cel_beats *b, int32_t i, int64_t now_ns,
                   cel_beat *out) {
  const cel_beats_peer *p = &b->peer[i];
  bool on = b->phase == CEL_BEATS_ON;
  if (p->left || (on && !p->neighbour)) return false;
  *out = (cel_beat){.kind = on ? CEL_BEAT_HERE : CEL_BEAT_NEWS,
                    .from = b->rank,
                    .hears = heard_lately(b, p, now_ns),
                    .finder = b->finder,
                    .lost = b->lost};
  return true;
}

int64_t cel_beats_silence(const cel_beats *b, int32_t i, int64_t now_ns) {
  const cel_beats_peer *p = &b->peer[i];
  return is_watched(p) && !heard_lately(b, p, now_ns) ? now_ns - p->heard_ns
                                                      : 0;
}

bool cel_beats_unreached(const cel_beats *b, int32_t i) {
  const cel_beats_peer *p = &b->peer[i];
  return p->neighbour && !p->left && !(p->heard && p->reached);
}
