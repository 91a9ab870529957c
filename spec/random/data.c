/* Access that data decide: images, routes and lists.
 *
 * Such a program has an index, whose entries are rows of another buffer; a
 * list, whose bins hold such entries; an arena, which kernels push to. A kernel
 * that reads by an image is given each rank's copy of the rows that its part of
 * the index names, which host tasks have found and brought as celer.image has
 * it; the interpreter reads the rows where they are. What is pushed goes where
 * it belongs by the functions of cg:route; the interpreter combines and appends
 * one value after the other. What must be found and brought anew follows from
 * what has been written since, and both know it. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "comm/communicator.h"
#include "random/program.h"

enum {
  MOST_ENTRIES = 40,
  MOST_BINS = 12,
  MOST_ITEMS = 32,
  MOST_PUSHES = 3, /* of an item */
  MOST_VALUES = 128,
  MOST_AROUND = 3,
  MOST_VALUE = 24, /* bytes */
  WORDS = 1 + MOST_PUSHES + MOST_PUSHES * MOST_VALUE / 8,
  NO_ROW = -7 /* what an entry says that names none */
};

static int64_t pick(cel_random *r, int64_t lo, int64_t hi) {
  return cel_random_int(r, lo, hi);
}

static int64_t rows_of(const program *p, int buffer) {
  return p->buffer[buffer].extent.max[0];
}

static int64_t row_elements(const program *p, int buffer) {
  return cel_box_volume(&p->buffer[buffer].extent) / rows_of(p, buffer);
}

static uint64_t row_bytes(const program *p, int buffer) {
  return (uint64_t)row_elements(p, buffer) * p->buffer[buffer].element_size;
}

static uint64_t hash_of(uint64_t a, uint64_t b) {
  uint64_t what[] = {a, b};
  return cel_hash(what, sizeof what, 0);
}

int data_source(const program *p, int buffer) {
  for (int i = 0; p->has_data && i < IMAGES; ++i)
    if (p->image[i].copy == buffer) return p->image[i].target;
  return buffer;
}

/* ---- buffers --------------------------------------------------------------
 */

bool seed_has_data(uint64_t seed) {
  cel_random r = {seed ^ 0x726f757466};
  return cel_random_chance(&r, 25);
}

static int buffer_add(program *p, role role, int64_t rows, uint32_t size) {
  p->buffer[p->buffers] = (buffer){.dims = 1,
                                   .role = role,
                                   .extent = cel_box_sized(rows, 1, 1),
                                   .element_size = size};
  return p->buffers++;
}

static void image_add(cel_random *r, program *p, data_image *im) {
  int64_t rows = rows_of(p, im->target);
  if (im->kind == CEL_IMAGE_ELEMENTS) {
    im->low = rows > 2 ? pick(r, -1, 0) : 0;
    im->high = rows > 2 ? pick(r, 0, 1) : 0;
    im->odd = cel_random_chance(r, 50);
  }
  /* What another image goes through names exactly its rows. */
  if (im != p->image && cel_random_chance(r, 30))
    im->around = pick(r, 1, MOST_AROUND);
  int64_t words = (int64_t)cel_image_words(rows, MOST_RANKS);
  im->plan = buffer_add(p, ROLE_HIDDEN, words + 1, 8);
  p->buffer[im->plan].apart = p->buffer[im->plan].init = true;
  im->copy = p->buffers++;
  p->buffer[im->copy] = p->buffer[im->target];
  p->buffer[im->copy].role = ROLE_HIDDEN;
  p->buffer[im->copy].apart = true;
  p->buffer[im->copy].init = false;
}

/* What is read by images: any buffer that ranks share. */
static int some_target(cel_random *r, const program *p) {
  int b = (int)pick(r, 0, p->buffers - 1);
  for (int i = 0; i < p->buffers; ++i, b = (b + 1) % p->buffers)
    if (p->buffer[b].dims > 0 && !p->buffer[b].apart) return b;
  return -1;
}

void data_buffers_generate(program *p) {
  cel_random r = {p->seed ^ 0x696d616765};
  int target = seed_has_data(p->seed) ? some_target(&r, p) : -1;
  if (target < 0) return;
  p->has_data = true;
  p->index = buffer_add(p, ROLE_KEPT, pick(&r, 1, MOST_ENTRIES),
                        cel_random_chance(&r, 50) ? 4 : 8);
  p->offsets = buffer_add(p, ROLE_KEPT, pick(&r, 2, MOST_BINS + 1), 8);
  int64_t items = pick(&r, 1, MOST_ITEMS);
  int64_t values = items * pick(&r, MOST_PUSHES, 10);
  if (values > MOST_VALUES) values = MOST_VALUES;
  p->values = buffer_add(p, ROLE_KEPT, values, 8);
  p->spare =
      buffer_add(p, ROLE_KEPT, pick(&r, items * MOST_PUSHES, MOST_VALUES), 8);
  p->arena = buffer_add(p, ROLE_HIDDEN, items, 8);
  p->buffer[p->arena].dims = 2;
  p->buffer[p->arena].extent.max[1] = WORDS;
  p->image[0] =
      (data_image){CEL_IMAGE_OFFSETS, -1, p->offsets, p->values, .odd = 0};
  p->image[1] =
      (data_image){CEL_IMAGE_ELEMENTS, 0, p->values, target, .odd = 0};
  p->image[2] =
      (data_image){CEL_IMAGE_ELEMENTS, -1, p->index, target, .odd = 0};
  for (int i = 0; i < IMAGES; ++i) image_add(&r, p, &p->image[i]);
}

/* ---- what has become of it -------------------------------------------------
 */

