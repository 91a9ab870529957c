#include "exec/executor.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/confined.h"
#include "device/host_memory.h"
#include "exec/blame.h"
#include "exec/conflict.h"
#include "exec/folding.h"
#include "exec/lanes.h"
#include "exec/reserved.h"
#include "exec/trace/measure.h"
#include "exec/waits.h"
#include "tuning.h"

enum { BATCH = 64 }; /* completions of each that are taken in per step */

struct cel_executor {
  cel_executor_config config;
  cel_window window;
  cel_ready ready;
  cel_records records;
  cel_foldings foldings;
  cel_lanes lanes;
  cel_conflicts *conflicts;
  uint64_t undone;        /* instructions */
  uint64_t jobs;          /* at devices and host lanes */
  uint64_t device_jobs;   /* of these, at devices */
  bool failed;            /* or halted: issues nothing more */
  bool reported;          /* a failure: later ones follow from it */
  bool lost;              /* a device, as was found meanwhile: */
  const cel_instr *loser; /* by this, or null: by somebody else */
  cel_error lost_error;
  cel_reserved_list reserved;
  uint64_t exchanges;          /* collectives begun */
  CEL_VEC(uint64_t) early;     /* those that wait for their turn, READY */
  CEL_VEC(uint64_t) scant;     /* of memory, that wait for folds, READY */
  CEL_VEC(cel_node *) settled; /* about to be DONE; empty between calls */
  _Atomic(uint64_t) messages, bytes_sent, copies, bytes_copied, allocations;
};

static void count(_Atomic(uint64_t) *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- readiness ---------------------------------------------------------- */

static void make_ready(cel_executor *e, cel_node *node) {
  node->state = CEL_NODE_READY;
  cel_ready_push(&e->ready, node->instr->priority, node->instr->id);
}

static void consider(cel_executor *e, cel_node *node) {
  if (node->state == CEL_NODE_RETURNED && node->incomplete == 0)
    cel_vec_push(&e->settled, node);
  if (node->state != CEL_NODE_WAITING) return;
  if (node->incomplete == 0 ||
      (node->unissued == 0 &&
       (cel_lanes_may_follow(&e->lanes, &e->window, node) ||
        cel_lanes_may_follow_host(e->config.host, &e->window, node))))
    make_ready(e, node);
}

static void mark_issued(cel_executor *e, cel_node *node) {
  node->state = CEL_NODE_ISSUED;
  for (int32_t i = node->successors; i != CEL_NO_EDGE;
       i = e->window.edges.at[i].next) {
    cel_node *to = cel_window_node(&e->window, e->window.edges.at[i].to);
    to->unissued--;
    consider(e, to);
  }
}

static void mark_done(cel_executor *e, cel_node *node) {
  bool was_issued = node->state >= CEL_NODE_ISSUED;
  node->state = CEL_NODE_DONE;
  e->undone--;
  for (int32_t i = node->successors; i != CEL_NO_EDGE;
       i = e->window.edges.at[i].next) {
    cel_node *to = cel_window_node(&e->window, e->window.edges.at[i].to);
    to->incomplete--;
    if (!was_issued) to->unissued--;
    consider(e, to);
  }
  cel_window_drop_edges(&e->window, node);
}

/* It is back. What it began after in another lane may not be, although it has
 * been carried out: then it counts as done only when that is back too. */
static void settle(cel_executor *e, cel_node *node) {
  node->state = CEL_NODE_RETURNED;
  consider(e, node);
  while (e->settled.n > 0) mark_done(e, cel_vec_pop(&e->settled));
}

/* ---- failure ------------------------------------------------------------ */

/* Nothing more is begun; host lanes would begin what they have. */
static void halt(cel_executor *e) {
  if (e->failed) return;
  e->failed = true;
  cel_host_lanes_drop(e->config.host);
  if (e->config.transport->halt != NULL)
    e->config.transport->halt(e->config.transport);
}

static void fail(cel_executor *e, const cel_instr *instr, cel_error *error) {
  halt(e);
  if (e->reported) return;
  e->reported = true;
  if (instr != NULL) cel_blame(instr, error);
  if (e->config.failed != NULL)
    e->config.failed(e->config.context, instr, error);
}

/* Whether a host lane's job failed in a way that is not to end anything. */
static bool forgive(cel_executor *e, const cel_node *node, bool job,
                    cel_error *error) {
  if (e->config.forgive == NULL || !job || node->lane != CEL_NO_LANE ||
      error->code != CEL_E_TASK || e->failed)
    return false;
  cel_blame(node->instr, error);
  e->config.forgive(e->config.context, error);
  return true;
}

/* A lost device gives the same error to whatever comes next; the job that it is
 * of is under way, and comes back with more to say. */
static void fail_later(cel_executor *e, const cel_instr *instr,
                       cel_error *error) {
  if (error->code != CEL_E_FAULT || e->device_jobs == 0) {
    fail(e, instr, error);
    return;
  }
  halt(e);
  if (e->lost) return;
  e->lost = true;
  e->loser = instr;
  e->lost_error = *error;
}

void cel_executor_lose(cel_executor *executor, const cel_error *error) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_error own = *error;
  fail_later(executor, NULL, &own);
}

