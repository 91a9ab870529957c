/* topologies.h -- the graphs of six topologies, for benchmarks that make them:
 * soup, chain, two trees, wave_sim, jacobi, as Celerity's own benchmark has
 * them. A run makes the tasks with their horizons and the graphs through a
 * stage, for one rank, and counts what comes out. Header only: each benchmark
 * is one source.
 */
#ifndef SPEC_BENCH_TOPOLOGIES_H
#define SPEC_BENCH_TOPOLOGIES_H

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "instr/instr.h"
#include "task/task_graph.h"

typedef enum stage { TASKS, COMMANDS, INSTRS } stage;

typedef struct setup {
  const char *name;
  stage stage;
  int64_t ranks;
  int32_t devices;
  bool weak;       /* buffers scaled so that every rank has work */
  double marks[6]; /* Celerity's, in microseconds; 0: none */
} setup;

static bool collectives = true;
/* Whether what is older than the newest horizon of the last graph is given up,
 * as in an engine that has executed all of it. */
static bool retiring = false;
static int64_t interior_bytes = 0; /* see instr.h */
static bool in_tiles = false;      /* index spaces are cut in two dimensions */

/* A horizon or epoch in each graph; 0: not there yet. */
typedef struct bound_ids {
  uint64_t task, command, instr;
} bound_ids;

/* One repetition. */
typedef struct run {
  const setup *setup;
  cel_rules *rules;
  cel_task_graph *tasks;
  cel_command_graph *commands;
  cel_instr_graph *instrs;
  cel_buffer buffers[4];
  uint32_t n_buffers;
  uint64_t user_tasks, n_commands, n_instrs;
  uint64_t n_collectives, n_sends, n_receives, bytes_sent, bytes_received;
  CEL_VEC(bound_ids) bounds; /* not given up yet */
} run;

static void must(cel_status status) {
  if (status == CEL_E_OK) return;
  fprintf(stderr, "%s\n", cel_error_last()->text);
  exit(1);
}

/* ---- graphs -------------------------------------------------------------- */

static void on_instr(void *context, const cel_instr *instr) {
  run *r = context;
  ++r->n_instrs;
  if (instr->kind == CEL_INSTR_SEND) {
    ++r->n_sends;
    r->bytes_sent += instr->message.bytes;
  } else if (instr->kind == CEL_INSTR_RECEIVE) {
    for (const cel_sent *m = &instr->message; m != NULL; m = m->next) {
      ++r->n_receives;
      r->bytes_received += m->bytes;
    }
  } else if (instr->kind == CEL_INSTR_COLLECTIVE) {
    ++r->n_collectives;
  } else if (instr->kind == CEL_INSTR_HORIZON ||
             instr->kind == CEL_INSTR_EPOCH) {
    for (uint32_t i = 0; i < r->bounds.n; ++i)
      if (r->bounds.at[i].task == instr->task->id)
        r->bounds.at[i].instr = instr->id;
  }
}

static void on_command(void *context, const cel_command *command) {
  run *r = context;
  ++r->n_commands;
  if (retiring && (command->kind == CEL_COMMAND_HORIZON ||
                   command->kind == CEL_COMMAND_EPOCH))
    cel_vec_last(&r->bounds).command = command->id;
  if (r->instrs != NULL) must(cel_instr_graph_add(r->instrs, command));
}

static void on_task(void *context, const cel_task *task) {
  run *r = context;
  if (retiring &&
      (task->kind == CEL_TASK_HORIZON || task->kind == CEL_TASK_EPOCH))
    cel_vec_push(&r->bounds, (bound_ids){.task = task->id});
  if (r->commands != NULL) must(cel_command_graph_add(r->commands, task));
}

static bool is_reached(const run *r, const bound_ids *bound) {
  if (r->instrs != NULL) return bound->instr != 0;
  return r->commands == NULL || bound->command != 0;
}

static void retire(run *r) {
  uint32_t n = 0;
  while (n < r->bounds.n && is_reached(r, &r->bounds.at[n])) ++n;
  if (n == 0) return;
  bound_ids newest = r->bounds.at[n - 1];
  cel_vec_drop_first(&r->bounds, n);
  if (r->instrs != NULL) cel_instr_graph_retire(r->instrs, newest.instr);
  if (r->commands != NULL)
    cel_command_graph_retire(r->commands, newest.command);
  cel_task_graph_retire(r->tasks, newest.task);
}

static void run_open(run *r, const setup *setup, int64_t rank) {
  *r = (run){.setup = setup, .rules = cel_rules_create()};
  if (setup->stage >= INSTRS) {
    cel_instr_graph_config config = {.rank = rank,
                                     .ranks = setup->ranks,
                                     .devices = setup->devices,
                                     .interior_bytes = interior_bytes,
                                     .emit = on_instr,
                                     .context = r};
    for (int32_t d = 0; d < setup->devices; ++d)
      config.device_memory[d] = d + 1;
    r->instrs = cel_instr_graph_create(&config);
  }
  if (setup->stage >= COMMANDS) {
    cel_command_graph_config config = {.ranks = setup->ranks,
                                       .collectives = collectives,
                                       .unordered = setup->stage > COMMANDS,
                                       .emit = on_command,
                                       .context = r};
    r->commands = cel_command_graph_create(&config);
  }
  cel_task_graph_config config = {
      .ranks = setup->ranks, .emit = on_task, .context = r};
  r->tasks = cel_task_graph_create(&config);
}

