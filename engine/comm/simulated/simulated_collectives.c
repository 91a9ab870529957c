#include "comm/simulated/simulated_collectives.h"

#include <string.h>

#include "base/vec.h"
#include "comm/collectives.h"

static bool all_to_all(const cel_collective *collective) {
  return collective->pattern == CEL_PATTERN_ALL_TO_ALL;
}

/* One rank's part in one collective. */
typedef struct side {
  const cel_collective *posted; /* null before, and when it is complete */
  bool taken, complete;
  /* ALL_TO_ALL: what it gives, one part behind the other; by rank, where. */
  char *given;
  uint64_t *start;
} side;

typedef struct collective {
  cel_collective
      first; /* of the rank that came first; its pointers are not used */
  int64_t first_rank;
  char *whole;
  bool folded;      /* of an ALL_REDUCE: what some rank has is there */
  int64_t complete; /* ranks */
  side side[];      /* by rank */
} collective;

struct cel__simulated_collectives {
  int64_t ranks;
  bool at_once;
  uint64_t first; /* the number of at[0] */
  CEL_VEC(collective *)
  at;              /* those that some rank has begun and not all ended */
  uint64_t next[]; /* by rank: the number that comes next */
};

cel__simulated_collectives *cel__simulated_collectives_create(int64_t ranks,
                                                              bool at_once) {
  size_t next = (size_t)ranks * sizeof(uint64_t);
  cel__simulated_collectives *j = cel_alloc_zero(sizeof *j + next);
  j->ranks = ranks;
  j->at_once = at_once;
  return j;
}

static void collective_free(const cel__simulated_collectives *j,
                            collective *one) {
  for (int64_t k = 0; k < j->ranks; ++k) {
    cel_free(one->side[k].given);
    cel_free(one->side[k].start);
  }
  cel_free(one->whole);
  cel_free(one);
}

void cel__simulated_collectives_destroy(cel__simulated_collectives *j) {
  for (uint32_t i = 0; i < j->at.n; ++i) collective_free(j, j->at.at[i]);
  cel_vec_release(&j->at);
  cel_free(j);
}

/* ---- bytes -----------------------------------------------------------------
 */

/* Where the part of a rank is in one->whole. */
static char *dense_at(const collective *one, const cel_collective *mine,
                      int64_t part) {
  return one->whole + (mine->pattern == CEL_PATTERN_BROADCAST
                           ? 0
                           : (uint64_t)mine->start[part] * mine->unit);
}

/* What ranks have comes together in the order in which it is taken. */
static void fold(collective *one, const cel_collective *mine) {
  const void *from = mine->piece[0].base;
  if (one->folded)
    cel_operator_fold(&mine->by, one->whole, from, mine->bytes);
  else
    memcpy(one->whole, from, mine->bytes);
  one->folded = true;
}

/* Room for what it gives, which lasts when it has ended and others have not. */
static void keep_given(const cel__simulated_collectives *j, side *giver) {
  const cel_collective *mine = giver->posted;
  uint64_t sum = 0;
  giver->start = cel_alloc((size_t)(j->ranks + 1) * sizeof *giver->start);
  for (int64_t k = 0; k < j->ranks; ++k) {
    giver->start[k] = sum;
    sum += cel__collective_part(mine, CEL__GIVEN, k);
  }
  giver->start[j->ranks] = sum;
  giver->given = cel_alloc(sum + 1);
}

static void take(const cel__simulated_collectives *j, collective *one,
                 int64_t rank) {
  side *mine = &one->side[rank];
  if (mine->taken) return;
  mine->taken = true;
  if (mine->posted->pattern == CEL_PATTERN_ALL_REDUCE) {
    fold(one, mine->posted);
    return;
  }
  bool pairs = all_to_all(mine->posted);
  if (pairs) keep_given(j, mine);
  for (int64_t k = 0; k < j->ranks; ++k) {
    if (!cel__collective_has(mine->posted, CEL__GIVEN, rank, k)) continue;
    cel__collective_gather(mine->posted, CEL__GIVEN, rank, k,
                           pairs ? mine->given + mine->start[k]
                                 : dense_at(one, mine->posted, k));
  }
}

