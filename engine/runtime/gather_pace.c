/* All ranks' paces, on all ranks: a host task on each writes its row of a
 * buffer, of which every rank takes a snapshot. */
#include "base/hash.h"
#include "runtime/internal.h"

typedef struct pace_work {
  cel_work work; /* first */
  cel_pace *pace;
  int32_t devices;
} pace_work;

static cel_status write_row(const cel_work *work, const cel_call *call) {
  const pace_work *mine = (const pace_work *)work;
  const cel_view *view = &call->view[0];
  int64_t at = call->rank - view->layout.min[0];
  double *row = (double *)view->base + at * CEL_PACE_NUMBERS;
  row[0] = mine->devices;
  for (int32_t d = 0; d < CEL_DEVICES; ++d) {
    int64_t items, ns;
    cel_pace_take(mine->pace, d, &items, &ns);
    row[2 * d + 1] = (double)items;
    row[2 * d + 2] = (double)ns / 1e9;
  }
  return CEL_E_OK;
}

static void destroy_work(cel_work *work) {
  cel_free(work);
}

/* Row k for the chunk [k, k + 1). */
static const cel_rule *row_rule(cel_engine *e) {
  const int64_t code[] = {CEL_RULE_MIN,   0, CEL_RULE_MAX,    0,
                          CEL_RULE_CONST, 0, CEL_RULE_BUFFER, 1};
  cel_rule_box box = {.clamp = false};
  cel_rule_desc desc = {.task_dims = 1,
                        .buffer_dims = 2,
                        .boxes = 1,
                        .box = &box,
                        .code = code,
                        .code_length = 8};
  for (int i = 0; i < 4; ++i) {
    box.start[i / 2][i % 2] = 2 * i;
    box.length[i / 2][i % 2] = 2;
  }
  const cel_rule *rule;
  if (cel_rules_intern(e->rules, &desc, &rule) != CEL_E_OK)
    cel_bug("the rule of paces: %s", cel_error_last()->text);
  return rule;
}

static cel_status submit(cel_engine *e, const cel_buffer *rows,
                         cel_location location) {
  pace_work *work = cel_alloc_zero(sizeof *work);
  *work = (pace_work){.work = {.references = 1,
                               .fn = write_row,
                               .destroy = destroy_work,
                               .hash = cel_hash("pace", 4, 0)},
                      .pace = e->config.pace,
                      .devices = e->config.backend->devices};
  const cel_rule *rule = row_rule(e);
  cel_box ranks = cel_box_sized(e->config.transport->ranks, 1, 1);
  cel_access access = {
      .buffer = rows,
      .mode = CEL_MODE_DISCARD_WRITE,
      .use = {.rule = rule, .range = ranks, .extent = rows->extent}};
  cel_group group = {.kind = CEL_TASK_HOST,
                     .placement = CEL_PLACE_EACH,
                     .dims = 1,
                     .range = ranks,
                     .permitted = {{true}, {1, 1, 1}},
                     .accesses = 1,
                     .access = &access,
                     .work = &work->work,
                     .name = "pace",
                     .location = location};
  cel_status status = cel_engine_submit(e, &group);
  cel_rule_release(rule);
  cel_work_release(&work->work);
  return status;
}

cel_status cel_engine_paces(cel_engine *engine, cel_location location,
                            cel_fence **out) {
  int64_t extent[] = {engine->config.transport->ranks, CEL_PACE_NUMBERS, 1};
  const cel_buffer *rows = cel_engine_buffer(engine, 2, extent, sizeof(double),
                                             0, "paces", NULL, false);
  cel_status status = submit(engine, rows, location);
  if (status == CEL_E_OK)
    status = cel_engine_fence(engine, rows, &rows->extent, location, out);
  cel_engine_buffer_free(engine, rows);
  return status;
}