/* ---- issue -------------------------------------------------------------- */

/* The last error, which befell memory of a buffer. */
static void fail_memory(cel_executor *e, const cel_instr *instr,
                        const cel_allocation *a) {
  cel_error error = *cel_error_last();
  if (a->buffer->name != NULL)
    snprintf(error.text, sizeof error.text, "buffer %s: %.1500s",
             a->buffer->name, cel_error_last()->text);
  if (error.code == CEL_E_MEMORY)
    cel_reserved_say(&e->reserved, a->memory, error.text, sizeof error.text);
  fail_later(e, instr, &error);
}

static bool piece_fits(cel_executor *e, const cel_instr *instr,
                       const cel_allocation *a, const cel_box *box) {
  if (a == NULL) return true;
  if (e->config.backend->grain != 0)
    return true; /* committed before, or refused then */
  uint64_t bytes = (uint64_t)cel_box_volume(box) * a->buffer->element_size;
  if (cel_memory_fits(bytes) == CEL_E_OK) return true;
  fail_memory(e, instr, a);
  return false;
}

/* Address space is cheap, so what is reserved may be far more than there is;
 * what one job is to touch of it may not. */
static bool job_fits(cel_executor *e, const cel_instr *instr) {
  if (instr->kind == CEL_INSTR_COPY || instr->kind == CEL_INSTR_INIT)
    return piece_fits(e, instr, instr->copy.to, &instr->copy.box);
  for (uint32_t i = 0; i < instr->task->accesses; ++i) {
    const cel_place_in *in = &instr->run.view[i];
    if (!piece_fits(e, instr, in->allocation, &in->box)) return false;
  }
  return true;
}

static cel_record *take_record(cel_executor *e, cel_node *node) {
  node->record = cel_records_take(&e->records);
  node->record->issued = cel__measure_now(&e->config.measure);
  return node->record;
}

static bool is_task(const cel_instr *instr) {
  return instr->kind == CEL_INSTR_KERNEL || instr->kind == CEL_INSTR_HOST;
}

static bool is_fold(const cel_instr *instr) {
  return instr->kind == CEL_INSTR_KERNEL && instr->run.fold != NULL;
}

static void translate(cel_executor *e, cel_record *record,
                      const cel_instr *instr) {
  if (is_fold(instr)) {
    cel_folding_begin(&e->foldings, record, instr, e->config.backend,
                      &e->reserved, e->config.rank, e->config.ranks);
    return;
  }
  cel_translate_job(record, instr, e->config.rank, e->config.ranks);
  if (e->config.audit != NULL && is_task(instr))
    cel_audit_begin(e->config.audit, instr, record);
}

static void issue_to_host(cel_executor *e, cel_node *node) {
  if (!job_fits(e, node->instr)) return;
  cel_record *record = take_record(e, node);
  translate(e, record, node->instr);
  e->jobs++;
  node->host =
      (int16_t)cel_host_lanes_submit(e->config.host, &record->job, node->host);
  mark_issued(e, node);
  cel_lanes_hush(&e->lanes, e->config.host, &e->window, node);
}

/* Or waits for room in its lane, READY as before. */
static void issue_to_lane(cel_executor *e, cel_node *node) {
  const cel_instr *instr = node->instr;
  if (!cel_lanes_enter(&e->lanes, &e->window, node)) return;
  if (!job_fits(e, instr)) return;
  cel_record *record = take_record(e, node);
  translate(e, record, instr);
  e->jobs++;
  e->device_jobs++;
  if (instr->kind == CEL_INSTR_COPY) {
    count(&e->copies, 1);
    count(&e->bytes_copied, (uint64_t)cel_box_volume(&instr->copy.box) *
                                record->job.element_size);
  }
  cel_lanes_submit(&e->lanes, &e->window, node);
  mark_issued(e, node);
  if (e->config.backend->hush != NULL && node->incomplete > 0)
    cel_lanes_hush(&e->lanes, e->config.host, &e->window, node);
}

