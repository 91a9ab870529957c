#include "runtime/drawing_text.h"

#include "base/amount.h"

enum { BOXES = 4 };

typedef cel_text text;

static void say_box(text *t, const cel_box *box, int dims) {
  cel_text_format(t, " ");
  if (dims == 0) cel_text_format(t, "of one");
  for (int d = 0; d < dims; ++d)
    cel_text_format(t, "%s[%lld,%lld)", d > 0 ? "x" : "",
                    (long long)box->min[d], (long long)box->max[d]);
}

static const char *name_of(const cel_buffer *buffer) {
  return buffer->name != NULL ? buffer->name : "a buffer";
}

static void say_part(text *t, const cel_buffer *buffer, const cel_box *box) {
  cel_text_format(t, "%.80s", name_of(buffer));
  say_box(t, box, buffer->dims);
}

static void say_bytes(text *t, uint64_t bytes) {
  char amount[CEL_AMOUNT_TEXT];
  cel_amount_text(bytes, amount, sizeof amount);
  cel_text_format(t, ", %s", amount);
}

/* ---- accesses and effects ------------------------------------------------ */

/* What a chunk touches: the first few boxes. */
static void say_boxes(text *t, const cel_access *access, const cel_box *chunk) {
  cel_region region = {0};
  if (access->rows > 0) {
    cel_text_format(t, " partial results");
  } else if (cel_rule_eval(&access->use, chunk, &region) == CEL_E_OK) {
    for (uint32_t i = 0; i < region.n && i < BOXES; ++i)
      say_box(t, &region.at[i], access->buffer->dims);
    if (region.n > BOXES) cel_text_format(t, " and %u more", region.n - BOXES);
    if (region.n == 0) cel_text_format(t, " nothing");
  }
  cel_region_release(&region);
}

static void say_accesses(text *t, const cel_task *task, const cel_box *chunk) {
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    cel_text_format(t, "%s %.80s", cel_mode_name(access->mode),
                    name_of(access->buffer));
    say_boxes(t, access, chunk);
    cel_text_format(t, "\n");
  }
}

static void say_object(text *t, const cel_object *object) {
  cel_text_format(t, "%.80s",
                  object->name != NULL ? object->name : "an object");
}

static void say_effects(text *t, const cel_task *task) {
  for (uint32_t i = 0; i < task->effects; ++i) {
    cel_text_format(t, "%s effect on ", cel_order_name(task->effect[i].order));
    say_object(t, task->effect[i].object);
    cel_text_format(t, "\n");
  }
}

static void say_freed(text *t, const cel_task *task) {
  if (task->freed != NULL) cel_text_format(t, "%.80s", name_of(task->freed));
  if (task->ended != NULL) say_object(t, task->ended);
  cel_text_format(t, "\n");
}

/* ---- nodes --------------------------------------------------------------- */

const char *cel__drawing_task_kind(cel_task_kind kind) {
  static const char *const names[] = {
#define KIND_NAME(NAME, name, text) #name,
      CEL_TASK_KINDS(KIND_NAME)
#undef KIND_NAME
  };
  return names[kind];
}

const char *cel__drawing_command_kind(cel_command_kind kind) {
  static const char *const names[] = {
#define KIND_NAME(NAME, name, text) #name,
      CEL_COMMAND_KINDS(KIND_NAME)
#undef KIND_NAME
  };
  return names[kind];
}

static void say_home(text *t, const cel_home *home) {
  if (home->buffer == NULL) {
    cel_text_format(t, ", on rank %lld", (long long)home->rank);
    return;
  }
  cel_text_format(t, ", where ");
  say_part(t, home->buffer, &home->box);
  cel_text_format(t, " lies");
}

void cel__drawing_say_task(cel_text *text, const cel_task *task) {
  static const char *const where[] = {"", " once", " on each rank",
                                      " on each rank alike"};
  if (task->kind == CEL_TASK_FREE) say_freed(text, task);
  if (task->kind != CEL_TASK_KERNEL && task->kind != CEL_TASK_HOST) return;
  cel_text_format(text, "over");
  say_box(text, &task->range, task->dims);
  cel_text_format(text, "%s%s", where[task->placement],
                  task->collective_group != 0 ? ", together" : "");
  if (task->home != NULL) say_home(text, task->home);
  cel_text_format(text, "\n");
  say_accesses(text, task, &task->range);
  say_effects(text, task);
}

static void say_pieces(text *t, const cel_message *m) {
  if (m->object != NULL) {
    cel_text_format(t, "token of ");
    say_object(t, m->object);
    cel_text_format(t, "\n");
  }
  for (uint32_t i = 0; i < m->pieces && i < BOXES; ++i) {
    say_part(t, m->piece[i].buffer, &m->piece[i].box);
    cel_text_format(t, "\n");
  }
  if (m->pieces > BOXES) cel_text_format(t, "and %u more\n", m->pieces - BOXES);
}

static void say_more(text *t, uint32_t n, const char *what) {
  if (n > 0) cel_text_format(t, "and %u more %s\n", n, what);
}

static void say_share(text *t, const cel_exchange *x) {
  say_part(t, x->buffer, &x->box);
  cel_text_format(t, "\n");
  if (cel_box_is_empty(&x->mine) || cel_box_equal(&x->mine, &x->box)) return;
  cel_text_format(t, "gives ");
  say_part(t, x->buffer, &x->mine);
  cel_text_format(t, "\n");
}

