/* graph.c -- how long it takes to make the graphs of six topologies.
 *
 *   bench_graph [MILLISECONDS_PER_FIGURE]
 *   bench_graph messages [MILLISECONDS_PER_FIGURE]
 *   bench_graph shutdown [MILLISECONDS_PER_FIGURE]
 *   bench_graph once RANKS DEVICES TOPOLOGY [TIMES]
 *
 * The topologies and what Celerity takes for them (soup, chain, two trees,
 * wave_sim, jacobi; 2 cores of a Xeon, its master of August 2026). Time covers
 * the rules, the buffers, all tasks with their horizons, the graphs through the
 * stage named, for rank 0 of N, and tearing them down. A figure is the median
 * of as many repetitions as fit.
 *
 * Collectives are on, as they are in the engine; `messages` goes without.
 * `once` makes one graph through instructions, for a profiler or a counter of
 * instructions; topologies are numbered from 0.
 *
 * `shutdown` draws figure 7 of seed 000: task and command graph with the epoch
 * at their end and without it, in turns, and what it adds, in percent. The last
 * line is JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/vec.h"
#include "instr/instr.h"
#include "task/graph.h"

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
} run;

static void must(cel_status status) {
  if (status == CEL_E_OK) return;
  fprintf(stderr, "bench_graph: %s\n", cel_error_last()->text);
  exit(1);
}

/* ---- graphs -------------------------------------------------------------- */

static void on_instr(void *context, const cel_instr *instr) {
  (void)instr;
  ++((run *)context)->n_instrs;
}

static void on_command(void *context, const cel_command *command) {
  run *r = context;
  ++r->n_commands;
  if (r->instrs != NULL) must(cel_instr_graph_add(r->instrs, command));
}

static void on_task(void *context, const cel_task *task) {
  run *r = context;
  if (r->commands != NULL) must(cel_command_graph_add(r->commands, task));
}

