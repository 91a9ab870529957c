/* coverage.h -- of what was promised to a device over a whole run, what it ever
 * touched: the rest was moved there in vain.
 *
 * A byte map per access, device and buffer, of the buffer's extent. Of the
 * buffers that an access meets on a device only the latest few are kept apart;
 * of others the counts remain.
 * Threads: as the audit's.
 */
#ifndef CEL_EXEC_AUDIT_COVERAGE_H
#define CEL_EXEC_AUDIT_COVERAGE_H

#include "base/vec.h"
#include "task/task.h"

#ifndef CEL_CDEF
typedef struct cel_cover {
  uint32_t access; /* the owner's number */
  int32_t device;
  uint32_t buffer;
  uint64_t used;      /* when, by the owner's count of additions */
  int64_t bytes;      /* of the map */
  unsigned char *map; /* CEL_PROMISED | CEL_TOUCHED by element */
} cel_cover;

typedef struct cel_counted {
  int64_t promised, touched;
} cel_counted;

typedef struct cel_coverage {
  CEL_VEC(cel_cover) covers;
  CEL_VEC(cel_counted) counted; /* by access: of maps that are gone */
  uint64_t additions;
} cel_coverage;

/* Adds what a view with `touched` has seen. */
void cel_coverage_add(cel_coverage *coverage, uint32_t access, int32_t device,
                      const cel_buffer *buffer, const cel_view *view);
/* Elements that were promised to devices, and of these touched there. */
cel_counted cel_coverage_of(const cel_coverage *coverage, uint32_t access);
void cel_coverage_release(cel_coverage *coverage);
#endif

#endif
