/* Reductions: what they come to, whatever the order of the atoms. */
#include <string.h>

#include "random/program.h"

enum {
  OPS = REDUCE_DOUBLES + 1,
  MOST_SIZE = 24,
  TAIL = 3, /* bytes more in a wide row's element */
  EXACT = 1 << 20
};

bool reduces(const access *a) {
  return a->reduce != REDUCE_NOT;
}

/* ---- on bytes ----------------------------------------------------------- */

void reduce_begin(reduce_op op, char *to, uint64_t elements, uint32_t size) {
  memset(to, op == REDUCE_MIN ? 0xff : 0, elements * size);
}

static uint8_t combine(reduce_op op, uint8_t a, uint8_t b) {
  switch (op) {
  case REDUCE_ADD:
  case REDUCE_WIDE: return (uint8_t)(a + b);
  case REDUCE_XOR: return a ^ b;
  case REDUCE_MAX: return a > b ? a : b;
  default: return a < b ? a : b;
  }
}

void reduce_into(reduce_op op, char *to, const char *from, uint64_t elements,
                 uint32_t size) {
  uint64_t n = elements * size;
  if (op != REDUCE_DOUBLES) {
    for (uint64_t i = 0; i < n; ++i)
      to[i] = (char)combine(op, (uint8_t)to[i], (uint8_t)from[i]);
    return;
  }
  for (uint64_t i = 0; i + sizeof(double) <= n; i += sizeof(double)) {
    double a, b;
    memcpy(&a, to + i, sizeof a);
    memcpy(&b, from + i, sizeof b);
    a += b;
    memcpy(to + i, &a, sizeof a);
  }
}

uint32_t reduce_row_size(reduce_op op, uint32_t size) {
  return op == REDUCE_WIDE ? size + TAIL : size;
}

/* Follows from what stands before it, also in a sum of elements. */
static char tail_byte(const char *element, uint32_t size, uint32_t i) {
  uint32_t sum = 0;
  for (uint32_t k = 0; k < size; ++k) sum += (uint8_t)element[k] * (k + i + 1);
  return (char)sum;
}

/* Of some elements only, and not the same in two. */
void reduce_atom(reduce_op op, char *to, bool row, uint64_t elements,
                 uint32_t size, uint64_t value) {
  cel_random r = {value};
  char one[MOST_SIZE + TAIL];
  const uint32_t step = row ? reduce_row_size(op, size) : size;
  for (uint64_t e = 0; e < elements; ++e) {
    uint64_t word = cel_random_next(&r);
    double exact = (double)(int64_t)(word % EXACT) - EXACT / 2;
    for (uint32_t i = 0; i < size; i += 8)
      memcpy(one + i,
             op == REDUCE_DOUBLES ? (const void *)&exact : (const void *)&word,
             size - i < 8 ? size - i : 8);
    for (uint32_t i = size; i < step; ++i)
      one[i] = tail_byte(one, size, i - size);
    if (word >> 62 != 0) reduce_into(op, to + e * step, one, 1, step);
  }
}

/* ---- as the engine does it ---------------------------------------------- */

typedef struct combiner {
  cel_work work; /* first */
  reduce_op op;
  uint32_t row, size; /* of an element of rows, and of the result */
  bool onto;
} combiner;

/* Combines one element of a row; false: it is not what atoms make. */
static bool take(const combiner *c, char *to, const char *from) {
  for (uint32_t i = c->size; i < c->row; ++i)
    if (from[i] != tail_byte(from, c->size, i - c->size)) return false;
  reduce_into(c->op, to, from, 1, c->size);
  return true;
}

