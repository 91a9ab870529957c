/* progress.h -- a line that says how far a run has come, while it runs.
 *
 * On a terminal it is drawn again five times a second, by a thread of its own,
 * from the engine's counters; whoever writes something else hides it first. In
 * a file or pipe it is a line every ten seconds. It belongs to the process, as
 * its stderr does. Nothing is drawn in the first half second.
 * Cost: nothing for those who count; a test of a flag for who writes.
 */
#ifndef CEL_EMBED_PROGRESS_H
#define CEL_EMBED_PROGRESS_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif
#include "base/status.h"

/* A loop that the script has announced. */
typedef struct cel_progress_loop {
  uint64_t steps, step; /* how many there are; the one to come, from 0, or
                           `steps` once it has ended */
  uint64_t first_task, at_task; /* submitted before the loop, and until now */
  int64_t begin;                /* ns */
  /* Steps are parts of a time that the data tell of: `step` of them have been
   * executed, and `first` had been at `begin`. */
  bool measured;
  uint64_t first;
} cel_progress_loop;

/* What the line says. */
typedef struct cel_progress_state {
  uint64_t tasks, done;   /* submitted, executed */
  uint64_t bytes;         /* copied and sent */
  double rate;            /* tasks per second; less than 0: not known */
  int64_t now;            /* ns */
  bool compiling;         /* the script waits for a compiler */
  cel_progress_loop loop; /* without steps: none */
} cel_progress_state;

struct cel_engine;

/* Begins, if it has not: for rank 0 of `ranks`. Fails with CEL_E_MISSING where
 * the system refuses a thread. Thread: main. */
cel_status cel_progress_start(const struct cel_engine *engine, int64_t ranks,
                              bool terminal);
/* Erases the line and ends the thread; before the engine is destroyed. Thread:
 * main. */
void cel_progress_stop(void);
/* Something else is about to be written. `whole`: it ends a line; otherwise
 * nothing is drawn until something does. Thread: any. */
void cel_progress_hide(bool whole);
/* Thread: main. */
void cel_progress_set_compiling(bool compiling);
void cel_progress_set_loop(const cel_progress_loop *loop);

/* How long the rest of the loop takes, in s; less than 0: not known. */
double cel_progress_left(const cel_progress_state *state);
/* The line, without an end. */
void cel_progress_text(const cel_progress_state *state, char *text,
                       size_t size);
#endif
