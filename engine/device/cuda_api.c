#define _GNU_SOURCE
#include "device/cuda_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 8 };

/* The first of `names` that loads; the loader's words on the first in `why`. */
static void *open_first(const char *const *names, char *why, size_t size) {
  why[0] = '\0';
  for (int i = 0; names[i] != NULL; ++i) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    const char *said = dlerror();
    if (i == 0) snprintf(why, size, "%s", said != NULL ? said : names[0]);
  }
  return NULL;
}

/* ISO C has no cast from an object's address to a function's. */
static bool find(void *library, const char *name, void *member, char *why,
                 size_t size) {
  void *symbol = dlsym(library, name);
  memcpy(member, &symbol, sizeof symbol);
  if (symbol != NULL) return true;
  snprintf(why, size, "it is too old: %s is not in it", name);
  return false;
}

const char *cel_cuda_api_text(const cel_cuda_api *api, CUresult code) {
  const char *text = NULL;
  api->cuGetErrorString(code, &text);
  return text != NULL ? text : "an error that the driver has no words for";
}

#define FIND(result, name, parameters)                                         \
  if (!find(library, #name, &api.name, why, size)) return NULL;

const cel_cuda_api *cel_cuda_api_load(char *why, size_t size) {
  static const char *const names[] = {
      "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", NULL};
  static cel_cuda_api api;
  static bool loaded;
  if (loaded) return &api;
  void *library = open_first(names, why, size);
  if (library == NULL) return NULL;
  CEL_CUDA_FUNCTIONS(FIND)
  CUresult code = api.cuInit(0);
  if (code != CUDA_SUCCESS) {
    snprintf(why, size, "cuInit: %s", cel_cuda_api_text(&api, code));
    return NULL;
  }
  loaded = true;
  return &api;
}

const cel_nvrtc_api *cel_nvrtc_api_load(char *why, size_t size) {
  static const char *const names[NAMES] = {
      "libnvrtc.so",
      "libnvrtc.so.13",
      "libnvrtc.so.12",
      "/usr/local/cuda/lib64/libnvrtc.so",
      "/usr/local/cuda/lib64/libnvrtc.so.13",
      "/usr/local/cuda/lib64/libnvrtc.so.12",
      NULL};
  static cel_nvrtc_api api;
  static bool loaded;
  if (loaded) return &api;
  void *library = open_first(names, why, size);
  if (library == NULL) return NULL;
  CEL_NVRTC_FUNCTIONS(FIND)
  loaded = true;
  return &api;
}