static void put(const cel__simulated_collectives *j, collective *one,
                int64_t rank) {
  const cel_collective *mine = one->side[rank].posted;
  if (mine->pattern == CEL_PATTERN_ALL_REDUCE) {
    memcpy(mine->piece[0].base, one->whole, mine->bytes);
    return;
  }
  for (int64_t k = 0; k < j->ranks; ++k) {
    if (!cel__collective_has(mine, CEL__GOT, rank, k)) continue;
    const side *giver = &one->side[k];
    cel__collective_scatter(mine, CEL__GOT, rank, k,
                            all_to_all(mine) ? giver->given + giver->start[rank]
                                             : dense_at(one, mine, k));
  }
}

/* ---- posting ---------------------------------------------------------------
 */

static collective *collective_of(cel__simulated_collectives *j, int64_t rank,
                                 const cel_collective *posted) {
  while (j->first + j->at.n <= posted->nth) {
    collective *made =
        cel_alloc_zero(sizeof *made + (size_t)j->ranks * sizeof(side));
    made->first = *posted;
    made->first_rank = rank;
    if (!all_to_all(posted)) made->whole = cel_alloc_zero(posted->bytes + 1);
    cel_vec_push(&j->at, made);
  }
  return j->at.at[posted->nth - j->first];
}

static bool alike(const collective *one, const cel_collective *other) {
  const cel_collective *first = &one->first;
  return first->pattern == other->pattern && first->root == other->root &&
         first->bytes == other->bytes && first->unit == other->unit &&
         first->by.op == other->by.op;
}

void cel__simulated_collectives_post(cel__simulated_collectives *j,
                                     int64_t rank,
                                     const cel_collective *posted) {
  cel_assert(posted->nth == j->next[rank]);
  j->next[rank]++;
  collective *one = collective_of(j, rank, posted);
  one->side[rank].posted = posted;
  if (j->at_once && alike(one, posted)) take(j, one, rank);
}

/* ---- completing ------------------------------------------------------------
 */

static cel_error *mismatch(const collective *one, int64_t rank) {
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
static bool is_there(const cel__simulated_collectives *j, const collective *one,
                     int64_t rank) {
  const cel_collective *mine = one->side[rank].posted;
  for (int64_t k = 0; k < j->ranks; ++k) {
    if (cel__collective_has(mine, CEL__GOT, rank, k) &&
        !one->side[cel__collective_giver(mine, k)].taken)
      return false;
  }
  return true;
}

/* Whether each gives what the rank expects of it: not if they do not run the
 * same program. */
static bool fits(const cel__simulated_collectives *j, const collective *one,
                 int64_t rank) {
  const cel_collective *mine = one->side[rank].posted;
  if (!all_to_all(mine)) return true;
  for (int64_t k = 0; k < j->ranks; ++k) {
    const uint64_t *start = one->side[k].start;
    if (cel__collective_has(mine, CEL__GOT, rank, k) &&
        start[rank + 1] - start[rank] !=
            cel__collective_part(mine, CEL__GOT, k))
      return false;
  }
  return true;
}

static void drop_ended(cel__simulated_collectives *j) {
  uint32_t n = 0;
  while (n < j->at.n && j->at.at[n]->complete == j->ranks)
    collective_free(j, j->at.at[n++]);
  cel_vec_drop_first(&j->at, n);
  j->first += n;
}

static cel_done end(cel__simulated_collectives *j, collective *one,
                    int64_t rank) {
  side *mine = &one->side[rank];
  cel_done done = {.ticket = mine->posted->ticket};
  if (alike(one, mine->posted) && fits(j, one, rank))
    put(j, one, rank);
  else
    done.error = mismatch(one, rank);
  mine->posted = NULL;
  if (++one->complete == j->ranks) drop_ended(j);
  return done;
}

bool cel__simulated_collectives_step(cel__simulated_collectives *j,
                                     int64_t rank, bool (*moves)(void *context),
                                     void *context, cel_done *done) {
  for (uint32_t i = 0; i < j->at.n; ++i) {
    collective *one = j->at.at[i];
    const cel_collective *posted = one->side[rank].posted;
    if (posted == NULL || !moves(context)) continue;
    bool good = alike(one, posted);
    if (good) take(j, one, rank);
    if (good && (!is_there(j, one, rank) || !moves(context))) continue;
    *done = end(j, one, rank);
    return true;
  }
  return false;
}
