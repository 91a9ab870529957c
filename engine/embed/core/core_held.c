#include "embed/core/core.h"

/* What may come between two collections at least: about as much memory as takes
 * the time of one to be filled. */
static const uint64_t LEAST = 64 << 20;

/* How much more is held before the next: a quarter, and no less than Lua's own,
 * all of which a collection visits. */
static uint64_t allowance(lua_State *L, uint64_t held) {
  uint64_t most = (uint64_t)lua_gc(L, LUA_GCCOUNT, 0) << 10;
  if (most < LEAST) most = LEAST;
  return held / 4 > most ? held / 4 : most;
}

void cel__hold(lua_State *L, cel_held *what, uint64_t bytes) {
  cel_session *s = cel__session_of(L);
  what->bytes = bytes;
  s->held += bytes;
  if (s->held < s->held_last + LEAST ||
      s->held < s->held_last + allowance(L, s->held_last) ||
      !lua_gc(L, LUA_GCISRUNNING, 0))
    return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  s->held_last = s->held;
}

void cel__let_go(lua_State *L, cel_held *what) {
  cel_session *s = cel__session_of(L);
  s->held -= what->bytes;
  what->bytes = 0;
  if (s->held_last > s->held) s->held_last = s->held;
}
