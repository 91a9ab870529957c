/* programs.h -- well-known programs as task records, for the growth spec and
 * the benchmarks of the command graph.
 *
 * A program submits the tasks of one step at a time; a horizon follows every
 * fourth task, as the task graph would make it, and the last but one is
 * retired. Header only: each benchmark is one source.
 */
#ifndef SPEC_COMMAND_PROGRAMS_H
#define SPEC_COMMAND_PROGRAMS_H

#include <string.h>

#include "command/command.h"
#include "task/assignment.h"
#include "task/task_graph.h"

/* One dimension of a box: [min + lo, max + hi) along task dimension `dim`; all
 * of the buffer (WHOLE); or two parameters (SPAN). */
typedef struct prog_range {
  int64_t dim, lo, hi;
} prog_range;

enum { PROG_WHOLE = -1, PROG_SPAN = -2, PROG_HORIZON_STEP = 4 };

#define PROG_ALONG(d, lo, hi) ((prog_range){(d), (lo), (hi)})
#define PROG_ALL ((prog_range){PROG_WHOLE, 0, 0})
#define PROG_PARAMS ((prog_range){PROG_SPAN, 0, 0})

typedef struct prog {
  int64_t ranks, tasks, commands;
  uint64_t horizon[2]; /* command ids: newest, the one before */
  cel_command_graph *graph;
  cel_rules *rules;
  cel_buffer buffer[3];
  cel_init init;
  cel_task task;
  cel_access access[4];
  int64_t params[4][2];
  cel_split split; /* of weighted tasks */
  int64_t *sums;   /* of it, and behind them the weights; or null */
  struct {
    int task_dims, dims;
    prog_range range[2];
    const cel_rule *rule;
  } known[32]; /* rules made so far, for the time that it takes */
  int n_known;
} prog;

typedef struct prog_kind {
  const char *name;
  void (*make)(prog *p);
  void (*step)(prog *p, int64_t t);
} prog_kind;

static inline const cel_rule *prog_make(prog *p, int task_dims,
                                        const prog_range *range, int dims) {
  cel_rule_box box = {.clamp = true};
  cel_rule_desc desc = {
      .task_dims = task_dims, .buffer_dims = dims, .boxes = 1, .box = &box};
  int64_t code[64];
  int n = 0;
  for (int j = 0; j < dims; ++j)
    for (int side = 0; side < 2; ++side) {
      box.start[j][side] = n;
      if (range[j].dim == PROG_WHOLE) {
        code[n++] = side ? CEL_RULE_BUFFER : CEL_RULE_CONST;
        code[n++] = side ? j : 0;
      } else if (range[j].dim == PROG_SPAN) {
        code[n++] = CEL_RULE_PARAM;
        code[n++] = desc.params++;
      } else {
        code[n++] = side ? CEL_RULE_MAX : CEL_RULE_MIN;
        code[n++] = range[j].dim;
        code[n++] = CEL_RULE_CONST;
        code[n++] = side ? range[j].hi : range[j].lo;
        code[n++] = CEL_RULE_ADD;
      }
      box.length[j][side] = n - box.start[j][side];
    }
  desc.code = code;
  desc.code_length = n;
  const cel_rule *rule = NULL;
  if (cel_rules_intern(p->rules, &desc, &rule) != CEL_E_OK)
    cel_bug("%s", cel_error_last()->text);
  return rule;
}

static inline const cel_rule *prog_rule(prog *p, int task_dims,
                                        const prog_range *range, int dims) {
  for (int i = 0; i < p->n_known; ++i)
    if (p->known[i].task_dims == task_dims && p->known[i].dims == dims &&
        memcmp(p->known[i].range, range, sizeof p->known[i].range) == 0)
      return p->known[i].rule;
  const cel_rule *rule = prog_make(p, task_dims, range, dims);
  int i = p->n_known < 31 ? p->n_known++ : 31;
  p->known[i].task_dims = task_dims;
  p->known[i].dims = dims;
  memcpy(p->known[i].range, range, sizeof p->known[i].range);
  p->known[i].rule = rule;
  return rule;
}

static inline void prog_buffer(prog *p, int b, bool init, int dims, int64_t n0,
                               int64_t n1) {
  p->buffer[b] = (cel_buffer){.id = (uint32_t)b,
                              .dims = dims,
                              .extent = cel_box_sized(n0, n1, 1),
                              .element_size = 8,
                              .name = "buffer",
                              .init = init ? &p->init : NULL};
}

static inline void prog_add(prog *p, const cel_task *task) {
  if (cel_command_graph_add(p->graph, task) != CEL_E_OK)
    cel_bug("%s", cel_error_last()->text);
}

static inline void prog_horizon(prog *p) {
  cel_task task = {.kind = CEL_TASK_HORIZON};
  prog_add(p, &task);
  cel_command_graph_retire(p->graph, p->horizon[1]);
}

/* Begins a task over [0, n0) x [0, n1), cut along its first `cuts` dimensions.
 */
