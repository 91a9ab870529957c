/* Dry runs for Lua. */
#include "embed/core/core.h"

/* imagine(rank, ranks): see cel_session_imagine. */
static int dry_imagine(lua_State *L) {
  if (cel_session_imagine(cel__session_of(L), (int64_t)luaL_checknumber(L, 1),
                          (int64_t)luaL_checknumber(L, 2)) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* dry() -> whether this is a dry run */
static int dry_is(lua_State *L) {
  lua_pushboolean(L, cel__session_of(L)->options.dry);
  return 1;
}

typedef struct field {
  const char *name;
  double value;
} field;

static void set_fields(lua_State *L, const field *fields, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    lua_pushnumber(L, fields[i].value);
    lua_setfield(L, -2, fields[i].name);
  }
}

#define SET_FIELDS(L, fields)                                                  \
  set_fields(L, fields, sizeof(fields) / sizeof *(fields))

/* {{device = from 0, or none for the host, peak =, limit = if any}, ...} */
static void push_memories(lua_State *L, const cel_backend *b,
                          const cel_dry_work *work) {
  lua_createtable(L, b->memories, 0);
  for (int32_t m = 0; m < b->memories; ++m) {
    lua_createtable(L, 0, 3);
    lua_pushnumber(L, (lua_Number)work->peak[m]);
    lua_setfield(L, -2, "peak");
    for (int32_t d = 0; m > 0 && d < b->devices; ++d) {
      if (b->device_memory[d] != m) continue;
      lua_pushinteger(L, d);
      lua_setfield(L, -2, "device");
    }
    if (b->capacity[m] > 0) {
      lua_pushnumber(L, (lua_Number)b->capacity[m]);
      lua_setfield(L, -2, "limit");
    }
    lua_rawseti(L, -2, m + 1);
  }
}

static void push_traffic(lua_State *L, const cel_transport *t) {
  cel_dry_traffic traffic;
  cel_transport_dry_count(t, &traffic);
  const field fields[] = {
      {"sent", (double)traffic.sent},
      {"bytes_sent", (double)traffic.bytes_sent},
      {"received", (double)traffic.received},
      {"bytes_received", (double)traffic.bytes_received},
      {"peers", (double)traffic.peers},
      {"collectives", (double)traffic.collectives},
      {"bytes_shared", (double)traffic.bytes_shared},
  };
  lua_createtable(L, 0, 7);
  SET_FIELDS(L, fields);
}

static void push_times(lua_State *L, const cel_engine *engine) {
  cel_engine_times times;
  cel_engine_time(engine, &times);
  const field fields[] = {
      {"wall", (double)times.wall * 1e-9},
      {"main", (double)times.main * 1e-9},
      {"scheduler", (double)times.scheduler * 1e-9},
      {"executor", (double)times.executor * 1e-9},
  };
  lua_createtable(L, 0, 4);
  SET_FIELDS(L, fields);
}

/* dry_report() -> what was scheduled, or nil when nothing was; times in s. When
 * nothing is under way. */
static int dry_report(lua_State *L) {
  const cel_session *s = cel__session_of(L);
  if (!s->options.dry || s->engine == NULL) return 0;
  cel_engine_counts counts;
  cel_dry_work work;
  cel_engine_count(s->engine, &counts);
  cel_backend_dry_count(s->backend, &work);
  const field fields[] = {
      {"rank", (double)s->transport->rank},
      {"ranks", (double)s->transport->ranks},
      {"devices", s->backend->devices},
      {"tasks", (double)(counts.tasks - counts.horizons)},
      {"commands", (double)counts.commands},
      {"instructions", (double)counts.instructions},
      {"kernels", (double)work.kernels},
      {"copies", (double)counts.copies},
      {"bytes_copied", (double)counts.bytes_copied},
      {"allocations", (double)counts.allocations},
  };
  lua_createtable(L, 0, 16);
  SET_FIELDS(L, fields);
  push_memories(L, s->backend, &work);
  lua_setfield(L, -2, "memory");
  push_traffic(L, s->transport);
  lua_setfield(L, -2, "messages");
  push_times(L, s->engine);
  lua_setfield(L, -2, "seconds");
  return 1;
}

const luaL_Reg cel__core_dry[] = {
    {"imagine", dry_imagine},
    {"dry", dry_is},
    {"dry_report", dry_report},
    {NULL, NULL},
};
