#include "rule/listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* ---- making ---------------------------------------------------------------
 */

typedef struct placed {
  cel_box chunk;
  int32_t at;
} placed;

static int compare(const void *left, const void *right) {
  const placed *a = left, *b = right;
  return cel_box_compare(&a->chunk, &b->chunk);
}

static void sort(const cel_listing *listing, int32_t *order) {
  int32_t n = listing->chunks;
  placed *all = cel_alloc(((size_t)n + 1) * sizeof *all);
  for (int32_t i = 0; i < n; ++i) all[i] = (placed){listing->chunk[i], i};
  if (n > 1) qsort(all, (size_t)n, sizeof *all, compare);
  for (int32_t i = 0; i < n; ++i) order[i] = all[i].at;
  cel_free(all);
}

/* Each chunk's boxes in canonical form, behind the chunks. */
static cel_box *copy_boxes(const cel_listing *listing, int32_t *start) {
  cel_region region = {0};
  uint32_t room = (uint32_t)listing->chunks + 1, n = 0;
  cel_box *out = cel_alloc(room * sizeof *out);
  for (int32_t i = 0; i < listing->chunks; ++i) {
    int32_t from = listing->start[i];
    cel_region_assign(&region, listing->box + from,
                      (uint32_t)(listing->start[i + 1] - from));
    start[i] = (int32_t)n;
    if (n + region.n > room) {
      room = 2 * (n + region.n);
      out = cel_realloc(out, room * sizeof *out);
    }
    if (region.n > 0) memcpy(out + n, region.at, region.n * sizeof *out);
    n += region.n;
  }
  start[listing->chunks] = (int32_t)n;
  cel_region_release(&region);
  return out;
}

static void *copy(const void *from, size_t size) {
  void *to = cel_alloc(size > 0 ? size : 1);
  return size > 0 ? memcpy(to, from, size) : to;
}

cel_listing *cel__listing_copy(const cel_listing *listing) {
  cel_listing *made = cel_alloc(sizeof *made);
  *made = *listing;
  size_t n = (size_t)listing->chunks;
  int32_t *start = cel_alloc((n + 1) * sizeof *start);
  int32_t *order = cel_alloc((n + 1) * sizeof *order);
  made->part = copy(listing->part, (size_t)listing->parts * sizeof *made->part);
  made->split =
      copy(listing->split, (size_t)listing->words * sizeof *made->split);
  made->chunk = copy(listing->chunk, n * sizeof *made->chunk);
  made->box = copy_boxes(listing, start);
  sort(listing, order);
  made->start = start;
  made->order = order;
  return made;
}

void cel__listing_destroy(cel_listing *listing) {
  if (listing == NULL) return;
  cel_free((void *)listing->part);
  cel_free((void *)listing->split);
  cel_free((void *)listing->chunk);
  cel_free((void *)listing->box);
  cel_free((void *)listing->start);
  cel_free((void *)listing->order);
  cel_free(listing);
}

/* ---- asking ---------------------------------------------------------------
 */

uint64_t cel__listing_hash(const cel_listing *listing) {
  size_t n = (size_t)listing->common;
  uint64_t hash = cel_hash(listing->chunk, n * sizeof *listing->chunk, 0x0bacu);
  hash = cel_hash(listing->start, (n + 1) * sizeof *listing->start, hash);
  return cel_hash(listing->box,
                  (size_t)listing->start[n] * sizeof *listing->box, hash);
}

static bool same(const void *a, const void *b, size_t size) {
  return size == 0 || memcmp(a, b, size) == 0;
}

bool cel__listing_equal(const cel_listing *a, const cel_listing *b) {
  size_t n = (size_t)a->chunks;
  return a->chunks == b->chunks && a->ranks == b->ranks &&
         a->common == b->common && a->mine == b->mine && a->parts == b->parts &&
         a->whole == b->whole && a->words == b->words &&
         same(a->split, b->split, (size_t)a->words * sizeof *a->split) &&
         same(a->part, b->part, (size_t)a->parts * sizeof *a->part) &&
         same(a->chunk, b->chunk, n * sizeof *a->chunk) &&
         same(a->start, b->start, (n + 1) * sizeof *a->start) &&
         same(a->box, b->box, (size_t)a->start[n] * sizeof *a->box);
}

bool cel__listing_find(const cel_listing *listing, const cel_box *chunk,
                       const cel_box **box, int32_t *n) {
  int32_t lo = 0, hi = listing->chunks;
  while (lo < hi) {
    int32_t at = listing->order[lo + (hi - lo) / 2];
    int sign = cel_box_compare(&listing->chunk[at], chunk);
    if (sign == 0) {
      *box = listing->box + listing->start[at];
      *n = listing->start[at + 1] - listing->start[at];
      return true;
    }
    if (sign < 0)
      lo = lo + (hi - lo) / 2 + 1;
    else
      hi = lo + (hi - lo) / 2;
  }
  return false;
}

/* ---- splits
 * ------------------------------------------------------------------
 */

int32_t cel__listing_split(const cel_listing *listing, int32_t *at,
                           const int32_t **chunk) {
  if (*at == listing->words) return 0;
  int32_t n = listing->split[*at];
  *chunk = listing->split + *at + 1;
  *at += 1 + n;
  return n;
}

static void image_of(const cel_listing *listing, int32_t chunk,
                     cel_region *out) {
  int32_t start = listing->start[chunk];
  cel_region_assign(out, listing->box + start,
                    (uint32_t)(listing->start[chunk + 1] - start));
}

/* Whether some of `rest` is left: its first point goes into *why. */
static bool left(const cel_region *rest, const cel_listing *listing,
                 int32_t part, int32_t chunk, cel_counter_example *why) {
  if (rest->n == 0) return false;
  why->a = listing->chunk[part];
  why->b = listing->chunk[chunk];
  memcpy(why->point, rest->at[0].min, sizeof why->point);
  return true;
}

cel_proof cel__listing_compare(const cel_listing *listing, int32_t chunk,
                               const int32_t *part, int32_t parts,
                               cel__made_of what, cel_counter_example *why) {
  cel_region whole = {0}, all = {0}, one = {0};
  bool hit = false, nothing = parts == 0;
  image_of(listing, chunk, &whole);
  for (int32_t i = 0; i < parts && !hit; ++i) {
    image_of(listing, part[i], &one);
    nothing |= one.n == 0;
    cel_region_unite(&all, &all, &one);
    cel_region_subtract(&one, &one, &whole);
    hit = left(&one, listing, part[i], chunk, why);
  }
  if (what == CEL__AROUND) {
    cel_box hull = cel_region_hull(&all);
    cel_region_assign(&all, &hull, 1);
  }
  if (!hit && parts > 0 &&
      (what == CEL__EXACTLY || (what == CEL__AROUND && !nothing))) {
    cel_region_subtract(&whole, &whole, &all);
    hit = left(&whole, listing, part[0], chunk, why);
  }
  cel_region_release(&whole);
  cel_region_release(&all);
  cel_region_release(&one);
  return hit ? CEL_REFUTED : CEL_UNKNOWN;
}

cel_proof cel__listing_union(const cel_listing *listing, cel__made_of what,
                             cel_counter_example *why) {
  const int32_t *part;
  int32_t n, at = 0;
  while ((n = cel__listing_split(listing, &at, &part)) > 0)
    if (cel__listing_compare(listing, listing->whole, part, n, what, why) ==
        CEL_REFUTED)
      return CEL_REFUTED;
  return CEL_UNKNOWN;
}
