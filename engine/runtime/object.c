/* Host objects: the engine owns the records, and ends them when all layers have
 * seen their last mention. */
#include "runtime/internal.h"

const cel_object *cel_engine_object(cel_engine *engine,
                                    const cel_object *what) {
  cel_object *object = cel_alloc(sizeof *object);
  *object = *what;
  object->id = engine->objects_made++;
  if (what->name != NULL) object->name = cel_strdup(what->name);
  cel_vec_push(&engine->objects, (cel_owned_object){object, 0});
  return object;
}

void cel_engine_object_free(cel_engine *engine, const cel_object *object) {
  for (uint32_t i = 0; i < engine->objects.n; ++i) {
    cel_owned_object *owned = &engine->objects.at[i];
    if (owned->object != object) continue;
    cel_assert(owned->freed == 0);
    /* As with a buffer. */
    owned->freed = engine->last_task + 1;
    cel_task_graph_end(engine->graph, object);
    return;
  }
  cel_bug("a host object of another engine is freed");
}

static void destroy(cel_object *object) {
  if (object->destroy != NULL) object->destroy(object);
  if (object->release != NULL) cel_work_release(object->release);
  cel_free((void *)(uintptr_t)object->name);
  cel_free(object);
}

void cel__objects_retire(cel_engine *engine, uint64_t retired) {
  for (uint32_t i = engine->objects.n; i-- > 0;) {
    const cel_owned_object *owned = &engine->objects.at[i];
    if (owned->freed == 0 || owned->freed >= retired) continue;
    destroy(owned->object);
    cel_vec_swap_out(&engine->objects, i);
  }
}

void cel__objects_release(cel_engine *engine) {
  for (uint32_t i = 0; i < engine->objects.n; ++i)
    destroy(engine->objects.at[i].object);
  cel_vec_release(&engine->objects);
}
