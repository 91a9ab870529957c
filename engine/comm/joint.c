#include "comm/joint.h"

#include <string.h>

#include "base/vec.h"
#include "comm/strided.h"

static bool from_root(const cel_joint *joint) {
  return joint->pattern == CEL_PATTERN_BROADCAST ||
         joint->pattern == CEL_PATTERN_SCATTER;
}

bool cel__joint_whole(const cel_joint *joint, int64_t me) {
  return joint->pattern == CEL_PATTERN_BROADCAST ||
         joint->pattern == CEL_PATTERN_ALL_GATHER || joint->root == me;
}

uint64_t cel__joint_part(const cel_joint *joint, int64_t rank) {
  if (joint->pattern == CEL_PATTERN_BROADCAST)
    return joint->root == rank ? joint->bytes : 0;
  return (uint64_t)joint->count[rank] * joint->unit;
}

bool cel__joint_gives(const cel_joint *joint, int64_t me, int64_t rank) {
  if (cel__joint_part(joint, rank) == 0) return false;
  return from_root(joint) ? joint->root == me : rank == me;
}

bool cel__joint_gets(const cel_joint *joint, int64_t me, int64_t rank) {
  if (cel__joint_part(joint, rank) == 0) return false;
  switch (joint->pattern) {
  case CEL_PATTERN_BROADCAST: return joint->root != me;
  case CEL_PATTERN_SCATTER: return joint->root != me && rank == me;
  case CEL_PATTERN_GATHER: return joint->root == me && rank != me;
  default: return rank != me;
  }
}

uint64_t cel__joint_start(const cel_joint *joint, int64_t me, int64_t rank) {
  bool whole =
      joint->pattern != CEL_PATTERN_BROADCAST && cel__joint_whole(joint, me);
  return whole ? (uint64_t)joint->start[rank] * joint->unit : 0;
}

cel_strided cel__joint_at(const cel_joint *joint, int64_t me, int64_t rank) {
  if (joint->pieces > 1) return joint->piece[rank];
  if (joint->pattern == CEL_PATTERN_BROADCAST || !cel__joint_whole(joint, me))
    return joint->piece[0];
  char *base = joint->piece[0].base;
  return (cel_strided){.base = base + cel__joint_start(joint, me, rank),
                       .count = {1, 1},
                       .run = cel__joint_part(joint, rank)};
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

/* Where the part of a rank is in one->whole. */
static char *dense_at(const joint *one, const cel_joint *mine, int64_t part) {
  bool all = mine->pattern == CEL_PATTERN_BROADCAST;
  return one->whole + (all ? 0 : (uint64_t)mine->start[part] * mine->unit);
}

static void take(const cel__joints *j, joint *one, int64_t rank) {
  side *mine = &one->side[rank];
  for (int64_t k = 0; k < j->ranks && !mine->taken; ++k) {
    if (!cel__joint_gives(mine->posted, rank, k)) continue;
    cel_strided at = cel__joint_at(mine->posted, rank, k);
    cel__strided_gather(&at, 1, dense_at(one, mine->posted, k));
  }
  mine->taken = true;
}

static void put(const cel__joints *j, joint *one, int64_t rank) {
  const cel_joint *mine = one->side[rank].posted;
  for (int64_t k = 0; k < j->ranks; ++k) {
    if (!cel__joint_gets(mine, rank, k)) continue;
    cel_strided at = cel__joint_at(mine, rank, k);
    cel__strided_scatter(&at, 1, dense_at(one, mine, k));
  }
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
  if (j->at_once && alike(one, posted)) take(j, one, rank);
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

/* Whether all has been taken that the rank is to get. */
static bool is_there(const cel__joints *j, const joint *one, int64_t rank) {
  const cel_joint *mine = one->side[rank].posted;
  for (int64_t k = 0; k < j->ranks; ++k) {
    int64_t giver = from_root(mine) ? mine->root : k;
    if (cel__joint_gets(mine, rank, k) && !one->side[giver].taken) return false;
  }
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
    if (good) take(j, one, rank);
    if (good && (!is_there(j, one, rank) || !moves(context))) continue;
    *done = end(j, one, rank);
    return true;
  }
  return false;
}
