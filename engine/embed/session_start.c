#include "embed/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "comm/clocks.h"
#include "comm/link/link.h"
#include "comm/nccl/nccl.h"
#include "comm/report.h"
#include "comm/road/road.h"
#include "device/compile/background.h"
#include "device/compile/compile.h"
#include "device/compile/leftover.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_copy.h"
#include "device/cuda/cuda_memory.h"
#include "device/host_memory.h"
#include "device/kernel.h"
#include "embed/advice.h"
#include "embed/code.h"
#include "embed/embedded.h"
#include "embed/fault.h"
#include "embed/interrupt.h"
#include "embed/lua_state.h"
#include "embed/progress.h"
#include "exec/trace/timeline_files.h"
#include "tuning.h"

cel_status cel_session_open(cel_session *session) {
  cel_park_init(&session->park);
  if (!cel_transport_launched())
    return cel_transport_single(&session->transport);
  return cel_transport_mpi(&session->transport);
}

cel_status cel_session_imagine(cel_session *s, int64_t rank, int64_t ranks) {
  cel_transport *dry;
  if (cel_transport_launched())
    return cel_fail(CEL_E_ARGUMENT,
                    "a dry run is one process, whatever the number of ranks: "
                    "start it without mpirun or srun");
  CEL_TRY(cel_transport_dry(rank, ranks, &dry));
  s->transport->destroy(s->transport);
  s->transport = dry;
  s->options.dry = true;
  return CEL_E_OK;
}

/* Whether this process says what all ranks would say. */
static bool speaks(const cel_session *s) {
  return s->transport->rank == 0 || s->transport->dry;
}

/* As far as that needs no other rank; a launcher that hears nothing complains
 * of the status with which a rank ends, at length. */
static void end_all(void *context) {
  const cel_control_table *control =
      &((cel_session *)context)->transport->control;
  control->abort(control->self, CEL_EXIT_LOST);
}

static void hush(void *context) {
  (void)context;
  cel_interrupt_hush();
}

static void end_lost(void *context, const char *text) {
  cel_interrupt_end_lost(text, text != NULL ? end_all : NULL, context);
}

/* Where beats do not get through, that is mostly so between all hosts: rank 0
 * says it of its neighbours. */
static void warn_of(void *context, const char *text) {
  const cel_session *s = context;
  if (s->options.quiet || (!speaks(s) && !s->options.verbose)) return;
  cel_progress_hide(true);
  fprintf(stderr, "celer: warning: %s\n", text);
}

cel_status cel_session_watch(cel_session *s) {
  const cel_control_table *control = &s->transport->control;
  cel_watch watch = {.lost_ns = (int64_t)s->options.lost * 1000000000,
                     .hush = hush,
                     .lost = end_lost,
                     .warn = warn_of,
                     .context = s};
  if (control->watch == NULL || s->options.lost == 0) return CEL_E_OK;
  return control->watch(control->self, &watch);
}

static void *enter_lane(void *context) {
  const cel_session *session = context;
  return cel__state_create_lane(session->transport);
}

static void leave_lane(void *context, void *state) {
  (void)context;
  if (state != NULL) cel__state_destroy(state);
}

/* The same in a thread that is a device's. */
static void *enter_device(void *context) {
  void *state = enter_lane(context);
  cel_host_lane_adopt(state);
  return state;
}

static void warn_cache(const cel_session *s) {
  char folder[512], text[512];
  cel_cache_describe(folder, sizeof folder, text, sizeof text);
  if (text[0] != '\0' && speaks(s) && !s->options.quiet)
    fprintf(stderr, "celer: warning: %s\n", text);
}

/* Of those that have the same, each rank keeps to its part. */
static cel_status find_cores(cel_session *s) {
  int32_t index = 0, of = 1;
  if (!s->options.dry)
    CEL_TRY(
        cel_choice_index(s->transport, cel_topology_identity(), &index, &of));
  CEL_TRY(cel_topology_find(index, of, &s->topology));
  if (s->options.unbound) {
    s->topology.keeps = false;
    s->topology.sharers = of;
  }
  cel_topology_keep(&s->topology);
  cel_background_limit(s->topology.cores);
  return CEL_E_OK;
}

