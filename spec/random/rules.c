/* Random range mappers, and an evaluator of their postfix programs that shares
 * nothing with the engine's. */
#include "random/program.h"

/* An operation that the engine does not have: table[at - the range's], by the
 * word 2*d for chunk.min[d], 2*d + 1 for chunk.max[d], and 6 more for one item
 * before that. */
enum { LOOKUP = CEL_RULE_OPS_N, BEFORE = 6 };

/* ---- evaluation --------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t combine(int64_t op, int64_t a, int64_t b) {
  switch (op) {
  case CEL_RULE_ADD: return a + b;
  case CEL_RULE_SUB: return a - b;
  case CEL_RULE_MUL: return a * b;
  case CEL_RULE_FLOORDIV: return floor_div(a, b);
  case CEL_RULE_LOW: return a < b ? a : b;
  default: return a > b ? a : b;
  }
}

static int64_t value_of(const rule *r, int64_t op, int64_t i,
                        const cel_box *range, const cel_box *extent,
                        const cel_box *chunk) {
  switch (op) {
  case CEL_RULE_CONST: return i;
  case CEL_RULE_PARAM: return r->param[i];
  case CEL_RULE_ITEM: /* of a chunk of that one */
  case CEL_RULE_MIN: return chunk->min[i];
  case CEL_RULE_MAX: return chunk->max[i];
  case CEL_RULE_GLOBAL_MIN: return range->min[i];
  case CEL_RULE_GLOBAL_MAX: return range->max[i];
  case LOOKUP: {
    int64_t d = i % BEFORE / 2, before = i / BEFORE;
    return r->table[(i % 2 == 0 ? chunk->min[d] : chunk->max[d]) - before -
                    range->min[d]];
  }
  default: return extent->max[i];
  }
}

static int64_t bound(const rule *r, int b, int j, int side,
                     const cel_box *range, const cel_box *extent,
                     const cel_box *chunk) {
  const int64_t *at = r->code + r->box[b].start[j][side];
  const int64_t *end = at + r->box[b].length[j][side];
  int64_t stack[32];
  int n = 0;
  while (at < end) {
    int64_t op = *at++;
    if (op < CEL_RULE_ADD || op == LOOKUP) {
      stack[n++] = value_of(r, op, *at++, range, extent, chunk);
    } else {
      --n;
      stack[n - 1] = combine(op, stack[n - 1], stack[n]);
    }
  }
  return stack[0];
}

static int box_image(const rule *r, int b, const cel_box *range,
                     const cel_box *extent, const cel_box *chunk, cel_box *out,
                     bool *left) {
  cel_box box = cel_box_sized(1, 1, 1);
  for (int j = 0; j < r->desc.buffer_dims; ++j) {
    box.min[j] = bound(r, b, j, 0, range, extent, chunk);
    box.max[j] = bound(r, b, j, 1, range, extent, chunk);
  }
  if (cel_box_is_empty(&box)) return 0;
  if (left != NULL && !r->box[b].clamp && !cel_box_covers(extent, &box))
    *left = true;
  return cel_box_intersect(&box, extent, out);
}

int rule_image(const rule *r, const cel_box *range, const cel_box *extent,
               const cel_box *chunk, cel_box out[MOST_IMAGE], bool *left) {
  int n = 0;
  for (int b = 0; b < r->desc.boxes; ++b) {
    int d = r->box[b].each - 1;
    if (d < 0) n += box_image(r, b, range, extent, chunk, out + n, left);
    for (int64_t i = d < 0 ? 0 : chunk->min[d]; d >= 0 && i < chunk->max[d];
         ++i) {
      cel_box one = *chunk;
      one.min[d] = i;
      one.max[d] = i + 1;
      n += box_image(r, b, range, extent, &one, out + n, left);
    }
  }
  return n;
}

bool rule_has_families(const rule *r) {
  for (int b = 0; b < r->desc.boxes; ++b)
    if (r->box[b].each != 0) return true;
  return false;
}

