#include "comm/image.h"

#include <string.h>

enum { BITS = 64 };

/* ---- marks --------------------------------------------------------------- */

struct cel_image_marks {
  int64_t rows;
  uint64_t *word;
};

cel_image_marks *cel_image_marks_create(int64_t rows) {
  cel_image_marks *marks = cel_alloc_zero(sizeof *marks);
  marks->rows = rows;
  marks->word = cel_alloc_zero((size_t)(rows / BITS + 1) * sizeof *marks->word);
  return marks;
}

void cel_image_marks_destroy(cel_image_marks *marks) {
  if (marks == NULL) return;
  cel_free(marks->word);
  cel_free(marks);
}

static void mark_row(cel_image_marks *marks, int64_t row) {
  marks->word[row / BITS] |= (uint64_t)1 << (row % BITS);
}

void cel_image_mark_rows(cel_image_marks *marks, int64_t row, int64_t end) {
  for (; row < end && row % BITS != 0; ++row) mark_row(marks, row);
  for (; row + BITS <= end; row += BITS) marks->word[row / BITS] = UINT64_MAX;
  for (; row < end; ++row) mark_row(marks, row);
}

/* The first row from `row` on that is marked, or not; `end` if there is none.
 */
static int64_t next_row(const cel_image_marks *marks, int64_t row, int64_t end,
                        bool marked) {
  while (row < end) {
    uint64_t word = marks->word[row / BITS];
    if (!marked) word = ~word;
    word >>= row % BITS;
    if (word != 0) {
      row += __builtin_ctzll(word);
      return row < end ? row : end;
    }
    row += BITS - row % BITS;
  }
  return end;
}

/* ---- what an index names --------------------------------------------------
 */

static int64_t entry(const cel_image_index *index, int64_t at) {
  switch (index->type) {
  case CEL_IMAGE_INT32: return ((const int32_t *)index->base)[at];
  case CEL_IMAGE_UINT32: return ((const uint32_t *)index->base)[at];
  case CEL_IMAGE_INT64: return ((const int64_t *)index->base)[at];
  }
  cel_bug("an index of type %d", (int)index->type);
}

/* The rows that an element names; false where it is none. */
static bool name_row(const cel_image_reach *reach, int64_t value,
                     cel_image_fault *fault) {
  if (value < reach->least || value > reach->most || value == reach->except)
    return false;
  fault->row = fault->last = value;
  return true;
}

/* The same of a range. */
static bool name_range(const cel_image_reach *reach, int64_t value, int64_t end,
                       cel_image_fault *fault) {
  int64_t row = value + reach->first, last = end + reach->last;
  if (last < row) return false;
  if (reach->step > 0)
    last -= (last - row) % reach->step;
  else
    row += (last - row) % -reach->step;
  if (row < reach->least) row = reach->least;
  if (last > reach->most) last = reach->most;
  if (last < row) return false;
  fault->row = row;
  fault->last = last;
  return true;
}

enum { FAR = 62 }; /* bits of a row, with what is added to it */

static bool is_far(int64_t row) {
  return row >> FAR != 0 && row >> FAR != -1;
}

/* What the entry at place `at` of memory names. */
static bool mark_entry(cel_image_marks *marks, const cel_image_index *index,
                       int64_t at, cel_image_fault *fault) {
  const cel_image_reach *reach = &index->reach;
  fault->value = fault->row = fault->last = entry(index, at);
  if (is_far(fault->value)) return false;
  if (index->kind == CEL_IMAGE_ELEMENTS) {
    if (!name_row(reach, fault->value, fault)) return true;
  } else {
    fault->end = fault->last = entry(index, at + 1);
    if (is_far(fault->end)) return false;
    if (!reach->loop && fault->end < fault->value) return false;
    if (!name_range(reach, fault->value, fault->end, fault)) return true;
  }
  fault->row += reach->low;
  fault->last += reach->high;
  if (fault->row < 0 || fault->last >= marks->rows) return false;
  cel_image_mark_rows(marks, fault->row, fault->last + 1);
  return true;
}

bool cel_image_mark(cel_image_marks *marks, const cel_image_index *index,
                    const int64_t min[3], const int64_t max[3],
                    cel_image_fault *fault) {
  const int64_t *size = index->size;
  int64_t at[3];
  for (at[0] = min[0]; at[0] < max[0]; ++at[0])
    for (at[1] = min[1]; at[1] < max[1]; ++at[1])
      for (at[2] = min[2]; at[2] < max[2]; ++at[2]) {
        int64_t place = at[0] - index->min[0];
        place = place * size[1] + at[1] - index->min[1];
        place = place * size[2] + at[2] - index->min[2];
        if (mark_entry(marks, index, place, fault)) continue;
        memcpy(fault->at, at, sizeof at);
        return false;
      }
  return true;
}

