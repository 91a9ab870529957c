/* Atomic operations on plain memory, which lua/celer/data/host_memory.lua calls
 * by FFI: `size` is that of the number, 4 or 8, and it is aligned. All of them
 * are sequentially consistent. Thread: any. */
#include "embed/atomic.h"

#include <math.h>
#include <string.h>

#include "base/status.h"

int64_t cel_atomic_load(const void *p, int32_t size) {
  return size == 8 ? __atomic_load_n((const int64_t *)p, __ATOMIC_SEQ_CST)
                   : __atomic_load_n((const int32_t *)p, __ATOMIC_SEQ_CST);
}

void cel_atomic_store(void *p, int32_t size, int64_t value) {
  if (size == 8)
    __atomic_store_n((int64_t *)p, value, __ATOMIC_SEQ_CST);
  else
    __atomic_store_n((int32_t *)p, (int32_t)value, __ATOMIC_SEQ_CST);
}

int64_t cel_atomic_exchange(void *p, int32_t size, int64_t value) {
  return size == 8 ? __atomic_exchange_n((int64_t *)p, value, __ATOMIC_SEQ_CST)
                   : __atomic_exchange_n((int32_t *)p, (int32_t)value,
                                         __ATOMIC_SEQ_CST);
}

bool cel_atomic_compare(void *p, int32_t size, int64_t expected,
                        int64_t desired) {
  int32_t narrow = (int32_t)expected;
  return size == 8
             ? __atomic_compare_exchange_n((int64_t *)p, &expected, desired,
                                           false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST)
             : __atomic_compare_exchange_n((int32_t *)p, &narrow,
                                           (int32_t)desired, false,
                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int64_t cel_atomic_add(void *p, int32_t size, int64_t value) {
  return size == 8 ? __atomic_fetch_add((int64_t *)p, value, __ATOMIC_SEQ_CST)
                   : __atomic_fetch_add((int32_t *)p, (int32_t)value,
                                        __ATOMIC_SEQ_CST);
}

/* Of NaNs the one that Lua can hold: the bits of another may be those of a
 * value of LuaJIT's own. */
static double real_of(int64_t bits, int32_t size) {
  float narrow;
  double wide;
  int32_t half = (int32_t)bits;
  memcpy(&narrow, &half, sizeof narrow);
  memcpy(&wide, &bits, sizeof wide);
  if (size == 4) wide = (double)narrow;
  return isnan(wide) ? (double)NAN : wide;
}

static int64_t bits_of(double value, int32_t size) {
  float narrow = (float)value;
  int64_t bits;
  int32_t half;
  memcpy(&bits, &value, sizeof bits);
  memcpy(&half, &narrow, sizeof half);
  return size == 8 ? bits : half;
}

double cel_atomic_load_real(const void *p, int32_t size) {
  return real_of(cel_atomic_load(p, size), size);
}

void cel_atomic_store_real(void *p, int32_t size, double value) {
  cel_atomic_store(p, size, bits_of(value, size));
}

double cel_atomic_exchange_real(void *p, int32_t size, double value) {
  return real_of(cel_atomic_exchange(p, size, bits_of(value, size)), size);
}

double cel_atomic_add_real(void *p, int32_t size, double value) {
  for (;;) {
    int64_t before = cel_atomic_load(p, size);
    double sum = real_of(before, size) + value;
    if (cel_atomic_compare(p, size, before, bits_of(sum, size)))
      return real_of(before, size);
  }
}