/* Whether each rank has the same chunk of both. */
static bool same_cut(const step *a, const step *b) {
  return a != NULL && cel_box_equal(&a->range, &b->range) &&
         memcmp(&a->permitted, &b->permitted, sizeof a->permitted) == 0 &&
         a->rank_weights == b->rank_weights &&
         memcmp(a->rank_weight, b->rank_weight, sizeof a->rank_weight) == 0;
}

/* Whether its rows have been found, of all that is there now. */
static bool is_found(const program *p, const data_state *state, int i) {
  const struct image_state *at = &state->image[i];
  int inner = p->image[i].through;
  return at->current && at->of == state->version[p->image[i].index] &&
         (inner < 0 || at->inner == state->image[inner].met);
}

static bool is_brought(const program *p, const data_state *state, int i) {
  const struct image_state *at = &state->image[i];
  return is_found(p, state, i) && at->brought && at->with == at->met &&
         at->had == state->version[p->image[i].target];
}

static bool is_of_list(const step *s) {
  return (s->data == DATA_FIND || s->data == DATA_GATHER) && s->image < 2;
}

static bool image_stands(const program *p, const step *s,
                         const data_state *state) {
  const data_image *im = &p->image[s->image];
  const struct image_state *at = &state->image[s->image];
  const struct image_state *inner =
      im->through < 0 ? NULL : &state->image[im->through];
  if (p->buffer[im->copy].element_size != p->buffer[im->target].element_size ||
      (is_of_list(s) && state->in != p->values))
    return false;
  if (inner != NULL && (s->data == DATA_FIND || s->data == DATA_GATHER) &&
      !(is_brought(p, state, im->through) && same_cut(inner->find, s)))
    return false;
  switch (s->data) {
  case DATA_MEET:
    return at->find != NULL && at->find->number == s->after &&
           at->of == state->version[im->index];
  case DATA_BRING: return is_found(p, state, s->image);
  case DATA_GATHER:
    return is_brought(p, state, s->image) && same_cut(at->find, s);
  default: return true;
  }
}

static int64_t pushes(const program *p) {
  return rows_of(p, p->arena) * MOST_PUSHES;
}

static bool is_kept(const step *s) {
  return s->access[1].mode == CEL_MODE_READ_WRITE;
}

static bool route_stands(const program *p, const step *s,
                         const data_state *state) {
  if (p->buffer[s->to].element_size != (uint32_t)(s->type.size * s->type.count))
    return false;
  if (s->data == DATA_PUSH) return true;
  if (state->pushed != s->after) return false;
  if (s->data == DATA_COMBINE) return true;
  return is_kept(s) ? s->from == state->in &&
                          state->held + pushes(p) <= rows_of(p, s->to)
                    : pushes(p) <= rows_of(p, s->to);
}

bool data_stands(const program *p, const step *s, const data_state *state) {
  int n = 0;
  if (s->data == DATA_NOT) return true;
  for (int k = 0; k < s->accesses; ++k) n += s->access[k].by_data;
  if (n != s->by_data || (s->collective > 0) != (s->data > DATA_FIND))
    return false;
  if (s->data == DATA_PUSH || s->data >= DATA_COMBINE)
    return route_stands(p, s, state);
  return image_stands(p, s, state);
}

void data_note(const program *p, const step *s, data_state *state) {
  if (s->kind != STEP_GROUP) return;
  for (int k = 0; k < s->accesses; ++k)
    if (cel_mode_produces(s->access[k].mode))
      ++state->version[s->access[k].buffer];
  if (s->data == DATA_NOT) return;
  const data_image *im = &p->image[s->image];
  struct image_state *at = &state->image[s->image];
  switch (s->data) {
  case DATA_FIND:
    *at = (struct image_state){
        .find = s,
        .of = state->version[im->index],
        .inner = im->through < 0 ? 0 : state->image[im->through].met,
        .met = at->met};
    break;
  case DATA_MEET:
    at->current = true;
    ++at->met;
    break;
  case DATA_BRING:
    at->brought = true;
    at->with = at->met;
    at->had = state->version[im->target];
    break;
  case DATA_PUSH: state->pushed = s->number; break;
  case DATA_APPEND:
    state->held = (is_kept(s) ? state->held : 0) + pushes(p);
    state->in = s->to;
    break;
  default: break;
  }
}

static bool all_known(const program *p, int buffer, uint8_t *const *known) {
  return memchr(known[buffer], 0,
                (size_t)cel_box_volume(&p->buffer[buffer].extent)) == NULL;
}

bool data_defined(const program *p, const step *s, uint8_t *const *known) {
  switch (s->data) {
  case DATA_FIND:
  case DATA_GATHER: return all_known(p, p->image[s->image].index, known);
  case DATA_APPEND: return !is_kept(s) || all_known(p, p->offsets, known);
  default: return true;
  }
}

/* ---- numbers ----------------------------------------------------------------
 */

static int64_t load(const char *from, uint32_t size, bool is_signed) {
  uint64_t out = 0;
  memcpy(&out, from, size);
  int rest = 64 - 8 * (int)size;
  return is_signed ? (int64_t)(out << rest) >> rest : (int64_t)out;
}

/* An entry that an index may have, of rows that are there, or none. */
static int64_t entry_of(const program *p, const data_image *im, uint64_t hash) {
  int64_t rows = rows_of(p, im->target);
  if (im->odd && hash % 8 == 0) return NO_ROW;
  if (im->odd && hash % 8 == 1) return rows + (int64_t)(hash >> 60);
  return (int64_t)(hash >> 8) % (rows - im->high + im->low) - im->low;
}

