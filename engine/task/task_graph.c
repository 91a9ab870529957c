#include "task/task_graph.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/confined.h"
#include "base/eras.h"
#include "base/hash.h"
#include "region/front.h"
#include "task/assignment.h"
#include "task/check.h"
#include "task/defined.h"
#include "task/known.h"
#include "task/reduce.h"
#include "tuning.h"

enum { BOX_TEXT = 160 };

typedef struct buffer_state {
  cel_track *track;
  uint64_t floor; /* applied to `track`: idle buffers catch up when touched */
} buffer_state;

/* What has come together since a horizon or a lap began. */
typedef struct stretch {
  uint32_t depth; /* of the deepest node then */
  int32_t tasks;
} stretch;

/* What the script is warned of, once at each line. */
typedef enum warning_kind { OF_UNWRITTEN, OF_CROSSING } warning_kind;

typedef struct warning {
  warning_kind kind;
  cel_location location;
} warning;

struct cel_task_graph {
  cel_task_graph_config config;
  uint64_t number; /* from 1; of no other graph of this process */
  cel__checks *checks;
  cel_front front;
  cel_eras eras;        /* each keeps the tasks of groups */
  uint64_t hash, count; /* of all submitted so far */
  /* The longest path to each node from the floor on, from its age on. */
  CEL_VEC(uint32_t) depths;
  uint32_t depth;       /* of the deepest node */
  stretch lap, horizon; /* since it began; since the last barrier */
  uint64_t laps;        /* begun until now */
  size_t bytes;         /* of nodes since the last barrier, about */
  bool fetched;         /* main waits for some task since then */
  /* By buffer id; 16 bytes for each buffer ever made. */
  CEL_VEC(buffer_state) buffers;
  cel_collective_tasks collectives;
  cel_effect_track effects;
  cel__reductions reductions;
  cel__defined defined; /* where it is audited */
  int64_t *alone;       /* see cel_task_split_at; null until it is needed */
  /* Scratch of one submission. */
  cel_deps deps;
  CEL_VEC(cel_region) images;
  CEL_VEC(bool) exact;
  CEL_VEC(warning) warned; /* grows with the lines of the script only */
};

/* What a task of a group has references on. */
static void drop_task(void *kept) {
  const cel_task *task = kept;
  if (task->work != NULL) cel_work_release(task->work);
  for (uint32_t i = 0; i < task->accesses; ++i) {
    cel_rule_release(task->access[i].use.rule);
    cel_late_release(task->access[i].late);
  }
}

void cel_task_graph_retire(cel_task_graph *graph, uint64_t id) {
  cel_assert_thread(CEL_THREAD_MAIN);
  cel_eras_retire(&graph->eras, id);
}

/* ---- nodes --------------------------------------------------------------- */

static cel_task *node_new(cel_task_graph *graph, cel_task_kind kind) {
  cel_task *task = cel_arena_alloc(cel_eras_arena(&graph->eras), sizeof *task);
  *task = (cel_task){.id = graph->front.next, .kind = kind, .lap = graph->laps};
  return task;
}

/* How much a part of a task touches of what is its rank's own concerns no other
 * rank. */
static uint64_t hash_use(const cel_task *task, const cel_access *access) {
  const cel_rule_use *use = &access->use;
  if (access->buffer->apart && task->placement == CEL_PLACE_SPLIT)
    return cel_hash_word(0, (uint64_t)access->mode);
  size_t params = (size_t)use->rule->desc.params * sizeof(int64_t);
  uint64_t hash = cel_hash_word(use->rule->hash, (uint64_t)access->mode);
  return params > 0 ? cel_hash(use->params, params, hash) : hash;
}

static uint64_t hash_effect(const cel_effect *effect, uint64_t seed) {
  const cel_object *object = effect->object;
  uint64_t what[] = {object->id, object->hash,
                     (uint64_t)object->scope << 32 | (uint64_t)effect->order};
  return cel_hash(what, sizeof what, seed);
}

