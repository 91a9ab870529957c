/* fuzz.c -- random tasks through the task and instruction graphs, carried out
 * in a random topological order on real memory, against a sequential
 * interpreter.
 *
 *   fuzz_instr [CASES [FIRST_SEED]]
 *
 * One rank's view: tasks become commands one to one; messages are made by hand,
 * with contents that the interpreter knows. Garbage fills what is allocated and
 * a freed address is gone, so that a missing copy or dependency shows as a
 * wrong value (or as a sanitizer's report). A second graph, which plans what
 * comes again anew, emits the same instructions. Prints the seed that fails. In
 * debug builds the graph asserts its invariants after each command.
 */
#include "instr/fuzz.h"

uint64_t fuzz_seed;
totals fuzz_total;

/* ---- what comes out of the graphs ---------------------------------------- */

static void check_alloc(world *w, const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  if (instr->kind == CEL_INSTR_ALLOC) {
    for (uint32_t i = 0; i < w->allocations.n; ++i)
      fuzz_total.resizes += w->allocations.at[i]->buffer == a->buffer &&
                            w->allocations.at[i]->memory == a->memory;
    cel_vec_push(&w->allocations, a);
    return;
  }
  for (uint32_t i = 0; i < w->allocations.n; ++i)
    if (w->allocations.at[i] == a) {
      cel_vec_swap_out(&w->allocations, i);
      return;
    }
  fail("frees what is not allocated");
}

/* A kernel and its like see a settled state. */
static void check_disjoint(const world *w) {
  for (uint32_t i = 0; i < w->allocations.n; ++i)
    for (uint32_t j = 0; j < i; ++j) {
      const cel_allocation *a = w->allocations.at[i], *b = w->allocations.at[j];
      if (a->buffer == b->buffer && a->memory == b->memory)
        require(!cel_box_meets(&a->layout, &b->layout));
    }
}

static uint64_t add_box(uint64_t hash, const cel_box *box) {
  return cel_hash(box, sizeof *box, hash);
}

static uint64_t add_place(uint64_t hash, const cel_place_in *place) {
  const cel_allocation *a = place->allocation;
  return add_box(cel_hash_word(hash, a != NULL ? a->id : 0), &place->box);
}

static uint64_t add_places(uint64_t hash, const cel_place_in *place,
                           uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) hash = add_place(hash, &place[i]);
  return hash;
}

static uint64_t add_memory(uint64_t hash, const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  hash = cel_hash_word(cel_hash_word(hash, a->id), (uint64_t)a->memory);
  hash = add_box(cel_hash_word(hash, a->buffer->id), &a->layout);
  return cel_hash_word(cel_hash_word(hash, instr->memory.begin),
                       instr->memory.end);
}

static uint64_t add_copy(uint64_t hash, const cel_instr *instr) {
  const cel_allocation *from = instr->copy.from;
  hash = cel_hash_word(hash, from != NULL ? from->id : 0);
  return add_box(cel_hash_word(hash, instr->copy.to->id), &instr->copy.box);
}

static uint64_t add_messages(uint64_t hash, const cel_sent *m) {
  for (; m != NULL; m = m->next) {
    hash = cel_hash_word(cel_hash_word(hash, (uint64_t)m->peer), m->sequence);
    hash = cel_hash_word(cel_hash_word(hash, m->nth), m->direct);
    hash = add_places(hash, m->piece, m->pieces);
  }
  return hash;
}

static uint64_t add_collective(uint64_t hash, const cel_instr *instr) {
  const cel_place_in *place = instr->collective.place;
  for (const cel_exchange *x = instr->collective.exchange; x != NULL;
       x = x->next)
    hash = add_place(hash, place++);
  return hash;
}

