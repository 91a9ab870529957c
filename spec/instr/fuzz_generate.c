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

static bool submit(world *w, job *j) {
  cel_weights weights = {.device = j->device_weight, .devices = 8};
  cel_group group = {.kind = j->kind,
                     .placement = j->placement,
                     .dims = j->dims,
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
  return j->taken = status == CEL_E_OK;
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
    j->placement = chance(w, 15) ? CEL_PLACE_ONCE : CEL_PLACE_SPLIT;
    j->dims = dims;
    if (!submit(w, j)) continue;
    ++fuzz_total.tasks;
    fuzz_interpret(w, j);
    return;
  }
}

void fuzz_check_buffer(world *w, const model *m, cel_task_kind kind) {
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
  j->kind = kind;
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
  j->placement = CEL_PLACE_ONCE;
  j->dims = 1;
  require(submit(w, j));
}

static cel_box box_any(world *w, const cel_box *within) {
  cel_box box;
  for (int d = 0; d < CEL_DIMS; ++d) {
    box.min[d] = any(w, within->min[d], within->max[d] - 1);
    box.max[d] = any(w, box.min[d] + 1, within->max[d]);
  }
  return box;
}

/* Whether a box meets a piece of the first `n` messages. */
static bool is_taken(const cel_message *messages, int64_t n,
                     const cel_buffer *buffer, const cel_box *box) {
  for (int64_t i = 0; i < n; ++i)
    for (uint32_t p = 0; p < messages[i].pieces; ++p)
      if (messages[i].piece[p].buffer == buffer &&
          cel_box_meets(&messages[i].piece[p].box, box))
        return true;
  return false;
}

/* Slice i of n of a box, along its longest dimension; may be empty. */
static cel_box slice_of(cel_box box, int64_t i, int64_t n) {
  int along = 0;
  for (int d = 1; d < CEL_DIMS; ++d)
    if (box.max[d] - box.min[d] > box.max[along] - box.min[along]) along = d;
  int64_t begin = box.min[along], length = box.max[along] - begin;
  box.min[along] = begin + length * i / n;
  box.max[along] = begin + length * (i + 1) / n;
  return box;
}

/* The values that message i carries: the interpreter's, or new ones. */
static void fill_parcel(world *w, cel_message *m, bool out) {
  size_t n = 0, at = 0;
  for (uint32_t p = 0; p < m->pieces; ++p)
    n += (size_t)cel_box_volume(&m->piece[p].box);
  parcel parcel = {cel_alloc(n * sizeof(uint64_t)), cel_alloc(n)};
  for (uint32_t p = 0; p < m->pieces; ++p) {
    const model *of = w->models.at[m->piece[p].buffer->id];
    each_point(x, &m->piece[p].box) {
      int64_t i = index_in(&of->buffer.extent, x);
      if (!out) of->value[i] = cel_random_next(&w->random);
      if (!out) of->defined[i] = true;
      parcel.value[at] = of->value[i];
      parcel.defined[at++] = of->defined[i];
    }
  }
  m->bytes = n * 8;
  m->sequence = (out ? w->sent : w->received).n;
  if (out)
    cel_vec_push(&w->sent, parcel);
  else
    cel_vec_push(&w->received, parcel);
}

/* Messages by hand, to or from one rank or several: the interpreter sends
 * what it holds and takes in what arrives. Boxes of one message do not
 * overlap, nor do those of several that arrive. Often several ranks have a
 * slice of a box each, or all get the same. */