static uint64_t hash_home(const cel_home *home, uint64_t seed) {
  struct {
    cel_box box;
    int64_t rank, buffer;
  } what = {.box = home->box,
            .rank = home->rank,
            .buffer = home->buffer != NULL ? (int64_t)home->buffer->id : -1};
  return cel_hash(&what, sizeof what, seed);
}

/* Of all of it but its work, home, accesses and effects. No padding in the
 * struct, as ranks must agree on every byte; 128 of them are hashed faster than
 * more. */
static uint64_t hash_shape(const cel_task *task) {
  struct {
    cel_box range;
    int64_t granularity[3];
    int32_t kind, placement, dims, cut, oversubscribe, fold;
    uint32_t accesses, freed, collective, unused;
    uint64_t weights, reduces;
  } what = {.range = task->range,
            .kind = (int32_t)task->kind,
            .placement = (int32_t)task->placement,
            .dims = task->dims,
            .accesses = task->accesses,
            .freed = task->freed != NULL ? task->freed->id : 0,
            .collective = task->collective_group,
            .oversubscribe = task->oversubscribe,
            .fold = task->fold,
            .weights = task->weights,
            .reduces = task->reduces};
  for (int d = 0; d < CEL_DIMS; ++d) {
    what.granularity[d] = task->permitted.granularity[d];
    what.cut |= task->permitted.cut[d] << d;
  }
  return cel_hash(&what, sizeof what, 0);
}

/* Of what the node does, not of what it is called. `known`: null, or it holds
 * for the node. */
static uint64_t hash_node(const cel_task *task, const cel_known *known) {
  uint64_t hash = known != NULL ? known->hash : hash_shape(task);
  if (task->work != NULL) hash = cel_hash_word(hash, task->work->hash);
  if (task->home != NULL) hash = hash_home(task->home, hash);
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    hash = cel_hash_word(hash, known != NULL ? known->access[i].hash
                                             : hash_use(task, access));
    hash = cel_buffer_hash(access->buffer, hash);
  }
  for (uint32_t i = 0; i < task->effects; ++i)
    hash = hash_effect(&task->effect[i], hash);
  return hash;
}

/* Notes how deep the node is on the critical path. Only tasks that compute
 * lengthen it. A FREE is not part of the program that all ranks share: a
 * garbage collector decides when it comes, on each rank for itself, so it adds
 * nothing to hashes, to the critical path or to the breadth. */
static void set_depth(cel_task_graph *graph, const cel_task *task) {
  uint32_t depth = 0;
  for (uint32_t i = 0; i < task->deps; ++i) {
    uint32_t before = graph->depths.at[task->dep[i].id - graph->front.floor];
    if (before > depth) depth = before;
  }
  if (task->kind == CEL_TASK_KERNEL || task->kind == CEL_TASK_HOST) ++depth;
  if (depth > graph->depth) graph->depth = depth;
  cel_vec_push(&graph->depths, depth);
}

static void node_finish(cel_task_graph *graph, cel_task *task,
                        const cel_known *known) {
  cel_deps *deps = &graph->deps;
  bool ordered = false;
  for (uint32_t i = 0; i < deps->n; ++i)
    ordered |= deps->at[i].kind == CEL_DEP_TRUE;
  bool barrier = task->kind == CEL_TASK_HORIZON || task->kind == CEL_TASK_EPOCH;
  if (!ordered && !barrier)
    cel_deps_add(deps, graph->front.floor, CEL_DEP_ORDER);
  cel_front_add(&graph->front, deps);
  task->deps = deps->n;
  task->dep = cel_arena_copy(cel_eras_arena(&graph->eras), deps->at,
                             deps->n * sizeof(cel_dep));
  cel_deps_clear(deps);
  task->hash = hash_node(task, known);
  if (task->kind != CEL_TASK_FREE) {
    graph->hash = cel_hash_word(graph->hash, task->hash);
    ++graph->count;
  }
  set_depth(graph, task);
}

