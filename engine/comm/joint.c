#include "comm/joint.h"

#include <string.h>

#include "base/vec.h"
#include "comm/strided.h"

uint64_t cel__joint_given(const cel_joint *joint, int64_t rank) {
  if (joint->pattern == CEL_PATTERN_BROADCAST)
    return joint->root == rank ? joint->bytes : 0;
  return (uint64_t)joint->count[rank] * joint->unit;
}

uint64_t cel__joint_start(const cel_joint *joint, int64_t rank) {
  if (joint->pattern == CEL_PATTERN_BROADCAST) return 0;
  return (uint64_t)joint->start[rank] * joint->unit;
}

/* One rank's part in one collective. */
typedef struct side {
  const cel_joint *posted; /* null before, and when it is complete */
  bool taken, complete;
} side;

typedef struct joint {
  cel_joint first; /* of the rank that came first; its pointers are not used */
  int64_t first_rank;
  char *whole;
  int64_t complete; /* ranks */
  side side[];      /* by rank */
} joint;

struct cel__joints {
  int64_t ranks;
  bool at_once;
  uint64_t first;      /* the number of at[0] */
  CEL_VEC(joint *) at; /* those that some rank has begun and not all ended */
  uint64_t next[];     /* by rank: the number that comes next */
};

cel__joints *cel__joints_create(int64_t ranks, bool at_once) {
  size_t next = (size_t)ranks * sizeof(uint64_t);
  cel__joints *j = cel_alloc_zero(sizeof *j + next);
  j->ranks = ranks;
  j->at_once = at_once;
  return j;
}

static void joint_free(joint *one) {
  cel_free(one->whole);
  cel_free(one);
}

void cel__joints_destroy(cel__joints *j) {
  for (uint32_t i = 0; i < j->at.n; ++i) joint_free(j->at.at[i]);
  cel_vec_release(&j->at);
  cel_free(j);
}

/* ---- bytes -----------------------------------------------------------------
 */

/* Moves what is in the memory of one rank of the part of another. */
static void move_part(const cel_joint *mine, int64_t part, char *whole,
                      bool out) {
  uint64_t bytes = cel__joint_given(mine, part);
  char *dense = whole + cel__joint_start(mine, part);
  cel_strided run = {.count = {1, 1}, .run = bytes};
  const cel_strided *piece = &run;
  if (mine->pieces > 1)
    piece = &mine->piece[part];
  else if (mine->pattern == CEL_PATTERN_BROADCAST)
    piece = mine->piece;
  else
    run.base = (char *)mine->piece->base + cel__joint_start(mine, part);
  if (bytes == 0) return;
  if (out)
    cel__strided_gather(piece, 1, dense);
  else
    cel__strided_scatter(piece, 1, dense);
}

static void take(joint *one, int64_t rank) {
  side *mine = &one->side[rank];
  if (!mine->taken) move_part(mine->posted, rank, one->whole, true);
  mine->taken = true;
}

static void put(const cel__joints *j, joint *one, int64_t rank) {
  for (int64_t k = 0; k < j->ranks; ++k)
    if (k != rank) move_part(one->side[rank].posted, k, one->whole, false);
}

/* ---- posting ---------------------------------------------------------------
 */

static joint *joint_of(cel__joints *j, int64_t rank, const cel_joint *posted) {
  while (j->first + j->at.n <= posted->nth) {
    joint *made =
        cel_alloc_zero(sizeof *made + (size_t)j->ranks * sizeof(side));
    made->first = *posted;
    made->first_rank = rank;
    made->whole = cel_alloc_zero(posted->bytes + 1);
    cel_vec_push(&j->at, made);
  }
  return j->at.at[posted->nth - j->first];
}

static bool alike(const joint *one, const cel_joint *other) {
  const cel_joint *first = &one->first;
  return first->pattern == other->pattern && first->root == other->root &&
         first->bytes == other->bytes && first->unit == other->unit;
}

void cel__joints_post(cel__joints *j, int64_t rank, const cel_joint *posted) {
  cel_assert(posted->nth == j->next[rank]);
  j->next[rank]++;
  joint *one = joint_of(j, rank, posted);
  one->side[rank].posted = posted;
  if (j->at_once && alike(one, posted)) take(one, rank);
}

/* ---- completing ------------------------------------------------------------
 */

static cel_error *mismatch(const joint *one, int64_t rank) {
  cel_fail(CEL_E_COMM,
           "ranks %lld and %lld mean different collectives by number %llu: "
           "they do not run the same program",
           (long long)one->first_rank, (long long)rank,
           (unsigned long long)one->first.nth);
  cel_error *error = cel_alloc(sizeof *error);
  *error = *cel_error_last();
  return error;
}

/* Whether all has been taken that `posted` is to get. */
static bool is_there(const cel__joints *j, const joint *one,
                     const cel_joint *posted) {
  for (int64_t k = 0; k < j->ranks; ++k)
    if (!one->side[k].taken && cel__joint_given(posted, k) > 0) return false;
  return true;
}

static void drop_ended(cel__joints *j) {
  uint32_t n = 0;
  while (n < j->at.n && j->at.at[n]->complete == j->ranks)
    joint_free(j->at.at[n++]);
  cel_vec_drop_first(&j->at, n);
  j->first += n;
}

static cel_done end(cel__joints *j, joint *one, int64_t rank) {
  side *mine = &one->side[rank];
  cel_done done = {.ticket = mine->posted->ticket};
  if (alike(one, mine->posted))
    put(j, one, rank);
  else
    done.error = mismatch(one, rank);
  mine->posted = NULL;
  if (++one->complete == j->ranks) drop_ended(j);
  return done;
}

bool cel__joints_step(cel__joints *j, int64_t rank,
                      bool (*moves)(void *context), void *context,
                      cel_done *done) {
  for (uint32_t i = 0; i < j->at.n; ++i) {
    joint *one = j->at.at[i];
    const cel_joint *posted = one->side[rank].posted;
    if (posted == NULL || !moves(context)) continue;
    bool good = alike(one, posted);
    if (good) take(one, rank);
    if (good && (!is_there(j, one, posted) || !moves(context))) continue;
    *done = end(j, one, rank);
    return true;
  }
  return false;
}
