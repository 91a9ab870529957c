/* For `celer check`: what tasks touched, and what other ranks found. */
#include <string.h>

#include "embed/core/core.h"

/* Collective tasks number their groups from 1. */
enum { GATHER_GROUP = 32767 };

static void set_point(lua_State *L, const char *key, const int64_t *at,
                      int32_t dims) {
  lua_createtable(L, dims, 0);
  for (int32_t d = 0; d < dims; ++d) {
    lua_pushnumber(L, (lua_Number)at[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_setfield(L, -2, key);
}

/* {lowest coordinates, ends} */
static void set_box(lua_State *L, const char *key, const cel_box *box,
                    int32_t dims) {
  lua_createtable(L, 0, 2);
  set_point(L, "min", box->min, dims);
  set_point(L, "max", box->max, dims);
  lua_setfield(L, -2, key);
}

/* A note that was made, as {count =, at =, chunk =}. */
static void set_note(lua_State *L, const char *key, const cel_fault_tally *note,
                     const cel_audit_row *row) {
  if (note->count == 0) return;
  lua_createtable(L, 0, 3);
  cel__set_number(L, "count", (lua_Number)note->count);
  set_point(L, "at", note->at, row->dims);
  set_box(L, "chunk", &note->chunk, row->task_dims);
  lua_setfield(L, -2, key);
}

static void push_row(lua_State *L, const cel_audit_row *row) {
  lua_createtable(L, 0, 20);
  lua_pushstring(L, row->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, row->location.file);
  lua_setfield(L, -2, "file");
  cel__set_number(L, "line", row->location.line);
  cel__set_number(L, "access", row->access + 1);
  cel__set_number(L, "bytes", (lua_Number)row->element_size);
  cel__set_number(L, "chunks", (lua_Number)row->chunks);
  cel__set_number(L, "promised", (lua_Number)row->seen.promised);
  cel__set_number(L, "touched", (lua_Number)row->seen.touched);
  lua_pushboolean(L, row->marks);
  lua_setfield(L, -2, "marks");
  lua_pushboolean(L, row->combines);
  lua_setfield(L, -2, "combines");
  set_note(L, "unwritten", &row->unwritten, row);
  set_note(L, "undefined", &row->undefined, row);
  set_note(L, "crossed", &row->crossed, row);
  set_box(L, "writer", &row->writer, row->task_dims);
  set_note(L, "raced", &row->raced, row);
  set_box(L, "racer", &row->racer, row->task_dims);
  set_note(L, "gap", &row->gap, row);
  if (row->outside.count == 0) return;
  set_note(L, "outside", &row->outside, row);
  set_point(L, "item", row->item, row->item_dims);
  set_box(L, "promise", &row->promise, row->dims);
  lua_pushboolean(L, row->elsewhere);
  lua_setfield(L, -2, "elsewhere");
}

/* audit() -> this rank's rows (exec/audit/audit.h); nil when nobody asked, or
 * nothing ran. Stops the engine. */
static int check_audit(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  const cel_audit_row *row;
  if (session->audit == NULL) return 0;
  if (session->engine != NULL) cel_engine_stop(session->engine);
  uint32_t n = cel_audit_rows(session->audit, &row);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    push_row(L, &row[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

/* found(text): what this rank found in a run that fails. */
static int check_found(lua_State *L) {
  cel_session *session = cel__session_of(L);
  const char *text = luaL_checkstring(L, 1);
  cel_free(session->found);
  session->found = cel_strdup(text);
  return 0;
}

/* Texts of all ranks, each in its slot of `size` bytes. */
static cel_status gather(cel_comm *comm, const char *text, uint64_t length,
                         uint64_t *lengths, char **out, uint64_t *size) {
  CEL_TRY(cel_comm_gather(comm, &length, sizeof length, lengths, CEL_COMM_ALL));
  *size = 1;
  for (int64_t k = 0; k < comm->ranks; ++k)
    if (lengths[k] > *size) *size = lengths[k];
  char *mine = cel_alloc_zero(*size);
  *out = cel_alloc(*size * (uint64_t)comm->ranks);
  memcpy(mine, text, length);
  cel_status status = cel_comm_gather(comm, mine, *size, *out, CEL_COMM_ALL);
  cel_free(mine);
  return status;
}

/* gather(text) -> the texts of all ranks. Collective; the engine has finished
 * and is stopped. */
static int check_gather(lua_State *L) {
  cel_session *session = cel__session_of(L);
  const cel_transport *t = session->transport;
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  cel_comm *comm;
  uint64_t size;
  char *all = NULL;
  if (t->control.join(t->control.self, GATHER_GROUP, &comm) != CEL_E_OK)
    return cel__push_failure(L);
  uint64_t *lengths = cel_alloc((size_t)t->ranks * sizeof *lengths);
  cel_status status = gather(comm, text, length, lengths, &all, &size);
  lua_createtable(L, (int)t->ranks, 0);
  for (int64_t k = 0; k < t->ranks && status == CEL_E_OK; ++k) {
    lua_pushlstring(L, all + (uint64_t)k * size, lengths[k]);
    lua_rawseti(L, -2, (int)k + 1);
  }
  cel_free(all);
  cel_free(lengths);
  cel_comm_destroy(comm);
  return status == CEL_E_OK ? 1 : cel__push_failure(L);
}

const luaL_Reg cel__core_check[] = {
    {"audit", check_audit},
    {"found", check_found},
    {"gather", check_gather},
    {NULL, NULL},
};