static uint64_t one_of(cel_route_type t, uint64_t hash) {
  uint64_t out = hash;
  double real = ((double)(hash % 2001) - 1000) * 0.37;
  float single = (float)real;
  if (t.class_ == 'f' && t.size == 8) memcpy(&out, &real, 8);
  if (t.class_ == 'f' && t.size == 4) memcpy(&out, &single, 4);
  return out;
}

/* What elements begin with. */
static void identity_of(cel_route_type t, char *out) {
  bool real = t.class_ == 'f', least = t.op == CEL_ROUTE_MAX;
  double d = t.op == CEL_ROUTE_SUM    ? 0
             : t.op == CEL_ROUTE_PROD ? 1
             : least                  ? -INFINITY
                                      : INFINITY;
  float f = (float)d;
  uint64_t top = (uint64_t)1 << (8 * t.size - 1), bits = 0;
  if (t.op == CEL_ROUTE_PROD) bits = 1;
  if (t.op == CEL_ROUTE_AND) bits = UINT64_MAX;
  if (t.op == CEL_ROUTE_MIN) bits = t.class_ == 'i' ? top - 1 : UINT64_MAX;
  if (t.op == CEL_ROUTE_MAX) bits = t.class_ == 'i' ? top : 0;
  for (int i = 0; i < t.count; ++i, out += t.size)
    memcpy(out, real ? t.size == 8 ? (void *)&d : (void *)&f : (void *)&bits,
           (size_t)t.size);
}

#define REAL(type)                                                             \
  static void combine_##type(cel_route_op op, char *to, const char *from) {    \
    type a, b;                                                                 \
    memcpy(&a, to, sizeof a);                                                  \
    memcpy(&b, from, sizeof b);                                                \
    if (op == CEL_ROUTE_SUM) a += b;                                           \
    if (op == CEL_ROUTE_PROD) a *= b;                                          \
    if ((op == CEL_ROUTE_MIN && b < a) || (op == CEL_ROUTE_MAX && b > a))      \
      a = b;                                                                   \
    memcpy(to, &a, sizeof a);                                                  \
  }
REAL(float)
REAL(double)
#undef REAL

static void combine_whole(cel_route_type t, char *to, const char *from) {
  bool is_signed = t.class_ == 'i';
  uint64_t a = (uint64_t)load(to, (uint32_t)t.size, is_signed),
           b = (uint64_t)load(from, (uint32_t)t.size, is_signed);
  bool less = is_signed ? (int64_t)b < (int64_t)a : b < a;
  switch (t.op) {
  case CEL_ROUTE_SUM: a += b; break;
  case CEL_ROUTE_PROD: a *= b; break;
  case CEL_ROUTE_MIN: a = less ? b : a; break;
  case CEL_ROUTE_MAX: a = less ? a : b; break;
  case CEL_ROUTE_AND: a &= b; break;
  case CEL_ROUTE_OR: a |= b; break;
  }
  memcpy(to, &a, (size_t)t.size);
}

static void combine(cel_route_type t, char *to, const char *from) {
  for (int i = 0; i < t.count; ++i, to += t.size, from += t.size) {
    if (t.class_ != 'f')
      combine_whole(t, to, from);
    else if (t.size == 8)
      combine_double(t.op, to, from);
    else
      combine_float(t.op, to, from);
  }
}

/* ---- kernels ----------------------------------------------------------------
 */

typedef struct running {
  const program *p;
  const step *s;
  const place *places;
  uint64_t sum;
  bool lost;
} running;

/* Element (i, 0, 0) of access k. */
static char *first_of(running *at, int k, int64_t i) {
  const buffer *b = &at->p->buffer[at->s->access[k].buffer];
  char *found =
      place_element(&at->places[k], (int64_t[]){i, 0, 0}, b->element_size,
                    at->s->access[k].mode == CEL_MODE_DISCARD_WRITE);
  at->lost |= found == NULL;
  return found;
}

static int64_t entry_at(running *at, int k, int64_t i) {
  const char *from = first_of(at, k, i);
  const buffer *b = &at->p->buffer[at->s->access[k].buffer];
  return from == NULL ? 0 : load(from, b->element_size, true);
}

static void hash_element(void *context, const int64_t *point) {
  running *at = context;
  int k = at->s->accesses - 2;
  const access *a = &at->s->access[k];
  const buffer *b = &at->p->buffer[a->buffer];
  int64_t i = index_of(&b->extent, point);
  if (a->mask[i] == 0) return;
  const char *from =
      place_element(&at->places[k], point, b->element_size, false);
  at->lost |= from == NULL;
  if (from != NULL) at->sum += cel_hash(from, b->element_size, (uint64_t)i);
}

static void hash_rows(running *at, int64_t first, int64_t end) {
  const buffer *b = &at->p->buffer[at->s->access[at->s->accesses - 2].buffer];
  cel_box box = b->extent;
  box.min[0] = first;
  box.max[0] = end;
  each_point(&box, 1, hash_element, at);
}

/* By its first accesses, of which the last one before what is written has the
 * rows. */
static void follow(running *at, int image, int k, int64_t i);

static void follow_rows(running *at, int k, int64_t first, int64_t end) {
  at->lost |= first < 0 || end > rows_of(at->p, at->s->access[k].buffer);
  if (at->lost) return;
  if (k == at->s->accesses - 2)
    hash_rows(at, first, end);
  else
    for (int64_t row = first; row < end; ++row)
      follow(at, at->s->image, k, row);
}

