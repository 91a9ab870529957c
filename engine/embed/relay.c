#define _GNU_SOURCE /* pipe2 */
#include "embed/relay.h"

#include <errno.h>
#include <fcntl.h>
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

#include "base/vec.h"
#include "device/clock.h"
#include "device/thread.h"

enum { MARK = 0xff, SIZE = 'S', INTERRUPT = 3, BYTES = 4096 };
/* A session that shows nothing for so long after Ctrl-C does not answer; and
 * what a launcher has to end when it is told to. */
enum { ANSWER_MS = 3000, END_MS = 6000 };

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

/* ---- bytes that wait ------------------------------------------------------
 */

/* What a file does not take yet: who writes to it does not wait, as a Ctrl-C
 * may come behind. */
typedef struct line_up {
  int file; /* does not block */
  CEL_VEC(unsigned char) bytes;
  uint32_t taken;
} line_up;

static void open_line(line_up *l, int file) {
  *l = (line_up){.file = file};
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

static bool is_empty(const line_up *l) {
  return l->taken == l->bytes.n;
}

static void forget(line_up *l) {
  l->taken = l->bytes.n = 0;
}

/* As many as it takes now; none any more where nobody reads it. */
static void write_some(line_up *l) {
  while (!is_empty(l)) {
    ssize_t n = write(l->file, l->bytes.at + l->taken, l->bytes.n - l->taken);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) break;
    l->taken += (uint32_t)n;
  }
  forget(l);
}

static void add_byte(line_up *l, unsigned char byte) {
  cel_vec_push(&l->bytes, byte);
}

/* ---- rank 0 ---------------------------------------------------------------
 */

static struct {
  int from, near; /* what stdin was; this end of the pseudo-terminal */
  line_up to_near;
  int state; /* of the stream: bytes of a mark that have come */
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
  if ((mode.c_lflag & NOFLSH) == 0) {
    tcflush(STDIN_FILENO, TCIFLUSH);
    forget(&taken.to_near);
  }
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
    if (!is_signal(byte)) add_byte(&taken.to_near, byte);
  }
}

/* What the pseudo-terminal echoes while nobody edits a line is shown. */
static void show_echo(void) {
  unsigned char bytes[BYTES];
  ssize_t n = read(taken.near, bytes, sizeof bytes);
  if (n > 0) put(STDOUT_FILENO, bytes, (size_t)n);
}

/* False at the end of what is typed. */
static bool take_some(void) {
  unsigned char bytes[BYTES];
  ssize_t n = read(taken.from, bytes, sizeof bytes);
  for (ssize_t i = 0; i < n; ++i) take_byte(bytes[i]);
  return n > 0 || (n < 0 && errno == EINTR);
}

