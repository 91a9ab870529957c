/* The finest chunks of a step: what they compute, and whether that is the same
 * under every split. */
#include <string.h>

#include "random/program.h"

/* ---- atoms -------------------------------------------------------------- */

static const cel_split_kind *splits_of(const step *s) {
  static const cel_split_kind items = {{true, true, true}, {1, 1, 1}};
  static const cel_split_kind rows = {{true, false, false}, {1, 1, 1}};
  if (s->chain > 0) return &items;
  return s->placement == CEL_PLACE_EACH ? &rows : &s->permitted;
}

static int64_t units(const step *s, int d) {
  const cel_split_kind *kind = splits_of(s);
  if (!kind->cut[d]) return 1;
  int64_t size = s->range.max[d] - s->range.min[d];
  return (size + kind->granularity[d] - 1) / kind->granularity[d];
}

int atom_count(const step *s) {
  if (cel_box_is_empty(&s->range)) return 0;
  return (int)(units(s, 0) * units(s, 1) * units(s, 2));
}

/* Units [lo, hi) of dimension d of `box`. */
static void restrict_to(const step *s, int d, int64_t lo, int64_t hi,
                        cel_box *box) {
  const cel_split_kind *kind = splits_of(s);
  if (!kind->cut[d]) return;
  int64_t g = kind->granularity[d];
  box->min[d] = s->range.min[d] + lo * g;
  if (s->range.min[d] + hi * g < s->range.max[d])
    box->max[d] = s->range.min[d] + hi * g;
}

cel_box atom_at(const step *s, int i) {
  cel_box box = s->range;
  for (int d = 2; d >= 0; --d) {
    int64_t n = units(s, d);
    restrict_to(s, d, i % n, i % n + 1, &box);
    i = (int)(i / n);
  }
  return box;
}

cel_box fence_box(const program *p, const step *s, int k) {
  if (s->accesses == 0) return s->box;
  cel_box chunk = {{k, 0, 0}, {k + 1, 1, 1}}, out[MOST_IMAGE];
  int n = rule_image(s->access[0].rule, &s->range, &p->buffer[s->buffer].extent,
                     &chunk, out, NULL);
  return n > 0 ? out[0] : (cel_box){0};
}

/* ---- points ------------------------------------------------------------- */

int64_t index_of(const cel_box *layout, const int64_t *point) {
  int64_t at = 0;
  for (int d = 0; d < 3; ++d)
    at = at * (layout->max[d] - layout->min[d]) + point[d] - layout->min[d];
  return at;
}

static bool inside(const cel_box *box, const int64_t *p) {
  for (int d = 0; d < 3; ++d)
    if (p[d] < box->min[d] || p[d] >= box->max[d]) return false;
  return true;
}

static bool seen_before(const cel_box *box, int n, const int64_t *p) {
  for (int i = 0; i < n; ++i)
    if (inside(&box[i], p)) return true;
  return false;
}

void each_point(const cel_box *box, int n,
                void (*visit)(void *, const int64_t *), void *context) {
  for (int b = 0; b < n; ++b) {
    int64_t p[3];
    for (p[0] = box[b].min[0]; p[0] < box[b].max[0]; ++p[0])
      for (p[1] = box[b].min[1]; p[1] < box[b].max[1]; ++p[1])
        for (p[2] = box[b].min[2]; p[2] < box[b].max[2]; ++p[2])
          if (!seen_before(box, b, p)) visit(context, p);
  }
}

/* ---- what an atom computes ---------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b) {
  cel_random r = {a ^ (b * 0x9e3779b97f4a7c15u)};
  return cel_random_next(&r);
}

typedef struct running {
  const step *step;
  const access *access;
  const place *place;
  const cel_box *extent;
  uint32_t size;
  int number;
  uint64_t sum;
  bool lost;
} running;

char *place_element(const place *at, const int64_t *p, uint32_t size,
                    bool marks) {
  if (!inside(&at->promised, p) || !inside(&at->layout, p)) return NULL;
  if (marks && at->touched != NULL) touched_mark(at->touched, &at->promised, p);
  return at->base + index_of(&at->layout, p) * size;
}

/* `marks`: the access is there for that. */
static char *element(running *at, const int64_t *p, bool marks) {
  char *found = place_element(at->place, p, at->size, marks);
  at->lost |= found == NULL;
  return found;
}

static uint64_t hash_point(const int64_t *p, uint64_t seed) {
  for (int d = 0; d < 3; ++d) seed = mix(seed, (uint64_t)p[d]);
  return seed;
}

