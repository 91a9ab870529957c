/* check.h -- what is wrong with a group's mappers; internal to task/.
 *
 * What would be wrong on many ranks is an error on one: a write must not
 * overlap, and a read must be a union homomorphism or a box around one, under
 * every split that the group permits, and no mapper may leave its buffer. What
 * each rank does once has one chunk for each rank, and there is no other split
 * of it. A verdict depends only on the rule, its parameters, the ranges and the
 * permitted splits, so it is remembered: a steady loop asks once.
 *
 * Cost: a remembered verdict is one hash and one compare; the memory is a fixed
 * number of slots, so that parameters that change in every step only miss.
 * Where no proof settles what each rank writes once, every rank's chunk is
 * tried, and of opaque mappers all chunks that they were asked about:
 * O(ranks log ranks). Confined. Pure.
 */
#ifndef CEL_TASK_CHECK_H
#define CEL_TASK_CHECK_H

#include "task/task.h"

typedef struct cel__checks cel__checks;

/* `ranks` places the chunks of CEL_PLACE_EACH. The caller owns the result. */
cel__checks *cel__checks_create(int64_t ranks);
void cel__checks_destroy(cel__checks *checks);

/* Checks access `i` of the group. *image becomes what the task touches as a
 * whole; where `*exact` is false it may be more, up to the whole buffer.
 * `*disjoint` becomes false unless chunks are proved to write disjoint
 * elements. */
cel_status cel__check_access(cel__checks *checks, const cel_group *group,
                             uint32_t i, cel_region *image, bool *exact,
                             bool *disjoint);
/* The same of chunks where several accesses write one buffer; after each access
 * by itself. */
cel_status cel__check_writes(cel__checks *checks, const cel_group *group,
                             bool *disjoint);
/* Two accesses of a buffer by which, as the mappers have it, some item of a
 * group reads what another one writes. */
typedef struct cel__crossing {
  uint32_t reads, writes;
} cel__crossing;
/* False where there are none, or nothing is known. Chunks of a host task are
 * looked at whole: what is done in one is in its own order. */
bool cel__check_crossing(cel__checks *checks, const cel_group *group,
                         cel__crossing *out);
/* A case of it: the first chunk reads what the second writes. */
cel_counter_example cel__show_crossing(const cel_group *group,
                                       const cel__crossing *crossing);
/* Checks what does not concern an access. */
cel_status cel__check_group(const cel__checks *checks, const cel_group *group);
size_t cel__checks_bytes(const cel__checks *checks);

/* Whether it changes what each rank has of its own: then the mapper says on
 * each rank what that one writes, and no two can meet. */
bool cel__writes_apart(const cel_access *access);
/* Whether chunks are cut as permitted, by ranks or, on the one rank that does
 * it all, by its devices. */
bool cel__is_cut(const cel_group *group);
/* The splits that may happen. */
cel_split_kind cel__splits_of(const cel_group *group);

#endif
