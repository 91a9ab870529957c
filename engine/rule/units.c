#include "rule/units.h"

void cel__units_init(const cel_box *range, const cel_split_kind *kind,
                     cel_units *out) {
  out->range = *range;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t n = range->max[d] - range->min[d];
    int64_t g = kind->cut[d] ? kind->granularity[d] : n;
    if (g < 1) g = 1;
    out->g[d] = g;
    out->count[d] = n / g + (n % g != 0);
    out->ragged[d] = out->count[d] > 1 && n % g != 0;
  }
}

int64_t cel__units_at(const cel_units *units, int d, int64_t u) {
  if (u >= units->count[d]) return units->range.max[d];
  return units->range.min[d] + units->g[d] * u;
}

unsigned cel__units_ragged(const cel_units *units) {
  unsigned set = 0;
  for (int d = 0; d < CEL_DIMS; ++d) set |= (unsigned)units->ragged[d] << d;
  return set;
}

void cel__units_domain(const cel_units *units, unsigned at_end,
                       cel_domain *out) {
  for (int d = 0; d < CEL_DIMS; ++d) {
    bool whole = units->count[d] == 1;
    bool last = whole || (at_end >> d & 1);
    out->scale[d] = whole ? 0 : units->g[d];
    out->offset[d] = units->range.min[d];
    out->scale[3 + d] = last ? 0 : units->g[d];
    out->offset[3 + d] = last ? units->range.max[d] : units->range.min[d];
    out->low[d] = 0;
    out->high[d] = units->count[d] - (units->ragged[d] && !last);
  }
}
