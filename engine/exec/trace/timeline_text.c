#include "exec/trace/timeline_text.h"

#include <stdio.h>

#include "exec/lanes.h"

/* Threads of a process, as they are to stand below each other. */
enum {
  TID_MAIN = 1,
  TID_SCHEDULER,
  TID_EXECUTOR,
  TID_LANES = 16, /* CEL_LANES for each device */
  TID_HOST = TID_LANES + CEL_DEVICES * CEL_LANES,
  TID_MESSAGES = TID_HOST + 128, /* sends and receives in turn */
  TID_GROUPS = 1 << 20
};

typedef cel_timeline_text text;

/* Within quotes. What is no character by itself is left out. */
static void put_escaped(text *t, const char *what) {
  for (const char *c = what; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') cel_vec_push(&t->out, '\\');
    if ((unsigned char)*c >= ' ') cel_vec_push(&t->out, *c);
  }
}

static void put_time(text *t, const char *key, int64_t ns) {
  cel_text_format(&t->out, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000),
                  (int)(ns % 1000));
}

/* ---- tracks -------------------------------------------------------------- */

static int32_t tid_of(const cel_span *s) {
  bool group = s->lane < -1;
  switch (cel_span_track_of(s->kind)) {
  case CEL_TRACK_MAIN: return TID_MAIN;
  case CEL_TRACK_SCHEDULER: return TID_SCHEDULER;
  case CEL_TRACK_EXECUTOR: return TID_EXECUTOR;
  default: break;
  }
  if (s->device >= 0) return TID_LANES + s->device * CEL_LANES + s->lane;
  if (cel_span_track_of(s->kind) == CEL_TRACK_LANE)
    return group ? TID_GROUPS - 1 - s->lane : TID_HOST + s->lane;
  return TID_MESSAGES + 2 * s->lane + (s->kind != CEL_SPAN_SEND);
}

static void name_track(const text *t, const cel_span *s, char *name,
                       size_t size) {
  bool kernels = s->lane < t->kernel_lanes;
  switch (cel_span_track_of(s->kind)) {
  case CEL_TRACK_MAIN: snprintf(name, size, "main"); return;
  case CEL_TRACK_SCHEDULER: snprintf(name, size, "scheduler"); return;
  case CEL_TRACK_EXECUTOR: snprintf(name, size, "executor"); return;
  default: break;
  }
  if (s->device >= 0)
    snprintf(name, size, "device %d %s %d", s->device,
             kernels ? "kernels" : "copies",
             kernels ? s->lane : s->lane - t->kernel_lanes);
  else if (cel_span_track_of(s->kind) == CEL_TRACK_MESSAGE)
    snprintf(name, size, "%s %d",
             s->kind == CEL_SPAN_SEND ? "sends" : "receives", s->lane);
  else if (s->lane < -1)
    snprintf(name, size, "collective group %d", -1 - s->lane);
  else
    snprintf(name, size, "host lane %d", s->lane);
}

static long long pid_of(const text *t) {
  return (long long)t->rank + 1; /* 0 is the idle process to Perfetto */
}

static void put_meta(text *t, int32_t tid, const char *what) {
  cel_text_format(
      &t->out,
      "{\"ph\":\"M\",\"pid\":%lld,\"tid\":%d,\"name\":\"%s\",\"args\":",
      pid_of(t), tid, what);
}

static cel_text_track *track_of(text *t, const cel_span *s) {
  int32_t tid = tid_of(s);
  char name[64];
  for (uint32_t i = 0; i < t->tracks.n; ++i)
    if (t->tracks.at[i].tid == tid) return &t->tracks.at[i];
  name_track(t, s, name, sizeof name);
  put_meta(t, tid, "thread_name");
  cel_text_format(&t->out, "{\"name\":\"%s\"}},\n", name);
  put_meta(t, tid, "thread_sort_index");
  cel_text_format(&t->out, "{\"sort_index\":%d}},\n", tid);
  cel_vec_push(&t->tracks, (cel_text_track){tid, INT64_MIN});
  return &cel_vec_last(&t->tracks);
}

/* ---- events -------------------------------------------------------------- */

/* A task's own name says what a kernel is; of a copy it says for whom. */
static void put_name(text *t, const cel_span *s) {
  const char *kind = cel_span_name(s->kind);
  bool work = s->kind == CEL_SPAN_KERNEL || s->kind == CEL_SPAN_INTEROP ||
              s->kind == CEL_SPAN_HOST;
  bool message = s->kind == CEL_SPAN_SEND || s->kind == CEL_SPAN_RECEIVE;
  cel_text_format(&t->out, ",\"cat\":\"%s\",\"name\":\"", kind);
  if (message)
    cel_text_format(&t->out, "%s %lld",
                    s->kind == CEL_SPAN_SEND ? "to" : "from",
                    (long long)s->peer);
  else if (!work || s->name == NULL)
    cel_text_format(&t->out, "%s", kind);
  if (s->name != NULL && (message || !work)) cel_text_format(&t->out, " ");
  if (s->name != NULL) put_escaped(t, s->name);
  cel_text_format(&t->out, "\"");
}