const cel_rule *rule_list(const rule *r, const cel_group *group, bool reduces,
                          const cel_box *extent, cel_engine *engine) {
  cel_chunks chunks = {0};
  cel_engine_chunks(engine, group, reduces, 0x1f8, &chunks); /* 3 to 8 */
  CEL_VEC(cel_box) boxes = {0};
  CEL_VEC(int32_t) start = {0};
  for (uint32_t i = 0; i < chunks.chunk.n; ++i) {
    cel_box out[MOST_IMAGE];
    int n =
        rule_image(r, &group->range, extent, &chunks.chunk.at[i], out, NULL);
    cel_vec_push(&start, (int32_t)boxes.n);
    for (int b = 0; b < n; ++b) cel_vec_push(&boxes, out[b]);
  }
  cel_vec_push(&start, (int32_t)boxes.n);
  cel_listing listing = cel_chunks_list(&chunks, start.at, boxes.at);
  const cel_rule *made;
  cel_rules_list(cel_engine_rules(engine), r->desc.task_dims,
                 r->desc.buffer_dims, &listing, &made);
  cel_vec_release(&boxes);
  cel_vec_release(&start);
  cel_chunks_release(&chunks);
  return made;
}

static bool cut_often(const step *s, int d) {
  return d < s->dims && s->permitted.cut[d] &&
         s->range.max[d] - s->range.min[d] > s->permitted.granularity[d];
}

/* Which dimension of the task is cut; -1: none. */
static int cut_dim(const step *s) {
  for (int d = 0; d < s->dims; ++d)
    if (cut_often(s, d)) return d;
  return -1;
}

/* ---- building ----------------------------------------------------------- */

typedef struct builder {
  cel_random *random;
  rule *rule;
  const step *step;
  const buffer *buffer;
} builder;

static void word(builder *b, int64_t w) {
  b->rule->code[b->rule->desc.code_length++] = w;
}

static void number(builder *b, int64_t value) {
  rule *r = b->rule;
  bool param = r->desc.params < MOST_PARAMS && cel_random_chance(b->random, 30);
  word(b, param ? CEL_RULE_PARAM : CEL_RULE_CONST);
  word(b, param ? r->desc.params : value);
  if (param) r->param[r->desc.params++] = value;
}

static void variable(builder *b, cel_rule_op op, int d) {
  word(b, op);
  word(b, d);
}

static void begin(builder *b, int box, int j, int side) {
  b->rule->box[box].start[j][side] = b->rule->desc.code_length;
}

static void end(builder *b, int box, int j, int side) {
  b->rule->box[box].length[j][side] =
      b->rule->desc.code_length - b->rule->box[box].start[j][side];
}

/* a * chunk.{min|max}[d] + c */
static void linear(builder *b, int box, int j, int side, int64_t a, int d,
                   bool of_max, int64_t c) {
  begin(b, box, j, side);
  variable(b, of_max ? CEL_RULE_MAX : CEL_RULE_MIN, d);
  if (a != 1 || cel_random_chance(b->random, 10)) {
    word(b, CEL_RULE_CONST);
    word(b, a);
    word(b, CEL_RULE_MUL);
  }
  if (c != 0 || cel_random_chance(b->random, 10)) {
    bool minus = cel_random_chance(b->random, 40);
    number(b, minus ? -c : c);
    word(b, minus ? CEL_RULE_SUB : CEL_RULE_ADD);
  }
  end(b, box, j, side);
}

static void constant(builder *b, int box, int j, int side, int64_t c) {
  begin(b, box, j, side);
  number(b, c);
  end(b, box, j, side);
}

static void identity_dim(builder *b, int box, int j, int d) {
  linear(b, box, j, 0, 1, d, false, 0);
  linear(b, box, j, 1, 1, d, true, 0);
}

static void full_dim(builder *b, int box, int j) {
  constant(b, box, j, 0, 0);
  begin(b, box, j, 1);
  variable(b, CEL_RULE_BUFFER, j);
  end(b, box, j, 1);
}

