#include "exec/lanes.h"

#include <string.h>

#include "exec/conflict.h"
#include "tuning.h"

void cel_lanes_init(cel_lanes *lanes, cel_backend *backend,
                    uint64_t chain_bytes, uint32_t depth) {
  const cel_backend *b = backend;
  int32_t per_device =
      b->kernel_lanes + b->copy_lanes + b->collective_lanes + b->waiting_lanes;
  if (b->devices > CEL_DEVICES || per_device > CEL_LANES)
    cel_bug("%d devices of %d lanes", b->devices, per_device);
  *lanes = (cel_lanes){.backend = backend,
                       .chain_bytes = b->chains && b->puts ? chain_bytes : 0,
                       .depth = depth > 0 ? depth : CEL_TUNE_LANE_DEPTH,
                       .per_device = (uint32_t)per_device,
                       .all = (uint32_t)(b->devices * per_device)};
  for (int d = 0; b->chains && d < b->devices; ++d)
    for (int l = 0; l < per_device; ++l)
      lanes->at[d][l].known =
          cel_alloc_zero(lanes->all * sizeof *lanes->at[d][l].known);
}

void cel_lanes_release(cel_lanes *lanes) {
  for (int d = 0; d < CEL_DEVICES; ++d)
    for (int l = 0; l < CEL_LANES; ++l) {
      cel_ready_release(&lanes->at[d][l].waiting);
      cel_free(lanes->at[d][l].known);
    }
}

/* ---- which --------------------------------------------------------------- */

/* Lanes [begin, end) of a device. */
typedef struct span {
  int32_t begin, end;
} span;

/* What the end of a received message waits for may come late, and what is
 * behind it then, too; a send might, that others wait for. So where there are
 * such ends, they have half of the lanes for themselves. */
static span copy_lanes_for(const cel_lanes *lanes, const cel_instr *instr) {
  const cel_backend *b = lanes->backend;
  int32_t begin = b->kernel_lanes, end = begin + b->copy_lanes;
  int32_t middle = begin + b->copy_lanes / 2;
  if (lanes->chain_bytes == 0 || middle == begin) return (span){begin, end};
  return instr->kind == CEL_INSTR_RECEIVE ? (span){middle, end}
                                          : (span){begin, middle};
}

/* Whether its device's thread waits for it: it goes to a lane of its own, once
 * all that it depends on is complete. */
static bool waits(const cel_lanes *lanes, const cel_instr *instr) {
  return lanes->backend->waiting_lanes > 0 && instr->kind == CEL_INSTR_KERNEL &&
         instr->task->work->waits;
}

/* Those that the instruction may go to; none for what goes to no lane. */
static span lanes_for(const cel_lanes *lanes, const cel_instr *instr) {
  const cel_backend *b = lanes->backend;
  int32_t common = b->kernel_lanes - b->urgent_lanes;
  int32_t copies = b->kernel_lanes + b->copy_lanes;
  int32_t waiting = copies + b->collective_lanes;
  if (waits(lanes, instr)) return (span){waiting, waiting + b->waiting_lanes};
  switch (cel_instr_lane_of(instr->kind)) {
  case CEL_LANE_DEVICE:
    return instr->priority > 0 && b->urgent_lanes > 0
               ? (span){common, b->kernel_lanes}
               : (span){0, common};
  case CEL_LANE_COMM:
    if (instr->kind == CEL_INSTR_COLLECTIVE) return (span){copies, waiting};
    return copy_lanes_for(lanes, instr);
  case CEL_LANE_COPY: return copy_lanes_for(lanes, instr);
  default: return (span){0, 0};
  }
}

/* Whether the instruction may go to the lane that `at` is in. */
static bool fits(const cel_lanes *lanes, const cel_instr *instr,
                 const cel_node *at) {
  span may = lanes_for(lanes, instr);
  return at->lane >= may.begin && at->lane < may.end &&
         (instr->device < 0 || at->device == instr->device);
}