/* To a lane, or waits for room in it, READY then. */
static void issue_put(cel_executor *e, cel_node *node) {
  const cel_message_table *messages = &e->config.transport->messages;
  node->state = CEL_NODE_READY;
  if (!cel_lanes_enter(&e->lanes, &e->window, node)) return;
  e->jobs++;
  e->device_jobs++;
  cel_lanes_submit(&e->lanes, &e->window, node);
  if (node->instr->kind != CEL_INSTR_COLLECTIVE)
    messages->carry(messages->self, node->record->job.context);
  mark_issued(e, node);
}

static void post(cel_executor *e, cel_transit *transit, bool out,
                 bool chained) {
  const cel_message_table *messages = &e->config.transport->messages;
  cel_posted *posted = &transit->posted;
  posted->chained = chained;
  if (e->config.measure.timeline != NULL && !chained)
    transit->track = cel_timeline_post(e->config.measure.timeline, out);
  if (!out) {
    messages->receive(messages->self, posted);
    return;
  }
  count(&e->messages, 1);
  count(&e->bytes_sent, posted->bytes);
  messages->send(messages->self, posted);
}

static void issue_message(cel_executor *e, cel_node *node) {
  if (node->record != NULL) {
    issue_put(e, node);
    return;
  }
  const cel_message_table *messages = &e->config.transport->messages;
  if (messages->send == NULL || messages->receive == NULL)
    cel_bug("a message for a transport that moves none");
  cel_record *record = take_record(e, node);
  cel_translate_message(record, node->instr);
  bool chained = cel_lanes_take(&e->lanes, node->instr);
  for (uint32_t i = 0; i < record->messages.n; ++i)
    post(e, &record->messages.at[i], node->instr->kind == CEL_INSTR_SEND,
         chained);
  if (chained)
    node->state = CEL_NODE_POSTED;
  else
    mark_issued(e, node);
}

static const cel_exchange *exchange_of(const cel_node *node) {
  return node->instr->collective.exchange;
}

/* It goes to a lane when all are there (comm/transport.h). */
static void begin_on_device(cel_executor *e, cel_node *node) {
  const cel_collective_table *by = &e->config.transport->collectives;
  if (by->exchange_devices == NULL)
    cel_bug("devices exchange nothing by this transport");
  cel_record *record = take_record(e, node);
  cel_translate_device_collective(record, node->instr, e->config.rank,
                                  e->config.ranks);
  node->state = CEL_NODE_POSTED;
  by->exchange_devices(by->self, &record->device_collective);
}

static void begin_collective(cel_executor *e, cel_node *node) {
  const cel_collective_table *by = &e->config.transport->collectives;
  ++e->exchanges;
  if (node->instr->device <= 0) { /* one of a rank's devices counts */
    count(&e->messages, 1);
    count(&e->bytes_sent, cel_exchange_given(exchange_of(node)));
  }
  if (node->instr->device >= 0) {
    begin_on_device(e, node);
    return;
  }
  if (by->exchange == NULL) cel_bug("ranks exchange nothing by this transport");
  cel_record *record = take_record(e, node);
  cel_translate_collective(record, node->instr, e->config.rank);
  if (e->config.measure.timeline != NULL)
    record->track = cel_timeline_post(e->config.measure.timeline, false);
  by->exchange(by->self, &record->collective);
  mark_issued(e, node);
}

/* Its place in the order that all ranks share. */
static uint64_t turn_of(const cel_node *node) {
  const cel_exchange *x = exchange_of(node);
  if (x->devices == 0) return x->nth;
  return x->nth * (uint64_t)x->devices + (uint64_t)node->instr->device;
}

/* What is ready early waits for its turn; what was posted is back to go to a
 * lane. */
static void issue_collective(cel_executor *e, cel_node *node) {
  if (node->record != NULL) {
    issue_put(e, node);
    return;
  }
  cel_vec_push(&e->early, node->instr->id);
  for (uint32_t i = 0; i < e->early.n;) {
    cel_node *next = cel_window_node(&e->window, e->early.at[i]);
    if (turn_of(next) != e->exchanges) {
      ++i;
      continue;
    }
    cel_vec_swap_out(&e->early, i);
    begin_collective(e, next);
    i = 0;
  }
}