static void consume(void *context, const int64_t *p) {
  running *at = context;
  if (at->access->mask[index_of(at->extent, p)] == 0) return;
  const char *bytes = element(at, p, true);
  if (bytes == NULL) return;
  uint64_t value = hash_point(p, (uint64_t)at->number);
  for (uint32_t i = 0; i < at->size; i += 8) {
    uint64_t part = 0;
    memcpy(&part, bytes + i, at->size - i < 8 ? at->size - i : 8);
    value = mix(value, part);
  }
  at->sum += value;
}

static void fill(char *bytes, uint32_t size, uint64_t value) {
  for (uint32_t i = 0; i < size; i += 8) {
    memcpy(bytes + i, &value, size - i < 8 ? size - i : 8);
    value = mix(value, 1);
  }
}

static uint64_t value_at(const step *s, int number, const int64_t *p) {
  return hash_point(p, s->salt + (uint64_t)number);
}

/* `write` keeps what it does not overwrite: leave some of it alone. */
bool atom_writes(const step *s, int number, const int64_t *p) {
  return s->access[number].mode != CEL_MODE_WRITE ||
         value_at(s, number, p) % 4 != 0;
}

static void produce(void *context, const int64_t *p) {
  running *at = context;
  if (!atom_writes(at->step, at->number, p)) return;
  uint64_t value = value_at(at->step, at->number, p);
  /* What is written first may be undefined. */
  char *bytes = element(at, p, at->access->mode != CEL_MODE_READ_WRITE);
  if (bytes != NULL) fill(bytes, at->size, mix(value, at->sum));
}

/* Consumes, or produces, by all accesses that do so. */
static void pass(const program *p, const cel_box *atom, const place *places,
                 bool producing, running *at) {
  const step *s = at->step;
  cel_box box[MOST_IMAGE];
  for (at->number = 0; at->number < s->accesses; ++at->number) {
    at->access = &s->access[at->number];
    bool does = producing ? cel_mode_produces(at->access->mode)
                          : cel_mode_consumes(at->access->mode);
    if (!does || reduces(at->access) || at->access->by_data) continue;
    const buffer *b = &p->buffer[at->access->buffer];
    at->place = &places[at->number];
    at->extent = &b->extent;
    at->size = b->element_size;
    int n =
        rule_image(at->access->rule, &s->range, &b->extent, atom, box, NULL);
    each_point(box, n, producing ? produce : consume, at);
  }
}

bool atom_run(const program *p, const step *s, const cel_box *atom,
              const place *places, uint64_t others) {
  running at = {.step = s, .sum = s->salt + others};
  pass(p, atom, places, false, &at);
  if (s->data != DATA_NOT) return data_atom(p, s, atom, places, at.sum);
  pass(p, atom, places, true, &at);
  uint64_t mine = hash_point(atom->min, at.sum);
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    const buffer *b = &p->buffer[a->buffer];
    if (reduces(a))
      reduce_atom(a->reduce, places[k].base, places[k].row,
                  (uint64_t)cel_box_volume(&b->extent), b->element_size, mine);
  }
  return !at.lost;
}

uint64_t atom_tells(const program *p, const step *s, const cel_box *atom,
                    const place *places) {
  running at = {.step = s, .sum = s->salt};
  pass(p, atom, places, false, &at);
  return hash_point(atom->min, at.sum);
}

void initial_bytes(int buffer, const int64_t *point, void *out, uint32_t size) {
  fill(out, size, hash_point(point, 0xb0ffe2 + (uint64_t)buffer));
}

/* ---- validity ----------------------------------------------------------- */

typedef struct painting {
  int16_t *grid;
  const cel_box *extent;
  int16_t color;
  bool clash; /* a point had another color, not 0 */
} painting;

static void paint(void *context, const int64_t *p) {
  painting *at = context;
  int16_t *cell = &at->grid[index_of(at->extent, p)];
  if (*cell != 0 && *cell != at->color) at->clash = true;
  *cell = at->color;
}

static void look(void *context, const int64_t *p) {
  painting *at = context;
  int16_t cell = at->grid[index_of(at->extent, p)];
  if (cell != 0 && cell != at->color) at->clash = true;
}

/* Visits the image of a chunk; false when it leaves the buffer. */
static bool image(const program *p, const step *s, const access *a,
                  const cel_box *chunk, painting *at,
                  void (*visit)(void *, const int64_t *)) {
  cel_box box[MOST_IMAGE];
  bool left = false;
  int n = rule_image(a->rule, &s->range, &p->buffer[a->buffer].extent, chunk,
                     box, &left);
  if (visit != NULL) each_point(box, n, visit, at);
  return !left;
}

/* Elements of a buffer, a bit for each. */
typedef struct set {
  uint64_t word[MOST_ELEMENTS / 64];
} set;

static bool has(const set *of, int64_t i) {
  return (of->word[i / 64] >> i % 64 & 1) != 0;
}

