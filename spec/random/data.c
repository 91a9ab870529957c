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
#include <string.h>

#include "random/data.h"

enum { MOST_ENTRIES = 40, MOST_ITEMS = 32 };

static int64_t pick(cel_random *r, int64_t lo, int64_t hi) {
  return cel_random_int(r, lo, hi);
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
  im->late = words + 1;
  im->plan = buffer_add(p, ROLE_HIDDEN, im->late + LATE_WORDS, 8);
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
