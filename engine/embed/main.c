/* The celer command: finds its rank, hands over to lua/celer/run/cli.lua. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/heartbeat/launcher.h"
#include "comm/launch.h"
#include "comm/report.h"
#include "device/backend.h"
#include "device/compile/background.h"
#include "device/compile/leftover.h"
#include "device/thread.h"
#include "embed/fault.h"
#include "embed/interrupt.h"
#include "embed/lua_state.h"
#include "embed/progress.h"

static cel_session session;
static pthread_t main_thread;

static void print_lines(const char *text, const char *more) {
  fflush(stdout);
  fprintf(stderr, "%sceler: %s\n%s", session.found != NULL ? session.found : "",
          text, more);
  fflush(stderr);
}

static void print_error(const char *text) {
  print_lines(text, "");
}

/* By the rank that ends the others. `celer run --restarts` listens: what it
 * hears of its launcher may look like a loss, as launchers kill the others, and
 * this rank at any moment from now on: both lines are written at once. */
static void print_last(const char *text) {
  bool repeats =
      getenv("CELER_RESTARTED") != NULL && session.transport->broken == NULL;
  print_lines(text, repeats ? "celer: an error would come again: the run is "
                              "not started again\n"
                            : "");
  cel_session_merge_trace(&session, CEL_TRACE_PATIENCE_US);
}

/* Where the refusing is met: the user's task, or the script's line. */
static void find_place(char *text, size_t size) {
  const cel_job *job = cel_job_under_way();
  text[0] = '\0';
  if (pthread_equal(pthread_self(), main_thread))
    cel__state_place(text, size);
  else if (job != NULL && job->location.file != NULL)
    snprintf(text, size, "%s:%d: ", job->location.file, job->location.line);
}

/* In any thread, which may have no memory. The launcher ends the other ranks.
 */
static void say_refused(const char *text) {
  char place[300], who[32] = "";
  cel_fault_let_go();
  find_place(place, sizeof place);
  if (cel_launch_rank() > 0)
    snprintf(who, sizeof who, "rank %lld: ", (long long)cel_launch_rank());
  fflush(stdout);
  fprintf(stderr, "%sceler: %s%s%s\n",
          session.found != NULL ? session.found : "", who, place, text);
  cel_leftover_end();
}

/* mpirun, which is told to end, waits for hosts that it cannot reach. The ranks
 * there end once they take the others for lost, so that is time enough. */
static void outlive_launcher(void) {
  enum { MORE_S = 5 };
  const cel_transport *t = session.transport;
  if (t->ranks > 1 && !t->dry && session.options.lost > 0)
    cel_launcher_outlive((session.options.lost + MORE_S) * 1000);
}

/* A launcher may end ranks since one is lost, and this one may have been
 * stopped while the others said so. */
static void look_for_news(void) {
  const cel_transport *t = session.transport;
  if (t != NULL && t->control.look != NULL) t->control.look(t->control.self);
}

/* When Ctrl-C or a launcher ends the run: what is known until then. */
static void end(void) {
  outlive_launcher();
  cel_background_stop();
  bool ended_before = cel_session_end_trace(&session);
  /* A rank that failed puts the parts together itself. */
  if (cel_launch_rank() == 0 && !ended_before && !cel_report_settled())
    cel_session_merge_trace(&session, CEL_TRACE_HURRY_US);
}

/* Ends the whole job after an error; once per job when all ranks share it. */
static int fail(cel_status code, const char *text) {
  cel_fault_let_go();
  cel_progress_stop();
  cel_background_stop();
  fflush(NULL);
  if (session.engine != NULL) cel_engine_abandon(session.engine);
  cel_session_end_trace(&session);
  cel_leftover_end();
  const cel_transport *t = session.transport;
  if (t != NULL && t->ranks > 1 && !t->dry) {
    cel_error error = {.code = code};
    snprintf(error.text, sizeof error.text, "%s", text);
    cel_report_error(session.transport, &error, print_last);
  } else {
    print_error(text);
  }
  _exit(1); /* threads may still compute; nothing of theirs is wanted */
}

/* Of stdin, stdout and stderr those that are closed: a file opened later would
 * get such a number, and whatever is printed would land in it. */
static bool open_standard_files(void) {
  int file = open("/dev/null", O_RDWR);
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDWR);
  if (file < 0) return false;
  close(file);
  return true;
}

int main(int argc, char **argv) {
  cel_overflow_room room;
  cel_overflow_prepare(&room);
  if (!open_standard_files()) {
    fprintf(stderr, "celer: cannot open /dev/null: %s\n", strerror(errno));
    return 1;
  }
  main_thread = pthread_self();
  cel_refused_set_say(say_refused);
  cel_interrupt_outlive_limits();
  cel_interrupt_set_ends(look_for_news, end);
  /* Whoever has started the run may ask at any moment. */
  if (getenv("CELER_RESTARTED") != NULL) cel_interrupt_catch_keep();
  if (cel_session_open(&session) != CEL_E_OK) {
    if (cel_launch_rank() == 0) print_error(cel_error_last()->text);
    return 1;
  }
  /* A launcher passes on what ranks write: lines, not pieces of lines. In a
   * file, too, one sees how far a run is, and in order with stderr. */
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  lua_State *L = cel__state_create_driver(&session);
  if (L == NULL) return fail(CEL_E_MEMORY, "no memory for Lua");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "celer.run.cli");
  if (!cel__state_call(L, 1, 1)) goto failed;
  lua_getfield(L, -1, "main");
  lua_createtable(L, argc, 1);
  for (int i = 0; i < argc; ++i) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
  if (!cel__state_call(L, 1, 1)) goto failed;
  int status = (int)lua_tointeger(L, -1);
  cel_session_close(&session, status);
  cel__state_destroy(L);
  if (cel_background_left()) {
    fflush(NULL);
    _exit(status);
  }
  return status;

failed:; /* an error is {message =, cancelled = it happened elsewhere} */
  cel_status code = CEL_E_TASK;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "cancelled");
    if (lua_toboolean(L, -1)) code = CEL_E_CANCELLED;
    lua_pop(L, 1);
  }
  return fail(code, cel__state_text(L));
}