/* Of all that an instruction says. */
static uint64_t hash_of(const cel_instr *instr) {
  uint64_t hash = cel_hash_word(instr->id, instr->kind);
  hash = cel_hash_word(hash, (uint64_t)(int64_t)instr->device);
  hash = cel_hash_word(hash, (uint64_t)(int64_t)instr->priority);
  hash = cel_hash_word(hash, instr->task != NULL ? instr->task->id : 0);
  for (uint32_t i = 0; i < instr->deps; ++i)
    hash = cel_hash_word(cel_hash_word(hash, instr->dep[i].id),
                         instr->dep[i].kind);
  switch (instr->kind) {
  case CEL_INSTR_ALLOC:
  case CEL_INSTR_COMMIT:
  case CEL_INSTR_DECOMMIT:
  case CEL_INSTR_FREE: return add_memory(hash, instr);
  case CEL_INSTR_INIT:
  case CEL_INSTR_COPY: return add_copy(hash, instr);
  case CEL_INSTR_KERNEL:
  case CEL_INSTR_HOST:
    return add_places(add_box(hash, &instr->run.chunk), instr->run.view,
                      instr->task->accesses);
  case CEL_INSTR_SEND:
  case CEL_INSTR_RECEIVE: return add_messages(hash, &instr->message);
  case CEL_INSTR_COLLECTIVE: return add_collective(hash, instr);
  case CEL_INSTR_RELEASE:
  case CEL_INSTR_HORIZON:
  case CEL_INSTR_EPOCH: return hash;
  }
  return hash;
}

/* The graph that plans everything anew comes after the other one. */
static void on_anew(void *context, const cel_instr *instr) {
  world *w = context;
  require(instr->id <= w->hash.n &&
          hash_of(instr) == w->hash.at[instr->id - 1]);
  w->anew_id = instr->id;
}

static void on_instr(void *context, const cel_instr *instr) {
  world *w = context;
  require(instr->id == w->instr.n + 1);
  bool bound =
      instr->kind == CEL_INSTR_HORIZON || instr->kind == CEL_INSTR_EPOCH;
  require(instr->deps > 0 || instr->id == 1);
  for (uint32_t i = 0; i < instr->deps; ++i) {
    require(instr->dep[i].id < instr->id);
    require(instr->dep[i].id >= w->horizons[0]);
  }
  if (instr->kind == CEL_INSTR_ALLOC || instr->kind == CEL_INSTR_FREE)
    check_alloc(w, instr);
  if (instr->kind == CEL_INSTR_KERNEL) check_disjoint(w);
  cel_vec_push(&w->hash, hash_of(instr));
  fuzz_total.digest = cel_hash_word(fuzz_total.digest, cel_vec_last(&w->hash));
  cel_vec_push(&w->instr, instr);
  cel_vec_push(&w->task_of_bound, bound ? instr->task->id : 0);
  if (!bound) return;
  w->horizons[0] = instr->kind == CEL_INSTR_EPOCH ? instr->id : w->horizons[1];
  w->horizons[1] = instr->id;
}

cel_command *fuzz_command_new(world *w, cel_command_kind kind,
                              const cel_task *task) {
  cel_command *command = cel_alloc_zero(sizeof *command);
  cel_vec_push(&w->commands, command);
  command->id = w->commands.n;
  command->kind = kind;
  command->task = task;
  return command;
}

/* As much as a task could need where all that it mentions is there, whole. */
static uint64_t most_needed(const world *w, const cel_task *task) {
  uint64_t sum = 0;
  for (uint32_t a = 0; a < task->accesses; ++a) {
    const cel_buffer *buffer = task->access[a].buffer;
    sum += (uint64_t)cel_box_volume(&buffer->extent) * 8 + w->block;
  }
  return sum;
}

/* A command may be refused that needs more than there is; then the run is at
 * its end. */
void fuzz_command_add(world *w, const cel_command *command) {
  if (w->full) return;
  cel_status status = cel_instr_graph_add(w->instrs, command);
  require(cel_instr_graph_add(w->anew, command) == status &&
          w->anew_id == w->instr.n);
  if (status == CEL_E_OK) {
    cel_instr_graph_check(w->instrs);
    return;
  }
  if (status != CEL_E_MEMORY || w->capacity == 0)
    fail("%s", cel_error_last()->text);
  w->full = true;
  ++fuzz_total.full;
  require(strstr(cel_error_last()->text, "at once") != NULL);
  const cel_task *task = command->task;
  if (command->kind == CEL_COMMAND_EXECUTE && !w->lookahead)
    require(most_needed(w, task) > w->capacity);
}

