/* What programs have: a generator that no longer makes something of it tests
 * less than it seems to. */
#include <stdio.h>
#include <string.h>

#include "random/program.h"

/* NAME, words. */
#define FEATURES(_)                                                            \
  _(SEQUENTIAL, "sequential effects")                                          \
  _(EXCLUSIVE, "exclusive ones")                                               \
  _(RELAXED, "relaxed ones")                                                   \
  _(SHARED_SEQUENTIAL, "sequential ones of the cluster")                       \
  _(SHARED_EXCLUSIVE, "exclusive ones of the cluster")                         \
  _(SHARED_RELAXED, "relaxed ones of the cluster")                             \
  _(SHARED_BY_FEW, "of the cluster where ranks have nothing to do")            \
  _(SEVERAL_EFFECTS, "tasks with several effects")                             \
  _(OPAQUE_EFFECTS, "tasks with effects and an opaque mapper")                 \
  _(COLLECTIVE, "collective tasks")                                            \
  _(COLLECTIVE_EFFECTS, "collective tasks with effects")                       \
  _(COLLECTIVE_EXCLUSIVE, "exclusive effects of collective tasks")             \
  _(COLLECTIVE_SHARED, "effects of such on what ranks share")                  \
  _(ADD, "sums")                                                               \
  _(XOR, "reductions by exclusive or")                                         \
  _(MAX, "by the greatest")                                                    \
  _(MIN, "by the least")                                                       \
  _(WIDE, "sums in rows of other elements")                                    \
  _(DOUBLES, "sums of doubles")                                                \
  _(ONTO, "reductions onto what was there")                                    \
  _(ONE, "reductions into one element")                                        \
  _(ARRAYS, "into arrays")                                                     \
  _(SEVERAL_REDUCTIONS, "kernels with several reductions")                     \
  _(GROUP_REDUCTIONS, "reductions of work groups")                             \
  _(WEIGHED_REDUCTIONS, "reductions by ranks of different weights")            \
  _(REDUCTIONS_BY_FEW, "reductions where ranks have nothing to do")            \
  _(REDUCTIONS_OF_NOTHING, "reductions of no items")                           \
  _(CAPTURES, "captures")                                                      \
  _(CAPTURES_OF_PARTS, "captures of a part")                                   \
  _(CAPTURES_OF_EACH, "captures of another part on each rank")                 \
  _(CAPTURES_OF_OBJECTS, "captures of objects")                                \
  _(ENDS_OF_OBJECTS, "ends of objects")                                        \
  _(CUT_2D, "tasks cut along two dimensions")                                  \
  _(CUT_3D, "along three")                                                     \
  _(GRANULAR, "at a granularity")                                              \
  _(OVERSUBSCRIBED, "into runs")                                               \
  _(RANK_WEIGHTS, "by weights of ranks")                                       \
  _(DEVICE_WEIGHTS, "by weights of devices")                                   \
  _(AT, "tasks at a rank")                                                     \
  _(WHERE, "where a buffer lies")                                              \
  _(WHERE_WRITTEN, "where other ranks than 0 have written most")               \
  _(FOR_ALL, "tasks over numbers, of all ranks")                               \
  _(AT_EFFECTS, "tasks at one rank with effects of the cluster")               \
  _(AT_REDUCTIONS, "reductions at one rank")                                   \
  _(WAITED_FOR, "kernels that a device's thread waits for")                    \
  _(RESERVED, "buffers with room for all of them")                             \
  _(RESERVED_PARTS, "for a part")                                              \
  _(GAPS, "reads of more than the parts of chunks have")                       \
  _(MANY_BOXES, "reads of more than 16 boxes")                                 \
  _(APART, "buffers that are apart")                                           \
  _(APART_READ, "kernels that read such")                                      \
  _(APART_WRITTEN, "host tasks that write such")                               \
  _(APART_BY_EACH, "such by all ranks at once")                                \
  _(NAMED, "indices that are written")                                         \
  _(NAMED_AGAIN, "indices of which some is written anew")                      \
  _(GATHERED, "kernels that read what an index names")                         \
  _(GATHERED_RANGES, "that read ranges by a list's offsets")                   \
  _(GATHERED_THROUGH, "that read what elements of a list name")                \
  _(GATHERED_KEPT, "that read what was found for others")                      \
  _(GATHERED_AGAIN, "for which only rows are brought anew")                    \
  _(FOUND_BY_FEW, "indices that are looked at where ranks have none of it")    \
  _(COMBINED, "values pushed to elements")                                     \
  _(COMBINED_ONTO, "such onto what was there")                                 \
  _(COMBINED_REAL, "such of floats")                                           \
  _(APPENDED, "values pushed to bins")                                         \
  _(APPENDED_KEEPING, "such behind what bins hold")                            \
  _(APPENDED_MOVING, "such that leave a list elsewhere")                       \
  _(ITEMS_1D, "item-wise steps of one dimension")                              \
  _(ITEMS_2D, "item-wise ones of two")                                         \
  _(ITEMS_3D, "item-wise ones of three")                                       \
  _(ITEMS_WRITE, "item-wise ones that leave elements out")                     \
  _(ITEMS_READ_WRITE, "item-wise ones onto what was there")                    \
  _(ITEMS_DISCARD, "item-wise ones of all new elements")                       \
  _(ITEMS_INSIDE, "item-wise ones with a rim around them")                     \
  _(ITEMS_TWO, "item-wise ones that write two buffers")                        \
  _(ITEMS_REDUCE, "item-wise ones that reduce")                                \
  _(ITEMS_WRAP, "item-wise ones that read around ends")                        \
  _(FAMILIES, "mappers of a box for each index")                               \
  _(FAMILIES_WRITE, "such that write")                                         \
  _(ITEMS_OPAQUE, "item-wise ones with an opaque mapper")                      \
  _(CHAINED, "steps right after the one before in a chain")                    \
  _(CHAINED_FENCE, "such after a fence")                                       \
  _(CHAINED_EPOCH, "after an epoch")                                           \
  _(CHAINED_FREE, "after the end of a buffer")                                 \
  _(CHAINED_HOST, "after a host task")                                         \
  _(CHAINED_SPLIT, "after one of another split")                               \
  _(CHAINED_WEIGHTS, "after one of other weights")                             \
  _(CHAINED_LONG, "the eighth of a chain in a row")

