#define _GNU_SOURCE
#include "device/cpu/crew.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/confined.h"
#include "device/bands.h"
#include "device/clock.h"
#include "device/cpu/folded.h"
#include "device/cpu/partial.h"
#include "device/thread.h"
#include "tuning.h"

/* How many blocks for so many threads. Threads wait for each other's last one
 * when a job ends, so that blocks should be short; but not so short that to
 * take one costs as much. */
static int64_t blocks_wanted(const cel_box *box, int64_t threads) {
  int64_t fine = cel_box_volume(box) / CEL_TUNE_CREW_FINE_ITEMS;
  int64_t least = threads * CEL_TUNE_CREW_BLOCKS,
          most = threads * CEL_TUNE_CREW_FINE_BLOCKS;
  return fine < least ? least : fine > most ? most : fine;
}

/* How many groups a box has in dimension d. */
static int64_t groups_in(const cel_box *box, const int32_t group[3], int d) {
  int64_t n = box->max[d] - box->min[d];
  cel_assert(group[d] <= 1 || n % group[d] == 0);
  return group[d] > 1 ? n / group[d] : n;
}

int64_t cel__crew_cut(const cel_box *box, const int32_t group[3], int64_t want,
                      int64_t least, int64_t cuts[3]) {
  int64_t volume = cel_box_volume(box), blocks = 1;
  if (want > volume / least) want = volume / least;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t n = groups_in(box, group, d), need = (want + blocks - 1) / blocks;
    cuts[d] = need < 1 ? 1 : need < n ? need : n;
    blocks *= cuts[d];
  }
  return blocks;
}

/* Where block `i` of `cuts` begins; rounded down in the innermost dimension. */
static int64_t cut_at(const cel_box *box, const int32_t group[3], int d,
                      int64_t cuts, int64_t i) {
  int64_t n = groups_in(box, group, d);
  int64_t at = n / cuts * i + n % cuts * i / cuts;
  bool innermost = true;
  for (int k = d + 1; k < CEL_DIMS; ++k)
    if (box->max[k] - box->min[k] > 1) innermost = false;
  if (group[d] > 1) return box->min[d] + at * group[d];
  if (innermost && i < cuts && n / cuts >= CEL_TUNE_CREW_ALIGN_ITEMS)
    at -= at % CEL_TUNE_CREW_ALIGN_ITEMS;
  return box->min[d] + at;
}

cel_box cel__crew_block(const cel_box *box, const int32_t group[3],
                        const int64_t cuts[3], int64_t i) {
  cel_box r;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    r.min[d] = cut_at(box, group, d, cuts[d], i % cuts[d]);
    r.max[d] = cut_at(box, group, d, cuts[d], i % cuts[d] + 1);
    i /= cuts[d];
  }
  return r;
}

/* Takes up to `most` threads off the idle list, to be woken once the lock is
 * released, while what is to be done is worth it, which grows less. The one
 * that idles for the shortest time comes first. Lock held. */
static int take_idle(cel_crew *crew, int most, int64_t *worth_ns,
                     cel_worker *out[CEL_TUNE_CREW_WAKES]) {
  int n = 0;
  for (; n < most && crew->idle != NULL; ++n) {
    *worth_ns -= cel_park_asleep(&crew->idle->park) ? CEL_TUNE_CREW_ASLEEP_NS
                                                    : CEL_TUNE_CREW_AWAKE_NS;
    if (*worth_ns < 0) break;
    out[n] = crew->idle;
    crew->idle = out[n]->next_idle;
    out[n]->idle = false;
  }
  return n;
}

static void wake_all(cel_worker *const *workers, int n) {
  for (int i = 0; i < n; ++i) cel_park_wake(&workers[i]->park);
}

/* Lock held. */
static void add_brief(cel_crew *crew, int64_t ns) {
  int64_t now = atomic_load_explicit(&crew->brief_ns, memory_order_relaxed);
  atomic_store_explicit(&crew->brief_ns, now + ns, memory_order_relaxed);
}

