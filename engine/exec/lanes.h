/* lanes.h -- which in-order lane a job goes to, and what it begins after.
 *
 * A lane carries its jobs out in order, so a job may go into the lane of what
 * it depends on before that is complete. Where the backend chains, it may go
 * into any lane as soon as all that it waits for is in lanes: it is told which
 * jobs of other lanes it begins after, and the backend does the waiting. Those
 * that come before it anyway are left out, as each costs a call of the driver,
 * a microsecond or more where it is another GPU's. So a job *knows*, of each
 * lane, a job that has surely been carried out when it begins: from the jobs
 * that it is told of, and from the one before it in its lane.
 *
 * Invariants: at most `depth` jobs are under way in a lane; what waits for room
 * in a lane goes into that lane, and while something waits, `depth` jobs are
 * under way or on their way there. What a job knows only grows along its lane.
 * Cost: the dependencies, and when a job follows nothing also the lanes; where
 * the backend chains, the lanes for each job and for each that it is told of.
 * Confined to the executor.
 */
#ifndef CEL_EXEC_LANES_H
#define CEL_EXEC_LANES_H

#include "exec/host.h"
#include "exec/ready.h"
#include "exec/window.h"

enum { CEL_LANES = 16 };

typedef struct cel_lane_use {
  uint64_t submitted; /* the nth of its newest job */
  uint32_t under_way; /* of these, not complete */
  cel_ready waiting;  /* what waits for room */
  /* Where the backend chains: what its newest job knows, by lane. */
  uint64_t *known;
} cel_lane_use;

typedef struct cel_lanes {
  cel_backend *backend;
  uint64_t chain_bytes; /* of a message that goes to a lane, at most */
  uint32_t depth;
  uint32_t per_device, all; /* lanes */
  cel_lane_use at[CEL_DEVICES][CEL_LANES];
} cel_lanes;

/* `chain_bytes` is the transport's; `depth` 0: CEL_TUNE_LANE_DEPTH. */
void cel_lanes_init(cel_lanes *lanes, cel_backend *backend,
                    uint64_t chain_bytes, uint32_t depth);
void cel_lanes_release(cel_lanes *lanes);
/* Whether the instruction is a job for the backend's lanes. A kernel's work in
 * Lua is one for host lanes where the backend takes none; a message is one
 * where it is chained. */
bool cel_lanes_take(const cel_lanes *lanes, const cel_instr *instr);
/* All that the node waits for has been issued: whether lanes can do the rest of
 * the waiting. Where the lane follows from that, the node gets it. */
bool cel_lanes_may_follow(const cel_lanes *lanes, cel_window *window,
                          cel_node *node);
/* The same for a host task, and host lanes: it begins after one that all that
 * it waits for leads to. */
bool cel_lanes_may_follow_host(cel_host_lanes *host, cel_window *window,
                               cel_node *node);
/* The node was added, or went to a lane: whether what it depends on, in lanes,
 * has to be told of as soon as it is done, or excludes nothing and leads to
 * nothing else but what is behind it there, and in host lanes horizons; also
 * what it depends on through horizons. */
void cel_lanes_hush(const cel_lanes *lanes, cel_host_lanes *host,
                    cel_window *window, const cel_node *node);
/* Gives the node a lane, if it has none: that of the newest job that it depends
 * on, unless something came behind it and another lane has less to do; then,
 * and where there is none, the one with the least to do. False when that is
 * full: the node waits, and a later cel_lanes_complete gives its id. */
bool cel_lanes_enter(cel_lanes *lanes, cel_window *window, cel_node *node);
/* Submits node->record->job to the lane that it entered. */
void cel_lanes_submit(cel_lanes *lanes, cel_window *window, cel_node *node);
/* The node's job is back. True when another, *id, may enter now. */
bool cel_lanes_complete(cel_lanes *lanes, const cel_node *node, uint64_t *id);

#endif