static void fixed_dim(builder *b, int box, int j) {
  int64_t size = b->buffer->extent.max[j];
  int64_t lo = cel_random_int(b->random, 0, size - 1);
  constant(b, box, j, 0, lo);
  constant(b, box, j, 1, cel_random_int(b->random, lo + 1, size));
}

/* global.max - chunk.max ... global.max - chunk.min, shifted */
static void mirror_dim(builder *b, int box, int j, int d) {
  int64_t c = cel_random_int(b->random, 0, 1);
  for (int side = 0; side < 2; ++side) {
    begin(b, box, j, side);
    variable(b, CEL_RULE_GLOBAL_MAX, d);
    variable(b, side == 0 ? CEL_RULE_MAX : CEL_RULE_MIN, d);
    word(b, CEL_RULE_SUB);
    number(b, c);
    word(b, CEL_RULE_ADD);
    end(b, box, j, side);
  }
}

/* chunk.min / k ... (chunk.max - 1) / k + 1, or ceil(chunk.max / k) */
static void divided_dim(builder *b, int box, int j, int d) {
  int64_t k = cel_random_int(b->random, 2, 3);
  for (int side = 0; side < 2; ++side) {
    begin(b, box, j, side);
    variable(b, side == 0 ? CEL_RULE_MIN : CEL_RULE_MAX, d);
    if (side == 1) {
      word(b, CEL_RULE_CONST);
      word(b, k - 1);
      word(b, CEL_RULE_ADD);
    }
    word(b, CEL_RULE_CONST);
    word(b, k);
    word(b, CEL_RULE_FLOORDIV);
    end(b, box, j, side);
  }
}

/* [0, chunk.max) or [chunk.min, buffer): what comes before, or after. */
static void prefix_dim(builder *b, int box, int j, int d) {
  if (cel_random_chance(b->random, 50)) {
    constant(b, box, j, 0, 0);
    linear(b, box, j, 1, 1, d, true, 0);
  } else {
    linear(b, box, j, 0, 1, d, false, 0);
    begin(b, box, j, 1);
    variable(b, CEL_RULE_BUFFER, j);
    end(b, box, j, 1);
  }
}

/* Grown by `low` and `high` and kept within the buffer by hand. */
static void clamped_dim(builder *b, int box, int j, int d) {
  begin(b, box, j, 0);
  variable(b, CEL_RULE_MIN, d);
  number(b, cel_random_int(b->random, 0, 2));
  word(b, CEL_RULE_SUB);
  word(b, CEL_RULE_CONST);
  word(b, 0);
  word(b, CEL_RULE_HIGH);
  end(b, box, j, 0);
  begin(b, box, j, 1);
  variable(b, CEL_RULE_MAX, d);
  number(b, cel_random_int(b->random, 0, 2));
  word(b, CEL_RULE_ADD);
  variable(b, CEL_RULE_BUFFER, j);
  word(b, CEL_RULE_LOW);
  end(b, box, j, 1);
}

static void affine_dim(builder *b, int box, int j, int d, bool write) {
  cel_random *r = b->random;
  int64_t a = cel_random_int(r, 1, 3);
  int64_t lo = cel_random_int(r, -1, 2), more = cel_random_int(r, 0, 1);
  if (a == 1) lo = cel_random_int(r, -3, 3);
  if (write) more = a > 1 ? -cel_random_int(r, 0, a - 1) : 0;
  linear(b, box, j, 0, a, d, false, lo);
  linear(b, box, j, 1, a, d, true, lo + more);
}

/* A table of ascending bounds; one for the rule. */
static void make_table(builder *b, int64_t size) {
  rule *r = b->rule;
  if (r->opaque) return;
  r->opaque = true;
  int64_t at = cel_random_int(b->random, 0, 1);
  for (int i = 0; i < MOST_TABLE; ++i) {
    r->table[i] = at < size ? at : size;
    if (cel_random_chance(b->random, 60)) at += cel_random_int(b->random, 0, 3);
  }
}