static void run_close(run *r) {
  if (r->instrs != NULL) cel_instr_graph_destroy(r->instrs);
  if (r->commands != NULL) cel_command_graph_destroy(r->commands);
  cel_task_graph_destroy(r->tasks);
  cel_rules_destroy(r->rules);
  cel_vec_release(&r->bounds);
}

/* ---- rules and tasks ----------------------------------------------------- */

/* Bounds of one buffer dimension: chunk.min[d] + a, chunk.max[d] + b; or two
 * parameters; or all of the buffer. */
typedef struct bound {
  enum { SPAN, PARAMS, WHOLE } kind;
  int d;
  int64_t a, b;
} bound;

static void code_bound(int64_t **at, const bound *bound, int side) {
  int64_t *c = *at;
  int64_t shift = side == 0 ? bound->a : bound->b;
  switch (bound->kind) {
  case SPAN:
    *c++ = side == 0 ? CEL_RULE_MIN : CEL_RULE_MAX;
    *c++ = bound->d;
    if (shift == 0) break;
    *c++ = CEL_RULE_CONST;
    *c++ = shift;
    *c++ = CEL_RULE_ADD;
    break;
  case PARAMS:
    *c++ = CEL_RULE_PARAM;
    *c++ = side;
    break;
  case WHOLE:
    *c++ = side == 0 ? CEL_RULE_CONST : CEL_RULE_BUFFER;
    *c++ = side == 0 ? 0 : bound->d;
    break;
  }
  *at = c;
}

static const cel_rule *rule_of(run *r, int task_dims, int buffer_dims,
                               int boxes, const bound bounds[][2]) {
  cel_rule_desc desc = {
      .task_dims = task_dims, .buffer_dims = buffer_dims, .boxes = boxes};
  int64_t code[256], *at = code;
  cel_rule_box box[CEL_RULE_BOXES];
  desc.box = box;
  for (int b = 0; b < boxes; ++b) {
    box[b].clamp = true;
    box[b].each = 0;
    for (int j = 0; j < buffer_dims; ++j)
      for (int side = 0; side < 2; ++side) {
        box[b].start[j][side] = (int32_t)(at - code);
        code_bound(&at, &bounds[b][j], side);
        box[b].length[j][side] = (int32_t)(at - code) - box[b].start[j][side];
        if (bounds[b][j].kind == PARAMS) desc.params = 2;
      }
  }
  desc.code = code;
  desc.code_length = (int32_t)(at - code);
  const cel_rule *rule;
  must(cel_rules_intern(r->rules, &desc, &rule));
  return rule;
}

static cel_init no_init;

static cel_buffer *buffer_new(run *r, int dims, int64_t a, int64_t b,
                              bool init) {
  cel_buffer *buffer = &r->buffers[r->n_buffers];
  *buffer = (cel_buffer){.id = r->n_buffers++,
                         .dims = dims,
                         .extent = cel_box_sized(a, b, 1),
                         .element_size = 4,
                         .init = init ? &no_init : NULL};
  return buffer;
}

static cel_access access_of(const cel_buffer *buffer, cel_mode mode,
                            const cel_rule *rule, const int64_t *params) {
  return (cel_access){
      .buffer = buffer, .mode = mode, .use = {.rule = rule, .params = params}};
}

static void submit(run *r, int dims, int64_t a, int64_t b, uint32_t n,
                   cel_access *access) {
  cel_group group = {.kind = CEL_TASK_KERNEL,
                     .dims = dims,
                     .range = cel_box_sized(a, b, 1),
                     .permitted = {{true, in_tiles && dims > 1}, {1, 1, 1}},
                     .accesses = n,
                     .access = access};
  for (uint32_t i = 0; i < n; ++i) {
    access[i].use.range = group.range;
    access[i].use.extent = access[i].buffer->extent;
  }
  uint64_t id;
  must(cel_task_graph_submit(r->tasks, &group, &id));
  ++r->user_tasks;
  retire(r);
}

/* ---- topologies ---------------------------------------------------------- */

static const bound same1[1][2] = {{{SPAN, 0, 0, 0}}};
static const bound same2[1][2] = {{{SPAN, 0, 0, 0}, {SPAN, 1, 0, 0}}};
static const bound turned[1][2] = {{{SPAN, 1, 0, 0}, {SPAN, 0, 0, 0}}};
static const bound second[1][2] = {{{SPAN, 1, 0, 0}}};
static const bound columns[1][2] = {{{SPAN, 0, 0, 0}, {PARAMS, 0, 0, 0}}};
static const bound block[1][2] = {{{WHOLE, 0, 0, 0}, {PARAMS, 0, 0, 0}}};
static const bound cross[2][2] = {{{SPAN, 0, -1, 1}, {SPAN, 1, 0, 0}},
                                  {{SPAN, 0, 0, 0}, {SPAN, 1, -1, 1}}};