static inline void prog_begin(prog *p, int dims, int cuts, int64_t n0,
                              int64_t n1) {
  p->task = (cel_task){.kind = CEL_TASK_KERNEL,
                       .dims = dims,
                       .range = cel_box_sized(n0, n1, 1),
                       .permitted = {{cuts > 0, cuts > 1, false}, {1, 1, 1}},
                       .access = p->access};
}

static inline void prog_access(prog *p, int b, cel_mode mode, prog_range r0,
                               prog_range r1, int64_t from, int64_t to) {
  uint32_t i = p->task.accesses++;
  prog_range range[2] = {r0, r1};
  const cel_buffer *buffer = &p->buffer[b];
  p->params[i][0] = from;
  p->params[i][1] = to;
  const cel_rule *rule = prog_rule(p, p->task.dims, range, buffer->dims);
  p->access[i] =
      (cel_access){.buffer = buffer,
                   .mode = mode,
                   .use = {rule, p->params[i], p->task.range, buffer->extent}};
}

static inline void prog_end(prog *p) {
  prog_add(p, &p->task);
  if (++p->tasks % PROG_HORIZON_STEP == 0) prog_horizon(p);
}

/* ---- the programs ----------------------------------------------------------
 */

static inline void stencil_make(prog *p) {
  prog_buffer(p, 0, true, 2, 64 * p->ranks, 64);
  prog_buffer(p, 1, false, 2, 64 * p->ranks, 64);
}

static inline void stencil_step(prog *p, int64_t t) {
  prog_begin(p, 2, 1, 64 * p->ranks, 64);
  prog_access(p, t % 2 == 0, CEL_MODE_READ, PROG_ALONG(0, -1, 1),
              PROG_ALONG(1, -1, 1), 0, 0);
  prog_access(p, t % 2 == 1, CEL_MODE_DISCARD_WRITE, PROG_ALONG(0, 0, 0),
              PROG_ALONG(1, 0, 0), 0, 0);
  prog_end(p);
}

/* The same by weights that repeat after 7 ranks. */
static inline void weighted_make(prog *p) {
  stencil_make(p);
  size_t room = CEL_TASK_CUT_ROOM(p->ranks);
  p->sums = cel_alloc((room + (size_t)p->ranks) * sizeof *p->sums);
  int64_t *weight = p->sums + room;
  for (int64_t k = 0; k < p->ranks; ++k) weight[k] = 1 + k * k % 7;
  prog_begin(p, 2, 1, 64 * p->ranks, 64);
  p->split = cel_task_cut(&p->task, &p->task.range, p->ranks, weight, p->sums);
}

static inline void weighted_step(prog *p, int64_t t) {
  prog_begin(p, 2, 1, 64 * p->ranks, 64);
  p->task.weights = 1;
  p->task.split = &p->split;
  prog_access(p, t % 2 == 0, CEL_MODE_READ, PROG_ALONG(0, -1, 1),
              PROG_ALONG(1, -1, 1), 0, 0);
  prog_access(p, t % 2 == 1, CEL_MODE_DISCARD_WRITE, PROG_ALONG(0, 0, 0),
              PROG_ALONG(1, 0, 0), 0, 0);
  prog_end(p);
}

static inline void tiles_make(prog *p) {
  prog_buffer(p, 0, true, 2, 64 * p->ranks, 64 * p->ranks);
  prog_buffer(p, 1, false, 2, 64 * p->ranks, 64 * p->ranks);
}

static inline void tiles_step(prog *p, int64_t t) {
  prog_begin(p, 2, 2, 64 * p->ranks, 64 * p->ranks);
  prog_access(p, t % 2 == 0, CEL_MODE_READ, PROG_ALONG(0, -1, 1),
              PROG_ALONG(1, -1, 1), 0, 0);
  prog_access(p, t % 2 == 1, CEL_MODE_DISCARD_WRITE, PROG_ALONG(0, 0, 0),
              PROG_ALONG(1, 0, 0), 0, 0);
  prog_end(p);
}

static inline void jacobi_make(prog *p) {
  int64_t n = 16 * p->ranks;
  prog_buffer(p, 0, true, 2, n, n);
  prog_buffer(p, 1, true, 1, n, 1);
  prog_buffer(p, 2, false, 1, n, 1);
}

static inline void jacobi_step(prog *p, int64_t t) {
  prog_begin(p, 1, 1, 16 * p->ranks, 1);
  prog_access(p, 0, CEL_MODE_READ, PROG_ALONG(0, 0, 0), PROG_ALL, 0, 0);
  prog_access(p, t % 2 ? 1 : 2, CEL_MODE_READ, PROG_ALL, PROG_ALL, 0, 0);
  prog_access(p, t % 2 ? 2 : 1, CEL_MODE_DISCARD_WRITE, PROG_ALONG(0, 0, 0),
              PROG_ALL, 0, 0);
  prog_end(p);
}

static inline void nbody_make(prog *p) {
  prog_buffer(p, 0, true, 1, 16 * p->ranks, 1);
  prog_buffer(p, 1, true, 1, 16 * p->ranks, 1);
}