/* table[chunk.min] ... table[chunk.max] */
static void looked_up_dim(builder *b, int box, int j, int d) {
  make_table(b, b->buffer->extent.max[j]);
  for (int side = 0; side < 2; ++side) {
    begin(b, box, j, side);
    word(b, LOOKUP);
    word(b, 2 * d + side);
    variable(b, CEL_RULE_BUFFER, j);
    word(b, CEL_RULE_LOW);
    end(b, box, j, side);
  }
}

static void random_dim(builder *b, int box, int j, bool write) {
  int dims = b->step->dims;
  int d = dims == 0 ? 0 : (int)cel_random_int(b->random, 0, dims - 1);
  if (j < dims && cel_random_chance(b->random, 70)) d = j;
  switch (dims == 0 ? cel_random_int(b->random, 0, 1)
                    : cel_random_int(b->random, 0, 10)) {
  case 10: looked_up_dim(b, box, j, d); break;
  case 0: full_dim(b, box, j); break;
  case 1: fixed_dim(b, box, j); break;
  case 2: mirror_dim(b, box, j, d); break;
  case 3: divided_dim(b, box, j, d); break;
  case 4: prefix_dim(b, box, j, d); break;
  case 5: clamped_dim(b, box, j, d); break;
  case 6:
  case 7: affine_dim(b, box, j, d, write); break;
  default: identity_dim(b, box, j, d);
  }
}

/* ---- whole rules -------------------------------------------------------- */

static void one_to_one(builder *b, int box) {
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (j < b->step->dims)
      identity_dim(b, box, j, j);
    else
      full_dim(b, box, j);
  }
}

static void transposed(builder *b, int box) {
  int n = b->step->dims, shift = (int)cel_random_int(b->random, 0, 2);
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (n > 0)
      identity_dim(b, box, j, (b->buffer->dims - 1 - j + shift) % n);
    else
      full_dim(b, box, j);
  }
}

static void sliced(builder *b, int box) {
  int whole = b->buffer->dims == 0
                  ? 0
                  : (int)cel_random_int(b->random, 0, b->buffer->dims - 1);
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (j < b->step->dims && j != whole)
      identity_dim(b, box, j, j);
    else
      full_dim(b, box, j);
  }
}

/* One dimension of the buffer, of the first one of the step that is cut; rows
 * of one step are columns of another. */
static void strips(builder *b, int box) {
  int d = cut_dim(b->step);
  int strip = b->buffer->dims == 0 || d < 0
                  ? -1
                  : (int)cel_random_int(b->random, 0, b->buffer->dims - 1);
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (j == strip)
      identity_dim(b, box, j, d);
    else
      full_dim(b, box, j);
  }
}

static void grown(builder *b, int box, int only) {
  b->rule->box[box].clamp = true;
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (j >= b->step->dims) {
      full_dim(b, box, j);
      continue;
    }
    int64_t w = only < 0 || only == j ? cel_random_int(b->random, 0, 2) : 0;
    linear(b, box, j, 0, 1, j, false, -w);
    linear(b, box, j, 1, 1, j, true, w);
  }
}

static void along_axes(builder *b) {
  int n = b->step->dims < b->buffer->dims ? b->step->dims : b->buffer->dims;
  b->rule->desc.boxes = n > 0 ? n : 1;
  for (int box = 0; box < b->rule->desc.boxes; ++box) grown(b, box, box);
}

static void mixed(builder *b, bool write) {
  b->rule->desc.boxes = cel_random_chance(b->random, 30)
                            ? (int)cel_random_int(b->random, 0, 3)
                            : 1;
  for (int box = 0; box < b->rule->desc.boxes; ++box) {
    b->rule->box[box].clamp = cel_random_chance(b->random, 30);
    for (int j = 0; j < b->buffer->dims; ++j) random_dim(b, box, j, write);
  }
}

static builder builder_for(cel_random *r, const step *s, const buffer *b) {
  rule *made = cel_alloc_zero(sizeof *made);
  made->desc.task_dims = s->dims;
  made->desc.buffer_dims = b->dims;
  made->desc.boxes = 1;
  made->desc.box = made->box;
  made->desc.code = made->code;
  return (builder){r, made, s, b};
}