typedef enum feature {
#define FEATURE_ENUM(name, words) HAS_##name,
  FEATURES(FEATURE_ENUM)
#undef FEATURE_ENUM
      FEATURE_COUNT
} feature;

static uint64_t seen[FEATURE_COUNT];

static void note(feature what, bool there) {
  seen[what] += there;
}

static bool leaves_out(const program *p, const step *s) {
  cel_box chunk;
  for (int k = 0; k < p->ranks; ++k)
    if (!step_chunk(p, s, k, &chunk)) return true;
  return false;
}

static bool has_opaque(const step *s) {
  for (int k = 0; k < s->accesses; ++k)
    if (s->access[k].rule->opaque) return true;
  return false;
}

static void note_effects(const program *p, const step *s) {
  bool collective = s->collective > 0;
  for (int k = 0; k < s->effects; ++k) {
    bool shared = p->scope[s->effect[k].object] == CEL_SCOPE_CLUSTER;
    cel_order order = s->effect[k].order;
    note((shared ? HAS_SHARED_SEQUENTIAL : HAS_SEQUENTIAL) + order, true);
    note(HAS_SHARED_BY_FEW, shared && leaves_out(p, s));
    note(HAS_COLLECTIVE_EXCLUSIVE,
         collective && !shared && order == CEL_ORDER_EXCLUSIVE);
    note(HAS_COLLECTIVE_SHARED,
         collective && shared && order != CEL_ORDER_RELAXED);
  }
  note(HAS_SEVERAL_EFFECTS, s->effects > 1);
  note(HAS_OPAQUE_EFFECTS, s->effects > 0 && has_opaque(s));
  note(HAS_COLLECTIVE, collective);
  note(HAS_COLLECTIVE_EFFECTS, collective && s->effects > 0);
}

/* Whether the items that a kernel keeps together are a work group. */
static bool has_groups(const step *s) {
  for (int d = 0; d < s->dims; ++d) {
    int64_t n = s->range.max[d] - s->range.min[d];
    int64_t g = s->permitted.granularity[d];
    if (g > 1 && n % g == 0 && s->placement == CEL_PLACE_SPLIT) return true;
  }
  return false;
}

static void note_reduction(const program *p, const step *s, const access *a) {
  bool none = cel_box_is_empty(&s->range);
  note(HAS_ADD + (a->reduce - REDUCE_ADD), true);
  note(HAS_ONTO, a->mode == CEL_MODE_READ_WRITE);
  bool one = cel_box_volume(&p->buffer[a->buffer].extent) == 1;
  note(one ? HAS_ONE : HAS_ARRAYS, true);
  note(HAS_REDUCTIONS_OF_NOTHING, none);
  if (none) return;
  note(HAS_GROUP_REDUCTIONS, has_groups(s));
  note(HAS_WEIGHED_REDUCTIONS, s->rank_weights);
  note(HAS_REDUCTIONS_BY_FEW, leaves_out(p, s));
}

