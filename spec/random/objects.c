/* What host tasks do to host objects, and what that must come to.
 *
 * A sequential effect folds in all that was added before it, so it shows when
 * it is out of place; the others add, where exclusive ones do so in a way that
 * loses something when two do it at once. What all ranks of a collective task
 * do to an object that they share they do as one, in no order among them: each
 * adds what it finds of the tasks before. Who is inside is counted, so that an
 * overlap shows as well. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "random/program.h"

/* What an engine's object carries. */
typedef struct slot {
  object_state *state, *own;
} slot;

static void complain(object_state *state) {
  atomic_store(&state->wrong, true);
}

/* ---- running tasks --------------------------------------------------------
 */

static uint64_t mix(const step *s, int64_t k) {
  int64_t what[] = {s->number, k};
  return cel_hash(what, sizeof what, s->salt);
}

/* How a step is at an object: in an order, or on all ranks as one. */
typedef enum manner { SEQUENTIAL, EXCLUSIVE, RELAXED, TOGETHER } manner;

static manner manner_of(const program *p, const step *s, const effect *e) {
  if (e->order == CEL_ORDER_RELAXED) return RELAXED;
  if (p->scope[e->object] == CEL_SCOPE_CLUSTER)
    return s->collective != 0 ? TOGETHER : SEQUENTIAL;
  return e->order == CEL_ORDER_EXCLUSIVE ? EXCLUSIVE : SEQUENTIAL;
}

/* `k` is the rank, where ranks share the object. */
static void change(object_state *state, manner how, const step *s, int64_t k,
                   bool yields) {
  uint64_t value = mix(s, k);
  if (how == RELAXED) {
    atomic_fetch_add(&state->sum, value);
  } else if (how == EXCLUSIVE) {
    uint64_t before = state->alone;
    if (yields) sched_yield();
    state->alone = before + value;
  } else if (how == TOGETHER) {
    uint64_t seen[] = {value, state->alone, atomic_load(&state->sum)};
    atomic_fetch_add(&state->collective,
                     cel_hash(seen, sizeof seen, state->fold));
  } else {
    uint64_t seen[] = {value, state->alone, atomic_load(&state->sum),
                       atomic_load(&state->collective)};
    state->fold = cel_hash(seen, sizeof seen, state->fold);
  }
}

static int64_t who(const program *p, const effect *e, int64_t rank) {
  return p->scope[e->object] == CEL_SCOPE_CLUSTER ? rank : 0;
}

static const slot *slot_of(const cel_call *call, int i) {
  return call->effect[i].object->context;
}

/* All that the steps before `end` do to object `o`: of all ranks, where they
 * share what is kept of it, else of rank `me`. */
static void expect(const program *p, int o, bool shared, int me, int end,
                   object_state *state) {
  int from = shared ? 0 : me, to = shared ? p->ranks : me + 1;
  for (int i = 0; i < end; ++i) {
    const step *s = p->step[i];
    if (s->dropped || s->kind != STEP_GROUP || cel_box_is_empty(&s->range))
      continue;
    cel_box chunk;
    for (int e = 0; e < s->effects; ++e)
      for (int k = from; s->effect[e].object == o && k < to; ++k)
        if (step_chunk(p, s, k, &chunk))
          change(state, manner_of(p, s, &s->effect[e]), s,
                 who(p, &s->effect[e], k), false);
  }
}

static bool shares(const rank *r, int o) {
  return r->program->scope[o] == CEL_SCOPE_CLUSTER && r->shared != NULL;
}

static uint64_t one_of(const step *s) {
  return ((uint64_t)s->number + 1) << 32 | 1;
}

/* Whether nobody is inside who keeps it out. It says first that it is there
 * itself, so that one of two sees the other. */
static bool enter(object_state *state, manner how, const step *s) {
  if (how == TOGETHER) {
    uint64_t one = one_of(s);
    uint64_t now = atomic_fetch_add(&state->together, one) + one;
    return now == (now & UINT32_MAX) * one &&
           atomic_load(&state->strict) == 0 &&
           atomic_load(&state->relaxed) == 0;
  }
  bool relaxed = how == RELAXED;
  int before = atomic_fetch_add(relaxed ? &state->relaxed : &state->strict, 1);
  return (relaxed || before == 0) && atomic_load(&state->together) == 0 &&
         atomic_load(relaxed ? &state->strict : &state->relaxed) == 0;
}

static void leave(object_state *state, manner how, const step *s) {
  if (how == TOGETHER)
    atomic_fetch_sub(&state->together, one_of(s));
  else
    atomic_fetch_sub(how == RELAXED ? &state->relaxed : &state->strict, 1);
}

/* Whether the tasks before have ended on all ranks, and none after has begun;
 * for a collective task that begins. Of `collective` other ranks may already
 * have added their part of it. */
static bool in_turn(const program *p, const step *s, int o, const slot *at,
                    int64_t rank) {
  object_state should = {0};
  expect(p, o, at->state != at->own, (int)rank, s->number, &should);
  return at->state->fold == should.fold && at->state->alone == should.alone &&
         atomic_load(&at->state->sum) == should.sum;
}

bool objects_enter(const program *p, const step *s, const cel_call *call) {
  if (call->effects != s->effects) return false;
  for (int i = 0; i < s->effects; ++i) {
    const slot *at = slot_of(call, i);
    const effect *e = &s->effect[i];
    manner how = manner_of(p, s, e);
    if (atomic_load(&at->own->released) > 0) complain(at->own);
    if (!enter(at->state, how, s)) complain(at->own);
    if (how == TOGETHER && !in_turn(p, s, e->object, at, call->rank))
      atomic_store(&at->own->out_of_turn, true);
  }
  return true;
}