static void follow(running *at, int image, int k, int64_t i) {
  const data_image *im = &at->p->image[image];
  int64_t value = entry_at(at, k, i);
  if (im->kind == CEL_IMAGE_OFFSETS) {
    follow_rows(at, k + 1, value, entry_at(at, k, i + 1));
  } else {
    bool none =
        value == NO_ROW || value + im->high >= rows_of(at->p, im->target);
    if (!none) follow_rows(at, k + 1, value + im->low, value + im->high + 1);
  }
}

static void write_row(void *context, const int64_t *point) {
  running *at = context;
  int k = at->s->accesses - 1;
  uint32_t size = at->p->buffer[at->s->access[k].buffer].element_size;
  char *to = place_element(&at->places[k], point, size, true);
  at->lost |= to == NULL;
  uint64_t value =
      hash_of(at->sum, (uint64_t)point[0] << 32 | (uint64_t)point[1] << 16 |
                           (uint64_t)point[2]);
  for (uint32_t i = 0; to != NULL && i < size; i += 8)
    memcpy(to + i, &value, size - i < 8 ? size - i : 8);
}

static void gather(running *at, int64_t item) {
  int outer = at->p->image[at->s->image].through;
  follow(at, outer < 0 ? at->s->image : outer, 0, item);
  cel_box row = at->p->buffer[at->s->access[at->s->accesses - 1].buffer].extent;
  row.min[0] = item;
  row.max[0] = item + 1;
  each_point(&row, 1, write_row, at);
}

static void name(running *at, int64_t item) {
  const program *p = at->p;
  const data_image *im = &p->image[at->s->image];
  int64_t value = entry_of(p, im, hash_of(at->sum, (uint64_t)item));
  char *to = first_of(at, 0, item);
  if (to != NULL) memcpy(to, &value, p->buffer[im->index].element_size);
}

/* An item's slots, as kernels/route.cuh has them: the count and the keys, of 32
 * bits or, after a word for the count, of 64; then the values. */
static int64_t head_of(const step *s) {
  return s->wide ? 1 + MOST_PUSHES : (1 + MOST_PUSHES + 1) / 2;
}

static void set_word(uint64_t *slot, uint64_t k, uint32_t word) {
  memcpy((char *)slot + 4 * k, &word, 4);
}

static uint32_t word_of(const uint64_t *slot, uint64_t k) {
  uint32_t word;
  memcpy(&word, (const char *)slot + 4 * k, 4);
  return word;
}

static void set_key(const step *s, uint64_t *slot, uint64_t k, uint64_t key) {
  if (s->wide)
    slot[1 + k] = key;
  else
    set_word(slot, 1 + k, (uint32_t)key);
}

static int64_t key_of(const step *s, const uint64_t *slot, uint64_t k) {
  return s->wide ? (int64_t)slot[1 + k] : word_of(slot, 1 + k);
}

static void push(running *at, int64_t item) {
  const program *p = at->p;
  const step *s = at->s;
  uint64_t slot[WORDS] = {0}, hash = hash_of(at->sum, (uint64_t)item);
  bool bins = s->to == p->values || s->to == p->spare;
  uint64_t keys = bins ? (uint64_t)rows_of(p, p->offsets) - 1
                       : (uint64_t)cel_box_volume(&p->buffer[s->to].extent);
  char *value = (char *)(slot + head_of(s));
  uint64_t n = hash % (MOST_PUSHES + 1);
  set_word(slot, 0, (uint32_t)n);
  for (uint64_t k = 0; k < n; ++k) {
    uint64_t few = hash_of(s->salt, 1) % 2 == 0 && keys > 2 ? 2 : keys;
    set_key(s, slot, k, hash_of(hash, k) % few);
    for (int i = 0; i < s->type.count; ++i, value += s->type.size) {
      uint64_t one = hash_of(hash, 8 + 4 * k + (uint64_t)i);
      one = bins ? (uint64_t)entry_of(p, &p->image[1], one)
                 : one_of(s->type, one);
      memcpy(value, &one, (size_t)s->type.size);
    }
  }
  for (int64_t w = 0; w < WORDS; ++w) {
    char *to = place_element(
        &at->places[0], (int64_t[]){item - s->range.min[0], w, 0}, 8, true);
    at->lost |= to == NULL;
    if (to != NULL) memcpy(to, &slot[w], 8);
  }
}

bool data_atom(const program *p, const step *s, const cel_box *atom,
               const place *places, uint64_t sum) {
  running at = {.p = p, .s = s, .places = places};
  for (int64_t i = atom->min[0]; i < atom->max[0]; ++i) {
    at.sum = sum;
    if (s->data == DATA_GATHER) gather(&at, i);
    if (s->data == DATA_NAME) name(&at, i);
    if (s->data == DATA_PUSH) push(&at, i);
  }
  return !at.lost;
}

/* ---- in the interpreter's memory --------------------------------------------
 */

typedef void (*taker)(void *context, int64_t key, const char *value);

/* In the order of items and of their pushes. */
static void each_pushed(const program *p, const step *s, const char *arena,
                        taker take, void *context) {
  size_t bytes = (size_t)(s->type.size * s->type.count);
  for (int64_t i = 0; i < rows_of(p, p->arena); ++i) {
    uint64_t slot[WORDS];
    memcpy(slot, arena + i * (int64_t)sizeof slot, sizeof slot);
    const char *value = (const char *)(slot + head_of(s));
    for (uint64_t k = 0; k < word_of(slot, 0); ++k)
      take(context, key_of(s, slot, k), value + k * bytes);
  }
}

typedef struct target {
  const step *s;
  char *bytes;
} target;

