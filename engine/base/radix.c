#include "base/radix.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { DIGIT_BITS = 11, DIGITS = 6, VALUES = 1 << DIGIT_BITS };

/* ---- codes --------------------------------------------------------------- */

static uint64_t load(const unsigned char *from, uint32_t size) {
  uint8_t one;
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  switch (size) {
  case 1: return memcpy(&one, from, sizeof one), one;
  case 2: return memcpy(&two, from, sizeof two), two;
  case 4: return memcpy(&four, from, sizeof four), four;
  default: return memcpy(&eight, from, sizeof eight), eight;
  }
}

/* Bits of a floating-point number: without their sign they compare as whole
 * numbers do, up to infinity; what is beyond is a NaN. */
static uint64_t float_code(uint64_t bits, uint64_t sign, uint64_t infinity) {
  uint64_t magnitude = bits & ~sign;
  if (magnitude > infinity) return sign | (sign - 1);
  if (magnitude == 0) return sign;
  return (bits & sign) != 0 ? sign - magnitude : sign + magnitude;
}

static uint64_t code_of(uint64_t bits, uint32_t size, char kind,
                        bool descending) {
  uint64_t sign = (uint64_t)1 << (8 * size - 1);
  uint64_t most = sign | (sign - 1);
  uint64_t infinity = size == 4 ? 0x7f800000 : 0x7ff0000000000000;
  uint64_t code = kind == 'f'   ? float_code(bits, sign, infinity)
                  : kind == 'i' ? bits ^ sign
                                : bits;
  return descending ? most - code : code;
}

/* ---- sorting ------------------------------------------------------------- */

/* By the digit, where `start` says how many entries have smaller ones. */
static void scatter(const cel_radix_entry *from, cel_radix_entry *to,
                    uint64_t count, int shift, uint64_t *start) {
  for (uint64_t i = 0; i < count; ++i)
    to[start[from[i].code >> shift & (VALUES - 1)]++] = from[i];
}

/* From counts to starts; false where all entries have the same digit. */
static bool add_up(uint64_t *histogram, uint64_t count) {
  uint64_t sum = 0;
  for (int v = 0; v < VALUES; ++v) {
    uint64_t n = histogram[v];
    if (n == count) return false;
    histogram[v] = sum;
    sum += n;
  }
  return true;
}

static void sort(cel_radix_order *order, uint64_t (*histogram)[VALUES]) {
  for (uint64_t i = 0; i < order->count; ++i)
    for (int d = 0; d < DIGITS; ++d)
      ++histogram[d][order->at[i].code >> d * DIGIT_BITS & (VALUES - 1)];
  for (int d = 0; d < DIGITS; ++d) {
    if (!add_up(histogram[d], order->count)) continue;
    scatter(order->at, order->room, order->count, d * DIGIT_BITS, histogram[d]);
    cel_radix_entry *sorted = order->room;
    order->room = order->at;
    order->at = sorted;
  }
}

cel_radix_order *cel_radix_create(const void *from, uint32_t size, char kind,
                                  bool descending, uint64_t count) {
  cel_radix_order *order = cel_alloc_zero(sizeof *order);
  order->count = count;
  if (count <= SIZE_MAX / sizeof *order->at) {
    order->at = malloc((size_t)count * sizeof *order->at + 1);
    order->room = malloc((size_t)count * sizeof *order->room + 1);
  }
  if (order->at == NULL || order->room == NULL) {
    cel_radix_destroy(order);
    return NULL;
  }
  const unsigned char *at = from;
  for (uint64_t i = 0; i < count; ++i, at += size)
    order->at[i] =
        (cel_radix_entry){code_of(load(at, size), size, kind, descending), i};
  uint64_t(*histogram)[VALUES] = cel_alloc_zero(DIGITS * sizeof *histogram);
  sort(order, histogram);
  cel_free(histogram);
  return order;
}

void cel_radix_destroy(cel_radix_order *order) {
  free(order->at);
  free(order->room);
  cel_free(order);
}

/* ---- use ----------------------------------------------------------------- */

uint64_t cel_radix_below(const cel_radix_order *order, uint64_t code) {
  uint64_t low = 0, high = order->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (order->at[middle].code < code)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void cel_radix_take(const cel_radix_order *order, const void *from,
                    uint32_t size, void *to) {
  const unsigned char *list = from;
  unsigned char *out = to;
  for (uint64_t i = 0; i < order->count; ++i, out += size) {
    const unsigned char *element = list + order->at[i].place * size;
    switch (size) { /* of known sizes a copy is a move */
    case 4: memcpy(out, element, 4); break;
    case 8: memcpy(out, element, 8); break;
    default: memcpy(out, element, size);
    }
  }
}