/* Lock held. */
static void make_runnable(cel_crew *crew, cel_lane *lane) {
  lane->next = NULL;
  if (lane->head->brief) add_brief(crew, lane->head->expected_ns);
  if (crew->runnable == NULL)
    crew->runnable = lane;
  else
    crew->last_runnable->next = lane;
  crew->last_runnable = lane;
}

/* Takes off the list what comes behind `before`, or the first when that is
 * null. Lock held. */
static cel_lane *take_runnable(cel_crew *crew, cel_lane *before) {
  cel_lane **at = before != NULL ? &before->next : &crew->runnable;
  cel_lane *lane = *at;
  *at = lane->next;
  if (crew->last_runnable == lane) crew->last_runnable = before;
  if (lane->head->brief) add_brief(crew, -lane->head->expected_ns);
  return lane;
}

void cel_lane_release(cel_lane *lane) {
  for (cel_entry *entry = lane->head; entry != NULL;) {
    cel_entry *next = entry->next;
    cel_free(entry);
    entry = next;
  }
  cel_free(lane->share.cursor);
}

/* Whether the executor is to carry it out: it would take longer to wake
 * somebody, or that one would only take the executor's core. What comes behind
 * others in its lane begins when they are done; of several that could begin at
 * a time, threads share all that is more than one turn. Lock held. */
static bool is_brief(const cel_crew *crew, const cel_lane *lane,
                     const cel_entry *entry) {
  int64_t ns = entry->expected_ns, most = CEL_TUNE_BRIEF_NS;
  if (ns == 0 || (crew->folds_always && entry->job->use != NULL)) return false;
  if (cel_park_cores() == 1) return ns <= CEL_TUNE_BRIEF_ALONE_NS;
  if (!lane->active) {
    ns += atomic_load_explicit(&crew->brief_ns, memory_order_relaxed);
    if (crew->idle != NULL && !cel_park_crowded() &&
        !cel_park_asleep(&crew->idle->park))
      most = CEL_TUNE_BRIEF_AWAKE_NS;
  }
  return ns <= most;
}

void cel_crew_submit(cel_crew *crew, cel_lane *lane, cel_entry *entry) {
  cel_worker *woken[CEL_TUNE_CREW_WAKES];
  int n = 0;
  entry->next = NULL;
  pthread_mutex_lock(&crew->lock);
  entry->brief = is_brief(crew, lane, entry);
  if (lane->head == NULL)
    lane->head = entry;
  else
    lane->tail->next = entry;
  lane->tail = entry;
  if (!lane->active) {
    lane->active = true;
    make_runnable(crew, lane);
    int64_t anything = INT64_MAX;
    if (!entry->brief) n = take_idle(crew, 1, &anything, woken);
  }
  pthread_mutex_unlock(&crew->lock);
  wake_all(woken, n);
}

void cel_crew_hush(cel_crew *crew, cel_job *job, bool quiet) {
  pthread_mutex_lock(&crew->lock);
  job->quiet = quiet;
  pthread_mutex_unlock(&crew->lock);
}

/* Whether the executor has to know now that a job is done, which has been taken
 * off the lane. Lock held. */
static bool is_news(cel_lane *lane, const cel_entry *entry) {
  int64_t since = lane->quiet_ns;
  lane->quiet_ns = 0;
  if (!entry->job->quiet || entry->error != NULL || lane->head == NULL)
    return true;
  int64_t now = cel_now_ns();
  if (since == 0) since = now;
  if (now - since > CEL_TUNE_CREW_HUSH_NS) return true;
  lane->quiet_ns = since;
  return false;
}

/* When each of several that were carried out as one is said to have been. */
static void divide_time(cel_entry *head, int32_t jobs) {
  int64_t begin = head->job->begin, all = cel_now_ns() - begin;
  if (begin == 0) return;
  for (int32_t i = 0; i < jobs; ++i, head = head->next) {
    head->job->begin = begin + all * i / jobs;
    head->job->end = begin + all * (i + 1) / jobs;
    head->job->together = jobs > 1 ? jobs : 0;
  }
}

/* The head is done, or it and what is behind it, `jobs` in all: hands them
 * over, and lets the lane go on. The lock is held, so that no later job of the
 * lane is handed over before. */
