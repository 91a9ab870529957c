#include "embed/advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/clock.h"
#include "embed/frame.h"
#include "embed/lua_state.h"

enum {
  WAITS = 1000,      /* of one line */
  WAIT_NS = 2000000, /* between two of them, on average */
  LINES = 32,        /* that are counted */
  SEEN = 256,        /* a power of two */
  OFTEN = 64,        /* a line's uses that are each looked at */
  PLENTY = 3         /* cores of a rank that nobody need hear about */
};

static void advise(const cel_session *s, cel_location location,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void advise(const cel_session *s, cel_location location,
                   const char *format, ...) {
  if (!s->options.advice || s->options.quiet || s->transport->rank != 0) return;
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (location.file != NULL)
    fprintf(stderr, "celer: warning: %s:%d: %s\n", location.file, location.line,
            text);
  else
    fprintf(stderr, "celer: warning: %s\n", text);
}

void cel_advice_give(const cel_session *session, cel_location location,
                     const char *text) {
  advise(session, location, "%s", text);
}

static bool is_same(cel_location a, cel_location b) {
  return a.file == b.file && a.line == b.line;
}

/* ---- waits --------------------------------------------------------------- */

typedef struct waiting {
  cel_location location;
  int64_t since_ns; /* the first of those that are counted */
  int64_t n;
  bool told;
} waiting;

static waiting waits[LINES]; /* main's */

static waiting *waiting_at(cel_location location) {
  for (int i = 0; i < LINES; ++i) {
    if (waits[i].location.file == NULL) waits[i].location = location;
    if (is_same(waits[i].location, location)) return &waits[i];
  }
  return NULL;
}

void cel_advice_waited(const cel_session *session, cel_location location) {
  waiting *w = location.file != NULL ? waiting_at(location) : NULL;
  bool heard = session->options.advice && !session->options.dry;
  if (w == NULL || w->told || !heard) return;
  if (w->n++ == 0) w->since_ns = cel_now_ns();
  if (w->n <= WAITS) return;
  int64_t took = cel_now_ns() - w->since_ns;
  w->told = took < (int64_t)WAITS * WAIT_NS;
  w->n = 0;
  if (w->told)
    advise(session, location,
           "this line has waited %d times, every %.2f ms: each time the queue "
           "runs empty, and nothing is computed until more is submitted. Take "
           "what is needed by q:fence, and get it some steps later, or let the "
           "next kernel read the buffer",
           WAITS, (double)took / WAITS / 1e6);
}

/* ---- pairs --------------------------------------------------------------- */

/* Whether the order of a table's elements may differ from one process to the
 * other: it follows from where keys lie, and from a seed of strings. */
static bool is_unordered(lua_State *L, int table) {
  int n = 0;
  bool named = false;
  if (!lua_istable(L, table)) return false;
  for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
    named = named || lua_type(L, -2) != LUA_TNUMBER;
    if (++n < 2 || !named) continue;
    lua_pop(L, 2);
    return true;
  }
  return false;
}

/* A loop keeps its iterator and what it goes through in locals of these names.
 */
static bool loops_over_pairs(lua_State *L, lua_Debug *frame) {
  const char *name;
  bool found = false;
  for (int i = 1; !found && (name = lua_getlocal(L, frame, i)) != NULL; ++i) {
    lua_getglobal(L, "next");
    bool next = strcmp(name, "(for generator)") == 0 && lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (!next || lua_getlocal(L, frame, i + 1) == NULL) continue;
    found = is_unordered(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  return found;
}

typedef struct line_use {
  cel_location location; /* the latest of those that share a slot */
  uint32_t n;
} line_use;

/* A line may be that of a function that a loop over pairs calls later than
 * others do. */
static bool is_due(cel_location location) {
  static line_use seen[SEEN]; /* main's */
  uintptr_t slot = ((uintptr_t)location.file >> 4) + (uintptr_t)location.line;
  line_use *at = &seen[slot & (SEEN - 1)];
  if (!is_same(at->location, location)) *at = (line_use){.location = location};
  ++at->n;
  return at->n <= OFTEN || (at->n & (at->n - 1)) == 0;
}

static bool told_of_pairs; /* main's */

bool cel_advice_wants_look(const cel_session *session, cel_location location) {
  if (told_of_pairs || !session->options.advice || location.file == NULL)
    return false;
  if (session->transport->ranks == 1 && !session->options.check) return false;
  return is_due(location);
}

void cel_advice_look(lua_State *L, cel_location location) {
  const cel_session *s = cel__session_of(L);
  bool told = false;
  lua_Debug frame;
  for (int level = 0; !told && lua_getstack(L, level, &frame); ++level)
    told = cel__is_users(L, &frame) && loops_over_pairs(L, &frame);
  if (told)
    advise(
        s, location,
        "what a loop over pairs submits or makes may come in another order on "
        "each rank, while it must be the same on all; celer.sorted_pairs goes "
        "through it in one order");
  told_of_pairs = told;
}

void cel_advice_submitted(lua_State *L, cel_location location) {
  if (cel_advice_wants_look(cel__session_of(L), location))
    cel_advice_look(L, location);
}

/* ---- cores --------------------------------------------------------------- */

void cel_advice_bound(const cel_session *session) {
  const cel_transport *t = session->transport;
  int32_t more = cel_topology_spare(&session->topology, t->local_ranks);
  if (!session->choice.cuda || t->ranks == 1 || more == 0 ||
      session->topology.cores >= PLENTY)
    return;
  advise(session, (cel_location){0},
         "the launcher binds each rank to %d core%s, which leaves the threads "
         "that feed its GPUs waiting for each other: start with mpirun "
         "--map-by slot:PE=%d, or srun --cpus-per-task=%d",
         session->topology.cores, session->topology.cores == 1 ? "" : "s", more,
         more);
}
