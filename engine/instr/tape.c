/* A command's instructions, so that they can be emitted again.
 *
 * What a tracker answers depends on the order of the ids that it holds, not on
 * what they are. So if all trackers that a command asks are in the states that
 * they were in some steps ago, it gets the same answers, with other ids in the
 * slots, and leaves the same states behind. */
#include "instr/emission.h"
#include "instr/emission_state.h"

/* ---- making a tape ------------------------------------------------------- */

void cel__tape_begin(cel__emission *e) {
  cel_assert(e->tape == NULL && e->deps.n == 0);
  e->tape = cel_alloc_zero(sizeof *e->tape);
  e->tape->first = e->front.next;
}

uint32_t cel__tape_note_tracked(cel__emission *e, cel__tracked *tracked) {
  cel__tape *tape = e->tape;
  for (uint32_t i = 0; i < tape->trackers.n; ++i)
    if (tape->trackers.at[i].tracked == tracked) return i;
  cel__outline *before =
      cel__tracked_outline(tracked, &e->outlines, e->front.floor);
  cel__tape_tracker made = {.tracked = tracked,
                            .before = cel__outline_hold(before)};
  for (uint32_t i = 0; i < tracked->ids.n; ++i)
    cel_vec_push(&made.ids, tracked->ids.at[i]);
  cel_vec_push(&tape->trackers, made);
  return tape->trackers.n - 1;
}

/* Where the id comes from. */
static cel__tape_dep origin_of(const cel__tape *tape, uint32_t tracker,
                               uint64_t id) {
  if (id >= tape->first)
    return (cel__tape_dep){CEL__TAPE_OWN, (uint32_t)(id - tape->first), 0};
  uint32_t slot = cel__slot_of(&tape->trackers.at[tracker].ids, id);
  return (cel__tape_dep){tracker, slot, 0};
}

void cel__tape_note_dep(cel__tape *tape, uint32_t tracker, const cel_dep *dep) {
  cel__tape_dep noted = origin_of(tape, tracker, dep->id);
  noted.kind = dep->kind;
  cel_vec_push(&tape->deps, noted);
}

void cel__tape_note_after(cel__tape *tape, uint64_t id, cel_dep_kind kind) {
  if (id < tape->first)
    tape->broken = true;
  else
    cel__tape_note_dep(tape, CEL__TAPE_OWN, &(cel_dep){id, kind});
}

void cel__tape_note_instr(cel__tape *tape, const cel_instr *instr) {
  bool launch = instr->kind == CEL_INSTR_KERNEL;
  if (!launch && instr->kind != CEL_INSTR_COPY) tape->broken = true;
  for (uint32_t i = 0; launch && i < instr->task->accesses; ++i)
    cel_vec_push(&tape->places, instr->run.view[i]);
  cel_vec_push(&tape->instrs,
               (cel__tape_instr){*instr, tape->deps.n, tape->places.n});
}

/* What the command has left of a tracker. */
static void note_after(cel__emission *e, cel__tape *tape, uint32_t nth) {
  cel__tape_tracker *at = &tape->trackers.at[nth];
  at->after = cel__outline_hold(
      cel__tracked_outline(at->tracked, &e->outlines, e->front.floor));
  const cel_track_words *ids = &at->tracked->ids;
  for (uint32_t i = 0; i < ids->n; ++i)
    cel_vec_push(&at->slots, origin_of(tape, nth, ids->at[i]));
  cel_vec_release(&at->ids);
}

cel__tape *cel__tape_end(cel__emission *e) {
  cel__tape *tape = e->tape;
  e->tape = NULL;
  cel_deps_release(&tape->own);
  if (tape->broken) {
    cel__tape_destroy(tape);
    return NULL;
  }
  for (uint32_t i = 0; i < tape->trackers.n; ++i) note_after(e, tape, i);
  return tape;
}

void cel__tape_destroy(cel__tape *tape) {
  for (uint32_t i = 0; i < tape->trackers.n; ++i) {
    cel__tape_tracker *at = &tape->trackers.at[i];
    cel__outline_drop(at->before);
    cel__outline_drop(at->after);
    cel_vec_release(&at->ids);
    cel_vec_release(&at->slots);
  }
  cel_deps_release(&tape->own);
  cel_vec_release(&tape->instrs);
  cel_vec_release(&tape->deps);
  cel_vec_release(&tape->places);
  cel_vec_release(&tape->trackers);
  cel_free(tape);
}

size_t cel__tape_bytes(const cel__tape *tape) {
  size_t sum = sizeof *tape + tape->instrs.cap * sizeof *tape->instrs.at +
               tape->deps.cap * sizeof *tape->deps.at +
               tape->places.cap * sizeof *tape->places.at +
               tape->trackers.cap * sizeof *tape->trackers.at;
  for (uint32_t i = 0; i < tape->trackers.n; ++i)
    sum += tape->trackers.at[i].slots.cap * sizeof(cel__tape_dep);
  return sum;
}

/* ---- playing it ---------------------------------------------------------- */

bool cel__tape_fits(cel__emission *e, const cel__tape *tape) {
  for (uint32_t i = 0; i < tape->trackers.n; ++i) {
    const cel__tape_tracker *at = &tape->trackers.at[i];
    if (cel__tracked_outline(at->tracked, &e->outlines, e->front.floor) !=
        at->before)
      return false;
  }
  return true;
}

/* What is in the slot now; the first of the tape has id `first`. */
static uint64_t id_in(const cel__tape *tape, const cel__tape_dep *dep,
                      uint64_t first) {
  if (dep->tracker == CEL__TAPE_OWN) return first + dep->slot;
  return tape->trackers.at[dep->tracker].tracked->ids.at[dep->slot];
}

/* Leaves a tracker as it was when the tape ended. */
static void leave(cel__emission *e, const cel__tape *tape,
                  const cel__tape_tracker *at, uint64_t first) {
  cel_vec_clear(&e->slots);
  for (uint32_t i = 0; i < at->slots.n; ++i)
    cel_vec_push(&e->slots, id_in(tape, &at->slots.at[i], first));
  cel__tracked_become(at->tracked, at->after, &e->slots);
}

void cel__tape_play(cel__emission *e, const cel__tape *tape) {
  uint64_t first = e->front.next;
  uint32_t d = 0, p = 0;
  for (uint32_t i = 0; i < tape->instrs.n; ++i) {
    const cel__tape_instr *at = &tape->instrs.at[i];
    cel_arena *arena = cel_eras_arena(&e->eras);
    cel_instr *instr = cel_arena_copy(arena, &at->instr, sizeof at->instr);
    instr->id = e->front.next;
    instr->task = e->task;
    if (instr->kind == CEL_INSTR_KERNEL)
      instr->run.view =
          cel_arena_copy(arena, tape->places.at + p,
                         (at->places - p) * sizeof *tape->places.at);
    for (; d < at->deps; ++d) {
      const cel__tape_dep *dep = &tape->deps.at[d];
      cel_deps_add(&e->deps, id_in(tape, dep, first), dep->kind);
    }
    p = at->places;
    cel__emission_end(e, instr);
  }
  for (uint32_t i = 0; i < tape->trackers.n; ++i)
    leave(e, tape, &tape->trackers.at[i], first);
}