static void complete(cel_crew *crew, cel_lane *lane, int32_t jobs) {
  bool news = false;
  divide_time(lane->head, jobs);
  for (; jobs > 0; --jobs) {
    cel_entry *entry = lane->head;
    lane->head = entry->next;
    if (lane->head == NULL) lane->tail = NULL;
    if (entry->error != NULL) lane->failed = true;
    news |= is_news(lane, entry);
    cel_finished_push(crew->finished, entry); /* no longer ours */
  }
  lane->active = lane->head != NULL;
  if (lane->active) make_runnable(crew, lane);
  if (news && crew->finished->park != NULL) cel_park_wake(crew->finished->park);
}

/* The box of block i and of as many behind it, at most n in all, as are one
 * box; returns how many. The innermost dimension counts fastest. */
static int64_t join_blocks(const cel_share *share, int64_t i, int64_t n,
                           cel_box *out) {
  int64_t inner = 1, joined = 1;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t at = i / inner % share->cuts[d], rows = n / inner;
    if (i % inner != 0 || rows < 1) break;
    if (rows > share->cuts[d] - at) rows = share->cuts[d] - at;
    joined = rows * inner;
    inner *= share->cuts[d];
  }
  cel_box last =
      cel__crew_block(&share->box, share->group, share->cuts, i + joined - 1);
  *out = cel__crew_block(&share->box, share->group, share->cuts, i);
  for (int d = 0; d < CEL_DIMS; ++d) out->max[d] = last.max[d];
  return joined;
}

_Static_assert(offsetof(cel_job, quiet) < offsetof(cel_job, holds_horizon) &&
                   sizeof(cel_job) - offsetof(cel_job, quiet) <=
                       _Alignof(cel_job),
               "what hush changes is a job's last");

static cel_job copy_of(const cel_job *job) {
  cel_job part;
  memcpy(&part, job, offsetof(cel_job, quiet));
  part.quiet = part.holds_horizon = false;
  return part;
}

/* A band of all jobs of the share, the last of which reduces. */
static cel_status run_band(cel_share *share, int64_t i, const cel_box *band,
                           bool goes_on) {
  const cel_entry *entry = share->entry;
  for (int32_t s = 1; s < share->jobs; ++s, entry = entry->next) {
    cel_job part = copy_of(entry->job);
    part.call.chunk = *band;
    CEL_TRY(cel_job_run(&part));
  }
  cel_job part = copy_of(share->reducing);
  part.call.chunk = *band;
  return cel__partial_run(&part, share->partial, i, goes_on);
}

/* Band by band, so that what one job writes is in a cache when the next one
 * reads it. Items come to the row of block i in the order that they have in one
 * call. */
static cel_status run_bands(cel_share *share, int64_t i, const cel_box *box,
                            int dim, bool goes_on) {
  while (dim < CEL_DIMS - 1 && box->max[dim] - box->min[dim] <= 1) ++dim;
  int64_t rows = box->max[dim] - box->min[dim];
  int64_t across = cel_box_volume(box) / rows;
  int64_t step = across < share->band ? share->band / across : 1;
  for (int64_t at = box->min[dim]; at < box->max[dim]; at += step) {
    cel_box band = *box;
    band.min[dim] = at;
    if (at + step < band.max[dim]) band.max[dim] = at + step;
    bool later = goes_on || at > box->min[dim];
    CEL_TRY(across > share->band && dim < CEL_DIMS - 1
                ? run_bands(share, i, &band, dim + 1, later)
                : run_band(share, i, &band, later));
  }
  return CEL_E_OK;
}

/* Block i and up to n - 1 behind it, as parts of the job; how many. */
static cel_status run_parts(cel_share *share, int64_t i, int64_t n,
                            int64_t *run) {
  cel_job part = copy_of(share->entry->job);
  cel_box *box = part.kind == CEL_JOB_CALL ? &part.call.chunk : &part.box;
  *run = join_blocks(share, i, share->partial != NULL ? 1 : n, box);
  if (share->partial == NULL) return cel_job_run(&part);
  return share->jobs > 1 ? run_bands(share, i, box, 0, false)
                         : cel__partial_run(&part, share->partial, i, false);
}

