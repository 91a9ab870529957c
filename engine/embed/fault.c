#define _GNU_SOURCE /* on_exit, syscall */
#include "embed/fault.h"

#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device/backend.h"
#include "device/compile/leftover.h"
#include "device/thread.h"
#include "embed/running.h"

/* What ends the process, in one piece: a signal handler may ask for no more. */
enum { PIECES = 24, NUMBERS = 3 };
typedef struct last_words {
  struct iovec piece[PIECES];
  int n, numbers;
  char digits[NUMBERS][12];
} last_words;

static void add(last_words *w, const char *text) {
  if (text != NULL && w->n < PIECES)
    w->piece[w->n++] = (struct iovec){(void *)text, strlen(text)};
}

/* Of at least 0. */
static void add_number(last_words *w, int32_t number) {
  char *at = w->digits[w->numbers++] + sizeof w->digits[0] - 1;
  *at = 0;
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  add(w, at);
}

/* Nothing else may be said then. Of several threads the first speaks, and the
 * process ends before the others go on. */
static void say(last_words *w) {
  add(w, "\n");
  (void)!writev(STDERR_FILENO, w->piece, w->n);
}

static void speak_first(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&said)) pause();
}

/* ---- who it was -------------------------------------------------------------
 */

/* What the calling thread is doing for the user; null: nothing. */
static const cel_job *users_job(void) {
  const cel_job *job = cel_job_under_way();
  bool users =
      job != NULL && (job->kind == CEL_JOB_CALL || job->kind == CEL_JOB_INIT);
  return users ? job : NULL;
}

static bool is_kernel(const cel_job *job) {
  return job->kind == CEL_JOB_CALL && !job->work->lua;
}

static bool is_script(void) {
  return syscall(SYS_gettid) == getpid();
}

static void add_place(last_words *w, const char *before, cel_location location,
                      const char *after) {
  if (location.file == NULL) return;
  add(w, before);
  add(w, location.file);
  add(w, ":");
  add_number(w, location.line);
  add(w, after);
}

/* The line of Lua that the thread is at. A host task has that of its submission
 * besides. */
static void add_line(last_words *w, const cel_job *job) {
  cel_location at;
  if (job != NULL && is_kernel(job)) return;
  if (!cel__running_location(&at)) return;
  if (job == NULL)
    add_place(w, " (", at, ")");
  else
    add_place(w, " at ", at, "");
}

/* The user's task, or whoever else may have done it. */
static void add_suspect(last_words *w, const cel_job *job) {
  const char *name = job != NULL ? job->name : NULL;
  if (job == NULL) {
    add(w,
        is_script() ? "the script's own thread" : "a thread of celer itself");
  } else if (job->kind == CEL_JOB_INIT) {
    add(w, "the initial contents for ");
    add(w, name == NULL || strcmp(name, "fence") == 0 ? "a capture" : name);
  } else {
    bool plain = name == NULL || strcmp(name, "host task") == 0;
    add(w, is_kernel(job) ? "kernel" : "host task");
    if (!plain) add(w, " "), add(w, name);
  }
  if (job != NULL) add_place(w, " (", job->location, ")");
  if (job != NULL || is_script()) add_line(w, job);
}

/* ---- signals ----------------------------------------------------------------
 */

static const char *kind_of(int number) {
  switch (number) {
  case SIGFPE: return "celer: an arithmetic error in ";
  case SIGILL: return "celer: an illegal instruction in ";
  case SIGABRT: return "celer: the process aborts in ";
  default: return "celer: invalid memory access in ";
  }
}

static const char *reason(const cel_job *job, int number) {
  if (number == SIGFPE) return ": it divides a whole number by 0";
  if (number == SIGILL)
    return ": it does what has no meaning in C++, such as to divide by 0";
  if (number == SIGABRT && (job != NULL || is_script()))
    return ": it calls abort(), breaks an assertion, throws a C++ exception "
           "that nobody catches, or frees what was not allocated";
  if (job == NULL)
    return ": what it does through FFI, a kernel or a host task that has "
           "spoilt its memory, or a fault of celer";
  if (is_kernel(job))
    return ": it reads or writes outside its data; celer check finds where";
  return ": what it does through :pointer() or FFI, or a fault of celer";
}

