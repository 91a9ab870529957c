#include "instr/layouts.h"

uint32_t cel__layouts_first(const cel__layouts *layouts, const cel_box *box) {
  int64_t from =
      box->min[1] - layouts->widest; /* meets only if min[1] > from */
  uint32_t lo = 0, hi = layouts->n;
  while (lo < hi) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (layouts->at[middle].layout.min[1] > from)
      hi = middle;
    else
      lo = middle + 1;
  }
  return lo;
}

void cel__layouts_insert(cel__layouts *layouts, const cel_box *layout,
                         struct cel__record *record) {
  int64_t width = layout->max[1] - layout->min[1];
  if (width > layouts->widest) layouts->widest = width;
  cel_vec_reserve(layouts, 1);
  uint32_t i = layouts->n++;
  for (; i > 0 && layouts->at[i - 1].layout.min[1] > layout->min[1]; --i)
    layouts->at[i] = layouts->at[i - 1];
  layouts->at[i] = (cel__layout_entry){*layout, record};
}

void cel__layouts_remove(cel__layouts *layouts, uint32_t i) {
  --layouts->n;
  memmove(layouts->at + i, layouts->at + i + 1,
          (layouts->n - i) * sizeof *layouts->at);
  if (layouts->n == 0) layouts->widest = 0;
}

void cel__layouts_remove_covered(cel__layouts *layouts, const cel_box *layout) {
  uint32_t i = cel__layouts_first(layouts, layout), to = i;
  for (; i < layouts->n && layouts->at[i].layout.min[1] < layout->max[1]; ++i)
    if (!cel_box_covers(layout, &layouts->at[i].layout))
      layouts->at[to++] = layouts->at[i];
  if (to == i) return;
  memmove(layouts->at + to, layouts->at + i,
          (layouts->n - i) * sizeof *layouts->at);
  layouts->n -= i - to;
  if (layouts->n == 0) layouts->widest = 0;
}

void cel__layouts_clear(cel__layouts *layouts) {
  layouts->n = 0;
  layouts->widest = 0;
}
