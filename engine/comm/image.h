/* image.h -- rows of a buffer that ranks bring each other as data say it.
 *
 * Where an index buffer says what is read, a rank alone knows which rows it
 * needs, and nobody who will ask it. So ranks find out together, once: each
 * marks the rows that its part of the index names and lists them as runs by
 * their *homes* (each rank is home to an even share of all rows); then all tell
 * the homes. What comes of that is the rank's *plan*. From then on a step costs
 * a message between each two ranks that have something for each other, of the
 * rows that are needed and nothing else.
 *
 * A plan is words in memory of the caller, of cel_image_words: how many runs
 * there are of each kind; where those of each rank begin, `ranks + 1` words
 * twice; the runs [first, last) that this rank needs, in order, none across two
 * homes; those that it gives, as the ranks need them.
 *
 * Cost: to mark is a bit for each index, in rows / 8 bytes that only the needed
 * ones touch; to list is O(rows / 64). To tell is a message to each rank, or of
 * many ranks to those that it needs something of, then lists between these.
 *
 * Lua calls these functions through FFI (lua/celer/host/image.lua).
 * Threads: any; with a communicator its group's.
 */
#ifndef CEL_COMM_IMAGE_H
#define CEL_COMM_IMAGE_H

#ifndef CEL_CDEF /* the cdef of file.h has these */
#include "comm/communicator.h"
#endif

typedef enum cel_image_type {
  CEL_IMAGE_INT32,
  CEL_IMAGE_UINT32,
  CEL_IMAGE_INT64
} cel_image_type;

/* What an element of the index says: a row; or that and the next one the first
 * row and the end; or, of the last dimension, two that do. */
typedef enum cel_image_kind {
  CEL_IMAGE_ELEMENTS,
  CEL_IMAGE_OFFSETS,
  CEL_IMAGE_PAIRS
} cel_image_kind;

/* Which rows an element of the index comes to. An element that is less than
 * `least`, more than `most`, or `except`, names none. A range is counted by
 * `step`, from its first row and `first` to its end and `last`; a negative step
 * counts from there. What is beyond `least` and `most` is left out. Of each row
 * r these are r + low to r + high. A range whose end is less than its first row
 * is none, where it is that of a `loop`. */
typedef struct cel_image_reach {
  bool loop;
  int64_t least, most, except;
  int64_t first, last, step;
  int64_t low, high;
} cel_image_reach;

/* An index buffer where it lies in memory. */
typedef struct cel_image_index {
  const void *base; /* of the element `min` */
  cel_image_type type;
  cel_image_kind kind;
  cel_image_reach reach;
  int64_t min[3], size[3]; /* of the allocation */
} cel_image_index;

/* An entry of the index that names rows which are not there: which, what it
 * says, and the rows. */
typedef struct cel_image_fault {
  int64_t at[3], value, end; /* `end`: of ranges */
  int64_t row, last;
} cel_image_fault;

typedef struct cel_image_marks cel_image_marks;

/* Of no rows yet; the caller owns it. */
cel_image_marks *cel_image_marks_create(int64_t rows);
void cel_image_marks_destroy(cel_image_marks *marks);
/* Marks rows [first, end), which are there. */
void cel_image_mark_rows(cel_image_marks *marks, int64_t first, int64_t end);
/* Marks what the entries [min, max) name; of OFFSETS one more is read, of PAIRS
 * the last dimension, of two, is not counted. False, with what is wrong, where
 * one names no rows of the buffer. */
bool cel_image_mark(cel_image_marks *marks, const cel_image_index *index,
                    const int64_t min[3], const int64_t max[3],
                    cel_image_fault *fault);
/* The same of the entries in the rows of another plan. Of OFFSETS the plan has
 * the row behind each, too. */
bool cel_image_mark_through(cel_image_marks *marks,
                            const cel_image_index *index, const int64_t *plan,
                            int64_t ranks, cel_image_fault *fault);

/* The same of the entries in the rows that others mark. */
bool cel_image_mark_along(cel_image_marks *marks, const cel_image_index *index,
                          const cel_image_marks *inner, cel_image_fault *fault);
/* The first row that is marked, and the end of the last one; false: there is
 * none. */
bool cel_image_hull(const cel_image_marks *marks, int64_t *first, int64_t *end);

/* The most words of a plan; as lua/celer/submit/image.lua has it. */
uint64_t cel_image_words(int64_t rows, int64_t ranks);
/* The first row whose home is this rank or a later one. */
int64_t cel_image_home(int64_t rows, int64_t rank, int64_t ranks);
/* Writes what is needed: what is marked, or nothing where that is null. What
 * is given is still to be heard. */
void cel_image_list(const cel_image_marks *marks, int64_t rows, int64_t ranks,
                    int64_t *plan);
/* Tells the homes what this rank needs, and hears what it has to give. All
 * ranks. */
cel_status cel_image_meet(cel_comm *comm, int64_t *plan);

/* Boxes around the rows that this rank needs: at most `most` pairs of rows,
 * [first, last), with gaps between them of at least so many rows, the largest
 * ones. Gives how many; of no rows one box, of row 0. */
int64_t cel_image_boxes(const int64_t *plan, int64_t ranks, int64_t gap,
                        int64_t most, int64_t *boxes);

/* Memory for messages, kept from one time to the next. */
typedef struct cel_image_room {
  void *data;
  uint64_t bytes;
} cel_image_room;

/* What this rank has sent, and needed of others. */
typedef struct cel_image_traffic {
  uint64_t messages, bytes, needed;
} cel_image_traffic;

/* Brings what all ranks need: from `home`, the first row whose home this is, to
 * `copy`, row 0. Adds to *traffic. All ranks. */
cel_status cel_image_bring(cel_comm *comm, const int64_t *plan, int64_t rows,
                           uint64_t row_bytes, const void *home, void *copy,
                           cel_image_room *room, cel_image_traffic *traffic);
void cel_image_room_release(cel_image_room *room);
/* The same where rows to give lie packed, those for each rank behind those for
 * the rank before; so do in `came` those that come. All ranks. */
cel_status cel_image_exchange(cel_comm *comm, const int64_t *plan,
                              uint64_t row_bytes, const void *packed,
                              void *came, cel_image_traffic *traffic);

#endif