static const char *reason_of_overflow(const cel_job *job) {
  if (job != NULL && is_kernel(job))
    return " overflowed its stack: its own arrays are too large, or it calls "
           "itself without end; large arrays belong in buffers";
  return " overflowed its stack: a C function called through FFI has arrays "
         "that are too large, or calls itself without end";
}

/* Where it happened, as far as the stack can be read. */
static void tell_calls(void) {
  enum { CALLS = 24 };
  static const char head[] = "celer: a report of it should have these lines:\n";
  void *call[CALLS];
  (void)!write(STDERR_FILENO, head, sizeof head - 1);
  backtrace_symbols_fd(call, backtrace(call, CALLS), STDERR_FILENO);
}

/* Says so, then lets the default action end the process. */
static void on_fault(int number, siginfo_t *info, void *context) {
  const cel_job *job = users_job();
  bool overflow = cel_overflow_is(info, context);
  speak_first();
  if (number != SIGABRT || !cel_bug_told()) {
    last_words w = {.n = 0};
    add(&w, overflow ? "celer: " : kind_of(number));
    add_suspect(&w, job);
    add(&w, overflow ? reason_of_overflow(job) : reason(job, number));
    say(&w);
    if (job == NULL && !is_script()) tell_calls();
  }
  cel_leftover_end();
  signal(number, SIG_DFL);
  raise(number);
}

/* A fault of the handler's own, as where the stack is spoilt, ends the process
 * at once: it is blocked there. */
static void handle_faults(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  enum { FAULTS = sizeof faults / sizeof faults[0] };
  struct sigaction action = {.sa_sigaction = on_fault,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < FAULTS; ++i) sigaddset(&action.sa_mask, faults[i]);
  for (int i = 0; i < FAULTS; ++i) sigaction(faults[i], &action, NULL);
}

/* ---- exits ------------------------------------------------------------------
 */

static atomic_int guarded; /* the process that is not to exit; 0: none */

void cel_fault_let_go(void) {
  atomic_store(&guarded, 0);
}

static _Noreturn void exit_at_once(int status) {
  for (;;) syscall(SYS_exit_group, status);
}

static const char *advice(const cel_job *job) {
  if (job == NULL) return ": os.exit ends a run, once all is executed";
  if (is_kernel(job)) return ": the run is not over; let it return";
  return ": the run is not over; to end it with a message, raise an error";
}

/* A child that a library has forked may leave as it likes. Where a thread of no
 * task leaves with a status that is not 0, that is MPI, which has said why. The
 * status is -1 where it is not known. */
static void on_leaving(const char *call, int status) {
  const cel_job *job = users_job();
  if (atomic_load(&guarded) != getpid()) return;
  if (job == NULL && !is_script() && status > 0) return;
  speak_first();
  last_words w = {.n = 0};
  add(&w, "celer: ");
  add(&w, call);
  add(&w, "(");
  if (status >= 0) add_number(&w, status);
  add(&w, ") is called in ");
  add_suspect(&w, job);
  add(&w, advice(job));
  fflush(stdout);
  say(&w);
  cel_leftover_end();
  exit_at_once(1);
}

static void on_exit_called(int status, void *unused) {
  (void)unused;
  on_leaving("exit", status);
}

/* It does not say with which status. */
static void on_quick_exit(void) {
  on_leaving("quick_exit", -1);
}

void _exit(int status) {
  on_leaving("_exit", status);
  exit_at_once(status);
}

void _Exit(int status) {
  on_leaving("_Exit", status);
  exit_at_once(status);
}

void cel_fault_catch(void) {
  (void)cel_job_under_way();
  (void)backtrace((void *[1]){NULL}, 1); /* loads what it needs by malloc */
  handle_faults();
  atomic_store(&guarded, getpid());
  on_exit(on_exit_called, NULL);
  at_quick_exit(on_quick_exit);
}