/* What a rank among others was refused it is refused again, without a second
 * try: that would meet the others in what they have come to since. */
static cel_status keep_refusal(cel_session *s, cel_status status) {
  if (status != CEL_E_OK && s->transport->ranks > 1)
    s->refused = *cel_error_last();
  return status;
}

static cel_status choose(cel_session *s) {
  CEL_TRY(find_cores(s));
  if (s->options.dry)
    cel_choose_dry(&s->options.wish, &s->choice);
  else
    CEL_TRY(cel_choose(&s->options.wish, s->transport, &s->choice));
  s->chosen = true;
  return CEL_E_OK;
}

cel_status cel_session_choose(cel_session *s) {
  if (s->chosen) return CEL_E_OK;
  if (s->refused.code != CEL_E_OK) return cel_fail_with(&s->refused);
  return keep_refusal(s, choose(s));
}

/* A GPU without the kernel for short rows copies as well, only slower. */
static void load_packer(cel_session *s) {
  const cel_embedded *text = cel_embedded_find("kernels/strided.cuh");
  if (cel_cuda_pack_load(s->cuda, text->data) != CEL_E_OK && speaks(s) &&
      s->options.verbose)
    fprintf(stderr, "celer: warning: narrow boxes are copied row by row: %s\n",
            cel_error_last()->text);
}

static cel_status open_gpus(cel_session *s) {
  CEL_TRY(cel_session_choose(s));
  if (!s->choice.cuda || s->cuda != NULL || s->options.dry) return CEL_E_OK;
  CEL_TRY(cel_cuda_open(s->choice.ordinal, s->choice.devices, &s->cuda));
  load_packer(s);
  return CEL_E_OK;
}

/* The largest of all ranks' *n. */
static cel_status all_reduce_max(cel_session *s, int64_t *n) {
  const cel_control_table *control = &s->transport->control;
  return control->all_reduce_max != NULL
             ? control->all_reduce_max(control->self, n)
             : CEL_E_OK;
}

/* Whether any rank has *any. */
static cel_status find_any(cel_session *s, bool *any) {
  int64_t most = *any;
  CEL_TRY(all_reduce_max(s, &most));
  *any = most > 0;
  return CEL_E_OK;
}

/* Between GPUs messages go a shorter way than collectives in host memory. What
 * rank 0 does all do. */
static cel_status share_direct(cel_session *s) {
  s->direct = s->transport->rank == 0 && s->transport->messages.nears > 0;
  return find_any(s, &s->direct);
}

/* Where ranks have GPUs, messages within a host go from GPU to GPU. All ranks
 * come here, also those that have none, and all do the same. */
static cel_status link_gpus(cel_session *s) {
  cel_transport *t = s->transport;
  if (t->ranks == 1 || t->dry || !s->seeks_gpus) return CEL_E_OK;
  if (s->options.staged || s->options.apart) {
    snprintf(s->no_link, sizeof s->no_link, "--transfers %s",
             s->options.staged ? "staged" : "between");
    return CEL_E_OK;
  }
  if (t->local_ranks > 1)
    CEL_TRY(cel_transport_cuda_link(s->transport, s->cuda, &s->transport,
                                    s->no_link, s->no_loans));
  else
    snprintf(s->no_link, sizeof s->no_link, "no other rank is on this host");
  return share_direct(s);
}

/* What messages go by that do not go from GPU to GPU within a host, such as all
 * between hosts: pinned memory in chunks, or what was asked for. All ranks come
 * here and do the same. */