static void *feed(void *unused) {
  struct pollfd files[] = {{taken.from, POLLIN, 0}, {taken.near, POLLIN, 0}};
  (void)unused;
  while (files[0].fd >= 0 || !is_empty(&taken.to_near)) {
    files[1].events = is_empty(&taken.to_near) ? POLLIN : POLLIN | POLLOUT;
    if (poll(files, 2, -1) < 0) continue;
    if ((files[1].revents & ~POLLOUT) != 0) show_echo();
    if (files[0].revents != 0 && !take_some()) files[0].fd = -1;
    write_some(&taken.to_near);
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
  open_line(&taken.to_near, taken.near);
  dup2(far, STDIN_FILENO);
  dup2(STDOUT_FILENO, STDERR_FILENO);
  close(far);
  CEL_TRY(cel_thread_start(&thread, feed, NULL, "the terminal"));
  pthread_detach(thread);
  return CEL_E_OK;
}

/* ---- the owner ------------------------------------------------------------
 */

/* The child, and what its user has a right to expect of it. */
typedef struct session {
  pid_t child;
  line_up in;
  int64_t asked_ns; /* since when a Ctrl-C is not answered; 0: none */
  bool told;        /* the user has been told how to end it */
  int64_t end_ns;   /* when it has to have ended; 0: it need not */
} session;

static void send_size(line_up *in) {
  struct winsize size = {.ws_row = 24, .ws_col = 80};
  ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
  unsigned char text[] = {MARK,
                          SIZE,
                          (unsigned char)(size.ws_row >> 8),
                          (unsigned char)size.ws_row,
                          (unsigned char)(size.ws_col >> 8),
                          (unsigned char)size.ws_col};
  for (size_t i = 0; i < sizeof text; ++i) add_byte(in, text[i]);
}

static void end_session(session *s) {
  kill(s->child, SIGTERM);
  if (s->end_ns == 0) s->end_ns = cel_now_ns() + END_MS * INT64_C(1000000);
}

static void send_typed(session *s, const unsigned char *bytes, ssize_t n) {
  for (ssize_t i = 0; i < n; ++i) {
    if (bytes[i] == MARK) add_byte(&s->in, MARK);
    add_byte(&s->in, bytes[i]);
    if (bytes[i] != INTERRUPT) continue;
    if (s->told) end_session(s);
    if (s->asked_ns == 0) s->asked_ns = cel_now_ns();
  }
}

/* What is due; how long, in ms, until something else is; -1: nothing will be.
 */
static int look_at_clock(session *s) {
  static const char text[] =
      "\r\nceler: the session does not answer: Ctrl-C again ends it\r\n";
  int64_t now = cel_now_ns(), due = INT64_MAX;
  if (s->end_ns != 0 && now >= s->end_ns) kill(s->child, SIGKILL);
  if (s->end_ns != 0)
    return now >= s->end_ns ? -1 : (int)((s->end_ns - now) / 1000000) + 1;
  if (s->asked_ns != 0 && !s->told)
    due = s->asked_ns + ANSWER_MS * INT64_C(1000000);
  if (due == INT64_MAX) return -1;
  if (now < due) return (int)((due - now) / 1000000) + 1;
  put(STDERR_FILENO, text, sizeof text - 1);
  s->told = true;
  return -1;
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

static void take_signals(int signals, session *s) {
  struct signalfd_siginfo info;
  unsigned char interrupt = INTERRUPT;
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGWINCH) send_size(&s->in);
    if (info.ssi_signo == SIGINT) send_typed(s, &interrupt, 1);
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) end_session(s);
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

/* False at the end of what is typed. */
static bool pass_typed(session *s) {
  unsigned char bytes[BYTES];
  ssize_t typed = read(STDIN_FILENO, bytes, sizeof bytes);
  send_typed(s, bytes, typed);
  return typed > 0 || (typed < 0 && errno == EINTR);
}

void cel_relay_run(pid_t child, int in, int out, int err) {
  enum { TYPED, OUT, ERR, SIGNALS, IN, FILES };
  struct termios before;
  session s = {.child = child};
  int signals = catch_signals();
  bool raw = make_raw(&before), typing = true;
  struct pollfd files[FILES] = {[TYPED] = {STDIN_FILENO, POLLIN, 0},
                                [OUT] = {out, POLLIN, 0},
                                [ERR] = {err, POLLIN, 0},
                                [SIGNALS] = {signals, POLLIN, 0},
                                [IN] = {-1, POLLOUT, 0}};
  open_line(&s.in, in);
  send_size(&s.in);
  for (bool ended = false;;) {
    int ms = look_at_clock(&s);
    write_some(&s.in);
    if (!typing && is_empty(&s.in) && in >= 0) {
      close(in);
      in = s.in.file = -1;
    }
    files[IN].fd = is_empty(&s.in) ? -1 : in;
    for (int i = 0; i < FILES; ++i) files[i].revents = 0;
    /* What it has written is there once it has ended. */
    if (poll(files, FILES, ended ? 0 : ms) < 0) continue;
    for (int i = OUT; i <= ERR; ++i) {
      if (files[i].revents == 0) continue;
      s.asked_ns = 0;
      s.told = false;
      if (!show(files[i].fd)) files[i].fd = -1;
    }
    if (ended && files[OUT].revents == 0 && files[ERR].revents == 0) break;
    if (files[SIGNALS].revents != 0) take_signals(signals, &s);
    if (files[TYPED].revents != 0 && !pass_typed(&s)) {
      files[TYPED].fd = -1;
      typing = false;
    }
    ended = ended || has_ended(child);
  }
  if (raw) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
  cel_vec_release(&s.in.bytes);
  close(signals);
}
