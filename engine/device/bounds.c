#include "device/bounds.h"

#include "base/text.h"

static void add_point(cel_text *out, const int64_t *at, int32_t dims) {
  cel_text_format(out, "(");
  for (int32_t d = 0; d < dims; ++d)
    cel_text_format(out, "%s%lld", d > 0 ? ", " : "", (long long)at[d]);
  cel_text_format(out, ")");
}

void cel__text_add_box(cel_text *out, const cel_box *box, int32_t dims) {
  if (cel_box_is_empty(box)) cel_text_format(out, "nothing");
  for (int32_t d = 0; d < dims && !cel_box_is_empty(box); ++d)
    cel_text_format(out, "%s[%lld, %lld)", d > 0 ? " x " : "",
                    (long long)box->min[d], (long long)box->max[d]);
}

static bool tells_of_edges(const cel_param *p) {
  return p->kind == CEL_PARAM_VALUE && p->dims > 0;
}

/* The parameter that takes view number `view`; *number counts from 1, without
 * the item and what nobody passes. */
static const cel_param *param_of(const cel_param *param, int32_t view,
                                 int32_t *number) {
  *number = 0;
  for (; param->kind != 0; ++param) {
    if ((param->kind == CEL_PARAM_VALUE && !tells_of_edges(param)) ||
        cel__param_is_view(param))
      ++*number;
    if (cel__param_is_view(param) && view-- == 0) return param;
  }
  cel_bug("a kernel without that view");
}

static const char *spelling(const cel_param *p) {
  return tells_of_edges(p + 1)        ? "near"
         : p->kind == CEL_PARAM_IN    ? "in"
         : p->kind == CEL_PARAM_OUT   ? "out"
         : p->kind == CEL_PARAM_INOUT ? "inout"
                                      : "reducer";
}

void cel__fault_begin(cel_text *out, const cel__fault *fault,
                      const char *kernel, const cel_param *param) {
  int32_t number;
  const cel_param *p = param_of(param, fault->view, &number);
  cel_text_format(out, "kernel %s: item ", kernel);
  add_point(out, fault->item, fault->item_dims);
  cel_text_format(out, " touches element ");
  add_point(out, fault->at, fault->dims);
  cel_text_format(out, " of argument %d, %s<%s, %d>, whose mapper promises ",
                  number, spelling(p), p->type, p->dims);
}

cel_status cel__fault_end(cel_text *text, const cel__fault *fault) {
  cel_fail(CEL_E_TASK, "%s", text->at);
  cel_vec_release(text);
  cel_error error = *cel_error_last();
  error.access = fault->view + 1;
  return cel_fail_with(&error);
}

cel_status cel__fault_report(const cel__fault *fault, const char *kernel,
                             const cel_param *param) {
  cel_text text = {0};
  cel__fault_begin(&text, fault, kernel, param);
  cel__text_add_box(&text, &fault->promised, fault->dims);
  cel_text_format(&text, " to this chunk");
  return cel__fault_end(&text, fault);
}
