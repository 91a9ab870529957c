#include "runtime/watchdog.h"

void cel__watchdog_moved(cel_watchdog *dog) {
  dog->since_ns = dog->due_ns = 0;
  dog->told = false;
}

uint32_t cel__watchdog_rest(cel_watchdog *dog, uint32_t timeout_us,
                            int64_t now_ns, bool *speak) {
  *speak = false;
  if (dog->limit_ns == 0 || dog->told) return timeout_us;
  bool stopped = dog->due_ns != 0 && now_ns - dog->due_ns > dog->limit_ns / 2;
  if (dog->since_ns == 0 || stopped) dog->since_ns = now_ns;
  int64_t left_us = (dog->limit_ns - (now_ns - dog->since_ns)) / 1000;
  dog->due_ns = 0;
  if (left_us <= 0) {
    *speak = dog->told = true;
    return 0;
  }
  if ((uint64_t)left_us < timeout_us) timeout_us = (uint32_t)left_us;
  dog->due_ns = now_ns + (int64_t)timeout_us * 1000;
  return timeout_us;
}