/* An ALLOC that waits for this FREE and takes as much; else null. Where memory
 * is limited, it waits for nothing else: another might count on that room. */
static cel_allocation *heir_of(cel_executor *e, const cel_node *node) {
  const cel_allocation *a = node->instr->memory.allocation;
  bool limited = e->config.backend->capacity[a->memory] != 0;
  for (int32_t i = node->successors; i != CEL_NO_EDGE;
       i = e->window.edges.at[i].next) {
    uint64_t id = e->window.edges.at[i].to;
    const cel_node *next = cel_window_node(&e->window, id);
    if (next->instr->kind != CEL_INSTR_ALLOC) continue;
    if (limited && next->incomplete > 1) continue;
    cel_allocation *heir = next->instr->memory.allocation;
    if (heir->address == NULL && heir->memory == a->memory &&
        heir->reserve == a->reserve)
      return heir;
  }
  return NULL;
}

/* Whether memory goes from a FREE to an ALLOC, so that there is nothing else to
 * be done. */
static bool hand_on(cel_executor *e, const cel_node *node) {
  cel_allocation *a = node->instr->memory.allocation;
  if (node->instr->kind == CEL_INSTR_ALLOC) return a->address != NULL;
  if (node->instr->kind != CEL_INSTR_FREE) return false;
  cel_allocation *heir = heir_of(e, node);
  return heir != NULL &&
         cel_reserved_hand_on(&e->reserved, e->config.backend, a, heir);
}

/* Or waits for spare memory that a fold uses, READY as before. */
static void change_memory(cel_executor *e, cel_node *node) {
  const cel_instr *instr = node->instr;
  if (hand_on(e, node)) {
    mark_done(e, node);
    return;
  }
  if (!cel_reserved_make_room(&e->reserved, e->config.backend, instr)) {
    cel_vec_push(&e->scant, instr->id);
    return;
  }
  if (cel_reserved_change(&e->reserved, e->config.backend, instr) != CEL_E_OK) {
    fail_memory(e, instr, instr->memory.allocation);
    return;
  }
  if (instr->kind == CEL_INSTR_ALLOC) count(&e->allocations, 1);
  mark_done(e, node);
}

static void reach(cel_executor *e, cel_node *node) {
  const cel_instr *instr = node->instr;
  mark_done(e, node);
  cel_window_advance(&e->window, instr->id);
  e->config.completed(e->config.context, instr);
}

static void issue(cel_executor *e, cel_node *node) {
  const cel_instr *instr = node->instr;
  int64_t begin = cel__measure_now(&e->config.measure);
  /* It may go when it is reached. */
  cel__measure_step(&e->config.measure, instr, CEL_LANE_NONE, begin);
  switch (instr->kind) {
  case CEL_INSTR_ALLOC:
  case CEL_INSTR_COMMIT:
  case CEL_INSTR_DECOMMIT:
  case CEL_INSTR_FREE: change_memory(e, node); break;
  case CEL_INSTR_INIT:
  case CEL_INSTR_RELEASE: issue_to_host(e, node); break;
  case CEL_INSTR_HOST: /* what has conflicts stays READY until it is picked */
    if (cel_conflicts_concern(instr->task))
      cel_conflicts_wait(e->conflicts, instr);
    else
      issue_to_host(e, node);
    break;
  case CEL_INSTR_COPY:
  case CEL_INSTR_KERNEL:
    if (cel_lanes_take(&e->lanes, instr))
      issue_to_lane(e, node);
    else
      issue_to_host(e, node);
    break;
  case CEL_INSTR_SEND:
  case CEL_INSTR_RECEIVE: issue_message(e, node); break;
  case CEL_INSTR_COLLECTIVE: issue_collective(e, node); break;
  case CEL_INSTR_HORIZON:
  case CEL_INSTR_EPOCH: reach(e, node); break;
  }
  cel__measure_step(&e->config.measure, instr, CEL_LANE_MEMORY, begin);
}

/* ---- completion --------------------------------------------------------- */

/* What was put, or never will be. */
static void let_go(cel_executor *e, const cel_node *node) {
  const cel_transport *t = e->config.transport;
  void *context = node->record->job.context;
  if (node->instr->kind == CEL_INSTR_COLLECTIVE)
    t->collectives.unjoin(t->collectives.self, context);
  else
    t->messages.unchain(t->messages.self, context);
}

