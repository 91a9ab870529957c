#include "base/amount.h"

#include <stdio.h>

void cel_amount_text(uint64_t bytes, char *text, size_t size) {
  static const char *const units[] = {"bytes", "KiB", "MiB",
                                      "GiB",   "TiB", "PiB"};
  double amount = (double)bytes;
  int unit = 0;
  for (; amount >= 1024 && unit < 5; ++unit) amount /= 1024;
  snprintf(text, size, "%.*f %s", unit > 0, amount, units[unit]);
}