void objects_leave(const program *p, const step *s, const cel_call *call,
                   bool done) {
  for (int i = 0; i < s->effects; ++i) {
    const slot *at = slot_of(call, i);
    const effect *e = &s->effect[i];
    manner how = manner_of(p, s, e);
    if (done) change(at->state, how, s, who(p, e, call->rank), true);
    leave(at->state, how, s);
  }
}

/* ---- objects --------------------------------------------------------------
 */

static cel_status release(const cel_work *work, const cel_call *call) {
  object_state *own = work->context;
  (void)call;
  if (atomic_fetch_add(&own->released, 1) > 0) complain(own);
  return CEL_E_OK;
}

static void destroy_work(cel_work *work) {
  cel_free(work);
}

static void destroy(cel_object *object) {
  cel_free(object->context);
}

const cel_object *object_of(rank *r, int o) {
  if (r->object[o] != NULL) return r->object[o];
  object_state *own = &r->own[o];
  slot *at = cel_alloc(sizeof *at);
  *at = (slot){shares(r, o) ? &r->shared[o] : own, own};
  cel_work *work = NULL;
  if (r->program->releases >> o & 1) {
    work = cel_alloc_zero(sizeof *work);
    *work = (cel_work){.references = 1,
                       .fn = release,
                       .destroy = destroy_work,
                       .context = own};
  }
  char name[8];
  snprintf(name, sizeof name, "o%d", o);
  cel_object what = {.scope = scope_on(r->program, r->index, o),
                     .hash = maker_on(r->program, r->index, o),
                     .name = name,
                     .context = at,
                     .release = work,
                     .destroy = destroy};
  r->object[o] = cel_engine_object(r->engine, &what);
  return r->object[o];
}

void object_end(rank *r, int o) {
  cel_engine_object_free(r->engine, r->object[o]);
  r->object[o] = NULL;
  r->ended[o] = true;
}

/* ---- looking --------------------------------------------------------------
 */

typedef struct looked {
  uint64_t fold, alone, sum, collective;
} looked;

static cel_status take(const cel_taking *taking, const cel_call *call,
                       void **data, uint64_t *size) {
  const slot *at = slot_of(call, 0);
  (void)taking;
  if (atomic_fetch_add(&at->state->strict, 1) > 0 ||
      atomic_load(&at->state->relaxed) > 0 ||
      atomic_load(&at->state->together) > 0)
    complain(at->own);
  looked *seen = malloc(sizeof *seen);
  *seen =
      (looked){at->state->fold, at->state->alone, atomic_load(&at->state->sum),
               atomic_load(&at->state->collective)};
  atomic_fetch_sub(&at->state->strict, 1);
  *data = seen;
  *size = sizeof *seen;
  return CEL_E_OK;
}

static void destroy_taking(cel_taking *taking) {
  cel_free(taking);
}

cel_status object_look(rank *r, int o, uint64_t salt, cel_location location,
                       cel_fence **out) {
  cel_taking *taking = cel_alloc_zero(sizeof *taking);
  *taking = (cel_taking){.take = take, .destroy = destroy_taking, .hash = salt};
  return cel_engine_fence_object(r->engine, object_of(r, o), taking, location,
                                 out);
}

static bool fail(const rank *r, int o, char *text, size_t size,
                 const char *what) {
  snprintf(text, size, "mismatch: host object o%d on rank %d %s", o, r->index,
           what);
  return false;
}

bool object_seen(const rank *r, int i, char *text, size_t size) {
  int o = r->program->step[i]->object;
  object_state should = {0};
  const void *data;
  uint64_t bytes;
  expect(r->program, o, shares(r, o), r->index, i, &should);
  if (cel_engine_fence_get(r->engine, r->fence[i], NULL, &data, &bytes) !=
      CEL_E_OK)
    return fail(r, o, text, size, "brings no snapshot");
  const looked *seen = data;
  if (bytes == sizeof *seen && seen->fold == should.fold &&
      seen->alone == should.alone && seen->sum == should.sum &&
      seen->collective == should.collective)
    return true;
  return fail(r, o, text, size, "is not in a snapshot as it was");
}

bool objects_verify(const rank *r, char *text, size_t size) {
  for (int o = 0; o < r->program->objects; ++o) {
    const object_state *is = shares(r, o) ? &r->shared[o] : &r->own[o];
    object_state should = {0};
    expect(r->program, o, shares(r, o), r->index, r->program->steps, &should);
    if (is->fold != should.fold || is->collective != should.collective)
      return fail(r, o, text, size, "was touched in a wrong order");
    if (is->alone != should.alone || is->sum != should.sum)
      return fail(r, o, text, size, "lost what tasks did");
    if (r->own[o].out_of_turn)
      return fail(r, o, text, size,
                  "was touched by a collective task out of its turn");
    if (is->wrong || r->own[o].wrong)
      return fail(r, o, text, size, "was touched by two at once, or too late");
    bool must = r->ended[o] && (r->program->releases >> o & 1) != 0;
    if (r->own[o].released != (must ? 1 : 0))
      return fail(r, o, text, size, "was not released, or when it should not");
  }
  return true;
}