rule *rule_whole(cel_random *r, const step *s, const buffer *b) {
  builder made = builder_for(r, s, b);
  for (int j = 0; j < b->dims; ++j) full_dim(&made, 0, j);
  return made.rule;
}

rule *rule_rows(cel_random *r, const step *s, const buffer *b, int64_t from,
                int64_t more) {
  builder made = builder_for(r, s, b);
  linear(&made, 0, 0, 0, 1, 0, false, -from);
  linear(&made, 0, 0, 1, 1, 0, true, more - from);
  for (int j = 1; j < b->dims; ++j) full_dim(&made, 0, j);
  return made.rule;
}

/* Of n rows ranks have n / ranks each, and the first ones one more. */
static void share_bound(builder *b, int side, int64_t n, int ranks,
                        bool longer) {
  cel_rule_op op = side == 0 ? CEL_RULE_MIN : CEL_RULE_MAX;
  begin(b, 0, 0, side);
  variable(b, op, 0);
  number(b, n / ranks);
  word(b, CEL_RULE_MUL);
  variable(b, op, 0);
  number(b, n % ranks);
  word(b, CEL_RULE_LOW);
  word(b, CEL_RULE_ADD);
  if (longer && side == 1) {
    variable(b, op, 0);
    word(b, CEL_RULE_CONST);
    word(b, ranks);
    word(b, CEL_RULE_FLOORDIV);
    word(b, CEL_RULE_ADD);
  }
  end(b, 0, 0, side);
}

rule *rule_share(cel_random *r, const step *s, const buffer *b, int ranks,
                 bool end) {
  builder made = builder_for(r, s, b);
  for (int side = 0; side < 2; ++side)
    share_bound(&made, side, b->extent.max[0] - end, ranks, end);
  for (int j = 1; j < b->dims; ++j) full_dim(&made, 0, j);
  return made.rule;
}

rule *rule_tile(cel_random *r, const step *s, const buffer *b, int whole) {
  builder made = builder_for(r, s, b);
  for (int j = 0; j < b->dims; ++j) {
    if (j < 2 && j != whole) {
      identity_dim(&made, 0, j, j);
    } else if (j < 2) {
      constant(&made, 0, j, 0, 0);
      constant(&made, 0, j, 1, s->range.max[j]);
    } else {
      full_dim(&made, 0, j);
    }
  }
  return made.rule;
}

/* Within the range on one of its sides, or so that what has one item there at
 * least is left. */
static void hold(builder *b, int j, int side, bool inwards) {
  bool low = inwards == (side == 0);
  variable(b, low ? CEL_RULE_GLOBAL_MIN : CEL_RULE_GLOBAL_MAX, j);
  if (!inwards) {
    number(b, 1);
    word(b, low ? CEL_RULE_ADD : CEL_RULE_SUB);
  }
  word(b, low ? CEL_RULE_HIGH : CEL_RULE_LOW);
}

/* `turn`, -1 to 1, moves it by the buffer's extent. */
static void stencil_side(builder *b, int box, int j, int side, int64_t by,
                         int turn, const stencil *what) {
  begin(b, box, j, side);
  if (what->cut && turn != 0 && side == (turn > 0)) {
    if (side == 1) variable(b, CEL_RULE_BUFFER, j);
    if (side == 0) number(b, 0);
    end(b, box, j, side);
    return;
  }
  variable(b, side == 0 ? CEL_RULE_MIN : CEL_RULE_MAX, j);
  if (by != 0) {
    number(b, by);
    word(b, side == 0 ? CEL_RULE_SUB : CEL_RULE_ADD);
  }
  if (turn != 0) {
    variable(b, CEL_RULE_BUFFER, j);
    word(b, turn < 0 ? CEL_RULE_SUB : CEL_RULE_ADD);
    /* Held where nothing of the buffer is left. */
    if (what->cut && turn > 0) variable(b, CEL_RULE_BUFFER, j);
    if (what->cut && turn < 0) number(b, 0);
    if (what->cut) word(b, turn > 0 ? CEL_RULE_LOW : CEL_RULE_HIGH);
  }
  if (what->in_range) hold(b, j, side, true);
  if (what->held) hold(b, j, side, false);
  end(b, box, j, side);
}

