/* Tiles that are written, and rows or columns of them that are read: what ranks
 * exchange in groups. */
#include "random/program.h"

enum { MOST_ROWS = 8, MOST_COLUMNS = 6 };

static int64_t less(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void begin(cel_random *r, step *s, const cel_box *range) {
  s->kind = STEP_GROUP;
  s->salt = cel_random_next(r);
  s->task = CEL_TASK_KERNEL;
  s->placement = CEL_PLACE_SPLIT;
  s->dims = 2;
  s->range = *range;
  s->permitted = (cel_split_kind){{true, true, false}, {1, 1, 1}};
}

static void take(cel_random *r, const program *p, step *s, int b, cel_mode mode,
                 int whole) {
  s->access[s->accesses++] = (access){
      .buffer = b, .mode = mode, .rule = rule_tile(r, s, &p->buffer[b], whole)};
}

bool tiles_suit(const program *p, int first, int second) {
  return first != second && !p->buffer[first].apart &&
         !p->buffer[second].apart && p->buffer[first].dims >= 2 &&
         p->buffer[second].dims >= 2;
}

void tiles_generate(cel_random *r, const program *p, int first, int second,
                    step *writes, step *reads) {
  const int64_t *a = p->buffer[first].extent.max;
  const int64_t *b = p->buffer[second].extent.max;
  cel_box range = cel_box_sized(less(less(a[0], b[0]), MOST_ROWS),
                                less(less(a[1], b[1]), MOST_COLUMNS), 1);
  begin(r, writes, &range);
  take(r, p, writes, first, CEL_MODE_DISCARD_WRITE, -1);
  begin(r, reads, &range);
  take(r, p, reads, first, CEL_MODE_READ, (int)cel_random_int(r, 0, 1));
  take(r, p, reads, second, CEL_MODE_DISCARD_WRITE, -1);
}
