/* What the steps of data.c do: in kernels, in the interpreter's memory, and in
 * the engine's host tasks. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "comm/communicator.h"
#include "random/data.h"

enum { NO_ROW = -7 }; /* what an entry says that names none */

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

/* What chunks read of the copy: boxes around what the rank needs, for the items
 * before some number and for the others. */
static void say_late(const program *p, const step *s, int64_t *words) {
  const data_image *im = &p->image[s->image];
  int64_t boxes[2 * MOST_AROUND], at = (int64_t)(s->salt % 32);
  int64_t n = cel_image_boxes(words + 1, p->ranks, 1, MOST_AROUND, boxes);
  words[im->late] = 2 * n;
  for (int64_t k = 0; k < 2 * n; ++k) {
    int64_t *piece = words + im->late + 1 + k * CEL_LATE_PIECE;
    piece[0] = k < n ? INT64_MIN : at;
    piece[1] = k < n ? at : INT64_MAX;
    piece[2] = boxes[2 * (k % n)];
    piece[3] = boxes[2 * (k % n) + 1] - (p->harm == HARM_LATE);
  }
}

static cel_status meet(const program *p, const step *s, const cel_call *call) {
  int64_t *words = words_of(&call->view[0]);
  if (words[0] != s->after) /* a rank without a chunk has found nothing */
    cel_image_list(NULL, rows_of(p, p->image[s->image].target), p->ranks,
                   words + 1);
  cel_status status = cel_image_meet(call->comm, words + 1);
  if (status == CEL_E_OK) say_late(p, s, words);
  return status;
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

/* As append_call, where there is room for `room` values: appends to copies of
 * this rank's offsets and values, which the caller frees. */
static cel_status append_copies(const program *p, const step *s,
                                const cel_call *call,
                                const cel_route_came *came, int64_t room,
                                char **out, int64_t *total) {
  const cel_view *offsets = &call->view[1], *values = &call->view[2];
  size_t bins = (size_t)rows_in(offsets) * 8,
         held = (size_t)rows_in(values) * 8;
  char *copy = *out = cel_alloc(bins + held + 1);
  if (bins > 0) memcpy(copy, begin_of(offsets, 8), bins);
  if (held > 0) memcpy(copy + bins, begin_of(values, 8), held);
  bool last = call->comm->rank == call->comm->ranks - 1;
  cel_route_bins what = {.first = offsets->box.min[0],
                         .count = rows_in(offsets) - last,
                         .room = room,
                         .bytes = 8,
                         .offset = (int64_t *)(void *)copy,
                         .values = copy + bins,
                         .held = copy + bins};
  if (is_kept(s)) {
    what.held_room = rows_of(p, s->from);
    if (s->from != s->to) what.held = begin_of(&call->view[3], 8);
  }
  return cel_route_append(call->comm, came, &what, total);
}

static bool is_same(const cel_view *view, const char *copy) {
  return rows_in(view) == 0 ||
         memcmp(copy, begin_of(view, 8), (size_t)rows_in(view) * 8) == 0;
}

/* Where there is room for one value less than there are, all ranks learn how
 * many there are, and nothing is written. */
static cel_status overflow(const program *p, const step *s,
                           const cel_call *call, const cel_route_came *came,
                           int64_t total) {
  char *copy;
  int64_t now;
  cel_status status = append_copies(p, s, call, came, total - 1, &copy, &now);
  const cel_view *offsets = &call->view[1], *values = &call->view[2];
  if (status == CEL_E_OK &&
      (now != total || !is_same(offsets, copy) ||
       !is_same(values, copy + (size_t)rows_in(offsets) * 8)))
    status = cel_fail(CEL_E_TASK, "%lld values with room for one less: %lld",
                      (long long)total, (long long)now);
  cel_free(copy);
  return status;
}

/* On copies, since it may have to be done again. */
static cel_status append_call(const program *p, const step *s,
                              const cel_call *call,
                              const cel_route_came *came) {
  const cel_view *offsets = &call->view[1], *values = &call->view[2];
  int64_t all = rows_of(p, s->to), total;
  char *copy;
  cel_status status = append_copies(p, s, call, came, all, &copy, &total);
  if (status == CEL_E_OK && (total < 0 || total > all))
    status = cel_fail(CEL_E_TASK, "%lld values of %lld", (long long)total,
                      (long long)all);
  if (status == CEL_E_OK && total > 0 && s->salt % 4 == 0)
    status = overflow(p, s, call, came, total);
  if (status == CEL_E_OK) {
    size_t bins = (size_t)rows_in(offsets) * 8;
    if (bins > 0) memcpy(begin_of(offsets, 8), copy, bins);
    if (rows_in(values) > 0)
      memcpy(begin_of(values, 8), copy + bins, (size_t)rows_in(values) * 8);
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