/* Runs block i and up to n - 1 behind it; returns how many. */
static int64_t run_blocks(cel_share *share, int64_t i, int64_t n) {
  int64_t run = 1;
  if ((share->folded != NULL ? cel__folded_run(share->folded, i)
                             : run_parts(share, i, n, &run)) == CEL_E_OK)
    return run;
  cel_error *error = cel_finished_error(), *none = NULL;
  if (!atomic_compare_exchange_strong(&share->error, &none, error))
    cel_free(error);
  return run;
}

static cel_lane *lane_of(cel_share *share) {
  return (cel_lane *)((char *)share - offsetof(cel_lane, share));
}

/* All rows are there. */
static void combine(cel_share *share) {
  if (atomic_load(&share->error) == NULL &&
      cel__partial_combine(share->reducing, share->partial) != CEL_E_OK)
    atomic_store(&share->error, cel_finished_error());
  cel_free(share->partial);
}

/* Not worth waking anybody. */
static bool is_light(const cel_entry *entry) {
  return entry->expected_ns > 0 &&
         entry->expected_ns <= CEL_TUNE_CREW_ASLEEP_NS;
}

/* The calling thread found no more blocks. Returns whether there will be others
 * soon: the lane's next job is cut, too, once those who are still inside have
 * ended this one. Called and returns with the lock held. */
static bool leave(cel_crew *crew, cel_share *share) {
  if (share->linked) {
    cel_share **at = &crew->shares;
    while (*at != share) at = &(*at)->next;
    *at = share->next;
    share->linked = false;
  }
  if (--share->inside > 0) { /* the last one out completes it */
    const cel_entry *next = share->entry->next;
    return next != NULL && !is_light(next);
  }
  if (share->partial != NULL) {
    pthread_mutex_unlock(&crew->lock);
    combine(share);
    pthread_mutex_lock(&crew->lock);
  }
  cel__folded_destroy(share->folded);
  cel_entry *entry = share->entry;
  entry->error = atomic_load(&share->error);
  if (share->jobs > 1) entry->took_ns = 0; /* that of all */
  complete(crew, lane_of(share), entry->error == NULL ? share->jobs : 1);
  return false;
}

/* Where range `r` of the blocks begins. */
static int64_t range_at(const cel_share *share, int32_t r) {
  return share->blocks * r / share->ranges;
}

/* The next blocks for the thread that counts ranges from `*range` on, which is
 * the one where it was last: the first, and behind the last of them; false:
 * none, or nothing further is to be begun. */
static bool take(cel_share *share, int32_t *range, int64_t *i, int64_t *end) {
  if (atomic_load_explicit(&share->error, memory_order_relaxed) != NULL)
    return false;
  for (int32_t n = 0; n < share->ranges; ++n) {
    cel_cursor *cursor = &share->cursor[*range];
    int64_t last = range_at(share, *range + 1);
    if (atomic_load_explicit(&cursor->next, memory_order_relaxed) < last) {
      *i = atomic_fetch_add(&cursor->next, share->grain);
      *end = *i + share->grain < last ? *i + share->grain : last;
      if (*i < last) return true;
    }
    *range = (*range + 1) % share->ranges;
  }
  return false;
}

/* Takes blocks until there are none; returns how many. */
static int64_t help(cel_share *share, int32_t range) {
  int64_t i, end, n = 0;
  while (take(share, &range, &i, &end)) {
    n += end - i;
    while (i < end) i += run_blocks(share, i, end - i);
  }
  return n;
}

/* The first `done` blocks from those of `range` on, in a ring, are done. */
static void start_ranges(cel_crew *crew, cel_share *share, int32_t range,
                         int64_t done) {
  int64_t first = range_at(share, range);
  if (share->cursor == NULL)
    share->cursor = cel_alloc((size_t)crew->threads * sizeof *share->cursor);
  for (int32_t r = 0; r < share->ranges; ++r) {
    int64_t begin = range_at(share, r), n = range_at(share, r + 1) - begin;
    int64_t before =
        begin >= first ? begin - first : begin - first + share->blocks;
    int64_t mine = done <= before ? 0 : done - before < n ? done - before : n;
    atomic_store(&share->cursor[r].next, begin + mine);
  }
}

