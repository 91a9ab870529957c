/* interrupt.h -- Ctrl-C, and what launchers end a run by.
 *
 * While a script runs, Ctrl-C ends the process with status 130 after flushing
 * what was written. In an interactive session:
 *
 *   waiting for a line   the line is given up
 *   running one          it ends: the driver's state raises, waits give up; a
 *                        second one before it has ended ends the process
 *   in between           as if it came with the next line
 *
 * So the session's own Lua, between lines, is never interrupted. Launchers tell
 * ranks to end by SIGTERM; rank 0 says so, and the status is 143.
 */
#ifndef CEL_EMBED_INTERRUPT_H
#define CEL_EMBED_INTERRUPT_H

#include <stdbool.h>

#include "base/status.h"

/* From now on. Fails with CEL_E_MISSING where the system refuses the thread or
 * the file that this takes. Thread: main. */
cel_status cel_interrupt_catch(bool interactive);
/* Writing beyond `ulimit -f` fails from now on like any other writing that
 * fails, and does not end the process. Thread: main. */
void cel_interrupt_outlive_limits(void);
/* What is to be found out before SIGTERM is spoken of, and what is still to be
 * done before Ctrl-C ends the process, in some tenths of a second, while all
 * its threads go on; in a thread of its own. Thread: main, before catch. */
void cel_interrupt_set_ends(void (*first)(void), void (*last)(void));
/* Asked while main waits: whether Ctrl-C was pressed. Thread: any. */
bool cel_interrupted(void);
/* Around the running of a line. Thread: main. */
void cel_interrupt_begin(void);
void cel_interrupt_end(void);

/* While held, Ctrl-C does not end the line; it does so afterwards. What was
 * before. Thread: main. */
bool cel_interrupt_hold(bool on);

/* Of a session of several ranks. From now on Ctrl-C ends nothing by itself: the
 * number 1 is written to `file`, in 8 bytes, and a second one ends the process;
 * -1: no longer. Thread: main. */
void cel_interrupt_ask(int file);
/* Ends the line that runs, if one does, as Ctrl-C would. Thread: any. */
void cel_interrupt_cut(void);

/* For who waits for a line: a file that becomes readable when Ctrl-C was
 * pressed, the terminal has another size or the process goes on after a pause;
 * and until that is heard. Thread: main. */
int cel_interrupt_news(void);
void cel_interrupt_hear(void);
/* Forgets a Ctrl-C. Thread: main. */
void cel_interrupt_clear(void);

/* From now on SIGUSR1 ends nothing, unless somebody has made something else of
 * it: it asks for a checkpoint. Thread: main. */
void cel_interrupt_catch_keep(void);
/* Whether it has come since this was last asked. Thread: any. */
bool cel_interrupt_keep(void);

/* The job ends. Flushes what was printed, after which main prints no more: what
 * it was waiting for may come all the same, and is not to look like success.
 * After catch. Thread: any. */
void cel_interrupt_hush(void);
/* Ends the process, with CEL_EXIT_LOST, as a rank is lost. Before, as far as
 * that takes no more than seconds: flushes what was written, prints `text`, and
 * has `end_all` tell the launcher; where this rank is not the one to do so,
 * both are null. After catch. Thread: any, one at a time. */
_Noreturn void cel_interrupt_end_lost(const char *text,
                                      void (*end_all)(void *context),
                                      void *context);

#endif
