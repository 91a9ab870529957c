/* The sequential interpreter: what every buffer must hold, step by step. */
#include <string.h>

#include "random/program.h"

typedef struct memory {
  char *bytes[MOST_BUFFERS];
  uint8_t *known[MOST_BUFFERS];
  bool freed[MOST_BUFFERS], ended[MOST_OBJECTS];
  int *owner[MOST_BUFFERS];    /* who has written an element last; or -1 */
  uint32_t *has[MOST_BUFFERS]; /* the ranks that have what is owned, as bits */
  bool reduced[MOST_BUFFERS];  /* into: nobody says who has it */
  data_state data;
} memory;

static size_t elements(const buffer *b) {
  return (size_t)cel_box_volume(&b->extent);
}

static size_t copies(const program *p, int buffer) {
  return p->buffer[buffer].apart ? (size_t)p->ranks : 1;
}

char *bytes_of_rank(const program *p, int buffer, char *bytes, int k) {
  const struct buffer *b = &p->buffer[buffer];
  return bytes + (b->apart ? (size_t)k * elements(b) * b->element_size : 0);
}

bool is_apart(const program *p, const access *a) {
  return p->buffer[a->buffer].apart;
}

bool touches_apart(const program *p, const step *s) {
  if (s->home.given && s->home.buffer >= 0 && p->buffer[s->home.buffer].apart)
    return true;
  for (int k = 0; k < s->accesses; ++k)
    if (is_apart(p, &s->access[k])) return true;
  return false;
}

static void *copy_of(const void *data, size_t size) {
  return memcpy(cel_alloc(size), data, size);
}

typedef struct filling {
  const program *p;
  int buffer;
  char *bytes;
} filling;

static void fill_point(void *context, const int64_t *point) {
  filling *at = context;
  const buffer *b = &at->p->buffer[at->buffer];
  initial_bytes(at->buffer, point,
                at->bytes + index_of(&b->extent, point) * b->element_size,
                b->element_size);
}

char *initial_contents(const program *p, int buffer) {
  const struct buffer *b = &p->buffer[buffer];
  size_t size = elements(b) * b->element_size;
  filling at = {p, buffer, cel_alloc_zero(size * copies(p, buffer))};
  if (b->init) each_point(&b->extent, 1, fill_point, &at);
  for (size_t k = 1; k < copies(p, buffer); ++k)
    memcpy(at.bytes + k * size, at.bytes, size);
  return at.bytes;
}

static void memory_init(memory *m, const program *p) {
  *m = (memory){0};
  for (int i = 0; i < p->buffers; ++i) {
    const buffer *b = &p->buffer[i];
    m->bytes[i] = initial_contents(p, i);
    m->known[i] = cel_alloc_zero(elements(b));
    memset(m->known[i], b->init, elements(b));
    m->owner[i] = cel_alloc(elements(b) * sizeof **m->owner);
    memset(m->owner[i], -1, elements(b) * sizeof **m->owner);
    m->has[i] = cel_alloc_zero(elements(b) * sizeof **m->has);
  }
}

static void memory_release(memory *m, const program *p) {
  for (int i = 0; i < p->buffers; ++i) {
    cel_free(m->bytes[i]);
    cel_free(m->known[i]);
    cel_free(m->owner[i]);
    cel_free(m->has[i]);
  }
}

/* ---- groups ------------------------------------------------------------- */

typedef struct marking {
  uint8_t *known;
  const cel_box *extent;
  const step *s;
  int number;
  uint8_t value;
} marking;

static void mark(void *context, const int64_t *point) {
  marking *at = context;
  at->known[index_of(at->extent, point)] = at->value;
}

static void mark_written(void *context, const int64_t *point) {
  const marking *at = context;
  if (atom_writes(at->s, at->number, point)) mark(context, point);
}

static int image_of(const program *p, const step *s, const access *a,
                    const cel_box *chunk, cel_box *box) {
  return rule_image(a->rule, &s->range, &p->buffer[a->buffer].extent, chunk,
                    box, NULL);
}

static void note_masks(const program *p, step *s, const memory *m) {
  for (int k = 0; k < s->accesses; ++k) {
    access *a = &s->access[k];
    cel_free(a->mask);
    a->mask = NULL;
    if (cel_mode_consumes(a->mode) && !reduces(a))
      a->mask = copy_of(m->known[data_source(p, a->buffer)],
                        elements(&p->buffer[a->buffer]));
  }
}

/* Discarded contents are gone; what is written is known. `write` leaves some
 * elements alone, which stay as known as they were: see atoms.c. */