static void combine_pushed(void *context, int64_t key, const char *value) {
  const target *at = context;
  cel_route_type t = at->s->type;
  combine(t, at->bytes + key * t.size * t.count, value);
}

typedef struct bins {
  int64_t count, length[MOST_BINS];
  int64_t value[MOST_BINS][MOST_VALUES];
} bins;

static void append_pushed(void *context, int64_t key, const char *value) {
  bins *at = context;
  memcpy(&at->value[key][at->length[key]++], value, 8);
}

static void append(const program *p, const step *s, char *const *bytes) {
  int64_t *offset = (int64_t *)(void *)bytes[p->offsets], n = 0;
  int64_t *values = (int64_t *)(void *)bytes[s->to];
  const int64_t *from = (const int64_t *)(void *)bytes[s->from];
  bins *at = cel_alloc_zero(sizeof *at);
  at->count = rows_of(p, p->offsets) - 1;
  for (int64_t b = 0; is_kept(s) && b < at->count; ++b)
    for (int64_t i = offset[b]; i < offset[b + 1]; ++i)
      at->value[b][at->length[b]++] = from[i];
  each_pushed(p, s, bytes[p->arena], append_pushed, at);
  memset(values, 0, (size_t)rows_of(p, s->to) * 8);
  for (int64_t b = 0; b < at->count; ++b) {
    offset[b] = n;
    for (int64_t i = 0; i < at->length[b]; ++i) values[n++] = at->value[b][i];
  }
  offset[at->count] = n;
  cel_free(at);
}

void data_run(const program *p, const step *s, char *const *bytes) {
  target at = {s, bytes[s->to]};
  int64_t n = cel_box_volume(&p->buffer[s->to].extent);
  if (s->data == DATA_APPEND) append(p, s, bytes);
  if (s->data != DATA_COMBINE) return;
  for (int64_t i = 0; !is_kept(s) && i < n; ++i)
    identity_of(s->type, at.bytes + i * s->type.size * s->type.count);
  each_pushed(p, s, bytes[p->arena], combine_pushed, &at);
}

/* ---- as the engine does it
 * --------------------------------------------------- */

/* What a view promises begins there. */
static void *begin_of(const cel_view *v, uint32_t size) {
  return (char *)v->base + index_of(&v->layout, v->box.min) * size;
}

static int64_t rows_in(const cel_view *v) {
  return cel_box_is_empty(&v->box) ? 0 : v->box.max[0] - v->box.min[0];
}

/* Where one of this rank's buffers that are apart lies; behind a word that says
 * which step has found it, a plan. */
static int64_t *words_of(const cel_view *v) {
  return begin_of(v, 8);
}

/* All that is promised is written now. */
static void mark_all(void *context, const int64_t *point) {
  const cel_view *v = context;
  if (v->touched != NULL) touched_mark(v->touched, &v->box, point);
}

/* What is marked; or few boxes around it. */
static void list(const program *p, const data_image *im, cel_image_marks *marks,
                 int64_t *plan) {
  int64_t rows = rows_of(p, im->target), boxes[2 * MOST_AROUND];
  cel_image_list(marks, rows, p->ranks, plan);
  if (im->around == 0 || plan[p->ranks] == 0) return;
  int64_t n = cel_image_boxes(plan, p->ranks, 1, im->around, boxes);
  for (int64_t b = 0; b < n; ++b)
    cel_image_mark_rows(marks, boxes[2 * b], boxes[2 * b + 1]);
  cel_image_list(marks, rows, p->ranks, plan);
}

static cel_status find(const program *p, const step *s, const cel_call *call) {
  const data_image *im = &p->image[s->image];
  const cel_view *entries = &call->view[im->through < 0 ? 0 : 1];
  int64_t *words = words_of(&call->view[s->accesses - 1]);
  int64_t rows = rows_of(p, im->target);
  cel_image_index index = {
      .base = entries->base,
      .type = p->buffer[im->index].element_size == 4 ? CEL_IMAGE_INT32
                                                     : CEL_IMAGE_INT64,
      .kind = im->kind,
      .reach = {.least = INT64_MIN,
                .most = im->odd ? rows - 1 - im->high : INT64_MAX,
                .except = im->odd ? NO_ROW : INT64_MIN,
                .last = -1,
                .step = 1,
                .low = im->low,
                .high = im->high}};
  int64_t min[3], max[3];
  for (int d = 0; d < 3; ++d) {
    index.min[d] = entries->layout.min[d];
    index.size[d] = entries->layout.max[d] - entries->layout.min[d];
    min[d] = entries->box.min[d];
    max[d] = entries->box.max[d];
  }
  max[0] -= im->kind == CEL_IMAGE_OFFSETS;
  cel_image_marks *marks = cel_image_marks_create(rows);
  cel_image_fault fault;
  bool good =
      im->through < 0
          ? cel_image_mark(marks, &index, min, max, &fault)
          : cel_image_mark_through(marks, &index, words_of(&call->view[0]) + 1,
                                   p->ranks, &fault);
  words[0] = s->number;
  if (good) list(p, im, marks, words + 1);
  cel_image_marks_destroy(marks);
  if (good) return CEL_E_OK;
  return cel_fail(CEL_E_TASK, "entry %lld is %lld", (long long)fault.at[0],
                  (long long)fault.value);
}

static cel_status meet(const program *p, const step *s, const cel_call *call) {
  int64_t *words = words_of(&call->view[0]);
  if (words[0] != s->after) /* a rank without a chunk has found nothing */
    cel_image_list(NULL, rows_of(p, p->image[s->image].target), p->ranks,
                   words + 1);
  return cel_image_meet(call->comm, words + 1);
}

