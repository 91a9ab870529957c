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
 * memory `stride` apart. A member's part is some rows; in pairs those that it
 * gives, to one after the other or to all alike, come before those that it
 * gets.
 */
typedef struct spread {
  cel_device_collective collective;
  int64_t member, members;
  uint64_t rows, run, stride;
  uint64_t *count, *start; /* by member */
  uint64_t *pair;          /* by giver and getter: rows */
  bool alike;
  uint32_t devices;   /* of each rank */
  cel_strided *piece; /* 2 x members */
  uint8_t *memory;    /* the device's, which the host can touch */
} spread;

/* Number nth; `shared` in the same state on all members, `own` not. `memory` is
 * of spread_room bytes, the caller's. */
void spread_make(spread *s, uint64_t nth, int64_t member, int32_t devices,
                 int64_t members, cel_random *shared, cel_random *own);
uint64_t spread_room(const spread *s);
void spread_fill(spread *s, uint8_t *memory);
/* How many bytes are not what they must be. The pieces are in the host's image
 * of the memory then. */
uint64_t spread_check(spread *s);
void spread_release(spread *s);
#endif