static void note_reductions(const program *p, const step *s) {
  int n = 0;
  for (int k = 0; k < s->accesses; ++k) {
    if (!reduces(&s->access[k])) continue;
    note_reduction(p, s, &s->access[k]);
    ++n;
  }
  note(HAS_SEVERAL_REDUCTIONS, n > 1);
}

static void note_split(const step *s) {
  int cut = 0;
  bool granular = false;
  for (int d = 0; d < s->dims; ++d) {
    cut += s->permitted.cut[d];
    granular |= s->permitted.cut[d] && s->permitted.granularity[d] > 1;
  }
  note(HAS_CUT_2D, cut == 2);
  note(HAS_CUT_3D, cut == 3);
  note(HAS_GRANULAR, granular);
  note(HAS_OVERSUBSCRIBED, s->oversubscribe > 1);
  note(HAS_RANK_WEIGHTS, s->rank_weights);
  note(HAS_DEVICE_WEIGHTS, s->device_weights);
}

static void note_mappers(const program *p, const step *s) {
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    note(HAS_GAPS, has_gaps(p, s, a));
    note(HAS_MANY_BOXES, a->rule != NULL && a->rule->desc.boxes > 16);
    bool families = a->rule != NULL && rule_has_families(a->rule);
    note(HAS_FAMILIES, families);
    note(HAS_FAMILIES_WRITE, families && cel_mode_produces(a->mode));
  }
}

static void note_apart(const program *p, const step *s) {
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    if (!is_apart(p, a)) continue;
    bool writes = cel_mode_produces(a->mode);
    note(HAS_APART_READ, !writes && s->task == CEL_TASK_KERNEL);
    note(HAS_APART_WRITTEN, writes);
    note(HAS_APART_BY_EACH,
         writes && s->placement == CEL_PLACE_EACH && p->ranks > 1);
  }
}

static void note_home(const program *p, const step *s) {
  if (!step_placed(s)) return;
  bool shared = false, reducing = false;
  for (int k = 0; k < s->effects; ++k)
    shared |= p->scope[s->effect[k].object] == CEL_SCOPE_CLUSTER;
  for (int k = 0; k < s->accesses; ++k) reducing |= reduces(&s->access[k]);
  note(HAS_AT, s->home.buffer < 0);
  note(HAS_WHERE, s->home.buffer >= 0);
  note(HAS_WHERE_WRITTEN, s->home.buffer >= 0 && s->home.rank > 0);
  note(HAS_AT_EFFECTS, s->home.rank > 0 && shared);
  note(HAS_AT_REDUCTIONS, s->home.rank > 0 && reducing);
}

static void note_data(const program *p, const step *s) {
  data_work before = s->number > 0 ? p->step[s->number - 1]->data : DATA_NOT;
  bool again = false;
  for (int i = 0; s->data == DATA_NAME && i < s->number; ++i)
    again |= p->step[i]->data == DATA_NAME;
  note(HAS_NAMED, s->data == DATA_NAME);
  note(HAS_NAMED_AGAIN, again);
  if (s->data == DATA_GATHER) {
    note(HAS_GATHERED, true);
    note(HAS_GATHERED_RANGES, s->image == 0);
    note(HAS_GATHERED_THROUGH, s->image == 1);
    note(HAS_GATHERED_KEPT, before != DATA_BRING);
    note(HAS_GATHERED_AGAIN,
         before == DATA_BRING && p->step[s->number - 2]->data != DATA_MEET);
  }
  note(HAS_FOUND_BY_FEW, s->data == DATA_FIND && leaves_out(p, s));
  bool keeps =
      s->data >= DATA_COMBINE && s->access[1].mode == CEL_MODE_READ_WRITE;
  note(HAS_COMBINED, s->data == DATA_COMBINE);
  note(HAS_COMBINED_ONTO, s->data == DATA_COMBINE && keeps);
  note(HAS_COMBINED_REAL, s->data == DATA_COMBINE && s->type.class_ == 'f');
  note(HAS_APPENDED, s->data == DATA_APPEND);
  note(HAS_APPENDED_KEEPING, s->data == DATA_APPEND && keeps);
  note(HAS_APPENDED_MOVING,
       s->data == DATA_APPEND && keeps && s->from != s->to);
}

static void note_group(const program *p, const step *s) {
  note_reductions(p, s);
  if (cel_box_is_empty(&s->range)) return;
  note_data(p, s);
  note(HAS_FOR_ALL, step_for_all(p, s));
  note(HAS_WAITED_FOR, s->placement == CEL_PLACE_SPLIT && step_waits(s));
  note_home(p, s);
  note_apart(p, s);
  note_mappers(p, s);
  note_effects(p, s);
  note_split(s);
}