static cel_status run(const cel_work *work, const cel_call *call) {
  const combiner *c = (const combiner *)work;
  const cel_view *rows = &call->view[0], *into = &call->view[1];
  int64_t n = cel_box_volume(&into->box), pitch = rows->layout.max[1];
  int64_t first = call->chunk.min[0], some = call->chunk.max[0] - first;
  if (call->views != 2 || rows->box.max[1] - rows->box.min[1] != n ||
      rows->layout.min[1] != 0 || first + some > n ||
      !cel_box_equal(&into->box, &into->layout))
    return cel_fail(CEL_E_TASK, "not rows and what they are combined into");
  char *to = (char *)into->base + first * c->size;
  if (!c->onto) reduce_begin(c->op, to, (uint64_t)some, c->size);
  for (int64_t i = rows->box.min[0]; i < rows->box.max[0]; ++i) {
    int64_t at = (i - rows->layout.min[0]) * pitch + first;
    const char *from = (const char *)rows->base + at * c->row;
    for (int64_t k = 0; k < some; ++k)
      if (!take(c, to + k * c->size, from + k * c->row))
        return cel_fail(CEL_E_TASK, "not what was reduced");
  }
  return CEL_E_OK;
}

/* For all sizes and ops; programs run one after another, and several ranks in
 * one process share them. Made before there are threads. */
static struct {
  combiner work[4]; /* onto, settling */
  cel_reducer reducer;
} made[OPS][MOST_SIZE + 1];
/* Bytes wrap, whatever an element is. Not all are the engine's own. */
static cel_operator operator_of(reduce_op op) {
  switch (op) {
  case REDUCE_ADD: return (cel_operator){CEL_OP_SUM, 'u', 1};
  case REDUCE_MIN: return (cel_operator){CEL_OP_MIN, 'u', 1};
  case REDUCE_MAX: return (cel_operator){CEL_OP_MAX, 'u', 1};
  case REDUCE_DOUBLES: return (cel_operator){CEL_OP_SUM, 'f', sizeof(double)};
  case REDUCE_WIDE: return (cel_operator){CEL_OP_FIXED, 'f', sizeof(float)};
  default: return (cel_operator){.op = CEL_OP_CUSTOM};
  }
}

static const unsigned char zeros[MOST_SIZE + TAIL];
static unsigned char ones[MOST_SIZE];

static void make(reduce_op op, uint32_t size) {
  uint32_t row = reduce_row_size(op, size);
  combiner *work = made[op][size].work;
  for (int i = 0; i < 4; ++i)
    work[i] = (combiner){.work = {.references = 1,
                                  .fn = run,
                                  .hash = (uint64_t)(op * 64 + i) + 1},
                         .op = op,
                         .row = row,
                         .size = i < 2 ? row : size,
                         .onto = i % 2 == 1};
  cel_reducer *reducer = &made[op][size].reducer;
  *reducer = (cel_reducer){.element_size = row,
                           .identity = op == REDUCE_MIN ? ones : zeros,
                           .by = operator_of(op),
                           .combine = &work[0].work,
                           .combine_onto = &work[1].work};
  if (op != REDUCE_WIDE) return;
  reducer->settle = &work[2].work;
  reducer->settle_onto = &work[3].work;
}

__attribute__((constructor)) static void make_all(void) {
  memset(ones, 0xff, sizeof ones);
  for (int op = 1; op < OPS; ++op)
    for (uint32_t size = 1; size <= MOST_SIZE; ++size)
      make((reduce_op)op, size);
}

const cel_reducer *reduce_reducer(reduce_op op, uint32_t size) {
  return &made[op][size].reducer;
}

/* ---- in programs -------------------------------------------------------- */

void reduce_generate(cel_random *r, const program *p, step *s, int buffer) {
  const struct buffer *b = &p->buffer[buffer];
  if (s->task != CEL_TASK_KERNEL || s->accesses == MOST_ACCESSES || b->apart)
    return;
  for (int k = 0; k < s->accesses; ++k)
    if (s->access[k].buffer == buffer) return;
  bool doubles = b->element_size % 8 == 0;
  access *a = &s->access[s->accesses++];
  *a = (access){.buffer = buffer,
                .mode = CEL_MODE_DISCARD_WRITE,
                .rule = rule_whole(r, s, b)};
  a->reduce = (reduce_op)cel_random_int(
      r, 1, doubles ? REDUCE_DOUBLES : REDUCE_DOUBLES - 1);
  /* What else the buffer holds are no whole numbers. */
  if (a->reduce != REDUCE_DOUBLES && cel_random_chance(r, 40))
    a->mode = CEL_MODE_READ_WRITE;
}