static cel_status take_road(cel_session *s) {
  static const cel_road_way ways[] = {[CEL_BETWEEN_ANY] = CEL_ROAD_CHOSEN,
                                      [CEL_BETWEEN_STAGED] = CEL_ROAD_STAGED,
                                      [CEL_BETWEEN_MPI] = CEL_ROAD_MPI,
                                      [CEL_BETWEEN_NCCL] = CEL_ROAD_NCCL};
  static const char *const names[] = {[CEL_BETWEEN_STAGED] = "staged",
                                      [CEL_BETWEEN_MPI] = "mpi",
                                      [CEL_BETWEEN_NCCL] = "nccl"};
  const cel_transport *t = s->transport;
  char mpi[CEL_ROAD_WHY] = "";
  if (t->ranks == 1 || t->dry || !s->seeks_gpus) return CEL_E_OK;
  s->some_far = t->messages.nears < t->ranks - 1;
  CEL_TRY(find_any(s, &s->some_far));
  if (!s->some_far) return CEL_E_OK;
  if (s->options.staged) {
    snprintf(s->no_road, sizeof s->no_road, "--transfers staged");
    return CEL_E_OK;
  }
  cel_session_between between = s->options.between;
  bool forced = between != CEL_BETWEEN_ANY;
  uint64_t from = between == CEL_BETWEEN_NCCL ? CEL_TUNE_ROAD_NCCL_FAR_BYTES
                  : forced                    ? 1
                                              : CEL_TUNE_ROAD_FAR_BYTES;
  cel_road_config config = {.cuda = s->cuda,
                            .way = ways[between],
                            .takes_gpus = between == CEL_BETWEEN_MPI &&
                                          cel_mpi_takes_gpus(mpi, sizeof mpi),
                            .far_bytes = from};
  CEL_TRY(cel_transport_road(s->transport, &config, &s->transport, s->no_road));
  if (s->no_road[0] == '\0') s->road = s->transport;
  if (!forced || s->no_road[0] == '\0') return CEL_E_OK;
  return cel_fail(
      CEL_E_ARGUMENT,
      "--between %s: messages between GPUs cannot go that way: %s%s%s",
      names[between], s->no_road, mpi[0] != '\0' ? ": " : "", mpi);
}

/* What all ranks exchange goes by NCCL then, between the memories of all GPUs,
 * which starts when it is first needed; but for two of one host, which takes
 * longer than it saves. All ranks come here and do the same. */
static cel_status join_gpus(cel_session *s) {
  cel_transport *t = s->transport;
  const char *why = s->options.staged           ? "--transfers staged"
                    : s->options.no_collectives ? "--no-collectives"
                    : t->ranks == 2 && t->local_ranks == 2 && s->direct
                        ? "it takes two ranks longer to start than it saves"
                        : NULL;
  if (t->ranks == 1 || t->dry || !s->seeks_gpus) return CEL_E_OK;
  if (why != NULL) {
    snprintf(s->no_nccl, sizeof s->no_nccl, "%s", why);
    return CEL_E_OK;
  }
  cel_nccl_config config = {.cuda = s->cuda,
                            .memory = s->options.device_memory};
  return cel_transport_nccl(t, &config, &s->transport, s->no_nccl,
                            sizeof s->no_nccl);
}

/* Whoever has most devices has most partial results of a reduction; all ranks
 * have room for so many then. All come here. */
static cel_status count_reducing(cel_session *s) {
  s->reducing = s->choice.devices;
  return all_reduce_max(s, &s->reducing);
}

/* Which kind of device this rank computes on: what computes the same bits. */
static int64_t kind_of_device(const cel_session *s) {
  cel_cuda_device gpu;
  uint64_t kind = cel_compile_processor();
  for (int32_t d = 0; s->choice.cuda && d < s->choice.devices; ++d)
    if (cel_cuda_query(s->choice.ordinal[d], &gpu) == CEL_E_OK)
      kind = cel_hash_word(d == 0 ? 1 : kind, 10 * gpu.major + gpu.minor);
  return (int64_t)(kind >> 1);
}

/* All come here. */
static cel_status compare_devices(cel_session *s) {
  int64_t kind = kind_of_device(s), most = kind, least = -kind;
  CEL_TRY(all_reduce_max(s, &most));
  CEL_TRY(all_reduce_max(s, &least));
  s->alike = most == -least;
  return CEL_E_OK;
}

cel_status cel_session_ask_for_work(cel_session *s, bool works, bool *any) {
  *any = works || s->some_work;
  if (!s->some_work) CEL_TRY(find_any(s, any));
  s->some_work = *any;
  return CEL_E_OK;
}