static void stencil_box(builder *b, const stencil *what, int axis,
                        const int turn[CEL_DIMS]) {
  int box = b->rule->desc.boxes++;
  b->rule->box[box].clamp = what->clamped;
  for (int j = 0; j < b->buffer->dims; ++j) {
    bool grows = axis < 0 || axis == j;
    stencil_side(b, box, j, 0, grows ? what->low[j] : 0, turn[j], what);
    stencil_side(b, box, j, 1, grows ? what->high[j] : 0, turn[j], what);
  }
}

/* Along one axis, or (-1) all; with all turns around ends that meet there. */
static void stencil_boxes(builder *b, const stencil *what, int axis) {
  int most[CEL_DIMS], turn[CEL_DIMS];
  for (int d = 0; d < CEL_DIMS; ++d)
    most[d] = d < b->buffer->dims && (axis < 0 || axis == d) && what->wraps[d];
  for (turn[0] = -most[0]; turn[0] <= most[0]; ++turn[0])
    for (turn[1] = -most[1]; turn[1] <= most[1]; ++turn[1])
      for (turn[2] = -most[2]; turn[2] <= most[2]; ++turn[2])
        stencil_box(b, what, axis, turn);
}

rule *rule_stencil(cel_random *r, const step *s, const buffer *b,
                   const stencil *what) {
  builder made = builder_for(r, s, b);
  made.rule->desc.boxes = 0;
  for (int d = 0; d < CEL_DIMS; ++d) made.rule->wraps |= what->wraps[d];
  for (int d = 0; d < b->dims && what->axes; ++d) stencil_boxes(&made, what, d);
  if (!what->axes) stencil_boxes(&made, what, -1);
  return made.rule;
}

/* ---- reads of more than the parts of a chunk have ------------------------ */

/* Every a-th element, and a few after it. */
static void strided_dim(builder *b, int j, int d) {
  int64_t a = cel_random_int(b->random, 2, 3);
  int64_t few = cel_random_int(b->random, 1, a - 1);
  linear(b, 0, j, 0, a, d, false, 0);
  linear(b, 0, j, 1, a, d, true, few - a);
}

/* table[chunk.min] ... table[chunk.max - 1] + few */
static void spread_dim(builder *b, int j, int d) {
  int64_t few = cel_random_int(b->random, 1, 2);
  make_table(b, b->buffer->extent.max[j] - few);
  begin(b, 0, j, 0);
  word(b, LOOKUP);
  word(b, 2 * d);
  end(b, 0, j, 0);
  begin(b, 0, j, 1);
  word(b, LOOKUP);
  word(b, BEFORE + 2 * d + 1);
  number(b, few);
  word(b, CEL_RULE_ADD);
  end(b, 0, j, 1);
}

/* What each item needs lies apart, as by a stride, in a table, or on a
 * diagonal; a chunk reads a box around it. */
static void around(builder *b) {
  int kind = (int)cel_random_int(b->random, 0, 2);
  int d = (int)cel_random_int(b->random, 0, b->step->dims - 1);
  b->rule->around = true;
  b->rule->box[0].clamp = cel_random_chance(b->random, 50);
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (kind == 2)
      identity_dim(b, 0, j, d);
    else if (j > 0)
      full_dim(b, 0, j);
    else if (kind == 0)
      strided_dim(b, j, d);
    else
      spread_dim(b, j, d);
  }
}

