/* A fence is a host task on every rank that reads a box and copies it into a
 * snapshot. All fences of one number of dimensions share one rule, whose bounds
 * are parameters; one of another box on each rank brings its own. One of a host
 * object has a sequential effect on it, and learns then how much there is. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/host_memory.h"
#include "runtime/internal.h"
#include "tuning.h"

/* Owned by the caller, by its work, and by what is late because of it, whoever
 * lives longest. */
struct cel_fence {
  cel_late late; /* known: it is ready */
  cel_work work;
  cel_engine *engine; /* until it is ready */
  uint64_t task;      /* the last one once it was submitted, a horizon maybe */
  cel_box box;
  uint32_t element_size;
  uint64_t size;
  void *data;
  bool mapped;
  cel_taking *taking; /* of a host object; else null */
  bool forgiving;
  cel_error *error; /* owned; why there is nothing, where that is forgiven */
};

/* Pages that are never touched cost nothing. */
static cel_status take_memory(const cel_engine *e, cel_fence *fence) {
  if (fence->size >= CEL_TUNE_FENCE_MAPPED) {
    if (!e->config.transport->dry) CEL_TRY(cel_memory_fits(fence->size));
    CEL_TRY(cel__memory_map(fence->size, &fence->data));
    fence->mapped = true;
    return CEL_E_OK;
  }
  fence->data = malloc(fence->size > 0 ? fence->size : 1);
  if (fence->data != NULL) return CEL_E_OK;
  return cel_fail(CEL_E_MEMORY, "no memory for a snapshot of %llu bytes",
                  (unsigned long long)fence->size);
}

static void destroy(cel_late *late) {
  cel_fence *fence = (cel_fence *)late; /* of which it is the first */
  if (fence->mapped)
    cel__memory_unmap(fence->data, fence->size);
  else
    cel_free(fence->data);
  cel_free(fence->error);
  cel_free(fence);
}

void cel_fence_destroy(cel_fence *fence) {
  cel_late_release(&fence->late);
}

static void destroy_work(cel_work *work) {
  cel_fence *fence = work->context;
  if (fence->taking != NULL) fence->taking->destroy(fence->taking);
  fence->taking = NULL;
  cel_late_release(&fence->late);
}

static void publish(cel_fence *fence) {
  cel_engine *e = fence->engine;
  fence->late.word = fence->data;
  fence->late.words = (int64_t)(fence->size / sizeof *fence->late.word);
  cel_late_tell(&fence->late);
  cel_park_wake(&e->scheduler_park); /* a task may wait for it */
  cel__main_wake(e);
  if (e->config.saw_fence != NULL)
    e->config.saw_fence(e->config.saw_context, fence);
}

static cel_status take_snapshot(const cel_work *work, const cel_call *call) {
  cel_fence *fence = work->context;
  const cel_view *view = &call->view[0];
  cel_layout from = {view->base, view->layout};
  cel_layout to = {fence->data, fence->box};
  if (fence->size > 0)
    cel_copy_box_wide(&from, &to, &fence->box, fence->element_size);
  publish(fence);
  return CEL_E_OK;
}

static cel_status take_object(const cel_work *work, const cel_call *call) {
  cel_fence *fence = work->context;
  cel_status status =
      fence->taking->take(fence->taking, call, &fence->data, &fence->size);
  if (status != CEL_E_OK && !fence->forgiving) return status;
  if (status != CEL_E_OK) {
    fence->error = cel_alloc(sizeof *fence->error);
    *fence->error = *cel_error_last();
  }
  publish(fence);
  return CEL_E_OK;
}

/* Of a box that nobody has computed the snapshot is zeros; of an object,
 * nothing. */
static void take_nothing(const cel_work *work, const cel_call *call) {
  cel_fence *fence = work->context;
  (void)call;
  if (fence->size > 0 && !fence->mapped) memset(fence->data, 0, fence->size);
  publish(fence);
}

