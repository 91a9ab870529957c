/* Launchers as children of this process, for Lua: `celer run -n N`. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/launch.h"
#include "embed/core/core.h"
#include "embed/relay.h"

static int signals = -1;
static sigset_t unblocked; /* what the children get */

/* child_catch(): signals that end a process, SIGUSR1 and the ends of children
 * are from now on what child_await gives */
static int child_catch(lua_State *L) {
  sigset_t set;
  if (signals >= 0) return 0;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGCHLD);
  signals = signalfd(-1, &set, SFD_CLOEXEC);
  if (signals < 0) return luaL_error(L, "no signalfd: %s", strerror(errno));
  pthread_sigmask(SIG_BLOCK, &set, &unblocked);
  return 0;
}

/* {name = value, or false for one that goes}, at `index`. In the child. */
static void set_environment(lua_State *L, int index) {
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    if (lua_toboolean(L, -1))
      setenv(lua_tostring(L, -2), lua_tostring(L, -1), 1);
    else
      unsetenv(lua_tostring(L, -2));
    lua_pop(L, 1);
  }
}

typedef struct plumbing {
  bool quiet;             /* reads nothing, and nobody hears what it says */
  int said[2];            /* for its stderr; -1: it has ours; likewise */
  int typed[2], shown[2]; /* for its stdin and stdout */
  int fault[2];           /* for errno, where it cannot be started */
} plumbing;

/* In the child, which leads a session of its own: a terminal's Ctrl-C is ours,
 * and what it starts can be found. It is told to end if we are no more. SIGUSR1
 * is for ranks that know what to do then: no launcher ends by it that has not
 * come to pass it on yet. */
static _Noreturn void become(lua_State *L, char **argv, const plumbing *p) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setsid();
  signal(SIGUSR1, SIG_IGN);
  pthread_sigmask(SIG_SETMASK, &unblocked, NULL);
  set_environment(L, 2);
  int null = p->quiet ? open("/dev/null", O_RDWR) : -1;
  for (int file = 0; file < 3 && null >= 0; ++file) dup2(null, file);
  if (p->said[1] >= 0) dup2(p->said[1], STDERR_FILENO);
  if (p->typed[0] >= 0) dup2(p->typed[0], STDIN_FILENO);
  if (p->shown[1] >= 0) dup2(p->shown[1], STDOUT_FILENO);
  execvp(argv[0], argv);
  int why = errno;
  (void)!write(p->fault[1], &why, sizeof why);
  _exit(127);
}

static char **read_argv(lua_State *L) {
  size_t n = lua_objlen(L, 1);
  char **argv = cel_alloc_zero((n + 1) * sizeof *argv);
  for (size_t i = 0; i < n; ++i) {
    lua_rawgeti(L, 1, (int)i + 1);
    argv[i] = (char *)lua_tostring(L, -1); /* the table keeps it */
    lua_pop(L, 1);
  }
  return argv;
}

static void close_one(int file) {
  if (file >= 0) close(file);
}

/* child_start(words, {name = value | false}, "heard" | "quiet" | "relayed" |
 * nil) -> its number, the file that has its stderr if it is heard, and those of
 * its stdin and stdout if it is relayed; or nil, why not. After child_catch. */
static int child_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  const char *how = luaL_optstring(L, 3, "");
  plumbing p = {.quiet = strcmp(how, "quiet") == 0,
                .said = {-1, -1},
                .typed = {-1, -1},
                .shown = {-1, -1}};
  bool relayed = strcmp(how, "relayed") == 0;
  int why = 0;
  if (pipe2(p.fault, O_CLOEXEC) != 0) goto failed;
  if ((relayed || strcmp(how, "heard") == 0) && pipe2(p.said, O_CLOEXEC) != 0)
    goto failed;
  if (relayed &&
      (pipe2(p.typed, O_CLOEXEC) != 0 || pipe2(p.shown, O_CLOEXEC) != 0))
    goto failed;
  char **argv = read_argv(L);
  pid_t child = fork();
  if (child == 0) become(L, argv, &p);
  if (child < 0) why = errno;
  cel_free(argv);
  close(p.fault[1]);
  close_one(p.said[1]);
  close_one(p.typed[0]);
  close_one(p.shown[1]);
  if (child > 0 && read(p.fault[0], &why, sizeof why) == sizeof why)
    waitpid(child, NULL, 0);
  close(p.fault[0]);
  if (why == 0) {
    lua_pushinteger(L, child);
    lua_pushinteger(L, p.said[0]);
    lua_pushinteger(L, p.typed[1]);
    lua_pushinteger(L, p.shown[0]);
    return 4;
  }
  close_one(p.said[0]);
  close_one(p.typed[1]);
  close_one(p.shown[0]);
  errno = why;
