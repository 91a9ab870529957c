#include "embed/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "comm/launch.h"
#include "comm/report.h"
#include "device/compile/leftover.h"
#include "device/thread.h"
#include "embed/fault.h"
#include "embed/lua_state.h"
#include "embed/progress.h"

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
  cel_fault_let_go();
  signal(number, SIG_DFL); /* should that take long */
  cel_progress_hide(true);
  if (cel_launch_rank() == 0 && !cel_report_settled())
    fprintf(stderr, "celer: %s\n",
            number == SIGINT ? "interrupted"
                             : "told to end, by SIGTERM: Ctrl-C, a time limit, "
                               "a cancelled job, or another rank that has "
                               "ended");
  cel_leftover_end();
  fflush(NULL);
  if (do_last != NULL) do_last();
  cel_launch launch;
  if (number == SIGTERM && cel_launch_find(&launch)) usleep(GRACE_US);
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
    cel_leftover_interrupt();
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

static void end_by(int number) {
  cel_leftover_end();
  signal(number, SIG_DFL);
  raise(number);
}

static void handle(int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

/* All others that end a process, unless somebody has made something else of
 * them: `nohup`, MPI. */
static void handle_ends(void) {
  static const int ends[] = {SIGHUP,  SIGQUIT, SIGPIPE,   SIGALRM,  SIGUSR1,
                             SIGUSR2, SIGXCPU, SIGVTALRM, SIGPROF,  SIGSYS,
                             SIGTRAP, SIGIO,   SIGPWR,    SIGSTKFLT};
  struct sigaction now;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; ++i)
    if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
      handle(ends[i], end_by);
}

static void ignore(int number) {
  (void)number;
}

/* By a handler, as children would go on to ignore what we do. */
void cel_interrupt_outlive_limits(void) {
  struct sigaction now;
  if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
    handle(SIGXFSZ, ignore);
}

cel_status cel_interrupt_catch(bool interactive) {
  static bool caught;
  keep_session = interactive;
  if (caught) return CEL_E_OK;
  main_thread = pthread_self();
  news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (news < 0)
    return cel_fail(CEL_E_MISSING,
                    "the system refuses a file for Ctrl-C: %s (see ulimit -n)",
                    strerror(errno));
  pthread_t thread;
  sem_init(&ending, 0, 0);
  CEL_TRY(cel_thread_start(&thread, wait_for_end, NULL, "Ctrl-C"));
  caught = true;
  pthread_detach(thread);
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, ask_to_end);
  handle_ends();
  if (interactive) {
    handle(SIGWINCH, tell_news);
    handle(SIGCONT, tell_news);
  }
  return CEL_E_OK;
}
