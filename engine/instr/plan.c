#include <inttypes.h>

#include "command/collective/member.h"
#include "instr/graph.h"
#include "task/assignment.h"

/* The rows that each rank has for the parts of a task that reduces, where what
 * is reduced in place counts as one; 0: it does not. */
static int64_t rows_of(const cel_task *task) {
  bool in_place = false;
  for (uint32_t i = 0; i < task->accesses; ++i) {
    if (task->access[i].rows > 0) return task->access[i].rows;
    in_place |= task->access[i].in_place;
  }
  return in_place ? 1 : 0;
}

/* What calls a library is called once per device: for less than a chunk there
 * may be no plan, and no speed. */
static bool calls_library(const cel_task *task) {
  return task->work != NULL && task->work->lua;
}

/* As it is, where that is final; or cut for its halo. */
static cel_status add_part(cel_instr_graph *graph, const cel__part *part,
                           bool final) {
  if (!final) return cel__interior_cut(graph, part);
  cel_vec_push(&graph->plan.parts, *part);
  return CEL_E_OK;
}

/* A device's or lane's chunk, in runs. */
static cel_status make_runs(cel_instr_graph *graph, cel__part part,
                            bool whole) {
  const cel_task *task = graph->plan.command->task;
  bool final = whole || task->kind == CEL_TASK_HOST || calls_library(task) ||
               task->listed;
  if (task->oversubscribe <= 1) return add_part(graph, &part, final);
  cel_split split = cel_task_runs(task, &part.chunk);
  for (int64_t i = 0; i < split.n; ++i)
    if (cel_split_chunk(&split, i, &part.chunk))
      CEL_TRY(add_part(graph, &part, final));
  return CEL_E_OK;
}

/* A rank that has more devices than rows has others rest. */
static int64_t devices_for(const cel_instr_graph *graph, const cel_task *task) {
  int64_t rows = rows_of(task), devices = graph->config.devices;
  if (task->oversubscribe > 1 && task->placement == CEL_PLACE_SPLIT)
    rows /= task->oversubscribe;
  return rows > 0 && rows < devices ? rows : devices;
}

/* The chunk over this rank's devices, or in host lanes. With `whole`, chunks
 * are not cut for their halos. */
static cel_status make_parts(cel_instr_graph *graph, bool whole) {
  cel__plan *plan = &graph->plan;
  const cel_command *command = plan->command;
  cel_vec_clear(&plan->parts);
  cel__part part = {.device = -1,
                    .memory = CEL_MEMORY_HOST,
                    .priority = CEL__PRIORITY_RUN,
                    .chunk = command->chunk};
  if (command->task->kind == CEL_TASK_HOST)
    return make_runs(graph, part, whole);
  if (graph->config.devices == 1 && !cel_box_is_empty(&part.chunk)) {
    part.device = 0;
    part.memory = graph->config.device_memory[0];
    return make_runs(graph, part, whole);
  }
  int64_t room[CEL_TASK_CUT_ROOM(CEL_DEVICES)];
  cel_split split = cel_task_cut(command->task, &command->chunk,
                                 devices_for(graph, command->task),
                                 command->task->device_weight, room);
  for (int32_t d = 0; d < split.n; ++d) {
    if (!cel_split_chunk(&split, d, &part.chunk)) continue;
    part.device = d;
    part.memory = graph->config.device_memory[d];
    CEL_TRY(make_runs(graph, part, whole));
  }
  return CEL_E_OK;
}

cel_status cel__plan_eval(cel_instr_graph *graph, const cel_access *access,
                          const cel_box *chunk, cel_region *out) {
  if (access->late == NULL)
    return cel_images_eval(&graph->images, &access->use, chunk, out);
  cel_assert(cel_late_is_known(access->late));
  cel_late_eval(access->late, access->late_at, chunk, &access->buffer->extent,
                out);
  return CEL_E_OK;
}

