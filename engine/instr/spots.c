#include "instr/spots.h"

uint32_t cel__spots_first(const cel__spots *spots, const cel_box *box) {
  int64_t from = box->min[1] - spots->widest; /* meets only if min[1] > from */
  uint32_t lo = 0, hi = spots->n;
  while (lo < hi) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (spots->at[middle].layout.min[1] > from)
      hi = middle;
    else
      lo = middle + 1;
  }
  return lo;
}

void cel__spots_insert(cel__spots *spots, const cel_box *layout,
                       struct cel__record *record) {
  int64_t width = layout->max[1] - layout->min[1];
  if (width > spots->widest) spots->widest = width;
  cel_vec_reserve(spots, 1);
  uint32_t i = spots->n++;
  for (; i > 0 && spots->at[i - 1].layout.min[1] > layout->min[1]; --i)
    spots->at[i] = spots->at[i - 1];
  spots->at[i] = (cel__spot){*layout, record};
}

void cel__spots_remove(cel__spots *spots, uint32_t i) {
  --spots->n;
  memmove(spots->at + i, spots->at + i + 1, (spots->n - i) * sizeof *spots->at);
  if (spots->n == 0) spots->widest = 0;
}

void cel__spots_remove_covered(cel__spots *spots, const cel_box *layout) {
  uint32_t i = cel__spots_first(spots, layout), to = i;
  for (; i < spots->n && spots->at[i].layout.min[1] < layout->max[1]; ++i)
    if (!cel_box_covers(layout, &spots->at[i].layout))
      spots->at[to++] = spots->at[i];
  if (to == i) return;
  memmove(spots->at + to, spots->at + i, (spots->n - i) * sizeof *spots->at);
  spots->n -= i - to;
  if (spots->n == 0) spots->widest = 0;
}

void cel__spots_clear(cel__spots *spots) {
  spots->n = 0;
  spots->widest = 0;
}
