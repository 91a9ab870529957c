/* The names and numbers are NVTX 3's (nvtxDetail/nvtxTypes.h), which keeps
 * them. */
#include "device/cuda/nvtx.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);

int (*cel_nvtx_push)(const char *name);
int (*cel_nvtx_pop)(void);

enum {
  NVTX_VERSION = 3,
  NVTX_ETID_CALLBACKS = 1,
  NVTX_ETID_VERSIONINFO = 3,
  NVTX_CB_MODULE_CORE = 1,
  NVTX_CB_MODULES = 7,
  NVTX_CBID_CORE_RangePushA = 9,
  NVTX_CBID_CORE_RangePop = 11,
  MOST = 16 /* functions of a module: see `functions` */
};

/* How many functions each module has, NVTX_CBID_..._SIZE. */
static const unsigned functions[NVTX_CB_MODULES] = {0, 16, 9, 15, 7, 16, 7};

/* What a profiler writes to: a pointer per function, of which two are used. */
static function pointer[NVTX_CB_MODULES][MOST];
static function *table[NVTX_CB_MODULES][MOST + 1];

static int find_table(int module, function ***out, unsigned *size) {
  if (module <= 0 || module >= NVTX_CB_MODULES) return 0;
  for (unsigned i = 1; i < functions[module]; ++i)
    table[module][i] = &pointer[module][i];
  if (out != NULL) *out = table[module];
  if (size != NULL) *size = functions[module];
  return 1;
}

static void take_version(uint32_t version) {
  (void)version;
}

static const struct {
  size_t size;
  int (*find_table)(int module, function ***out, unsigned *size);
} callbacks = {sizeof callbacks, find_table};

static const struct {
  size_t size;
  uint32_t version, reserved;
  void (*take_version)(uint32_t version);
} version_info = {sizeof version_info, NVTX_VERSION, 0, take_version};

static const void *export_table(uint32_t id) {
  return id == NVTX_ETID_CALLBACKS     ? (const void *)&callbacks
         : id == NVTX_ETID_VERSIONINFO ? (const void *)&version_info
                                       : NULL;
}

static bool attach(const char *path) {
  void *library = dlopen(path, RTLD_LAZY);
  if (library == NULL) return false;
  int (*start)(const void *(*tables)(uint32_t));
  void *symbol = dlsym(library, "InitializeInjectionNvtx2");
  memcpy(&start, &symbol, sizeof start); /* ISO C has no cast for it */
  if (start != NULL && start(export_table) != 0) return true;
  dlclose(library);
  return false;
}

void cel_nvtx_start(void) {
  static bool started;
  const char *path = getenv("NVTX_INJECTION64_PATH");
  if (started || path == NULL || path[0] == '\0') return;
  started = true;
  if (!attach(path)) return;
  const function *core = pointer[NVTX_CB_MODULE_CORE];
  if (core[NVTX_CBID_CORE_RangePushA] == NULL ||
      core[NVTX_CBID_CORE_RangePop] == NULL)
    return;
  memcpy(&cel_nvtx_push, &core[NVTX_CBID_CORE_RangePushA], sizeof(function));
  memcpy(&cel_nvtx_pop, &core[NVTX_CBID_CORE_RangePop], sizeof(function));
}