static void run_open(run *r, const setup *setup) {
  *r = (run){.setup = setup, .rules = cel_rules_create()};
  if (setup->stage >= INSTRS) {
    cel_instr_graph_config config = {.ranks = setup->ranks,
                                     .devices = setup->devices,
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
  cel_task_graph_config config = {.ranks = setup->ranks,
                                  .horizon_step = 4,
                                  .horizon_breadth = 64,
                                  .emit = on_task,
                                  .context = r};
  r->tasks = cel_task_graph_create(&config);
}

static void run_close(run *r, bool shutdown) {
  if (shutdown) cel_task_graph_epoch(r->tasks, (cel_place){0});
  if (r->instrs != NULL) cel_instr_graph_destroy(r->instrs);
  if (r->commands != NULL) cel_command_graph_destroy(r->commands);
  cel_task_graph_destroy(r->tasks);
  cel_rules_destroy(r->rules);
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
  for (int b = 0; b < boxes; ++b) {
    desc.clamp[b] = true;
    for (int j = 0; j < buffer_dims; ++j)
      for (int side = 0; side < 2; ++side) {
        desc.start[b][j][side] = (int32_t)(at - code);
        code_bound(&at, &bounds[b][j], side);
        desc.length[b][j][side] = (int32_t)(at - code) - desc.start[b][j][side];
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
                     .permitted = {{true}, {1, 1, 1}},
                     .accesses = n,
                     .access = access};
  for (uint32_t i = 0; i < n; ++i) {
    access[i].use.range = group.range;
    access[i].use.extent = access[i].buffer->extent;
  }
  uint64_t id;
  must(cel_task_graph_submit(r->tasks, &group, &id));
  ++r->user_tasks;
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

/* ---- measuring ----------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double once(const setup *setup, int topology, bool shutdown, run *r) {
  double begin = now();
  run_open(r, setup);
  topologies[topology].build(r);
  run_close(r, shutdown);
  return now() - begin;
}

static double measure(const setup *setup, int topology, double budget, run *r) {
  CEL_VEC(double) times = {0};
  double end = now() + budget;
  do cel_vec_push(&times, once(setup, topology, true, r));
  while (now() < end && times.n < 10000);
  qsort(times.at, times.n, sizeof(double), ascending);
  double median = times.at[times.n / 2];
  cel_vec_release(&times);
  return median;
}

static const setup setups[] = {
    {"task graph", TASKS, 1, 1, false, {298, 24.5, 38.7, 40.1, 270, 79}},
    {"+ commands, 1 rank",
     COMMANDS,
     1,
     1,
     false,
     {792, 49.6, 102, 107, 642, 175}},
    {"4 ranks", COMMANDS, 4, 1, false, {1136, 221, 246, 246, 1532, 391}},
    {"16 ranks", COMMANDS, 16, 1, false, {1574, 806, 543, 563, 3343, 978}},
    {"64 ranks", COMMANDS, 64, 1, false, {3307, 3533, 1593, 1734, 10418, 3266}},
    {"256 ranks",
     COMMANDS,
     256,
     1,
     false,
     {10178, 16028, 5903, 6370, 38705, 12753}},
    {"1,024 ranks", COMMANDS, 1024, 1, true, {0}},
    {"+ instructions, 1 rank, 1 device",
     INSTRS,
     1,
     1,
     false,
     {3136, 133, 271, 395, 1751, 505}},
    {"2 ranks, 1 device",
     INSTRS,
     2,
     1,
     false,
     {3773, 474, 754, 800, 3711, 849}},
    {"2 ranks, 4 devices",
     INSTRS,
     2,
     4,
     false,
     {3796, 476, 756, 804, 10658, 3036}},
    {"2 ranks, 8 devices", INSTRS, 2, 8, false, {0}},
    {"2 ranks, 16 devices",
     INSTRS,
     2,
     16,
     false,
     {3951, 489, 770, 838, 43218, 44509}},
    {"4 ranks, 1 device",
     INSTRS,
     4,
     1,
     false,
     {3857, 749, 922, 933, 4087, 1044}},
    {"16 ranks, 1 device",
     INSTRS,
     16,
     1,
     false,
     {4253, 2810, 1577, 1557, 6017, 2057}},
    {"256 ranks, 1 device",
     INSTRS,
     256,
     1,
     false,
     {13171, 111413, 16654, 14832, 42572, 25608}},
};

static void draw_stages(double budget) {
  printf("us for the whole graph (Celerity's / ours)\n%-34s", "");
  for (int t = 0; t < 6; ++t) printf("%18s", topologies[t].name);
  printf("\n");
  for (size_t s = 0; s < sizeof setups / sizeof *setups; ++s) {
    printf("%-34s", setups[s].name);
    for (int t = 0; t < 6; ++t) {
      run r;
      double us = measure(&setups[s], t, budget, &r);
      char factor[16] = "";
      if (setups[s].marks[t] > 0)
        snprintf(factor, sizeof factor, " (%.1fx)", setups[s].marks[t] / us);
      printf("%9.1f%-9s", us, factor);
      fflush(stdout);
    }
    printf("\n");
  }
  printf("user tasks:");
  for (int t = 0; t < 6; ++t) {
    run r;
    once(&setups[8], t, true, &r);
    printf(" %s %d (%d commands, %d instructions)", topologies[t].name,
           (int)r.user_tasks, (int)r.n_commands, (int)r.n_instrs);
  }
  printf("; counts at 2 ranks, 1 device\n");
}

/* ---- the shutdown epoch -------------------------------------------------- */

/* Medians with the epoch at the end and without it, in turns. */
static void measure_both(const setup *setup, int topology, double budget,
                         double median[2]) {
  CEL_VEC(double) times[2] = {0};
  double end = now() + budget;
  do
    for (int i = 0; i < 2; ++i) {
      run r;
      cel_vec_push(&times[i], once(setup, topology, i == 1, &r));
    }
  while (now() < end && times[0].n < 10000);
  for (int i = 0; i < 2; ++i) {
    qsort(times[i].at, times[i].n, sizeof(double), ascending);
    median[i] = times[i].at[times[i].n / 2];
    cel_vec_release(&times[i]);
  }
}

static void draw_shutdown(double budget) {
  static const int64_t ranks[] = {1, 4, 16, 64};
  static const int drawn[] = {0, 1, 5, 4};
  double worst = 0;
  printf(
      "us for task and command graph: without the epoch at the end, and what "
      "it adds\n%-10s",
      "");
  for (int i = 0; i < 4; ++i) printf("%20s", topologies[drawn[i]].name);
  for (int k = 0; k < 4; ++k) {
    setup s = {"shutdown", COMMANDS, ranks[k], 1, false, {0}};
    printf("\n%2d ranks  ", (int)ranks[k]);
    for (int i = 0; i < 4; ++i) {
      double us[2];
      measure_both(&s, drawn[i], budget, us);
      double added = 100 * (us[1] / us[0] - 1);
      printf("%10.1f %+7.2f %%", us[0], added);
      fflush(stdout);
      /* The soup's tasks are all at its end, which nobody's program is. */
      if (drawn[i] != 0 && added > worst) worst = added;
    }
  }
  printf("\n{\"shutdown_worst_percent\": %.2f}\n", worst);
}

static int usage(void) {
  fprintf(stderr, "usage: bench_graph [messages | shutdown] [milliseconds]\n"
                  "       bench_graph once ranks devices topology [times]\n");
  return 2;
}

static int make_once(int argc, char **argv) {
  int topology = argc > 4 ? atoi(argv[4]) : -1;
  int64_t ranks = argc > 2 ? atoll(argv[2]) : 0;
  int32_t devices = argc > 3 ? atoi(argv[3]) : 0;
  setup s = {"once", INSTRS, ranks, devices, false, {0}};
  if (topology < 0 || topology > 5 || ranks < 1 || devices < 1 || devices > 16)
    return usage();
  run r;
  for (int i = argc > 5 ? atoi(argv[5]) : 1; i > 0; --i)
    once(&s, topology, true, &r);
  printf("%s: %d tasks, %d commands, %d instructions\n",
         topologies[topology].name, (int)r.user_tasks, (int)r.n_commands,
         (int)r.n_instrs);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "once") == 0) return make_once(argc, argv);
  bool shutdown = strcmp(what, "shutdown") == 0;
  collectives = strcmp(what, "messages") != 0;
  bool named = shutdown || !collectives;
  const char *text = argc > 1 + named ? argv[1 + named] : "50";
  double budget = strtod(text, NULL) * 1e3;
  if (budget <= 0) return usage();
  (shutdown ? draw_shutdown : draw_stages)(budget);
  return 0;
}