/* Ranks may have been started with options of their own: what concerns messages
 * all do as soon as one of them is to. */
static cel_status share_options(cel_session *s) {
  s->seeks_gpus = s->options.wish.backend != CEL_CHOICE_CPU;
  CEL_TRY(find_any(s, &s->seeks_gpus));
  CEL_TRY(find_any(s, &s->options.staged));
  CEL_TRY(find_any(s, &s->options.apart));
  int64_t between = s->options.between;
  CEL_TRY(all_reduce_max(s, &between));
  s->options.between = (cel_session_between)between;
  return find_any(s, &s->options.no_collectives);
}

static cel_status connect(cel_session *s) {
  bool any;
  CEL_TRY(cel_session_ask_for_work(s, true, &any));
  CEL_TRY(share_options(s));
  CEL_TRY(open_gpus(s));
  CEL_TRY(link_gpus(s));
  CEL_TRY(take_road(s));
  CEL_TRY(join_gpus(s));
  CEL_TRY(count_reducing(s));
  CEL_TRY(compare_devices(s));
  s->connected = true;
  return CEL_E_OK;
}

cel_status cel_session_connect(cel_session *s) {
  if (s->connected) return CEL_E_OK;
  if (s->refused.code != CEL_E_OK) return cel_fail_with(&s->refused);
  return keep_refusal(s, connect(s));
}

static void warn_staging(const cel_session *s) {
  const cel_transport *t = s->transport;
  if (!s->choice.cuda || s->no_link[0] == '\0' || t->local_rank != 0 ||
      t->local_ranks == 1 || !s->options.verbose)
    return;
  fprintf(stderr,
          "celer: warning: messages between the GPUs of this host's ranks go "
          "through its memory: %s\n",
          s->no_link);
}

static void warn_unlent(const cel_session *s) {
  if (s->no_loans[0] == '\0' || s->transport->local_rank != 0 ||
      !s->options.verbose)
    return;
  fprintf(stderr,
          "celer: warning: long messages between the GPUs of this host's ranks "
          "are copied once more: %s\n",
          s->no_loans);
}

static void warn_joining(const cel_session *s) {
  const cel_transport *t = s->transport;
  if (!s->choice.cuda || s->no_nccl[0] == '\0' || t->rank != 0 ||
      !s->options.verbose)
    return;
  fprintf(stderr,
          "celer: warning: what all ranks exchange goes %s, not by NCCL: %s\n",
          s->direct ? "by messages" : "through host memory", s->no_nccl);
}

static void warn_code(const cel_session *s) {
  if (cel__code_is_known() || !speaks(s) || !s->options.verbose) return;
  fprintf(stderr,
          "celer: warning: command groups are submitted the long way: where "
          "this LuaJIT keeps the code of a function is not known\n");
}

/* Memory is committed by what it is committed by where GPUs are, and else by
 * the page, so that the account is of what is used. */
static cel_status start_dry(cel_backend_config *config, bool cuda,
                            cel_backend **out) {
  enum { PAGE = 4096 };
  config->grain = cuda ? CEL_CUDA_GRAIN : PAGE;
  config->whole = cuda ? CEL_CUDA_SMALL : CEL_MEMORY_SMALL;
  config->own_memory = cuda;
  return cel_backend_dry(config, out);
}

/* On the processor that costs next to nothing. */
static bool measures(const cel_session *s) {
  return s->options.profile || s->timeline != NULL || s->options.measure ||
         !s->choice.cuda;
}

void cel_session_measure(cel_session *s) {
  if (s->backend->time != NULL) s->backend->time(s->backend);
}

static cel_sampling sampling_of(const cel_session *s) {
  const cel_session_options *o = &s->options;
  if (o->no_sample) return CEL_SAMPLING_OFF;
  if (o->dry) return o->builds ? CEL_SAMPLING_AHEAD : CEL_SAMPLING_OFF;
  return CEL_SAMPLING_ON;
}

