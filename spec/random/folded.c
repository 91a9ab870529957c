/* An interpreter that takes steps of a chain together, as devices that know
 * nothing of each other may: each rank computes its chunk of the last one, and
 * of those before as much as that needs, from what was there before the first.
 */
#include <stdio.h>
#include <string.h>

#include "random/program.h"

enum { MOST_FOLDED = 8 };

typedef struct memory {
  char *bytes[MOST_BUFFERS];
} memory;

typedef struct fold {
  const program *program;
  const step *step[MOST_FOLDED];
  int steps;
} fold;

static size_t bytes_of(const buffer *b) {
  return (size_t)cel_box_volume(&b->extent) * b->element_size;
}

static memory copy_of(const program *p, const memory *m) {
  memory copy = {{0}};
  for (int b = 0; b < p->buffers; ++b) {
    size_t size = bytes_of(&p->buffer[b]);
    copy.bytes[b] = memcpy(cel_alloc(size), m->bytes[b], size);
  }
  return copy;
}

static void memory_release(const program *p, memory *m) {
  for (int b = 0; b < p->buffers; ++b) cel_free(m->bytes[b]);
}

/* ---- forming --------------------------------------------------------------
 */

static bool may_be_member(const step *s) {
  if (s->chain == 0 || s->task != CEL_TASK_KERNEL || step_placed(s) ||
      s->placement != CEL_PLACE_SPLIT)
    return false;
  for (int k = 0; k < s->accesses; ++k)
    if (reduces(&s->access[k]) || s->access[k].rule->opaque) return false;
  return true;
}

static bool may_follow(const step *s, const step *before) {
  return may_be_member(s) && s->chain == before->chain &&
         same_split(s, before) && same_weights(s, before);
}

/* From step *at on, which moves behind it; at most as many as the first step
 * says. The end of a buffer does not come between. */
static fold form(const program *p, int *at) {
  fold f = {.program = p};
  int most = MOST_FOLDED;
  for (; *at < p->steps && f.steps < most; ++*at) {
    const step *s = p->step[*at];
    if (s->dropped || s->kind == STEP_FREE) continue;
    cel_random r = {p->seed ^ 0x666f6c64 ^ (uint64_t)s->number << 32};
    if (f.steps == 0) most = (int)cel_random_int(&r, 1, MOST_FOLDED);
    if (touches_apart(p, s)) break; /* around a chunk there is nothing of it */
    if (f.steps == 0 ? !may_be_member(s) : !may_follow(s, f.step[f.steps - 1]))
      break;
    f.step[f.steps++] = s;
  }
  return f;
}

/* ---- carrying out ----------------------------------------------------------
 */

static bool writes(const step *s, int buffer) {
  for (int k = 0; k < s->accesses; ++k)
    if (s->access[k].buffer == buffer && cel_mode_produces(s->access[k].mode))
      return true;
  return false;
}

static bool written_before(const fold *f, int at, int buffer) {
  for (int i = 0; i < at; ++i)
    if (writes(f->step[i], buffer)) return true;
  return false;
}

/* To what step `at` needs of those before it, within the range. */
static void grow(const fold *f, int at, cel_box *box) {
  const step *s = f->step[at];
  cel_box need = *box, image[MOST_IMAGE];
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    if (!cel_mode_consumes(a->mode) || !written_before(f, at, a->buffer))
      continue;
    const cel_box *extent = &f->program->buffer[a->buffer].extent;
    int n = rule_image(a->rule, &s->range, extent, box, image, NULL);
    for (int i = 0; i < n; ++i) need = cel_box_hull(&need, &image[i]);
  }
  cel_box_intersect(&need, &s->range, box);
}

static void run_part(const program *p, const step *s, const cel_box *part,
                     memory *m) {
  place places[MOST_ACCESSES];
  for (int k = 0; k < s->accesses; ++k) {
    int b = s->access[k].buffer;
    places[k] = (place){.base = m->bytes[b],
                        .layout = p->buffer[b].extent,
                        .promised = p->buffer[b].extent};
  }
  for (int i = 0; i < atom_count(s); ++i) {
    cel_box item = atom_at(s, i);
    if (cel_box_covers(part, &item) && !atom_run(p, s, &item, places, 0))
      cel_bug("an item left its buffer");
  }
}

typedef struct taking {
  const buffer *b;
  char *to;
  const char *from;
} taking;

static void take_point(void *context, const int64_t *point) {
  const taking *at = context;
  uint32_t size = at->b->element_size;
  int64_t i = index_of(&at->b->extent, point) * size;
  memcpy(at->to + i, at->from + i, size);
}

static bool keeps(const fold *f, int buffer) {
  if (f->program->harm == HARM_DEAD)
    return writes(f->step[f->steps - 1], buffer);
  return written_before(f, f->steps, buffer);
}

