#include "comm/collectives.h"

#include "comm/strided.h"

/* Parts are the whole. */
static bool is_one(const cel_collective *collective) {
  return collective->pattern == CEL_PATTERN_BROADCAST ||
         collective->pattern == CEL_PATTERN_ALL_REDUCE;
}

bool cel__collective_whole(const cel_collective *collective, int64_t me) {
  return is_one(collective) || collective->pattern == CEL_PATTERN_ALL_GATHER ||
         collective->root == me;
}

static bool all_to_all(const cel_collective *collective) {
  return collective->pattern == CEL_PATTERN_ALL_TO_ALL;
}

static const cel_collective_parts *parts_of(const cel_collective *collective,
                                            cel__collective_end end) {
  return end == CEL__GIVEN ? &collective->to : &collective->from;
}

static uint64_t element_size(const cel_collective_parts *p) {
  return p->stride[CEL_DIMS - 1];
}

uint64_t cel__collective_unit(const cel_collective *collective,
                              cel__collective_end end) {
  if (!all_to_all(collective)) return collective->unit;
  const cel_collective_parts *p = parts_of(collective, end);
  return (uint64_t)p->parts->unit * element_size(p);
}

uint64_t cel__collective_part(const cel_collective *collective,
                              cel__collective_end end, int64_t rank) {
  if (collective->pattern == CEL_PATTERN_BROADCAST)
    return collective->root == rank ? collective->bytes : 0;
  if (collective->pattern == CEL_PATTERN_ALL_REDUCE) return collective->bytes;
  int64_t count = all_to_all(collective)
                      ? cel_parts_count(parts_of(collective, end)->parts, rank)
                      : collective->count[rank];
  return (uint64_t)count * cel__collective_unit(collective, end);
}

/* Of ranks, or of devices. */
static bool gets(cel_pattern pattern, int64_t root, int64_t me, int64_t rank) {
  switch (pattern) {
  case CEL_PATTERN_BROADCAST: return root != me;
  case CEL_PATTERN_SCATTER: return root != me && rank == me;
  case CEL_PATTERN_GATHER: return root == me && rank != me;
  case CEL_PATTERN_ALL_REDUCE: return true;
  default: return rank != me;
  }
}

bool cel__collective_has(const cel_collective *collective,
                         cel__collective_end end, int64_t me, int64_t rank) {
  if (cel__collective_part(collective, end, rank) == 0) return false;
  if (end == CEL__GOT || all_to_all(collective))
    return gets(collective->pattern, collective->root, me, rank);
  return cel_pattern_is_from_root(collective->pattern) ? collective->root == me
                                                       : rank == me;
}

int64_t cel__collective_giver(const cel_collective *collective, int64_t rank) {
  return cel_pattern_is_from_root(collective->pattern) ? collective->root
                                                       : rank;
}

uint64_t cel__collective_start(const cel_collective *collective,
                               cel__collective_end end, int64_t me,
                               int64_t rank) {
  uint64_t unit = cel__collective_unit(collective, end);
  if (all_to_all(collective))
    return (uint64_t)cel_parts_start(parts_of(collective, end)->parts, rank) *
           unit;
  bool whole = !is_one(collective) && cel__collective_whole(collective, me);
  return whole ? (uint64_t)collective->start[rank] * unit : 0;
}

static cel_strided runs_of(const cel_collective_parts *p, const void *base,
                           const uint64_t extent[CEL_DIMS]) {
  return cel__strided_merged(
      (cel_strided){.base = (void *)(uintptr_t)base,
                    .count = {extent[0], extent[1]},
                    .stride = {p->stride[0], p->stride[1]},
                    .run = extent[2] * element_size(p)});
}

/* The part of a rank, cut out of the box. */
static cel_strided cut_out(const cel_collective_parts *p, int64_t rank) {
  uint64_t extent[CEL_DIMS];
  const char *base = p->base;
  for (int d = 0; d < CEL_DIMS; ++d) {
    int64_t from = 0, n = (int64_t)p->extent[d];
    if (p->parts->box != NULL) {
      from = p->parts->box[rank].min[d];
      n = p->parts->box[rank].max[d] - from;
    } else if (p->parts->along == d) {
      from = cel_parts_start(p->parts, rank);
      n = cel_parts_count(p->parts, rank);
    }
    extent[d] = (uint64_t)n;
    base += (uint64_t)from * p->stride[d];
  }
  return runs_of(p, base, extent);
}

