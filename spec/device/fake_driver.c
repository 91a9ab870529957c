/* A driver that shows GPUs which are not there: $FAKE_GPUS of them, each able
 * to reach the next one. Their identities count from $FAKE_FIRST. It opens
 * contexts and nothing more; fake_driver.lua adds the functions that fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name) {
  const char *text = getenv(name);
  return text != NULL ? atoi(text) : 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_GPUS") < 0 ? 100 : 0;
}

int cuDriverGetVersion(int *version) {
  *version = 13010;
  return 0;
}

int cuGetErrorString(int code, const char **text) {
  *text = code == 100 ? "no CUDA-capable device is detected" : "it is a fake";
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = number("FAKE_GPUS");
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = number("FAKE_FIRST") + ordinal;
  return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake %d", device);
  return 0;
}

int cuDeviceGetUuid_v2(char *uuid, int device) {
  memset(uuid, device + 1, 16);
  return 0;
}

int cuDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, (size_t)size, "0000:%02x:00.0", device + 16);
  return 0;
}

int cuDeviceGetAttribute(int *out, int attribute, int device) {
  (void)device;
  *out = attribute == 75 ? 9 : attribute == 102;
  return attribute > 102; /* an old driver */
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = (size_t)80 << 30;
  return 0;
}

int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = peer == device + 1;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **out, int device) {
  static char context[64];
  *out = &context[device];
  return number("FAKE_BROKEN") == device + 1 ? 2 : 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  return 0;
}

int cuCtxSetCurrent(void *context) {
  (void)context;
  return 0;
}

int cuCtxEnablePeerAccess(void *peer, unsigned flags) {
  (void)peer, (void)flags;
  return 0;
}