static void node_emit(cel_task_graph *graph, const cel_task *task) {
  if (graph->config.emit != NULL)
    graph->config.emit(graph->config.context, task);
}

/* ---- horizons and epochs ------------------------------------------------- */

static void begin_lap(cel_task_graph *graph) {
  ++graph->laps;
  graph->lap = (stretch){.depth = graph->depth};
}

/* A node after everything. */
static uint64_t barrier_node(cel_task_graph *graph, cel_task_kind kind,
                             cel_location location) {
  begin_lap(graph);
  cel_task *task = node_new(graph, kind);
  task->location = location;
  cel_front_collect(&graph->front, &graph->deps);
  node_finish(graph, task, NULL);
  task->agreement_hash = graph->hash;
  task->agreement_count = graph->count;
  uint64_t floor = graph->front.floor;
  cel_front_barrier(&graph->front, kind == CEL_TASK_EPOCH);
  cel_vec_drop_first(&graph->depths, graph->front.floor - floor);
  graph->horizon = (stretch){.depth = graph->depth};
  graph->bytes = 0;
  graph->fetched = false;
  node_emit(graph, task);
  cel_eras_close(&graph->eras, task->id);
  return task->id;
}

/* Counts a task, and whether so many steps or tasks have come together. */
static bool reaches(stretch *since, const cel_task_graph *graph, int32_t steps,
                    int32_t tasks) {
  return ++since->tasks >= tasks ||
         graph->depth - since->depth >= (uint32_t)steps;
}

/* After each task of a group. What a garbage collector decides, and what this
 * rank alone holds, counts for nothing here. A fence is a task that main waits
 * for: by then ranks that differ are to be on their way to find it out, and
 * what the fence holds may be large. */
static void consider_horizon(cel_task_graph *graph, const cel_task *task) {
  const cel_task_graph_config *c = &graph->config;
  graph->bytes += sizeof *task + task->accesses * sizeof *task->access;
  graph->fetched |= task->work != NULL && task->work->brief;
  bool lap =
      reaches(&graph->lap, graph, CEL_TUNE_LAP_STEP, CEL_TUNE_LAP_BREADTH);
  bool much = graph->bytes >= CEL_TUNE_HORIZON_BYTES || graph->fetched;
  if (reaches(&graph->horizon, graph, c->horizon_step, c->horizon_breadth) ||
      (lap && much))
    barrier_node(graph, CEL_TASK_HORIZON, (cel_location){0});
  else if (lap)
    begin_lap(graph);
}

uint64_t cel_task_graph_epoch(cel_task_graph *graph, cel_location location) {
  cel_assert_thread(CEL_THREAD_MAIN);
  return barrier_node(graph, CEL_TASK_EPOCH, location);
}

/* ---- accesses ------------------------------------------------------------ */

static cel_track *track_of(cel_task_graph *graph, const cel_buffer *buffer) {
  while (graph->buffers.n <= buffer->id)
    cel_vec_push(&graph->buffers, (buffer_state){0});
  buffer_state *state = &graph->buffers.at[buffer->id];
  if (state->track == NULL) {
    uint64_t first = buffer->init != NULL ? graph->front.floor : 0;
    state->track = cel_track_create(&buffer->extent, first);
  } else if (state->floor != graph->front.floor) {
    cel_track_floor(state->track, graph->front.floor);
  }
  state->floor = graph->front.floor;
  return state->track;
}

/* Whether nobody was warned of that at this line. */
static bool warn_at(cel_task_graph *graph, warning_kind kind,
                    cel_location location) {
  for (uint32_t i = 0; i < graph->warned.n; ++i)
    if (graph->warned.at[i].kind == kind &&
        graph->warned.at[i].location.file == location.file &&
        graph->warned.at[i].location.line == location.line)
      return false;
  cel_vec_push(&graph->warned, ((warning){kind, location}));
  return true;
}

