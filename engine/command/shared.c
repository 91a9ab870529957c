#include "command/shared.h"

/* ---- what is known of each object -----------------------------------------
 */

void cel__shares_release(cel__shares *shares) {
  for (uint32_t i = 0; i < shares->table.cap; ++i)
    if (shares->table.slot[i].key != 0)
      cel_free((void *)(uintptr_t)shares->table.slot[i].a);
  cel__table_release(&shares->table);
}

static cel__shared *shared_of(cel__shares *shares, const cel_object *object) {
  cel__slot *slot = cel__table_put(&shares->table, object->id);
  if (slot->a == 0) {
    cel__shared *made = cel_alloc(sizeof *made);
    *made = (cel__shared){.last = -1};
    slot->a = (uintptr_t)made;
  }
  return (cel__shared *)(uintptr_t)slot->a;
}

void cel__shares_forget(cel__shares *shares, const cel_object *object) {
  const cel__slot *slot = cel__table_find(&shares->table, object->id);
  if (slot == NULL) return;
  cel_free((void *)(uintptr_t)slot->a);
  cel__table_remove(&shares->table, object->id);
}

void cel__tokens_release(cel__tokens *tokens) {
  cel_vec_release(&tokens->before);
  cel_vec_release(&tokens->after);
}

/* ---- the tokens of one effect ---------------------------------------------
 */

typedef struct passing {
  const cel_object *object;
  cel__shared *shared;
  int64_t chunks, me;
  cel__tokens *out;
} passing;

static void pass(const passing *p, int64_t from, int64_t to, cel_order order) {
  if (p->me == from)
    cel_vec_push(&p->out->before, (cel__token){true, to, p->object, order});
  else if (p->me == to)
    cel_vec_push(&p->out->before, (cel__token){false, from, p->object, order});
}

/* Rank 0 learns that all has been done. */
static void gather(const passing *p) {
  cel__shared *s = p->shared;
  if (s->relaxed == 0 && s->last < 0) return;
  if (s->relaxed == 0 && s->last > 0) pass(p, s->last, 0, CEL_ORDER_SEQUENTIAL);
  int64_t from = p->me > 0 ? p->me : 1;
  int64_t to = p->me > 0 && p->me < s->relaxed ? p->me + 1 : s->relaxed;
  for (int64_t k = from; k < to; ++k) pass(p, k, 0, CEL_ORDER_SEQUENTIAL);
  *s = (cel__shared){.last = 0};
}

/* The ranks below `chunks` learn that the newest sequential effect has ended,
 * and with it what an effect of `order` comes after. */
static void tell(const passing *p, cel_order order) {
  cel__shared *s = p->shared;
  if (s->last >= 0)
    for (int64_t k = s->told; k < p->chunks; ++k)
      if (k != s->last && (p->me == k || p->me == s->last))
        pass(p, s->last, k, order);
  if (s->told < p->chunks) s->told = p->chunks;
}

static void relaxed(const passing *p) {
  cel__shared *s = p->shared;
  if (s->all) gather(p);
  tell(p, CEL_ORDER_RELAXED);
  if (s->relaxed < p->chunks) s->relaxed = p->chunks;
}

/* Rank 0's own relaxed effects send no token, so what it tells comes after
 * them too. */
static void together(const passing *p) {
  gather(p);
  tell(p, CEL_ORDER_SEQUENTIAL);
  p->shared->relaxed = p->chunks;
  p->shared->all = true;
}

/* From rank to rank. After all that comes before, at both ends of a pair. */
static void chain(const passing *p) {
  if (p->me > 0 && p->me < p->chunks)
    pass(p, p->me - 1, p->me, CEL_ORDER_SEQUENTIAL);
  if (p->me + 1 < p->chunks)
    cel_vec_push(&p->out->after, (cel__token){true, p->me + 1, p->object,
                                              CEL_ORDER_SEQUENTIAL});
  *p->shared = (cel__shared){.last = p->chunks - 1};
}

void cel__shares_pass(cel__shares *shares, const cel_task *task, int64_t chunks,
                      int64_t me, cel__tokens *out) {
  cel_vec_clear(&out->before);
  cel_vec_clear(&out->after);
  for (int round = 0; round < 2; ++round)
    for (uint32_t i = 0; i < task->effects; ++i) {
      const cel_object *object = task->effect[i].object;
      if (object->scope != CEL_SCOPE_CLUSTER) continue;
      passing p = {object, shared_of(shares, object), chunks, me, out};
      bool sequential =
          cel_effect_order(&task->effect[i]) == CEL_ORDER_SEQUENTIAL;
      if (round == 1 && sequential && task->collective_group == 0)
        chain(&p);
      else if (round == 0 && !sequential)
        relaxed(&p);
      else if (round == 0 && task->collective_group != 0)
        together(&p);
      else if (round == 0)
        gather(&p);
    }
}