/* The chunk moved to many places, as through the ends of a periodic buffer. */
static void scattered(builder *b) {
  b->rule->desc.boxes = (int)cel_random_int(b->random, 2, MOST_BOXES);
  for (int box = 0; box < b->rule->desc.boxes; ++box) {
    b->rule->box[box].clamp = true;
    for (int j = 0; j < b->buffer->dims; ++j) {
      int64_t n = b->buffer->extent.max[j],
              by = cel_random_int(b->random, -n, n);
      int d = j < b->step->dims ? j : b->step->dims - 1;
      linear(b, box, j, 0, 1, d, false, by);
      linear(b, box, j, 1, 1, d, true, by);
    }
  }
}

/* ---- a box for each index ------------------------------------------------ */

/* What a bound is for the index of a family along d: that of a chunk of one. */
static int of_index(const int64_t *code, int length, int d, int64_t *out) {
  int n = 0;
  for (int i = 0; i < length; ++i) {
    bool of_chunk = code[i] == CEL_RULE_MIN || code[i] == CEL_RULE_MAX;
    bool ends = code[i] == CEL_RULE_MAX;
    out[n] = code[i];
    if (code[i] >= CEL_RULE_ADD && code[i] != LOOKUP) {
      ++n;
      continue;
    }
    if (of_chunk && code[i + 1] == d) out[n] = CEL_RULE_ITEM;
    ends = ends && out[n] == CEL_RULE_ITEM;
    ++n;
    out[n++] = code[++i];
    if (!ends) continue;
    const int64_t next[] = {CEL_RULE_CONST, 1, CEL_RULE_ADD};
    for (int k = 0; k < 3; ++k) out[n++] = next[k];
  }
  return n;
}

/* The same rule with families in the place of boxes: along the dimension that
 * is cut, mostly. */
static void into_families(builder *b) {
  rule *r = b->rule;
  static int64_t code[MOST_CODE];
  int n = 0, cut = cut_dim(b->step);
  if (r->opaque || r->desc.boxes > MOST_FAMILIES) return;
  for (int box = 0; box < r->desc.boxes; ++box) {
    int d = cut >= 0 && cel_random_chance(b->random, 70)
                ? cut
                : (int)cel_random_int(b->random, 0, b->step->dims - 1);
    bool each = cel_random_chance(b->random, 80);
    r->box[box].each = each ? d + 1 : 0;
    for (int j = 0; j < r->desc.buffer_dims; ++j)
      for (int side = 0; side < 2; ++side) {
        int length =
            of_index(r->code + r->box[box].start[j][side],
                     r->box[box].length[j][side], each ? d : -1, code + n);
        r->box[box].start[j][side] = n;
        r->box[box].length[j][side] = length;
        n += length;
      }
  }
  memcpy(r->code, code, (size_t)n * sizeof *code);
  r->desc.code_length = n;
}

/* Blocks on a diagonal, or along a dimension, perhaps with gaps. */
static void blocks(builder *b, bool write) {
  int d = cut_dim(b->step);
  if (d < 0) d = 0;
  b->rule->box[0].clamp = cel_random_chance(b->random, 50);
  for (int j = 0; j < b->buffer->dims; ++j) {
    if (cel_random_chance(b->random, 70))
      affine_dim(b, 0, j, d, write);
    else
      full_dim(b, 0, j);
  }
}

/* By numbers of its own, as it came later. */
static rule *rule_of_families(const cel_random *r, const step *s,
                              const buffer *b, bool write) {
  cel_random own = {r->state ^ 0x65616368};
  if (s->dims == 0 || b->dims == 0 || !cel_random_chance(&own, 12)) return NULL;
  builder made = builder_for(&own, s, b);
  if (cel_random_chance(&own, 50))
    blocks(&made, write);
  else if (cel_random_chance(&own, 30))
    transposed(&made, 0);
  else
    mixed(&made, write);
  into_families(&made);
  return made.rule;
}

/* By numbers of its own, so that programs without one stay what they are. */
static rule *rule_of_more(const cel_random *r, const step *s, const buffer *b) {
  cel_random own = {r->state ^ 0x68756c6c};
  if (s->dims == 0 || b->dims == 0 || !cel_random_chance(&own, 12)) return NULL;
  builder made = builder_for(&own, s, b);
  if (cel_random_chance(&own, 60))
    around(&made);
  else
    scattered(&made);
  return made.rule;
}