/* What one rank has come to, which is its chunk of what was written. */
static void take_chunk(const fold *f, const cel_box *chunk, const memory *from,
                       memory *to) {
  for (int b = 0; b < f->program->buffers; ++b) {
    taking at = {&f->program->buffer[b], to->bytes[b], from->bytes[b]};
    if (keeps(f, b)) each_point(chunk, 1, take_point, &at);
  }
}

/* Whether the first that touches a buffer leaves some of it as it is. */
static bool begins_with_write(const fold *f, int buffer) {
  for (int i = 0; i < f->steps; ++i)
    for (int k = 0; k < f->step[i]->accesses; ++k)
      if (f->step[i]->access[k].buffer == buffer)
        return f->step[i]->access[k].mode == CEL_MODE_WRITE;
  return false;
}

static void blank_around(const fold *f, const cel_box *chunk,
                         const memory *before, memory *own) {
  for (int b = 0; b < f->program->buffers; ++b) {
    if (!begins_with_write(f, b)) continue;
    taking at = {&f->program->buffer[b], own->bytes[b], before->bytes[b]};
    memset(at.to, 0, bytes_of(at.b));
    each_point(chunk, 1, take_point, &at);
  }
}

static void thin(const cel_box *chunk, cel_box *part) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (part->min[d] < chunk->min[d]) ++part->min[d];
}

static void run_on_rank(const fold *f, const cel_box *chunk,
                        const memory *before, memory *after) {
  cel_box part[MOST_FOLDED];
  harm harmed = f->program->harm;
  part[f->steps - 1] = *chunk;
  for (int i = f->steps - 1; i > 0; --i) {
    part[i - 1] = harmed == HARM_FLAT ? *chunk : part[i];
    grow(f, i, &part[i - 1]);
  }
  memory own = copy_of(f->program, before);
  if (harmed == HARM_THIN) thin(chunk, &part[0]);
  if (harmed == HARM_DISCARD) blank_around(f, chunk, before, &own);
  for (int i = 0; i < f->steps; ++i)
    run_part(f->program, f->step[i], &part[i], &own);
  take_chunk(f, chunk, &own, after);
  memory_release(f->program, &own);
}

/* How many there were, of so many steps. */
static uint64_t folds_of[MOST_FOLDED + 1];

void folds_print(void) {
  printf("folds of 1 to %d steps:", MOST_FOLDED);
  for (int n = 1; n <= MOST_FOLDED; ++n)
    printf(" %llu", (unsigned long long)folds_of[n]);
  printf("\n");
}

static void run_fold(const fold *f, memory *m) {
  ++folds_of[f->steps];
  memory before = copy_of(f->program, m);
  cel_box chunk;
  for (int k = 0; k < f->program->ranks; ++k)
    if (step_chunk(f->program, f->step[0], k, &chunk))
      run_on_rank(f, &chunk, &before, m);
  memory_release(f->program, &before);
}

/* ---- programs --------------------------------------------------------------
 */

typedef struct comparison {
  const step *s;
  const buffer *b;
  const char *bytes;
  bool wrong;
} comparison;

static void compare(void *context, const int64_t *point) {
  comparison *at = context;
  int64_t i = index_of(&at->b->extent, point), size = at->b->element_size;
  if (at->s->known[i] != 0 &&
      memcmp(at->bytes + i * size, at->s->expect + i * size, (size_t)size) != 0)
    at->wrong = true;
}

static bool verify(const program *p, const step *s, const memory *m, char *text,
                   size_t size) {
  comparison at = {s, &p->buffer[s->buffer], m->bytes[s->buffer], false};
  each_point(&at.b->extent, 1, compare, &at);
  if (at.wrong)
    snprintf(text, size,
             "mismatch: folds come to wrong contents of b%d at the fence of "
             "step %d",
             s->buffer, s->number);
  return !at.wrong;
}

bool program_run_folded(const program *p, char *text, size_t size) {
  memory m = {{0}};
  bool passed = true;
  for (int b = 0; b < p->buffers; ++b) m.bytes[b] = initial_contents(p, b);
  for (int at = 0; at < p->steps && passed;) {
    fold f = form(p, &at);
    if (f.steps > 0) {
      if (f.steps > 1 || p->harm != HARM_REST) run_fold(&f, &m);
      continue;
    }
    const step *s = at < p->steps ? p->step[at++] : NULL;
    if (s != NULL && s->kind == STEP_GROUP) step_run(p, s, m.bytes);
    if (s != NULL && s->kind == STEP_FENCE)
      passed = verify(p, s, &m, text, size);
  }
  memory_release(p, &m);
  return passed;
}
