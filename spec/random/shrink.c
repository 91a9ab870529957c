/* Makes a failing program smaller as long as it still fails. */
#include "random/program.h"

typedef bool (*runner)(const program *, char *, size_t);

static bool still_fails(program *p, runner run) {
  static char text[1 << 16];
  return program_interpret(p) && !run(p, text, sizeof text);
}

/* Sets *field to `value`; takes it back unless the program still fails. */
#define TRY(p, run, field, value)                                              \
  do {                                                                         \
    __typeof__(field) before = (field);                                        \
    if (before == (value)) break;                                              \
    (field) = (value);                                                         \
    if (still_fails(p, run))                                                   \
      smaller = true;                                                          \
    else                                                                       \
      (field) = before;                                                        \
  } while (0)

static bool shrink_settings(program *p, runner run) {
  bool smaller = false;
  for (int n = 1; n < p->ranks; ++n) TRY(p, run, p->ranks, n);
  for (int n = 1; n < p->devices; ++n) TRY(p, run, p->devices, n);
  TRY(p, run, p->own_memory, false);
  TRY(p, run, p->lookahead, false);
  TRY(p, run, p->squeeze, 0);
  TRY(p, run, p->cap, 0);
  TRY(p, run, p->chain_bytes, 0);
  TRY(p, run, p->collective.devices, 0);
  TRY(p, run, p->chains, false);
  TRY(p, run, p->exchanges, false);
  TRY(p, run, p->by_messages, false);
  for (int n = 1; n <= 1 || n < p->fold; ++n) TRY(p, run, p->fold, n);
  TRY(p, run, p->alike, false);
  TRY(p, run, p->count_most, 0);
  TRY(p, run, p->tree_least, 0);
  TRY(p, run, p->room, 0);
  if (p->room != 0) TRY(p, run, p->room, 100);
  TRY(p, run, p->whole, 0);
  if (p->room == 0) TRY(p, run, p->grain, 0);
  TRY(p, run, p->small_bytes, 0);
  TRY(p, run, p->large_bytes, 0);
  TRY(p, run, p->interior_bytes, 0);
  TRY(p, run, p->sweep_bytes, 0);
  TRY(p, run, p->spares, false);
  TRY(p, run, p->together_peers, 0);
  TRY(p, run, p->freed_bytes, 0);
  TRY(p, run, p->horizon_step, 4);
  TRY(p, run, p->horizon_breadth, 64);
  TRY(p, run, p->laps_ahead, 8);
  return smaller;
}

static bool shrink_access(program *p, step *s, int k, runner run) {
  access removed = s->access[k];
  for (int i = k; i + 1 < s->accesses; ++i) s->access[i] = s->access[i + 1];
  s->accesses--;
  if (still_fails(p, run)) {
    cel_free(removed.rule);
    cel_free(removed.mask);
    return true;
  }
  for (int i = s->accesses++; i > k; --i) s->access[i] = s->access[i - 1];
  s->access[k] = removed;
  return false;
}

static bool shrink_effect(program *p, step *s, int k, runner run) {
  effect removed = s->effect[k];
  s->effect[k] = s->effect[--s->effects];
  if (still_fails(p, run)) return true;
  s->effect[s->effects++] = s->effect[k];
  s->effect[k] = removed;
  return false;
}

static bool shrink_step(program *p, step *s, runner run) {
  bool smaller = false;
  if (s->dropped) return false;
  TRY(p, run, s->dropped, true);
  if (s->dropped) return true;
  TRY(p, run, s->wait, false);
  TRY(p, run, s->oversubscribe, 0);
  TRY(p, run, s->rank_weights, false);
  TRY(p, run, s->device_weights, false);
  TRY(p, run, s->home.given, false);
  TRY(p, run, s->collective, 0);
  if (s->placement == CEL_PLACE_SPLIT) TRY(p, run, s->task, CEL_TASK_HOST);
  if (s->kind == STEP_GROUP)
    for (int k = s->accesses; k-- > 0;) smaller |= shrink_access(p, s, k, run);
  for (int k = s->effects; k-- > 0;) smaller |= shrink_effect(p, s, k, run);
  return smaller;
}

static void end_ranges_at(program *p, int chain, int d, int64_t max) {
  for (int i = 0; i < p->steps; ++i)
    if (p->step[i]->chain == chain) p->step[i]->range.max[d] = max;
}

/* The range of all steps of a chain, which stay like each other. */
static bool shrink_chain(program *p, const step *s, runner run) {
  bool smaller = false;
  for (int d = 0; d < s->dims; ++d)
    for (int64_t n = s->range.min[d] + 1, max = s->range.max[d]; n < max; ++n) {
      end_ranges_at(p, s->chain, d, n);
      if (still_fails(p, run)) {
        smaller = true;
        break;
      }
      end_ranges_at(p, s->chain, d, max);
    }
  return smaller;
}

static bool shrink_chains(program *p, runner run) {
  bool smaller = false;
  int last = 0;
  for (int i = 0; i < p->steps; ++i) {
    const step *s = p->step[i];
    if (s->dropped || s->chain == 0 || s->chain == last) continue;
    last = s->chain;
    smaller |= shrink_chain(p, s, run);
  }
  return smaller;
}

void program_shrink(program *p, runner run) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    /* The last step is the epoch that flushes everything. */
    for (int i = p->steps - 1; i-- > 0;)
      smaller |= shrink_step(p, p->step[i], run);
    smaller |= shrink_chains(p, run);
    smaller |= shrink_settings(p, run);
    for (int b = 0; b < p->buffers; ++b)
      TRY(p, run, p->buffer[b].element_size, 8u);
  }
  program_interpret(p);
}