static void on_task(void *context, const cel_task *task) {
  world *w = context;
  static const cel_command_kind kinds[] = {
      [CEL_TASK_KERNEL] = CEL_COMMAND_EXECUTE,
      [CEL_TASK_HOST] = CEL_COMMAND_EXECUTE,
      [CEL_TASK_HORIZON] = CEL_COMMAND_HORIZON,
      [CEL_TASK_EPOCH] = CEL_COMMAND_EPOCH,
      [CEL_TASK_FREE] = CEL_COMMAND_FREE};
  cel_command *command = fuzz_command_new(w, kinds[task->kind], task);
  command->chunk = task->range;
  w->last_task = task;
  fuzz_command_add(w, command);
}

/* ---- one case ------------------------------------------------------------ */

static void on_warning(void *context, const cel_task *task, const char *text) {
  world *w = context;
  (void)task;
  require(w->capacity != 0 && !w->warned && strstr(text, "buffer b") != NULL);
  w->warned = true;
  ++fuzz_total.warned;
}

/* Room for less than one to all of the buffers. */
static void limit(world *w, cel_instr_graph_config *config) {
  w->block = w->grain << any(w, 0, 2);
  if (w->grain != 0 && chance(w, 50)) w->whole = (uint64_t)any(w, 1, 60) * 8;
  if (chance(w, 60))
    w->capacity =
        (uint64_t)any(w, 2, 6) * w->block + (uint64_t)any(w, 8, 60) * 8;
  config->grain = w->grain;
  config->whole = w->whole;
  config->block = w->block;
  for (int m = 1; m < CEL_MEMORIES; ++m) config->capacity[m] = w->capacity;
}

static void world_open(world *w, uint64_t seed) {
  *w = (world){.random = {seed}};
  w->rules = cel_rules_create();
  w->devices = chance(w, 50) ? 1 : (int32_t)any(w, 2, 4);
  for (int32_t d = 0; d < w->devices; ++d)
    w->device_memory[d] =
        (int32_t)(chance(w, 75) ? d + 1 : any(w, w->devices == 1 ? 0 : 1, 4));
  w->policy = (int)any(w, 0, 2);
  w->grain = chance(w, 40) ? 0 : 8ull << any(w, 0, 5);
  static const int64_t other = 1;
  w->near = chance(w, 50);
  w->far = chance(w, 50);
  w->lookahead = chance(w, 50);
  w->freed_bytes = chance(w, 50) ? 0 : (uint64_t)any(w, 1, 60) * 8;
  cel_instr_graph_config instrs = {.ranks = 16,
                                   .near = &other,
                                   .nears = w->near ? 1 : 0,
                                   .direct_bytes = DIRECT_BYTES,
                                   .far_bytes = w->far ? FAR_BYTES : 0,
                                   .devices = w->devices,
                                   .large_bytes = (uint64_t)any(w, 0, 3) * 40,
                                   .together_peers = (uint32_t)any(w, 0, 3),
                                   .freed_bytes = w->freed_bytes,
                                   .lookahead = w->lookahead,
                                   .interior_bytes =
                                       chance(w, 50) ? any(w, -8, 96) : 0,
                                   .emit = on_instr,
                                   .warn = on_warning,
                                   .context = w};
  limit(w, &instrs);
  memcpy(instrs.device_memory, w->device_memory, sizeof w->device_memory);
  w->instrs = cel_instr_graph_create(&instrs);
  instrs.anew = true;
  instrs.emit = on_anew;
  instrs.warn = NULL;
  w->anew = cel_instr_graph_create(&instrs);
  cel_task_graph_config tasks = {.ranks = 1,
                                 .horizon_step = (int32_t)any(w, 1, 5),
                                 .horizon_breadth = (int32_t)any(w, 2, 12),
                                 .emit = on_task,
                                 .context = w};
  w->tasks = cel_task_graph_create(&tasks);
  for (int i = 0; i < BUFFERS; ++i) fuzz_model_new(w);
}

