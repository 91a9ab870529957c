/* nccl_api.h -- what is taken from libnccl at run time.
 *
 * Declared here, as Debian has no free package with its header; names and
 * numbers are NCCL's, which keeps them. Its configuration is that of 2.18, the
 * oldest that is taken: later ones read it as such.
 */
#ifndef CEL_COMM_NCCL_NCCL_API_H
#define CEL_COMM_NCCL_NCCL_API_H

#include "device/cuda/cuda.h"

typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;

enum {
  ncclSuccess = 0,
  ncclInProgress = 7,
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclSum = 0,
  ncclMax = 2,
  ncclMin = 3,
  CEL_NCCL_OLDEST = 21800,
  CEL_NCCL_MAGIC = (int)0xcafebeef,
  CEL_NCCL_UNDEFINED = INT32_MIN
};

typedef struct ncclUniqueId {
  char internal[128];
} ncclUniqueId;

typedef struct ncclConfig {
  size_t size;
  int magic;
  unsigned version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare;
} ncclConfig;

/* result, name, parameters. */
/* clang-format off */
#define CEL_NCCL_FUNCTIONS(_) \
  _(ncclResult_t, ncclGetVersion, (int *version)) \
  _(const char *, ncclGetErrorString, (ncclResult_t code)) \
  _(const char *, ncclGetLastError, (ncclComm_t comm)) \
  _(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *out)) \
  _(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t *out, int members, ncclUniqueId id, int member, ncclConfig *config)) \
  _(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *out)) \
  _(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) \
  _(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) \
  _(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) \
  _(ncclResult_t, ncclGroupStart, (void)) \
  _(ncclResult_t, ncclGroupEnd, (void)) \
  _(ncclResult_t, ncclBroadcast, (const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream)) \
  _(ncclResult_t, ncclAllGather, (const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, CUstream stream)) \
  _(ncclResult_t, ncclAllReduce, (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, CUstream stream)) \
  _(ncclResult_t, ncclSend, (const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)) \
  _(ncclResult_t, ncclRecv, (void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream))
/* clang-format on */

/* The members have the functions' names. */
typedef struct cel_nccl_api {
#define CEL_NCCL_MEMBER(result, name, parameters) result(*name) parameters;
  CEL_NCCL_FUNCTIONS(CEL_NCCL_MEMBER)
#undef CEL_NCCL_MEMBER
} cel_nccl_api;

/* Loaded once; null, and `why`, where it is not to be had: "no NCCL:
 * libnccl.so.2: cannot open ...". Thread: main. */
const cel_nccl_api *cel_nccl_api_load(char *why, size_t size);
/* Calls return before they are done. */
#define CEL_NCCL_CONFIG                                                        \
  {                                                                            \
    .size = sizeof(ncclConfig), .magic = CEL_NCCL_MAGIC,                       \
    .version = CEL_NCCL_OLDEST, .blocking = 0,                                 \
    .cgaClusterSize = CEL_NCCL_UNDEFINED, .minCTAs = CEL_NCCL_UNDEFINED,       \
    .maxCTAs = CEL_NCCL_UNDEFINED, .splitShare = CEL_NCCL_UNDEFINED            \
  }

/* Which GPU NCCL takes this one for: NCCL_HOSTID tells ranks that share one
 * apart. CEL_E_MISSING. Thread: main, executor. */
cel_status cel_nccl_identify(const cel_cuda *cuda, int32_t device,
                             uint64_t *out);
/* "2.28.9", of what ncclGetVersion says. Thread: any. */
void cel_nccl_version_text(int version, char *text, size_t size);

#endif
