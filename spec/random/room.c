/* How much memory a program needs on a device, at most at one moment. */
#include "random/program.h"

/* A chunk's parts: a run each, and around the interior of one up to six more.
 */
enum { PARTS = 7 };

/* One access may lie in several allocations, which differ in dimensions 1 and
 * 2, and each takes whole blocks. */
static uint64_t needs_access(const program *p, const step *s, const access *a,
                             uint64_t block) {
  const buffer *b = &p->buffer[a->buffer];
  const cel_box *e = &b->extent;
  uint64_t most = (uint64_t)(e->max[1] * e->max[2]);
  uint64_t runs = s->oversubscribe > 1 ? (uint64_t)s->oversubscribe : 1;
  uint64_t parts = (PARTS * runs + (uint64_t)p->ranks) * (uint64_t)s->accesses;
  uint64_t bytes = (uint64_t)cel_box_volume(e) * b->element_size;
  /* What one message of a task holds while the next one's allocation grows. */
  if (p->ranks > 1) bytes *= 2;
  return bytes + (most < parts ? most : parts) * block;
}

/* All rows, and one after the other: the task that combines them. */
static uint64_t needs_rows(const program *p, const step *s, const access *a,
                           uint64_t block) {
  const buffer *b = &p->buffer[a->buffer];
  uint64_t runs = s->oversubscribe > 1 ? (uint64_t)s->oversubscribe : 1;
  uint64_t rows = (uint64_t)p->ranks * (uint64_t)p->devices * runs;
  uint64_t row = (uint64_t)cel_box_volume(&b->extent) *
                 reduce_row_size(a->reduce, b->element_size);
  return rows * row + (rows + 1) * block;
}

static uint64_t needs_step(const program *p, const step *s, uint64_t block) {
  uint64_t sum = 0;
  for (int i = 0; i < s->accesses; ++i) {
    bool again = false;
    for (int k = 0; k < i; ++k)
      again |= s->access[k].buffer == s->access[i].buffer;
    if (reduces(&s->access[i])) sum += needs_rows(p, s, &s->access[i], block);
    if (!again) sum += needs_access(p, s, &s->access[i], block);
  }
  return sum;
}

uint64_t program_capacity(const program *p, uint64_t block) {
  uint64_t most = 0;
  if (p->room == 0) return 0;
  if (block == 0) block = 1;
  for (int i = 0; i < p->steps; ++i) {
    if (p->step[i]->kind != STEP_GROUP) continue;
    uint64_t bytes = needs_step(p, p->step[i], block);
    if (bytes > most) most = bytes;
  }
  return most * (uint64_t)p->room / 100 + block;
}

bool program_lacks_room(const program *p, const rank *ranks) {
  for (int k = 0; k < p->ranks && p->room > 0 && p->room < 100; ++k)
    if (cel_engine_check(ranks[k].engine) == CEL_E_MEMORY) return true;
  return false;
}
