/* Kernels for Lua. */
#include <string.h>

#include "device/cuda/cuda.h"
#include "embed/core/core.h"
#include "embed/core/core_kernel.h"
#include "embed/interrupt.h"
#include "embed/progress.h"

static const char module_type[] = "celer.core.module";

cel_module *cel__check_module(lua_State *L, int index) {
  cel_module **handle = luaL_checkudata(L, index, module_type);
  return *handle;
}

int cel__push_module_failure(lua_State *L) {
  cel_engine *engine = cel__session_of(L)->engine;
  if (cel_error_last()->code == CEL_E_FAULT && engine != NULL)
    cel_engine_lost(engine, cel_interrupted);
  return cel__push_failure(L);
}

/* Strings of the array at `index`, borrowed from it. */
static int32_t read_list(lua_State *L, int index, const char **out) {
  if (lua_isnoneornil(L, index)) return 0;
  int32_t n = (int32_t)lua_objlen(L, index);
  if (n > CEL__ENTRIES) luaL_error(L, "more than %d entries", CEL__ENTRIES);
  for (int32_t i = 0; i < n; ++i) {
    lua_rawgeti(L, index, i + 1);
    out[i] = luaL_checkstring(L, -1);
    lua_pop(L, 1); /* the table keeps it */
  }
  return n;
}