/* Lets others help, to whom it is worth that much, where `left` blocks are.
 * Blocks that are short are taken several at a time. */
static void offer(cel_crew *crew, cel_share *share, int64_t worth_ns,
                  int64_t left) {
  cel_worker *woken[CEL_TUNE_CREW_WAKES];
  share->grain = 1 + CEL_TUNE_CREW_TAKE_NS * left / (worth_ns + 1);
  pthread_mutex_lock(&crew->lock);
  share->linked = true;
  share->worth_ns = worth_ns;
  share->next = crew->shares;
  crew->shares = share;
  int n = take_idle(crew, CEL_TUNE_CREW_WAKES, &share->worth_ns, woken);
  pthread_mutex_unlock(&crew->lock);
  wake_all(woken, n);
}

/* What one thread would take for all, if it took that long for a part. */
static int64_t extrapolate(int64_t took_ns, int64_t part, int64_t all) {
  if (part == 0 || took_ns > INT64_MAX / all) return 0;
  return 1 + took_ns * all / part;
}

/* Others may help with what is left; works on it, too. Learns from what the
 * blocks took, not from what it takes to call others. */
static void share_out(cel_crew *crew, cel_share *share, int32_t range,
                      int64_t done, int64_t worth_ns) {
  start_ranges(crew, share, range, done);
  offer(crew, share, worth_ns, share->blocks - done);
  int64_t begin = cel_now_ns(), helped = help(share, range);
  if (done == 0)
    share->entry->took_ns =
        extrapolate(cel_now_ns() - begin, helped, share->blocks);
}

/* Works on the share alone until it proves to be large; then offers it. What
 * has been short so far is taken to be short for as many blocks again, but not
 * for more than a part of all. What is known to be large is offered at once. */
static void own(cel_crew *crew, cel_share *share, int32_t range) {
  int64_t first = range_at(share, range), done = 0, n = 1, took_ns = 0;
  int64_t begin = cel_now_ns(), most = share->blocks / CEL_TUNE_CREW_SHARE;
  int64_t expected_ns = share->entry->expected_ns * share->jobs;
  int64_t others_ns = expected_ns - expected_ns / share->blocks;
  if (others_ns > CEL_TUNE_CREW_ASLEEP_NS) {
    share_out(crew, share, range, 0, others_ns);
    return;
  }
  while (atomic_load_explicit(&share->error, memory_order_relaxed) == NULL) {
    int64_t i = (first + done) % share->blocks, left = share->blocks - done;
    int64_t room = share->blocks - i < left ? share->blocks - i : left;
    done += run_blocks(share, i, n < room ? n : room);
    left = share->blocks - done;
    took_ns = cel_now_ns() - begin;
    share->entry->took_ns = extrapolate(took_ns, done, share->blocks);
    if (left == 0) break;
    int64_t worth_ns = took_ns / done * left;
    if (worth_ns > CEL_TUNE_CREW_ASLEEP_NS) {
      share_out(crew, share, range, done, worth_ns);
      break;
    }
    n = done < most ? done : most > 1 ? most : 1;
  }
}

static const cel_box *cuttable(const cel_job *job) {
  return job->kind == CEL_JOB_CALL   ? &job->call.chunk
         : job->kind == CEL_JOB_COPY ? &job->box
                                     : NULL;
}

static const cel_work *reducing(const cel_job *job) {
  bool reduces = job->kind == CEL_JOB_CALL && job->work->reducers > 0;
  return reduces ? job->work : NULL;
}

/* Cuts the job's box; false when it is one block. Each item may be heavy, and
 * the bits do not depend on the cut, except where a call reduces. */
