/* usual.h -- how long calls usually take.
 *
 * A call is known by its function, by its maker's context (a kernel, for one of
 * a module), and by how many items it has, to a power of two. What has not run
 * yet, or has just been pushed out by another, is unknown. An estimate grows at
 * once, and shrinks by a quarter of the difference: what has been long once is
 * not soon taken to be short. Speed alone depends on it.
 * Cost: a few instructions, and a cache line. Confined to the executor.
 */
#ifndef CEL_DEVICE_CPU_USUAL_H
#define CEL_DEVICE_CPU_USUAL_H

#include "device/backend.h"

enum { CEL__USUAL_KINDS = 256 }; /* a power of two */

typedef struct cel__usual_kind {
  uint64_t key; /* 0: none */
  int64_t runs;
  int64_t item_ps; /* per item; picoseconds */
} cel__usual_kind;

typedef struct cel__usual {
  cel__usual_kind kind[CEL__USUAL_KINDS];
} cel__usual;

/* What the job is expected to take, in ns, if one thread does it all; 0: it is
 * unknown, or no call. */
int64_t cel__usual_ns(const cel__usual *usual, const cel_job *job);
/* It took so long, more than 0. */
void cel__usual_learn(cel__usual *usual, const cel_job *job, int64_t took_ns);

#endif