static void put_box(text *t, const cel_span *s) {
  cel_text_format(&t->out, ",\"box\":\"");
  if (s->dims == 0) cel_text_format(&t->out, "1");
  for (int d = 0; d < s->dims; ++d)
    cel_text_format(&t->out, "%s[%lld,%lld)", d > 0 ? "x" : "",
                    (long long)s->box.min[d], (long long)s->box.max[d]);
  cel_text_format(&t->out, "\"");
}

static void put_memory(text *t, const char *key, int8_t memory) {
  if (memory == 0) cel_text_format(&t->out, ",\"%s\":\"host\"", key);
  if (memory > 0)
    cel_text_format(&t->out, ",\"%s\":\"device memory %d\"", key, memory - 1);
}

static void put_arguments(text *t, const cel_span *s, int64_t begin) {
  cel_text_format(&t->out, ",\"args\":{\"task\":%llu",
                  (unsigned long long)s->task);
  if (s->location.file != NULL) {
    cel_text_format(&t->out, ",\"line\":\"");
    put_escaped(t, s->location.file);
    cel_text_format(&t->out, ":%d\"", s->location.line);
  }
  if (s->location.callers != NULL) {
    cel_text_format(&t->out, ",\"called_from\":\"");
    put_escaped(t, s->location.callers);
    cel_text_format(&t->out, "\"");
  }
  if (s->dims >= 0) put_box(t, s);
  if (s->bytes > 0)
    cel_text_format(&t->out, ",\"bytes\":%llu", (unsigned long long)s->bytes);
  if (s->together > 0)
    cel_text_format(&t->out, ",\"together\":%d", s->together);
  put_memory(t, "from", s->from);
  put_memory(t, "to", s->to);
  if (s->issued > 0 && begin > s->issued)
    put_time(t, "queued_us", begin - s->issued);
  if (s->failed) cel_text_format(&t->out, ",\"failed\":true");
  cel_text_format(&t->out, "}");
}

/* One end of an arrow, within its span; both ends know its id. */
static void put_arrow(text *t, const cel_span *s, int32_t tid, int64_t begin,
                      int64_t end) {
  bool sends = s->kind == CEL_SPAN_SEND;
  unsigned from = (unsigned)(sends ? t->rank : s->peer) & 0xffff;
  unsigned to = (unsigned)(sends ? s->peer : t->rank) & 0xffff;
  cel_text_format(&t->out, "{\"ph\":\"%s\",\"pid\":%lld,\"tid\":%d",
                  sends ? "s" : "f", pid_of(t), tid);
  put_time(t, "ts", sends ? begin : end - 1);
  cel_text_format(
      &t->out,
      ",\"cat\":\"message\",\"name\":\"message\",\"id\":\"0x%04x%04x%08x\"%s},"
      "\n",
      from, to, (unsigned)s->sequence, sends ? "" : ",\"bp\":\"e\"");
}

void cel_timeline_text_add(cel_timeline_text *text, const cel_span *span) {
  cel_span_track kind = cel_span_track_of(span->kind);
  cel_text_track *track = track_of(text, span);
  int64_t begin = span->begin + text->offset, end = span->end + text->offset;
  bool message = span->kind == CEL_SPAN_SEND || span->kind == CEL_SPAN_RECEIVE;
  /* Events of a GPU are known to about a microsecond. */
  if (kind != CEL_TRACK_MAIN && begin < track->end) begin = track->end;
  if (end < begin + message) end = begin + message;
  track->end = end;
  cel_text_format(&text->out, "{\"ph\":\"X\",\"pid\":%lld,\"tid\":%d",
                  pid_of(text), track->tid);
  put_time(text, "ts", begin);
  put_time(text, "dur", end - begin);
  put_name(text, span);
  put_arguments(text, span, begin - text->offset);
  cel_text_format(&text->out, "},\n");
  if (message) put_arrow(text, span, track->tid, begin, end);
}

void cel_timeline_text_begin(cel_timeline_text *text, const char *host) {
  cel_text_format(&text->out, "[\n");
  put_meta(text, TID_MAIN, "process_sort_index");
  cel_text_format(&text->out, "{\"sort_index\":%lld}},\n",
                  (long long)text->rank);
  put_meta(text, TID_MAIN, "process_name");
  cel_text_format(&text->out, "{\"name\":\"rank %lld on ",
                  (long long)text->rank);
  put_escaped(text, host);
  cel_text_format(&text->out, "\"}},\n");
}

void cel_timeline_text_end(cel_timeline_text *text) {
  put_meta(text, TID_MAIN, "celer_end");
  cel_text_format(&text->out, "{}}\n]\n");
}

void cel_timeline_text_release(cel_timeline_text *text) {
  cel_vec_release(&text->out);
  cel_vec_release(&text->tracks);
}