static bool cut_box(cel_crew *crew, cel_share *share, const cel_job *job,
                    const cel_box *box) {
  const cel_work *work = reducing(job);
  share->box = *box;
  bool grouped = job->kind == CEL_JOB_CALL;
  for (int d = 0; d < CEL_DIMS; ++d)
    share->group[d] = grouped ? job->work->work_group[d] : 1;
  int64_t want = work != NULL ? cel__partial_blocks(work)
                              : blocks_wanted(box, crew->threads);
  int64_t least = grouped && work == NULL ? 1 : CEL_TUNE_CREW_ITEMS;
  share->blocks = cel__crew_cut(box, share->group, want, least, share->cuts);
  if (work != NULL && share->blocks <= 1) return false;
  if (work != NULL) {
    share->partial = cel__partial_create(job, share->blocks);
    share->reducing = job;
  }
  return true;
}

static void start(const cel_crew *crew, cel_share *share) {
  share->ranges = crew->threads;
  atomic_store(&share->error, NULL);
  share->inside = 1;
  share->linked = false;
}

/* So many jobs from the head on, the last of which reduces; cut as that one is
 * by itself. */
static bool join_reducing(cel_crew *crew, cel_lane *lane, const cel_job *last,
                          int32_t jobs) {
  cel_share *share = &lane->share;
  const cel_box *box = &last->call.chunk;
  if (cel_box_is_empty(box) || !cut_box(crew, share, last, box)) return false;
  share->entry = lane->head;
  share->folded = NULL;
  share->jobs = jobs;
  share->band = crew->folds_always ? 1 + jobs % 3 : CEL_TUNE_BAND_ITEMS;
  start(crew, share);
  return true;
}

/* Whether the head and what waits behind it are worth one pass over memory;
 * then they are cut as one. */
static bool gather(cel_crew *crew, cel_lane *lane) {
  cel_share *share = &lane->share;
  const cel_entry *head = lane->head;
  if (head->job->use == NULL || head->brief ||
      (is_light(head) && !crew->folds_always))
    return false;
  const cel_job *last;
  pthread_mutex_lock(&crew->lock);
  int32_t jobs = cel__folded_gather(head, crew->folds_always, &last);
  pthread_mutex_unlock(&crew->lock);
  if (last != NULL && join_reducing(crew, lane, last, jobs)) return true;
  if (last != NULL) --jobs;
  if (jobs == 1) return false;
  share->folded = cel__folded_join(head, jobs, crew->threads,
                                   crew->folds_always, &share->blocks);
  if (share->folded == NULL) return false;
  share->entry = lane->head;
  share->partial = NULL;
  share->jobs = jobs;
  start(crew, share);
  return true;
}

/* False when the head is to be run whole. */
static bool cut(cel_crew *crew, cel_lane *lane) {
  cel_share *share = &lane->share;
  const cel_job *job = lane->head->job;
  const cel_box *box = cuttable(job);
  share->entry = lane->head;
  share->partial = NULL;
  share->folded = NULL;
  share->jobs = 1;
  if (job->kind == CEL_JOB_FOLD)
    share->folded = cel__folded_create(job, crew->threads, &share->blocks);
  else if (box == NULL || cel_box_is_empty(box) ||
           !cut_box(crew, share, job, box))
    return false;
  start(crew, share);
  return true;
}

/* Takes the head's time, where it is learnt from. */
static void run_whole(cel_entry *entry) {
  const cel_job *job = entry->job;
  bool fold = job->kind == CEL_JOB_FOLD;
  int64_t begin = fold || job->kind == CEL_JOB_CALL ? cel_now_ns() : 0;
  cel_status status = fold ? cel__bands_carry_out(job) : cel_job_run(job);
  entry->error = status == CEL_E_OK ? NULL : cel_finished_error();
  if (begin != 0) entry->took_ns = 1 + cel_now_ns() - begin;
}

/* Returns whether the lane soon has blocks again. With the lock held. */
static bool run_lane(cel_crew *crew, cel_lane *lane, int32_t worker) {
  cel_entry *entry = lane->head;
  cel_share *share = &lane->share;
  if (lane->failed) { /* what follows may need what has failed */
    pthread_mutex_lock(&crew->lock);
    complete(crew, lane, 1);
    return false;
  }
  if (crew->timed) entry->job->begin = cel_now_ns();
  bool alone =
      (crew->threads == 1 || is_light(entry)) && reducing(entry->job) == NULL;
  if (!gather(crew, lane) && (alone || !cut(crew, lane))) {
    run_whole(entry);
    pthread_mutex_lock(&crew->lock);
    complete(crew, lane, 1);
    return false;
  }
  own(crew, share, worker);
  pthread_mutex_lock(&crew->lock);
  return leave(crew, share);
}

