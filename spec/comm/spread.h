/* spread.h -- collectives of all shapes between devices, for the program that
 * checks how NCCL is used.
 *
 * All ranks make the same list up; each device lays the bytes out in its own
 * way, dense or with gaps, which must not be touched.
 */
#ifndef SPEC_COMM_SPREAD_H
#define SPEC_COMM_SPREAD_H

#include "base/random.h"
#include "comm/transport.h"

/* One of them, as one device sees it. Its bytes are in rows of `run` bytes, in
 * memory `stride` apart; a member's part is some rows. */
typedef struct spread {
  cel_device_joint joint;
  int64_t member, members;
  uint64_t rows, run, stride;
  uint64_t *count, *start; /* by member */
  cel_strided *piece;
  uint8_t *memory; /* the device's, which the host can touch */
} spread;

/* Number nth; `shared` in the same state on all members, `own` not. `memory` is
 * of spread_room bytes, the caller's. */
void spread_make(spread *s, uint64_t nth, int64_t member, int32_t devices,
                 int64_t members, cel_random *shared, cel_random *own);
uint64_t spread_room(const spread *s);
void spread_fill(spread *s, uint8_t *memory);
/* How many bytes are not what they must be. */
uint64_t spread_check(const spread *s);
void spread_release(spread *s);
#endif