/* A fold is back, and with it the spare memory that it used. */
static void end_fold(cel_executor *e, cel_node *node) {
  cel_folding_end(&e->foldings, node->record, &e->reserved);
  for (uint32_t i = 0; i < e->scant.n; ++i)
    make_ready(e, cel_window_node(&e->window, e->scant.at[i]));
  cel_vec_clear(&e->scant);
}

/* Whose job, message or collective failed so; frees the error. */
static void take_error(cel_executor *e, const cel_node *node, bool job,
                       cel_error *error) {
  if (error == NULL) return;
  if (!forgive(e, node, job, error)) {
    if (job)
      fail(e, node->instr, error);
    else
      fail_later(e, node->instr, error);
  }
  cel_free(error);
}

/* A message or collective is back; whether that is all of its instruction. */
static bool arrive(cel_executor *e, const cel_node *node,
                   const cel_done *done) {
  uint64_t which = done->ticket >> CEL_TICKET_MESSAGE;
  cel__measure_message(&e->config.measure, node, which, done->error != NULL);
  if (node->instr->kind == CEL_INSTR_COLLECTIVE) return true;
  node->record->messages.at[which].there = true;
  return --node->record->missing == 0;
}

static void complete(cel_executor *e, const cel_done *done, bool job) {
  cel_node *node = cel_window_node(&e->window, cel_ticket_id(done->ticket));
  cel_assert(node != NULL && node->instr->id == cel_ticket_id(done->ticket));
  cel_assert(node->state == CEL_NODE_ISSUED || node->state == CEL_NODE_POSTED);
  if (!job && !arrive(e, node, done)) {
    take_error(e, node, job, done->error);
    return;
  }
  uint64_t next;
  if (node->lane != CEL_NO_LANE && cel_lanes_complete(&e->lanes, node, &next))
    make_ready(e, cel_window_node(&e->window, next));
  if (job) e->jobs--;
  if (job && node->lane != CEL_NO_LANE) e->device_jobs--;
  if (job) cel__measure_job(&e->config.measure, node, done->error != NULL);
  if (e->config.audit != NULL && is_task(node->instr))
    cel_audit_end(e->config.audit, node->instr, node->record,
                  done->error == NULL && !e->failed);
  if (node->instr->kind == CEL_INSTR_HOST &&
      cel_conflicts_concern(node->instr->task))
    cel_conflicts_done(e->conflicts, node->instr);
  if (job && node->record->job.kind == CEL_JOB_PUT) let_go(e, node);
  if (is_fold(node->instr)) end_fold(e, node);
  cel_records_give(&e->records, node->record);
  node->record = NULL;
  take_error(e, node, job, done->error);
  if (e->lost && e->device_jobs == 0) fail(e, e->loser, &e->lost_error);
  /* It may have been dropped; nobody waits for it any more. */
  if (!e->failed) settle(e, node);
}

/* The other ends of chained messages are there. */
static uint32_t take_chained(cel_executor *e) {
  cel_transport *t = e->config.transport;
  cel_chained chained[BATCH];
  uint32_t n = t->chained != NULL ? t->chained(t, chained, BATCH) : 0;
  for (uint32_t i = 0; i < n; ++i) {
    cel_node *node = cel_window_node(&e->window, chained[i].ticket);
    cel_assert(node != NULL && node->state == CEL_NODE_POSTED);
    node->record->job = (cel_job){.ticket = chained[i].ticket,
                                  .kind = CEL_JOB_PUT,
                                  .put = chained[i].enqueue,
                                  .context = chained[i].context,
                                  .name = node->instr->task->name};
    if (e->failed)
      let_go(e, node);
    else
      issue_put(e, node);
  }
  return n;
}

static cel_step take_completions(cel_executor *e) {
  const cel_executor_config *c = &e->config;
  cel_done done[BATCH];
  uint32_t n, all = 0;
  all += n = c->backend->poll(c->backend, done, BATCH);
  if (n == CEL_POLL_GONE) return CEL_STEP_GONE;
  for (uint32_t i = 0; i < n; ++i) complete(e, &done[i], true);
  all += n = cel_host_lanes_poll(c->host, done, BATCH);
  for (uint32_t i = 0; i < n; ++i) complete(e, &done[i], true);
  all += n = c->transport->poll(c->transport, done, BATCH);
  for (uint32_t i = 0; i < n; ++i) complete(e, &done[i], false);
  all += take_chained(e);
  return all > 0 ? CEL_STEP_MOVED : CEL_STEP_NOTHING;
}

