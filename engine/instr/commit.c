#include "instr/memory.h"
#include "instr/memory_state.h"

/* Rows are the coordinates of dimension 0, which is the slowest: the rows of a
 * layout lie one behind the other. What is committed counts in whole rows, so
 * that those at the ends of a range, whose other part lies in grains without
 * memory, have no users yet. */

uint64_t cel__memory_row(const cel_buffer *buffer, const cel_box *layout) {
  return (uint64_t)(layout->max[1] - layout->min[1]) *
         (uint64_t)(layout->max[2] - layout->min[2]) * buffer->element_size;
}

static cel_box rows_of(const cel_box *box) {
  return (cel_box){{box->min[0], 0, 0}, {box->max[0], 1, 1}};
}

/* A COMMIT is the first writer of the rows that it completes, after the ALLOC;
 * others keep theirs. */
static void emit(cel__memories *all, cel__record *record, const cel_box *rows) {
  const cel_allocation *a = &record->tracked.made;
  int64_t from = a->layout.min[0];
  uint64_t grain = all->config->grain;
  uint64_t row = cel__memory_row(a->buffer, &a->layout);
  uint64_t begin = (uint64_t)(rows->min[0] - from) * row;
  uint64_t end = (uint64_t)(rows->max[0] - from) * row;
  begin -= begin % grain;
  end = (end + grain - 1) / grain * grain;
  if (end > a->reserve) end = a->reserve;
  cel_box whole = {{from + (int64_t)((begin + row - 1) / row), 0, 0},
                   {from + (int64_t)(end / row), 1, 1}};
  cel_region_assign(&all->fresh, &whole, 1);
  cel_region_subtract(&all->fresh, &all->fresh, &record->committed);
  cel_region_add(&record->committed, &whole);
  cel__room_take(all, record, begin, end);
  cel__emit_commit(all->emission, &record->tracked, begin, end, &all->fresh);
}

/* Where rows follow what is committed, more will: an eighth of what there is,
 * so that a buffer that grows steadily seldom needs a COMMIT; where there is
 * room to spare. */
static void look_ahead(const cel__memories *all, const cel__record *record,
                       cel_box *rows) {
  cel_box before = *rows;
  before.min[0] = rows->min[0] - 1;
  before.max[0] = rows->min[0];
  if (!cel_region_covers_box(&record->committed, &before)) return;
  int64_t ahead = rows->min[0] + cel_region_volume(&record->committed) / 8;
  int64_t most = record->tracked.made.layout.max[0];
  if (ahead > most) ahead = most;
  if (ahead <= rows->max[0]) return;
  const cel_allocation *a = &record->tracked.made;
  uint64_t row = cel__memory_row(a->buffer, &a->layout);
  uint64_t bytes = (uint64_t)(ahead - rows->min[0]) * row;
  bytes += all->room[a->memory].promised + 2 * all->config->grain;
  if (cel__room_has(all, a->memory, bytes)) rows->max[0] = ahead;
}

bool cel__record_is_committed(const cel__record *record, const cel_box *box) {
  if (record->whole) return true;
  cel_box rows = rows_of(box);
  return cel_region_covers_box(&record->committed, &rows);
}

void cel__memory_commit(cel__memories *all, cel__tracked *tracked,
                        const cel_region *region) {
  cel__record *record = cel__record_of(tracked);
  if (record->whole) return;
  cel_region *rows = &all->rows;
  cel_region_clear(rows);
  for (uint32_t i = 0; i < region->n; ++i) {
    cel_box box = rows_of(&region->at[i]);
    cel_region_add(rows, &box);
  }
  cel_region_subtract(rows, rows, &record->committed);
  for (uint32_t i = 0; i < rows->n; ++i) {
    cel_box box = rows->at[i];
    if (cel_region_covers_box(&record->committed, &box)) continue;
    look_ahead(all, record, &box);
    emit(all, record, &box);
  }
}

void cel__record_decommit(cel__memories *all, cel__record *record,
                          uint64_t begin, uint64_t end) {
  const cel_box *layout = &record->tracked.made.layout;
  uint64_t row = cel__memory_row(record->tracked.made.buffer, layout);
  cel_box box = *layout;
  box.min[0] = layout->min[0] + (int64_t)(begin / row);
  box.max[0] = layout->min[0] + (int64_t)((end + row - 1) / row);
  uint64_t id =
      cel__emit_decommit(all->emission, &record->tracked, begin, end, &box);
  cel_box rows = rows_of(&box);
  cel_region_remove(&record->committed, &rows);
  cel__room_give(all, record, begin, end, id);
}
