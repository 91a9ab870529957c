/* The random programs of fuzz_instr. */
#include "instr/fuzz.h"

model *fuzz_model_new(world *w) {
  model *m = cel_alloc_zero(sizeof *m);
  int dims = (int)any(w, 0, 3);
  m->buffer.id = w->models.n;
  m->buffer.dims = dims;
  m->buffer.extent =
      cel_box_sized(dims > 0 ? any(w, 1, 9) : 1, dims > 1 ? any(w, 1, 6) : 1,
                    dims > 2 ? any(w, 1, 4) : 1);
  m->buffer.element_size = 8;
  m->buffer.name = "b";
  m->live = true;
  m->init = (cel_init){.fill = fuzz_fill, .context = &m->buffer};
  if (chance(w, 50)) m->buffer.init = &m->init;
  size_t n = (size_t)cel_box_volume(&m->buffer.extent);
  m->value = cel_alloc_zero(n * sizeof *m->value);
  m->defined = cel_alloc_zero(n * sizeof *m->defined);
  if (m->buffer.init != NULL) each_point(p, &m->buffer.extent) {
      int64_t i = index_in(&m->buffer.extent, p);
      m->value[i] = fuzz_first_value(&m->buffer, p);
      m->defined[i] = true;
    }
  cel_vec_push(&w->models, m);
  return m;
}

static model *model_any(world *w) {
  CEL_VEC(model *) live = {0};
  for (uint32_t i = 0; i < w->models.n; ++i)
    if (w->models.at[i]->live) cel_vec_push(&live, w->models.at[i]);
  model *m = live.at[any(w, 0, live.n - 1)];
  cel_vec_release(&live);
  return m;
}

/* Code of a rule as it is put together. */
typedef struct coder {
  cel_rule_desc desc;
  cel_rule_box box[3];
  int64_t code[512];
  int64_t params[CEL_RULE_PARAMS];
} coder;

static void code_put(coder *c, int64_t word) {
  c->code[c->desc.code_length++] = word;
}

static void code_number(world *w, coder *c, int64_t number) {
  bool param = c->desc.params < CEL_RULE_PARAMS && chance(w, 30);
  code_put(c, param ? CEL_RULE_PARAM : CEL_RULE_CONST);
  code_put(c, param ? c->desc.params : number);
  if (param) c->params[c->desc.params++] = number;
}

/* factor * chunk.{min|max}[d] + offset */
static void code_chunk(world *w, coder *c, int op, int d, int64_t factor,
                       int64_t offset) {
  code_put(c, op);
  code_put(c, d);
  if (factor != 1) {
    code_put(c, CEL_RULE_CONST);
    code_put(c, factor);
    code_put(c, CEL_RULE_MUL);
  }
  if (offset == 0) return;
  code_number(w, c, offset);
  code_put(c, CEL_RULE_ADD);
}

static void code_dim(world *w, coder *c, int b, int j, bool writes,
                     const model *m, int task_dims) {
  int64_t extent = m->buffer.extent.max[j];
  int kind = (int)any(w, 0, writes ? 5 : 7);
  int d = j < task_dims && chance(w, 80) ? j : (int)any(w, 0, task_dims - 1);
  int64_t lo = any(w, 0, extent - 1), hi = any(w, lo, extent);
  int64_t shift = chance(w, 70) ? 0 : any(w, -2, 2);
  int64_t width = writes || chance(w, 40) ? 0 : any(w, -1, 2);
  int64_t factor = chance(w, 85) ? 1 : any(w, -1, 2);
  for (int side = 0; side < 2; ++side) {
    c->box[b].start[j][side] = c->desc.code_length;
    int op = (side == 0) == (factor >= 0) ? CEL_RULE_MIN : CEL_RULE_MAX;
    if (kind == 0 || kind == 6) {
      code_number(w, c, side == 0 ? lo : hi);
    } else if (kind == 7) {
      code_put(c, side == 0 ? CEL_RULE_CONST : CEL_RULE_BUFFER);
      code_put(c, side == 0 ? 0 : j);
    } else {
      code_chunk(w, c, op, d, factor,
                 shift + (side == 0 ? -width : width) +
                     (factor < 0 ? extent : 0));
    }
    c->box[b].length[j][side] = c->desc.code_length - c->box[b].start[j][side];
  }
}

