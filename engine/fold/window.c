#include "fold/window.h"

#include "base/eras.h"
#include "fold/alone.h"
#include "fold/compose.h"
#include "fold/unread.h"
#include "tuning.h"

struct cel_fold_window {
  cel_fold_config config;
  cel__fold_chain chain;
  cel__fold_depths depths;
  int32_t most;                     /* steps, as those in the chain say */
  int32_t fresh;                    /* buffers that they are first to write */
  CEL_VEC(const cel_task *) behind; /* horizons and frees */
  cel__fold_watch watch;            /* the last fold */
  /* That fold, where it waits to be told what is unread, and all behind it. */
  CEL_VEC(const cel_task *) ready;
  int32_t spare; /* as many more steps may be held then */
  cel__fold_rules rules;
  cel_eras eras;
  bool formed; /* something in the era that is open */
  bool bound;  /* a horizon has left since the last fold */
};

cel_fold_window *cel_fold_window_create(const cel_fold_config *config) {
  cel_fold_window *window = cel_alloc_zero(sizeof *window);
  window->config = *config;
  window->rules.store = config->rules;
  window->depths.machine = config->machine;
  window->depths.ranks = config->ranks;
  window->depths.devices = config->devices;
  window->depths.room = (int64_t)config->room;
  cel_eras_init(&window->eras, NULL);
  return window;
}

void cel_fold_window_destroy(cel_fold_window *window) {
  if (window == NULL) return;
  cel__fold_chain_release(&window->chain);
  cel__fold_rules_release(&window->rules);
  cel_vec_release(&window->behind);
  cel_vec_release(&window->ready);
  cel_eras_release(&window->eras);
  cel_free(window);
}

void cel_fold_window_retire(cel_fold_window *window, uint64_t id) {
  if (window->watch.fold != NULL && window->watch.fold->id < id)
    window->watch.fold = NULL;
  cel_eras_retire(&window->eras, id);
}

/* ---- what leaves --------------------------------------------------------- */

static void pass(cel_fold_window *window, const cel_task *task) {
  if (window->ready.n > 0)
    cel_vec_push(&window->ready, task);
  else
    window->config.pass(window->config.context, task);
  bool bound = task->kind == CEL_TASK_HORIZON || task->kind == CEL_TASK_EPOCH;
  window->bound = window->bound || bound;
  if (!bound || !window->formed) return;
  cel_eras_close(&window->eras, task->id);
  window->formed = false;
}

/* Nothing waits any longer to be told. */
static void settle(cel_fold_window *window) {
  for (uint32_t i = 0; i < window->ready.n; ++i)
    window->config.pass(window->config.context, window->ready.at[i]);
  cel_vec_clear(&window->ready);
}

/* The next tasks are looked at; held back until they have told all are those
 * that are not as many as they may be. */
static void pass_fold(cel_fold_window *window, const cel_task *fold) {
  settle(window);
  window->formed = true;
  cel__fold_watch_begin(&window->watch, fold);
  window->spare = window->most - fold->folded->steps;
  if (window->config.stores || window->spare <= 0)
    pass(window, fold);
  else
    cel_vec_push(&window->ready, fold);
}

/* What comes may say what is unread of the last fold. */
static void watch(cel_fold_window *window, const cel_task *task) {
  const cel_task *fold = window->watch.fold;
  if (fold == NULL) return;
  bool open = cel__fold_watch_see(&window->watch, task), full = false;
  if (task->kind == CEL_TASK_KERNEL) full = --window->spare <= 0;
  if (!open) window->watch.fold = NULL;
  if (!open || full) settle(window);
}

static void tell(cel_fold_window *window, const cel_task *task,
                 const cel_task *next) {
  char why[256];
  if (window->config.alone != NULL &&
      cel__fold_why_alone(&window->depths, task, next, why, sizeof why))
    window->config.alone(window->config.context, task, why);
}

/* What is held, as `next` may not follow; or null. */
static void flush(cel_fold_window *window, const cel_task *next) {
  cel__fold_chain *chain = &window->chain;
  bool folded = false, bound = window->bound;
  if (chain->tasks.n == 1) {
    tell(window, chain->tasks.at[0], next);
    pass(window, chain->tasks.at[0]);
  } else if (chain->tasks.n > 1) {
    folded = true;
    cel__fold_chain_grow(chain);
    window->bound = false;
    pass_fold(window, cel__fold_compose(&window->rules, chain,
                                        cel_eras_arena(&window->eras)));
  }
  cel__fold_chain_clear(chain);
  for (uint32_t i = 0; i < window->behind.n; ++i) {
    if (folded && bound && window->behind.at[i]->kind == CEL_TASK_HORIZON)
      continue;
    if (folded) watch(window, window->behind.at[i]);
    pass(window, window->behind.at[i]);
  }
  cel_vec_clear(&window->behind);
  if (folded && next != NULL) watch(window, next);
}

void cel_fold_window_flush(cel_fold_window *window) {
  flush(window, NULL);
  settle(window);
}

/* ---- what comes ---------------------------------------------------------- */

static bool goes_behind(const cel_task *task) {
  return task->kind == CEL_TASK_HORIZON || task->kind == CEL_TASK_FREE;
}

/* Buffers that the task is the first to write, unless it asks for a fold. */
static int32_t count_fresh(const cel_task *task) {
  int32_t n = 0;
  for (uint32_t i = 0; i < task->accesses && task->fold == 0; ++i) {
    const cel_access *access = &task->access[i];
    const uint64_t *changes = access->buffer->changes;
    n += cel_mode_produces(access->mode) && changes != NULL && *changes == 0;
  }
  return n;
}

/* As a step of those that are held, or as the first one. */
static bool add(cel_fold_window *window, const cel_task *task) {
  cel__fold_chain *chain = &window->chain;
  bool alike = window->config.machine != CEL_FOLD_MIXED;
  bool first = chain->tasks.n == 0;
  const char *why;
  int32_t steps = cel__fold_depth(&window->depths, task, first, &why);
  int32_t fresh = count_fresh(task);
  if (first) window->fresh = 0;
  if (steps <= 1 || chain->tasks.n >= (uint32_t)steps ||
      (!first && fresh > 0 && window->fresh + fresh > CEL_TUNE_FOLD_FRESH) ||
      !cel__fold_chain_add(chain, task, alike))
    return false;
  window->fresh += fresh;
  if (first || steps < window->most) window->most = steps;
  if (chain->tasks.n >= (uint32_t)window->most || cel__fold_ends(task))
    flush(window, NULL);
  return true;
}

static bool hold(cel_fold_window *window, const cel_task *task) {
  if (!cel__fold_may_be_step(task)) return false;
  if (window->chain.tasks.n > 0) {
    if (add(window, task)) return true;
    flush(window, task);
  }
  return add(window, task);
}

/* Of horizons the last one. */
static void hold_behind(cel_fold_window *window, const cel_task *task) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < window->behind.n; ++i)
    if (task->kind != CEL_TASK_HORIZON ||
        window->behind.at[i]->kind != CEL_TASK_HORIZON)
      window->behind.at[n++] = window->behind.at[i];
  window->behind.n = n;
  cel_vec_push(&window->behind, task);
}

void cel_fold_window_add(cel_fold_window *window, const cel_task *task) {
  watch(window, task);
  if (window->config.off) {
    pass(window, task);
  } else if (goes_behind(task)) {
    if (window->chain.tasks.n > 0)
      hold_behind(window, task);
    else
      pass(window, task);
  } else if (!hold(window, task)) {
    flush(window, task);
    tell(window, task, NULL);
    pass(window, task);
  }
}
