/* interrupt.h -- Ctrl-C, and faults of the user's native code.
 *
 * While a script runs, Ctrl-C ends the process with status 130 after flushing
 * what was written. In an interactive session the first one ends the line (the
 * driver's state raises "interrupted", waits give up), a second the process.
 */
#ifndef CEL_EMBED_INTERRUPT_H
#define CEL_EMBED_INTERRUPT_H

#include <stdbool.h>

/* From now on. Thread: main. */
void cel_interrupt_catch(bool interactive);
/* Asked while main waits: whether Ctrl-C was pressed. Thread: any. */
bool cel_interrupted(void);
/* Forgets a Ctrl-C. Thread: any. */
void cel_interrupt_clear(void);

#endif