/* [p0, p1) x [p2, p3) x ..., whatever the chunk. */
static const cel_rule *rule_of(cel_engine *e, int32_t dims) {
  if (e->fence_rule[dims] != NULL) return e->fence_rule[dims];
  int64_t code[2 * 2 * CEL_DIMS];
  cel_rule_box box = {.clamp = false};
  cel_rule_desc desc = {.task_dims = 1,
                        .buffer_dims = dims,
                        .boxes = 1,
                        .box = &box,
                        .params = 2 * dims,
                        .code = code,
                        .code_length = 4 * dims};
  for (int i = 0; i < 2 * dims; ++i) {
    int64_t *at = code + (ptrdiff_t)2 * i;
    at[0] = CEL_RULE_PARAM;
    at[1] = i;
    box.start[i / 2][i % 2] = 2 * i;
    box.length[i / 2][i % 2] = 2;
  }
  if (cel_rules_intern(e->rules, &desc, &e->fence_rule[dims]) != CEL_E_OK)
    cel_bug("the rule of fences: %s", cel_error_last()->text);
  return e->fence_rule[dims];
}

/* Null when there is no memory for the data. */
static cel_fence *make(cel_engine *e, const cel_buffer *buffer,
                       const cel_box *box) {
  cel_fence *fence = cel_alloc_zero(sizeof *fence);
  *fence = (cel_fence){.work = {.references = 1,
                                .fn = take_snapshot,
                                .stand_in = take_nothing,
                                .destroy = destroy_work,
                                .hash = cel_hash("fence", 5, 0),
                                .brief = true,
                                .context = fence},
                       .engine = e,
                       .box = *box,
                       .element_size = buffer->element_size};
  cel_late_init(&fence->late, 2, destroy);
  fence->size = (uint64_t)cel_box_volume(box) * buffer->element_size;
  fence->work.tiny = fence->size <= CEL_TUNE_INLINE_COPY;
  if (take_memory(e, fence) == CEL_E_OK) return fence;
  cel_free(fence);
  return NULL;
}

/* A use of `rule` over the ranks. */
static cel_rule_use use_of(const cel_engine *e, const cel_buffer *buffer,
                           const cel_rule *rule, const int64_t *params) {
  return (cel_rule_use){.rule = rule,
                        .params = params,
                        .range =
                            cel_box_sized(e->config.transport->ranks, 1, 1),
                        .extent = buffer->extent};
}

static cel_status submit(cel_engine *e, const cel_buffer *buffer,
                         cel_fence *fence, const cel_rule_use *use,
                         cel_location location) {
  cel_access access = {.buffer = buffer, .mode = CEL_MODE_READ, .use = *use};
  cel_group group = {.kind = CEL_TASK_HOST,
                     .placement = CEL_PLACE_EACH,
                     .dims = 1,
                     .range = use->range,
                     .permitted = {{true}, {1, 1, 1}},
                     .accesses = 1,
                     .access = &access,
                     .work = &fence->work,
                     .name = "fence",
                     .location = location};
  return cel_engine_submit(e, &group);
}

/* Gives up the maker's hold of the work, and of the fence if it failed. */
static cel_status finish(const cel_engine *e, cel_fence *fence,
                         cel_status status, cel_fence **out) {
  fence->task = e->last_task;
  cel_work_release(&fence->work);
  if (status == CEL_E_OK)
    *out = fence;
  else
    cel_late_release(&fence->late);
  return status;
}