/* ---- plans ----------------------------------------------------------------
 */

/* The parts of a plan. */
typedef struct parts {
  int64_t *first_needed, *first_given; /* runs, by rank; and their end */
  int64_t *needed, *given;             /* pairs of rows */
} parts;

/* `given` begins where `needed` ends. */
static parts parts_of(const int64_t *plan, int64_t ranks) {
  parts p = {.first_needed = (int64_t *)(uintptr_t)plan};
  p.first_given = p.first_needed + ranks + 1;
  p.needed = p.first_given + ranks + 1;
  p.given = p.needed + 2 * p.first_needed[ranks];
  return p;
}

/* What the entries in rows [row, end) of an index name. */
static bool mark_run(cel_image_marks *marks, const cel_image_index *index,
                     int64_t row, int64_t end, cel_image_fault *fault) {
  bool offsets = index->kind == CEL_IMAGE_OFFSETS;
  bool pairs = index->kind == CEL_IMAGE_PAIRS;
  int64_t min[3] = {row, 0, 0};
  int64_t max[3] = {end - offsets, pairs ? 1 : index->size[1], index->size[2]};
  return cel_image_mark(marks, index, min, max, fault);
}

bool cel_image_mark_through(cel_image_marks *marks,
                            const cel_image_index *index, const int64_t *plan,
                            int64_t ranks, cel_image_fault *fault) {
  parts p = parts_of(plan, ranks);
  int64_t n = p.first_needed[ranks], i = 0;
  while (i < n) {
    int64_t row = p.needed[2 * i], end = p.needed[2 * i + 1];
    while (++i < n && p.needed[2 * i] == end) end = p.needed[2 * i + 1];
    if (!mark_run(marks, index, row, end, fault)) return false;
  }
  return true;
}

bool cel_image_mark_along(cel_image_marks *marks, const cel_image_index *index,
                          const cel_image_marks *inner,
                          cel_image_fault *fault) {
  int64_t row = 0, rows = inner->rows;
  while ((row = next_row(inner, row, rows, true)) < rows) {
    int64_t end = next_row(inner, row, rows, false);
    if (!mark_run(marks, index, row, end, fault)) return false;
    row = end;
  }
  return true;
}

bool cel_image_hull(const cel_image_marks *marks, int64_t *first,
                    int64_t *end) {
  int64_t rows = marks->rows, word = (rows + BITS - 1) / BITS;
  int64_t row = next_row(marks, 0, rows, true);
  if (row == rows) return false;
  while (marks->word[word - 1] == 0) --word;
  *first = row;
  *end = word * BITS - __builtin_clzll(marks->word[word - 1]);
  return true;
}

/* Runs of rows of one home have gaps between them, so of h rows there are no
 * more than (h + 1) / 2. A home gives as many to each rank at most. */
uint64_t cel_image_words(int64_t rows, int64_t ranks) {
  uint64_t n = (uint64_t)ranks, runs = (uint64_t)rows / 2 + n;
  return 2 * (n + 1) + 4 * runs;
}

int64_t cel_image_home(int64_t rows, int64_t rank, int64_t ranks) {
  int64_t least = rows / ranks, longer = rows - least * ranks;
  return least * rank + (rank < longer ? rank : longer);
}

void cel_image_list(const cel_image_marks *marks, int64_t rows, int64_t ranks,
                    int64_t *plan) {
  plan[ranks] = 0;
  parts p = parts_of(plan, ranks);
  int64_t n = 0;
  for (int64_t k = 0; k < ranks; ++k) {
    int64_t end = cel_image_home(rows, k + 1, ranks);
    int64_t row = cel_image_home(rows, k, ranks);
    p.first_needed[k] = n;
    if (marks == NULL) continue;
    while ((row = next_row(marks, row, end, true)) < end) {
      p.needed[2 * n] = row;
      row = p.needed[2 * n + 1] = next_row(marks, row, end, false);
      ++n;
    }
  }
  p.first_needed[ranks] = n;
  memset(p.first_given, 0, (size_t)(ranks + 1) * sizeof *p.first_given);
}

/* Keeps the `most` largest gaps, each by the run behind it, the largest first;
 * gives how many there are now. */
