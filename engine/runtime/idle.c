#include "runtime/idle.h"

#include <stdio.h>

void cel__idle_begin(cel_idle *idle, int64_t now_ns) {
  if (idle->since_ns == 0) idle->since_ns = now_ns;
  if (idle->first_ns == 0) idle->first_ns = now_ns;
}

void cel__idle_forget(cel_idle *idle) {
  idle->since_ns = 0;
}

bool cel__idle_end(cel_idle *idle, int64_t now_ns, char *text, size_t size) {
  if (idle->since_ns == 0) return false;
  int64_t gap_ns = now_ns - idle->since_ns;
  idle->since_ns = 0;
  if (gap_ns > CEL__IDLE_LONG_NS) {
    idle->first_ns += gap_ns;
    return false;
  }
  idle->total_ns += gap_ns;
  idle->gaps++;
  int64_t all_ns = now_ns - idle->first_ns;
  if (idle->told || idle->gaps < CEL__IDLE_GAPS ||
      idle->total_ns < CEL__IDLE_NS ||
      idle->total_ns < all_ns / CEL__IDLE_SHARE)
    return false;
  idle->told = true;
  snprintf(text, size,
           "nothing was computed in %d %% of the last %.1f s, because tasks "
           "were carried out faster than the script submits them: give each "
           "more to do, or submit fewer",
           (int)(100 * idle->total_ns / all_ns), (double)all_ns / 1e9);
  return true;
}
