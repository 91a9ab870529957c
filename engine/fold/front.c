#include "fold/front.h"

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

int64_t cel_front_lag(const cel_front *front, bool writes, int64_t ahead) {
  int64_t lag = front->written >= 0 ? larger(0, front->written + ahead) : 0;
  return writes ? larger(lag, front->read) : lag;
}

void cel_front_advance(cel_front *front, bool reads, bool writes, int64_t lag,
                       int64_t back) {
  if (writes) front->written = larger(front->written, lag);
  if (reads) front->read = larger(front->read, lag + back);
}
