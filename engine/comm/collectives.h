/* collectives.h -- what is known of a collective as such: who gives and gets
 * which part of it, and where that lies. Between ranks, and between the devices
 * of all ranks, its members.
 */
#ifndef CEL_COMM_COLLECTIVES_H
#define CEL_COMM_COLLECTIVES_H

#include "comm/transport.h"

/* What a rank gives, or gets. */
typedef enum cel__collective_end { CEL__GIVEN, CEL__GOT } cel__collective_end;

/* Whether rank `me` has or gets the whole, not its part alone; of all but an
 * ALL_TO_ALL. Pure, as are the next ones. Thread: any. */
bool cel__collective_whole(const cel_collective *collective, int64_t me);
/* Where what this rank gives, or gets, is in its memory, if it is one dense run
 * of bytes, else null. */
void *cel__collective_dense(const cel_collective *collective,
                            cel__collective_end end);
/* Bytes of what parts are counted in; of all but a BROADCAST. */
uint64_t cel__collective_unit(const cel_collective *collective,
                              cel__collective_end end);
/* Bytes of a rank's part; of a broadcast, the root's is all of it. */
uint64_t cel__collective_part(const cel_collective *collective,
                              cel__collective_end end, int64_t rank);
/* Whether rank `me` gives, or gets, the part of `rank`: of an ALL_TO_ALL, gives
 * to that rank and gets from it. */
bool cel__collective_has(const cel_collective *collective,
                         cel__collective_end end, int64_t me, int64_t rank);
/* Who gives what rank `me` gets as the part of `rank`. */
int64_t cel__collective_giver(const cel_collective *collective, int64_t rank);
/* Where the part is in what `me` gives or gets as one dense run of bytes. */
uint64_t cel__collective_start(const cel_collective *collective,
                               cel__collective_end end, int64_t me,
                               int64_t rank);
/* From where the part is in this rank's memory into so many dense bytes, and
 * from these into its memory. */
void cel__collective_gather(const cel_collective *collective,
                            cel__collective_end end, int64_t me, int64_t rank,
                            void *dense);
void cel__collective_scatter(const cel_collective *collective,
                             cel__collective_end end, int64_t me, int64_t rank,
                             const void *dense);
/* Where it is, of one box. */
cel_strided cel__collective_at(const cel_collective *collective,
                               cel__collective_end end, int64_t me,
                               int64_t rank);
/* Bytes of that run. */
uint64_t cel__collective_bytes(const cel_collective *collective,
                               cel__collective_end end, int64_t me,
                               int64_t ranks);

/* What member `me` gives, or gets, of the part of `member`, of no account
 * whose it is then; of a broadcast, whose only part is the root's; of an
 * all-reduce, in which each has the whole; in pairs,
 * what it gives to that member or gets from it. Null: nothing. Pure.
 * Thread: any. */
const cel_strided *cel__member_gives(const cel_device_collective *collective,
                                     int64_t me, int64_t member);
const cel_strided *cel__member_gets(const cel_device_collective *collective,
                                    int64_t me, int64_t member);

#endif
