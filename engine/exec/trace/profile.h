/* profile.h -- what the times of this rank's jobs add up to, for a table.
 *
 * Totals by kind, task and way of all that lanes of devices and of the host
 * carried out: kernels, copies, interop tasks, host tasks, initial contents,
 * ends of host objects; and messages and collectives, where they are jobs of a
 * device's lane.
 * And which tasks were not taken together with others, and why.
 * Cost: about 0.1 us per job; nothing without a profile.
 * Threads: the executor adds jobs, main what was not taken together; main reads
 * when nothing is under way.
 */
#ifndef CEL_EXEC_TRACE_PROFILE_H
#define CEL_EXEC_TRACE_PROFILE_H

#include "exec/trace/span.h"

/* Of one kind, task name and way. */
typedef struct cel_profile_row {
  const char *name; /* the profile's; null: none */
  uint8_t kind;
  bool from_host, to_host; /* COPY */
  bool across;             /* COPY: from one device to another */
  bool together;           /* KERNEL: in one pass over memory with others */
  uint64_t count, bytes;
  int64_t total, max; /* ns */
} cel_profile_row;

/* Tasks of a line that were not taken together with others, and why. */
typedef struct cel_profile_alone {
  const char *name, *why; /* the profile's */
  cel_location location;
  uint64_t count;
} cel_profile_alone;

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
/* Likewise; a few tens of lines at most. Thread: main. */
void cel_profile_add_alone(cel_profile *profile, const char *name,
                           cel_location location, const char *why);
uint32_t cel_profile_alones(const cel_profile *profile,
                            const cel_profile_alone **out);
/* "to a device" and the like, for copies, or "together"; else null. */
const char *cel_profile_way(const cel_profile_row *row);
#endif