rule *rule_generate(cel_random *r, const step *s, const buffer *b, bool write) {
  rule *more = rule_of_families(r, s, b, write);
  if (more == NULL && !write) more = rule_of_more(r, s, b);
  if (more != NULL) {
    cel_random_next(r); /* the next try finds another */
    return more;
  }
  builder made = builder_for(r, s, b);
  switch (cel_random_int(r, 0, write ? 9 : 13)) {
  case 0: transposed(&made, 0); break;
  case 1: sliced(&made, 0); break;
  case 2: strips(&made, 0); break;
  case 3:
  case 4:
  case 5: mixed(&made, write); break;
  case 10:
  case 11: grown(&made, 0, -1); break;
  case 12: along_axes(&made); break;
  case 13:
    for (int j = 0; j < b->dims; ++j) full_dim(&made, 0, j);
    break;
  default: one_to_one(&made, 0);
  }
  if (cel_random_chance(r, 10)) made.rule->opaque = true;
  return made.rule;
}

/* ---- rules that must be refused ----------------------------------------- */

/* Two chunks write one element; needs a cut. */
static void overlapping(builder *b, int d) {
  for (int j = 0; j < b->buffer->dims; ++j) full_dim(b, 0, j);
  if (b->buffer->dims == 0 || cel_random_chance(b->random, 30)) {
    b->rule->opaque = cel_random_chance(b->random, 50);
    return;
  }
  /* [chunk.min, chunk.max + 1) of the cut dimension, clamped: the neighbour's
   * first element too. */
  b->rule->box[0].clamp = true;
  linear(b, 0, 0, 0, 1, d, false, -b->step->range.min[d]);
  linear(b, 0, 0, 1, 1, d, true, 1 - b->step->range.min[d]);
}

/* A chunk reads its first item's element alone, and so less than its parts;
 * needs a cut. */
static void lacking(builder *b, int d) {
  for (int j = 0; j < b->buffer->dims; ++j) full_dim(b, 0, j);
  b->rule->box[0].clamp = true;
  linear(b, 0, 0, 0, 1, d, false, -b->step->range.min[d]);
  linear(b, 0, 0, 1, 1, d, false, 1 - b->step->range.min[d]);
}

rule *rule_generate_bad(cel_random *r, const step *s, const buffer *b,
                        cel_mode *mode, cel_status *code) {
  builder made = builder_for(r, s, b);
  int d = cut_dim(s);
  if (b->dims > 0 && (d < 0 || cel_random_chance(r, 30))) {
    *mode = CEL_MODE_READ;
    *code = CEL_E_RANGE;
    for (int j = 0; j < b->dims; ++j) full_dim(&made, 0, j);
    constant(&made, 0, b->dims - 1, cel_random_chance(r, 50),
             cel_random_chance(r, 50) ? -1 - cel_random_int(r, 0, 5)
                                      : b->extent.max[b->dims - 1] + 1);
    cel_box out[MOST_IMAGE];
    bool left = false;
    rule_image(made.rule, &s->range, &b->extent, &s->range, out, &left);
    if (left) return made.rule;
  } else if (d >= 0 &&
             (b->dims == 0 || b->extent.max[0] > s->permitted.granularity[d])) {
    /* By numbers of its own, as it came later. */
    cel_random own = {r->state ^ 0x6c657373};
    if (b->dims > 0 && cel_random_chance(&own, 30)) {
      *mode = CEL_MODE_READ;
      *code = CEL_E_ARGUMENT;
      lacking(&made, d);
      return made.rule;
    }
    *mode = cel_random_chance(r, 50) ? CEL_MODE_WRITE : CEL_MODE_DISCARD_WRITE;
    *code = CEL_E_OVERLAP;
    overlapping(&made, d);
    return made.rule;
  }
  cel_free(made.rule);
  return NULL;
}
