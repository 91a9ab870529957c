/* fake_nccl.h -- an NCCL between processes of one host, on fake_cuda's streams.
 *
 * Each pair of members has a short ring of bytes in shared memory each way, so
 * what is put waits for others as NCCL's kernels do. Each part is announced by
 * the call that it is of, and its length: calls that do not match are a bug
 * that is reported. What is asked of a communicator is in progress for a while;
 * that two threads ask at once is a bug, too, and so is a pair of members that
 * did not exchange anything in their first group.
 */
#ifndef SPEC_COMM_FAKE_NCCL_H
#define SPEC_COMM_FAKE_NCCL_H

#include "comm/nccl/nccl_api.h"

/* Up to 16 members, and not fake_nccl_pairs. Never freed. Thread: main. */
const cel_nccl_api *fake_nccl(uint64_t seed);
/* From now on communicators are of two members, whose ranks differ: it is a bug
 * if the one of the higher rank puts something before the other one has, if
 * something is put before what was put last is through, or if more than `most`
 * of them have something under way. */
void fake_nccl_pairs(int64_t rank, int most);
/* From the next call but `calls` on, all fail. */
void fake_nccl_break(int64_t calls);
/* From now on a call is in progress for long, and so is an answer. */
void fake_nccl_slow(void);
#endif
