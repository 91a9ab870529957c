/* When things happened, for a timeline, and how long the engine's threads
 * worked, by the system's account of them. */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include <time.h>

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

static int64_t read_ns(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t thread_ns(pthread_t thread) {
  clockid_t clock;
  return pthread_getcpuclockid(thread, &clock) == 0 ? read_ns(clock) : 0;
}

void cel__engine_begin(cel_engine *engine) {
  engine->began = read_ns(CLOCK_MONOTONIC);
  engine->main_began = read_ns(CLOCK_THREAD_CPUTIME_ID);
}

void cel_engine_time(const cel_engine *engine, cel_engine_times *out) {
  const cel_engine *e = engine;
  *out = (cel_engine_times){0};
  if (e->began == 0) return;
  out->wall = read_ns(CLOCK_MONOTONIC) - e->began;
  out->waited = e->waited;
  out->main = read_ns(CLOCK_THREAD_CPUTIME_ID) - e->main_began;
  if (!e->config.threads || e->stopped) return;
  out->scheduler = thread_ns(e->scheduler_thread);
  out->executor = thread_ns(e->executor_thread);
}
