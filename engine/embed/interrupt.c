#include "embed/interrupt.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "embed/state.h"

static atomic_bool interrupted;
static bool keep_session;
static sem_t ending;

bool cel_interrupted(void) {
  return atomic_load_explicit(&interrupted, memory_order_relaxed);
}

void cel_interrupt_clear(void) {
  atomic_store(&interrupted, false);
}

/* Flushes what the script wrote, which a signal handler must not do. */
static void *wait_for_end(void *unused) {
  (void)unused;
  while (sem_wait(&ending) != 0) {
  }
  fputs("celer: interrupted\n", stderr);
  fflush(NULL);
  _exit(128 + SIGINT);
}

static void on_interrupt(int number) {
  (void)number;
  if (!keep_session || atomic_exchange(&interrupted, true))
    sem_post(&ending);
  else
    cel__state_interrupt();
}

/* A kernel or a C library that the script called has touched memory that is
 * not there. Says so, then lets the default action end the process. */
static void on_fault(int number) {
  static const char text[] =
      "celer: invalid memory access: a kernel (or a C library called through "
      "FFI) reads or writes outside its data; check its indices\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  signal(number, SIG_DFL);
  raise(number);
}

void cel_interrupt_catch(bool interactive) {
  static bool caught;
  keep_session = interactive;
  if (caught) return;
  caught = true;
  pthread_t thread;
  sem_init(&ending, 0, 0);
  if (pthread_create(&thread, NULL, wait_for_end, NULL) != 0) return;
  pthread_detach(thread);
  struct sigaction action = {.sa_handler = on_interrupt};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  struct sigaction fault = {.sa_handler = on_fault};
  sigemptyset(&fault.sa_mask);
  sigaction(SIGSEGV, &fault, NULL);
  sigaction(SIGBUS, &fault, NULL);
}
