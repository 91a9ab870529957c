#include "exec/trace/span.h"

static const struct {
  const char *name;
  cel_span_track track;
} kinds[] = {
#define SPAN_ROW(NAME, name, track) {#name, CEL_TRACK_##track},
    CEL_SPAN_KINDS(SPAN_ROW)
#undef SPAN_ROW
};

const char *cel_span_name(cel_span_kind kind) {
  return kinds[kind].name;
}

cel_span_track cel_span_track_of(cel_span_kind kind) {
  return kinds[kind].track;
}

static cel_span_kind kind_of(const cel_instr *instr) {
  switch (instr->kind) {
  case CEL_INSTR_ALLOC: return CEL_SPAN_ALLOC;
  case CEL_INSTR_COMMIT: return CEL_SPAN_COMMIT;
  case CEL_INSTR_DECOMMIT: return CEL_SPAN_DECOMMIT;
  case CEL_INSTR_FREE: return CEL_SPAN_FREE;
  case CEL_INSTR_INIT: return CEL_SPAN_INIT;
  case CEL_INSTR_COPY: return CEL_SPAN_COPY;
  case CEL_INSTR_KERNEL:
    return instr->task->work->lua ? CEL_SPAN_INTEROP : CEL_SPAN_KERNEL;
  case CEL_INSTR_HOST: return CEL_SPAN_HOST;
  case CEL_INSTR_RELEASE: return CEL_SPAN_RELEASE;
  case CEL_INSTR_SEND: return CEL_SPAN_SEND;
  case CEL_INSTR_RECEIVE: return CEL_SPAN_RECEIVE;
  case CEL_INSTR_COLLECTIVE: return CEL_SPAN_COLLECTIVE;
  case CEL_INSTR_HORIZON: return CEL_SPAN_HORIZON;
  case CEL_INSTR_EPOCH: return CEL_SPAN_EPOCH;
  }
  cel_bug("no such instruction: %d", (int)instr->kind);
}

/* All but the times and the place where it ran. */
static void describe(const cel_instr *instr, cel_span *out) {
  *out = (cel_span){.kind = (uint8_t)kind_of(instr),
                    .dims = -1,
                    .from = -1,
                    .to = -1,
                    .device = -1,
                    .lane = -1};
  if (instr->task != NULL) {
    out->task = instr->task->id;
    out->name = instr->task->name;
    out->location = instr->task->location;
  }
}

static void describe_copy(const cel_instr *instr, cel_span *out) {
  const cel_allocation *from = instr->copy.from, *to = instr->copy.to;
  out->box = instr->copy.box;
  out->dims = (int8_t)to->buffer->dims;
  out->bytes = (uint64_t)cel_box_volume(&out->box) * to->buffer->element_size;
  if (from != NULL) out->from = (int8_t)from->memory;
  out->to = (int8_t)to->memory;
}

static void describe_collective(const cel_instr *instr, cel_span *out) {
  const cel_exchange *x = instr->collective.exchange;
  out->box = x->box;
  out->dims = (int8_t)x->buffer->dims;
  out->bytes = cel_exchange_bytes(x);
}

static void describe_message(const cel_sent *sent, cel_span *out) {
  out->bytes = sent->bytes;
  out->peer = sent->peer;
  out->sequence = sent->sequence;
}

static void describe_job(const cel_instr *instr, cel_span *out) {
  switch (instr->kind) {
  case CEL_INSTR_COPY:
  case CEL_INSTR_INIT: describe_copy(instr, out); break;
  case CEL_INSTR_SEND:
  case CEL_INSTR_RECEIVE: describe_message(&instr->message, out); break;
  case CEL_INSTR_COLLECTIVE: describe_collective(instr, out); break;
  default: out->box = instr->run.chunk; out->dims = (int8_t)instr->task->dims;
  }
}

bool cel_span_of_job(const cel_instr *instr, const cel_job *job, int64_t issued,
                     int32_t device, int32_t lane, cel_span *out) {
  if (job->begin == 0) return false;
  describe(instr, out);
  describe_job(instr, out);
  out->issued = issued;
  if (out->kind == CEL_SPAN_KERNEL) out->together = (int16_t)job->together;
  out->begin = job->begin;
  out->end = job->end;
  out->device = (int16_t)(lane < 0 ? -1 : device);
  out->lane = (int16_t)(lane < 0 ? job->lane : lane);
  return true;
}

void cel_span_of_message(const cel_instr *instr, const cel_sent *sent,
                         int64_t posted, int64_t now, int32_t track,
                         cel_span *out) {
  describe(instr, out);
  if (sent != NULL)
    describe_message(sent, out);
  else
    describe_collective(instr, out);
  out->begin = posted;
  out->end = now;
  out->lane = (int16_t)track;
}

void cel_span_of_step(const cel_instr *instr, int64_t begin, int64_t now,
                      cel_span *out) {
  describe(instr, out);
  out->begin = begin;
  out->end = now;
  if (cel_instr_lane_of(instr->kind) != CEL_LANE_MEMORY) return;
  const cel_allocation *a = instr->memory.allocation;
  bool part =
      instr->kind == CEL_INSTR_COMMIT || instr->kind == CEL_INSTR_DECOMMIT;
  out->bytes = part ? instr->memory.end - instr->memory.begin : a->reserve;
  out->to = (int8_t)a->memory;
  if (a->buffer->name != NULL) out->name = a->buffer->name;
}
