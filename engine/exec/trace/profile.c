#include "exec/trace/profile.h"

#include <string.h>

#include "base/hash.h"
#include "base/vec.h"

enum { ALONES = 32 };

struct cel_profile {
  CEL_VEC(cel_profile_row) rows;
  CEL_VEC(uint32_t) slots; /* open addressing: row + 1, or 0 */
  CEL_VEC(char *) names;
  CEL_VEC(cel_profile_alone) alones; /* main's */
};

cel_profile *cel_profile_create(void) {
  return cel_alloc_zero(sizeof(cel_profile));
}

void cel_profile_destroy(cel_profile *profile) {
  if (profile == NULL) return;
  for (uint32_t i = 0; i < profile->names.n; ++i)
    cel_free(profile->names.at[i]);
  for (uint32_t i = 0; i < profile->alones.n; ++i) {
    cel_free((char *)(uintptr_t)profile->alones.at[i].name);
    cel_free((char *)(uintptr_t)profile->alones.at[i].why);
  }
  cel_vec_release(&profile->alones);
  cel_vec_release(&profile->names);
  cel_vec_release(&profile->rows);
  cel_vec_release(&profile->slots);
  cel_free(profile);
}

/* ---- rows ---------------------------------------------------------------- */

static uint64_t hash_of(const cel_profile_row *row) {
  uint64_t bits = row->kind + 256U * row->from_host + 512U * row->to_host +
                  1024U * row->across + 2048U * row->together;
  return row->name == NULL ? cel_hash(&bits, sizeof bits, 0)
                           : cel_hash(row->name, strlen(row->name), bits);
}

static bool is_same(const cel_profile_row *a, const cel_profile_row *b) {
  if (a->kind != b->kind || a->from_host != b->from_host ||
      a->to_host != b->to_host || a->across != b->across ||
      a->together != b->together)
    return false;
  return a->name == NULL || b->name == NULL ? a->name == b->name
                                            : strcmp(a->name, b->name) == 0;
}

/* The slot of such a row, or the empty one where it belongs. */
static uint32_t *slot_of(const cel_profile *p, const cel_profile_row *like) {
  uint32_t mask = p->slots.n - 1, at = (uint32_t)hash_of(like) & mask;
  while (p->slots.at[at] != 0 &&
         !is_same(&p->rows.at[p->slots.at[at] - 1], like))
    at = (at + 1) & mask;
  return &p->slots.at[at];
}

/* At most half of the slots are taken. */
static void grow(cel_profile *p) {
  uint32_t n = p->slots.n == 0 ? 64 : 2 * p->slots.n;
  cel_vec_reserve(&p->slots, n);
  p->slots.n = n;
  memset(p->slots.at, 0, n * sizeof *p->slots.at);
  for (uint32_t i = 0; i < p->rows.n; ++i) *slot_of(p, &p->rows.at[i]) = i + 1;
}

static cel_profile_row *row_like(cel_profile *p, const cel_profile_row *like) {
  if (2 * (p->rows.n + 1) > p->slots.n) grow(p);
  uint32_t *slot = slot_of(p, like);
  if (*slot == 0) {
    cel_profile_row row = *like;
    if (row.name != NULL) {
      cel_vec_push(&p->names, cel_strdup(row.name));
      row.name = cel_vec_last(&p->names);
    }
    cel_vec_push(&p->rows, row);
    *slot = p->rows.n;
  }
  return &p->rows.at[*slot - 1];
}

void cel_profile_add(cel_profile *profile, const cel_span *span) {
  cel_profile_row like = {
      .name = span->name, .kind = span->kind, .together = span->together > 0};
  if (span->kind == CEL_SPAN_COPY) {
    like.from_host = span->from == 0;
    like.to_host = span->to == 0;
    like.across = span->from > 0 && span->to > 0 && span->from != span->to;
  }
  cel_profile_row *row = row_like(profile, &like);
  int64_t took = span->end - span->begin;
  row->count++;
  row->bytes += span->bytes;
  row->total += took;
  if (took > row->max) row->max = took;
}

uint32_t cel_profile_rows(const cel_profile *profile,
                          const cel_profile_row **out) {
  *out = profile->rows.at;
  return profile->rows.n;
}

void cel_profile_add_alone(cel_profile *profile, const char *name,
                           cel_location location, const char *why) {
  for (uint32_t i = 0; i < profile->alones.n; ++i) {
    cel_profile_alone *at = &profile->alones.at[i];
    if (at->location.file != location.file ||
        at->location.line != location.line || strcmp(at->why, why) != 0)
      continue;
    ++at->count;
    return;
  }
  if (profile->alones.n == ALONES) return;
  cel_vec_push(&profile->alones, ((cel_profile_alone){.name = cel_strdup(name),
                                                      .why = cel_strdup(why),
                                                      .location = location,
                                                      .count = 1}));
}

uint32_t cel_profile_alones(const cel_profile *profile,
                            const cel_profile_alone **out) {
  *out = profile->alones.at;
  return profile->alones.n;
}

const char *cel_profile_way(const cel_profile_row *row) {
  if (row->together) return "together";
  if (row->kind != CEL_SPAN_COPY) return NULL;
  if (row->from_host) return row->to_host ? "in the host" : "to a device";
  if (row->to_host) return "from a device";
  return row->across ? "between devices" : "in a device";
}