static cel_status start_backend(cel_session *s) {
  const cel_embedded *header = cel_embedded_find("kernels/celer.cuh");
  const cel_embedded *fold = cel_embedded_find("kernels/fold.cuh");
  cel_module_set_header(header->data, header->size);
  cel_module_set_fold_header(fold->data, fold->size);
  cel_module_set_fold_warning(warn_of, s);
  warn_cache(s);
  warn_code(s);
  cel_module_set_sampling(sampling_of(s));
  warn_staging(s);
  warn_unlent(s);
  warn_joining(s);
  cel_advice_bound(s);
  cel_backend_config config = {
      .devices = s->choice.devices,
      .cores = s->topology.cores,
      .park = &s->park,
      .timed = measures(s),
      .capacity = s->options.device_memory,
      .sharing = s->choice.sharing,
      .local_ranks = s->transport->local_ranks,
      .topology = &s->topology,
      .enter = enter_device,
      .leave = leave_lane,
      .context = s,
  };
  if (s->options.dry) return start_dry(&config, s->choice.cuda, &s->backend);
  if (!s->choice.cuda) return cel_backend_cpu(&config, &s->backend);
  return cel_backend_cuda(&config, s->cuda, &s->backend);
}

/* Of the smallest device here; 0: any number. */
static uint64_t least_room(const cel_backend *b) {
  uint64_t least = 0;
  for (int32_t d = 0; b != NULL && d < b->devices; ++d) {
    int32_t memory = b->device_memory[d];
    uint64_t has = memory > 0 ? b->capacity[memory] : 0;
    if (has > 0 && (least == 0 || has < least)) least = has;
  }
  return least;
}

/* The least of what ranks have, where that is a limit; 0: none, or a rank that
 * `has_none`. */
static cel_status share_least(cel_session *s, uint64_t own, bool has_none,
                              uint64_t *out) {
  int64_t least = own > 0 && own < INT64_MAX ? -(int64_t)own : -INT64_MAX;
  if (has_none) least = 0;
  CEL_TRY(all_reduce_max(s, &least));
  *out = least == -INT64_MAX ? 0 : (uint64_t)-least;
  return CEL_E_OK;
}

/* What the smallest device of all ranks has room for; 0: any number of bytes,
 * or some rank has several devices, or none that started. All come here, and
 * once: who starts its devices a second time meets nobody. */
static cel_status share_room(cel_session *s) {
  const cel_backend *b = s->backend;
  uint64_t own = least_room(b);
  bool one = b != NULL && b->devices == 1;
  CEL_TRY(share_least(s, one && b->grain > 0 ? own : 0, !one, &s->room));
  CEL_TRY(share_least(s, own, false, &s->device_room));
  s->has_room = b != NULL || s->transport->ranks > 1;
  return CEL_E_OK;
}

static void warn(void *context, const cel_task *task, const char *text) {
  const cel_session *s = context;
  cel_progress_hide(true);
  /* As a rule all ranks have the same to say. */
  if ((!speaks(s) && !s->options.verbose) || s->options.quiet) return;
  if (task != NULL && task->location.file != NULL)
    fprintf(stderr, "celer: warning: %s:%d: %s\n", task->location.file,
            task->location.line, text);
  else
    fprintf(stderr, "celer: warning: %s\n", text);
}

/* Every rank says it: one may wait for another, which is stopped. */
static void tell_stall(void *context, const char *text) {
  const cel_session *s = context;
  if (s->options.quiet || cel_report_settled()) return;
  cel_progress_hide(true);
  char who[32] = "";
  if (s->transport->ranks > 1)
    snprintf(who, sizeof who, "rank %lld: ", (long long)s->transport->rank);
  const cel_control_table *control = &s->transport->control;
  char silent[CEL_ERROR_TEXT] = "";
  if (control->tell_silent != NULL)
    control->tell_silent(control->self, silent, sizeof silent);
  fprintf(stderr,
          "celer: warning: %snothing has moved for %d s (--watchdog); it waits "
          "for\n%s%s",
          who, s->options.watchdog, text, silent);
}

/* At least two: one may be waiting for a disk. */
static int32_t lanes_for(int32_t cores) {
  return cores < 2 ? 2 : cores < 4 ? cores : 4;
}