cel_status cel__plan_touched(cel_instr_graph *graph, uint32_t p,
                             const cel_access *access, const cel_box *chunk,
                             cel_region *out) {
  const cel__plan *plan = &graph->plan;
  bool alone = plan->command->task->placement == CEL_PLACE_ONCE;
  int64_t me = alone ? 0 : graph->config.rank; /* of the chunks */
  if (access->rows == 0) return cel__plan_eval(graph, access, chunk, out);
  cel_box row = access->buffer->extent;
  bool reads = cel_mode_consumes(access->mode);
  row.min[0] = me * access->rows + (reads ? 0 : p);
  row.max[0] = row.min[0] + (reads ? access->rows : 1);
  cel_assert((reads || p < access->rows) &&
             row.max[0] <= access->buffer->extent.max[0]);
  cel_region_assign(out, &row, 1);
  return CEL_E_OK;
}

/* What each part touches by each access. */
static cel_status touch_parts(cel_instr_graph *graph) {
  cel__plan *plan = &graph->plan;
  const cel_task *task = plan->command->task;
  for (uint32_t p = 0; p < plan->parts.n; ++p)
    for (uint32_t a = 0; a < task->accesses; ++a) {
      const cel_access *access = &task->access[a];
      cel__touch *touch = cel__plan_touch(plan);
      touch->buffer = access->buffer;
      touch->memory = plan->parts.at[p].memory;
      touch->consumes = cel_mode_consumes(access->mode);
      touch->produces = cel_mode_produces(access->mode);
      touch->arrives = false;
      touch->continues = plan->parts.at[p].continues;
      CEL_TRY(cel__plan_touched(graph, p, access, &plan->parts.at[p].chunk,
                                &touch->region));
      touch->hull = cel_region_hull(&touch->region);
    }
  return CEL_E_OK;
}

static bool is_near(const cel_instr_graph_config *c, int64_t rank) {
  return cel_rank_find(c->near, c->nears, rank) >= 0;
}

/* Of a task of devices. */
static bool is_direct(const cel_instr_graph *graph,
                      const cel_message *message) {
  const cel_instr_graph_config *c = &graph->config;
  return is_near(c, message->peer)
             ? message->bytes >= c->direct_bytes
             : c->far_bytes > 0 && message->bytes >= c->far_bytes;
}

/* Whether kernels find there what a message brings, without a copy. */
static bool is_kernels_own(const cel_instr_graph *graph, int32_t memory) {
  return memory != CEL_MEMORY_HOST ||
         graph->config.device_memory[0] == CEL_MEMORY_HOST;
}

void cel__plan_touch_box(cel_instr_graph *graph, const cel_buffer *buffer,
                         int32_t memory, bool out, const cel_box *box) {
  cel__touch *touch = cel__plan_touch(&graph->plan);
  touch->buffer = buffer;
  touch->memory = memory;
  touch->consumes = out;
  touch->produces = !out;
  touch->arrives = !out && is_kernels_own(graph, memory);
  touch->continues = false;
  cel_region_assign(&touch->region, box, 1);
  touch->hull = *box;
}

/* Whether a box of many messages, or the last touch, covers it: mostly ranks
 * are sent the same. */
static bool is_touched(const cel__plan *plan, int32_t memory,
                       const cel_piece *piece) {
  uint32_t last = plan->used > 0 ? plan->used - 1 : 0;
  return cel__plan_covering(plan, memory, piece, &last) != NULL;
}

/* The command's messages, direct ones last; returns how many others there
 * are. */
static uint32_t carry_messages(cel_instr_graph *graph,
                               const cel_command *command) {
  cel__plan *plan = &graph->plan;
  const cel_instr_graph_config *c = &graph->config;
  bool some = (c->nears > 0 || c->far_bytes > 0) &&
              command->task->kind != CEL_TASK_HOST;
  cel_vec_clear(&plan->carried);
  for (const cel_message *m = &command->message; m != NULL; m = m->next)
    if (!some || !is_direct(graph, m))
      cel_vec_push(&plan->carried, ((cel__carried){.message = m}));
  uint32_t hosted = plan->carried.n;
  for (const cel_message *m = &command->message; some && m != NULL; m = m->next)
    if (is_direct(graph, m))
      cel_vec_push(&plan->carried,
                   ((cel__carried){.message = m,
                                   .direct = true,
                                   .far = !is_near(c, m->peer)}));
  return hosted;
}