static void say_exchange(text *t, const cel_exchange *x) {
  static const char *const how[] = {[CEL_PATTERN_NONE] = "",
                                    [CEL_PATTERN_BROADCAST] = " from rank",
                                    [CEL_PATTERN_SCATTER] = " from rank",
                                    [CEL_PATTERN_GATHER] = " to rank",
                                    [CEL_PATTERN_ALL_GATHER] = "",
                                    [CEL_PATTERN_ALL_TO_ALL] = "",
                                    [CEL_PATTERN_ALL_REDUCE] = " by "};
  cel_text_format(t, "%s%s", cel_pattern_name(x->pattern), how[x->pattern]);
  if (x->pattern == CEL_PATTERN_ALL_REDUCE)
    cel_text_format(t, "%s", cel_op_name(x->by.op));
  else if (how[x->pattern][0] != '\0')
    cel_text_format(t, " %lld", (long long)x->root);
  if (x->subgroup > 0)
    cel_text_format(t, " in groups of %lld", (long long)x->subgroup);
  say_bytes(t, cel_exchange_bytes(x));
  cel_text_format(t, "\n");
  for (; x != NULL; x = x->next) say_share(t, x);
}

void cel__drawing_say_command(cel_text *text, const cel_command *command) {
  const cel_message *m = &command->message;
  uint32_t more = 0;
  switch (command->kind) {
  case CEL_COMMAND_EXECUTE:
    cel_text_format(text, "chunk");
    say_box(text, &command->chunk, command->task->dims);
    cel_text_format(text, "\n");
    say_accesses(text, command->task, &command->chunk);
    say_effects(text, command->task);
    break;
  case CEL_COMMAND_PUSH:
  case CEL_COMMAND_AWAIT_PUSH:
    for (uint32_t i = 0; m != NULL && i < BOXES; ++i, m = m->next) {
      cel_text_format(text, "%s rank %lld",
                      command->kind == CEL_COMMAND_PUSH ? "to" : "from",
                      (long long)m->peer);
      say_bytes(text, m->bytes);
      cel_text_format(text, "\n");
      say_pieces(text, m);
    }
    for (; m != NULL; m = m->next) ++more;
    say_more(text, more, "messages");
    break;
  case CEL_COMMAND_COLLECTIVE: say_exchange(text, command->exchange); break;
  case CEL_COMMAND_FREE: say_freed(text, command->task); break;
  default: break;
  }
}

static void say_memory(text *t, int32_t memory) {
  if (memory == CEL_MEMORY_HOST)
    cel_text_format(t, "host");
  else
    cel_text_format(t, "device memory %d", memory - 1);
}

static void say_allocation(text *t, const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  bool whole = instr->kind == CEL_INSTR_ALLOC || instr->kind == CEL_INSTR_FREE;
  say_part(t, a->buffer, &a->layout);
  cel_text_format(t, "\nin ");
  say_memory(t, a->memory);
  say_bytes(t, whole ? a->reserve : instr->memory.end - instr->memory.begin);
  cel_text_format(t, "\n");
}

static void say_copy(text *t, const cel_instr *instr) {
  say_part(t, instr->copy.to->buffer, &instr->copy.box);
  cel_text_format(t, "\n");
  if (instr->copy.from != NULL) {
    say_memory(t, instr->copy.from->memory);
    cel_text_format(t, " to ");
  } else {
    cel_text_format(t, "in ");
  }
  say_memory(t, instr->copy.to->memory);
  cel_text_format(t, "\n");
}

static void say_run(text *t, const cel_instr *instr) {
  const cel_task *task = instr->task;
  cel_text_format(t, "chunk");
  say_box(t, &instr->run.chunk, task->dims);
  if (instr->kind == CEL_INSTR_KERNEL)
    cel_text_format(t, " on device %d", instr->device);
  cel_text_format(t, "\n");
  for (uint32_t i = 0; i < task->accesses; ++i) {
    if (instr->run.view[i].allocation == NULL) continue;
    cel_text_format(t, "%s ", cel_mode_name(task->access[i].mode));
    say_part(t, task->access[i].buffer, &instr->run.view[i].box);
    cel_text_format(t, "\n");
  }
  say_effects(t, task);
}

static void say_message(text *t, const cel_sent *m, bool out) {
  cel_text_format(t, "%s rank %lld", out ? "to" : "from", (long long)m->peer);
  say_bytes(t, m->bytes);
  cel_text_format(t, "%s\n", m->direct ? ", direct" : "");
  for (uint32_t i = 0; i < m->pieces && i < BOXES; ++i) {
    const cel_place_in *piece = &m->piece[i];
    say_part(t, piece->allocation->buffer, &piece->box);
    cel_text_format(t, "\n");
  }
  if (m->pieces > BOXES) cel_text_format(t, "and %u more\n", m->pieces - BOXES);
}

static void say_messages(text *t, const cel_instr *instr) {
  const cel_sent *m = &instr->message;
  uint32_t more = 0;
  for (uint32_t i = 0; m != NULL && i < BOXES; ++i, m = m->next)
    say_message(t, m, instr->kind == CEL_INSTR_SEND);
  for (; m != NULL; m = m->next) ++more;
  say_more(t, more, "messages");
}

void cel__drawing_say_instr(cel_text *text, const cel_instr *instr) {
  switch (cel_instr_lane_of(instr->kind)) {
  case CEL_LANE_MEMORY: say_allocation(text, instr); return;
  case CEL_LANE_COMM:
    if (instr->kind == CEL_INSTR_COLLECTIVE)
      say_exchange(text, instr->collective.exchange);
    else
      say_messages(text, instr);
    return;
  case CEL_LANE_NONE: return;
  default: break;
  }
  if (instr->kind == CEL_INSTR_COPY || instr->kind == CEL_INSTR_INIT)
    say_copy(text, instr);
  else if (instr->kind == CEL_INSTR_RELEASE)
    say_freed(text, instr->task);
  else
    say_run(text, instr);
}