static void add_row(set *to, int64_t from, int64_t end) {
  for (int64_t w = from / 64; w * 64 < end; ++w) {
    uint64_t bits = UINT64_MAX;
    if (w * 64 < from) bits &= UINT64_MAX << from % 64;
    if (end < (w + 1) * 64) bits &= ~(UINT64_MAX << end % 64);
    to->word[w] |= bits;
  }
}

/* Adds the image of a chunk; false when it leaves the buffer. */
static bool add_image(const program *p, const step *s, const access *a,
                      const cel_box *chunk, set *to) {
  const cel_box *extent = &p->buffer[a->buffer].extent;
  cel_box box[MOST_IMAGE];
  bool left = false;
  int n = rule_image(a->rule, &s->range, extent, chunk, box, &left);
  for (int b = 0; b < n; ++b) {
    int64_t at[3], row = box[b].max[2] - box[b].min[2];
    at[2] = box[b].min[2];
    if (row <= 0) continue;
    for (at[0] = box[b].min[0]; at[0] < box[b].max[0]; ++at[0])
      for (at[1] = box[b].min[1]; at[1] < box[b].max[1]; ++at[1]) {
        int64_t from = index_of(extent, at);
        add_row(to, from, from + row);
      }
  }
  return !left;
}

/* Whether no other access of the step has the same buffer. */
static bool alone(const step *s, const access *a) {
  for (int k = 0; k < s->accesses; ++k)
    if (&s->access[k] != a && s->access[k].buffer == a->buffer) return false;
  return true;
}

/* Units lo to hi of each dimension. */
typedef struct span {
  int64_t lo[3], hi[3];
} span;

static cel_box chunk_of(const step *s, const span *units) {
  cel_box chunk = s->range;
  for (int d = 0; d < 3; ++d)
    restrict_to(s, d, units->lo[d], units->hi[d], &chunk);
  return chunk;
}

/* The next span within n, in some order; false after the last. */
static bool next_span(span *at, const int64_t n[3]) {
  for (int d = 0; d < 3; ++d) {
    if (at->hi[d] < n[d]) {
      at->hi[d]++;
      return true;
    }
    if (at->lo[d] + 1 < n[d]) {
      at->lo[d]++;
      at->hi[d] = at->lo[d] + 1;
      return true;
    }
    at->lo[d] = 0;
    at->hi[d] = 1;
  }
  return false;
}

/* Whether `whole` has what `parts` have, and more only in a box around that. */
static bool lies_around(const set *whole, const set *parts,
                        const cel_box *extent) {
  cel_box hull = {0};
  int64_t p[3];
  for (int w = 0; w < MOST_ELEMENTS / 64; ++w)
    if ((parts->word[w] & ~whole->word[w]) != 0) return false;
  if (memcmp(whole, parts, sizeof *whole) == 0) return true;
  for (int inside_hull = 0; inside_hull < 2; ++inside_hull)
    for (p[0] = 0; p[0] < extent->max[0]; ++p[0])
      for (p[1] = 0; p[1] < extent->max[1]; ++p[1])
        for (p[2] = 0; p[2] < extent->max[2]; ++p[2]) {
          int64_t i = index_of(extent, p);
          cel_box point = {{p[0], p[1], p[2]}, {p[0] + 1, p[1] + 1, p[2] + 1}};
          if (!inside_hull && has(parts, i)) hull = cel_box_hull(&hull, &point);
          if (inside_hull && has(whole, i) && !inside(&hull, p)) return false;
        }
  return true;
}

/* A chunk's image is that of its last slice and that of the rest, or, where it
 * is only read and not `exact`, lies around that. By induction it is that of
 * its atoms, or holds it. */
static bool parts_make_whole(const program *p, const step *s, const access *a,
                             const span *units, bool exact) {
  int d = 0;
  while (d < 3 && units->hi[d] - units->lo[d] == 1) ++d;
  if (d == 3) return true;
  set whole = {0}, parts = {0};
  span some = *units;
  cel_box chunk = chunk_of(s, &some);
  if (!add_image(p, s, a, &chunk, &whole)) return false;
  some.hi[d] = units->hi[d] - 1;
  chunk = chunk_of(s, &some);
  if (!add_image(p, s, a, &chunk, &parts)) return false;
  some.hi[d] = units->hi[d];
  some.lo[d] = units->hi[d] - 1;
  chunk = chunk_of(s, &some);
  if (!add_image(p, s, a, &chunk, &parts)) return false;
  if (!exact && a->mode == CEL_MODE_READ)
    return lies_around(&whole, &parts, &p->buffer[a->buffer].extent);
  return memcmp(&whole, &parts, sizeof whole) == 0;
}

