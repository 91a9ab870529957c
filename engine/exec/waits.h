/* waits.h -- what an executor waits for, in words.
 *
 * Two readers: the driver of a simulated cluster that is stuck wants every
 * instruction and what it waits for; a user wants what is under way, by the
 * names of tasks and buffers.
 * Thread: the window's.
 */
#ifndef CEL_EXEC_WAITS_H
#define CEL_EXEC_WAITS_H

#include "exec/window.h"

/* Every instruction that is not done, a line each. */
void cel_waits_list(const cel_window *window, char *text, size_t size);
/* What others wait for and what itself waits for nothing here: what is under
 * way at a device, in a host lane or with another rank, a line each; then how
 * many instructions come after these. False, and an empty text, when nothing is
 * waited for. */
bool cel_waits_tell(const cel_window *window, char *text, size_t size);

#endif
