/* fake_cuda.h -- the fake driver for programs that link it, and check what is
 * above it.
 *
 * Its memory is fake_memory.h's. Streams are lists of work, of which a random
 * part is carried out whenever an event is asked for. Other processes may open
 * memory and events. It knows one kernel, the one for short rows, but for one
 * seed in four.
 */
#ifndef SPEC_DEVICE_FAKE_CUDA_H
#define SPEC_DEVICE_FAKE_CUDA_H

#include "device/cuda/cuda.h"

/* One device; never freed. Thread: main. */
cel_cuda *fake_cuda(uint64_t seed);
/* So many of it; they are all alike. */
void fake_cuda_devices(cel_cuda *cuda, int32_t devices);
/* From the next copy but `copies` on, all that is put on a stream fails. */
void fake_cuda_break(int64_t copies);
/* From now on no memory of others can be opened by a file descriptor. */
void fake_cuda_refuse_loans(void);
/* Something else on a stream; called again and again until it is done. */
void fake_cuda_call(CUstream stream, bool (*call)(void *context),
                    void *context);
#endif