/* Returns whether there is more soon. Called and returns with the lock held. */
static bool run_something(cel_crew *crew, int32_t worker) {
  if (crew->runnable != NULL) {
    cel_lane *lane = take_runnable(crew, NULL);
    pthread_mutex_unlock(&crew->lock);
    return run_lane(crew, lane, worker);
  }
  cel_share *share = crew->shares;
  cel_worker *woken[CEL_TUNE_CREW_WAKES];
  share->inside += 1;
  int n = take_idle(crew, CEL_TUNE_CREW_WAKES, &share->worth_ns, woken);
  pthread_mutex_unlock(&crew->lock);
  wake_all(woken, n);
  help(share, worker);
  pthread_mutex_lock(&crew->lock);
  return leave(crew, share);
}

/* Takes a lane whose head is brief off the list; null: there is none. Lock
 * held. */
static cel_lane *take_brief(cel_crew *crew) {
  cel_lane *before = NULL, *at = crew->runnable;
  while (at != NULL && !at->head->brief) before = at, at = at->next;
  return at != NULL ? take_runnable(crew, before) : NULL;
}

/* Whether the calling thread is the executor still. With the job done and until
 * that is known the lock is held, as the crew may go once it is released. A
 * worker that ends a job takes the lane's next itself; the executor does so
 * only where that is brief. Called and returns with the lock held. */
static bool assist_lane(cel_crew *crew, cel_lane *lane, cel_aside *aside) {
  cel_worker *woken[CEL_TUNE_CREW_WAKES];
  int64_t anything = INT64_MAX;
  uint64_t turn = cel_aside_begin(aside);
  pthread_mutex_unlock(&crew->lock);
  run_lane(crew, lane, 0);
  if (lane->active && !lane->head->brief)
    wake_all(woken, take_idle(crew, 1, &anything, woken));
  if (cel_aside_end(aside, turn)) return true;
  /* What is quiet woke nobody, and who is the executor now may sleep. */
  if (crew->finished->park != NULL) cel_park_wake(crew->finished->park);
  return false;
}

cel_step cel_crew_assist(cel_crew *crew, cel_aside *aside) {
  if (atomic_load_explicit(&crew->brief_ns, memory_order_relaxed) == 0)
    return CEL_STEP_NOTHING;
  int64_t begin = cel_now_ns(), until = begin + CEL_TUNE_BRIEF_NS, now = begin;
  bool executor = true;
  pthread_mutex_lock(&crew->lock);
  for (cel_lane *lane;
       executor && now < until && (lane = take_brief(crew)) != NULL;) {
    executor = assist_lane(crew, lane, aside);
    now = cel_now_ns();
  }
  pthread_mutex_unlock(&crew->lock);
  if (!executor) return CEL_STEP_GONE;
  return now > begin ? CEL_STEP_MOVED : CEL_STEP_NOTHING;
}

/* Called and returns with the lock held. */
static void sleep_idle(cel_crew *crew, cel_worker *self, bool soon) {
  if (!self->idle) { /* else we woke for nothing and are still listed */
    self->idle = true;
    self->next_idle = crew->idle;
    crew->idle = self;
  }
  uint32_t seen = cel_park_prepare(&self->park);
  pthread_mutex_unlock(&crew->lock);
  if (!soon || !cel_park_spin(&self->park, seen, CEL_TUNE_CREW_SOON_NS))
    cel_park_wait(&self->park, seen, UINT32_MAX);
  pthread_mutex_lock(&crew->lock);
}

