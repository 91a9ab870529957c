/* What an opaque mapper gave for the chunks of a group, looked at. */
#include <string.h>

#include "region/map.h"
#include "rule/listing.h"
#include "task/check.h"

static uint32_t boxes_of(const cel_listing *listing, int32_t chunk,
                         const cel_box **box) {
  *box = listing->box + listing->start[chunk];
  return (uint32_t)(listing->start[chunk + 1] - listing->start[chunk]);
}

void cel__listed_image(const cel_listing *listing, cel_region *image) {
  cel_region_assign(image, listing->box,
                    (uint32_t)listing->start[listing->ranks]);
}

/* Notes in a map who writes a box; refuted where another one does. */
static cel_proof enter(cel_map *map, const cel_listing *listing, int32_t chunk,
                       const cel_box *box, cel_map_entries *met,
                       cel_counter_example *why) {
  cel_map_query(map, box, met);
  for (uint32_t i = 0; i < met->n; ++i) {
    int32_t other = (int32_t)met->at[i].value - 1;
    if (other < 0 || other == chunk) continue;
    why->a = listing->chunk[other];
    why->b = listing->chunk[chunk];
    memcpy(why->point, met->at[i].box.min, sizeof why->point);
    return CEL_REFUTED;
  }
  cel_map_update(map, box, (uint64_t)chunk + 1);
  return CEL_UNKNOWN;
}

cel_proof cel__listed_disjoint(const cel_listing *listing,
                               const cel_box *extent,
                               cel_counter_example *why) {
  cel_map *map = cel_map_create(extent, 0);
  cel_map_entries met = {0};
  cel_proof proof = CEL_UNKNOWN;
  for (int32_t k = 0; k < listing->ranks && proof != CEL_REFUTED; ++k) {
    const cel_box *box;
    uint32_t n = boxes_of(listing, k, &box);
    for (uint32_t i = 0; i < n && proof != CEL_REFUTED; ++i)
      proof = enter(map, listing, k, &box[i], &met, why);
  }
  cel_map_entries_release(&met);
  cel_map_destroy(map);
  return proof;
}

/* Whether some of `rest` is left: its first point goes into *why. */
static cel_proof left(const cel_region *rest, const cel_listing *listing,
                      int32_t part, cel_counter_example *why) {
  if (rest->n == 0) return CEL_UNKNOWN;
  why->a = listing->chunk[part];
  why->b = listing->chunk[listing->mine];
  memcpy(why->point, rest->at[0].min, sizeof why->point);
  return CEL_REFUTED;
}

cel_proof cel__listed_parts(const cel_listing *listing, bool all,
                            cel_counter_example *why) {
  const cel_box *box;
  cel_region mine = {0}, part = {0}, rest = {0};
  cel_proof proof = CEL_UNKNOWN;
  if (listing->mine < 0) return proof;
  uint32_t n = boxes_of(listing, listing->mine, &box);
  cel_region_assign(&mine, box, n);
  cel_region_copy(&rest, &mine);
  for (int32_t i = 0; i < listing->parts && proof != CEL_REFUTED; ++i) {
    n = boxes_of(listing, listing->part[i], &box);
    cel_region_assign(&part, box, n);
    cel_region_subtract(&rest, &rest, &part);
    cel_region_subtract(&part, &part, &mine);
    proof = left(&part, listing, listing->part[i], why);
  }
  if (proof != CEL_REFUTED && all && listing->parts > 0)
    proof = left(&rest, listing, listing->part[0], why);
  cel_region_release(&mine);
  cel_region_release(&part);
  cel_region_release(&rest);
  return proof;
}