static int64_t keep_gap(const int64_t *needed, int64_t *list, int64_t n,
                        int64_t most, int64_t run) {
  int64_t at = n, size = needed[2 * run] - needed[2 * run - 1];
  while (at > 0 &&
         needed[2 * list[at - 1]] - needed[2 * list[at - 1] - 1] < size)
    --at;
  if (at == most) return n;
  if (n == most) --n;
  memmove(list + at + 1, list + at, (size_t)(n - at) * sizeof *list);
  list[at] = run;
  return n + 1;
}

int64_t cel_image_boxes(const int64_t *plan, int64_t ranks, int64_t gap,
                        int64_t most, int64_t *boxes) {
  parts p = parts_of(plan, ranks);
  int64_t runs = p.first_needed[ranks], n = 0;
  int64_t *list = cel_alloc((size_t)most * sizeof *list);
  for (int64_t i = 1; i < runs; ++i)
    if (p.needed[2 * i] - p.needed[2 * i - 1] >= gap)
      n = keep_gap(p.needed, list, n, most - 1, i);
  boxes[0] = runs > 0 ? p.needed[0] : 0;
  boxes[1] = runs > 0 ? p.needed[2 * runs - 1] : 1;
  for (int64_t b = 1; b <= n; ++b) { /* by where they are */
    int64_t next = runs;
    for (int64_t k = 0; k < n; ++k)
      if (p.needed[2 * list[k]] > boxes[2 * b - 2] && list[k] < next)
        next = list[k];
    boxes[2 * b + 1] = boxes[2 * b - 1];
    boxes[2 * b - 1] = p.needed[2 * next - 1];
    boxes[2 * b] = p.needed[2 * next];
  }
  cel_free(list);
  return n + 1;
}

/* ---- messages -------------------------------------------------------------
 */

/* Of each rank: what it gets, then what comes from it. */
typedef struct amounts {
  uint64_t *give, *get;
} amounts;

static amounts amounts_create(int64_t ranks) {
  amounts a = {.give = cel_alloc_zero(2 * (size_t)ranks * sizeof *a.give)};
  a.get = a.give + ranks;
  return a;
}

static void amounts_release(amounts *a) {
  cel_free(a->give);
}

/* How many runs, then the runs; those of its own it tells itself. */
static cel_status tell(cel_comm *comm, parts *p, amounts *a) {
  enum { RUN = 2 * sizeof(int64_t) };
  for (int64_t k = 0; k < comm->ranks; ++k)
    a->give[k] = RUN * (uint64_t)(p->first_needed[k + 1] - p->first_needed[k]);
  CEL_TRY(cel_comm_notify(comm, a->give, sizeof *a->give, a->get));
  p->first_given[0] = 0;
  for (int64_t k = 0; k < comm->ranks; ++k)
    p->first_given[k + 1] = p->first_given[k] + (int64_t)(a->get[k] / RUN);
  return cel_comm_all_to_allv(comm, p->needed, a->give, p->given, a->get);
}

cel_status cel_image_meet(cel_comm *comm, int64_t *plan) {
  parts p = parts_of(plan, comm->ranks);
  amounts a = amounts_create(comm->ranks);
  cel_status status = tell(comm, &p, &a);
  amounts_release(&a);
  return status;
}

/* ---- rows -----------------------------------------------------------------
 */

enum { SHORT = 32 };

/* Where rows are named here and there, runs are short, and of lengths that
 * nobody can foretell: while `left` bytes permit, it copies more than there is,
 * of which the next run takes the place. */
static void copy_run(char *to, const char *from, uint64_t bytes, int64_t left) {
  if (bytes <= SHORT && left >= SHORT)
    memcpy(to, from, SHORT);
  else
    memcpy(to, from, bytes);
}

static uint64_t run_bytes(const int64_t *run, uint64_t size) {
  return (uint64_t)(run[1] - run[0]) * size;
}

static uint64_t all_bytes(const int64_t *run, const int64_t *first, int64_t k,
                          uint64_t size) {
  uint64_t bytes = 0;
  for (int64_t i = first[k]; i < first[k + 1]; ++i)
    bytes += run_bytes(run + 2 * i, size);
  return bytes;
}

/* Where rows come from and go to. */
typedef struct ends {
  int64_t first; /* row of `home` */
  uint64_t size; /* of a row */
  const char *home, *home_end;
  char *copy, *copy_end;
} ends;

static const char *row_at_home(const ends *e, int64_t row) {
  return e->home + (uint64_t)(row - e->first) * e->size;
}

