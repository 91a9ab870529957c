#include "region/box.h"

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