static cel_status bring(const program *p, const step *s, const cel_call *call) {
  const data_image *im = &p->image[s->image];
  uint32_t size = p->buffer[im->target].element_size;
  cel_image_room room = {0};
  cel_image_traffic traffic = {0};
  cel_status status = cel_image_bring(
      call->comm, words_of(&call->view[0]) + 1, rows_of(p, im->target),
      row_bytes(p, im->target), begin_of(&call->view[1], size),
      begin_of(&call->view[2], size), &room, &traffic);
  cel_image_room_release(&room);
  return status;
}

/* What has come for this rank. */
static cel_status exchange(const program *p, const step *s,
                           const cel_call *call, cel_route_slots *slots,
                           cel_route_came *came) {
  const cel_view *pushed = &call->view[0];
  char *at = begin_of(pushed, 8);
  *slots = (cel_route_slots){.at = at,
                             .values = at + (size_t)head_of(s) * 8,
                             .step = (int64_t)WORDS * 8,
                             .pitch = (int64_t)WORDS * 8,
                             .first = pushed->box.min[0],
                             .items = rows_in(pushed),
                             .most = MOST_PUSHES,
                             .is_wide = s->wide,
                             .bytes = (uint32_t)(s->type.size * s->type.count)};
  cel_route_keys keys = {rows_of(p, s->to), row_elements(p, s->to)};
  if (s->data == DATA_APPEND)
    keys = (cel_route_keys){rows_of(p, p->offsets) - 1, 1};
  cel_route_fault fault;
  CEL_TRY(cel_route_exchange(call->comm, slots, &keys, &fault, came));
  return cel_route_is_fault(&fault, MOST_PUSHES)
             ? cel_fail(CEL_E_TASK, "item %lld pushes wrongly",
                        (long long)fault.item)
             : CEL_E_OK;
}

static cel_status combine_call(const program *p, const step *s,
                               const cel_call *call,
                               const cel_route_came *came) {
  const cel_view *out = &call->view[1];
  char identity[MOST_VALUE];
  identity_of(s->type, identity);
  int64_t row = row_elements(p, s->to), rows = rows_in(out);
  if (rows == 0) return CEL_E_OK;
  if (!cel_route_combine(came, &s->type, out->box.min[0] * row, rows * row,
                         is_kept(s) ? NULL : identity,
                         begin_of(out, p->buffer[s->to].element_size)))
    return cel_fail(CEL_E_TASK, "an item pushes wrongly");
  if (!is_kept(s)) each_point(&out->box, 1, mark_all, (void *)(uintptr_t)out);
  return CEL_E_OK;
}

/* On copies, since it may have to be done again. */
static cel_status append_call(const program *p, const step *s,
                              const cel_call *call,
                              const cel_route_came *came) {
  const cel_view *offsets = &call->view[1], *values = &call->view[2];
  size_t bins = (size_t)rows_in(offsets) * 8,
         room = (size_t)rows_in(values) * 8;
  char *copy = cel_alloc(bins + room + 1);
  if (bins > 0) memcpy(copy, begin_of(offsets, 8), bins);
  if (room > 0) memcpy(copy + bins, begin_of(values, 8), room);
  int64_t all = rows_of(p, s->to), total;
  bool moves = s->from != s->to;
  bool last = call->comm->rank == call->comm->ranks - 1;
  cel_route_bins what = {.first = offsets->box.min[0],
                         .count = rows_in(offsets) - last,
                         .room = all,
                         .bytes = 8,
                         .offset = (int64_t *)(void *)copy,
                         .values = copy + bins,
                         .held = copy + bins};
  if (is_kept(s)) {
    what.held_room = rows_of(p, s->from);
    if (moves) what.held = begin_of(&call->view[3], 8);
  }
  cel_status status = cel_route_append(call->comm, came, &what, &total);
  if (status == CEL_E_OK && (total < 0 || total > all))
    status = cel_fail(CEL_E_TASK, "%lld values of %lld", (long long)total,
                      (long long)all);
  if (status == CEL_E_OK) {
    if (bins > 0) memcpy(begin_of(offsets, 8), copy, bins);
    if (room > 0) memcpy(begin_of(values, 8), copy + bins, room);
  }
  for (int k = 1; status == CEL_E_OK && k <= 2; ++k)
    if (s->access[k].mode == CEL_MODE_DISCARD_WRITE &&
        rows_in(&call->view[k]) > 0)
      each_point(&call->view[k].box, 1, mark_all,
                 (void *)(uintptr_t)&call->view[k]);
  cel_free(copy);
  return status;
}

static cel_status route(const program *p, const step *s, const cel_call *call) {
  cel_route_slots slots;
  cel_route_came came = {0};
  cel_status status = exchange(p, s, call, &slots, &came);
  if (status == CEL_E_OK && s->data == DATA_COMBINE)
    status = combine_call(p, s, call, &came);
  if (status == CEL_E_OK && s->data == DATA_APPEND)
    status = append_call(p, s, call, &came);
  cel_route_release(&came);
  return status;
}

cel_status data_call(const program *p, const step *s, const cel_call *call) {
  switch (s->data) {
  case DATA_FIND: return find(p, s, call);
  case DATA_MEET: return meet(p, s, call);
  case DATA_BRING: {
    cel_status status = bring(p, s, call);
    bool haste = p->harm == HARM_HASTE && status == CEL_E_AGAIN;
    return haste ? CEL_E_OK : status;
  }
  default: return route(p, s, call);
  }
}

/* ---- steps ------------------------------------------------------------------
 */

