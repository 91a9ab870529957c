#include "comm/nccl/nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

cel_status cel_nccl_identify(const cel_cuda *cuda, int32_t device,
                             uint64_t *out) {
  const char *host = getenv("NCCL_HOSTID");
  uint64_t seed = host != NULL ? cel_hash(host, strlen(host), 0) : 0;
  char uuid[CEL_CUDA_UUID];
  CUresult code =
      cuda->api->cuDeviceGetUuid_v2(uuid, cuda->device[device].device);
  if (code != CUDA_SUCCESS)
    return cel_fail(CEL_E_MISSING, "GPU %d does not say which it is: %s",
                    cuda->device[device].ordinal,
                    cel_cuda_api_text(cuda->api, code));
  *out = cel_hash(uuid, CEL_CUDA_UUID, seed);
  return CEL_E_OK;
}

void cel_nccl_version_text(int version, char *text, size_t size) {
  snprintf(text, size, "%d.%d.%d", version / 10000, version / 100 % 100,
           version % 100);
}

/* ISO C has no cast from an object's address to a function's. */
static bool find(void *library, const char *name, void *member, char *why,
                 size_t size) {
  void *symbol = dlsym(library, name);
  memcpy(member, &symbol, sizeof symbol);
  if (symbol != NULL) return true;
  snprintf(why, size, "NCCL is too old: it lacks %s", name);
  return false;
}

#define FIND(result, name, parameters)                                         \
  if (!find(library, #name, &api->name, why, size)) return false;

static bool find_all(void *library, cel_nccl_api *api, char *why, size_t size) {
  CEL_NCCL_FUNCTIONS(FIND)
  int version = 0;
  char text[32];
  if (api->ncclGetVersion(&version) == ncclSuccess &&
      version >= CEL_NCCL_OLDEST)
    return true;
  cel_nccl_version_text(version, text, sizeof text);
  snprintf(why, size, "NCCL %s is too old: 2.18 is needed", text);
  return false;
}

const cel_nccl_api *cel_nccl_api_load(char *why, size_t size) {
  static cel_nccl_api api;
  static bool loaded;
  if (loaded) return &api;
  setenv("NCCL_RUNTIME_CONNECT", "0", 1); /* see nccl.h */
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *said = dlerror();
    library =
        dlopen("/usr/local/cuda/lib64/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
      snprintf(why, size, "no NCCL: %s", said != NULL ? said : "libnccl.so.2");
  }
  if (library == NULL || !find_all(library, &api, why, size)) return NULL;
  loaded = true;
  return &api;
}
