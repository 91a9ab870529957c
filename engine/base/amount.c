#include "base/amount.h"

#include <stdio.h>
#include <string.h>

void cel_amount_text(uint64_t bytes, char *text, size_t size) {
  static const char *const units[] = {"bytes", "KiB", "MiB",
                                      "GiB",   "TiB", "PiB"};
  double amount = (double)bytes;
  int unit = 0;
  for (; amount >= 1024 && unit < 5; ++unit) amount /= 1024;
  snprintf(text, size, "%.*f %s", unit > 0, amount, units[unit]);
}

void cel_amount_texts(uint64_t asked, uint64_t there, char *asked_text,
                      char *there_text) {
  cel_amount_text(asked, asked_text, CEL_AMOUNT_TEXT);
  cel_amount_text(there, there_text, CEL_AMOUNT_TEXT);
  if (strcmp(asked_text, there_text) != 0) return;
  snprintf(asked_text, CEL_AMOUNT_TEXT, "%llu bytes",
           (unsigned long long)asked);
  snprintf(there_text, CEL_AMOUNT_TEXT, "%llu bytes",
           (unsigned long long)there);
}