static void note_written(const program *p, const step *s, memory *m) {
  cel_box box[MOST_IMAGE];
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    if (a->mode != CEL_MODE_DISCARD_WRITE) continue;
    if (reduces(a) && atom_count(s) == 0) {
      memset(m->known[a->buffer], 1, elements(&p->buffer[a->buffer]));
      continue;
    }
    marking at = {m->known[a->buffer], &p->buffer[a->buffer].extent, s, k, 0};
    each_point(box, image_of(p, s, a, &s->range, box), mark, &at);
  }
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    if (!cel_mode_produces(a->mode)) continue;
    if ((reduces(a) || s->data == DATA_COMBINE) &&
        a->mode == CEL_MODE_READ_WRITE)
      continue;
    marking at = {m->known[a->buffer], &p->buffer[a->buffer].extent, s, k, 1};
    for (int i = 0; i < atom_count(s); ++i) {
      cel_box atom = atom_at(s, i);
      each_point(box, image_of(p, s, a, &atom, box),
                 a->mode == CEL_MODE_WRITE ? mark_written : mark, &at);
    }
  }
}

/* ---- who has what -------------------------------------------------------- */

typedef struct holding {
  memory *m;
  const program *p;
  int buffer, rank;
  int64_t owned[MOST_RANKS];
  bool unclear;
  bool for_all; /* what is written is so by all ranks */
} holding;

static int64_t at_point(const holding *h, const int64_t *point) {
  return index_of(&h->p->buffer[h->buffer].extent, point);
}

static void hold(void *context, const int64_t *point) {
  const holding *h = context;
  h->m->has[h->buffer][at_point(h, point)] |= 1u << h->rank;
}

static void own(void *context, const int64_t *point) {
  const holding *h = context;
  int64_t i = at_point(h, point);
  h->m->owner[h->buffer][i] = h->rank;
  h->m->has[h->buffer][i] =
      h->for_all ? (1u << h->p->ranks) - 1 : 1u << h->rank;
}

static void count(void *context, const int64_t *point) {
  holding *h = context;
  int64_t i = at_point(h, point);
  int owner = h->m->owner[h->buffer][i];
  if (owner < 0) return;
  ++h->owned[owner];
  h->unclear |= h->m->has[h->buffer][i] == (1u << h->p->ranks) - 1;
}

/* All of a step on rank h->rank: what it reads, or writes. */
static void each_held(holding *h, const step *s, const cel_box *chunk,
                      bool (*does)(cel_mode),
                      void (*visit)(void *, const int64_t *)) {
  cel_box box[MOST_IMAGE];
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    if (!does(a->mode)) continue;
    h->buffer = a->buffer;
    if (!reduces(a))
      each_point(box, image_of(h->p, s, a, chunk, box), visit, h);
  }
}

static void note_owners(const program *p, const step *s, memory *m) {
  holding h = {.m = m, .p = p, .for_all = step_for_all(p, s)};
  cel_box chunk;
  /* Of no items, too: then who combines writes identities. */
  for (int k = 0; k < s->accesses; ++k)
    m->reduced[s->access[k].buffer] |= reduces(&s->access[k]);
  for (h.rank = 0; h.rank < p->ranks; ++h.rank)
    if (step_chunk(p, s, h.rank, &chunk))
      each_held(&h, s, &chunk, cel_mode_consumes, hold);
  for (h.rank = 0; h.rank < p->ranks; ++h.rank)
    if (step_chunk(p, s, h.rank, &chunk))
      each_held(&h, s, &chunk, cel_mode_produces, own);
}

static void note_captured(const program *p, const step *s, memory *m) {
  holding h = {.m = m, .p = p, .buffer = s->buffer};
  for (h.rank = 0; h.rank < p->ranks; ++h.rank) {
    cel_box box = fence_box(p, s, h.rank);
    each_point(&box, 1, hold, &h);
  }
}

static void find_home(const program *p, step *s, memory *m) {
  home *at = &s->home;
  at->unclear = at->buffer < 0 && at->rank >= p->ranks;
  if (at->buffer < 0) return;
  holding h = {.m = m, .p = p, .buffer = at->buffer};
  each_point(&at->box, 1, count, &h);
  /* What is folded is read by more ranks, some of which nobody else lacks. */
  bool folds = p->fold != 1 && at->buffer >= p->buffers - p->fields;
  at->unclear =
      h.unclear || folds || m->reduced[at->buffer] || m->freed[at->buffer];
  at->rank = 0;
  for (int k = 1; k < p->ranks; ++k)
    if (h.owned[k] > h.owned[at->rank]) at->rank = k;
}

