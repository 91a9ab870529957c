#include "comm/simulated/simulated_members.h"

#include <string.h>

#include "base/operator.h"
#include "base/vec.h"
#include "comm/collectives.h"
#include "comm/strided.h"

static bool reduces(const cel_device_collective *collective) {
  return collective->pattern == CEL_PATTERN_ALL_REDUCE;
}

static bool in_pairs(const cel_device_collective *collective) {
  return collective->pattern == CEL_PATTERN_ALL_TO_ALL;
}

/* One member's end of one collective. */
typedef struct side {
  struct cel__members *all;
  struct collective *collective;
  int64_t member;
  const cel_device_collective *posted; /* null before */
  bool taken;
} side;

typedef struct collective {
  uint64_t nth;
  int64_t posted, done; /* members */
  int64_t parts;
  /* By member, in pairs by giver and getter: what was taken. */
  struct part {
    char *at;
    uint64_t bytes;
  } * part;
  side side[];
} collective;

struct cel__members {
  int64_t members;
  CEL_VEC(collective *) at; /* that some have posted and not all are through */
  struct next {
    uint64_t posted, given;
    bool halted;
  } next[]; /* by member */
};

cel__members *cel__members_create(int64_t members) {
  cel__members *m =
      cel_alloc_zero(sizeof *m + (size_t)members * sizeof(struct next));
  m->members = members;
  return m;
}

static void collective_free(collective *one) {
  for (int64_t k = 0; k < one->parts; ++k) cel_free(one->part[k].at);
  cel_free(one->part);
  cel_free(one);
}

void cel__members_destroy(cel__members *m) {
  if (m == NULL) return;
  for (uint32_t i = 0; i < m->at.n; ++i) collective_free(m->at.at[i]);
  cel_vec_release(&m->at);
  cel_free(m);
}

static collective *find(const cel__members *m, uint64_t nth) {
  for (uint32_t i = 0; i < m->at.n; ++i)
    if (m->at.at[i]->nth == nth) return m->at.at[i];
  return NULL;
}

static collective *make(cel__members *m, const cel_device_collective *posted) {
  size_t n = (size_t)m->members;
  collective *one = cel_alloc_zero(sizeof *one + n * sizeof(side));
  one->nth = posted->nth;
  one->parts = m->members * (in_pairs(posted) ? m->members : 1);
  one->part = cel_alloc_zero((size_t)one->parts * sizeof *one->part);
  for (int64_t k = 0; k < m->members; ++k)
    one->side[k] = (side){.all = m, .collective = one, .member = k};
  cel_vec_push(&m->at, one);
  return one;
}

void cel__members_post(cel__members *m, int64_t member,
                       const cel_device_collective *posted) {
  cel_assert(posted->nth == m->next[member].posted);
  m->next[member].posted++;
  collective *one = find(m, posted->nth);
  if (one == NULL) one = make(m, posted);
  one->side[member].posted = posted;
  one->posted++;
}

/* ---- putting ---------------------------------------------------------------
 */

/* The part that is given as that of `member`, and that is got as such. */
static struct part *given(const side *mine, int64_t member) {
  int64_t row = in_pairs(mine->posted) ? mine->member * mine->all->members : 0;
  return &mine->collective->part[row + member];
}

static struct part *got(const side *mine, int64_t member) {
  if (!in_pairs(mine->posted)) return &mine->collective->part[member];
  return &mine->collective->part[member * mine->all->members + mine->member];
}

static void take(side *mine) {
  for (int64_t k = 0; k < mine->all->members && !mine->taken; ++k) {
    const cel_strided *at = cel__member_gives(mine->posted, mine->member, k);
    if (at == NULL) continue;
    struct part part = {.bytes = cel__strided_bytes(at, 1)};
    part.at = cel_alloc_zero(part.bytes + 1);
    if (!reduces(mine->posted) || !mine->posted->zero)
      cel__strided_gather(at, 1, part.at);
    *given(mine, k) = part;
  }
  mine->taken = true;
}

static bool is_there(const side *mine) {
  for (int64_t k = 0; k < mine->all->members; ++k)
    if (cel__member_gets(mine->posted, mine->member, k) != NULL &&
        got(mine, k)->at == NULL)
      return false;
  return true;
}

/* Ranks that run different programs may mean different ones. */
static cel_status compare(const side *mine) {
  for (int64_t k = 0; k < mine->all->members; ++k) {
    const cel_strided *at = cel__member_gets(mine->posted, mine->member, k);
    if (at != NULL && cel__strided_bytes(at, 1) != got(mine, k)->bytes)
      return cel_fail(CEL_E_COMM,
                      "member %lld expected %llu bytes of member %lld in a "
                      "collective, which gave %llu",
                      (long long)mine->member,
                      (unsigned long long)cel__strided_bytes(at, 1),
                      (long long)k, (unsigned long long)got(mine, k)->bytes);
  }
  return CEL_E_OK;
}

static void reduce(const side *mine) {
  const cel_strided *at = &mine->posted->piece[0];
  uint64_t bytes = cel__strided_bytes(at, 1);
  char *all = cel_alloc(bytes + 1);
  memcpy(all, got(mine, 0)->at, bytes);
  for (int64_t k = 1; k < mine->all->members; ++k)
    cel_operator_fold(&mine->posted->by, all, got(mine, k)->at, bytes);
  cel__strided_scatter(at, 1, all);
  cel_free(all);
}

static cel_status put(void *context, void *stream) {
  (void)stream;
  side *mine = context;
  if (mine->all->next[mine->member].halted)
    return cel_fail(CEL_E_CANCELLED, "others do not go on");
  take(mine);
  if (!is_there(mine)) return CEL_E_AGAIN;
  CEL_TRY(compare(mine));
  if (reduces(mine->posted)) reduce(mine);
  for (int64_t k = 0; k < mine->all->members && !reduces(mine->posted); ++k) {
    const cel_strided *at = cel__member_gets(mine->posted, mine->member, k);
    if (at != NULL) cel__strided_scatter(at, 1, got(mine, k)->at);
  }
  return CEL_E_OK;
}

bool cel__members_next(cel__members *m, int64_t member, cel_chained *out) {
  collective *one = find(m, m->next[member].given);
  if (one == NULL || one->posted < m->members) return false;
  m->next[member].given++;
  side *mine = &one->side[member];
  *out = (cel_chained){mine->posted->ticket, put, mine};
  return true;
}

void cel__members_unjoin(cel__members *m, void *context) {
  side *mine = context;
  collective *one = mine->collective;
  mine->posted = NULL;
  if (++one->done < m->members) return;
  uint32_t i = 0;
  while (m->at.at[i] != one) ++i;
  cel_vec_swap_out(&m->at, i);
  collective_free(one);
}

void cel__members_halt(cel__members *m, int64_t member) {
  m->next[member].halted = true;
}
