/* The GPUs of this rank: found, opened, closed. */
#include "device/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "device/cuda/cuda_copy.h"
#include "device/cuda/cuda_sample.h"
#include "tuning.h"

static cel_status fail_call(const cel_cuda_api *api, CUresult code,
                            const char *what, int32_t ordinal) {
  return cel_fail(CEL_E_MISSING, "GPU %d cannot be used: %s: %s", ordinal, what,
                  cel_cuda_api_text(api, code));
}

int32_t cel_cuda_count(char *why, size_t size) {
  const cel_cuda_api *api = cel_cuda_api_load(why, size);
  int count = 0;
  if (api == NULL) return 0;
  CUresult code = api->cuDeviceGetCount(&count);
  if (code != CUDA_SUCCESS)
    snprintf(why, size, "the NVIDIA driver: %s", cel_cuda_api_text(api, code));
  else if (count == 0)
    snprintf(why, size, "the NVIDIA driver shows no GPU");
  return code == CUDA_SUCCESS ? count : 0;
}

void cel_cuda_uuid(int32_t ordinal, char out[CEL_CUDA_UUID]) {
  char why[256];
  const cel_cuda_api *api = cel_cuda_api_load(why, sizeof why);
  CUdevice device;
  memset(out, 0, CEL_CUDA_UUID);
  if (api != NULL && api->cuDeviceGet(&device, ordinal) == CUDA_SUCCESS)
    api->cuDeviceGetUuid_v2(out, device);
}

uint64_t cel_cuda_identity(void) {
  char why[256], uuid[CEL_CUDA_UUID];
  int32_t count = cel_cuda_count(why, sizeof why);
  uint64_t hash = 0;
  for (int32_t i = 0; i < count; ++i) {
    cel_cuda_uuid(i, uuid);
    hash = cel_hash(uuid, sizeof uuid, hash);
  }
  return hash;
}

/* ---- one device */

/* `otherwise` where an older driver does not know the attribute. */
static int32_t ask(const cel_cuda_api *api, CUdevice device, int attribute,
                   int32_t otherwise) {
  int value = 0;
  return api->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS
             ? value
             : otherwise;
}