cel_status cel_engine_fence(cel_engine *engine, const cel_buffer *buffer,
                            const cel_box *box, cel_location location,
                            cel_fence **out) {
  cel_fence *fence = make(engine, buffer, box);
  if (fence == NULL) return cel_error_last()->code;
  if (fence->size == 0) {
    cel_late_tell(&fence->late);
    return finish(engine, fence, CEL_E_OK, out);
  }
  int64_t params[2 * CEL_DIMS];
  for (int d = 0; d < buffer->dims; ++d) {
    int64_t *at = params + (ptrdiff_t)2 * d;
    at[0] = box->min[d];
    at[1] = box->max[d];
  }
  const cel_rule *rule = rule_of(engine, buffer->dims);
  cel_rule_use use = use_of(engine, buffer, rule, params);
  return finish(engine, fence, submit(engine, buffer, fence, &use, location),
                out);
}

/* Submitted on every rank, also where the box is empty. */
cel_status cel_engine_fence_each(cel_engine *engine, const cel_buffer *buffer,
                                 const cel_rule *rule, const int64_t *params,
                                 cel_location location, cel_fence **out) {
  int64_t me = engine->config.transport->rank;
  cel_box chunk = {{me, 0, 0}, {me + 1, 1, 1}}, box;
  cel_rule_use use = use_of(engine, buffer, rule, params);
  cel_assert(rule->desc.boxes == 1 && !rule->families &&
             rule->desc.task_dims == 1);
  if (cel_rule_eval_box(&use, 0, &chunk, &box) != CEL_E_OK) {
    cel_error why = *cel_error_last();
    return cel_fail(why.code, "what rank %lld captures of buffer '%s': %s",
                    (long long)me, buffer->name ? buffer->name : "unnamed",
                    why.text);
  }
  cel_fence *fence = make(engine, buffer, &box);
  if (fence == NULL) return cel_error_last()->code;
  return finish(engine, fence, submit(engine, buffer, fence, &use, location),
                out);
}

cel_status cel_engine_fence_object(cel_engine *engine, const cel_object *object,
                                   cel_taking *taking, cel_location location,
                                   cel_fence **out) {
  cel_fence *fence = cel_alloc_zero(sizeof *fence);
  *fence = (cel_fence){.work = {.references = 1,
                                .fn = take_object,
                                .stand_in = take_nothing,
                                .destroy = destroy_work,
                                .hash = cel_hash("object", 6, taking->hash),
                                .lua = taking->lua,
                                .objects = taking->objects,
                                .context = fence},
                       .engine = engine,
                       .forgiving = engine->config.forgiving,
                       .taking = taking};
  cel_late_init(&fence->late, 2, destroy);
  cel_effect effect = {object, CEL_ORDER_SEQUENTIAL};
  cel_group group = {.kind = CEL_TASK_HOST,
                     .placement = CEL_PLACE_EACH,
                     .dims = 1,
                     .range =
                         cel_box_sized(engine->config.transport->ranks, 1, 1),
                     .permitted = {{true}, {1, 1, 1}},
                     .effects = 1,
                     .effect = &effect,
                     .work = &fence->work,
                     .name = "fence",
                     .location = location};
  return finish(engine, fence, cel_engine_submit(engine, &group), out);
}

const cel_box *cel_fence_box(const cel_fence *fence) {
  return &fence->box;
}

bool cel_fence_ready(const cel_fence *fence) {
  return cel_late_is_known(&fence->late);
}

cel_late *cel_fence_late(cel_fence *fence) {
  return &fence->late;
}

bool cel_fence_is_last(const cel_engine *engine, const cel_fence *fence) {
  return fence->task == engine->last_task;
}

static bool is_ready(const cel_engine *engine, const void *fence) {
  (void)engine;
  return cel_fence_ready(fence);
}

cel_status cel_engine_fence_get(cel_engine *engine, cel_fence *fence,
                                bool (*interrupted)(void), const void **data,
                                uint64_t *size) {
  if (!cel_fence_ready(fence)) cel__engine_pass(engine, &engine->flush);
  CEL_TRY(cel__engine_await(engine, is_ready, fence, interrupted));
  if (fence->error != NULL) return cel_fail_with(fence->error);
  *data = fence->data;
  *size = fence->size;
  return CEL_E_OK;
}