static void access_any(world *w, job *j, int task_dims) {
  uint32_t a = j->accesses;
  const model *m = model_any(w);
  cel_mode mode = (cel_mode)any(w, 0, 3);
  coder c = {.desc = {.task_dims = task_dims, .buffer_dims = m->buffer.dims}};
  bool writes = cel_mode_produces(mode);
  c.desc.boxes = writes || chance(w, 60) ? 1 : (int)any(w, 0, 3);
  for (int b = 0; b < c.desc.boxes; ++b) {
    c.box[b].clamp = chance(w, writes ? 50 : 80);
    for (int dim = 0; dim < m->buffer.dims; ++dim)
      code_dim(w, &c, b, dim, writes, m, task_dims);
  }
  c.desc.box = c.box;
  c.desc.code = c.code;
  const cel_rule *rule;
  if (cel_rules_intern(w->rules, &c.desc, &rule) != CEL_E_OK)
    fail("%s", cel_error_last()->text);
  memcpy(j->params[a], c.params, sizeof c.params);
  j->access[a] =
      (cel_access){.buffer = &m->buffer,
                   .mode = mode,
                   .use = {rule, j->params[a], j->range, m->buffer.extent}};
  ++j->accesses;
}

/* Whether what one access writes is touched by another: the result would hang
 * on the order of the units. */
static bool races(const job *j) {
  bool bad = false;
  for (uint32_t a = 0; a < j->accesses; ++a)
    for (uint32_t b = 0; b < j->accesses; ++b) {
      if (a == b || j->access[a].buffer != j->access[b].buffer) continue;
      if (!cel_mode_produces(j->access[a].mode)) continue;
      cel_region ra = {0}, rb = {0};
      bool known =
          cel_rule_eval(&j->access[a].use, &j->range, &ra) == CEL_E_OK &&
          cel_rule_eval(&j->access[b].use, &j->range, &rb) == CEL_E_OK;
      cel_region_intersect(&ra, &ra, &rb);
      bad |= !known || ra.n > 0;
      cel_region_release(&ra);
      cel_region_release(&rb);
    }
  return bad;
}

static void job_gone(cel_work *work) {
  require(work->references == 0);
}

static job *job_new(world *w) {
  job *j = cel_alloc_zero(sizeof *j);
  cel_vec_push(&w->jobs, j);
  j->work = (cel_work){.references = 1,
                       .fn = fuzz_work,
                       .destroy = job_gone,
                       .hash = w->jobs.n,
                       .context = j};
  for (int d = 0; d < CEL_DIMS; ++d) j->permitted.granularity[d] = 1;
  return j;
}

static bool submit(world *w, job *j, cel_placement placement, int dims) {
  cel_weights weights = {.device = j->device_weight, .devices = 8};
  cel_group group = {.kind = j->kind,
                     .placement = placement,
                     .dims = dims,
                     .range = j->range,
                     .permitted = j->permitted,
                     .oversubscribe = j->oversubscribe,
                     .weights = j->weighted ? &weights : NULL,
                     .accesses = j->accesses,
                     .access = j->access,
                     .work = &j->work,
                     .name = "job",
                     .location = {"fuzz", 1}};
  uint64_t id;
  cel_status status = cel_task_graph_submit(w->tasks, &group, &id);
  if (status != CEL_E_OK) {
    ++fuzz_total.refused;
    require(cel_error_last()->text[0] != '\0' && cel_error_last()->line == 1);
  }
  return status == CEL_E_OK;
}

