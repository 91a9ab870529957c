/* window.h -- holds tasks back while they may become one fold.
 *
 * All tasks go through it, in order. While each task may follow the ones that
 * are held, it is held too; when one may not, or there are as many as one of
 * them says, they leave as one fold. Horizons and frees do not end that, and
 * leave behind the fold: of horizons the last one, and none where one has left
 * since the fold before. For what is older than the last horizon but one waits
 * for that horizon, and so for the host; the next fold is to wait for this one
 * alone. A free is of no account, as each rank's collector decides when it
 * comes; and so are time and what memory is left: ranks form the same folds
 * from the same program.
 *
 * A program that makes a buffer for each step, and frees the last one, would so
 * have those of all steps at a time. So where nobody asks for a fold, its steps
 * are the first to write few buffers (CEL_TUNE_FOLD_FRESH).
 *
 * A fold of fewer steps than it may have is held back a little longer, while
 * there are not so many tasks behind it, until they say which of the buffers
 * that it writes are unread (unread.h); nothing follows from that but what
 * devices store. Of others it is said when they are on their way already.
 *
 * What main waits for never stays here, as it is a fence or an epoch, which may
 * not be a step. Who holds main back for what has been submitted counts what
 * has left alone.
 *
 * Invariants: what leaves does so in the order of ids; at most CEL_FOLD_STEPS
 * steps are held. Folds live in an arena for each horizon, and die as tasks do.
 * Confined to main.
 */
#ifndef CEL_FOLD_WINDOW_H
#define CEL_FOLD_WINDOW_H

#include "fold/depth.h"
#include "task/task.h"

typedef struct cel_fold_window cel_fold_window;

typedef struct cel_fold_config {
  cel_rules *rules; /* borrowed */
  bool off;         /* every task passes by itself */
  cel_fold_machine machine;
  int64_t ranks, devices; /* as of cel__fold_depths */
  uint64_t room;          /* as of cel__fold_depths */
  bool stores;            /* devices store all that steps write */
  /* Takes tasks and folds, in the order of ids. */
  void (*pass)(void *context, const cel_task *task);
  /* Null; or is told why a task that reads more than its items' own leaves
   * alone; the text is the window's. */
  void (*alone)(void *context, const cel_task *task, const char *why);
  void *context;
} cel_fold_config;

cel_fold_window *cel_fold_window_create(const cel_fold_config *config);
/* What is held is dropped. */
void cel_fold_window_destroy(cel_fold_window *window);
/* Takes the next task, and passes on what does not wait for others. */
void cel_fold_window_add(cel_fold_window *window, const cel_task *task);
/* Passes on what is held; on all ranks at the same place of the program. */
void cel_fold_window_flush(cel_fold_window *window);
/* Drops the folds that are older than a horizon or epoch which was executed,
 * as cel_task_graph_retire does. */
void cel_fold_window_retire(cel_fold_window *window, uint64_t id);

#endif
