/* Seeing what happens, for Lua. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/clock.h"
#include "embed/core/core.h"
#include "embed/progress.h"

/* launched() -> whether a launcher has started this process */
static int see_launched(lua_State *L) {
  lua_pushboolean(L, cel_transport_launched());
  return 1;
}

/* trace(path): see cel_session_trace. */
static int see_trace(lua_State *L) {
  if (cel_session_trace(cel__session_of(L), luaL_checkstring(L, 1)) != CEL_E_OK)
    return cel__push_failure(L);
  cel__want_callers();
  lua_pushboolean(L, 1);
  return 1;
}

/* draw(graph, most): keeps up to so many nodes of "task", "command" or
 * "instruction"; before the engine runs. */
static int see_draw(lua_State *L) {
  static const char *const graphs[] = {"task", "command", "instruction", NULL};
  cel_session *session = cel__session_of(L);
  cel_drawn graph = (cel_drawn)luaL_checkoption(L, 1, NULL, graphs);
  session->drawing =
      cel_drawing_create(graph, (uint32_t)luaL_checkinteger(L, 2));
  cel__want_callers();
  return 0;
}

/* drawn_all() -> whether there are more nodes than will be drawn */
static int see_drawn_all(lua_State *L) {
  lua_pushboolean(L, cel_drawing_is_full(cel__session_of(L)->drawing));
  return 1;
}

static void push_dependencies(lua_State *L, const cel_drawn_node *node) {
  static const char *const kinds[] = {"true", "anti", "output", "order"};
  lua_createtable(L, (int)node->deps, 0);
  for (uint32_t i = 0; i < node->deps; ++i) {
    lua_createtable(L, 0, 2);
    cel__set_number(L, "id", (lua_Number)node->dep[i].id);
    cel__set_text(L, "kind", kinds[node->dep[i].kind]);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/* By id. */
static void push_conflicts(lua_State *L, cel_drawing *drawing,
                           const cel_drawn_node *nodes, uint32_t at) {
  const uint32_t *with = NULL;
  uint32_t n = cel_drawing_conflicts(drawing, at, &with);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    lua_pushnumber(L, (lua_Number)nodes[with[i]].id);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/* drawn() -> {{id =, task =, kind =, name =, text = lines, file =, line =,
 * callers =, after = {{id =, kind =}, ...}, excludes = {id, ...}}, ...}, how
 * many were left out. When nothing is under way. */
static int see_drawn(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  const cel_drawn_node *node = NULL;
  uint64_t left_out;
  uint32_t n = cel_drawing_nodes(session->drawing, &node, &left_out);
  lua_createtable(L, (int)n, 0);
  const cel_drawn_node *nodes = node;
  for (uint32_t i = 0; i < n; ++i, ++node) {
    lua_createtable(L, 0, 10);
    cel__set_number(L, "id", (lua_Number)node->id);
    cel__set_number(L, "task", (lua_Number)node->task);
    cel__set_text(L, "kind", node->kind);
    cel__set_text(L, "name", node->name);
    cel__set_text(L, "text", node->text);
    cel__set_text(L, "file", node->location.file);
    cel__set_number(L, "line", node->location.line);
    cel__set_text(L, "callers", node->location.callers);
    push_dependencies(L, node);
    lua_setfield(L, -2, "after");
    push_conflicts(L, session->drawing, nodes, i);
    lua_setfield(L, -2, "excludes");
    lua_rawseti(L, -2, (int)i + 1);
  }
  lua_pushnumber(L, (lua_Number)left_out);
  return 2;
}

/* watched() -> whether somebody sees what stderr is given */
static int see_watched(lua_State *L) {
  const char *terminal = getenv("TERM");
  lua_pushboolean(L, isatty(STDERR_FILENO) && terminal != NULL &&
                         strcmp(terminal, "dumb") != 0);
  return 1;
}

static uint64_t tasks_made(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  cel_engine_counts counts = {0};
  if (session->engine != NULL) cel_engine_count(session->engine, &counts);
  return counts.tasks - counts.horizons;
}

/* progress_now() -> what progress_step needs to know of when a loop began */
static int see_progress_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)cel_now_ns());
  lua_pushnumber(L, (lua_Number)tasks_made(L));
  return 2;
}

/* progress_step(steps, step, begin, tasks): so many steps of a loop have been
 * submitted; all of them: it has ended. */
static int see_progress_step(lua_State *L) {
  cel_progress_loop loop = {.steps = (uint64_t)luaL_checknumber(L, 1),
                            .step = (uint64_t)luaL_checknumber(L, 2),
                            .begin = (int64_t)luaL_checknumber(L, 3),
                            .first_task = (uint64_t)luaL_checknumber(L, 4),
                            .at_task = tasks_made(L)};
  cel_progress_set_loop(&loop);
  return 0;
}

/* progress_share(share, first, begin): that share of a time has been executed,
 * and `first` of it had been at `begin`; 1: the loop has ended. */
static int see_progress_share(lua_State *L) {
  enum { PARTS = 1000000 };
  cel_progress_loop loop = {.measured = true,
                            .steps = PARTS,
                            .step = (uint64_t)(luaL_checknumber(L, 1) * PARTS),
                            .first = (uint64_t)(luaL_checknumber(L, 2) * PARTS),
                            .begin = (int64_t)luaL_checknumber(L, 3)};
  cel_progress_set_loop(&loop);
  return 0;
}

/* progress_end() */
static int see_progress_end(lua_State *L) {
  (void)L;
  cel_progress_stop();
  return 0;
}

const luaL_Reg cel__core_see[] = {
    {"launched", see_launched},
    {"trace", see_trace},
    {"draw", see_draw},
    {"drawn", see_drawn},
    {"drawn_all", see_drawn_all},
    {"watched", see_watched},
    {"progress_now", see_progress_now},
    {"progress_step", see_progress_step},
    {"progress_share", see_progress_share},
    {"progress_end", see_progress_end},
    {NULL, NULL},
};
