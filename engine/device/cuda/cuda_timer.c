#include "device/cuda/cuda_timer.h"

#include "device/clock.h"

enum { PERIOD_NS = 500 * 1000 * 1000 };

/* Again when it is time. */
static bool set_zero(cel_cuda_timer *t) {
  int64_t before = cel_now_ns();
  if (before < t->next) return true;
  if (t->api->cuEventRecord(t->zero, t->stream) != CUDA_SUCCESS ||
      t->api->cuStreamSynchronize(t->stream) != CUDA_SUCCESS)
    return false;
  int64_t after = cel_now_ns();
  t->zero_ns = before + (after - before) / 2;
  t->next = after + PERIOD_NS;
  return true;
}

void cel_cuda_timer_start(cel_cuda_timer *timer, const cel_cuda_api *api) {
  cel_cuda_timer *t = timer;
  t->api = api;
  if (api->cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      api->cuEventCreate(&t->zero, 0) != CUDA_SUCCESS || !set_zero(t))
    cel_cuda_timer_stop(t);
}

void cel_cuda_timer_stop(cel_cuda_timer *timer) {
  if (timer->zero != NULL) timer->api->cuEventDestroy_v2(timer->zero);
  if (timer->stream != NULL) timer->api->cuStreamDestroy_v2(timer->stream);
  *timer = (cel_cuda_timer){0};
}

void cel_cuda_timer_read(cel_cuda_timer *timer, CUevent from, CUevent to,
                         int64_t *begin, int64_t *end) {
  float since = 0, took = 0; /* ms */
  if (timer->api == NULL || !set_zero(timer) ||
      timer->api->cuEventElapsedTime(&since, timer->zero, from) != 0 ||
      timer->api->cuEventElapsedTime(&took, from, to) != 0)
    return;
  *begin = timer->zero_ns + (int64_t)((double)since * 1e6);
  *end = *begin + (int64_t)((double)took * 1e6);
}