failed:
  lua_pushnil(L);
  lua_pushstring(L, strerror(errno));
  return 2;
}

/* child_await(file | -1, milliseconds | -1) -> "signal", its number: SIGCHLD
 * is that of a child that has ended; "text", "" at its end; or "time" */
static int child_await(lua_State *L) {
  struct pollfd files[] = {
      {.fd = signals, .events = POLLIN},
      {.fd = (int)luaL_checkinteger(L, 1), .events = POLLIN}};
  char text[4096];
  struct signalfd_siginfo info;
  int n = poll(files, 2, (int)luaL_checkinteger(L, 2));
  if (n > 0 && files[1].revents != 0) { /* first, so that nothing is missed */
    ssize_t got = read(files[1].fd, text, sizeof text);
    lua_pushliteral(L, "text");
    lua_pushlstring(L, text, got > 0 ? (size_t)got : 0);
    return 2;
  }
  if (n > 0 && read(signals, &info, sizeof info) == sizeof info) {
    lua_pushliteral(L, "signal");
    lua_pushinteger(L, (lua_Integer)info.ssi_signo);
    return 2;
  }
  lua_pushliteral(L, "time");
  return 1;
}

/* child_ended(its number) -> false while it lives; then, once, its status and
 * the signal that has ended it, or 0 */
static int child_ended(lua_State *L) {
  int status;
  if (waitpid((pid_t)luaL_checkinteger(L, 1), &status, WNOHANG) <= 0) {
    lua_pushboolean(L, false);
    return 1;
  }
  bool exited = WIFEXITED(status);
  lua_pushinteger(L, exited ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  lua_pushinteger(L, exited ? 0 : WTERMSIG(status));
  return 2;
}

/* child_kill(number of a process, signal) */
static int child_kill(lua_State *L) {
  kill((pid_t)luaL_checkinteger(L, 1), (int)luaL_checkinteger(L, 2));
  return 0;
}

/* child_close(file) */
static int child_close(lua_State *L) {
  close_one((int)luaL_checkinteger(L, 1));
  return 0;
}

/* child_relay(its number, stderr, stdin, stdout): it has our terminal until it
 * ends */
static int child_relay(lua_State *L) {
  cel_relay_run((pid_t)luaL_checkinteger(L, 1), (int)luaL_checkinteger(L, 3),
                (int)luaL_checkinteger(L, 4), (int)luaL_checkinteger(L, 2));
  return 0;
}

/* take_terminal(variable) -> true: stdin is one from now on, by child_relay of
 * the process that has started the launcher. Of which kind is in the variable,
 * which is not for what this process starts. */
static int child_take_terminal(lua_State *L) {
  const char *name = luaL_checkstring(L, 1), *kind = getenv(name);
  setenv("TERM", kind != NULL ? kind : "dumb", 1);
  unsetenv(name);
  if (cel_relay_take() != CEL_E_OK) return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* launcher() -> the one that has started this process, or nil */
static int child_launcher(lua_State *L) {
  cel_launch launch;
  if (!cel_launch_find(&launch)) return 0;
  lua_pushstring(L, launch.by);
  return 1;
}

const luaL_Reg cel__core_child[] = {
    {"child_catch", child_catch}, {"child_start", child_start},
    {"child_await", child_await}, {"child_ended", child_ended},
    {"child_relay", child_relay}, {"take_terminal", child_take_terminal},
    {"child_kill", child_kill},   {"child_close", child_close},
    {"launcher", child_launcher}, {NULL, NULL},
};