/* With rank 0's clock. All ranks come here. */
static cel_status start_timeline(cel_session *s) {
  cel_clock clock;
  cel_clock_offset offset;
  cel_clock_here(&clock);
  CEL_TRY(cel_clocks_compare(s->transport, &clock, &offset));
  return cel_timeline_start(s->timeline, offset.ahead,
                            s->backend->kernel_lanes);
}

cel_status cel_session_start(cel_session *s) {
  if (s->engine != NULL) return CEL_E_OK;
  CEL_TRY(cel_session_connect(s));
  cel_status started = s->backend == NULL ? start_backend(s) : CEL_E_OK;
  if (!s->has_room) CEL_TRY(share_room(s));
  CEL_TRY(started);
  if (s->host == NULL) {
    cel_host_config host = {
        .lanes = lanes_for(s->topology.cores),
        .park = &s->park,
        .transport = s->transport,
        .timed = s->options.profile || s->timeline != NULL,
        .dry = s->options.dry,
        .forgiving = s->options.forgiving,
        .enter = enter_lane,
        .leave = leave_lane,
        .context = s,
    };
    s->host = cel_host_lanes_create(&host);
  }
  if (s->options.profile && s->profile == NULL)
    s->profile = cel_profile_create();
  if (!s->options.dry && s->pace == NULL) s->pace = cel_pace_create();
  if (s->rules == NULL) s->rules = cel_rules_create();
  if (s->timeline != NULL && s->era == 0) CEL_TRY(start_timeline(s));
  if (s->options.check && s->audit == NULL) s->audit = cel_audit_create();
  cel_engine_config config = {
      .transport = s->transport,
      .backend = s->backend,
      .host = s->host,
      .rules = s->rules,
      .park = &s->park,
      .profile = s->profile,
      .timeline = s->timeline,
      .pace = s->pace,
      .audit = s->audit,
      .arguments = s->options.arguments,
      .threads = true,
      .shares_cores = s->topology.sharers > 1,
      .forgiving = s->options.forgiving,
      .lookahead = s->options.lookahead,
      .horizon_step = s->options.horizon_step,
      .interior_bytes = s->choice.cuda ? CEL_TUNE_INTERIOR_BYTES_CUDA
                                       : CEL_TUNE_INTERIOR_BYTES,
      .collectives = !s->options.no_collectives,
      .by_messages = s->direct && s->transport->collectives.limits.devices == 0,
      .messages_else = s->direct,
      .reducing = s->reducing,
      .alike = s->alike,
      .gpus = s->choice.cuda,
      .room = s->room,
      .warn = warn,
      .warn_context = s,
      .advise = s->options.advice && !s->options.dry,
      .watchdog_ns = (int64_t)s->options.watchdog * 1000000000,
      .stalled = tell_stall,
      .stalled_context = s,
      .interrupted = cel_interrupted,
      .pass = s->hub != NULL ? cel_hub_pass : NULL,
      .pass_context = s->hub,
  };
  if (s->drawing != NULL) cel_drawing_attach(s->drawing, &config);
  CEL_TRY(cel_engine_create(&config, &s->engine));
  if (s->options.progress && speaks(s))
    return cel_progress_start(s->engine, s->transport->ranks,
                              isatty(STDERR_FILENO) != 0);
  return CEL_E_OK;
}

/* ---- the timeline -------------------------------------------------------- */

cel_status cel_session_trace(cel_session *s, const char *path) {
  const cel_transport *t = s->transport;
  cel_timeline_config config = {
      .path = path, .rank = t->rank, .number = t->dry ? 0 : t->rank};
  CEL_TRY(cel_timeline_open(&config, &s->timeline));
  s->timeline_path = cel_strdup(path);
  s->timeline_parts = t->dry ? 1 : t->ranks;
  return CEL_E_OK;
}

static void warn_timeline(void) {
  fprintf(stderr, "celer: warning: %s\n", cel_error_last()->text);
}

bool cel_session_end_trace(cel_session *s) {
  if (s->timeline == NULL || cel_timeline_is_closed(s->timeline)) return true;
  if (cel_timeline_close(s->timeline) != CEL_E_OK) warn_timeline();
  return false;
}

