#include "comm/simulated/simulated_heartbeat.h"

#include "base/vec.h"
#include "comm/heartbeat/beats.h"

struct cel__simulated_heartbeat {
  cel_inprocess_config config;
  int64_t now_ns;
  struct listener {
    cel_beats beats;
    CEL_VEC(cel_beat) coming;
  } * rank;
};

/* ---- the fault ------------------------------------------------------------
 */

static bool is_on(const cel__simulated_heartbeat *h) {
  const cel_inprocess_config *c = &h->config;
  if (c->fault != CEL_FAULT_DEAD && c->fault != CEL_FAULT_SILENT) return false;
  int64_t past = h->now_ns - c->fault_begin_ns;
  return past >= 0 && (c->fault_ns == 0 || past < c->fault_ns);
}

bool cel__simulated_heartbeat_cuts(const cel__simulated_heartbeat *h) {
  return h != NULL && is_on(h);
}

bool cel__simulated_heartbeat_cut(const cel__simulated_heartbeat *h, int64_t a,
                                  int64_t b) {
  if (h == NULL || a == b || !is_on(h)) return false;
  return a == h->config.fault_rank || b == h->config.fault_rank;
}

static bool is_dead(const cel__simulated_heartbeat *h, int64_t rank) {
  return h->config.fault == CEL_FAULT_DEAD && rank == h->config.fault_rank &&
         is_on(h);
}

cel_inprocess_life
cel__simulated_heartbeat_life(const cel__simulated_heartbeat *h, int64_t rank) {
  if (h == NULL) return CEL_LIFE_ON;
  if (is_dead(h, rank)) return CEL_LIFE_DEAD;
  cel_beats_phase phase = h->rank[rank].beats.phase;
  return phase == CEL_BEATS_SPEAK   ? CEL_LIFE_SPOKE
         : phase == CEL_BEATS_QUIET ? CEL_LIFE_ENDED
                                    : CEL_LIFE_ON;
}

/* ---- beats ----------------------------------------------------------------
 */

static void say_all(cel__simulated_heartbeat *h, int64_t rank) {
  const cel_beats *b = &h->rank[rank].beats;
  cel_beat beat;
  for (int32_t i = 0; i < b->peers; ++i) {
    int64_t to = b->peer[i].rank;
    if (cel_beats_say(b, i, h->now_ns, &beat) &&
        !cel__simulated_heartbeat_cut(h, rank, to))
      cel_vec_push(&h->rank[to].coming, beat);
  }
}

/* What has come is heard now or later, and in any order. */
static void hear_some(cel__simulated_heartbeat *h, struct listener *r,
                      cel_random *random) {
  for (uint32_t i = r->coming.n; i-- > 0;) {
    if (!cel_random_chance(random, 50)) continue;
    cel_beat beat = r->coming.at[i];
    cel_vec_swap_out(&r->coming, i);
    cel_beats_hear(&r->beats, &beat, h->now_ns);
  }
}

void cel__simulated_heartbeat_pass(cel__simulated_heartbeat *h,
                                   cel_random *random, int64_t ns) {
  h->now_ns += ns;
  for (int64_t k = 0; k < h->config.ranks; ++k) {
    if (cel__simulated_heartbeat_life(h, k) != CEL_LIFE_ON) continue;
    hear_some(h, &h->rank[k], random);
    if (cel_beats_tick(&h->rank[k].beats, h->now_ns)) say_all(h, k);
  }
}

/* ---- life -----------------------------------------------------------------
 */

static void start(cel__simulated_heartbeat *h, int64_t rank) {
  cel_beats *b = &h->rank[rank].beats;
  int64_t ranks = h->config.ranks;
  int64_t hosts = h->config.hosts > 0 ? h->config.hosts : 1;
  cel_beats_init(b, rank, ranks);
  for (int64_t d = 1; d < ranks; d *= 2) {
    cel_beats_meet(b, (rank + d) % ranks);
    cel_beats_meet(b, (rank - d + ranks) % ranks);
  }
  if (rank + hosts < ranks) cel_beats_meet(b, rank + hosts);
  if (rank >= hosts) cel_beats_meet(b, rank - hosts);
  cel_beats_start(b, h->config.lost_ns, 0);
}

cel__simulated_heartbeat *
cel__simulated_heartbeat_create(const cel_inprocess_config *config) {
  cel__simulated_heartbeat *h = cel_alloc_zero(sizeof *h);
  h->config = *config;
  h->rank = cel_alloc_zero((size_t)config->ranks * sizeof *h->rank);
  for (int64_t k = 0; k < config->ranks; ++k) start(h, k);
  return h;
}

void cel__simulated_heartbeat_destroy(cel__simulated_heartbeat *h) {
  if (h == NULL) return;
  for (int64_t k = 0; k < h->config.ranks; ++k)
    cel_vec_release(&h->rank[k].coming);
  cel_free(h->rank);
  cel_free(h);
}
