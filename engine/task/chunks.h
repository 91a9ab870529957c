/* chunks.h -- the chunks of a group for which an opaque mapper is asked.
 *
 * A rule with programs is evaluated for any chunk that a layer below comes up
 * with. An opaque one is asked at submission, so what those layers will come up
 * with is worked out here: the chunks of all ranks, and what this rank's
 * devices and runs get of its own. Tasks with such a mapper are cut no further.
 *
 * Between the two stand chunks that no rank may have, the same on all ranks:
 * the whole range, its halves, and what it is cut into on other numbers of
 * ranks. By these a mapper that depends on how the range is cut, or overlaps,
 * is found out whatever the number of ranks.
 *
 * Cost: O(ranks), for each chunk of other numbers of ranks. The holder owns it:
 * zero ... release. Pure. Thread: main.
 */
#ifndef CEL_TASK_CHUNKS_H
#define CEL_TASK_CHUNKS_H

#include "base/vec.h"
#include "rule/listing.h"
#include "task/task.h"

typedef struct cel_chunks cel_chunks;
#ifndef CEL_CDEF
struct cel_chunks {
  CEL_VEC(cel_box) chunk; /* different ones, as in cel_listing */
  CEL_VEC(int32_t) part;
  CEL_VEC(int32_t) split; /* as in cel_listing */
  int32_t ranks, common, mine, whole;
};
#endif

typedef struct cel_chunks_of {
  int64_t rank, ranks;
  int64_t devices; /* of this rank, that take part */
  uint32_t tried;  /* bit n: as n ranks would cut it, for n from 3 to 31; the
                      same on all ranks */
} cel_chunks_of;

/* They replace what *out held. The group's accesses are not looked at. */
void cel_chunks_find(const cel_group *group, const cel_chunks_of *of,
                     cel_chunks *out);
void cel_chunks_release(cel_chunks *chunks);
/* A listing of these chunks: start[i] to start[i + 1] are chunk i's boxes.
 * Borrows all. */
cel_listing cel_chunks_list(const cel_chunks *chunks, const int32_t *start,
                            const cel_box *box);

#endif
