/* Starting, waiting and asking for Lua. */
#define _GNU_SOURCE /* environ */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/version.h"
#include "comm/nccl/nccl.h"
#include "device/cuda/cuda.h"
#include "embed/advice.h"
#include "embed/code.h"
#include "embed/core/core.h"
#include "embed/fault.h"
#include "embed/interrupt.h"

/* The array at the top of the stack. */
static void read_list(lua_State *L, cel_choice_wish *wish) {
  wish->listed = lua_istable(L, -1) ? (int32_t)lua_objlen(L, -1) : 0;
  if (wish->listed > CEL_CHOICE_LIST) wish->listed = CEL_CHOICE_LIST;
  for (int32_t i = 0; i < wish->listed; ++i) {
    lua_rawgeti(L, -1, i + 1);
    wish->list[i] = (int32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
}

static void read_architectures(lua_State *L, cel_session_options *options) {
  lua_getfield(L, 1, "architectures");
  int32_t n = lua_istable(L, -1) ? (int32_t)lua_objlen(L, -1) : 0;
  options->architectures = n < CEL_TARGETS ? n : CEL_TARGETS;
  for (int32_t i = 0; i < options->architectures; ++i) {
    lua_rawgeti(L, -1, i + 1);
    options->architecture[i] = (int32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_wish(lua_State *L, cel_choice_wish *wish) {
  lua_getfield(L, 1, "backend");
  const char *backend = luaL_optstring(L, -1, "");
  wish->backend = strcmp(backend, "cuda") == 0  ? CEL_CHOICE_CUDA
                  : strcmp(backend, "cpu") == 0 ? CEL_CHOICE_CPU
                                                : CEL_CHOICE_ANY;
  lua_getfield(L, 1, "devices");
  wish->devices = (int32_t)luaL_optinteger(L, -1, 0);
  lua_getfield(L, 1, "list");
  read_list(L, wish);
  lua_pop(L, 3);
}

/* configure{backend =, devices =, list =, horizon_step =, quiet =,
 *           verbose =, profile =, staged =, apart =, between = 0 to 3,
 *           device_memory = bytes,
 *           interactive =, forgiving =, watchdog = seconds, lost = seconds,
 *           check =,
 *           advice =, no_collectives =, no_bind =, measure =, no_sample =,
 *           builds =, architectures = {90, ...} | nil,
 *           arguments =} -> true */
static int run_configure(lua_State *L) {
  cel_session *session = cel__session_of(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  read_wish(L, &session->options.wish);
  read_architectures(L, &session->options);
  lua_getfield(L, 1, "horizon_step");
  lua_getfield(L, 1, "quiet");
  lua_getfield(L, 1, "verbose");
  lua_getfield(L, 1, "profile");
  lua_getfield(L, 1, "staged");
  lua_getfield(L, 1, "device_memory");
  lua_getfield(L, 1, "progress");
  session->options.progress = lua_toboolean(L, -1);
  lua_pop(L, 1);
  lua_getfield(L, 1, "interactive");
  session->options.horizon_step = (int32_t)luaL_optinteger(L, -7, 0);
  session->options.quiet = lua_toboolean(L, -6);
  session->options.verbose = lua_toboolean(L, -5);
  session->options.profile = lua_toboolean(L, -4);
  session->options.staged = lua_toboolean(L, -3);
  session->options.device_memory = (uint64_t)luaL_optnumber(L, -2, 0);
  session->options.lookahead = true;
  if (cel_interrupt_catch(lua_toboolean(L, -1)) != CEL_E_OK)
    return cel__push_failure(L);
  cel_fault_catch();
  lua_getfield(L, 1, "apart");
  session->options.apart = lua_toboolean(L, -1);
  lua_getfield(L, 1, "between");
  session->options.between = (cel_session_between)luaL_optinteger(L, -1, 0);
  lua_pop(L, 2);
  lua_getfield(L, 1, "forgiving");
  session->options.forgiving = lua_toboolean(L, -1);
  lua_getfield(L, 1, "watchdog");
  session->options.watchdog = (int32_t)luaL_optinteger(L, -1, 0);
  lua_getfield(L, 1, "lost");
  session->options.lost = (int32_t)luaL_optinteger(L, -1, 0);
  if (cel_session_watch(session) != CEL_E_OK) return cel__push_failure(L);
  lua_getfield(L, 1, "check");
  session->options.check = lua_toboolean(L, -1);
  lua_getfield(L, 1, "advice");
  session->options.advice = lua_toboolean(L, -1);
  lua_getfield(L, 1, "no_collectives");
  session->options.no_collectives = lua_toboolean(L, -1);
  lua_getfield(L, 1, "no_bind");
  session->options.unbound = lua_toboolean(L, -1);
  lua_getfield(L, 1, "measure");
  session->options.measure = lua_toboolean(L, -1);
  lua_getfield(L, 1, "arguments");
  session->options.arguments = cel_strdup(luaL_optstring(L, -1, ""));
  lua_getfield(L, 1, "no_sample");
  session->options.no_sample = lua_toboolean(L, -1);
  lua_getfield(L, 1, "builds");
  session->options.builds = lua_toboolean(L, -1);
  lua_pushboolean(L, 1);
  return 1;
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

/* devices() -> backend, how many devices of it this rank has, the ordinals of
 * its GPUs, why no GPU. Collective over a host's ranks. */
static int run_devices(lua_State *L) {
  cel_session *session = cel__session_of(L);
  const cel_choice *choice = &session->choice;
  if (cel_session_choose(session) != CEL_E_OK) return cel__push_failure(L);
  lua_pushstring(L, choice->cuda ? "cuda" : "cpu");
  lua_pushinteger(L, choice->devices);
  lua_newtable(L);
  for (int32_t i = 0; choice->cuda && i < choice->devices; ++i) {
    lua_pushinteger(L, choice->ordinal[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushstring(L, choice->why);
  return 4;
}

/* gpus() -> how many GPUs the rank has that has most, if all ranks compute on
 * GPUs of one kind; else 0. The same on all ranks. Collective. */
static int run_gpus(lua_State *L) {
  cel_session *session = cel__session_of(L);
  if (cel_session_connect(session) != CEL_E_OK) return cel__push_failure(L);
  bool all = session->choice.cuda && session->alike;
  lua_pushnumber(L, all ? (lua_Number)session->reducing : 0);
  return 1;
}

/* room() -> bytes that buffers may take of each rank's one device; 0 where
 * there are several, or where work has not begun; the same of the smallest
 * device, however many there are, 0 where that has no limit. All ranks get the
 * same. */
static int run_room(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  lua_pushnumber(L, (lua_Number)session->room);
  lua_pushnumber(L, (lua_Number)session->device_room);
  return 2;
}

/* staging() -> why messages between GPUs do not go from one to the other within
 * a host, "" where they do; why long ones are copied once more there, "" where
 * they are not; and why others, such as all between hosts, go whole, or from
 * how many bytes on they do not, and which way then; nil where there are no
 * others. Nil on the processor. Collective. */
static int run_staging(lua_State *L) {
  cel_session *session = cel__session_of(L);
  if (cel_session_connect(session) != CEL_E_OK) return cel__push_failure(L);
  if (!session->choice.cuda) return 0;
  const cel_transport *t = session->transport;
  lua_pushstring(L, session->no_link);
  lua_pushstring(L, session->no_loans);
  if (!session->some_far)
    lua_pushnil(L);
  else if (session->no_road[0] != '\0')
    lua_pushstring(L, session->no_road);
  else
    lua_pushnumber(L, (lua_Number)t->messages.far_bytes);
  lua_pushinteger(L, session->options.between);
  return 4;
}

/* pairs() -> {{from =, to =, way = 0 to 2 (by chunks, MPI, NCCL), rate = bytes
 * per ns}, ...} of messages between GPUs, from host to host. To know, they are
 * measured. Collective. */
static int run_pairs(lua_State *L) {
  cel_session_pair pair[CEL_SESSION_PAIRS];
  int32_t n;
  if (cel_session_pairs(cel__session_of(L), pair, &n) != CEL_E_OK)
    return cel__push_failure(L);
  lua_newtable(L);
  for (int32_t i = 0; i < n; ++i) {
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, (lua_Integer)pair[i].from);
    lua_setfield(L, -2, "from");
    lua_pushinteger(L, (lua_Integer)pair[i].to);
    lua_setfield(L, -2, "to");
    lua_pushinteger(L, pair[i].way);
    lua_setfield(L, -2, "way");
    lua_pushnumber(L, pair[i].rate);
    lua_setfield(L, -2, "rate");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* joining() -> why what all ranks exchange does not go by NCCL, "" where it
 * does, and whether it goes by messages else; nil on the processor. To know,
 * NCCL is started. Collective. */
static int run_joining(lua_State *L) {
  cel_session *session = cel__session_of(L);
  if (cel_session_connect(session) != CEL_E_OK) return cel__push_failure(L);
  if (session->no_nccl[0] == '\0' &&
      cel_nccl_join(session->transport, session->no_nccl) != CEL_E_OK)
    return cel__push_failure(L);
  if (!session->choice.cuda) return 0;
  lua_pushstring(L, session->no_nccl);
  lua_pushboolean(L, session->direct || session->options.no_collectives);
  return 2;
}

/* gpu_count() -> how many the driver shows, why none */
static int run_gpu_count(lua_State *L) {
  char why[256] = "";
  lua_pushinteger(L, cel_cuda_count(why, sizeof why));
  lua_pushstring(L, why);
  return 2;
}

/* gpu(ordinal) -> {name =, bus =, major =, minor =, memory =, peers = {...}},
 * nothing is opened. */
static int run_gpu(lua_State *L) {
  cel_cuda_device device, other;
  char why[256];
  int32_t ordinal = (int32_t)luaL_checkinteger(L, 1);
  if (cel_cuda_query(ordinal, &device) != CEL_E_OK) return cel__push_failure(L);
  lua_newtable(L);
  cel__set_text(L, "name", device.name);
  cel__set_text(L, "bus", device.bus);
  cel__set_number(L, "major", device.major);
  cel__set_number(L, "minor", device.minor);
  cel__set_number(L, "memory", (lua_Number)device.memory);
  lua_newtable(L);
  int32_t gpus = cel_cuda_count(why, sizeof why);
  for (int32_t i = 0, n = 0; i < gpus; ++i) {
    if (i == ordinal || cel_cuda_query(i, &other) != CEL_E_OK ||
        !cel_cuda_reaches(&device, &other))
      continue;
    lua_pushinteger(L, i);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "peers");
  return 1;
}

/* terminal() -> whether a person types what stdin gives */
static int run_terminal(lua_State *L) {
  lua_pushboolean(L, isatty(STDIN_FILENO));
  return 1;
}

/* broadcast(text) -> rank 0's text. Only before the engine runs. */
static int run_broadcast(lua_State *L) {
  const cel_control_table *control = &cel__session_of(L)->transport->control;
  size_t length = 0;
  const char *text = luaL_optlstring(L, 1, "", &length);
  void *data = cel_alloc(length + 1);
  uint64_t size = length;
  memcpy(data, text, length);
  if (cel__session_of(L)->engine != NULL)
    cel_bug("broadcast while the executor owns the transport");
  cel_status status = control->broadcast(control->self, &data, &size);
  if (status == CEL_E_OK) lua_pushlstring(L, data, size);
  cel_free(data);
  return status == CEL_E_OK ? 1 : cel__push_failure(L);
}

/* works() -> whether this rank or another one has begun to work. Collective
 * where none has. */
static int run_works(lua_State *L) {
  bool any;
  if (cel_session_ask_for_work(cel__session_of(L), false, &any) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, any);
  return 1;
}

/* hash(text) -> eight bytes that are the same on all ranks. */
static int run_hash(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  uint64_t hash = cel_hash(text, length, 0);
  lua_pushlstring(L, (const char *)&hash, sizeof hash);
  return 1;
}

/* wait(file, line): an epoch, and until all ranks have reached it. */
static int run_wait(lua_State *L) {
  cel_engine *engine;
  if (cel__core_engine(L, &engine) != CEL_E_OK) return cel__push_failure(L);
  cel_location location = cel__check_location(L, 1);
  cel_advice_waited(cel__session_of(L), location);
  if (cel_engine_barrier(engine, location, cel_interrupted) != CEL_E_OK ||
      cel_engine_mishap(engine) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* finish(file, line): the program has ended; all ranks agree that it has. */
static int run_finish(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  cel_location location = cel__check_location(L, 1);
  if (cel_engine_finish(engine, location, cel_interrupted) != CEL_E_OK)
    return cel__push_failure(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* info() -> a table of what this rank has. */
static int run_info(lua_State *L) {
  cel_session *session = cel__session_of(L);
  char text[256];
  cel_topology_describe(text, sizeof text);
  lua_newtable(L);
  cel__set_text(L, "cpu", text);
  if (session->chosen) {
    const cel_topology *topology = &session->topology;
    lua_pushinteger(L, topology->cores);
    lua_setfield(L, -2, "cores");
    lua_pushinteger(L, topology->host_cores);
    lua_setfield(L, -2, "host_cores");
    lua_pushboolean(L, topology->restricted);
    lua_setfield(L, -2, "bound");
    lua_pushboolean(L, session->options.unbound && topology->sharers > 1);
    lua_setfield(L, -2, "keeps_to_none");
  }
  lua_pushboolean(L, cel__code_is_known());
  lua_setfield(L, -2, "knows_code");
  const char *compiler = cel_compiler_describe();
  cel__set_text(L, "compiler", compiler != NULL ? compiler : "none found");
  cel_cuda_describe(text, sizeof text);
  cel__set_text(L, "driver", text);
  const char *nvrtc = cel_nvrtc_version();
  if (nvrtc == NULL) cel_nvrtc_api_load(text, sizeof text);
  cel__set_text(L, "nvrtc", nvrtc != NULL ? nvrtc : text);
  char warning[256], folder[512];
  cel_cache_describe(folder, sizeof folder, warning, sizeof warning);
  cel__set_text(L, "cache", folder);
  cel_mpi_describe(text, sizeof text);
  cel__set_text(L, "mpi", text);
  cel__set_text(L, "transport", session->transport->name);
  return 1;
}

/* version() -> celer's */
static int run_version(lua_State *L) {
  lua_pushstring(L, cel_version());
  return 1;
}

/* Where this library begins in memory; the linker defines it in each. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* What a note's name or contents take. */
static size_t padded(size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

static void add_id(luaL_Buffer *text, const ElfW(Nhdr) * note) {
  const char *name = (const char *)(note + 1);
  const unsigned char *id = (const void *)(name + padded(note->n_namesz));
  if (note->n_type != NT_GNU_BUILD_ID || strcmp(name, "GNU") != 0) return;
  for (size_t i = 0; i < note->n_descsz; ++i) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", id[i]);
    luaL_addstring(text, digits);
  }
}

/* build() -> the linker's hash of this library, which another build has not; ""
 * where the linker was told to make none */
static int run_build(lua_State *L) {
  const ElfW(Ehdr) *header = (const void *)__ehdr_start;
  const ElfW(Phdr) *part = (const void *)(__ehdr_start + header->e_phoff);
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (int i = 0; i < header->e_phnum; ++i) {
    if (part[i].p_type != PT_NOTE) continue;
    const char *at = __ehdr_start + part[i].p_vaddr;
    const char *end = at + part[i].p_memsz;
    while (at < end) {
      const ElfW(Nhdr) *note = (const void *)at;
      add_id(&text, note);
      at += sizeof *note + padded(note->n_namesz) + padded(note->n_descsz);
    }
  }
  luaL_pushresult(&text);
  return 1;
}

/* advise(text, file, line): warns, unless `--advice off`. */
static int run_advise(lua_State *L) {
  cel_advice_give(cel__session_of(L), cel__check_location(L, 2),
                  luaL_checkstring(L, 1));
  return 0;
}

/* counts() -> what the engine has done, and in how many seconds, or nil when it
 * never ran. */
static int run_counts(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  if (session->engine == NULL) return 0;
  cel_engine_counts c;
  cel_engine_times times;
  cel_engine_count(session->engine, &c);
  cel_engine_time(session->engine, &times);
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
      {"horizons", c.horizons},
  };
  lua_newtable(L);
  cel__set_number(L, "wall", (lua_Number)times.wall * 1e-9);
  cel__set_number(L, "waited", (lua_Number)times.waited * 1e-9);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    lua_pushnumber(L, (lua_Number)rows[i].value);
    lua_setfield(L, -2, rows[i].name);
  }
  return 1;
}

/* {{name =, file =, line =, why =, count =}, ...} */
static void push_alones(lua_State *L, const cel_profile *profile) {
  const cel_profile_alone *alone;
  uint32_t n = cel_profile_alones(profile, &alone);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; ++i, ++alone) {
    lua_createtable(L, 0, 5);
    cel__set_text(L, "name", alone->name);
    cel__set_text(L, "file", alone->location.file);
    cel__set_number(L, "line", alone->location.line);
    cel__set_text(L, "why", alone->why);
    cel__set_number(L, "count", (lua_Number)alone->count);
    lua_rawseti(L, -2, (int)i + 1);
  }
}

/* profile() -> an array of {kind =, name =, way =, count =, total =, max =,
 * bytes =}, times in ns, and one of what was not taken together with others;
 * nil when nobody asked for one. When nothing is under way. */
static int run_profile(lua_State *L) {
  const cel_session *session = cel__session_of(L);
  const cel_profile_row *row;
  if (session->profile == NULL) return 0;
  uint32_t n = cel_profile_rows(session->profile, &row);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; ++i, ++row) {
    lua_createtable(L, 0, 7);
    cel__set_text(L, "kind", cel_span_name(row->kind));
    cel__set_text(L, "name", row->name);
    cel__set_text(L, "way", cel_profile_way(row));
    cel__set_number(L, "count", (lua_Number)row->count);
    cel__set_number(L, "total", (lua_Number)row->total);
    cel__set_number(L, "max", (lua_Number)row->max);
    cel__set_number(L, "bytes", (lua_Number)row->bytes);
    lua_rawseti(L, -2, (int)i + 1);
  }
  push_alones(L, session->profile);
  return 2;
}

/* environment(prefix) -> {name = value} of every variable that begins so. */
static int run_environment(lua_State *L) {
  size_t length;
  const char *prefix = luaL_checklstring(L, 1, &length);
  lua_newtable(L);
  for (char **e = environ; *e != NULL; ++e) {
    const char *equals = strchr(*e, '=');
    if (strncmp(*e, prefix, length) != 0 || equals == NULL) continue;
    lua_pushlstring(L, *e, (size_t)(equals - *e));
    lua_pushstring(L, equals + 1);
    lua_rawset(L, -3);
  }
  return 1;
}

/* catch_keep(): SIGUSR1 asks for a checkpoint from now on */
static int run_catch_keep(lua_State *L) {
  (void)L;
  cel_interrupt_catch_keep();
  return 0;
}

const luaL_Reg cel__core_run[] = {
    {"configure", run_configure},
    {"set_bundle", run_set_bundle},
    {"exit", run_exit},
    {"devices", run_devices},
    {"gpus", run_gpus},
    {"room", run_room},
    {"staging", run_staging},
    {"pairs", run_pairs},
    {"joining", run_joining},
    {"gpu_count", run_gpu_count},
    {"gpu", run_gpu},
    {"terminal", run_terminal},
    {"broadcast", run_broadcast},
    {"works", run_works},
    {"hash", run_hash},
    {"wait", run_wait},
    {"finish", run_finish},
    {"info", run_info},
    {"version", run_version},
    {"build", run_build},
    {"advise", run_advise},
    {"counts", run_counts},
    {"profile", run_profile},
    {"environment", run_environment},
    {"catch_keep", run_catch_keep},
    {NULL, NULL},
};
