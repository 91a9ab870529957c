#define _GNU_SOURCE /* syscall */
#include "embed/interrupt.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "comm/launch.h"
#include "comm/report.h"
#include "device/backend.h"
#include "embed/progress.h"
#include "embed/state.h"

/* mpirun passes on what it has read when its ranks are gone, or a second after
 * it told them to end. */
enum { GRACE_US = 500000 };

static atomic_bool interrupted, running;
static bool keep_session;
static pthread_t main_thread;
static int news = -1;
static sem_t ending;
static void (*do_last)(void);

void cel_interrupt_set_last(void (*last)(void)) {
  do_last = last;
}

bool cel_interrupted(void) {
  return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

void cel_interrupt_clear(void) {
  atomic_store(&interrupted, false);
}

void cel_interrupt_begin(void) {
  atomic_store(&running, true);
  if (atomic_load(&interrupted)) cel__state_interrupt();
}

void cel_interrupt_end(void) {
  atomic_store(&running, false);
  cel__state_go_on();
  cel_interrupt_clear();
}

int cel_interrupt_news(void) {
  return news;
}

void cel_interrupt_hear(void) {
  uint64_t count;
  (void)!read(news, &count, sizeof count);
}

static atomic_int cause; /* the signal that ends the process */

static void ask_to_end(int number) {
  atomic_store(&cause, number);
  sem_post(&ending);
}

/* Flushes what the script wrote, which a signal handler must not do. Of a job,
 * rank 0 says what has happened, unless another rank does. */
static void *wait_for_end(void *unused) {
  (void)unused;
  while (sem_wait(&ending) != 0) {
  }
  int number = atomic_load(&cause);
  signal(number, SIG_DFL); /* should that take long */
  cel_progress_hide(true);
  if (cel_launch_rank() == 0 && !cel_report_settled())
    fprintf(stderr, "celer: %s\n",
            number == SIGINT ? "interrupted"
                             : "told to end, by SIGTERM: Ctrl-C, a time limit, "
                               "or the job was cancelled");
  fflush(NULL);
  if (do_last != NULL) do_last();
  cel_launch launch;
  if (number == SIGTERM && cel_launch_look(&launch)) usleep(GRACE_US);
  _exit(128 + number);
}

static void tell_news(int number) {
  uint64_t one = 1;
  (void)number;
  (void)!write(news, &one, sizeof one);
}

/* Lua's state is main's to change, whichever thread the system has chosen. */
static void on_interrupt(int number) {
  int before = errno;
  if (!keep_session) {
    ask_to_end(number);
  } else if (!pthread_equal(pthread_self(), main_thread)) {
    pthread_kill(main_thread, number);
  } else {
    bool again = atomic_exchange(&interrupted, true);
    if (atomic_load(&running)) {
      if (again)
        ask_to_end(number);
      else
        cel__state_interrupt();
    }
    tell_news(number);
  }
  errno = before;
}

/* What ends the process, in one piece: a signal handler may ask for no more. */
enum { PIECES = 16 };
typedef struct last_words {
  struct iovec piece[PIECES];
  int n;
  char digits[12];
} last_words;

static void add(last_words *w, const char *text) {
  if (text != NULL && w->n < PIECES)
    w->piece[w->n++] = (struct iovec){(void *)text, strlen(text)};
}

static void add_line(last_words *w, int32_t line) {
  char *at = w->digits + sizeof w->digits - 1;
  *at = 0;
  do {
    *--at = (char)('0' + line % 10);
    line /= 10;
  } while (line > 0);
  add(w, at);
}

static bool is_kernel(const cel_job *job) {
  return job->kind == CEL_JOB_CALL && !job->work->lua;
}

static void add_place(last_words *w, cel_place place) {
  if (place.file == NULL) return;
  add(w, " (");
  add(w, place.file);
  add(w, ":");
  add_line(w, place.line);
  add(w, ")");
}

static bool is_script(void) {
  return syscall(SYS_gettid) == getpid();
}

/* The user's task, or whoever else may have done it. */
static void add_suspect(last_words *w, const cel_job *job) {
  const char *name = job != NULL ? job->name : NULL;
  if (job == NULL) {
    add(w,
        is_script() ? "the script's own thread" : "a thread of celer itself");
  } else if (job->kind == CEL_JOB_INIT) {
    add(w, "the initial contents for ");
    add(w, name != NULL ? name : "a capture");
  } else {
    bool plain = name == NULL || strcmp(name, "host task") == 0;
    add(w, is_kernel(job) ? "kernel" : "host task");
    if (!plain) add(w, " "), add(w, name);
  }
  if (job != NULL) add_place(w, job->place);
}

static const char *reason(const cel_job *job, int number) {
  if (number == SIGFPE) return ": it divides a whole number by 0";
  if (number == SIGILL)
    return ": it does what has no meaning in C++, such as to divide by 0";
  if (job == NULL)
    return ": a kernel, a host task or a C function called through FFI may "
           "have spoilt its memory, or it is a fault of celer";
  if (is_kernel(job))
    return ": it reads or writes outside its data; celer check finds where";
  return ": what it does through :pointer() or FFI, or a fault of celer";
}

/* Where it happened, as far as the stack can be read. */
static void tell_calls(void) {
  enum { CALLS = 24 };
  static const char head[] = "celer: a report of it should have these lines:\n";
  void *call[CALLS];
  (void)!write(STDERR_FILENO, head, sizeof head - 1);
  backtrace_symbols_fd(call, backtrace(call, CALLS), STDERR_FILENO);
}

/* Says so, then lets the default action end the process. Of several threads the
 * first speaks. */
static void on_fault(int number) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const cel_job *job = cel_job_under_way();
  bool users =
      job != NULL && (job->kind == CEL_JOB_CALL || job->kind == CEL_JOB_INIT);
  if (!users) job = NULL;
  while (atomic_flag_test_and_set(&said)) pause();
  last_words w = {.n = 0};
  add(&w, number == SIGFPE   ? "celer: an arithmetic error in "
          : number == SIGILL ? "celer: an illegal instruction in "
                             : "celer: invalid memory access in ");
  add_suspect(&w, job);
  add(&w, reason(job, number));
  add(&w, "\n");
  (void)!writev(STDERR_FILENO, w.piece, w.n);
  if (job == NULL && !is_script()) tell_calls();
  signal(number, SIG_DFL);
  raise(number);
}

static void handle(int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

/* A fault of the handler's own, as where the stack is spoilt, ends the process
 * at once: it is blocked there. */
static void handle_faults(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  enum { FAULTS = sizeof faults / sizeof faults[0] };
  struct sigaction action = {.sa_handler = on_fault};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < FAULTS; ++i) sigaddset(&action.sa_mask, faults[i]);
  for (int i = 0; i < FAULTS; ++i) sigaction(faults[i], &action, NULL);
}

void cel_interrupt_catch(bool interactive) {
  static bool caught;
  keep_session = interactive;
  if (caught) return;
  caught = true;
  main_thread = pthread_self();
  (void)cel_job_under_way();
  (void)backtrace((void *[1]){NULL}, 1); /* loads what it needs by malloc */
  news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  pthread_t thread;
  sem_init(&ending, 0, 0);
  if (pthread_create(&thread, NULL, wait_for_end, NULL) != 0) return;
  pthread_detach(thread);
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, ask_to_end);
  if (interactive) {
    handle(SIGWINCH, tell_news);
    handle(SIGCONT, tell_news);
  }
  handle_faults();
}
