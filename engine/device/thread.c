#define _GNU_SOURCE /* names of registers */
#include "device/thread.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

cel_status cel_thread_start(pthread_t *out, void *(*run)(void *),
                            void *argument, const char *purpose) {
  int failed = pthread_create(out, NULL, run, argument);
  if (failed == 0) return CEL_E_OK;
  return cel_fail(CEL_E_MISSING,
                  "the system refuses a thread for %s: %s; raise the limit of "
                  "threads (ulimit -u) or of memory (ulimit -v), or those of "
                  "the container or batch job",
                  purpose, strerror(failed));
}

void cel_thread_block_signals(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

/* ---- a full stack -------------------------------------------------------- */

void cel_overflow_prepare(cel_overflow_room *room) {
  stack_t now, next = {.ss_sp = room, .ss_size = sizeof *room};
  if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0)
    (void)sigaltstack(&next, NULL);
}

static uintptr_t stack_pointer(const void *context) {
  const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
  return (uintptr_t)machine->gregs[REG_RSP];
#elif defined(__aarch64__)
  return (uintptr_t)machine->sp;
#else
  (void)machine;
  return 0;
#endif
}

/* The memory about the stack pointer can be accessed, until there is no more.
 * Whoever needs more than a page touches each, by -fstack-clash-protection. */
bool cel_overflow_is(const siginfo_t *info, const void *context) {
  enum { BELOW = 4096, ABOVE = 8192 };
  uintptr_t at = (uintptr_t)info->si_addr, top = stack_pointer(context);
  bool is_access = info->si_signo == SIGSEGV || info->si_signo == SIGBUS;
  return is_access && info->si_code > 0 && top != 0 && at + BELOW >= top &&
         at < top + ABOVE;
}
