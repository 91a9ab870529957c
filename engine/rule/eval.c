#include "rule/eval.h"

#include <inttypes.h>

#include "rule/family.h"
#include "rule/listing.h"

cel_rule_fault cel__box_eval(const cel_rule_use *use, int b,
                             const cel_box *chunk, cel_box *raw, cel_box *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  cel_box r = cel_box_sized(1, 1, 1);
  if (!cel_box_is_empty(chunk)) {
    for (int j = 0; j < desc->buffer_dims; ++j)
      for (int upper = 0; upper < 2; ++upper) {
        cel_rule_fault fault =
            cel__program_eval(use, desc->code + desc->box[b].start[j][upper],
                              desc->box[b].length[j][upper], chunk,
                              upper ? &r.max[j] : &r.min[j]);
        if (fault) return fault;
      }
  } else {
    r.max[0] = 0;
  }
  *raw = r;
  if (!desc->box[b].clamp && !cel_box_covers(&use->extent, &r))
    return CEL_RULE_LEAVES;
  cel_box_intersect(&r, &use->extent, out);
  return CEL_RULE_FINE;
}

static cel_rule_fault look_up(const cel_rule_use *use, const cel_box *chunk,
                              cel_region *out) {
  const cel_box *box;
  int32_t n;
  if (!cel__listing_find(use->rule->listing, chunk, &box, &n))
    return CEL_RULE_UNLISTED;
  cel_region_assign(out, box, (uint32_t)n);
  return CEL_RULE_FINE;
}

/* Box 0 of a plain rule, raw, for a chunk that is not empty; false where a
 * number is out of bounds. */
static bool eval_plain(const cel_rule_use *use, const cel_box *chunk,
                       cel_box *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  cel_box r = cel_box_sized(1, 1, 1);
  for (int j = 0; j < desc->buffer_dims; ++j) {
    int d = use->rule->follows[j];
    if (d < 0) {
      for (int upper = 0; upper < 2; ++upper)
        if (cel__program_eval(use, desc->code + desc->box[0].start[j][upper],
                              desc->box[0].length[j][upper], chunk,
                              upper ? &r.max[j] : &r.min[j]) != CEL_RULE_FINE)
          return false;
      continue;
    }
    if (chunk->min[d] < -CEL_RULE_LIMIT || chunk->max[d] > CEL_RULE_LIMIT)
      return false;
    r.min[j] = chunk->min[d];
    r.max[j] = chunk->max[d];
  }
  *out = r;
  return true;
}

/* All boxes of a rule that has families. */
static cel_rule_fault eval_families(const cel_rule_use *use,
                                    const cel_box *chunk, cel_region *out) {
  cel__gathered all = {0};
  cel_rule_fault fault = CEL_RULE_FINE;
  bool empty = cel_box_is_empty(chunk);
  for (int b = 0; b < use->rule->desc.boxes && !fault && !empty; ++b) {
    cel_box raw, box;
    if (cel__family_dim(use, b) >= 0) {
      fault = cel__family_gather(use, b, chunk, CEL_RULE_GATHERED, &all);
      continue;
    }
    fault = cel__box_eval(use, b, chunk, &raw, &box);
    if (!fault) cel_vec_push(&all.list, box);
  }
  if (!fault && !cel__gathered_region(&all, out)) fault = CEL_RULE_MANY;
  cel_vec_release(&all.list);
  return fault;
}

cel_rule_fault cel__rule_eval(const cel_rule_use *use, const cel_box *chunk,
                              cel_region *out) {
  if (use->rule->listing != NULL) return look_up(use, chunk, out);
  cel_box box;
  if (use->rule->plain && !cel_box_is_empty(chunk) &&
      eval_plain(use, chunk, &box) &&
      (use->rule->desc.box[0].clamp || cel_box_covers(&use->extent, &box))) {
    cel_box_intersect(&box, &use->extent, &box);
    cel_region_assign(out, &box, 1);
    return CEL_RULE_FINE;
  }
  if (use->rule->families) return eval_families(use, chunk, out);
  cel_box boxes[CEL_RULE_BOXES], raw;
  int n = use->rule->desc.boxes;
  for (int b = 0; b < n; ++b) {
    cel_rule_fault fault = cel__box_eval(use, b, chunk, &raw, &boxes[b]);
    if (fault) return fault;
  }
  cel_region_assign(out, boxes, (uint32_t)n);
  return CEL_RULE_FINE;
}