static void messages_any(world *w) {
  bool out = chance(w, 50), slices = chance(w, 60);
  bool alike = out && chance(w, 30);
  int64_t n = chance(w, 50) ? 1 : any(w, 2, MESSAGES), made = 0;
  const model *whole = model_any(w);
  cel_box box = box_any(w, &whole->buffer.extent);
  cel_message *messages = cel_alloc_zero((size_t)n * sizeof *messages);
  cel_vec_push(&w->messages, messages);
  for (int64_t i = 0; i < n; ++i) {
    cel_piece *piece = cel_alloc_zero((MESSAGE_PIECES + 1) * sizeof *piece);
    cel_vec_push(&w->pieces, piece);
    cel_message *m = &messages[made];
    *m = (cel_message){.peer = 1 + i, .piece = piece};
    cel_box part = alike ? box : slice_of(box, i, n);
    if (slices && !cel_box_is_empty(&part) &&
        (out || !is_taken(messages, made, &whole->buffer, &part)))
      piece[m->pieces++] = (cel_piece){&whole->buffer, part};
    for (int64_t k = any(w, slices ? 0 : 1, MESSAGE_PIECES); k > 0; --k) {
      const model *of = model_any(w);
      cel_box any_box = box_any(w, &of->buffer.extent);
      if (is_taken(out ? m : messages, out ? 1 : made + 1, &of->buffer,
                   &any_box))
        continue;
      piece[m->pieces++] = (cel_piece){&of->buffer, any_box};
    }
    if (m->pieces == 0) continue;
    fill_parcel(w, m, out);
    if (made > 0) messages[made - 1].next = m;
    ++made;
  }
  if (made == 0) return;
  cel_command *command = fuzz_command_new(
      w, out ? CEL_COMMAND_PUSH : CEL_COMMAND_AWAIT_PUSH, w->last_task);
  command->message = messages[0];
  fuzz_command_add(w, command);
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

static bool may_come_again(const world *w, const job *j) {
  for (uint32_t a = 0; a < j->accesses; ++a)
    if (!w->models.at[j->access[a].buffer->id]->live) return false;
  return j->taken && j->kind == CEL_TASK_KERNEL && j->against == NULL;
}

/* The same but for a mode or a parameter. */
static job *like(world *w, const job *j) {
  job *other = job_new(w);
  cel_work work = other->work;
  *other = *j;
  other->work = work;
  for (uint32_t a = 0; a < j->accesses; ++a)
    other->access[a].use.params = other->params[a];
  uint32_t a = (uint32_t)any(w, 0, j->accesses - 1);
  int32_t params = j->access[a].use.rule->desc.params;
  if (params > 0 && chance(w, 70))
    other->params[a][any(w, 0, params - 1)] += any(w, 0, 1) * 2 - 1;
  else
    other->access[a].mode = (cel_mode)any(w, 0, 3);
  return other;
}

static void come(world *w, job *j) {
  if (!may_come_again(w, j) || races(j) || !submit(w, j)) return;
  ++fuzz_total.tasks;
  fuzz_interpret(w, j);
}

/* All of a buffer of the job on one device: mostly its allocation grows, and
 * the loop is soon as it was before in all else. */
static void check_wide(world *w, const job *j) {
  const cel_access *access = &j->access[any(w, 0, j->accesses - 1)];
  fuzz_check_buffer(w, w->models.at[access->buffer->id], CEL_TASK_KERNEL);
}

/* A loop over a few of the last kernels, disturbed now and then. */
static void loop_any(world *w) {
  job *loop[3];
  int n = 0;
  for (uint32_t i = w->jobs.n; i-- > 0 && n < 3;)
    if (may_come_again(w, w->jobs.at[i]) && chance(w, 60))
      loop[n++] = w->jobs.at[i];
  for (int64_t rounds = any(w, 2, 9); rounds > 0; --rounds) {
    for (int i = 0; i < n; ++i) {
      job *j = chance(w, 10) ? like(w, loop[i]) : loop[i];
      come(w, j);
    }
    if (n > 0 && chance(w, 15)) check_wide(w, loop[any(w, 0, n - 1)]);
    if (chance(w, 8)) task_any(w);
    if (chance(w, 15)) messages_any(w);
    if (chance(w, 5)) exchange_any(w);
    for (int64_t i = any(w, 0, 20); i > 0 && fuzz_step(w);) --i;
  }
}

/* One ends, and another one takes its place. */
static void end_model(world *w) {
  model *m = model_any(w);
  m->live = false;
  cel_task_graph_free(w->tasks, &m->buffer);
  fuzz_model_new(w);
}

void fuzz_act(world *w) {
  int64_t what = any(w, 0, 99);
  if (w->freed_bytes != 0 && chance(w, 10)) end_model(w);
  if (what < 55) {
    task_any(w);
  } else if (what < 60) {
    exchange_any(w);
  } else if (what < 75) {
    messages_any(w);
  } else if (what < 80) {
    fuzz_check_buffer(w, model_any(w), CEL_TASK_HOST);
  } else if (what < 84) {
    end_model(w);
  } else if (what < 87) {
    cel_task_graph_epoch(w->tasks, (cel_location){0});
  } else if (what < 90) {
    cel_status status = w->full ? CEL_E_OK : cel_instr_graph_flush(w->instrs);
    require(status == CEL_E_OK || w->capacity != 0);
    require(w->full || cel_instr_graph_flush(w->anew) == status);
    w->full |= status != CEL_E_OK;
  } else if (what < 94) {
    loop_any(w);
  }
  for (int64_t i = any(w, 0, 8); i > 0 && fuzz_step(w);) --i;
}