/* Null when the i-th dependency is complete. */
static const cel_node *incomplete(cel_window *window, const cel_instr *instr,
                                  uint32_t i) {
  const cel_node *dep = cel_window_node(window, instr->dep[i].id);
  return dep == NULL || dep->state == CEL_NODE_DONE ? NULL : dep;
}

bool cel_lanes_take(const cel_lanes *lanes, const cel_instr *instr) {
  switch (cel_instr_lane_of(instr->kind)) {
  case CEL_LANE_COPY: return true;
  case CEL_LANE_DEVICE: return lanes->backend->lua || !instr->task->work->lua;
  case CEL_LANE_COMM:
    if (instr->kind == CEL_INSTR_COLLECTIVE) return instr->device >= 0;
    return instr->message.direct && !instr->message.far &&
           instr->message.bytes <= lanes->chain_bytes;
  default: return false;
  }
}

bool cel_lanes_may_follow(const cel_lanes *lanes, cel_window *window,
                          cel_node *node) {
  const cel_instr *instr = node->instr;
  if (!cel_lanes_take(lanes, instr) || waits(lanes, instr)) return false;
  const cel_node *common = NULL;
  for (uint32_t i = 0; i < instr->deps; ++i) {
    const cel_node *dep = incomplete(window, instr, i);
    if (dep == NULL) continue;
    if (dep->lane == CEL_NO_LANE) return false;
    if (common == NULL) common = dep;
    if (lanes->backend->chains) continue;
    if (dep->device != common->device || dep->lane != common->lane)
      return false;
  }
  if (lanes->backend->chains) return true;
  if (common == NULL || !fits(lanes, instr, common)) return false;
  node->device = common->device;
  node->lane = common->lane;
  return true;
}

/* The work of a host task, or of an object's end; null for all else. What has
 * conflicts follows nothing: it would keep out others, which what it waits for
 * may wait for. */
static const cel_work *host_work(const cel_instr *instr) {
  const cel_task *task = instr->task;
  if (instr->kind == CEL_INSTR_RELEASE) return task->ended->release;
  bool follows = instr->kind == CEL_INSTR_HOST && task->collective_group == 0 &&
                 !cel_conflicts_concern(task);
  return follows ? task->work : NULL;
}

bool cel_lanes_may_follow_host(cel_host_lanes *host, cel_window *window,
                               cel_node *node) {
  const cel_instr *instr = node->instr;
  const cel_work *work = host_work(instr);
  const cel_node *newest = NULL;
  if (work == NULL) return false;
  for (uint32_t i = 0; i < instr->deps; ++i) {
    const cel_node *dep = incomplete(window, instr, i);
    if (dep == NULL) continue;
    if (dep->host == CEL_NO_LANE) return false;
    if (newest != NULL && dep->host != newest->host) return false;
    newest = dep;
  }
  if (newest == NULL || !cel_host_lanes_follow(host, work, newest->host,
                                               newest->instr->id, instr->id))
    return false;
  node->host = newest->host;
  return true;
}

/* Whether the node can do without being told at once of what it waits for. A
 * horizon can: it lets memory go, and the next completion that is told of
 * brings along what it waits for. Where main waits for it, being many of them
 * ahead, lanes tell of what `holds_horizon` at once: the next completion may
 * come after any time, or never, if that job waits for what main does then. But
 * what comes later may wait for all that is old through a horizon alone. An
 * epoch can, too: it waits for all that lanes may have behind that.
 *
 * No completion is missed that main waits for. A job is done with the lock of
 * lanes held, and is told of if it holds a horizon and main waits by then. Else
 * main comes to wait later, finds that something is done and wakes the
 * executor; or the job is found to hold one later, as a horizon is added, and
 * the executor looks for what is done after it has added something.
 */
static bool is_patient(cel_window *window, const cel_node *node) {
  while (node->instr->kind == CEL_INSTR_HORIZON) {
    if (node->successors == CEL_NO_EDGE) return true;
    cel_edge edge = window->edges.at[node->successors];
    if (edge.next != CEL_NO_EDGE) return false;
    node = cel_window_node(window, edge.to);
  }
  return node->instr->kind == CEL_INSTR_EPOCH;
}

