#include "region/box.h"

#include <inttypes.h>
#include <stdio.h>

int cel_box_subtract(const cel_box *a, const cel_box *b, cel_box *out) {
  if (cel_box_is_empty(a)) return 0;
  cel_box meet, rest = *a; /* out may be a or b: read them first */
  if (!cel_box_intersect(a, b, &meet)) {
    out[0] = rest;
    return 1;
  }
  int n = 0;
  for (int d = 0; d < CEL_DIMS; ++d) {
    if (rest.min[d] < meet.min[d]) {
      out[n] = rest;
      out[n++].max[d] = meet.min[d];
    }
    if (meet.max[d] < rest.max[d]) {
      out[n] = rest;
      out[n++].min[d] = meet.max[d];
    }
    rest.min[d] = meet.min[d];
    rest.max[d] = meet.max[d];
  }
  return n;
}

int64_t cel_box_pieces(const cel_box *box, uint64_t size, uint64_t bytes,
                       int64_t step[3]) {
  int64_t parts = 1;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t n = box->max[d] - box->min[d];
    uint64_t most = size < bytes ? bytes / size : 1;
    step[d] = (uint64_t)n < most ? n : (int64_t)most;
    parts *= (n + step[d] - 1) / step[d];
    size *= (uint64_t)n;
  }
  return parts;
}

cel_box cel_box_piece(const cel_box *box, const int64_t step[3], int64_t i) {
  cel_box part = *box;
  for (int d = CEL_DIMS - 1; d >= 0; --d) {
    int64_t parts = (box->max[d] - box->min[d] + step[d] - 1) / step[d];
    part.min[d] = box->min[d] + i % parts * step[d];
    if (box->max[d] - part.min[d] > step[d])
      part.max[d] = part.min[d] + step[d];
    i /= parts;
  }
  return part;
}

int cel_box_print(const cel_box *box, int dims, char *text, int size) {
  char all[160];
  int n = 0;
  if (dims == 0) n = snprintf(all, sizeof all, "[]");
  for (int d = 0; d < dims; ++d)
    n += snprintf(all + n, sizeof all - (size_t)n,
                  "%s[%" PRId64 ", %" PRId64 ")", d ? " x " : "", box->min[d],
                  box->max[d]);
  if (size > 0) snprintf(text, (size_t)size, "%s", all);
  return n;
}

int cel_box_print_point(const int64_t point[3], int dims, char *text,
                        int size) {
  char all[80];
  int n = snprintf(all, sizeof all, "(");
  for (int d = 0; d < dims; ++d)
    n += snprintf(all + n, sizeof all - (size_t)n, "%s%" PRId64,
                  d == 0 ? "" : ", ", point[d]);
  n += snprintf(all + n, sizeof all - (size_t)n, ")");
  if (size > 0) snprintf(text, (size_t)size, "%s", all);
  return n;
}