static void note_fence(const program *p, const step *s) {
  bool each = s->accesses > 0;
  note(HAS_CAPTURES, true);
  note(HAS_CAPTURES_OF_EACH, each);
  note(HAS_CAPTURES_OF_PARTS,
       !each && !cel_box_equal(&s->box, &p->buffer[s->buffer].extent));
}

static void note_items(const program *p, const step *s) {
  int writes = 0;
  bool inside = false, wraps = false;
  for (int k = 0; k < s->accesses; ++k) {
    const access *a = &s->access[k];
    cel_box extent = p->buffer[a->buffer].extent;
    note(HAS_ITEMS_REDUCE, reduces(a));
    wraps |= a->rule->wraps;
    if (reduces(a) || !cel_mode_produces(a->mode)) continue;
    ++writes;
    inside |= !cel_box_equal(&extent, &s->range);
    note(HAS_ITEMS_WRITE, a->mode == CEL_MODE_WRITE);
    note(HAS_ITEMS_READ_WRITE, a->mode == CEL_MODE_READ_WRITE);
    note(HAS_ITEMS_DISCARD, a->mode == CEL_MODE_DISCARD_WRITE);
  }
  note(HAS_ITEMS_1D + s->dims - 1, true);
  note(HAS_ITEMS_INSIDE, inside);
  note(HAS_ITEMS_WRAP, wraps);
  note(HAS_ITEMS_TWO, writes > 1);
  note(HAS_ITEMS_OPAQUE, has_opaque(s));
}

/* What a step of a chain comes after; whether nothing is between it and one
 * like it. */
static bool note_chained(const step *s, const step *before) {
  if (s->chain != before->chain) return false;
  bool host = before->task == CEL_TASK_HOST;
  bool split = same_split(s, before), weights = same_weights(s, before);
  bool follows = split && weights && !host && s->task == CEL_TASK_KERNEL &&
                 !has_opaque(s) && !has_opaque(before);
  note(HAS_CHAINED_HOST, host);
  note(HAS_CHAINED_SPLIT, !split);
  note(HAS_CHAINED_WEIGHTS, !weights);
  note(HAS_CHAINED, follows);
  return follows;
}

static void note_chains(const program *p) {
  int row = 0;
  for (int i = 0; i < p->steps; ++i) {
    const step *s = p->step[i];
    bool between = i > 0 && i + 1 < p->steps && p->step[i - 1]->chain > 0 &&
                   p->step[i - 1]->chain == p->step[i + 1]->chain;
    note(HAS_CHAINED_FENCE, between && s->kind == STEP_FENCE);
    note(HAS_CHAINED_EPOCH, between && s->kind == STEP_EPOCH);
    note(HAS_CHAINED_FREE, between && s->kind == STEP_FREE);
    if (s->chain > 0) note_items(p, s);
    bool follows = s->chain > 0 && i > 0 && note_chained(s, p->step[i - 1]);
    row = follows ? row + 1 : 0;
    note(HAS_CHAINED_LONG, row == 7);
  }
}

static void note_buffers(const program *p) {
  for (int b = 0; b < p->buffers; ++b) {
    cel_box room;
    note(HAS_APART, p->buffer[b].apart);
    if (!buffer_room(&p->buffer[b], &room)) continue;
    bool all = cel_box_equal(&room, &p->buffer[b].extent);
    note(all ? HAS_RESERVED : HAS_RESERVED_PARTS, true);
  }
}

void census_take(const program *p) {
  note_buffers(p);
  note_chains(p);
  for (int i = 0; i < p->steps; ++i) {
    const step *s = p->step[i];
    if (s->dropped) continue;
    if (s->kind == STEP_GROUP) note_group(p, s);
    if (s->kind == STEP_FENCE) note_fence(p, s);
    note(HAS_CAPTURES_OF_OBJECTS, s->kind == STEP_LOOK);
    note(HAS_ENDS_OF_OBJECTS, s->kind == STEP_END);
  }
}

void census_print(void) {
  static const char *const words[] = {
#define FEATURE_WORDS(name, words) words,
      FEATURES(FEATURE_WORDS)
#undef FEATURE_WORDS
  };
  for (int i = 0; i < FEATURE_COUNT; ++i)
    printf("%s%llu %s", i == 0 ? "programs with " : ", ",
           (unsigned long long)seen[i], words[i]);
  printf("\n");
}
