#include "exec/profile.h"

#include <string.h>

#include "base/hash.h"
#include "base/vec.h"

struct cel_profile {
  CEL_VEC(cel_span) spans;
  uint64_t all; /* spans, with those that were not kept */
  CEL_VEC(cel_profile_row) rows;
  CEL_VEC(uint32_t) slots; /* open addressing: row + 1, or 0 */
  CEL_VEC(char *) names;
};

const char *cel_span_name(cel_span_kind kind) {
  static const char *const names[] = {
#define SPAN_NAME(NAME, name) #name,
      CEL_SPAN_KINDS(SPAN_NAME)
#undef SPAN_NAME
  };
  return names[kind];
}

cel_profile *cel_profile_create(void) {
  return cel_alloc_zero(sizeof(cel_profile));
}

void cel_profile_destroy(cel_profile *profile) {
  if (profile == NULL) return;
  for (uint32_t i = 0; i < profile->names.n; ++i)
    cel_free(profile->names.at[i]);
  cel_vec_release(&profile->names);
  cel_vec_release(&profile->spans);
  cel_vec_release(&profile->rows);
  cel_vec_release(&profile->slots);
  cel_free(profile);
}

/* ---- rows ---------------------------------------------------------------- */

static uint64_t hash_of(const cel_profile_row *row) {
  uint64_t bits = row->kind + 256U * row->from_host + 512U * row->to_host +
                  1024U * row->across;
  return row->name == NULL ? cel_hash(&bits, sizeof bits, 0)
                           : cel_hash(row->name, strlen(row->name), bits);
}

static bool is_same(const cel_profile_row *a, const cel_profile_row *b) {
  if (a->kind != b->kind || a->from_host != b->from_host ||
      a->to_host != b->to_host || a->across != b->across)
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

/* ---- spans --------------------------------------------------------------- */

static cel_span_kind kind_of(const cel_instr *instr) {
  switch (instr->kind) {
  case CEL_INSTR_COPY: return CEL_SPAN_COPY;
  case CEL_INSTR_INIT: return CEL_SPAN_INIT;
  case CEL_INSTR_HOST: return CEL_SPAN_HOST;
  case CEL_INSTR_SEND: return CEL_SPAN_SEND;
  case CEL_INSTR_RECEIVE: return CEL_SPAN_RECEIVE;
  default: return instr->task->work->lua ? CEL_SPAN_INTEROP : CEL_SPAN_KERNEL;
  }
}

void cel_profile_add(cel_profile *profile, const cel_instr *instr,
                     const cel_job *job, int32_t device, int32_t lane) {
  if (job->begin == 0) return;
  cel_span span = {.begin = job->begin,
                   .end = job->end,
                   .kind = (uint8_t)kind_of(instr),
                   .device = (int8_t)device,
                   .lane = (int8_t)lane,
                   .from = -1,
                   .to = -1};
  cel_profile_row like = {.name = job->name, .kind = span.kind};
  if (instr->task != NULL) {
    span.task = instr->task->id;
    span.place = instr->task->place;
  }
  if (job->kind == CEL_JOB_PUT)
    span.bytes = instr->message.bytes;
  else if (job->kind != CEL_JOB_CALL)
    span.bytes = (uint64_t)cel_box_volume(&job->box) * job->element_size;
  if (span.kind == CEL_SPAN_COPY) {
    span.from = (int8_t)instr->copy.from->memory;
    span.to = (int8_t)instr->copy.to->memory;
    like.from_host = span.from == 0;
    like.to_host = span.to == 0;
    like.across = span.from > 0 && span.to > 0 && span.from != span.to;
  }
  cel_profile_row *row = row_like(profile, &like);
  int64_t took = span.end - span.begin;
  row->count++;
  row->bytes += span.bytes;
  row->total += took;
  if (took > row->max) row->max = took;
  span.name = row->name;
  if (profile->all++ < CEL_PROFILE_SPANS) cel_vec_push(&profile->spans, span);
}

uint64_t cel_profile_spans(const cel_profile *profile, const cel_span **out) {
  *out = profile->spans.at;
  return profile->all;
}

uint32_t cel_profile_rows(const cel_profile *profile,
                          const cel_profile_row **out) {
  *out = profile->rows.at;
  return profile->rows.n;
}

const char *cel_profile_way(const cel_profile_row *row) {
  if (row->kind != CEL_SPAN_COPY) return NULL;
  if (row->from_host) return row->to_host ? "in the host" : "to a device";
  if (row->to_host) return "from a device";
  return row->across ? "between devices" : "in a device";
}
