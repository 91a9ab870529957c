#include "embed/core/core.h"
#include "tuning.h"

/* How much more there may be before the next: a quarter, and no less than Lua's
 * own, all of which a collection visits. */
static uint64_t allowance(lua_State *L, uint64_t backing) {
  uint64_t most = (uint64_t)lua_gc(L, LUA_GCCOUNT, 0) << 10;
  if (most < CEL_TUNE_COLLECT_BYTES) most = CEL_TUNE_COLLECT_BYTES;
  return backing / 4 > most ? backing / 4 : most;
}

void cel__backing_add(lua_State *L, cel_backing *what, uint64_t bytes) {
  cel_session *s = cel__session_of(L);
  what->bytes = bytes;
  s->backing += bytes;
  if (s->backing < s->backing_last + CEL_TUNE_COLLECT_BYTES ||
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