void cel_session_merge_trace(cel_session *s, int64_t patience_us) {
  int64_t missing = 0;
  if (s->timeline_path == NULL || s->timeline_parts == 1) return;
  if (cel_timeline_merge(s->timeline_path, s->timeline_parts, patience_us,
                         &missing) != CEL_E_OK)
    warn_timeline();
  else if (missing > 0)
    fprintf(stderr,
            "celer: warning: %s lacks the timelines of %lld ranks; they lie on "
            "their hosts: %s.1, %s.2 and so on\n",
            s->timeline_path, (long long)missing, s->timeline_path,
            s->timeline_path);
}

/* ---- the end ------------------------------------------------------------- */

/* By aborting the job: nobody waits for anybody. */
static void end_with(cel_session *s, int status) {
  if (s->engine != NULL) cel_engine_abandon(s->engine);
  cel_session_end_trace(s);
  cel_leftover_end();
  if (s->transport->rank == 0)
    cel_session_merge_trace(s, CEL_TRACE_PATIENCE_US);
  cel_report_exit(s->transport, status);
}

/* Messages under way end, or are taken back; the memory that they are in has to
 * be there until then. */
static cel_status renew(const cel_session *s) {
  const cel_control_table *control = &s->transport->control;
  if (s->transport->ranks == 1 || control->renew == NULL) return CEL_E_OK;
  return control->renew(control->self);
}

static void stop_engine(cel_session *s) {
  if (s->engine != NULL) cel_engine_destroy(s->engine);
  s->engine = NULL;
}

static void stop(cel_session *s) {
  stop_engine(s);
  if (s->host != NULL) cel_host_lanes_destroy(s->host);
  if (s->backend != NULL) s->backend->destroy(s->backend);
  s->host = NULL;
  s->backend = NULL;
}

enum { GIVE_UP_S = 10 };

/* What runs ends by itself, but for a collective task in which this rank waits
 * for one whose line went another way: nobody takes a call of MPI back. */
static void await_tasks(cel_session *s) {
  if (s->engine == NULL || cel_engine_stop_within(s->engine, GIVE_UP_S)) return;
  fprintf(stderr,
          "celer: a task has not ended in %d s: it may wait for ranks whose "
          "line went another way. The session ends\n",
          GIVE_UP_S);
  cel_fault_let_go();
  fflush(NULL);
  end_with(s, EXIT_FAILURE);
}

cel_status cel_session_give_up(cel_session *session) {
  cel_progress_stop(); /* it looks at the engine */
  await_tasks(session);
  CEL_TRY(renew(session));
  stop(session);
  ++session->era;
  return CEL_E_OK;
}

cel_status cel_session_assemble(cel_session *s) {
  CEL_TRY(cel_hub_open(s->transport, cel_interrupt_cut, &s->hub));
  return cel_session_start(s);
}

void cel_session_close(cel_session *s, int status) {
  cel_fault_let_go();
  cel_progress_stop();
  cel_background_stop();
  fflush(NULL);
  if (status != 0 && s->transport->ranks > 1 && !s->transport->dry)
    end_with(s, status);
  stop(s);
  cel_leftover_end();
  if (s->hub != NULL) cel_hub_close(s->hub);
  s->hub = NULL;
  if (s->rules != NULL) cel_rules_destroy(s->rules);
  cel_profile_destroy(s->profile);
  cel_pace_destroy(s->pace);
  cel_session_end_trace(s);
  bool first = s->transport->rank == 0;
  s->transport->destroy(s->transport); /* all ranks have come here then */
  if (first) cel_session_merge_trace(s, 0);
  cel_timeline_destroy(s->timeline);
  cel_drawing_destroy(s->drawing);
  cel_free(s->timeline_path);
  cel_free(s->options.arguments);
  cel_audit_destroy(s->audit);
  cel_free(s->found);
  cel_cuda_close(s->cuda);
  s->cuda = NULL;
  s->rules = NULL;
  s->profile = NULL;
  s->pace = NULL;
  s->timeline = NULL;
  s->drawing = NULL;
  s->timeline_path = NULL;
  s->options.arguments = NULL;
  s->audit = NULL;
  s->found = NULL;
  s->transport = NULL;
}