static void warn_unwritten(cel_task_graph *graph, const cel_task *task,
                           const cel_access *access, const cel_region *image) {
  static const char advice[] =
      "of which some was never written; give the buffer an init, or write it "
      "first";
  bool combines = task->reduced.file != NULL || access->in_place;
  cel_task at = *task;
  if (task->reduced.file != NULL) at.location = task->reduced;
  if (graph->config.warn == NULL || graph->config.audited ||
      !warn_at(graph, OF_UNWRITTEN, at.location))
    return;
  const char *of = cel__name_of(access->buffer->name);
  char box[BOX_TEXT], text[CEL_ERROR_TEXT];
  cel_box hull = cel_region_hull(image);
  cel_box_print(&hull, access->buffer->dims, box, sizeof box);
  if (combines)
    snprintf(text, sizeof text,
             "cg:reduce begins with what buffer '%s' holds (include_current), "
             "%s",
             of, advice);
  else
    snprintf(text, sizeof text, "task '%s' reads %s%sbuffer '%s', %s",
             cel__name_of(task->name), access->buffer->dims > 0 ? box : "",
             access->buffer->dims > 0 ? " of " : "", of, advice);
  graph->config.warn(graph->config.context, &at, text);
}

/* What some item reads and another writes: a stencil in place. */
static void warn_crossing(cel_task_graph *graph, const cel_group *group,
                          const cel_task *task) {
  cel__crossing found = {0};
  if (graph->config.warn == NULL || graph->config.audited ||
      !cel__check_crossing(graph->checks, group, &found) ||
      !warn_at(graph, OF_CROSSING, task->location))
    return;
  cel_counter_example why = cel__show_crossing(group, &found);
  const cel_access *reads = &group->access[found.reads];
  const char *buffer = cel__name_of(reads->buffer->name);
  char a[BOX_TEXT], b[BOX_TEXT], at[BOX_TEXT], text[CEL_ERROR_TEXT];
  cel_box_print(&why.a, group->dims, a, sizeof a);
  cel_box_print(&why.b, group->dims, b, sizeof b);
  cel_box_print_point(why.point, reads->buffer->dims, at, sizeof at);
  snprintf(text, sizeof text,
           "task '%s' reads of buffer '%s' what other items of it write: chunk "
           "%s reads element %s, which chunk %s writes by cg:%s, and what it "
           "gets is a matter of chance. Write to a second buffer; or, if no "
           "item reads what another one writes, say so: cg:read(%s, mapper, { "
           "disjoint = true })",
           cel__name_of(task->name), buffer, a, at, b,
           cel_mode_name(group->access[found.writes].mode), buffer);
  graph->config.warn(graph->config.context, task, text);
}

/* Whether the access reads and writes, and no other is of its buffer: then it
 * needs not be tracked twice. */
static bool updates_alone(const cel_task *task, uint32_t i) {
  const cel_access *access = task->access;
  if (!cel_mode_consumes(access[i].mode) || !cel_mode_produces(access[i].mode))
    return false;
  for (uint32_t k = 0; k < task->accesses; ++k)
    if (k != i && access[k].buffer == access[i].buffer) return false;
  return true;
}

static void track_image(cel_track *track, const cel_region *image, uint64_t id,
                        cel_deps *deps,
                        void (*report)(cel_track *, const cel_box *, uint64_t,
                                       cel_deps *)) {
  for (uint32_t b = 0; b < image->n; ++b)
    report(track, &image->at[b], id, deps);
}

static void track_reads(cel_task_graph *graph, const cel_task *task) {
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    if (!cel_mode_consumes(access->mode)) continue;
    const cel_region *image = &graph->images.at[i];
    graph->deps.uninitialised = false;
    track_image(track_of(graph, access->buffer), image, task->id, &graph->deps,
                updates_alone(task, i) ? cel_track_update : cel_track_read);
    /* A write may fetch what nobody wrote: it is there to keep, not to use. */
    if (graph->deps.uninitialised && access->mode != CEL_MODE_WRITE &&
        graph->exact.at[i])
      warn_unwritten(graph, task, access, image);
  }
}

