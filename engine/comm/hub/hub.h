/* hub.h -- what the ranks of a session say to each other beside the engine.
 *
 * Rank 0 gives all ranks the lines that were typed, and hears how each rank
 * came out of them. While a line runs, main may wait or compute for as long as
 * it likes, and nobody may drive the transport. So this has connections of its
 * own, one between rank 0 and each other rank, and a thread on each rank that
 * listens.
 *
 * A line that fails on one rank, or is interrupted, ends on all:
 *
 *   HALT    each rank stops where it would submit something, and says how much
 *           it has submitted of this line (FROZEN), unless it has ended
 *   STOP    goes on until it has submitted as much as the rank that has
 *           submitted most, and is refused what it would submit then; so all
 *           ranks end at the same place, with the same variables
 *   CUT     half a second after HALT, or a bit later where a rank is behind:
 *           ends wherever it is
 *
 * Where a launcher has no use for what other ranks write, as srun --pty, that
 * is shown by rank 0: stdout and stderr that are /dev/null come here.
 *
 * Invariant: what concerns a line bears its number, and is ignored in others.
 * Guard: `lock`; `writing` for who writes.
 */
#ifndef CEL_COMM_HUB_HUB_H
#define CEL_COMM_HUB_HUB_H

#include "comm/transport.h"

typedef struct cel_hub cel_hub;

/* How a line has ended on a rank. */
typedef struct cel_hub_end {
  bool ended, frozen;
  uint64_t passed; /* submissions of this line */
  void *said;      /* the hub's, until the next line */
  uint64_t size;
} cel_hub_end;

/* Connects the ranks. `cut` ends what main does, from any thread. Collective,
 * before the executor starts; the caller owns *out. CEL_E_COMM where a rank
 * cannot reach rank 0, CEL_E_CANCELLED on the others then. Thread: main, as
 * all where nothing else is said. */
cel_status cel_hub_open(cel_transport *transport, void (*cut)(void),
                        cel_hub **out);
void cel_hub_close(cel_hub *hub);

/* Rank 0: a text for all others; a `line` begins with it, after the last one
 * has been gathered. */
cel_status cel_hub_give(cel_hub *hub, bool line, const void *text,
                        uint64_t size);
/* The others: the next text, which the caller frees (cel_free). Sleeps until
 * there is one. */
cel_status cel_hub_take(cel_hub *hub, void **text, uint64_t *size);

/* Around the running of the line. */
void cel_hub_begin(cel_hub *hub);
void cel_hub_over(cel_hub *hub);
/* What main asks before it submits something: whether it may. Sleeps while the
 * line is halted. `hub`: a cel_hub. */
bool cel_hub_pass(void *hub);
/* Says how the line has ended here. */
cel_status cel_hub_tell(cel_hub *hub, bool failed, const void *said,
                        uint64_t size);
/* Rank 0: how it has ended, by rank; sleeps until it has on all. */
cel_status cel_hub_gather(cel_hub *hub, const cel_hub_end **out);
/* Rank 0: a file to which a handler of Ctrl-C writes the number 1, in 8 bytes.
 */
int cel_hub_bell(const cel_hub *hub);

#endif
