#define _GNU_SOURCE /* pipe2 */
#include "comm/hub/words.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/thread.h"

/* What a pipe of the system holds at most, and what is read of it at a time. */
enum { PIPE = 65536, BYTES = 4096 };

struct cel_words {
  cel_words_pass *pass;
  void *context;
  pthread_t thread;
  bool out, err; /* which of the two lead here */
  /* The ends of the pipe; /dev/null; and what ends the thread. */
  int from, to, null, end;
};

static bool leads_nowhere(int file) {
  struct stat is, null;
  return fstat(file, &is) == 0 && stat("/dev/null", &null) == 0 &&
         S_ISCHR(is.st_mode) && is.st_rdev == null.st_rdev;
}

/* False where there was nothing. */
static bool pass_some(const cel_words *w) {
  char bytes[BYTES];
  ssize_t n;
  do {
    n = read(w->from, bytes, sizeof bytes);
  } while (n < 0 && errno == EINTR);
  if (n > 0) w->pass(w->context, bytes, (uint64_t)n);
  return n > 0;
}

/* The pipe does not come to an end while some process of the user's has it. */
static void *pass_all(void *context) {
  cel_words *w = context;
  struct pollfd files[] = {{.fd = w->from, .events = POLLIN},
                           {.fd = w->end, .events = POLLIN}};
  for (; files[1].revents == 0; pass_some(w))
    while (poll(files, 2, -1) < 0) {
    }
  for (int left = PIPE / BYTES; left > 0 && pass_some(w); --left) {
  }
  return NULL;
}

static void close_all(cel_words *w) {
  int all[] = {w->from, w->to, w->null, w->end};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
    if (all[i] >= 0) close(all[i]);
  cel_free(w);
}

static bool open_files(cel_words *w) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  w->from = ends[0];
  w->to = ends[1];
  w->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  w->end = eventfd(0, EFD_CLOEXEC);
  return w->null >= 0 && w->end >= 0 &&
         fcntl(w->from, F_SETFL, O_NONBLOCK) == 0;
}

static void lead_to(const cel_words *w, int file) {
  fflush(NULL);
  if (w->out) dup2(file, STDOUT_FILENO);
  if (w->err) dup2(file, STDERR_FILENO);
}

cel_status cel__words_open(cel_words_pass *pass, void *context,
                           cel_words **out) {
  cel_words words = {.pass = pass,
                     .context = context,
                     .out = leads_nowhere(STDOUT_FILENO),
                     .err = leads_nowhere(STDERR_FILENO),
                     .from = -1,
                     .to = -1,
                     .null = -1,
                     .end = -1};
  cel_words *w = NULL;
  if (words.out || words.err) {
    w = cel_alloc(sizeof *w);
    *w = words;
    cel_status status =
        open_files(w) ? cel_thread_start(&w->thread, pass_all, w, "its output")
                      : cel_fail(CEL_E_MISSING,
                                 "the system refuses a file for what the rank "
                                 "prints: %s (see ulimit -n)",
                                 strerror(errno));
    if (status != CEL_E_OK) {
      close_all(w);
      return status;
    }
    lead_to(w, w->to);
  }
  *out = w;
  return CEL_E_OK;
}

void cel__words_close(cel_words *w) {
  uint64_t one = 1;
  if (w == NULL) return;
  lead_to(w, w->null);
  (void)!write(w->end, &one, sizeof one);
  pthread_join(w->thread, NULL);
  close_all(w);
}

void cel__words_show(const void *bytes, uint64_t size) {
  for (const char *at = bytes; size > 0;) {
    ssize_t n = write(STDOUT_FILENO, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += n;
    size -= (uint64_t)n;
  }
}