/* Few are looked at: else somebody waits. *holds_horizon: not all are in the
 * lane. */
static bool is_followed(cel_window *window, const cel_node *node,
                        bool *holds_horizon) {
  int32_t i = node->successors;
  *holds_horizon = false;
  /* What it excludes waits for it, too, and is no successor. */
  if (node->instr->kind == CEL_INSTR_HOST &&
      cel_conflicts_concern(node->instr->task))
    return false;
  for (int n = 0; i != CEL_NO_EDGE; i = window->edges.at[i].next) {
    const cel_node *to = cel_window_node(window, window->edges.at[i].to);
    bool behind = to->state >= CEL_NODE_ISSUED && to->host == node->host &&
                  to->lane == node->lane && to->device == node->device;
    if (++n > CEL_TUNE_HUSH_FOLLOWERS || (!behind && !is_patient(window, to)))
      return false;
    *holds_horizon |= !behind;
  }
  return true;
}

/* Whether what the horizon waits for has been looked at when earlier ones
 * came: with two successors it is not patient any more. */
static bool is_settled(const cel_window *window, const cel_node *horizon) {
  const cel_edge *edge = window->edges.at;
  int32_t i = horizon->successors;
  for (int n = 0; n < 2 && i != CEL_NO_EDGE; ++n) i = edge[i].next;
  return i != CEL_NO_EDGE;
}

/* The dependencies of the node. Returns a horizon among them whose own may have
 * to be told of now, too: there is one at most, as all that is old is waited
 * for through one. */
static const cel_node *hush(cel_backend *backend, cel_host_lanes *host,
                            cel_window *window, const cel_node *node) {
  const cel_node *horizon = NULL;
  for (uint32_t i = 0; i < node->instr->deps; ++i) {
    const cel_node *dep = incomplete(window, node->instr, i);
    if (dep == NULL) continue;
    if (dep->instr->kind == CEL_INSTR_HORIZON && !is_settled(window, dep))
      horizon = dep;
    bool on_device = dep->lane != CEL_NO_LANE && backend->hush != NULL;
    if (dep->host == CEL_NO_LANE && !on_device) continue;
    if (dep->state != CEL_NODE_ISSUED) continue;
    cel_job *job = &dep->record->job;
    bool holds_horizon, quiet = is_followed(window, dep, &holds_horizon);
    if (on_device) {
      quiet = quiet && !holds_horizon;
      if (quiet != job->quiet)
        backend->hush(backend, dep->device, dep->lane, job, quiet);
    } else if (quiet != job->quiet || holds_horizon != job->holds_horizon) {
      cel_host_lanes_hush(host, job, quiet, holds_horizon);
    }
  }
  return horizon;
}

void cel_lanes_hush(const cel_lanes *lanes, cel_host_lanes *host,
                    cel_window *window, const cel_node *node) {
  while (node != NULL) node = hush(lanes->backend, host, window, node);
}

static uint32_t load_of(const cel_lane_use *lane) {
  return lane->under_way + lane->waiting.heap.n;
}

/* The lane of the newest dependency that is the last in it, or else of the
 * newest that is in one that suits the node; how much that lane has to do, 0 in
 * the first case. */
static uint32_t follow(const cel_lanes *lanes, cel_window *window,
                       cel_node *node) {
  const cel_instr *instr = node->instr;
  uint32_t load = UINT32_MAX;
  for (uint32_t i = instr->deps; i-- > 0;) {
    const cel_node *dep = incomplete(window, instr, i);
    if (dep == NULL || !fits(lanes, instr, dep)) continue;
    const cel_lane_use *lane = &lanes->at[dep->device][dep->lane];
    bool last = dep->nth == lane->submitted;
    if (!last && load != UINT32_MAX) continue;
    node->device = dep->device;
    node->lane = dep->lane;
    if (last) return 0;
    load = load_of(lane);
  }
  return load;
}

