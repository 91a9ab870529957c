#include "runtime/drawing.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "runtime/drawing_text.h"
#include "task/effect.h"

struct cel_drawing {
  cel_drawn graph;
  uint32_t most;
  _Atomic(uint64_t) left_out;
  CEL_VEC(cel_drawn_node) nodes;
  cel_arena arena; /* what they point to */
  cel_text text;
  CEL_VEC(uint32_t) conflicts;
  CEL_VEC(bool) before; /* by node: whether one comes after it; scratch */
};

cel_drawing *cel_drawing_create(cel_drawn graph, uint32_t most) {
  cel_drawing *drawing = cel_alloc_zero(sizeof *drawing);
  drawing->graph = graph;
  drawing->most = most;
  cel_arena_init(&drawing->arena);
  return drawing;
}

void cel_drawing_destroy(cel_drawing *drawing) {
  if (drawing == NULL) return;
  cel_vec_release(&drawing->nodes);
  cel_vec_release(&drawing->text);
  cel_vec_release(&drawing->conflicts);
  cel_vec_release(&drawing->before);
  cel_arena_release(&drawing->arena);
  cel_free(drawing);
}

/* What an object does to orders is not to be asked when it is gone. */
static void keep_effects(cel_drawing *d, cel_drawn_node *node) {
  cel_effect *own = cel_arena_copy(&d->arena, node->effect,
                                   node->effects * sizeof *node->effect);
  for (uint32_t i = 0; i < node->effects; ++i)
    own[i].order = cel_effect_order(&own[i]);
  node->effect = own;
}

/* Of the node that drawing->text describes. */
static void keep(cel_drawing *d, cel_drawn_node node, const cel_task *task) {
  cel_vec_push(&d->text, '\0');
  node.text = cel_arena_copy(&d->arena, d->text.at, d->text.n);
  node.dep = cel_arena_copy(&d->arena, node.dep, node.deps * sizeof *node.dep);
  keep_effects(d, &node);
  if (task != NULL) {
    node.ended = task->ended;
    node.task = task->id;
    node.location = task->location;
    if (task->name != NULL)
      node.name = cel_arena_copy(&d->arena, task->name, strlen(task->name) + 1);
  }
  cel_vec_push(&d->nodes, node);
}

/* False when there are enough. */
static bool begin(cel_drawing *d) {
  cel_vec_clear(&d->text);
  if (d->nodes.n < d->most) return true;
  atomic_fetch_add_explicit(&d->left_out, 1, memory_order_relaxed);
  return false;
}

static void saw_task(void *context, const cel_task *task) {
  cel_drawing *d = context;
  if (!begin(d)) return;
  cel__drawing_say_task(&d->text, task);
  keep(d,
       (cel_drawn_node){.id = task->id,
                        .kind = cel__drawing_task_kind(task->kind),
                        .deps = task->deps,
                        .dep = task->dep,
                        .effects = task->effects,
                        .effect = task->effect},
       task);
}

static void saw_command(void *context, const cel_command *command) {
  cel_drawing *d = context;
  if (!begin(d)) return;
  cel__drawing_say_command(&d->text, command);
  bool runs = command->kind == CEL_COMMAND_EXECUTE;
  keep(d,
       (cel_drawn_node){.id = command->id,
                        .kind = cel__drawing_command_kind(command->kind),
                        .deps = command->deps,
                        .dep = command->dep,
                        .effects = runs ? command->task->effects : 0,
                        .effect = runs ? command->task->effect : NULL},
       command->task);
}

static void saw_instr(void *context, const cel_instr *instr) {
  cel_drawing *d = context;
  if (!begin(d)) return;
  cel__drawing_say_instr(&d->text, instr);
  keep(d,
       (cel_drawn_node){.id = instr->id,
                        .kind = cel_instr_name(instr->kind),
                        .deps = instr->deps,
                        .dep = instr->dep},
       instr->task);
}

void cel_drawing_attach(cel_drawing *drawing, cel_engine_config *config) {
  config->saw_context = drawing;
  switch (drawing->graph) {
  case CEL_DRAWN_TASKS: config->saw_task = saw_task; break;
  case CEL_DRAWN_COMMANDS: config->saw_command = saw_command; break;
  case CEL_DRAWN_INSTRS: config->saw_instr = saw_instr; break;
  }
}

bool cel_drawing_is_full(const cel_drawing *drawing) {
  return atomic_load_explicit(&drawing->left_out, memory_order_relaxed) > 0;
}

uint32_t cel_drawing_nodes(const cel_drawing *drawing,
                           const cel_drawn_node **out, uint64_t *left_out) {
  *out = drawing->nodes.at;
  *left_out = atomic_load(&drawing->left_out);
  return drawing->nodes.n;
}

/* ---- conflicts ----------------------------------------------------------- */

/* Marks what node `at` comes after, as far back as `first`. */
static void mark_before(cel_drawing *d, uint32_t at, uint32_t first) {
  const cel_drawn_node *node = d->nodes.at;
  while (d->before.n < d->nodes.n) cel_vec_push(&d->before, false);
  for (uint32_t i = first; i < at; ++i) d->before.at[i] = false;
  d->before.at[at] = true;
  for (uint32_t i = at + 1; i-- > first;) {
    for (uint32_t k = 0; d->before.at[i] && k < node[i].deps; ++k) {
      uint64_t back = node[i].id - node[i].dep[k].id;
      if (back <= i - first) d->before.at[i - back] = true;
    }
  }
}

/* Whether nothing before `by` has to do with the node: a new object may lie
 * where one has ended. */
static bool ends(const cel_drawn_node *by, const cel_drawn_node *node) {
  if (strcmp(by->kind, "epoch") == 0) return true;
  for (uint32_t i = 0; by->ended != NULL && i < node->effects; ++i)
    if (node->effect[i].object == by->ended) return true;
  return false;
}

static bool conflict(const cel_drawn_node *a, const cel_drawn_node *b) {
  for (uint32_t i = 0; i < a->effects; ++i)
    for (uint32_t k = 0; k < b->effects; ++k)
      if (a->effect[i].object == b->effect[k].object &&
          cel_orders_conflict(a->effect[i].order, b->effect[k].order))
        return true;
  return false;
}

uint32_t cel_drawing_conflicts(cel_drawing *drawing, uint32_t at,
                               const uint32_t **out) {
  cel_drawing *d = drawing;
  const cel_drawn_node *node = d->nodes.at, *me = &node[at];
  cel_vec_clear(&d->conflicts);
  for (uint32_t i = at; me->effects > 0 && i-- > 0 && !ends(&node[i], me);)
    if (conflict(&node[i], me)) cel_vec_push(&d->conflicts, i);
  if (d->conflicts.n > 0) mark_before(d, at, cel_vec_last(&d->conflicts));
  uint32_t kept = 0;
  for (uint32_t i = 0; i < d->conflicts.n; ++i)
    if (!d->before.at[d->conflicts.at[i]])
      d->conflicts.at[kept++] = d->conflicts.at[i];
  d->conflicts.n = kept;
  *out = d->conflicts.at;
  return kept;
}
