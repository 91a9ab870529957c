/* The cache of compiled kernels, and what it was asked for, for Lua. */
#include <string.h>

#include "device/compile/cache.h"
#include "device/compile/image.h"
#include "device/compile/stock.h"
#include "device/cuda_api.h"
#include "embed/core/core.h"

/* cache_folder() -> its name, why it is not the usual one or "" */
static int cache_folder(lua_State *L) {
  char folder[512], warning[768];
  cel_cache_describe(folder, sizeof folder, warning, sizeof warning);
  lua_pushstring(L, folder);
  lua_pushstring(L, warning);
  return 2;
}

/* cache_files() -> {{name =, bytes =, age = in s, leftover =}, ...} */
static int cache_files(lua_State *L) {
  cel_stock_list list = {0};
  if (cel_stock_find(&list) != CEL_E_OK) return cel__push_failure(L);
  lua_createtable(L, (int)list.n, 0);
  for (uint32_t i = 0; i < list.n; ++i) {
    const cel_stock_file *file = &list.at[i];
    lua_createtable(L, 0, 4);
    lua_pushstring(L, file->name);
    lua_setfield(L, -2, "name");
    lua_pushnumber(L, (lua_Number)file->bytes);
    lua_setfield(L, -2, "bytes");
    lua_pushnumber(L, (lua_Number)file->age);
    lua_setfield(L, -2, "age");
    lua_pushboolean(L, file->leftover);
    lua_setfield(L, -2, "leftover");
    lua_rawseti(L, -2, (int)i + 1);
  }
  cel_vec_release(&list);
  return 1;
}

/* cache_kernels(name) -> names of an entry's kernels, one per line, and of
 * which architecture, 0 for the processor; nil where it is damaged. */
static int cache_kernels(lua_State *L) {
  cel_text path = {0}, image = {0}, names = {0};
  cel_text_format(&path, "%s/%s", cel_cache_folder(), luaL_checkstring(L, 1));
  bool fine = cel_cache_peek(path.at, &image);
  if (fine) {
    cel_image_kernels(&image, &names);
    lua_pushlstring(L, cel_text_string(&names), names.n);
    lua_pushinteger(L, cel_image_architecture(&image));
  }
  cel_vec_release(&path);
  cel_vec_release(&image);
  cel_vec_release(&names);
  return fine ? 2 : 0;
}

/* cache_remove(name) -> whether it is gone */
static int cache_remove(lua_State *L) {
  lua_pushboolean(L, cel_stock_remove(luaL_checkstring(L, 1)));
  return 1;
}

/* compiled() -> how many were found in the cache, compiled into it, compiled
 * and not kept */
static int cache_compiled(lua_State *L) {
  cel_compiled counts;
  cel_compile_count(&counts);
  lua_pushnumber(L, (lua_Number)counts.found);
  lua_pushnumber(L, (lua_Number)counts.made);
  lua_pushnumber(L, (lua_Number)counts.unkept);
  return 3;
}

/* architectures() -> those that NVRTC knows, ascending; nil, why without it */
static int cache_architectures(lua_State *L) {
  enum { MOST = 64 };
  char why[256] = "";
  int known[MOST], count = 0;
  const cel_nvrtc_api *api = cel_nvrtc_api_load(why, sizeof why);
  if (api == NULL) {
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
  }
  bool told = api->nvrtcGetNumSupportedArchs(&count) == 0 && count <= MOST &&
              api->nvrtcGetSupportedArchs(known) == 0;
  lua_newtable(L);
  for (int i = 0; told && i < count; ++i) {
    lua_pushinteger(L, known[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

const luaL_Reg cel__core_cache[] = {
    {"cache_folder", cache_folder},
    {"cache_files", cache_files},
    {"cache_kernels", cache_kernels},
    {"cache_remove", cache_remove},
    {"compiled", cache_compiled},
    {"architectures", cache_architectures},
    {NULL, NULL},
};
