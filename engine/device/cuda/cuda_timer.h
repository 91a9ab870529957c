/* cuda_timer.h -- when a device worked on a job, in cel_now_ns's nanoseconds.
 *
 * A GPU's events know only how far apart they are, in a float of milliseconds.
 * So every half second an event of the timer's own is waited for, on a stream
 * where nothing else runs, and tells what the host's clock says then: what a
 * job's events are apart from it is known to 60 ns, and the clocks drift apart
 * by a few microseconds at most. How long a job took is the difference of its
 * own events, to half a microsecond.
 * Confined to the device's thread.
 */
#ifndef CEL_DEVICE_CUDA_CUDA_TIMER_H
#define CEL_DEVICE_CUDA_CUDA_TIMER_H

#ifndef CEL_CDEF
#include "device/cuda_api.h"

/* All zero to begin. */
typedef struct cel_cuda_timer {
  const cel_cuda_api *api;
  CUstream stream;
  CUevent zero;
  int64_t zero_ns, next; /* when it was, and when it is to be set again */
} cel_cuda_timer;

/* With the device's context current; it may fail, and then reads nothing. */
void cel_cuda_timer_start(cel_cuda_timer *timer, const cel_cuda_api *api);
void cel_cuda_timer_stop(cel_cuda_timer *timer);
/* Of two timing events that are complete; leaves *begin and *end alone where
 * the driver does not say. */
void cel_cuda_timer_read(cel_cuda_timer *timer, CUevent from, CUevent to,
                         int64_t *begin, int64_t *end);
#endif

#endif