/* The rank that computes an atom. */
static int rank_of(const program *p, const step *s, const cel_box *atom) {
  cel_box chunk;
  for (int k = 0; k < p->ranks; ++k)
    if (step_chunk(p, s, k, &chunk) && cel_box_covers(&chunk, atom)) return k;
  cel_bug("nobody computes an atom");
}

static void find_places(const program *p, const step *s, char *const *bytes,
                        const cel_box *atom, place *places) {
  int rank = touches_apart(p, s) && atom != NULL ? rank_of(p, s, atom) : 0;
  for (int k = 0; k < s->accesses; ++k) {
    int b = data_source(p, s->access[k].buffer);
    cel_box extent = p->buffer[b].extent;
    places[k] = (place){.base = bytes_of_rank(p, b, bytes[b], rank),
                        .layout = extent,
                        .promised = extent};
  }
}

void step_run(const program *p, const step *s, char *const *bytes) {
  place places[MOST_ACCESSES];
  find_places(p, s, bytes, NULL, places);
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    const buffer *b = &p->buffer[a->buffer];
    if (reduces(a) && a->mode == CEL_MODE_DISCARD_WRITE)
      reduce_begin(a->reduce, places[k].base, elements(b), b->element_size);
  }
  if (s->data >= DATA_FIND) {
    data_run(p, s, bytes);
    return;
  }
  uint64_t others = 0;
  for (int i = 0; s->collective != 0 && i < atom_count(s); ++i) {
    cel_box atom = atom_at(s, i);
    find_places(p, s, bytes, &atom, places);
    others += atom_tells(p, s, &atom, places);
  }
  for (int i = 0; i < atom_count(s); ++i) {
    cel_box atom = atom_at(s, i);
    find_places(p, s, bytes, &atom, places);
    if (!atom_run(p, s, &atom, places, others))
      cel_bug("an atom left its buffer");
  }
}

static void run_group(const program *p, step *s, memory *m) {
  if (s->home.given) find_home(p, s, m);
  note_owners(p, s, m);
  note_masks(p, s, m);
  step_run(p, s, m->bytes);
  note_written(p, s, m);
}

static void run_fence(const program *p, step *s, memory *m) {
  note_captured(p, s, m);
  const buffer *b = &p->buffer[s->buffer];
  cel_free(s->expect);
  cel_free(s->known);
  s->expect = copy_of(m->bytes[s->buffer],
                      elements(b) * b->element_size * copies(p, s->buffer));
  s->known = copy_of(m->known[s->buffer], elements(b));
}

/* ---- programs ----------------------------------------------------------- */

static bool all_alive(const step *s, const memory *m) {
  if ((s->kind == STEP_FENCE || s->kind == STEP_FREE) && m->freed[s->buffer])
    return false;
  for (int k = 0; k < s->accesses; ++k)
    if (m->freed[s->access[k].buffer]) return false;
  if ((s->kind == STEP_END || s->kind == STEP_LOOK) && m->ended[s->object])
    return false;
  for (int k = 0; k < s->effects; ++k)
    if (m->ended[s->effect[k].object]) return false;
  return true;
}

static bool run_step(const program *p, step *s, memory *m) {
  for (int k = 0; k < s->accesses; ++k)
    if (reduces(&s->access[k]) && s->task != CEL_TASK_KERNEL) return false;
  if (!all_alive(s, m) || !data_stands(p, s, &m->data) ||
      !data_defined(p, s, m->known))
    return false;
  if (s->placement == CEL_PLACE_EACH && s->range.max[0] != p->ranks) {
    if (s->data != DATA_NOT) return false; /* its shares are for so many */
    s->range = cel_box_sized(p->ranks, 1, 1);
    if (!step_valid(p, s)) return false;
  }
  switch (s->kind) {
  case STEP_GROUP: run_group(p, s, m); break;
  case STEP_FENCE: run_fence(p, s, m); break;
  case STEP_FREE: m->freed[s->buffer] = true; break;
  case STEP_END: m->ended[s->object] = true; break;
  case STEP_BAD:
  case STEP_LOOK:
  case STEP_EPOCH: break;
  }
  data_note(p, s, &m->data);
  return true;
}

bool program_interpret(program *p) {
  memory m;
  memory_init(&m, p);
  bool stands = true;
  for (int i = 0; i < p->steps && stands; ++i)
    if (!p->step[i]->dropped) stands = run_step(p, p->step[i], &m);
  memory_release(&m, p);
  return stands;
}