static void *work(void *argument) {
  cel_worker *self = argument;
  cel_crew *crew = self->crew;
  cel_overflow_room room;
  cel_overflow_prepare(&room);
  cel_thread_act(CEL_THREAD_WORKER);
  char name[16];
  snprintf(name, sizeof name, "%.9s-%d", crew->name, self->index);
  pthread_setname_np(pthread_self(), name);
  if (crew->topology.cores > 0)
    cel_topology_pin(&crew->topology, self->index % crew->topology.cores);
  bool soon = false;
  pthread_mutex_lock(&crew->lock);
  while (!crew->stop) {
    if (crew->runnable != NULL || crew->shares != NULL) {
      soon = run_something(crew, self->index);
    } else {
      sleep_idle(crew, self, soon);
      soon = false;
    }
  }
  pthread_mutex_unlock(&crew->lock);
  return NULL;
}

/* Ctrl-C and the like are for the main thread. */
static cel_status start_thread(cel_worker *worker) {
  sigset_t old;
  cel_thread_block_signals(&old);
  cel_status status =
      cel_thread_start(&worker->thread, work, worker, "each core");
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return status;
}

cel_status cel_crew_create(const char *name, int32_t threads,
                           const cel_topology *topology, cel_finished *finished,
                           cel_crew **out) {
  cel_crew *crew =
      cel_alloc_zero(sizeof *crew + (size_t)threads * sizeof crew->worker[0]);
  pthread_mutex_init(&crew->lock, NULL);
  crew->name = name;
  crew->finished = finished;
  crew->threads = threads;
  if (topology != NULL) crew->topology = *topology;
  for (int32_t i = 0; i < threads; ++i) {
    cel_worker *worker = &crew->worker[i];
    worker->crew = crew;
    worker->index = i;
    cel_park_init(&worker->park);
    if (start_thread(worker) == CEL_E_OK) continue;
    pthread_mutex_lock(&crew->lock);
    crew->threads = i;
    pthread_mutex_unlock(&crew->lock);
    cel_crew_destroy(crew);
    return cel_error_last()->code;
  }
  *out = crew;
  return CEL_E_OK;
}

void cel_crew_destroy(cel_crew *crew) {
  pthread_mutex_lock(&crew->lock);
  crew->stop = true;
  pthread_mutex_unlock(&crew->lock);
  for (int32_t i = 0; i < crew->threads; ++i)
    cel_park_wake(&crew->worker[i].park);
  for (int32_t i = 0; i < crew->threads; ++i)
    pthread_join(crew->worker[i].thread, NULL);
  pthread_mutex_destroy(&crew->lock);
  cel_free(crew);
}

/* ---- invariants ---------------------------------------------------------- */

CEL_ASSERTED static bool is_runnable(const cel_crew *crew,
                                     const cel_lane *lane) {
  const cel_lane *at = crew->runnable;
  while (at != NULL && at != lane) at = at->next;
  return at != NULL;
}

static void check_lane(const cel_crew *crew, const cel_lane *lane) {
  const cel_entry *last = lane->head;
  while (last != NULL && last->next != NULL) last = last->next;
  cel_assert(lane->active == (lane->head != NULL) && lane->tail == last);
  cel_assert(lane->active || !is_runnable(crew, lane));
  if (!lane->share.linked) return;
  cel_assert(lane->active && !is_runnable(crew, lane));
  cel_assert(lane->share.inside > 0 && lane->share.entry == lane->head);
}

void cel_crew_check(cel_crew *crew, const cel_lane *lane, int32_t lanes) {
  int32_t idle = 0;
  pthread_mutex_lock(&crew->lock);
  int64_t brief_ns = 0;
  for (const cel_lane *at = crew->runnable; at != NULL; at = at->next) {
    cel_assert(at->active && (at->next != NULL || at == crew->last_runnable));
    if (at->head->brief) brief_ns += at->head->expected_ns;
  }
  cel_assert(brief_ns == atomic_load(&crew->brief_ns));
  for (const cel_share *at = crew->shares; at != NULL; at = at->next)
    cel_assert(at->linked && at->inside > 0);
  for (const cel_worker *at = crew->idle; at != NULL; at = at->next_idle) {
    ++idle;
    cel_assert(at->idle && idle <= crew->threads);
  }
  for (int32_t i = 0; i < lanes; ++i) check_lane(crew, &lane[i]);
  pthread_mutex_unlock(&crew->lock);
}