cel_strided cel__collective_at(const cel_collective *collective,
                               cel__collective_end end, int64_t me,
                               int64_t rank) {
  if (all_to_all(collective)) return cut_out(parts_of(collective, end), rank);
  if (collective->pieces > 1) return collective->piece[rank];
  if (is_one(collective) || !cel__collective_whole(collective, me))
    return collective->piece[0];
  char *base = collective->piece[0].base;
  return (cel_strided){.base = base +
                               cel__collective_start(collective, end, me, rank),
                       .count = {1, 1},
                       .run = cel__collective_part(collective, end, rank)};
}

/* Of box i of several, all of it where it has no parts. */
static cel_strided one_of(const cel_collective *collective,
                          cel__collective_end end, uint32_t i, int64_t rank) {
  const cel_collective_parts *p = &collective->each[end][i];
  return p->parts != NULL ? cut_out(p, rank) : runs_of(p, p->base, p->extent);
}

void cel__collective_gather(const cel_collective *collective,
                            cel__collective_end end, int64_t me, int64_t rank,
                            void *dense) {
  char *to = dense;
  for (uint32_t i = 0; i < collective->several; ++i) {
    cel_strided at = one_of(collective, end, i, rank);
    cel__strided_gather(&at, 1, to);
    to += cel__strided_bytes(&at, 1);
  }
  if (collective->several > 0) return;
  cel_strided at = cel__collective_at(collective, end, me, rank);
  cel__strided_gather(&at, 1, to);
}

void cel__collective_scatter(const cel_collective *collective,
                             cel__collective_end end, int64_t me, int64_t rank,
                             const void *dense) {
  const char *from = dense;
  for (uint32_t i = 0; i < collective->several; ++i) {
    cel_strided at = one_of(collective, end, i, rank);
    cel__strided_scatter(&at, 1, from);
    from += cel__strided_bytes(&at, 1);
  }
  if (collective->several > 0) return;
  cel_strided at = cel__collective_at(collective, end, me, rank);
  cel__strided_scatter(&at, 1, from);
}

void *cel__collective_dense(const cel_collective *collective,
                            cel__collective_end end) {
  if (collective->several > 0) return NULL;
  const cel_collective_parts *p = parts_of(collective, end);
  bool parts =
      all_to_all(collective) ? p->parts->box != NULL : collective->pieces > 1;
  if (parts) return NULL;
  cel_strided only = all_to_all(collective)
                         ? runs_of(p, p->base, p->extent)
                         : cel__strided_merged(collective->piece[0]);
  return only.count[0] * only.count[1] <= 1 ? only.base : NULL;
}

uint64_t cel__collective_bytes(const cel_collective *collective,
                               cel__collective_end end, int64_t me,
                               int64_t ranks) {
  if (!all_to_all(collective))
    return cel__collective_whole(collective, me)
               ? collective->bytes
               : cel__collective_part(collective, end, me);
  uint64_t most = 0;
  for (int64_t k = 0; k < ranks; ++k) {
    uint64_t to = cel__collective_start(collective, end, me, k) +
                  cel__collective_part(collective, end, k);
    if (to > most) most = to;
  }
  return most;
}

/* ---- between devices ----------------------------------------------------- */

/* Null where there is nothing. */
static const cel_strided *member_part(const cel_device_collective *collective,
                                      int64_t member) {
  if (collective->pattern == CEL_PATTERN_BROADCAST)
    return member == collective->root ? &collective->piece[0] : NULL;
  if (collective->pattern == CEL_PATTERN_ALL_REDUCE)
    return &collective->piece[0];
  const cel_strided *part = &collective->piece[member];
  return cel__strided_bytes(part, 1) > 0 ? part : NULL;
}

const cel_strided *cel__member_gives(const cel_device_collective *collective,
                                     int64_t me, int64_t member) {
  bool gives =
      collective->pattern == CEL_PATTERN_ALL_TO_ALL ||
      (cel_pattern_is_from_root(collective->pattern) ? collective->root == me
                                                     : member == me);
  return gives ? member_part(collective, member) : NULL;
}

const cel_strided *cel__member_gets(const cel_device_collective *collective,
                                    int64_t me, int64_t member) {
  if (collective->pattern != CEL_PATTERN_ALL_TO_ALL)
    return gets(collective->pattern, collective->root, me, member)
               ? member_part(collective, member)
               : NULL;
  const cel_strided *part = &collective->from[member];
  return cel__strided_bytes(part, 1) > 0 ? part : NULL;
}