static inline void nbody_step(prog *p, int64_t t) {
  (void)t;
  for (int half = 0; half < 2; ++half) {
    prog_begin(p, 1, 1, 16 * p->ranks, 1);
    prog_access(p, half, CEL_MODE_READ, half ? PROG_ALONG(0, 0, 0) : PROG_ALL,
                PROG_ALL, 0, 0);
    prog_access(p, !half, CEL_MODE_READ_WRITE, PROG_ALONG(0, 0, 0), PROG_ALL, 0,
                0);
    prog_end(p);
  }
}

enum { PROG_ROWS = 10001 };

static inline void rsim_make(prog *p) {
  prog_buffer(p, 0, false, 2, PROG_ROWS, 16 * p->ranks);
}

/* Row t is written; all rows before it are read by all. */
static inline void rsim_step(prog *p, int64_t t) {
  int64_t row = (t - 1) % PROG_ROWS;
  prog_begin(p, 1, 1, 16 * p->ranks, 1);
  prog_access(p, 0, CEL_MODE_READ, PROG_PARAMS, PROG_ALL, 0, row);
  prog_access(p, 0, CEL_MODE_DISCARD_WRITE, PROG_PARAMS, PROG_ALONG(0, 0, 0),
              row, row + 1);
  prog_end(p);
}

/* The same, but a rank reads only its part and a halo of earlier rows. */
static inline void rsim_own_step(prog *p, int64_t t) {
  int64_t row = (t - 1) % PROG_ROWS;
  prog_begin(p, 1, 1, 16 * p->ranks, 1);
  prog_access(p, 0, CEL_MODE_READ, PROG_PARAMS, PROG_ALONG(0, -1, 1), 0, row);
  prog_access(p, 0, CEL_MODE_DISCARD_WRITE, PROG_PARAMS, PROG_ALONG(0, 0, 0),
              row, row + 1);
  prog_end(p);
}

/* Halos of another width in every step: many representations, few at a time. */
static inline void halo_make(prog *p) {
  prog_buffer(p, 0, true, 1, 64 * p->ranks, 1);
}

static inline void halo_step(prog *p, int64_t t) {
  int64_t width = t * 7919 % 41;
  prog_begin(p, 1, 1, 64 * p->ranks, 1);
  if (t % 50 == 1)
    prog_access(p, 0, CEL_MODE_DISCARD_WRITE, PROG_ALONG(0, 0, 0), PROG_ALL, 0,
                0);
  else
    prog_access(p, 0, CEL_MODE_READ,
                PROG_ALONG(0, t % 2 ? 0 : -width, t % 2 ? width : 0), PROG_ALL,
                0, 0);
  prog_end(p);
}

/* Two half sweeps in place. */
static inline void red_black_make(prog *p) {
  prog_buffer(p, 0, true, 2, 64 * p->ranks, 64);
}

static inline void red_black_step(prog *p, int64_t t) {
  (void)t;
  for (int half = 0; half < 2; ++half) {
    prog_begin(p, 2, 1, 64 * p->ranks, 64);
    prog_access(p, 0, CEL_MODE_READ, PROG_ALONG(0, -1, 1), PROG_ALONG(1, 0, 0),
                0, 0);
    prog_access(p, 0, CEL_MODE_READ_WRITE, PROG_ALONG(0, 0, 0), PROG_PARAMS,
                32 * half, 32 * half + 32);
    prog_end(p);
  }
}

static const prog_kind prog_kinds[] = {
    {"stencil", stencil_make, stencil_step},
    {"tiles", tiles_make, tiles_step},
    {"weighted", weighted_make, weighted_step},
    {"red_black", red_black_make, red_black_step},
    {"random_halo", halo_make, halo_step},
    {"rsim_own", rsim_make, rsim_own_step},
    {"jacobi", jacobi_make, jacobi_step},
    {"nbody", nbody_make, nbody_step},
    {"rsim", rsim_make, rsim_step},
};
/* In the last few all send to all. */
enum {
  PROG_KINDS = sizeof prog_kinds / sizeof *prog_kinds,
  PROG_ALL_TO_ALL = 6
};

static inline void prog_on_emit(void *context, const cel_command *command) {
  prog *p = context;
  ++p->commands;
  if (command->kind != CEL_COMMAND_HORIZON) return;
  p->horizon[1] = p->horizon[0];
  p->horizon[0] = command->id;
}

/* The program as rank `rank` of `ranks` sees it; *p stays where it is until
 * prog_release. */
static inline void prog_init(prog *p, const prog_kind *kind, int64_t rank,
                             int64_t ranks) {
  memset(p, 0, sizeof *p);
  p->ranks = ranks;
  cel_command_graph_config config = {
      .rank = rank, .ranks = ranks, .emit = prog_on_emit, .context = p};
  p->graph = cel_command_graph_create(&config);
  p->rules = cel_rules_create();
  cel_task epoch = {.kind = CEL_TASK_EPOCH};
  prog_add(p, &epoch);
  kind->make(p);
}

static inline void prog_release(prog *p) {
  cel_command_graph_destroy(p->graph);
  cel_rules_destroy(p->rules);
  cel_free(p->sums);
}

#endif