static void world_close(world *w) {
  for (uint32_t i = 0; i < w->allocations.n; ++i)
    free(w->allocations.at[i]->address);
  cel_instr_graph_destroy(w->instrs);
  cel_instr_graph_destroy(w->anew);
  cel_task_graph_destroy(w->tasks);
  cel_rules_destroy(w->rules);
  require(w->allocations.n == 0 || w->full);
  for (uint32_t i = 0; i < w->models.n; ++i) {
    cel_free(w->models.at[i]->value);
    cel_free(w->models.at[i]->defined);
    cel_free(w->models.at[i]);
  }
  for (uint32_t i = 0; i < w->jobs.n; ++i) {
    require(w->jobs.at[i]->work.references == 1);
    cel_free(w->jobs.at[i]->expect);
    cel_free(w->jobs.at[i]->expect_defined);
    cel_free(w->jobs.at[i]);
  }
  for (uint32_t i = 0; i < w->commands.n; ++i) cel_free(w->commands.at[i]);
  for (uint32_t i = 0; i < w->pieces.n; ++i) cel_free(w->pieces.at[i]);
  for (uint32_t i = 0; i < w->messages.n; ++i) cel_free(w->messages.at[i]);
  for (uint32_t i = 0; i < w->sent.n; ++i)
    cel_free(w->sent.at[i].value), cel_free(w->sent.at[i].defined);
  for (uint32_t i = 0; i < w->received.n; ++i)
    cel_free(w->received.at[i].value), cel_free(w->received.at[i].defined);
  for (uint32_t i = 0; i < w->exchanged.n; ++i)
    cel_free(w->exchanged.at[i].value), cel_free(w->exchanged.at[i].defined);
  for (uint32_t i = 0; i < w->exchanges.n; ++i) {
    cel_free((void *)(uintptr_t)w->exchanges.at[i]->get);
    cel_free(w->exchanges.at[i]);
  }
  cel_vec_release(&w->models);
  cel_vec_release(&w->jobs);
  cel_vec_release(&w->commands);
  cel_vec_release(&w->pieces);
  cel_vec_release(&w->messages);
  cel_vec_release(&w->sent);
  cel_vec_release(&w->received);
  cel_vec_release(&w->exchanged);
  cel_vec_release(&w->exchanges);
  cel_vec_release(&w->instr);
  cel_vec_release(&w->hash);
  cel_vec_release(&w->task_of_bound);
  cel_vec_release(&w->allocations);
}

static void run_case(uint64_t seed) {
  world w;
  fuzz_seed = seed;
  world_open(&w, seed);
  for (int64_t i = any(&w, 3, w.capacity != 0 ? 80 : 40); i > 0 && !w.full; --i)
    fuzz_act(&w);
  for (uint32_t i = 0; i < w.models.n; ++i)
    if (w.models.at[i]->live)
      fuzz_check_buffer(&w, w.models.at[i], CEL_TASK_HOST);
  for (uint32_t i = 0; i < w.models.n; ++i)
    if (w.models.at[i]->live)
      cel_task_graph_free(w.tasks, &w.models.at[i]->buffer);
  cel_task_graph_epoch(w.tasks, (cel_location){0});
  while (fuzz_step(&w)) {
  }
  require(w.done == w.instr.n);
  world_close(&w);
}

int main(int argc, char **argv) {
  uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t i = 0; i < cases; ++i) run_case(first + i);
  printf("%" PRIu64 " cases, %" PRIu64 " tasks, %" PRIu64
         " refused groups; instructions:",
         cases, fuzz_total.tasks, fuzz_total.refused);
  for (int k = 0; k <= CEL_INSTR_EPOCH; ++k)
    printf(" %" PRIu64 " %s", fuzz_total.kinds[k],
           cel_instr_name((cel_instr_kind)k));
  require(fuzz_total.repeated * 20 <= fuzz_total.kinds[CEL_INSTR_COMMIT]);
  printf("; %" PRIu64 " cases spilled, %" PRIu64
         " had too little room, %" PRIu64
         " receives of several messages; digest %016" PRIx64 "\n",
         fuzz_total.warned, fuzz_total.full, fuzz_total.together,
         fuzz_total.digest);
  return 0;
}