static void choose(const cel_lanes *lanes, cel_window *window, cel_node *node) {
  const cel_backend *b = lanes->backend;
  span may = lanes_for(lanes, node->instr);
  int d0 = node->instr->device, d1 = d0 + 1;
  if (d0 < 0) d0 = 0, d1 = b->devices;
  uint32_t best = follow(lanes, window, node);
  for (int d = d0; d < d1 && best > 0; ++d) {
    for (int32_t l = may.begin; l < may.end; ++l) {
      if (load_of(&lanes->at[d][l]) >= best) continue;
      best = load_of(&lanes->at[d][l]);
      node->device = (int16_t)d;
      node->lane = (int16_t)l;
    }
  }
}

/* ---- in and out ---------------------------------------------------------- */

bool cel_lanes_enter(cel_lanes *lanes, cel_window *window, cel_node *node) {
  if (node->lane == CEL_NO_LANE) choose(lanes, window, node);
  cel_lane_use *lane = &lanes->at[node->device][node->lane];
  if (lane->under_way < lanes->depth) return true;
  cel_ready_push(&lane->waiting, node->instr->priority, node->instr->id);
  return false;
}

static uint64_t *known_of(const cel_lanes *lanes, uint64_t *known,
                          const cel_node *node) {
  return &known[(uint32_t)node->device * lanes->per_device +
                (uint32_t)node->lane];
}

/* Each lane is named once. */
static void begin_after(cel_record *record, const cel_node *dep) {
  uint32_t k = 0;
  while (k < record->afters.n && (record->afters.at[k].device != dep->device ||
                                  record->afters.at[k].lane != dep->lane))
    ++k;
  if (k == record->afters.n)
    cel_vec_push(&record->afters, (cel_after){dep->device, dep->lane, 0});
  record->afters.at[k].nth = dep->nth;
}

/* Takes over what the dependency knows, and that it has been carried out. */
static void learn(const cel_lanes *lanes, uint64_t *known,
                  const cel_node *dep) {
  /* What is back without all that it waits for keeps no record. */
  if (dep->record != NULL) {
    const uint64_t *theirs = dep->record->known;
    for (uint32_t i = 0; i < lanes->all; ++i)
      if (known[i] < theirs[i]) known[i] = theirs[i];
  }
  *known_of(lanes, known, dep) = dep->nth;
}

/* The newest first, as these know most. */
static void note_afters(cel_lanes *lanes, cel_window *window,
                        const cel_node *node) {
  cel_record *record = node->record;
  const cel_instr *instr = node->instr;
  uint64_t *in_lane = lanes->at[node->device][node->lane].known;
  size_t size = lanes->all * sizeof *in_lane;
  if (record->known == NULL) record->known = cel_alloc(size);
  uint64_t *known = record->known;
  memcpy(known, in_lane, size);
  cel_vec_clear(&record->afters);
  for (uint32_t i = instr->deps; i-- > 0;) {
    const cel_node *dep = incomplete(window, instr, i);
    if (dep == NULL || *known_of(lanes, known, dep) >= dep->nth) continue;
    learn(lanes, known, dep);
    begin_after(record, dep);
  }
  *known_of(lanes, known, node) = node->nth;
  memcpy(in_lane, known, size);
  record->job.afters = record->afters.n;
  record->job.after = record->afters.at;
}

void cel_lanes_submit(cel_lanes *lanes, cel_window *window, cel_node *node) {
  cel_lane_use *lane = &lanes->at[node->device][node->lane];
  node->nth = ++lane->submitted;
  lane->under_way++;
  if (lanes->backend->chains) note_afters(lanes, window, node);
  lanes->backend->submit(lanes->backend, node->device, node->lane,
                         &node->record->job);
}

bool cel_lanes_complete(cel_lanes *lanes, const cel_node *node, uint64_t *id) {
  cel_lane_use *lane = &lanes->at[node->device][node->lane];
  lane->under_way--;
  return cel_ready_pop(&lane->waiting, id);
}