static void track_writes(cel_task_graph *graph, const cel_task *task) {
  for (uint32_t i = 0; i < task->accesses; ++i) {
    const cel_access *access = &task->access[i];
    if (!cel_mode_produces(access->mode) || updates_alone(task, i)) continue;
    track_image(track_of(graph, access->buffer), &graph->images.at[i], task->id,
                &graph->deps, cel_track_write);
  }
}

/* ---- submission ---------------------------------------------------------- */

static cel_status check_all(cel_task_graph *graph, const cel_group *group,
                            bool *disjoint) {
  CEL_TRY(cel__check_group(graph->checks, group));
  CEL_TRY(cel__reductions_check(group));
  while (graph->images.n < group->accesses) {
    cel_vec_push(&graph->images, (cel_region){0});
    cel_vec_push(&graph->exact, false);
  }
  for (uint32_t i = 0; i < group->accesses; ++i) {
    graph->exact.at[i] = true;
    if (group->access[i].reducer != NULL || group->access[i].rows > 0 ||
        cel__writes_apart(&group->access[i]))
      cel_region_assign(&graph->images.at[i], &group->access[i].buffer->extent,
                        1);
    else
      CEL_TRY(cel__check_access(graph->checks, group, i, &graph->images.at[i],
                                &graph->exact.at[i], disjoint));
  }
  return cel__check_writes(graph->checks, group, disjoint);
}

static cel_access *copy_accesses(cel_arena *arena, const cel_group *group) {
  if (group->accesses == 0) return NULL;
  cel_access *copy = cel_arena_copy(arena, group->access,
                                    group->accesses * sizeof(cel_access));
  for (uint32_t i = 0; i < group->accesses; ++i) {
    cel_rule_use *use = &copy[i].use;
    copy[i].undefined_boxes = 0;
    if (copy[i].reducer != NULL) continue; /* it is lowered */
    size_t size = (size_t)use->rule->desc.params * sizeof(int64_t);
    use->params = size > 0 ? cel_arena_copy(arena, use->params, size) : NULL;
    if (copy[i].rows == 0) use->range = group->range;
    use->extent = copy[i].buffer->extent;
    cel_rule_retain(use->rule);
    cel_late_retain(copy[i].late);
  }
  return copy;
}

/* The split over the ranks is worked out here, where weights have one owner.
 * O(ranks) for the task. */
static void copy_weights(cel_task_graph *graph, const cel_weights *weights,
                         cel_task *task) {
  cel_arena *arena = cel_eras_arena(&graph->eras);
  int64_t ranks = graph->config.ranks;
  task->weights = weights->hash;
  if (weights->device != NULL)
    task->device_weight =
        cel_arena_copy(arena, weights->device,
                       (size_t)weights->devices * sizeof *weights->device);
  if (weights->rank == NULL || task->placement != CEL_PLACE_SPLIT) return;
  size_t bytes = CEL_TASK_CUT_ROOM(ranks) * sizeof(int64_t);
  int64_t *room = cel_arena_alloc(arena, bytes);
  graph->bytes += bytes;
  cel_split split =
      cel_task_cut(task, &task->range, ranks, weights->rank, room);
  task->split = cel_arena_copy(arena, &split, sizeof split);
}

static void copy_home(cel_task_graph *graph, const cel_home *home,
                      cel_task *task) {
  cel_arena *arena = cel_eras_arena(&graph->eras);
  int64_t ranks = graph->config.ranks;
  task->home = cel_arena_copy(arena, home, sizeof *home);
  if (home->buffer != NULL) return;
  if (graph->alone == NULL) graph->alone = cel_task_alone(ranks);
  cel_split split =
      cel_task_split_at(&task->range, home->rank, ranks, graph->alone);
  task->split = cel_arena_copy(arena, &split, sizeof split);
}