/* Most random rules are refused; tries until one is taken. */
static void task_any(world *w) {
  for (int tries = 0; tries < 20; ++tries) {
    job *j = job_new(w);
    int dims = (int)any(w, 1, 3);
    for (int d = 0; d < CEL_DIMS; ++d) {
      j->range.min[d] = d < dims && chance(w, 30) ? any(w, 0, 2) : 0;
      j->range.max[d] =
          j->range.min[d] + (d < dims ? any(w, 1, d == 0 ? 9 : 4) : 1);
    }
    j->kind = chance(w, 75) ? CEL_TASK_KERNEL : CEL_TASK_HOST;
    j->permitted.cut[0] = chance(w, 80);
    if (chance(w, 30)) j->permitted.granularity[0] = any(w, 1, 3);
    if (dims > 1 && chance(w, 30)) j->permitted.cut[1] = true;
    if (chance(w, 30)) j->permitted.granularity[1] = any(w, 1, 2);
    if (chance(w, 30)) j->oversubscribe = (int32_t)any(w, 1, 4);
    j->weighted = chance(w, 30);
    for (int d = 0; d < 8; ++d) j->device_weight[d] = any(w, d == 0, 3);
    int64_t accesses = any(w, 1, ACCESSES);
    while (j->accesses < accesses) access_any(w, j, dims);
    if (races(j)) continue;
    bool once = chance(w, 15);
    if (!submit(w, j, once ? CEL_PLACE_ONCE : CEL_PLACE_SPLIT, dims)) continue;
    ++fuzz_total.tasks;
    fuzz_interpret(w, j);
    return;
  }
}

void fuzz_check_buffer(world *w, const model *m) {
  coder c = {.desc = {.task_dims = 1, .buffer_dims = m->buffer.dims}};
  c.desc.boxes = 1;
  for (int d = 0; d < m->buffer.dims; ++d)
    for (int side = 0; side < 2; ++side) {
      c.box[0].start[d][side] = c.desc.code_length;
      c.box[0].length[d][side] = 2;
      code_put(&c, side == 0 ? CEL_RULE_CONST : CEL_RULE_BUFFER);
      code_put(&c, side == 0 ? 0 : d);
    }
  c.desc.box = c.box;
  c.desc.code = c.code;
  const cel_rule *rule;
  require(cel_rules_intern(w->rules, &c.desc, &rule) == CEL_E_OK);
  job *j = job_new(w);
  j->kind = CEL_TASK_HOST;
  j->range = cel_box_sized(1, 1, 1);
  j->accesses = 1;
  j->access[0] =
      (cel_access){.buffer = &m->buffer,
                   .mode = CEL_MODE_READ,
                   .use = {rule, j->params[0], j->range, m->buffer.extent}};
  size_t n = (size_t)cel_box_volume(&m->buffer.extent);
  j->against = m;
  j->expect =
      memcpy(cel_alloc(n * sizeof *m->value), m->value, n * sizeof *m->value);
  j->expect_defined = memcpy(cel_alloc(n * sizeof *m->defined), m->defined,
                             n * sizeof *m->defined);
  require(submit(w, j, CEL_PLACE_ONCE, 1));
}

/* A message by hand: the interpreter sends what it holds and takes in what
 * arrives. Boxes of one message do not overlap. */
static void message_any(world *w) {
  bool out = chance(w, 50);
  cel_piece *piece = cel_alloc_zero(MESSAGE_PIECES * sizeof *piece);
  cel_vec_push(&w->pieces, piece);
  uint32_t pieces = 0;
  size_t n = 0;
  for (int64_t i = any(w, 1, MESSAGE_PIECES); i > 0; --i) {
    const model *m = model_any(w);
    cel_box box;
    for (int d = 0; d < CEL_DIMS; ++d) {
      box.min[d] = any(w, 0, m->buffer.extent.max[d] - 1);
      box.max[d] = any(w, box.min[d] + 1, m->buffer.extent.max[d]);
    }
    bool meets = false;
    for (uint32_t p = 0; p < pieces; ++p)
      meets |=
          piece[p].buffer == &m->buffer && cel_box_meets(&piece[p].box, &box);
    if (meets) continue;
    piece[pieces++] = (cel_piece){&m->buffer, box};
    n += (size_t)cel_box_volume(&box);
  }
  parcel parcel = {cel_alloc(n * sizeof(uint64_t)), cel_alloc(n)};
  size_t at = 0;
  for (uint32_t p = 0; p < pieces; ++p) {
    const model *m = w->models.at[piece[p].buffer->id];
    each_point(x, &piece[p].box) {
      int64_t i = index_in(&m->buffer.extent, x);
      if (!out) m->value[i] = cel_random_next(&w->random);
      if (!out) m->defined[i] = true;
      parcel.value[at] = m->value[i];
      parcel.defined[at++] = m->defined[i];
    }
  }
  cel_command *command = fuzz_command_new(
      w, out ? CEL_COMMAND_PUSH : CEL_COMMAND_AWAIT_PUSH, w->last_task);
  command->message = (cel_message){.peer = 1,
                                   .sequence = (out ? w->sent : w->received).n,
                                   .bytes = n * 8,
                                   .pieces = pieces,
                                   .piece = piece};
  if (out)
    cel_vec_push(&w->sent, parcel);
  else
    cel_vec_push(&w->received, parcel);
  fuzz_command_add(w, command);
}

