/* profile.h -- what the times of this rank's jobs add up to, for a table.
 *
 * Totals by kind, task and way of all that lanes of devices and of the host
 * carried out: kernels, copies, interop tasks, host tasks, initial contents,
 * ends of host objects; and messages and collectives, where they are jobs of a
 * device's lane.
 * Cost: about 0.1 us per job; nothing without a profile.
 * Threads: the executor adds; main reads when nothing is under way.
 */
#ifndef CEL_EXEC_TRACE_PROFILE_H
#define CEL_EXEC_TRACE_PROFILE_H

#include "exec/trace/span.h"

/* Of one kind, task name and (copies) direction. */
typedef struct cel_profile_row {
  const char *name; /* the profile's; null: none */
  uint8_t kind;
  bool from_host, to_host; /* COPY */
  bool across;             /* COPY: from one device to another */
  uint64_t count, bytes;
  int64_t total, max; /* ns */
} cel_profile_row;

typedef struct cel_profile cel_profile;

/* The caller owns the result. Thread: main. */
cel_profile *cel_profile_create(void);
void cel_profile_destroy(cel_profile *profile);
/* A job that is complete, in a backend's lane or in a host lane. Thread:
 * executor. */
void cel_profile_add(cel_profile *profile, const cel_span *span);
/* In the order of first appearance. */
uint32_t cel_profile_rows(const cel_profile *profile,
                          const cel_profile_row **out);
/* "to a device" and the like, for copies; else null. */
const char *cel_profile_way(const cel_profile_row *row);
#endif
