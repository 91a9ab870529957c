#define _GNU_SOURCE /* pipe2 */
#include "embed/relay.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "device/thread.h"

enum { MARK = 0xff, SIZE = 'S', INTERRUPT = 3, BYTES = 4096 };

static bool put(int file, const void *data, size_t size) {
  for (const char *at = data; size > 0;) {
    ssize_t n = write(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

/* ---- rank 0 ---------------------------------------------------------------
 */

static struct {
  int from, near; /* what stdin was; this end of the pseudo-terminal */
  int state;      /* of the stream: bytes of a mark that have come */
  unsigned char size[4];
} taken;

/* A key that is a signal, as it would be on a terminal of our own. */
static bool is_signal(unsigned char byte) {
  struct termios mode;
  if (tcgetattr(taken.near, &mode) != 0 || (mode.c_lflag & ISIG) == 0)
    return false;
  int number = byte == mode.c_cc[VINTR]   ? SIGINT
               : byte == mode.c_cc[VQUIT] ? SIGQUIT
                                          : 0;
  if (number == 0) return byte == mode.c_cc[VSUSP];
  if ((mode.c_lflag & NOFLSH) == 0) tcflush(STDIN_FILENO, TCIFLUSH);
  if ((mode.c_lflag & ECHO) != 0 && number == SIGINT)
    put(STDOUT_FILENO, "^C", 2);
  kill(getpid(), number);
  return true;
}

static void resize(void) {
  const unsigned char *s = taken.size;
  struct winsize size = {.ws_row = (unsigned short)(s[0] << 8 | s[1]),
                         .ws_col = (unsigned short)(s[2] << 8 | s[3])};
  ioctl(taken.near, TIOCSWINSZ, &size);
  kill(getpid(), SIGWINCH);
}

static void take_byte(unsigned char byte) {
  if (taken.state == 0 && byte == MARK) {
    taken.state = 1;
  } else if (taken.state == 1 && byte == SIZE) {
    taken.state = 2;
  } else if (taken.state >= 2) {
    taken.size[taken.state++ - 2] = byte;
    if (taken.state < 6) return;
    taken.state = 0;
    resize();
  } else {
    taken.state = 0;
    if (!is_signal(byte)) put(taken.near, &byte, 1);
  }
}

/* What the pseudo-terminal echoes while nobody edits a line is shown. */
static void *feed(void *unused) {
  struct pollfd files[] = {{taken.from, POLLIN, 0}, {taken.near, POLLIN, 0}};
  unsigned char bytes[BYTES];
  (void)unused;
  for (;;) {
    if (poll(files, 2, -1) < 0) continue;
    if (files[1].revents != 0) {
      ssize_t n = read(taken.near, bytes, sizeof bytes);
      if (n > 0) put(STDOUT_FILENO, bytes, (size_t)n);
    }
    if (files[0].revents == 0) continue;
    ssize_t n = read(taken.from, bytes, sizeof bytes);
    if (n <= 0 && errno != EINTR) break;
    for (ssize_t i = 0; i < n; ++i) take_byte(bytes[i]);
  }
  close(taken.near); /* the far end reads its end */
  return NULL;
}

cel_status cel_relay_take(void) {
  int far;
  pthread_t thread;
  if (openpty(&taken.near, &far, NULL, NULL, NULL) != 0)
    return cel_fail(CEL_E_MISSING, "the system refuses a terminal: %s",
                    strerror(errno));
  taken.from = dup(STDIN_FILENO);
  dup2(far, STDIN_FILENO);
  dup2(STDOUT_FILENO, STDERR_FILENO);
  close(far);
  CEL_TRY(cel_thread_start(&thread, feed, NULL, "the terminal"));
  pthread_detach(thread);
  return CEL_E_OK;
}

/* ---- the owner ------------------------------------------------------------
 */

static void send_size(int in) {
  struct winsize size = {.ws_row = 24, .ws_col = 80};
  ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
  unsigned char text[] = {MARK,
                          SIZE,
                          (unsigned char)(size.ws_row >> 8),
                          (unsigned char)size.ws_row,
                          (unsigned char)(size.ws_col >> 8),
                          (unsigned char)size.ws_col};
  put(in, text, sizeof text);
}

static void send_typed(int in, const unsigned char *bytes, ssize_t n) {
  unsigned char text[2 * BYTES];
  size_t size = 0;
  for (ssize_t i = 0; i < n; ++i) {
    if (bytes[i] == MARK) text[size++] = MARK;
    text[size++] = bytes[i];
  }
  put(in, text, size);
}

/* Each key comes by itself, and means nothing here. What is shown still has its
 * lines begin at the left. */
static bool make_raw(struct termios *before) {
  if (tcgetattr(STDIN_FILENO, before) != 0) return false;
  struct termios raw = *before;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static int catch_signals(void) {
  static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCHLD};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
    sigaddset(&set, all[i]);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void take_signals(int signals, pid_t child, int in) {
  struct signalfd_siginfo info;
  unsigned char interrupt = INTERRUPT;
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGWINCH) send_size(in);
    if (info.ssi_signo == SIGINT) send_typed(in, &interrupt, 1);
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP)
      kill(child, SIGTERM);
  }
}

/* False at its end. */
static bool show(int file) {
  unsigned char bytes[BYTES];
  ssize_t n = read(file, bytes, sizeof bytes);
  if (n > 0) put(STDOUT_FILENO, bytes, (size_t)n);
  return n > 0 || (n < 0 && errno == EINTR);
}

static bool has_ended(pid_t child) {
  siginfo_t info = {0};
  waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid == child;
}

void cel_relay_run(pid_t child, int in, int out, int err) {
  enum { TYPED, OUT, ERR, SIGNALS, FILES };
  struct termios before;
  int signals = catch_signals();
  bool raw = make_raw(&before);
  struct pollfd files[FILES] = {[TYPED] = {STDIN_FILENO, POLLIN, 0},
                                [OUT] = {out, POLLIN, 0},
                                [ERR] = {err, POLLIN, 0},
                                [SIGNALS] = {signals, POLLIN, 0}};
  unsigned char bytes[BYTES];
  send_size(in);
  for (bool ended = false;;) {
    /* What it has written is there once it has ended. */
    int n = poll(files, FILES, ended ? 0 : -1);
    for (int i = OUT; i <= ERR; ++i)
      if (files[i].revents != 0 && !show(files[i].fd)) files[i].fd = -1;
    if (ended && files[OUT].revents == 0 && files[ERR].revents == 0) break;
    if (files[SIGNALS].revents != 0) take_signals(signals, child, in);
    if (n > 0 && files[TYPED].revents != 0) {
      ssize_t typed = read(STDIN_FILENO, bytes, sizeof bytes);
      if (typed > 0)
        send_typed(in, bytes, typed);
      else if (typed == 0 || errno != EINTR)
        files[TYPED].fd = -1;
      if (files[TYPED].fd < 0) close(in);
    }
    ended = ended || has_ended(child);
    for (int i = 0; i < FILES; ++i) files[i].revents = 0;
  }
  if (raw) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
  close(signals);
}