static cel_box box_any(world *w, const cel_box *within) {
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    box.min[d] = any(w, within->min[d], within->max[d] - 1);
    box.max[d] = any(w, box.min[d] + 1, within->max[d]);
  }
  return box;
}

static bool meets_any(const cel_exchange *x, const cel_buffer *buffer,
                      const cel_box *box) {
  for (; x != NULL; x = x->next)
    if (x->buffer == buffer && cel_box_meets(&x->box, box)) return true;
  return false;
}

/* This rank gives some of a box, or nothing, or all; `list` has those that it
 * is exchanged with. Null where it would meet one. */
static cel_exchange *share_any(world *w, const cel_exchange *list) {
  model *m = model_any(w);
  cel_box box = box_any(w, &m->buffer.extent);
  if (meets_any(list, &m->buffer, &box)) return NULL;
  cel_exchange *x = cel_alloc_zero(sizeof *x);
  cel_box *get = cel_alloc(6 * sizeof *get);
  cel_vec_push(&w->exchanges, x);
  *x = (cel_exchange){.pattern = CEL_PATTERN_BROADCAST,
                      .nth = list != NULL ? list->nth : w->exchanged.n,
                      .buffer = &m->buffer,
                      .box = box,
                      .get = get};
  if (chance(w, 80)) x->mine = chance(w, 30) ? x->box : box_any(w, &x->box);
  x->hull = x->box;
  x->gets = (uint32_t)cel_box_subtract(&x->hull, &x->mine, get);
  size_t n = (size_t)cel_box_volume(&x->box), at = 0;
  parcel parcel = {cel_alloc(n * sizeof(uint64_t)), cel_alloc(n)};
  each_point(p, &x->box) {
    int64_t i = index_in(&m->buffer.extent, p);
    cel_box point = {{p[0], p[1], p[2]}, {p[0] + 1, p[1] + 1, p[2] + 1}};
    bool given = cel_box_meets(&point, &x->mine);
    if (!given) m->value[i] = cel_random_next(&w->random);
    if (!given) m->defined[i] = true;
    parcel.value[at] = m->value[i];
    parcel.defined[at++] = m->defined[i];
  }
  cel_vec_push(&w->exchanged, parcel);
  return x;
}

/* A collective by hand, of one box or several. */
static void exchange_any(world *w) {
  cel_exchange *first = share_any(w, NULL), *last = first;
  while (chance(w, 40)) {
    cel_exchange *x = share_any(w, first);
    if (x == NULL) continue;
    last->next = x;
    last = x;
  }
  cel_command *command =
      fuzz_command_new(w, CEL_COMMAND_COLLECTIVE, w->last_task);
  command->exchange = first;
  fuzz_command_add(w, command);
}

void fuzz_act(world *w) {
  int64_t what = any(w, 0, 99);
  if (what < 55) {
    task_any(w);
  } else if (what < 60) {
    exchange_any(w);
  } else if (what < 75) {
    message_any(w);
  } else if (what < 80) {
    fuzz_check_buffer(w, model_any(w));
  } else if (what < 84) {
    model *m = model_any(w);
    m->live = false;
    cel_task_graph_free(w->tasks, &m->buffer);
    fuzz_model_new(w);
  } else if (what < 87) {
    cel_task_graph_epoch(w->tasks, (cel_location){0});
  } else if (what < 90) {
    cel_status status = w->full ? CEL_E_OK : cel_instr_graph_flush(w->instrs);
    require(status == CEL_E_OK || w->capacity != 0);
    w->full |= status != CEL_E_OK;
  }
  for (int64_t i = any(w, 0, 8); i > 0 && fuzz_step(w);) --i;
}