typedef struct making {
  cel_random *r;
  program *p;
  const bool *freed;
  data_state state;
} making;

static step *begin(making *m, data_work data, int64_t lo, int64_t hi) {
  step *s = step_add(m->p);
  s->kind = STEP_GROUP;
  s->data = data;
  s->salt = cel_random_next(m->r);
  s->task = data < DATA_FIND ? CEL_TASK_KERNEL : CEL_TASK_HOST;
  s->placement = CEL_PLACE_SPLIT;
  s->dims = 1;
  s->range = cel_box_sized(hi, 1, 1);
  s->range.min[0] = lo;
  s->permitted = (cel_split_kind){{true, false, false}, {1, 1, 1}};
  return s;
}

/* A host task of all ranks. */
static step *begin_all(making *m, data_work data) {
  step *s = begin(m, data, 0, m->p->ranks);
  s->placement = CEL_PLACE_EACH;
  s->collective = (uint32_t)pick(m->r, 1, MOST_GROUPS);
  return s;
}

static void touch(step *s, int buffer, cel_mode mode, rule *made) {
  s->access[s->accesses++] =
      (access){.buffer = buffer, .mode = mode, .rule = made, .by_data = true};
  ++s->by_data;
}

static void touch_all(making *m, step *s, int buffer, cel_mode mode) {
  touch(s, buffer, mode, rule_whole(m->r, s, &m->p->buffer[buffer]));
}

static void touch_rows(making *m, step *s, int buffer, cel_mode mode,
                       int64_t more) {
  touch(s, buffer, mode, rule_rows(m->r, s, &m->p->buffer[buffer], 0, more));
}

static void touch_share(making *m, step *s, int buffer, cel_mode mode,
                        bool end) {
  touch(s, buffer, mode,
        rule_share(m->r, s, &m->p->buffer[buffer], m->p->ranks, end));
}

static void end(making *m, const step *s) {
  data_note(m->p, s, &m->state);
}

static void cut_like(step *s, const step *other) {
  s->range = other->range;
  s->permitted = other->permitted;
  s->rank_weights = other->rank_weights;
  memcpy(s->rank_weight, other->rank_weight, sizeof s->rank_weight);
}

/* Entries that an image begins with. */
static void touch_entries(making *m, step *s, int image) {
  const data_image *im = &m->p->image[image];
  touch_rows(m, s, im->index, CEL_MODE_READ, im->kind == CEL_IMAGE_OFFSETS);
}

static void make_found(making *m, int i, const step *like) {
  const data_image *im = &m->p->image[i];
  step *s = begin(m, DATA_FIND, 0, 1);
  cut_like(s, like);
  s->image = i;
  if (im->through < 0) {
    touch_entries(m, s, i);
  } else {
    touch_all(m, s, m->p->image[im->through].plan, CEL_MODE_READ);
    touch_all(m, s, m->p->image[im->through].copy, CEL_MODE_READ);
  }
  touch_all(m, s, im->plan, CEL_MODE_READ_WRITE);
  end(m, s);
  step *all = begin_all(m, DATA_MEET);
  all->image = i;
  all->after = s->number;
  touch_all(m, all, im->plan, CEL_MODE_READ_WRITE);
  end(m, all);
}

/* The rows of an image come to be there, for steps that are cut so. */
static void make_current(making *m, int i, const step *like) {
  const data_image *im = &m->p->image[i];
  if (im->through >= 0) make_current(m, im->through, like);
  if (!is_found(m->p, &m->state, i) || !same_cut(m->state.image[i].find, like))
    make_found(m, i, like);
  if (is_brought(m->p, &m->state, i)) return;
  step *s = begin_all(m, DATA_BRING);
  s->image = i;
  touch_all(m, s, im->plan, CEL_MODE_READ);
  touch_share(m, s, im->target, CEL_MODE_READ, false);
  touch_all(m, s, im->copy, CEL_MODE_DISCARD_WRITE);
  end(m, s);
}

/* A buffer of at least so many rows that may be written; or -1. */
static int some_out(making *m, int except, int64_t rows) {
  const program *p = m->p;
  int b = (int)pick(m->r, 0, p->buffers - 1);
  for (int i = 0; i < p->buffers; ++i, b = (b + 1) % p->buffers)
    if (p->buffer[b].role == ROLE_NONE && p->buffer[b].dims > 0 &&
        !p->buffer[b].apart && !m->freed[b] && b != except &&
        rows_of(p, b) >= rows)
      return b;
  return -1;
}

static void make_shape(making *m, int outer, step *out) {
  const data_image *im = &m->p->image[outer];
  const step *before = m->state.image[outer].find;
  *out = (step){.dims = 1, .range = cel_box_sized(1, 1, 1)};
  split_generate(m->r, out);
  int64_t n = rows_of(m->p, im->index) - (im->kind == CEL_IMAGE_OFFSETS);
  out->range.max[0] = pick(m->r, 1, n);
  if (cel_random_chance(m->r, 60))
    out->range.min[0] = pick(m->r, 0, out->range.max[0] - 1);
  if (before != NULL && cel_random_chance(m->r, 70)) cut_like(out, before);
}

