/* A rank is lost: it dies, or is silent, for a while or for ever. */
#include <stdio.h>

#include "random/program.h"

#define LOST_NS INT64_C(10000000000)
#define LATEST_NS INT64_C(8000000000) /* most programs take longer */

static uint64_t went_on, ended, too_late;

void program_lose(program *p) {
  cel_random r = {p->seed ^ 0x1057};
  if (p->ranks == 1) return;
  p->room = 0; /* the only trouble */
  p->loss = (loss){.lost_ns = LOST_NS,
                   .rank = (int)cel_random_int(&r, 0, p->ranks - 1),
                   .begin_ns = cel_random_int(&r, 0, LATEST_NS)};
  p->fault = cel_random_chance(&r, 30) ? CEL_FAULT_DEAD : CEL_FAULT_SILENT;
  if (p->fault == CEL_FAULT_SILENT && cel_random_chance(&r, 50))
    p->loss.ns = cel_random_int(&r, 1, LOST_NS / 2);
}

/* Of those that others can reach, and of the rank that is cut off. */
static bool count(const program *p, const rank *ranks, int *spoke, int *over) {
  int dead = 0;
  spoke[0] = spoke[1] = *over = 0;
  for (int k = 0; k < p->ranks; ++k) {
    cel_inprocess_life life = cel_inprocess_life_of(ranks[k].transport);
    spoke[k == p->loss.rank] += life == CEL_LIFE_SPOKE;
    *over += life == CEL_LIFE_SPOKE || life == CEL_LIFE_ENDED;
    dead += life == CEL_LIFE_DEAD;
  }
  return *over + dead == p->ranks;
}

bool program_is_lost(const program *p, const rank *ranks) {
  int spoke[2], over;
  return p->loss.lost_ns > 0 && count(p, ranks, spoke, &over) && over > 0;
}

bool program_verify_loss(const program *p, const rank *ranks, char *text,
                         size_t size) {
  int spoke[2], over;
  bool all = count(p, ranks, spoke, &over);
  bool for_ever = p->loss.ns == 0;
  int own = p->fault == CEL_FAULT_SILENT; /* it says so itself, too */
  bool right =
      over == 0 || (all && for_ever && spoke[0] == 1 && spoke[1] == own);
  bool begun = p->loss.ns > 0;
  uint64_t *which = over > 0 ? &ended : begun ? &went_on : &too_late;
  ++*which;
  if (!right)
    snprintf(text, size,
             "mismatch: rank %d is %s %s, of %d ranks %d end, %d of the others "
             "say so, and itself %d",
             p->loss.rank, own ? "silent" : "dead",
             for_ever ? "for ever" : "for a while", p->ranks, over, spoke[0],
             spoke[1]);
  return right;
}

void losses_print(void) {
  printf("a rank was lost: %llu ended, %llu went on, %llu were over before\n",
         (unsigned long long)ended, (unsigned long long)went_on,
         (unsigned long long)too_late);
}
