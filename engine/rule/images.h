/* images.h -- what rules gave for chunks, remembered.
 *
 * A loop asks the same rules for the same chunks again and again. What a
 * stencil's boxes come to as a region takes ten times as long to find out as to
 * look up. Rules with parameters, which change, and plain ones, which are
 * evaluated as fast, are not remembered, nor are images of more than 1,024
 * boxes.
 *
 * Invariant: an image depends on its key alone; the id of a rule is never given
 * to another one.
 * Cost: O(boxes of the image). Two slots for each key; the one that came first
 * makes room for a third.
 * The holder owns it: zero ... release. Confined. Pure.
 */
#ifndef CEL_RULE_IMAGES_H
#define CEL_RULE_IMAGES_H

#include "region/region.h"
#include "rule/rule.h"

enum { CEL_IMAGES = 256 }; /* slots: an access of each piece of a few tasks */

typedef struct cel_images {
  struct cel__image *slots[CEL_IMAGES];
} cel_images;

/* As cel_rule_eval. */
cel_status cel_images_eval(cel_images *images, const cel_rule_use *use,
                           const cel_box *chunk, cel_region *out);
void cel_images_release(cel_images *images);
size_t cel_images_bytes(const cel_images *images);

#endif