cel_step cel_executor_step(cel_executor *executor) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_executor *e = executor;
  cel_step made = take_completions(e);
  if (made == CEL_STEP_GONE) return made;
  /* Not without end: completions and messages must get their turn. */
  uint64_t id;
  for (int i = 0; i < CEL_TUNE_EXECUTOR_ISSUES && !e->failed &&
                  cel_ready_pop(&e->ready, &id);
       ++i) {
    made = CEL_STEP_MOVED;
    issue(e, cel_window_node(&e->window, id));
  }
  /* All that could start is known then. */
  if (e->ready.heap.n == 0 && !e->failed) {
    uint32_t n;
    const uint64_t *picked = cel_conflicts_pick(e->conflicts, &n);
    for (uint32_t i = 0; i < n && !e->failed; ++i)
      issue_to_host(e, cel_window_node(&e->window, picked[i]));
  }
  cel_host_lanes_begin(e->config.host);
  return made;
}

void cel_executor_add(cel_executor *executor, const cel_instr *instr) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  cel_executor *e = executor;
  cel_node *node = cel_window_add(&e->window, instr);
  e->undone++;
  /* What comes back after a failure has no record any more, and counts as under
   * way. */
  if (!e->failed) cel_lanes_hush(&e->lanes, e->config.host, &e->window, node);
  consider(e, node);
}

void cel_executor_halt(cel_executor *executor) {
  cel_assert_thread(CEL_THREAD_EXECUTOR);
  halt(executor);
}

/* ---- life --------------------------------------------------------------- */

cel_executor *cel_executor_create(const cel_executor_config *config) {
  cel_executor *e = cel_alloc_zero(sizeof *e);
  e->config = *config;
  cel_lanes_init(&e->lanes, config->backend,
                 config->transport->messages.chain_bytes, config->lane_depth);
  e->conflicts = cel_conflicts_create();
  cel_window_init(&e->window);
  return e;
}

void cel_executor_destroy(cel_executor *executor) {
  cel_executor *e = executor;
  cel_assert(cel_executor_quiet(e));
  for (uint64_t id = e->window.base; id < e->window.next; ++id) {
    cel_node *node = cel_window_node(&e->window, id);
    if (node->record == NULL) continue;
    if (node->record->folding != NULL)
      cel_folding_end(&e->foldings, node->record, NULL);
    cel_records_give(&e->records, node->record);
  }
  cel_reserved_release(&e->reserved, e->config.backend);
  cel_foldings_release(&e->foldings);
  cel_records_release(&e->records);
  cel_window_release(&e->window);
  cel_ready_release(&e->ready);
  cel_lanes_release(&e->lanes);
  cel_conflicts_destroy(e->conflicts);
  cel_vec_release(&e->settled);
  cel_vec_release(&e->early);
  cel_vec_release(&e->scant);
  cel_free(e);
}

/* ---- questions ---------------------------------------------------------- */

bool cel_executor_idle(const cel_executor *executor) {
  return executor->undone == 0;
}

bool cel_executor_quiet(const cel_executor *executor) {
  return executor->jobs == 0;
}

void cel_executor_count(const cel_executor *executor,
                        cel_executor_counts *out) {
  const cel_executor *e = executor;
  *out = (cel_executor_counts){
      atomic_load_explicit(&e->messages, memory_order_relaxed),
      atomic_load_explicit(&e->bytes_sent, memory_order_relaxed),
      atomic_load_explicit(&e->copies, memory_order_relaxed),
      atomic_load_explicit(&e->bytes_copied, memory_order_relaxed),
      atomic_load_explicit(&e->allocations, memory_order_relaxed)};
}

void cel_executor_describe(const cel_executor *executor, char *text,
                           size_t size) {
  cel_waits_list(&executor->window, text, size);
}

bool cel_executor_tell(const cel_executor *executor, char *text, size_t size) {
  return cel_waits_tell(&executor->window, text, size);
}

void cel_executor_check(cel_executor *executor) {
  cel_executor *e = executor;
  cel_window_check(&e->window);
  cel_assert(e->device_jobs <= e->jobs && e->settled.n == 0);
  cel_assert(e->undone <= e->window.next - e->window.base);
}