void cel__plan_messages(cel_instr_graph *graph, uint32_t first, uint32_t last) {
  cel__plan *plan = &graph->plan;
  bool out = plan->command->kind == CEL_COMMAND_PUSH;
  plan->used = plan->boxes = plan->together = 0;
  plan->placed = false;
  plan->first = first;
  plan->last = last;
  cel__together_plan(graph, out);
  for (uint32_t i = first; i < last; ++i) {
    const cel__carried *carried = &plan->carried.at[i];
    const cel_message *m = carried->message;
    int32_t memory =
        carried->direct ? graph->config.device_memory[0] : CEL_MEMORY_HOST;
    for (uint32_t p = 0; p < m->pieces && !carried->together; ++p)
      if (!out || !is_touched(plan, memory, &m->piece[p]))
        cel__plan_touch_box(graph, m->piece[p].buffer, memory, out,
                            &m->piece[p].box);
  }
}

static void touch_place(cel_instr_graph *graph, const cel_exchange *exchange,
                        int32_t memory, const cel_box *place, bool consumes,
                        const cel_box *box, uint32_t n) {
  if (n == 0) return;
  cel__touch *touch = cel__plan_touch(&graph->plan);
  touch->buffer = exchange->buffer;
  touch->memory = memory;
  touch->consumes = consumes;
  touch->produces = !consumes;
  touch->arrives = !consumes && is_kernels_own(graph, memory);
  touch->continues = false;
  cel_region_assign(&touch->region, box, n);
  touch->hull = *place;
}

/* What this rank, or a device of it, gives and gets is in one place. */
static void plan_collective(cel_instr_graph *graph, const cel_exchange *x) {
  for (const cel_exchange *i = x; i != NULL && x->devices == 0; i = i->next) {
    touch_place(graph, i, CEL_MEMORY_HOST, &i->hull, true, &i->mine,
                !cel_box_is_empty(&i->mine));
    touch_place(graph, i, CEL_MEMORY_HOST, &i->hull, false, i->get, i->gets);
  }
  for (int32_t d = 0; d < x->devices; ++d) {
    cel_member side;
    int32_t memory = graph->config.device_memory[d];
    cel_member_side(x, graph->config.rank, d, &side);
    touch_place(graph, x, memory, &side.hull, true, &side.mine,
                !cel_box_is_empty(&side.mine));
    touch_place(graph, x, memory, &side.hull, false, side.get, side.gets);
  }
}

static cel_status refuse_overlap(const cel_task *task, const cel__touch *who,
                                 const cel_region *both) {
  const int64_t *at = both->at[0].min;
  cel_fail(CEL_E_OVERLAP,
           "task '%s': two chunks of a rank write element (%" PRId64
           ", %" PRId64 ", %" PRId64 ") of buffer '%s'; map every chunk to "
           "elements of its own, or do not permit a split",
           task->name != NULL ? task->name : "unnamed", at[0], at[1], at[2],
           who->buffer->name != NULL ? who->buffer->name : "unnamed");
  return cel_fail_at(task->location.file, task->location.line);
}

/* Parts must not write one element, by whichever accesses. The task graph has
 * refused what is refuted; what it could not decide is looked at here, for the
 * chunks that there are. Where only pieces of a device's chunk overlap, the
 * chunks stay whole. */
static cel_status plan_execute(cel_instr_graph *graph) {
  cel__plan *plan = &graph->plan;
  const cel_task *task = plan->command->task;
  for (int whole = rows_of(task) > 0; whole < 2; ++whole) {
    plan->used = 0;
    CEL_TRY(make_parts(graph, whole == 1));
    CEL_TRY(touch_parts(graph));
    if (plan->parts.n <= 1 || task->disjoint) return CEL_E_OK;
    cel_region both = {0};
    const cel__touch *who = cel__plan_overlap(plan, &both);
    if (who != NULL && whole == 1) refuse_overlap(task, who, &both);
    cel_region_release(&both);
    if (who == NULL) return CEL_E_OK;
  }
  return CEL_E_OVERLAP;
}

/* A fold that is one instruction. */
static cel_status plan_fold(cel_instr_graph *graph) {
  CEL_TRY(make_parts(graph, true));
  CEL_TRY(touch_parts(graph));
  return cel__fused_touch(graph);
}

/* ---- rounds -------------------------------------------------------------- */

