/* Starting, waiting and asking for Lua. */
#define _GNU_SOURCE /* environ */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"
#include "embed/core.h"
#include "embed/interrupt.h"

/* configure{devices =, horizon_step =, quiet =, interactive =} */
static int run_configure(lua_State *L) {
  cel_session *session = cel__session_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_getfield(L, 1, "devices");
  lua_getfield(L, 1, "horizon_step");
  lua_getfield(L, 1, "quiet");
  lua_getfield(L, 1, "interactive");
  session->options.devices = (int32_t)luaL_optinteger(L, -4, 0);
  session->options.horizon_step = (int32_t)luaL_optinteger(L, -3, 0);
  session->options.quiet = lua_toboolean(L, -2);
  session->options.lookahead = true;
  cel_interrupt_catch(lua_toboolean(L, -1));
  return 0;
}

/* set_bundle(text): the script and its modules, for the host lanes. */
static int run_set_bundle(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  cel__bundle_set(text, size);
  return 0;
}

/* exit(status): ends the process; the other ranks do so too. */
static int run_exit(lua_State *L) {
  int status = (int)luaL_checkinteger(L, 1);
  cel_session_close(cel__session_of(L), status);
  _exit(status); /* a state that still runs cannot be closed */
}

/* devices() -> how many this rank has */
static int run_devices(lua_State *L) {
  int32_t devices = cel__session_of(L)->options.devices;
  lua_pushinteger(L, devices > 0 ? devices : 1);
  return 1;
}

/* terminal() -> whether a person types what stdin gives */
static int run_terminal(lua_State *L) {
  lua_pushboolean(L, isatty(STDIN_FILENO));
  return 1;
}

/* broadcast(text) -> rank 0's text. Only before the engine runs. */
static int run_broadcast(lua_State *L) {
  cel_transport *t = cel__session_of(L)->transport;
  size_t length = 0;
  const char *text = luaL_optlstring(L, 1, "", &length);
  void *data = cel_alloc(length + 1);
  uint64_t size = length;
  memcpy(data, text, length);
  if (cel__session_of(L)->engine != NULL)
    cel_bug("broadcast while the executor owns the transport");
  cel_status status = t->broadcast(t, &data, &size);
  if (status == CEL_E_OK) lua_pushlstring(L, data, size);
  cel_free(data);
  return status == CEL_E_OK ? 1 : cel__push_failure(L);
}

static int run_started(lua_State *L) {
  lua_pushboolean(L, cel__session_of(L)->engine != NULL);
  return 1;
}

/* wait(file, line): an epoch, and until it is reached on this rank. */
static int run_wait(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  uint64_t epoch = cel_engine_epoch(engine, cel__check_place(L, 1));
  if (cel_engine_wait(engine, epoch, cel_interrupted) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* finish(): the program has ended; all ranks agree that it has. */
static int run_finish(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  if (cel_engine_finish(engine, cel_interrupted) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

static void set_text(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

/* info() -> a table of what this rank has. */
static int run_info(lua_State *L) {
  cel_session *session = cel__session_of(L);
  char text[256];
  cel_topology_describe(text, sizeof text);
  lua_newtable(L);
  set_text(L, "cpu", text);
  cel_topology topology;
  const cel_transport *t = session->transport;
  if (cel_topology_find(t->local_rank, t->local_ranks, &topology) == CEL_E_OK) {
    lua_pushinteger(L, topology.cores);
    lua_setfield(L, -2, "cores");
    lua_pushinteger(L, topology.host_cores);
    lua_setfield(L, -2, "host_cores");
    lua_pushboolean(L, topology.bound);
    lua_setfield(L, -2, "bound");
  }
  const char *compiler = cel_compiler_describe();
  set_text(L, "compiler", compiler != NULL ? compiler : "none found");
  char warning[256], folder[512];
  cel_cache_describe(folder, sizeof folder, warning, sizeof warning);
  set_text(L, "cache", folder);
  cel_mpi_describe(text, sizeof text);
  set_text(L, "mpi", text);
  set_text(L, "transport", t->name);
  set_text(L, "version", cel_version());
  return 1;
}

/* counts() -> what the engine has done, or nil when it never ran. */
static int run_counts(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  if (session->engine == NULL) return 0;
  cel_engine_counts c;
  cel_engine_count(session->engine, &c);
  const struct {
    const char *name;
    uint64_t value;
  } rows[] = {
      {"tasks", c.tasks},
      {"commands", c.commands},
      {"instructions", c.instructions},
      {"messages", c.messages},
      {"bytes_sent", c.bytes_sent},
      {"copies", c.copies},
      {"bytes_copied", c.bytes_copied},
      {"allocations", c.allocations},
  };
  lua_newtable(L);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    lua_pushnumber(L, (lua_Number)rows[i].value);
    lua_setfield(L, -2, rows[i].name);
  }
  return 1;
}

/* environment() -> {name = value} of every variable that begins CELER_. */
static int run_environment(lua_State *L) {
  lua_newtable(L);
  for (char **e = environ; *e != NULL; ++e) {
    const char *equals = strchr(*e, '=');
    if (strncmp(*e, "CELER_", 6) != 0 || equals == NULL) continue;
    lua_pushlstring(L, *e, (size_t)(equals - *e));
    lua_pushstring(L, equals + 1);
    lua_rawset(L, -3);
  }
  return 1;
}

const luaL_Reg cel__core_run[] = {
    {"configure", run_configure},
    {"set_bundle", run_set_bundle},
    {"exit", run_exit},
    {"devices", run_devices},
    {"terminal", run_terminal},
    {"broadcast", run_broadcast},
    {"started", run_started},
    {"wait", run_wait},
    {"finish", run_finish},
    {"info", run_info},
    {"counts", run_counts},
    {"environment", run_environment},
    {NULL, NULL},
};
