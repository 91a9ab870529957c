/* What the driver and the host lanes may both ask for. */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <png.h>

#include "device/compile/leftover.h"
#include "embed/core/core.h"
#include "embed/embedded.h"
#include "embed/interrupt.h"
#include "embed/progress.h"

/* Set by main before the first lane starts, then only read. */
static struct {
  char *text;
  size_t size;
} bundle;

void cel__bundle_set(const char *text, size_t size) {
  cel_free(bundle.text);
  bundle.text = cel_alloc(size + 1);
  bundle.size = size;
  memcpy(bundle.text, text, size);
}

/* bundle() -> what rank 0 sent (script.lua), or nil */
static int both_bundle(lua_State *L) {
  if (bundle.text == NULL) return 0;
  lua_pushlstring(L, bundle.text, bundle.size);
  return 1;
}

/* embedded(name) -> the text of a file inside the library, or nil */
static int both_embedded(lua_State *L) {
  const cel_embedded *file = cel_embedded_find(luaL_checkstring(L, 1));
  if (file == NULL) return 0;
  lua_pushlstring(L, file->data, file->size);
  return 1;
}

/* place() -> file and line of the innermost frame that is the user's; nil, 0
 * where there is none. The file as the script was named, in full. */
static int both_place(lua_State *L) {
  lua_Debug frame;
  if (cel__find_user(L, 1, &frame)) {
    lua_pushstring(L, cel__file_of(&frame));
    lua_pushinteger(L, frame.currentline);
  } else {
    lua_pushnil(L);
    lua_pushinteger(L, 0);
  }
  return 2;
}

/* callers() -> where the function of that frame was called; nil */
static int both_callers(lua_State *L) {
  cel__push_callers(L);
  return 1;
}

static struct timespec start; /* as the bundle */

void cel__clock_start(void) {
  clock_gettime(CLOCK_MONOTONIC, &start);
}

/* time() -> seconds since this process began to run */
static int both_time(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (lua_Number)(now.tv_sec - start.tv_sec) +
                        (lua_Number)(now.tv_nsec - start.tv_nsec) * 1e-9);
  return 1;
}

/* rank() -> rank, ranks, rank on this host, ranks on this host */
static int both_rank(lua_State *L) {
  const cel_transport *t = cel__transport_of(L);
  lua_pushinteger(L, (lua_Integer)t->rank);
  lua_pushinteger(L, (lua_Integer)t->ranks);
  lua_pushinteger(L, t->local_rank);
  lua_pushinteger(L, t->local_ranks);
  return 4;
}

/* png(path, width, height, rgb as a string of 3 bytes per pixel) */
static int both_png(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  png_image image = {
      .version = PNG_IMAGE_VERSION,
      .width = (png_uint_32)luaL_checkinteger(L, 2),
      .height = (png_uint_32)luaL_checkinteger(L, 3),
      .format = PNG_FORMAT_RGB,
  };
  size_t size;
  const char *pixels = luaL_checklstring(L, 4, &size);
  luaL_argcheck(L, size == PNG_IMAGE_SIZE(image), 4, "3 bytes per pixel");
  errno = 0;
  if (!png_image_write_to_file(&image, path, 0, pixels, 0, NULL)) {
    lua_pushnil(L);
    lua_pushfstring(L, "cannot write %s: %s", path,
                    errno != 0 ? strerror(errno) : image.message);
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* png_read(path, rgb) -> the gray levels, or red, green and blue of each pixel,
 * as a string; height, width */
static int both_png_read(lua_State *L) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  const char *path = luaL_checkstring(L, 1);
  bool begun = png_image_begin_read_from_file(&image, path);
  image.format = lua_toboolean(L, 2) ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  void *pixels = lua_newuserdata(L, begun ? PNG_IMAGE_SIZE(image) : 0);
  if (!begun || !png_image_finish_read(&image, NULL, pixels, 0, NULL)) {
    lua_pushnil(L);
    lua_pushfstring(L, "cannot read %s: %s", path, image.message);
    return 2;
  }
  lua_pushlstring(L, pixels, PNG_IMAGE_SIZE(image));
  lua_pushnumber(L, image.height);
  lua_pushnumber(L, image.width);
  return 3;
}

/* progress_hide(whole): see cel_progress_hide. */
static int both_progress_hide(lua_State *L) {
  cel_progress_hide(lua_toboolean(L, 1));
  return 0;
}

/* Why something printed could not be written, the first time: errno, or 0. */
static atomic_int unwritten;

/* unwritten(errno) */
static int both_unwritten(lua_State *L) {
  int none = 0;
  atomic_compare_exchange_strong(&unwritten, &none,
                                 (int)luaL_optinteger(L, 1, 0));
  return 0;
}

/* flush() -> why not all that was printed could be written, or nothing */
static int both_flush(lua_State *L) {
  int why = fflush(stdout) == 0 ? 0 : errno;
  if (!ferror(stdout)) return 0;
  if (atomic_load(&unwritten) != 0) why = atomic_load(&unwritten);
  lua_pushfstring(L, "not all that was printed could be written to stdout: %s",
                  why != 0 ? strerror(why) : "is the disk full?");
  return 1;
}

/* leftover(path): what is there goes with the process, from now on */
static int both_leftover(lua_State *L) {
  cel_leftover_add(luaL_checkstring(L, 1));
  return 0;
}

/* not_left(path): it is gone, or is to stay */
static int both_not_left(lua_State *L) {
  cel_leftover_drop(luaL_checkstring(L, 1));
  return 0;
}

/* asked_to_keep() -> whether SIGUSR1 has come since this was last called */
static int both_asked_to_keep(lua_State *L) {
  lua_pushboolean(L, cel_interrupt_keep());
  return 1;
}

/* host_name() */
static int both_host_name(lua_State *L) {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

const luaL_Reg cel__core_both[] = {
    {"failure", cel__state_message},
    {"place", both_place},
    {"callers", both_callers},
    {"rank", both_rank},
    {"host_name", both_host_name},
    {"asked_to_keep", both_asked_to_keep},
    {"time", both_time},
    {"bundle", both_bundle},
    {"embedded", both_embedded},
    {"png", both_png},
    {"png_read", both_png_read},
    {"progress_hide", both_progress_hide},
    {"unwritten", both_unwritten},
    {"flush", both_flush},
    {"leftover", both_leftover},
    {"not_left", both_not_left},
    {NULL, NULL},
};
