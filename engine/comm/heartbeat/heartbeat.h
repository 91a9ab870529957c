/* heartbeat.h -- the ranks of a job hear of each other, past MPI.
 *
 * Each process has a thread and two UDP sockets of its own for it: it sleeps
 * until its next beat or until news, and needs neither the transport nor any
 * other thread. Who is lost is beats.h's to say.
 *
 *   open -> exchange cards with the peers -> meet -> start -> stop
 *
 * Cost: two datagrams out and two in per second, and one wake.
 */
#ifndef CEL_COMM_HEARTBEAT_HEARTBEAT_H
#define CEL_COMM_HEARTBEAT_HEARTBEAT_H

#include "comm/heartbeat/beats.h"
#include "comm/heartbeat/reach.h"
#include "comm/transport.h"

typedef struct cel_heartbeat cel_heartbeat;

/* The caller owns *out; *card is for its peers. Where the system gives no
 * sockets, the rank is one that nobody hears. Thread: main, as all but tell. */
void cel_heartbeat_open(int64_t rank, int64_t ranks, bool one_host,
                        cel_heartbeat **out, cel_card *card);
/* A peer (see cel_beats_meet) and its card; before start. */
void cel_heartbeat_meet(cel_heartbeat *heartbeat, int64_t rank,
                        const cel_card *card);
/* From now on; see cel_watch. Once. CEL_E_MISSING. */
cel_status cel_heartbeat_start(cel_heartbeat *heartbeat,
                               const cel_watch *watch);
/* This rank ends the job, and has said why: the others end, too, also where
 * their launcher cannot reach them, and so does this process should its own
 * end take long. Does nothing before start. Thread: any. */
void cel_heartbeat_end(cel_heartbeat *heartbeat);
/* Reads news that have come: then this rank is to say nothing more (see
 * cel_report_settle). For whoever is told to end, and cannot know by whom.
 * Thread: any. */
void cel_heartbeat_look(cel_heartbeat *heartbeat);
/* Appends a line for each peer that is silent. Thread: any. */
void cel_heartbeat_tell(cel_heartbeat *heartbeat, char *text, size_t size);
/* All ranks have come to their end. Frees it. */
void cel_heartbeat_stop(cel_heartbeat *heartbeat);

#endif
