#include "rule/family.h"
#include "rule/linear.h"

/* A form of one variable at most. */
static bool affine_of(const cel_linear *form, cel_affine *out) {
  cel_affine r = {.c = form->c};
  for (int i = 0; i < 6; ++i) {
    if (!form->k[i]) continue;
    if (r.a) return false;
    r.a = form->k[i];
    r.dim = i % 3;
    r.of_max = i >= 3;
  }
  *out = r;
  return true;
}

/* Normal form: a constant bound is an end of the clip, so that the clip alone
 * decides in that dimension and equal boxes have equal members. */
static void settle(cel_affine_box *box) {
  for (int j = 0; j < CEL_DIMS; ++j) {
    if (!box->lo[j].a && box->lo[j].c > box->clip.min[j])
      box->clip.min[j] = box->lo[j].c;
    if (!box->hi[j].a && box->hi[j].c < box->clip.max[j])
      box->clip.max[j] = box->hi[j].c;
  }
  if (cel_box_is_empty(&box->clip)) {
    *box = (cel_affine_box){0};
    return;
  }
  for (int j = 0; j < CEL_DIMS; ++j) {
    if (!box->lo[j].a) box->lo[j].c = box->clip.min[j];
    if (!box->hi[j].a) box->hi[j].c = box->clip.max[j];
  }
}

/* Of a plain rule; false where an expression has no value. */
static bool affine_plain(const cel_rule_use *use, cel_affine_box *out) {
  const cel_rule_desc *desc = &use->rule->desc;
  *out = (cel_affine_box){.clip = use->extent};
  for (int j = 0; j < CEL_DIMS; ++j) {
    cel_affine *lo = &out->lo[j], *hi = &out->hi[j];
    int d = use->rule->follows[j];
    hi->c = 1;
    if (j >= desc->buffer_dims) continue;
    if (d >= 0) {
      *lo = (cel_affine){.a = 1, .dim = d};
      *hi = (cel_affine){.a = 1, .dim = d, .of_max = true};
    } else if (cel__program_eval(use, desc->code + desc->box[0].start[j][0],
                                 desc->box[0].length[j][0], &use->range,
                                 &lo->c) ||
               cel__program_eval(use, desc->code + desc->box[0].start[j][1],
                                 desc->box[0].length[j][1], &use->range,
                                 &hi->c)) {
      return false;
    }
  }
  return true;
}

bool cel_rule_to_affine(const cel_rule_use *use, int b, cel_affine_box *out) {
  cel_domain domain;
  cel_linear_box linear;
  if (cel_box_is_empty(&use->range)) {
    *out = (cel_affine_box){0};
    return true;
  }
  if (use->rule->plain && affine_plain(use, out)) {
    settle(out);
    return true;
  }
  cel__domain_whole(&use->range, &domain);
  if (!cel__box_linear(use, &domain, b, &linear)) return false;
  int each = cel__family_dim(use, b);
  if (each >= 0 && !cel__family_join(each, &domain, &linear)) return false;
  cel_affine_box r = {.clip = linear.clip};
  for (int j = 0; j < CEL_DIMS; ++j)
    if (!affine_of(&linear.lo[j], &r.lo[j]) ||
        !affine_of(&linear.hi[j], &r.hi[j]))
      return false;
  settle(&r);
  *out = r;
  return true;
}

/* ---- classes ------------------------------------------------------------- */

static bool is_variable(const cel_affine *f, bool of_max) {
  return f->a == 1 && f->c == 0 && f->of_max == of_max;
}

/* Whether buffer dimension j is [chunk.min[d], chunk.max[d]) for a d of its
 * own, one for each dimension. */
static cel_rule_class class_of_box(const cel_rule_use *use,
                                   const cel_affine_box *box) {
  int dims = use->rule->desc.buffer_dims;
  bool constant = true, in_order = true, copies = true, used[3] = {false};
  for (int j = 0; j < dims; ++j) {
    const cel_affine *lo = &box->lo[j], *hi = &box->hi[j];
    constant = constant && !lo->a && !hi->a;
    copies = copies && is_variable(lo, false) && is_variable(hi, true) &&
             lo->dim == hi->dim && !used[lo->dim];
    if (!copies) continue;
    used[lo->dim] = true;
    in_order = in_order && lo->dim == j;
  }
  if (constant) return CEL_RULE_IS_CONSTANT;
  if (!copies || use->rule->desc.task_dims != dims ||
      !cel_box_equal(&box->clip, &use->extent))
    return CEL_RULE_IS_AFFINE;
  return in_order ? CEL_RULE_IS_IDENTITY : CEL_RULE_IS_PERMUTATION;
}

cel_rule_class cel_rule_classify(const cel_rule_use *use) {
  int boxes = use->rule->desc.boxes;
  if (use->rule->listing != NULL) return CEL_RULE_IS_GENERAL;
  cel_rule_class all = CEL_RULE_IS_CONSTANT;
  for (int b = 0; b < boxes; ++b) {
    cel_affine_box box;
    if (!cel_rule_to_affine(use, b, &box)) return CEL_RULE_IS_GENERAL;
    cel_rule_class one = class_of_box(use, &box);
    if (boxes > 1 && one != CEL_RULE_IS_CONSTANT) one = CEL_RULE_IS_AFFINE;
    if (one > all) all = one;
  }
  return all;
}