/* The same of box b alone, raw, also of a family, of which *raw is the box that
 * fails or the one around all. */
static cel_rule_fault box_fault(const cel_rule_use *use, int b,
                                const cel_box *chunk, cel_box *raw,
                                cel_box *out) {
  return cel__family_dim(use, b) >= 0 && !cel_box_is_empty(chunk)
             ? cel__family_around(use, b, chunk, raw, out)
             : cel__box_eval(use, b, chunk, raw, out);
}

/* How many boxes families come to for a chunk that is not empty, before they
 * are cut at each other. */
static int64_t count_boxes(const cel_rule_use *use, const cel_box *chunk) {
  cel__gathered all = {0};
  for (int b = 0; b < use->rule->desc.boxes; ++b)
    if (cel__family_dim(use, b) >= 0)
      cel__family_gather(use, b, chunk, INT64_MAX, &all);
  cel_vec_release(&all.list);
  return all.n;
}

/* Words for the fault that box b has for the chunk. */
static cel_status explain(const cel_rule_use *use, int b,
                          const cel_box *chunk) {
  const cel_rule_desc *desc = &use->rule->desc;
  char c[128], r[128], e[128];
  cel_box raw, clipped;
  cel_box_print(chunk, desc->task_dims, c, sizeof c);
  if (use->rule->listing != NULL)
    return cel_fail(CEL_E_RANGE,
                    "the range mapper was not evaluated for the chunk %s", c);
  if (b == desc->boxes) {
    int64_t n = count_boxes(use, chunk);
    return cel_fail(CEL_E_RANGE,
                    "the range mapper gives %s%" PRId64 " boxes for the chunk"
                    " %s; %d are the most: give boxes that lie side by side, or"
                    " one around several where they are only read",
                    n > CEL_RULE_REGION ? "" : "more than ",
                    n > CEL_RULE_REGION ? n : CEL_RULE_REGION, c,
                    CEL_RULE_REGION);
  }
  cel_rule_fault fault = box_fault(use, b, chunk, &raw, &clipped);
  if (fault == CEL_RULE_TURNS)
    return cel_fail(CEL_E_RANGE,
                    "the bounds of the range mapper's boxes turn more than %d"
                    " times along the chunk %s, as by celer.floor: write them"
                    " for the chunk, not for each index",
                    CEL_RULE_RUNS, c);
  if (fault == CEL_RULE_DIVIDES)
    return cel_fail(CEL_E_RANGE,
                    "the range mapper divides by less than 1 for"
                    " the chunk %s",
                    c);
  if (fault == CEL_RULE_OVERFLOWS)
    return cel_fail(CEL_E_RANGE,
                    "the range mapper leaves the integers up to"
                    " 2^53 for the chunk %s",
                    c);
  cel_box_print(&raw, desc->buffer_dims, r, sizeof r);
  cel_box_print(&use->extent, desc->buffer_dims, e, sizeof e);
  return cel_fail(CEL_E_RANGE,
                  "the range mapper gives the box %s for the chunk %s, which"
                  " leaves the buffer %s",
                  r, c, e);
}

cel_status cel_rule_eval(const cel_rule_use *use, const cel_box *chunk,
                         cel_region *out) {
  if (cel__rule_eval(use, chunk, out) == CEL_RULE_FINE) return CEL_E_OK;
  cel_box raw, clipped;
  int b = 0;
  if (use->rule->listing != NULL) return explain(use, b, chunk);
  while (b < use->rule->desc.boxes &&
         box_fault(use, b, chunk, &raw, &clipped) == CEL_RULE_FINE)
    ++b;
  return explain(use, b, chunk);
}

cel_status cel_rule_eval_box(const cel_rule_use *use, int b,
                             const cel_box *chunk, cel_box *out) {
  cel_box raw;
  if (box_fault(use, b, chunk, &raw, out) == CEL_RULE_FINE) return CEL_E_OK;
  return explain(use, b, chunk);
}
