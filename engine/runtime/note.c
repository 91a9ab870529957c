/* What main and the scheduler did, for a timeline. */
#include "device/clock.h"
#include "runtime/internal.h"

int64_t cel__engine_now(const cel_engine *engine) {
  return engine->config.timeline != NULL ? cel_now_ns() : 0;
}

void cel__engine_add_span(cel_engine *engine, cel_span_kind kind, uint64_t task,
                          const char *name, cel_location location,
                          int64_t begin) {
  if (engine->config.timeline == NULL) return;
  cel_span span = {.begin = begin,
                   .end = cel_now_ns(),
                   .task = task,
                   .name = name,
                   .location = location,
                   .kind = (uint8_t)kind,
                   .dims = -1,
                   .from = -1,
                   .to = -1,
                   .device = -1,
                   .lane = -1};
  cel_timeline_add(engine->config.timeline, &span);
}
