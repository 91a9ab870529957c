#define _GNU_SOURCE
#include "device/cuda_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 8 };

/* The first of `names` that loads; else `why` is `lacks` and the loader's words
 * on the first. */
static void *open_first(const char *const *names, const char *lacks, char *why,
                        size_t size) {
  for (int i = 0; names[i] != NULL; ++i) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    const char *said = dlerror();
    if (i == 0)
      snprintf(why, size, "%s: %s", lacks, said != NULL ? said : names[0]);
  }
  return NULL;
}

/* ISO C has no cast from an object's address to a function's. */
static bool find(void *library, const char *name, void *member, char *why,
                 size_t size) {
  void *symbol = dlsym(library, name);
  memcpy(member, &symbol, sizeof symbol);
  if (symbol != NULL) return true;
  snprintf(why, size, "%s is too old: it lacks %s",
           name[0] == 'n' ? "NVRTC" : "the NVIDIA driver", name);
  return false;
}

const char *cel_cuda_api_text(const cel_cuda_api *api, CUresult code) {
  const char *text = NULL;
  api->cuGetErrorString(code, &text);
  return text != NULL ? text : "an error that the driver has no words for";
}

bool cel_cuda_is_fault(CUresult code) {
  switch (code) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED: return true;
  default: return false;
  }
}

#define FIND(result, name, parameters)                                         \
  if (!find(library, #name, &api.name, why, size)) return NULL;

const cel_cuda_api *cel_cuda_api_load(char *why, size_t size) {
  static const char *const names[] = {
      "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", NULL};
  static cel_cuda_api api;
  static bool loaded;
  if (loaded) return &api;
  void *library = open_first(names, "no NVIDIA driver", why, size);
  if (library == NULL) return NULL;
  CEL_CUDA_FUNCTIONS(FIND)
  /* Streams beyond what the driver is told, by default 8, wait for each other;
   * each takes 14 ms to open a GPU for and 9 to close, and more than those of
   * its lanes and its timer have not been faster. */
  char streams[16];
  snprintf(streams, sizeof streams, "%d", CEL_CUDA_LANES + 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", streams, 0);
  CUresult code = api.cuInit(0);
  if (code != CUDA_SUCCESS) {
    snprintf(why, size, "the NVIDIA driver: %s", cel_cuda_api_text(&api, code));
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
  void *library = open_first(names, "no NVRTC", why, size);
  if (library == NULL) return NULL;
  CEL_NVRTC_FUNCTIONS(FIND)
  loaded = true;
  return &api;
}

const char *cel_nvrtc_version(void) {
  static char version[300];
  char why[256];
  const cel_nvrtc_api *api = cel_nvrtc_api_load(why, sizeof why);
  int major = 0, minor = 0;
  if (api == NULL || api->nvrtcVersion(&major, &minor) != 0) return NULL;
  if (version[0] != '\0') return version;
  /* Updates of one version differ in the name of the file alone. */
  void *symbol;
  Dl_info info;
  char *path = NULL;
  memcpy(&symbol, &api->nvrtcVersion, sizeof symbol);
  if (dladdr(symbol, &info) != 0) path = realpath(info.dli_fname, NULL);
  const char *file = path != NULL ? strrchr(path, '/') : NULL;
  snprintf(version, sizeof version, "%d.%d, %.255s", major, minor,
           file != NULL ? file + 1 : "libnvrtc.so");
  free(path);
  return version;
}