/* Runs for rank k one behind the other; where the next ones go. */
static char *pack(const parts *p, const ends *e, int64_t k, char *to) {
  for (int64_t i = p->first_given[k]; i < p->first_given[k + 1]; ++i) {
    const int64_t *run = p->given + 2 * i;
    uint64_t bytes = run_bytes(run, e->size);
    const char *from = row_at_home(e, run[0]);
    copy_run(to, from, bytes, e->home_end - from);
    to += bytes;
  }
  return to;
}

static const char *unpack(const parts *p, const ends *e, int64_t k,
                          const char *from) {
  for (int64_t i = p->first_needed[k]; i < p->first_needed[k + 1]; ++i) {
    const int64_t *run = p->needed + 2 * i;
    uint64_t bytes = run_bytes(run, e->size);
    char *to = e->copy + (uint64_t)run[0] * e->size;
    copy_run(to, from, bytes, e->copy_end - to);
    from += bytes;
  }
  return from;
}

/* What is this rank's own goes no way around. */
static void copy_own(const parts *p, const ends *e, int64_t me) {
  for (int64_t i = p->first_needed[me]; i < p->first_needed[me + 1]; ++i) {
    const int64_t *run = p->needed + 2 * i;
    const char *from = row_at_home(e, run[0]);
    char *to = e->copy + (uint64_t)run[0] * e->size;
    int64_t left = e->home_end - from, there = e->copy_end - to;
    copy_run(to, from, run_bytes(run, e->size), left < there ? left : there);
  }
}

static char *room_of(cel_image_room *room, uint64_t bytes) {
  if (room->bytes < bytes) {
    cel_free(room->data);
    room->data = cel_alloc(bytes);
    room->bytes = bytes;
  }
  return room->data;
}

void cel_image_room_release(cel_image_room *room) {
  cel_free(room->data);
  *room = (cel_image_room){0};
}

/* Counts too; gives the bytes that go. */
static uint64_t weigh(const parts *p, const ends *e, const cel_comm *comm,
                      amounts *a, cel_image_traffic *sum) {
  uint64_t out = 0;
  for (int64_t k = 0; k < comm->ranks; ++k) {
    if (k == comm->rank) continue;
    a->give[k] = all_bytes(p->given, p->first_given, k, e->size);
    a->get[k] = all_bytes(p->needed, p->first_needed, k, e->size);
    out += a->give[k];
    sum->messages += a->give[k] > 0;
    sum->needed += a->get[k];
  }
  sum->bytes += out;
  return out;
}

static cel_status go(cel_comm *comm, const parts *p, const ends *e, amounts *a,
                     cel_image_room *room, cel_image_traffic *sum) {
  uint64_t out = weigh(p, e, comm, a, sum), in = 0;
  for (int64_t k = 0; k < comm->ranks; ++k) in += a->get[k];
  char *sent = room_of(room, out + in + SHORT), *to = sent;
  for (int64_t k = 0; k < comm->ranks; ++k)
    if (k != comm->rank) to = pack(p, e, k, to);
  CEL_TRY(cel_comm_all_to_allv(comm, sent, a->give, to, a->get));
  const char *from = to;
  for (int64_t k = 0; k < comm->ranks; ++k) { /* in the order of rows */
    if (k == comm->rank)
      copy_own(p, e, k);
    else
      from = unpack(p, e, k, from);
  }
  return CEL_E_OK;
}

cel_status cel_image_bring(cel_comm *comm, const int64_t *plan, int64_t rows,
                           uint64_t row_bytes, const void *home, void *copy,
                           cel_image_room *room, cel_image_traffic *sum) {
  parts p = parts_of(plan, comm->ranks);
  int64_t me = comm->rank, first = cel_image_home(rows, me, comm->ranks);
  int64_t mine = cel_image_home(rows, me + 1, comm->ranks) - first;
  ends e = {.first = first,
            .size = row_bytes,
            .home = home,
            .home_end = (const char *)home + (uint64_t)mine * row_bytes,
            .copy = copy,
            .copy_end = (char *)copy + (uint64_t)rows * row_bytes};
  amounts a = amounts_create(comm->ranks);
  cel_status status = go(comm, &p, &e, &a, room, sum);
  amounts_release(&a);
  return status;
}

cel_status cel_image_exchange(cel_comm *comm, const int64_t *plan,
                              uint64_t row_bytes, const void *packed,
                              void *came, cel_image_traffic *sum) {
  parts p = parts_of(plan, comm->ranks);
  ends e = {.size = row_bytes};
  amounts a = amounts_create(comm->ranks);
  weigh(&p, &e, comm, &a, sum);
  cel_status status = cel_comm_all_to_allv(comm, packed, a.give, came, a.get);
  amounts_release(&a);
  return status;
}
