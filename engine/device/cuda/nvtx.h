/* nvtx.h -- ranges that NVIDIA's profilers show, named after tasks.
 *
 * What the headers of NVTX 3 do, without them: a profiler names a library in
 * $NVTX_INJECTION64_PATH, which is loaded once and asks for the addresses of
 * the functions' pointers, to put its own there. Without a profiler nothing is
 * loaded and a range costs a test of a pointer.
 */
#ifndef CEL_DEVICE_CUDA_NVTX_H
#define CEL_DEVICE_CUDA_NVTX_H

#ifndef CEL_CDEF
#include <stddef.h>

/* Null, both, without a profiler. Written by cel_nvtx_start alone. */
extern int (*cel_nvtx_push)(const char *name);
extern int (*cel_nvtx_pop)(void);
#endif

/* Attaches a profiler, where there is one; later calls do nothing. Before the
 * threads that push. Thread: main. */
void cel_nvtx_start(void);

#ifndef CEL_CDEF
/* A range of the calling thread; each push has its pop. Thread: any. */
static inline void cel_nvtx_begin(const char *name) {
  if (cel_nvtx_push != NULL) cel_nvtx_push(name);
}

static inline void cel_nvtx_end(void) {
  if (cel_nvtx_pop != NULL) cel_nvtx_pop();
}
#endif

#endif