static cel_task *copy_group(cel_task_graph *graph, const cel_group *group) {
  cel_arena *arena = cel_eras_arena(&graph->eras);
  cel_task *task = node_new(graph, group->kind);
  task->placement = group->placement;
  task->collective_group = group->collective_group;
  task->dims = group->dims;
  task->range = group->range;
  task->permitted = group->permitted;
  task->oversubscribe = group->oversubscribe;
  task->fold = group->fold;
  if (group->weights != NULL) copy_weights(graph, group->weights, task);
  if (group->home != NULL) copy_home(graph, group->home, task);
  task->accesses = group->accesses;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *given = &group->access[i];
    task->late |= given->late != NULL;
    task->listed |= given->reducer == NULL && given->use.rule->listing != NULL;
  }
  cel_access *access = copy_accesses(arena, group);
  cel__reductions_lower(&graph->reductions, arena, group, task, access);
  if (graph->config.audited)
    cel__defined_add(&graph->defined, arena, access, group->accesses,
                     graph->images.at, graph->exact.at);
  task->access = access;
  task->effects = group->effects;
  if (group->effects > 0)
    task->effect = cel_arena_copy(arena, group->effect,
                                  group->effects * sizeof(cel_effect));
  task->location = group->location;
  task->reduced = group->reduced;
  if (group->name != NULL)
    task->name = cel_arena_copy(arena, group->name, strlen(group->name) + 1);
  if (group->work != NULL) {
    cel_work_retain(group->work);
    task->work = group->work;
  }
  cel_eras_keep(&graph->eras, task);
  return task;
}

/* Adds a group that was just checked. `known`: null, or it holds for it. */
static cel_task *add(cel_task_graph *graph, const cel_group *group,
                     bool disjoint, const cel_known *known) {
  cel_task *task = copy_group(graph, group);
  task->disjoint = disjoint;
  if (known == NULL) warn_crossing(graph, group, task);
  for (uint32_t i = 0; i < task->accesses; ++i)
    if (task->access[i].rows > 0)
      cel_region_assign(&graph->images.at[i], &task->access[i].buffer->extent,
                        1);
  track_reads(graph, task);
  track_writes(graph, task);
  cel_collective_tasks_follow(&graph->collectives, task->collective_group,
                              task->id, graph->front.floor, &graph->deps);
  cel_effects_add(&graph->effects, task->effect, task->effects,
                  task->collective_group != 0, task->id, graph->front.floor,
                  &graph->deps);
  node_finish(graph, task, known);
  node_emit(graph, task);
  cel__reductions_tidy(&graph->reductions);
  consider_horizon(graph, task);
  return task;
}

/* Whether the group, just checked, wants to know what `buffer` holds: it reads
 * it, or leaves a part as it is. */
static bool wants(const cel_task_graph *graph, const cel_group *group,
                  const cel_buffer *buffer) {
  bool all = false;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *access = &group->access[i];
    if (access->buffer != buffer) continue;
    if (cel_mode_consumes(access->mode)) return true;
    all |= graph->exact.at[i] &&
           cel_region_covers_box(&graph->images.at[i], &buffer->extent);
  }
  return !all;
}

/* At the line of the group that asks: that is where ranks may differ. */
static cel_status combine(cel_task_graph *graph, const cel_group *asking,
                          cel__reduced *pending) {
  cel_group group;
  cel_access access[2];
  bool disjoint = true;
  cel__reductions_settle(&graph->reductions, asking, pending, &group, access);
  group.location = asking->location;
  cel_status status = check_all(graph, &group, &disjoint);
  if (status == CEL_E_OK) add(graph, &group, disjoint, NULL);
  cel_work_release(group.work);
  return status;
}

/* What is pending in the buffers of a group that was just checked is combined,
 * or forgotten where the group overwrites it. */
static cel_status settle(cel_task_graph *graph, const cel_group *group,
                         bool *disjoint) {
  uint32_t n = graph->reductions.pending == 0 ? 0 : group->accesses;
  for (uint32_t i = 0; i < n; ++i) {
    cel__reduced *pending =
        cel__reductions_find(&graph->reductions, group->access[i].buffer);
    if (pending == NULL) continue;
    if (!wants(graph, group, pending->buffer)) {
      cel__reductions_forget(&graph->reductions, pending);
      continue;
    }
    CEL_TRY(combine(graph, group, pending));
    CEL_TRY(check_all(graph, group, disjoint)); /* the images are scratch */
  }
  return CEL_E_OK;
}