static int64_t size_of(const run *r, int64_t usual) {
  return r->setup->weak && r->setup->ranks * 2 > usual ? r->setup->ranks * 2
                                                       : usual;
}

static void soup(run *r) {
  int64_t n = r->setup->ranks;
  cel_buffer *b = buffer_new(r, 2, n, 100, true);
  const cel_rule *column = rule_of(r, 1, 2, 1, columns);
  for (int64_t t = 0; t < 100; ++t) {
    int64_t at[2] = {t, t + 1};
    cel_access a = access_of(b, CEL_MODE_READ_WRITE, column, at);
    submit(r, 1, n, 1, 1, &a);
  }
}

static void chain(run *r) {
  int64_t n = r->setup->ranks;
  cel_buffer *b = buffer_new(r, 2, n, n, true);
  const cel_rule *read = rule_of(r, 2, 2, 1, turned);
  const cel_rule *write = rule_of(r, 2, 2, 1, same2);
  for (int t = 0; t < 30; ++t) {
    cel_access a[2] = {access_of(b, CEL_MODE_READ, read, NULL),
                       access_of(b, CEL_MODE_WRITE, write, NULL)};
    submit(r, 2, n, n, 2, a);
  }
}

static void tree(run *r, bool expanding) {
  int64_t n = r->setup->ranks;
  cel_buffer *b = buffer_new(r, 2, n, 16, true);
  const cel_rule *read = rule_of(r, 1, 2, 1, block);
  const cel_rule *write = rule_of(r, 1, 2, 1, columns);
  for (int64_t step = 1; step <= 16; step *= 2) {
    int64_t width = expanding ? 16 / step : step;
    for (int64_t at = 0; at < 16; at += width) {
      int64_t params[2] = {at, at + width};
      cel_access a[2] = {access_of(b, CEL_MODE_READ, read, params),
                         access_of(b, CEL_MODE_WRITE, write, params)};
      submit(r, 1, n, 1, 2, a);
    }
  }
}

static void expanding_tree(run *r) {
  tree(r, true);
}

static void contracting_tree(run *r) {
  tree(r, false);
}

static void wave_sim(run *r) {
  int64_t n = size_of(r, 512);
  cel_buffer *u = buffer_new(r, 2, n, n, false);
  cel_buffer *up = buffer_new(r, 2, n, n, false);
  const cel_rule *same = rule_of(r, 2, 2, 1, same2);
  const cel_rule *near = rule_of(r, 2, 2, 2, cross);
  cel_access fill = access_of(u, CEL_MODE_DISCARD_WRITE, same, NULL);
  submit(r, 2, n, n, 1, &fill);
  fill = access_of(up, CEL_MODE_DISCARD_WRITE, same, NULL);
  submit(r, 2, n, n, 1, &fill);
  for (int t = 0; t < 201; ++t) {
    cel_access a[2] = {access_of(up, CEL_MODE_READ_WRITE, same, NULL),
                       access_of(u, CEL_MODE_READ, near, NULL)};
    submit(r, 2, n, n, 2, a);
    cel_buffer *swap = u;
    if (t > 0) u = up, up = swap;
  }
}

static void jacobi(run *r) {
  int64_t n = size_of(r, 1024);
  cel_buffer *A = buffer_new(r, 2, n, n, true);
  cel_buffer *b = buffer_new(r, 1, n, 1, true);
  cel_buffer *x = buffer_new(r, 1, n, 1, false);
  cel_buffer *fresh = buffer_new(r, 1, n, 1, false);
  const cel_rule *one = rule_of(r, 1, 1, 1, same1);
  const cel_rule *same = rule_of(r, 2, 2, 1, same2);
  const cel_rule *rows = rule_of(r, 2, 1, 1, same1);
  const cel_rule *cols = rule_of(r, 2, 1, 1, second);
  cel_access fill = access_of(x, CEL_MODE_DISCARD_WRITE, one, NULL);
  submit(r, 1, n, 1, 1, &fill);
  for (int t = 0; t < 50; ++t) {
    cel_access a[4] = {access_of(A, CEL_MODE_READ, same, NULL),
                       access_of(b, CEL_MODE_READ, rows, NULL),
                       access_of(x, CEL_MODE_READ, cols, NULL),
                       access_of(fresh, CEL_MODE_DISCARD_WRITE, rows, NULL)};
    submit(r, 2, n, n, 4, a);
    cel_buffer *swap = x;
    x = fresh, fresh = swap;
  }
}

static const struct {
  const char *name;
  void (*build)(run *r);
} topologies[6] = {{"soup", soup},
                   {"chain", chain},
                   {"exp. tree", expanding_tree},
                   {"contr. tree", contracting_tree},
                   {"wave_sim", wave_sim},
                   {"jacobi", jacobi}};

#endif
