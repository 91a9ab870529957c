#include "random/last_words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* It begins a line, for what stdio holds back may end in the middle of one. */
static char words[64];

static void say(void) {
  ssize_t written = write(STDOUT_FILENO, words, strlen(words));
  (void)written;
}

static void die(int number) {
  say();
  signal(number, SIG_DFL);
  raise(number);
}

/* There where a sanitizer is: it ends the process without a signal, and wants
 * the others for itself. */
void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));

/* The sanitizer of undefined behaviour has a runtime of its own, which calls
 * nobody back: it aborts. */
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";
}

void last_words_init(void) {
  static const int signals[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
  signal(SIGABRT, die);
  if (__sanitizer_set_death_callback != NULL) {
    __sanitizer_set_death_callback(say);
    return;
  }
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
    signal(signals[i], die);
}

void last_words_of(uint64_t seed) {
  snprintf(words, sizeof words, "\nseed %llu: died\n",
           (unsigned long long)seed);
}