/* As check_all, of a group like one before. */
static bool recall(cel_task_graph *graph, const cel_group *group) {
  cel_known *known = group->known;
  if (known == NULL || graph->reductions.pending > 0 ||
      !cel__known_holds(known, graph->number, group))
    return false;
  for (uint32_t i = 0; i < known->accesses; ++i) {
    cel_region *image = &graph->images.at[i];
    if (image->n == 1) /* as mostly: its memory is there */
      image->at[0] = known->access[i].image;
    else
      cel_region_assign(image, &known->access[i].image, 1);
    graph->exact.at[i] = known->access[i].exact;
  }
  known->misses = 0;
  return true;
}

/* Remembers what the task has come to, which still holds its images. What
 * crosses is looked for again: each line is told. */
static void remember(const cel_task_graph *graph, const cel_group *group,
                     const cel_task *task) {
  cel_known *known = group->known;
  cel__crossing crossing;
  uint32_t n = known->misses++;
  if (n >= CEL_TUNE_KNOWN_MISSES && (n & (n - 1)) != 0) return;
  for (uint32_t i = 0; i < group->accesses; ++i)
    if (graph->images.at[i].n != 1) return;
  if (cel__check_crossing(graph->checks, group, &crossing) ||
      !cel__known_note(known, graph->number, group))
    return;
  known->disjoint = task->disjoint;
  known->hash = hash_shape(task);
  for (uint32_t i = 0; i < group->accesses; ++i) {
    known->access[i].exact = graph->exact.at[i];
    known->access[i].image = graph->images.at[i].at[0];
    known->access[i].hash = hash_use(task, &task->access[i]);
  }
}

/* Whether it is computed from numbers that all ranks need, or may have for
 * little, and gives such numbers. */
static bool is_for_all(const cel_task_graph *graph, const cel_group *group) {
  if (group->dims > 0 || !graph->config.alike || graph->config.ranks == 1 ||
      group->kind != CEL_TASK_KERNEL || group->placement != CEL_PLACE_SPLIT ||
      group->work == NULL || !group->work->alike || group->work->lua ||
      group->weights != NULL || group->effects > 0)
    return false;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *access = &group->access[i];
    if (access->buffer->dims > 0 || access->buffer->apart ||
        access->reducer != NULL || access->use.rule->listing != NULL)
      return false;
  }
  return group->accesses > 0;
}

cel_status cel_task_graph_submit(cel_task_graph *graph, const cel_group *given,
                                 uint64_t *id) {
  cel_assert_thread(CEL_THREAD_MAIN);
  *id = 0;
  const cel_group *group = given;
  cel_group for_all;
  if (is_for_all(graph, given)) {
    for_all = *given;
    for_all.placement = CEL_PLACE_ALL;
    group = &for_all;
  }
  if (cel_box_is_empty(&group->range)) {
    CEL_TRY(cel__reductions_check(group));
    cel__reductions_none(&graph->reductions, group);
    return CEL_E_OK;
  }
  if (recall(graph, group)) {
    *id = add(graph, group, group->known->disjoint, group->known)->id;
    return CEL_E_OK;
  }
  bool disjoint = true;
  CEL_TRY(check_all(graph, group, &disjoint));
  CEL_TRY(settle(graph, group, &disjoint));
  const cel_task *task = add(graph, group, disjoint, NULL);
  if (group->known != NULL) remember(graph, group, task);
  *id = task->id;
  return CEL_E_OK;
}

