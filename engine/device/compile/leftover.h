/* leftover.h -- what must not outlive the process: files under a name that is
 * not their own, folders of intermediate files, running compilers.
 *
 * Whoever makes one says so before, and takes it back when it is gone, or is to
 * stay. Whatever is left when the process ends goes with it: children with all
 * that they have started, then files, then folders with what is in them.
 * SIGKILL alone leaves it; who sweeps then is said where it is made.
 *
 * Invariant: a path is here whenever there is something under it; a child is
 * here as long as its number is its own. Thread: any. Once the end has begun,
 * whoever has something new waits for the end here.
 */
#ifndef CEL_DEVICE_COMPILE_LEFTOVER_H
#define CEL_DEVICE_COMPILE_LEFTOVER_H

#include <stdbool.h>
#include <sys/types.h>

/* A file, or a folder; copied. */
void cel_leftover_add(const char *path);
void cel_leftover_drop(const char *path);
/* Removes a file, or a folder with all that is in it, and drops it. */
void cel_leftover_remove(const char *path);

/* Calls `start`, which is to make a child that leads a process group, and gives
 * what it gives: 0, or an error. No signal comes meanwhile. */
int cel_leftover_start(int (*start)(void *context, pid_t *child), void *context,
                       pid_t *child);
/* Waits for the child; gives its status, as waitpid. */
int cel_leftover_reap(pid_t child);

/* Passes Ctrl-C on to the children. Also in signal handlers. */
void cel_leftover_interrupt(void);
/* Ends the children; from then on none can be started, as the process ends.
 * Also in signal handlers. */
void cel_leftover_end_children(void);
bool cel_leftover_ending(void);
/* The process is about to end. Also in signal handlers. */
void cel_leftover_end(void);

#endif
