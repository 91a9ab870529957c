/* beats.h -- what one rank hears of its peers, says to them, and concludes.
 *
 * Without clock, socket or thread of its own: the caller brings what has come
 * and the time, and sends what is to be said. So the simulated cluster has the
 * same as real processes (heartbeat.h). README.md says why it ends everywhere.
 *
 *   ON ----- a neighbour was silent for too long, or news came ----> SETTLING
 *   SETTLING -- a moment later, this rank found the loss ----------> SPEAK
 *            \- later still, and nobody has ended this process ----> QUIET
 *
 * Invariants: `peer` has no rank twice; `finder` never grows while SETTLING;
 * SPEAK and QUIET are for good.
 * Cost: the peers are about 2 log2(ranks); ON, it says something to two of
 * them, once in a period.
 * Units: ns, of a clock that only grows. Confined to its caller.
 */
#ifndef CEL_COMM_HEARTBEAT_BEATS_H
#define CEL_COMM_HEARTBEAT_BEATS_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

enum { CEL_BEATS_PEERS = 128 };

typedef enum cel_beat_kind {
  CEL_BEAT_HERE, /* the rank lives */
  CEL_BEAT_BYE,  /* it has come to its end, and will say no more */
  CEL_BEAT_NEWS  /* the job ends */
} cel_beat_kind;

typedef struct cel_beat {
  cel_beat_kind kind;
  int64_t from;
  bool hears; /* HERE: it has heard of the receiver lately */
  /* NEWS: who found that which rank is lost. -1, -1: nobody is; a rank ends the
   * job, and has said why. */
  int64_t finder, lost;
} cel_beat;

typedef struct cel_beats_peer {
  int64_t rank;
  bool neighbour; /* by one: it is watched */
  bool heard;     /* ever */
  bool left;
  bool hears; /* us, lately, as it says; and ever: */
  bool reached;
  int64_t heard_ns;
} cel_beats_peer;

typedef enum cel_beats_phase {
  CEL_BEATS_ON,
  CEL_BEATS_SETTLING,
  CEL_BEATS_SPEAK, /* say that `lost` is lost, then end */
  CEL_BEATS_QUIET  /* end */
} cel_beats_phase;

typedef struct cel_beats {
  int64_t rank, ranks;
  int64_t lost_ns, period_ns;
  cel_beats_phase phase;
  int64_t begun_ns, due_ns;
  int64_t since_ns, finder, lost; /* once it is not ON */
  int32_t peers;
  cel_beats_peer peer[CEL_BEATS_PEERS];
} cel_beats;

/* Of one rank of several. */
void cel_beats_init(cel_beats *beats, int64_t rank, int64_t ranks);
/* Takes `rank` for a peer, unless it is one: those 1, 2, 4, ... above and
 * below, round the ring of all, and those next to it on its host. Both ends do.
 */
void cel_beats_meet(cel_beats *beats, int64_t rank);
/* From now on, with all its peers. One that is silent for `lost_ns` is lost. */
void cel_beats_start(cel_beats *beats, int64_t lost_ns, int64_t now_ns);

/* What has come from a peer. */
void cel_beats_hear(cel_beats *beats, const cel_beat *beat, int64_t now_ns);

/* Some rank ends the job, and has said why. */
void cel_beats_end(cel_beats *beats, int64_t now_ns);

/* When all that has come has been heard: true where it is time to say to peers
 * what there is to say. The time in which the caller was held up is nobody's
 * silence. */
bool cel_beats_tick(cel_beats *beats, int64_t now_ns);

/* What to say to peer `i` now; false: nothing. */
bool cel_beats_say(const cel_beats *beats, int32_t i, int64_t now_ns,
                   cel_beat *out);

/* For how long nothing was heard of peer `i`, where that is worth a word; else
 * 0. */
int64_t cel_beats_silence(const cel_beats *beats, int32_t i, int64_t now_ns);

/* Whether peer `i` is to be watched, and it or we never heard of the other:
 * beats do not get through, and nobody would notice its loss. */
bool cel_beats_unreached(const cel_beats *beats, int32_t i);

#endif