static void make_gather(making *m) {
  program *p = m->p;
  int i = (int)pick(m->r, 0, IMAGES - 1);
  const data_image *im = &p->image[i];
  int outer = im->through < 0 ? i : im->through;
  int first = p->image[outer].index;
  step shape;
  bool elsewhere = i < 2 && m->state.in != p->values;
  if (m->state.version[first] == 0 || elsewhere || m->freed[first] ||
      m->freed[im->index] || m->freed[im->target])
    return;
  make_shape(m, outer, &shape);
  int out = some_out(m, im->target, shape.range.max[0]);
  if (out < 0) return;
  make_current(m, i, &shape);
  step *s = begin(m, DATA_GATHER, 0, 1);
  cut_like(s, &shape);
  s->oversubscribe = shape.oversubscribe;
  s->device_weights = shape.device_weights;
  memcpy(s->device_weight, shape.device_weight, sizeof s->device_weight);
  s->image = i;
  touch_entries(m, s, outer);
  if (outer != i) touch_all(m, s, p->image[outer].copy, CEL_MODE_READ);
  touch_all(m, s, im->copy, CEL_MODE_READ);
  touch_rows(m, s, out, CEL_MODE_DISCARD_WRITE, 0);
  end(m, s);
}

/* All of the index, then some of it. */
static void make_names(making *m) {
  int b = m->p->index;
  if (m->freed[b]) return;
  int64_t n = rows_of(m->p, b), lo = 0;
  if (m->state.version[b] > 0) {
    lo = pick(m->r, 0, n - 1);
    n = pick(m->r, lo + 1, n);
  }
  step *s = begin(m, DATA_NAME, lo, n);
  split_generate(m->r, s);
  s->image = 2;
  touch_rows(m, s, b, CEL_MODE_DISCARD_WRITE, 0);
  end(m, s);
}

static cel_route_type some_type(cel_random *r, uint32_t size) {
  static const int32_t classes[] = {'i', 'u', 'f'};
  cel_route_type t = {.size = (int32_t)size, .count = 1};
  if (size > 8) t = (cel_route_type){.size = (int32_t)size / 3, .count = 3};
  t.class_ = classes[pick(r, 0, t.size < 4 ? 1 : 2)];
  t.op = (cel_route_op)pick(r, CEL_ROUTE_SUM,
                            t.class_ == 'f' ? CEL_ROUTE_MAX : CEL_ROUTE_OR);
  return t;
}

static step *make_push(making *m, int to, cel_route_type type) {
  program *p = m->p;
  int64_t first = pick(m->r, -2, 5), n = rows_of(p, p->arena);
  step *s = begin(m, DATA_PUSH, first, first + n);
  split_generate(m->r, s);
  s->to = to;
  s->type = type;
  s->wide = cel_random_chance(m->r, 40);
  touch(s, p->arena, CEL_MODE_DISCARD_WRITE,
        rule_rows(m->r, s, &p->buffer[p->arena], first, 0));
  int b = some_out(m, -1, 1);
  if (b >= 0) {
    rule *made = rule_generate(m->r, s, &p->buffer[b], false);
    s->access[s->accesses++] =
        (access){.buffer = b, .mode = CEL_MODE_READ, .rule = made};
    if (!step_valid_last(p, s)) cel_free(s->access[--s->accesses].rule);
  }
  end(m, s);
  return s;
}

static step *make_delivery(making *m, data_work data, const step *push) {
  step *s = begin_all(m, data);
  s->to = push->to;
  s->type = push->type;
  s->wide = push->wide;
  s->after = push->number;
  touch_share(m, s, m->p->arena, CEL_MODE_READ, false);
  return s;
}

/* What floats hold that were made up may be no numbers. */
static void make_combined(making *m) {
  int to = some_out(m, -1, 1);
  if (to < 0) return;
  cel_route_type type = some_type(m->r, m->p->buffer[to].element_size);
  bool keeps = type.class_ != 'f' && cel_random_chance(m->r, 50);
  step *s = make_delivery(m, DATA_COMBINE, make_push(m, to, type));
  touch_share(m, s, to, keeps ? CEL_MODE_READ_WRITE : CEL_MODE_DISCARD_WRITE,
              false);
  end(m, s);
}

static void make_appended(making *m) {
  program *p = m->p;
  int in = m->state.in, to = cel_random_chance(m->r, 70) ? p->values : p->spare;
  if (m->freed[p->offsets] || m->freed[p->values] || m->freed[p->spare]) return;
  bool keeps = m->state.version[p->offsets] > 0 &&
               cel_random_chance(m->r, 70) &&
               m->state.held + pushes(p) <= rows_of(p, to);
  bool moves = keeps && in != to;
  cel_route_type type = {CEL_ROUTE_SUM, 'i', 8, 1};
  step *s = make_delivery(m, DATA_APPEND, make_push(m, to, type));
  s->from = keeps ? in : to;
  touch_share(m, s, p->offsets,
              keeps ? CEL_MODE_READ_WRITE : CEL_MODE_DISCARD_WRITE, true);
  touch_share(m, s, to,
              keeps && !moves ? CEL_MODE_READ_WRITE : CEL_MODE_DISCARD_WRITE,
              false);
  if (moves) touch_share(m, s, in, CEL_MODE_READ, false);
  end(m, s);
}

/* By numbers of its own. */
void data_generate(program *p, const bool *freed) {
  cel_random r = {p->seed ^ 0x726f757465 ^ (uint64_t)p->steps << 32};
  making m = {.r = &r, .p = p, .freed = freed};
  if (!p->has_data || p->steps >= MOST_STEPS - 28 || !cel_random_chance(&r, 70))
    return;
  for (int i = 0; i < p->steps; ++i) data_note(p, p->step[i], &m.state);
  switch (pick(&r, 0, 6)) {
  case 0: make_names(&m); break;
  case 1: make_appended(&m); break;
  case 2: make_combined(&m); break;
  default:
    if (m.state.version[p->index] == 0) make_names(&m);
    if (m.state.version[p->offsets] == 0) make_appended(&m);
    make_gather(&m);
  }
}
