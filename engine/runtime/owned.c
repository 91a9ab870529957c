/* What main makes and frees, buffers and host objects: the engine owns the
 * records, and ends them when all layers have seen their last mention. */
#include "runtime/internal.h"

/* ---- buffers ------------------------------------------------------------- */

const cel_buffer *cel_engine_buffer(cel_engine *engine, int32_t dims,
                                    const int64_t extent[3],
                                    uint32_t element_size, uint64_t type,
                                    const char *name, cel_init *init,
                                    bool apart) {
  cel_assert_thread(CEL_THREAD_MAIN);
  cel_buffer *buffer = cel_alloc(sizeof *buffer);
  *buffer = (cel_buffer){.id = engine->buffers_made++,
                         .dims = dims,
                         .extent = cel_box_sized(1, 1, 1),
                         .element_size = element_size,
                         .type = type,
                         .init = init,
                         .apart = apart,
                         .changes = cel_alloc_zero(sizeof(uint64_t))};
  for (int d = 0; d < dims; ++d) buffer->extent.max[d] = extent[d];
  if (name != NULL) buffer->name = cel_strdup(name);
  cel_vec_push(&engine->buffers, (cel_owned_buffer){buffer, 0});
  return buffer;
}

void cel_engine_buffer_reserve(cel_engine *engine, const cel_buffer *buffer,
                               const cel_box *box) {
  cel_assert(cel_box_covers(&buffer->extent, box));
  for (uint32_t i = engine->buffers.n; i-- > 0;) {
    cel_buffer *owned = engine->buffers.at[i].buffer;
    if (owned != buffer) continue;
    owned->reserve = *box;
    return;
  }
  cel_bug("a buffer of another engine is reserved");
}

void cel_engine_buffer_free(cel_engine *engine, const cel_buffer *buffer) {
  cel_assert_thread(CEL_THREAD_MAIN);
  for (uint32_t i = 0; i < engine->buffers.n; ++i) {
    cel_owned_buffer *owned = &engine->buffers.at[i];
    if (owned->buffer != buffer) continue;
    cel_assert(owned->freed == 0);
    /* A horizon that follows at once would be made by the same call. */
    owned->freed = engine->last_task + 1;
    cel_task_graph_free(engine->graph, buffer);
    return;
  }
  cel_bug("a buffer of another engine is freed");
}

static void free_buffer(cel_buffer *buffer) {
  if (buffer->init != NULL && buffer->init->destroy != NULL)
    buffer->init->destroy(buffer->init);
  cel_free((void *)(uintptr_t)buffer->name);
  cel_free(buffer->changes);
  cel_free(buffer);
}

/* ---- host objects -------------------------------------------------------- */

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

static void end_object(cel_object *object) {
  if (object->destroy != NULL) object->destroy(object);
  if (object->release != NULL) cel_work_release(object->release);
  cel_free((void *)(uintptr_t)object->name);
  cel_free(object);
}

/* ---- both ---------------------------------------------------------------- */

void cel__owned_retire(cel_engine *engine, uint64_t retired) {
  for (uint32_t i = engine->buffers.n; i-- > 0;) {
    const cel_owned_buffer *owned = &engine->buffers.at[i];
    if (owned->freed == 0 || owned->freed >= retired) continue;
    free_buffer(owned->buffer);
    cel_vec_swap_out(&engine->buffers, i);
  }
  for (uint32_t i = engine->objects.n; i-- > 0;) {
    const cel_owned_object *owned = &engine->objects.at[i];
    if (owned->freed == 0 || owned->freed >= retired) continue;
    end_object(owned->object);
    cel_vec_swap_out(&engine->objects, i);
  }
}

void cel__owned_release(cel_engine *engine) {
  for (uint32_t i = 0; i < engine->buffers.n; ++i)
    free_buffer(engine->buffers.at[i].buffer);
  cel_vec_release(&engine->buffers);
  for (uint32_t i = 0; i < engine->objects.n; ++i)
    end_object(engine->objects.at[i].object);
  cel_vec_release(&engine->objects);
}
