/* data.h -- what data.c, which makes steps whose accesses data decide, and
 * data_tasks.c, which carries them out, both know of them. */
#ifndef SPEC_RANDOM_DATA_H
#define SPEC_RANDOM_DATA_H

#include "random/program.h"

enum {
  MOST_BINS = 12,
  MOST_PUSHES = 3, /* of an item */
  MOST_VALUES = 128,
  MOST_AROUND = 3,
  MOST_VALUE = 24, /* bytes */
  LATE_WORDS = 1 + 2 * CEL_LATE_PIECE * MOST_AROUND,
  WORDS = 1 + MOST_PUSHES + MOST_PUSHES * MOST_VALUE / 8
};

static inline int64_t rows_of(const program *p, int buffer) {
  return p->buffer[buffer].extent.max[0];
}

/* Whether what was there before counts, where something is delivered. */
static inline bool is_kept(const step *s) {
  return s->access[1].mode == CEL_MODE_READ_WRITE;
}

#endif
