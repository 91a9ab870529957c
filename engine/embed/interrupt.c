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
/* Until the last words must have been said: a file that they wait for may be
 * one that nobody reads. */
enum { LAST_US = 2000000 };

static atomic_bool interrupted, running;
static bool keep_session;
static pthread_t main_thread;
static int news = -1;
static sem_t ending;
static void (*do_first)(void), (*do_last)(void);

void cel_interrupt_set_ends(void (*first)(void), void (*last)(void)) {
  do_first = first;
  do_last = last;
}

bool cel_interrupted(void) {
  return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

void cel_interrupt_clear(void) {
  atomic_store(&interrupted, false);
}

static atomic_bool held;

static void end_line(void) {
  if (atomic_load(&running) && !atomic_load(&held)) cel__state_interrupt();
}

bool cel_interrupt_hold(bool on) {
  bool before = atomic_exchange(&held, on);
  if (on)
    cel__state_go_on();
  else if (atomic_load(&interrupted))
    end_line();
  return before;
}

void cel_interrupt_begin(void) {
  atomic_store(&running, true);
  if (atomic_load(&interrupted)) end_line();
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

/* The signal that ends the process; or a rank is lost. Of several the first. */
enum { LOST = -1 };
static atomic_int cause;
static struct { /* guard: `ending` */
  char text[CEL_ERROR_TEXT];
  void (*end_all)(void *context);
  void *context;
} lost;

static void ask_to_end(int number) {
  int none = 0;
  if (atomic_compare_exchange_strong(&cause, &none, number)) sem_post(&ending);
}

static void say_cause(int number) {
  if (number == LOST && lost.text[0] != '\0')
    fprintf(stderr, "celer: %s\n", lost.text);
  else if (number != LOST && cel_launch_rank() == 0 && !cel_report_settled())
    fprintf(stderr, "celer: %s\n",
            number == SIGINT ? "interrupted"
                             : "told to end, by SIGTERM: Ctrl-C, a time limit, "
                               "a cancelled job, or another rank that has "
                               "ended");
}

static atomic_bool hushed;

void cel_interrupt_hush(void) {
  atomic_store(&hushed, true);
  sem_post(&ending);
}

/* Keeps stdout for this thread. */
static void hush(void) {
  if (!atomic_exchange(&hushed, false)) return;
  flockfile(stdout);
  fflush(stdout);
}

/* Flushes what the script wrote, which a signal handler must not do. Of a job,
 * rank 0 says what has happened, unless another rank does. */
static void *wait_for_end(void *unused) {
  (void)unused;
  int number;
  for (; (number = atomic_load(&cause)) == 0; hush())
    while (sem_wait(&ending) != 0) {
    }
  cel_fault_let_go();
  if (number != LOST) signal(number, SIG_DFL); /* should that take long */
  cel_progress_hide(true);
  if (number == SIGTERM && do_first != NULL) do_first();
  say_cause(number);
  cel_leftover_end();
  fflush(NULL);
  if (do_last != NULL) do_last();
  if (number == LOST && lost.end_all != NULL) lost.end_all(lost.context);
  cel_launch launch;
  if (number == SIGTERM && cel_launch_find(&launch)) usleep(GRACE_US);
  _exit(number == LOST ? CEL_EXIT_LOST : 128 + number);
}

void cel_interrupt_end_lost(const char *text, void (*end_all)(void *context),
                            void *context) {
  if (text != NULL) snprintf(lost.text, sizeof lost.text, "%s", text);
  lost.end_all = end_all;
  lost.context = context;
  ask_to_end(LOST);
  usleep(LAST_US);
  cel_fault_let_go();
  cel_leftover_end_children(); /* the last words may hang before they do */
  _exit(CEL_EXIT_LOST);
}

static void tell_news(int number) {
  uint64_t one = 1;
  (void)number;
  (void)!write(news, &one, sizeof one);
}

static atomic_bool cut;
static atomic_int asks = -1;
static atomic_bool asked;

void cel_interrupt_ask(int file) {
  atomic_store(&asked, false);
  atomic_store(&asks, file);
}

void cel_interrupt_cut(void) {
  atomic_store(&cut, true);
  pthread_kill(main_thread, SIGINT);
}

static void cut_line(void) {
  if (!atomic_load(&running)) return;
  cel_leftover_interrupt();
  atomic_store(&interrupted, true);
  end_line();
}

static void ask(int number) {
  uint64_t one = 1;
  if (atomic_exchange(&asked, true))
    ask_to_end(number);
  else
    (void)!write(atomic_load(&asks), &one, sizeof one);
}

/* Lua's state is main's to change, whichever thread the system has chosen. */
static void on_interrupt(int number) {
  int before = errno;
  if (!keep_session && !atomic_load(&cut)) {
    ask_to_end(number);
  } else if (!pthread_equal(pthread_self(), main_thread)) {
    pthread_kill(main_thread, number);
  } else if (atomic_exchange(&cut, false)) {
    cut_line();
  } else if (atomic_load(&asks) >= 0) {
    ask(number);
  } else {
    cel_leftover_interrupt();
    bool again = atomic_exchange(&interrupted, true);
    if (again && atomic_load(&running))
      ask_to_end(number);
    else
      end_line();
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

static atomic_bool keep;

static void on_keep(int number) {
  (void)number;
  atomic_store(&keep, true);
}

void cel_interrupt_catch_keep(void) {
  struct sigaction now,
      action = {.sa_handler = on_keep, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGUSR1, NULL, &now) == 0 &&
      (now.sa_handler == end_by || now.sa_handler == SIG_DFL ||
       now.sa_handler == SIG_IGN))
    sigaction(SIGUSR1, &action, NULL);
}

bool cel_interrupt_keep(void) {
  return atomic_exchange(&keep, false);
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
