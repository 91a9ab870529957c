/* fault.h -- ends of the process that the user's native code brings about.
 *
 * A kernel, a library that a host task calls, or a C function that the script
 * calls through FFI may access what is not theirs, abort, or call exit(). The
 * process ends then, with a status that is not 0, and one line on stderr names
 * the kernel or host task with its place in the script, and the line of Lua
 * that runs (running.h).
 *
 *   a fault's signal, a full    the line, then the signal's own end
 *   stack, abort()
 *   exit(), quick_exit(),       the line, what was printed until then, then
 *   _exit(), _Exit()            status 1, whatever theirs was
 *
 * `_exit` and `_Exit` are ours, in place of the C library's, for all that the
 * process loads; who asks the system itself is not seen.
 */
#ifndef CEL_EMBED_FAULT_H
#define CEL_EMBED_FAULT_H

/* From now on. Thread: main, once. */
void cel_fault_catch(void);
/* From now on it is celer that ends the process. Thread: any. */
void cel_fault_let_go(void);

#endif
