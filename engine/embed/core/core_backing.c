#include "embed/core/core.h"

/* What may come between two collections at least: about as much memory as takes
 * the time of one to be filled. */
static const uint64_t LEAST = 64 << 20;

/* How much more there may be before the next: a quarter, and no less than Lua's
 * own, all of which a collection visits. */
static uint64_t allowance(lua_State *L, uint64_t backing) {
  uint64_t most = (uint64_t)lua_gc(L, LUA_GCCOUNT, 0) << 10;
  if (most < LEAST) most = LEAST;
  return backing / 4 > most ? backing / 4 : most;
}

void cel__backing_add(lua_State *L, cel_backing *what, uint64_t bytes) {
  cel_session *s = cel__session_of(L);
  what->bytes = bytes;
  s->backing += bytes;
  if (s->backing < s->backing_last + LEAST ||
      s->backing < s->backing_last + allowance(L, s->backing_last) ||
      !lua_gc(L, LUA_GCISRUNNING, 0))
    return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  s->backing_last = s->backing;
}

void cel__backing_drop(lua_State *L, cel_backing *what) {
  cel_session *s = cel__session_of(L);
  s->backing -= what->bytes;
  what->bytes = 0;
  if (s->backing_last > s->backing) s->backing_last = s->backing;
}