cel_status cel_cuda_query(int32_t ordinal, cel_cuda_device *out) {
  char why[256] = "";
  const cel_cuda_api *api = cel_cuda_api_load(why, sizeof why);
  if (api == NULL) return cel_fail(CEL_E_MISSING, "%s", why);
  cel_cuda_device d = {.ordinal = ordinal};
  size_t memory = 0;
  CUresult code = api->cuDeviceGet(&d.device, ordinal);
  if (code == CUDA_SUCCESS)
    code = api->cuDeviceGetName(d.name, sizeof d.name, d.device);
  if (code == CUDA_SUCCESS)
    code = api->cuDeviceGetPCIBusId(d.bus, sizeof d.bus, d.device);
  if (code == CUDA_SUCCESS) code = api->cuDeviceTotalMem_v2(&memory, d.device);
  if (code != CUDA_SUCCESS)
    return fail_call(api, code, "asking what it is", ordinal);
  d.memory = memory;
  d.major = ask(api, d.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  d.minor = ask(api, d.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  d.multiprocessors =
      ask(api, d.device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
  d.threads =
      (int64_t)d.multiprocessors *
      ask(api, d.device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0);
  d.numa = ask(api, d.device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  d.virtual_memory =
      ask(api, d.device,
          CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) != 0;
  d.exports =
      ask(api, d.device,
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
          0) != 0;
  d.host_virtual_memory =
      d.numa >= 0 &&
      ask(api, d.device,
          CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
          0) != 0;
  *out = d;
  return CEL_E_OK;
}

bool cel_cuda_reaches(const cel_cuda_device *from, const cel_cuda_device *to) {
  char why[256];
  const cel_cuda_api *api = cel_cuda_api_load(why, sizeof why);
  int can = 0;
  return api != NULL &&
         api->cuDeviceCanAccessPeer(&can, from->device, to->device) ==
             CUDA_SUCCESS &&
         can != 0;
}

static cel_status open_device(cel_cuda *cuda, int32_t ordinal) {
  cel_cuda_device *d = &cuda->device[cuda->devices];
  CEL_TRY(cel_cuda_query(ordinal, d));
  CUresult code = cuda->api->cuDevicePrimaryCtxRetain(&d->context, d->device);
  if (code != CUDA_SUCCESS)
    return fail_call(cuda->api, code, "its primary context", ordinal);
  cuda->devices++;
  return CEL_E_OK;
}

/* A pair that refuses is no error: the driver takes copies between them through
 * the host (cuda_copy.h). */
static void enable_peers(cel_cuda *cuda) {
  for (int32_t a = 0; a < cuda->devices; ++a) {
    cel_cuda_device *from = &cuda->device[a];
    cuda->api->cuCtxSetCurrent(from->context);
    for (int32_t b = 0; b < cuda->devices; ++b) {
      cel_cuda_device *to = &cuda->device[b];
      from->peer[b] = from->device == to->device;
      if (from->peer[b] || !cel_cuda_reaches(from, to)) continue;
      CUresult code = cuda->api->cuCtxEnablePeerAccess(to->context, 0);
      from->peer[b] = code == CUDA_SUCCESS ||
                      code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
  }
  if (cuda->devices > 0) cuda->api->cuCtxSetCurrent(cuda->device[0].context);
}

static cel_status check_ordinals(const int32_t *ordinal, int32_t devices) {
  char why[256] = "";
  int32_t count = cel_cuda_count(why, sizeof why);
  if (count == 0) return cel_fail(CEL_E_MISSING, "%s", why);
  if (devices < 1 || devices > CEL_DEVICES)
    return cel_fail(CEL_E_RANGE, "a rank has 1 to %d GPUs, not %d", CEL_DEVICES,
                    devices);
  for (int32_t i = 0; i < devices; ++i)
    if (ordinal[i] < 0 || ordinal[i] >= count)
      return cel_fail(CEL_E_RANGE, "there is no GPU %d: the driver shows %d%s",
                      ordinal[i], count, count > 1 ? ", counted from 0" : "");
  return CEL_E_OK;
}

cel_status cel_cuda_open(const int32_t *ordinal, int32_t devices,
                         cel_cuda **out) {
  char why[256];
  CEL_TRY(check_ordinals(ordinal, devices));
  cel_cuda *cuda = cel_alloc_zero(sizeof *cuda);
  cuda->api = cel_cuda_api_load(why, sizeof why);
  cuda->pack_rows = CEL_TUNE_CUDA_PACK_ROWS;
  cel_status status = CEL_E_OK;
  for (int32_t i = 0; i < devices && status == CEL_E_OK; ++i)
    status = open_device(cuda, ordinal[i]);
  if (status != CEL_E_OK) {
    cel_cuda_close(cuda);
    return status;
  }
  enable_peers(cuda);
  *out = cuda;
  return CEL_E_OK;
}

void cel_cuda_close(cel_cuda *cuda) {
  if (cuda == NULL) return;
  cel_cuda_pack_unload(cuda);
  cel__cuda_promises_clear(cuda);
  cuda->api->cuCtxSetCurrent(NULL);
  for (int32_t i = 0; i < cuda->devices; ++i)
    cuda->api->cuDevicePrimaryCtxRelease_v2(cuda->device[i].device);
  cel_free(cuda);
}

cel_status cel_cuda_share(const int32_t *list, int32_t n, int32_t want,
                          int32_t index, int32_t of, int32_t *out,
                          int32_t *devices) {
  int32_t begin, end;
  if (n >= of * (want > 0 ? want : 1)) {
    int32_t each = want > 0 ? want : n / of;
    begin = index * each;
    end = begin + each;
  } else if (want <= 1) {
    begin = index % n;
    end = begin + 1;
  } else {
    return cel_fail(CEL_E_RANGE,
                    "%d GPUs per rank are asked for, and %d rank%s of this "
                    "host %s %d",
                    want, of, of == 1 ? "" : "s",
                    of == 1 ? "has" : "have together", n);
  }
  if (end - begin > CEL_DEVICES) end = begin + CEL_DEVICES;
  for (int32_t i = begin; i < end; ++i) out[i - begin] = list[i];
  *devices = end - begin;
  return CEL_E_OK;
}

void cel_cuda_describe(char *text, size_t size) {
  char why[256] = "";
  const cel_cuda_api *api = cel_cuda_api_load(why, sizeof why);
  int version = 0;
  if (api == NULL)
    snprintf(text, size, "%s", why);
  else if (api->cuDriverGetVersion(&version) != CUDA_SUCCESS)
    snprintf(text, size, "the driver does not say its version");
  else
    snprintf(text, size, "CUDA %d.%d", version / 1000, version % 1000 / 10);
  char driver[32];
  FILE *file = fopen("/sys/module/nvidia/version", "re");
  if (file != NULL && api != NULL && fgets(driver, sizeof driver, file) != NULL)
    cel_text_append(text, size, ", driver %.*s", (int)strcspn(driver, "\n"),
                    driver);
  if (file != NULL) fclose(file);
}
