/* member.h -- a collective between devices: what each of them gives and gets.
 *
 * Where collectives take place in the memories of devices, their members are
 * the devices of all ranks: number `rank * devices + device`, the same number
 * of devices on every rank. The part of a rank is cut into a share for each of
 * its devices, evenly along its first dimension, which is how chunks are cut
 * over devices as a rule: so a device has its share already. The root is the
 * first device of the rank that is the root. A rank that is to have all has it
 * on each of its devices then, but for a GATHER.
 *
 * In pairs what a rank gives is cut along the first dimension that cuts what
 * ranks have, and what it gets along the first that cuts what they read. What
 * one rank gives to another is as long along these as all that the one gives
 * and all that the other gets (pattern.h sees to that), so a slice of a slice
 * is what a device gives to a device. What devices of one rank have for one
 * another they copy.
 *
 * In an all-reduce all devices of a rank have what it has come to, and each
 * gives that, twice being as good as once; but for a sum, where the first
 * device does, and the others give nothing, which counts as 0.
 *
 * Invariant: a function of the exchange and the member alone, so that all ranks
 * mean the same. Pure. Thread: any.
 */
#ifndef CEL_COMMAND_COLLECTIVE_MEMBER_H
#define CEL_COMMAND_COLLECTIVE_MEMBER_H

#include "command/command.h"

typedef struct cel_member {
  cel_box mine;  /* what it gives; may be empty */
  cel_box hull;  /* what it gives and gets; may be empty */
  uint32_t gets; /* boxes that it gets */
  cel_box get[6];
} cel_member;

/* The part of a rank, of an exchange that has parts; may be empty. */
cel_box cel_exchange_part(const cel_exchange *exchange, int64_t rank);
/* The member that has or gets all; none of an ALL_GATHER, which is 0. */
int64_t cel_member_root(const cel_exchange *exchange);
/* The part of a member; may be empty. Of all but a BROADCAST. */
cel_box cel_member_share(const cel_exchange *exchange, int64_t member);
/* In pairs: what device `device` of the exchange's rank gives to a member of
 * another one, and gets from it; may be empty. */
cel_box cel_member_gives(const cel_exchange *exchange, int32_t device,
                         int64_t member);
cel_box cel_member_gets(const cel_exchange *exchange, int32_t device,
                        int64_t member);
/* Slice i of n of a box, evenly along its first dimension; may be empty. */
cel_box cel_member_cut(const cel_box *box, int64_t i, int64_t n);
/* Of device `device` of the exchange's rank, which is `rank`. */
void cel_member_side(const cel_exchange *exchange, int64_t rank, int32_t device,
                     cel_member *out);

#endif