void cel_task_graph_free(cel_task_graph *graph, const cel_buffer *buffer) {
  cel_assert_thread(CEL_THREAD_MAIN);
  cel__reductions_free(&graph->reductions, buffer);
  cel_task *task = node_new(graph, CEL_TASK_FREE);
  task->freed = buffer;
  cel_track *track = track_of(graph, buffer);
  cel_track_users(track, &buffer->extent, &graph->deps);
  cel_track_destroy(track);
  graph->buffers.at[buffer->id] = (buffer_state){0};
  cel__defined_forget(&graph->defined, buffer);
  node_finish(graph, task, NULL);
  node_emit(graph, task);
}

void cel_task_graph_end(cel_task_graph *graph, const cel_object *object) {
  cel_assert_thread(CEL_THREAD_MAIN);
  cel_task *task = node_new(graph, CEL_TASK_FREE);
  task->ended = object;
  task->location = object->location;
  cel_effect_ask(&graph->effects, object, CEL_ORDER_SEQUENTIAL,
                 graph->front.floor, &graph->deps);
  cel_effect_forget(&graph->effects, object);
  node_finish(graph, task, NULL);
  node_emit(graph, task);
}

/* ---- life ---------------------------------------------------------------- */

cel_task_graph *cel_task_graph_create(const cel_task_graph_config *config) {
  static _Atomic(uint64_t) graphs;
  cel_task_graph *graph = cel_alloc_zero(sizeof *graph);
  graph->config = *config;
  graph->number = atomic_fetch_add(&graphs, 1) + 1;
  if (graph->config.horizon_step <= 0)
    graph->config.horizon_step = CEL_TUNE_HORIZON_STEP;
  if (graph->config.horizon_breadth <= 0)
    graph->config.horizon_breadth = CEL_TUNE_HORIZON_BREADTH;
  graph->reductions.config =
      (cel__reduce_config){.ranks = config->ranks,
                           .reducing = config->reducing,
                           .in_place = config->in_place,
                           .collectives = config->collectives,
                           .all_reduces = config->all_reduces,
                           .rules = config->rules,
                           .make = config->make,
                           .drop = config->drop,
                           .context = config->context};
  graph->checks = cel__checks_create(config->ranks);
  cel_front_init(&graph->front);
  cel_eras_init(&graph->eras, drop_task);
  cel_task_graph_epoch(graph, (cel_location){0});
  return graph;
}

void cel_task_graph_destroy(cel_task_graph *graph) {
  if (graph == NULL) return;
  cel_eras_release(&graph->eras);
  cel__reductions_release(&graph->reductions);
  for (uint32_t i = 0; i < graph->buffers.n; ++i)
    if (graph->buffers.at[i].track != NULL)
      cel_track_destroy(graph->buffers.at[i].track);
  for (uint32_t i = 0; i < graph->images.n; ++i)
    cel_region_release(&graph->images.at[i]);
  cel_effect_track_release(&graph->effects);
  cel__checks_destroy(graph->checks);
  cel_deps_release(&graph->deps);
  cel_front_release(&graph->front);
  cel_vec_release(&graph->depths);
  cel_vec_release(&graph->buffers);
  cel_collective_tasks_release(&graph->collectives);
  cel_vec_release(&graph->images);
  cel_vec_release(&graph->exact);
  cel_vec_release(&graph->warned);
  cel__defined_release(&graph->defined);
  cel_free(graph->alone);
  cel_free(graph);
}

size_t cel_task_graph_bytes(const cel_task_graph *graph) {
  enum { TRACK_ENTRY = 64 }; /* about what a tracked box takes */
  size_t sum = sizeof *graph + cel__checks_bytes(graph->checks) +
               cel_eras_bytes(&graph->eras) + graph->front.followed.cap +
               graph->depths.cap * sizeof(uint32_t) +
               graph->buffers.cap * sizeof(buffer_state) +
               cel_effect_track_bytes(&graph->effects);
  for (uint32_t i = 0; i < graph->buffers.n; ++i)
    if (graph->buffers.at[i].track != NULL)
      sum += (size_t)TRACK_ENTRY * cel_track_count(graph->buffers.at[i].track);
  return sum;
}
