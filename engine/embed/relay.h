/* relay.h -- a terminal whose owner is not the process that reads from it.
 *
 *   celer repl -n 4 --bytes--> mpirun --bytes--> rank 0, maybe on another host
 *   has the terminal           in a session      has a terminal made for it
 *                              of its own
 *
 * The owner passes on what is typed, byte by byte, and shows what comes back.
 * So Ctrl-C reaches rank 0 and not the launcher, which would end the job. Rank
 * 0 reads from the far end of a pseudo-terminal, so that a line is edited as
 * anywhere; a thread fills it. What rank 0 writes takes the launcher's way.
 *
 * In the stream of bytes MARK and a letter is something else: MARK twice that
 * byte, MARK 'S' and four bytes the size of the window.
 */
#ifndef CEL_EMBED_RELAY_H
#define CEL_EMBED_RELAY_H

#include <sys/types.h>

#include "base/status.h"

/* Rank 0: from now on stdin is a terminal, fed by what stdin was, and stderr
 * goes where stdout does, in one order. CEL_E_MISSING. Thread: main. */
cel_status cel_relay_take(void);

/* The owner: passes bytes on between the terminal and a child's stdin, stdout
 * and stderr, until the child ends. SIGINT goes to rank 0, signals that end a
 * process to the child, which is killed if it does not end. If nothing comes
 * back for 3 s after Ctrl-C, another Ctrl-C ends the child likewise. The
 * terminal is as before then. Signals are blocked.
 * Thread: main. */
void cel_relay_run(pid_t child, int in, int out, int err);

#endif