/* What lies on the two sides of a cut is apart. All rules grow with the chunk,
 * so that holds for smaller chunks too. */
static bool sides_apart(const program *p, const step *s, const access *a,
                        const span *all, int d, int64_t cut) {
  set side[2] = {0};
  span some = *all;
  some.hi[d] = cut;
  cel_box chunk = chunk_of(s, &some);
  add_image(p, s, a, &chunk, &side[0]);
  some = *all;
  some.lo[d] = cut;
  chunk = chunk_of(s, &some);
  add_image(p, s, a, &chunk, &side[1]);
  for (int w = 0; w < MOST_ELEMENTS / 64; ++w)
    if ((side[0].word[w] & side[1].word[w]) != 0) return false;
  return true;
}

/* Whether each atom writes what no other can see. */
static bool is_own(const program *p, const step *s, int buffer) {
  return p->buffer[buffer].apart && s->placement == CEL_PLACE_EACH;
}

/* For chunks of all permitted splits: the image is the union of the atoms'
 * images, or around it, and different chunks' images are apart, each where that
 * matters. */
static bool splits_agree(const program *p, const step *s, const access *a) {
  int64_t n[3] = {units(s, 0), units(s, 1), units(s, 2)};
  span all = {{0, 0, 0}, {n[0], n[1], n[2]}};
  if (cel_mode_produces(a->mode) && !is_own(p, s, a->buffer))
    for (int d = 0; d < 3; ++d)
      for (int64_t cut = 1; cut < n[d]; ++cut)
        if (!sides_apart(p, s, a, &all, d, cut)) return false;
  if (!cel_mode_consumes(a->mode) && alone(s, a)) return true;
  span at = {{0, 0, 0}, {1, 1, 1}};
  do {
    if (!parts_make_whole(p, s, a, &at, false)) return false;
  } while (next_span(&at, n));
  return true;
}

bool has_gaps(const program *p, const step *s, const access *a) {
  int64_t n[3] = {units(s, 0), units(s, 1), units(s, 2)};
  span at = {{0, 0, 0}, {1, 1, 1}};
  if (a->rule == NULL || !a->rule->around || cel_box_is_empty(&s->range))
    return false;
  do {
    if (!parts_make_whole(p, s, a, &at, true)) return true;
  } while (next_span(&at, n));
  return false;
}

/* Nothing that one atom writes is touched by another. */
static bool atoms_apart(const program *p, const step *s, int buffer) {
  bool produced = false;
  for (int k = 0; k < s->accesses; ++k)
    produced |=
        s->access[k].buffer == buffer && cel_mode_produces(s->access[k].mode);
  if (!produced || is_own(p, s, buffer)) return true;
  int16_t grid[MOST_ELEMENTS] = {0};
  painting at = {grid, &p->buffer[buffer].extent, 0, false};
  for (int looking = 0; looking < 2; ++looking) {
    for (int i = 0; i < atom_count(s); ++i) {
      cel_box atom = atom_at(s, i);
      at.color = (int16_t)(i + 1);
      for (int k = 0; k < s->accesses; ++k) {
        const access *a = &s->access[k];
        if (a->buffer != buffer) continue;
        if (!looking && cel_mode_produces(a->mode))
          image(p, s, a, &atom, &at, paint);
        if (looking && cel_mode_consumes(a->mode))
          image(p, s, a, &atom, &at, look);
      }
    }
  }
  return !at.clash;
}

/* Of the accesses from `first` on; the others were valid without them. */
static bool accesses_valid(const program *p, const step *s, int first) {
  for (int k = 0; k < s->accesses; ++k)
    if (reduces(&s->access[k]) && !alone(s, &s->access[k])) return false;
  for (int k = first; k < s->accesses; ++k) {
    if (!image(p, s, &s->access[k], &s->range, NULL, NULL)) return false;
  }
  for (int i = 0; i < atom_count(s); ++i) {
    cel_box atom = atom_at(s, i);
    for (int k = first; k < s->accesses; ++k)
      if (!image(p, s, &s->access[k], &atom, NULL, NULL)) return false;
  }
  for (int k = 0; k < s->accesses; ++k)
    if (!reduces(&s->access[k]) && (k >= first || !alone(s, &s->access[k])) &&
        !splits_agree(p, s, &s->access[k]))
      return false;
  for (int k = first; k < s->accesses; ++k)
    if (!reduces(&s->access[k]) && !atoms_apart(p, s, s->access[k].buffer))
      return false;
  return true;
}

bool step_valid(const program *p, const step *s) {
  return cel_box_is_empty(&s->range) || accesses_valid(p, s, 0);
}

bool step_valid_last(const program *p, const step *s) {
  return cel_box_is_empty(&s->range) || accesses_valid(p, s, s->accesses - 1);
}