/* Run i of `rounds` of each device's chunk. */
cel_status cel__plan_round(cel_instr_graph *graph, int64_t rounds, int64_t i) {
  cel__plan *plan = &graph->plan;
  const cel_task *task = plan->command->task;
  int64_t g = task->permitted.granularity[0];
  cel__part part = {.priority = CEL__PRIORITY_RUN};
  plan->used = 0;
  plan->placed = false;
  cel_vec_clear(&plan->parts);
  cel_box chunk;
  int64_t room[CEL_TASK_CUT_ROOM(CEL_DEVICES)];
  cel_split devices =
      cel_task_cut(task, &plan->command->chunk, graph->config.devices,
                   task->device_weight, room);
  for (int32_t d = 0; d < devices.n; ++d) {
    if (!cel_split_chunk(&devices, d, &chunk)) continue;
    part.device = d;
    part.memory = graph->config.device_memory[d];
    cel_split runs = cel_split_1d(&chunk, rounds, g < 1 ? 1 : g);
    if (cel_split_chunk(&runs, i, &part.chunk))
      cel_vec_push(&plan->parts, part);
  }
  return touch_parts(graph);
}

/* Whether each of so many rounds fits `parts` times into the memories. */
static cel_status rounds_fit(cel_instr_graph *graph, int64_t rounds,
                             uint64_t parts, bool *fit) {
  *fit = true;
  for (int64_t i = 0; i < rounds && *fit; ++i) {
    CEL_TRY(cel__plan_round(graph, rounds, i));
    *fit = cel__memory_fits(graph->memories, parts);
  }
  return CEL_E_OK;
}

/* So many rounds that while one computes, the memory of the one before leaves
 * and that of the next one comes; if there are such, else as many as it takes
 * at all; 1 if there is no such number. */
static cel_status find_rounds(cel_instr_graph *graph, int64_t *out) {
  enum { BESIDE = 3, FINER = 4 };
  const cel_command *command = graph->plan.command;
  int64_t most = command->chunk.max[0] - command->chunk.min[0];
  *out = 1;
  for (int64_t n = 2; n / 2 < most; n *= 2) {
    bool fit;
    CEL_TRY(rounds_fit(graph, n, BESIDE, &fit));
    if (fit) *out = n;
    if (fit || (*out > 1 && n >= FINER * *out)) break;
    if (*out > 1) continue;
    CEL_TRY(rounds_fit(graph, n, 1, &fit));
    if (fit) *out = n;
  }
  return CEL_E_OK;
}

/* What may be cut further without anybody noticing. */
static bool may_go_round(const cel_task *task) {
  return task->kind == CEL_TASK_KERNEL && task->permitted.cut[0] &&
         task->placement == CEL_PLACE_SPLIT && task->disjoint &&
         task->effects == 0 && !calls_library(task) && rows_of(task) == 0 &&
         !task->listed;
}

static cel_status plan_rounds(cel_instr_graph *graph) {
  cel__plan *plan = &graph->plan;
  if (!cel__memory_limited(graph->memories) ||
      !may_go_round(plan->command->task) ||
      cel__memory_fits(graph->memories, 1))
    return CEL_E_OK;
  CEL_TRY(find_rounds(graph, &plan->rounds));
  return plan_execute(graph);
}

cel_status cel__plan_make(cel_instr_graph *graph, const cel_command *command) {
  cel__plan *plan = &graph->plan;
  plan->command = command;
  plan->used = plan->boxes = plan->together = 0;
  plan->placed = false;
  plan->rounds = 1;
  plan->accesses =
      command->kind == CEL_COMMAND_EXECUTE ? command->task->accesses : 1;
  switch (command->kind) {
  case CEL_COMMAND_EXECUTE:
    if (command->task->folded != NULL) return plan_fold(graph);
    CEL_TRY(plan_execute(graph));
    return plan_rounds(graph);
  case CEL_COMMAND_PUSH:
  case CEL_COMMAND_AWAIT_PUSH:
    plan->hosted = carry_messages(graph, command);
    cel__plan_messages(graph, 0, plan->carried.n);
    break;
  case CEL_COMMAND_COLLECTIVE: plan_collective(graph, command->exchange); break;
  case CEL_COMMAND_HORIZON:
  case CEL_COMMAND_EPOCH:
  case CEL_COMMAND_FREE: break;
  }
  return CEL_E_OK;
}