/* Into the table on top. */
static void push_tile(lua_State *L, const cel_param *param) {
  lua_createtable(L, param->dims, 0);
  for (int d = 0; d < param->dims; ++d) {
    lua_pushinteger(L, param->tile[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_setfield(L, -2, "tile");
}

static void push_params(lua_State *L, const cel_module *module, int32_t k) {
  const cel_param *param;
  int32_t n = cel_module_params(module, k, &param);
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; ++i) {
    lua_createtable(L, 0, 7);
    cel__set_integer(L, "kind", param[i].kind);
    cel__set_integer(L, "dims", param[i].dims);
    cel__set_integer(L, "size", param[i].size);
    cel__set_integer(L, "align", param[i].align);
    char class_ = (char)param[i].class_;
    lua_pushlstring(L, &class_, 1);
    lua_setfield(L, -2, "class");
    lua_pushstring(L, param[i].type);
    lua_setfield(L, -2, "type");
    if (param[i].tile[0] > 0) push_tile(L, &param[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static cel_status begin(const cel_session *session, const cel_source *source,
                        cel_module **out) {
  const cel_session_options *o = &session->options;
  if (session->cuda != NULL)
    return cel_module_begin_cuda(source, session->cuda, out);
  if (!session->choice.cuda) return cel_module_begin_cpu(source, out);
  if (o->architectures == 0)
    return cel_module_begin_images(source, &session->choice.architecture, 1,
                                   out);
  return cel_module_begin_images(source, o->architecture, o->architectures,
                                 out);
}

/* kernel(text, file, line, directory | nil, defines | nil, options | nil,
 *        prelude | nil, block | nil, only | nil, contract | nil)
 *        -> module, {name, ...}.
 * It is compiled meanwhile. The module is never freed: works may still need
 * it. */
static int kernel_new(lua_State *L) {
  const char *defines[CEL__ENTRIES], *options[CEL__ENTRIES];
  cel_source source = {
      .text = luaL_checkstring(L, 1),
      .file = luaL_checkstring(L, 2),
      .line = (int32_t)luaL_checkinteger(L, 3),
      .directory = luaL_optstring(L, 4, NULL),
      .defines = read_list(L, 5, defines),
      .define = defines,
      .options = read_list(L, 6, options),
      .option = options,
      .prelude = luaL_optstring(L, 7, NULL),
  };
  for (int d = 0; lua_istable(L, 8) && d < CEL_DIMS; ++d) {
    lua_rawgeti(L, 8, d + 1);
    source.block[d] = (int32_t)luaL_optinteger(L, -1, 1);
    lua_pop(L, 1);
  }
  source.only = (int32_t)luaL_optinteger(L, 9, 0);
  if (!lua_isnoneornil(L, 10))
    source.contract =
        lua_toboolean(L, 10) ? CEL_CONTRACT_ALWAYS : CEL_CONTRACT_NEVER;
  cel_engine *engine;
  cel_module *module;
  if (cel__core_engine(L, &engine) != CEL_E_OK ||
      begin(cel__session_of(L), &source, &module) != CEL_E_OK)
    return cel__push_failure(L);
  cel_module **handle = lua_newuserdata(L, sizeof *handle);
  *handle = module;
  luaL_newmetatable(L, module_type);
  lua_setmetatable(L, -2);
  int32_t n = cel_module_kernels(module);
  lua_createtable(L, n, 0);
  for (int32_t k = 0; k < n; ++k) {
    lua_pushstring(L, cel_module_kernel_name(module, k));
    lua_rawseti(L, -2, k + 1);
  }
  return 2;
}

/* kernel_finish(module) -> the parameters of each kernel, {} of one that was
 * not wanted; waits until it is compiled. */
static int kernel_finish(lua_State *L) {
  cel_module *module = cel__check_module(L, 1);
  cel_progress_set_compiling(true);
  cel_status status = cel_module_finish(module, cel_interrupted);
  cel_progress_set_compiling(false);
  if (status != CEL_E_OK) return cel__push_module_failure(L);
  int32_t n = cel_module_kernels(module);
  lua_createtable(L, n, 0);
  for (int32_t k = 0; k < n; ++k) {
    push_params(L, module, k);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

/* kernel_info(module, kernel from 0, threads) -> {architecture =, registers =,
 * ...} as cel_kernel_info has it, as compiled for groups of so many where it
 * takes a group; empty for the processor. */
static int kernel_info(lua_State *L) {
  cel_kernel_info info;
  cel_module *module = cel__check_module(L, 1);
  int32_t kernel = (int32_t)luaL_checkinteger(L, 2);
  int32_t threads = (int32_t)luaL_checkinteger(L, 3);
  const cel_param *param;
  cel_module_params(module, kernel, &param);
  bool grouped = param[0].kind == CEL_PARAM_GROUP;
  const cel_suits suits = {.items = grouped ? threads : 0, .folds = !grouped};
  if (cel_module_suit(module, kernel, &suits) != CEL_E_OK ||
      cel_module_info(module, kernel, threads, &info) != CEL_E_OK)
    return cel__push_module_failure(L);
  lua_createtable(L, 0, 8);
  if (info.architecture == 0) return 1;
  cel__set_integer(L, "architecture", info.architecture);
  cel__set_integer(L, "registers", info.registers);
  cel__set_integer(L, "shared_bytes", info.shared);
  cel__set_integer(L, "local_bytes", info.local_);
  cel__set_integer(L, "threads_per_block", info.threads);
  cel__set_integer(L, "blocks_per_multiprocessor", info.blocks);
  lua_pushnumber(L, info.occupancy);
  lua_setfield(L, -2, "occupancy");
  return 1;
}

static bool is_whole(double n, int64_t *out) {
  if (!(n >= -0x1p53 && n <= 0x1p53)) return false;
  *out = (int64_t)n;
  return (double)*out == n;
}

bool cel__is_whole(lua_State *L, int index, int64_t *out) {
  return lua_type(L, index) == LUA_TNUMBER &&
         is_whole(lua_tonumber(L, index), out);
}

bool cel__number_fits(double n, int32_t class_, int32_t size) {
  enum { i, u };
#define LIMITS(class_, size, low, high) [class_][size] = {low, high},
  static const double limits[2][9][2] = {CEL__WHOLES(LIMITS)};
#undef LIMITS
  if (class_ == 'f') return true;
  int64_t whole;
  if ((class_ != 'i' && class_ != 'u') || !is_whole(n, &whole)) return false;
  const double *of = limits[class_ == 'u' ? u : i][size];
  return (double)whole >= of[0] && (double)whole < of[1];
}

bool cel__value_fits(lua_State *L, int index, int32_t class_, int32_t size) {
  if (class_ == 'b') return lua_isboolean(L, index);
  return lua_type(L, index) == LUA_TNUMBER &&
         cel__number_fits(lua_tonumber(L, index), class_, size);
}

/* value_fits(value, class, size) -> see cel__value_fits */
static int value_fits(lua_State *L) {
  const char *class_ = luaL_checkstring(L, 2);
  int32_t size = (int32_t)luaL_checkinteger(L, 3);
  lua_pushboolean(L, cel__value_fits(L, 1, *class_, size));
  return 1;
}

void cel__pack_number(double n, const cel_param *param, unsigned char *out) {
  if (param->class_ != 'f') {
    int64_t whole = (int64_t)n;
    memcpy(out, &whole, (size_t)param->size); /* little-endian */
    return;
  }
  float narrow = (float)n;
  memcpy(out, param->size == 4 ? (const void *)&narrow : (const void *)&n,
         (size_t)param->size);
}

/* A boxed 64-bit integer is what is no number of those. */
void cel__pack_value(lua_State *L, const cel_param *param, unsigned char *out) {
  if (param->class_ == 'b')
    *out = (unsigned char)lua_toboolean(L, -1);
  else if (param->class_ == 'f' ||
           (param->class_ != 's' && lua_type(L, -1) == LUA_TNUMBER))
    cel__pack_number(lua_tonumber(L, -1), param, out);
  else
    memcpy(out, lua_topointer(L, -1), (size_t)param->size);
}

uint32_t cel__pack_values(lua_State *L, int index, const cel_module *module,
                          int32_t kernel, unsigned char *out, uint32_t room) {
  const cel_param *param;
  int32_t n = cel_module_params(module, kernel, &param);
  uint32_t at = 0;
  int next = 1;
  for (int32_t i = 0; i < n; ++i) {
    const cel_param *p = &param[i];
    if (p->kind != CEL_PARAM_VALUE) continue;
    uint32_t align = (uint32_t)p->align;
    uint32_t start = (at + align - 1) & ~(align - 1);
    if (start + (uint32_t)p->size > room)
      luaL_error(L, "kernel arguments take more than %d bytes", (int)room);
    memset(out + at, 0, start - at);
    lua_rawgeti(L, index, next++);
    cel__pack_value(L, p, out + start);
    lua_pop(L, 1);
    at = start + (uint32_t)p->size;
  }
  return at;
}

const luaL_Reg cel__core_kernel[] = {
    {"kernel", kernel_new},
    {"kernel_finish", kernel_finish},
    {"kernel_info", kernel_info},
    {"value_fits", value_fits},
    {NULL, NULL},
};
