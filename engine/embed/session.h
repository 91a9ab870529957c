/* session.h -- what one process has: its rank, devices and engine, for Lua.
 *
 * Made before the script runs; the backend, the host lanes and the engine come
 * with the first thing that needs them, so that a script which only prints is
 * quick. One per process, owned by main.
 * Thread: main, except where a function says otherwise.
 */
#ifndef CEL_EMBED_SESSION_H
#define CEL_EMBED_SESSION_H

#include "comm/hub/hub.h"
#include "device/kernel.h"
#include "device/topology.h"
#include "embed/choice.h"
#include "runtime/drawing.h"

/* As --between says; for what is not, see cel_road_way. */
typedef enum cel_session_between {
  CEL_BETWEEN_ANY,
  CEL_BETWEEN_STAGED,
  CEL_BETWEEN_MPI,
  CEL_BETWEEN_NCCL
} cel_session_between;

typedef struct cel_session_options {
  cel_choice_wish wish;
  int32_t horizon_step; /* 0: default */
  bool lookahead;
  char *arguments;        /* the script's, as one text; owned; may be null */
  int32_t watchdog;       /* seconds; see cel_engine_config; 0: never */
  int32_t lost;           /* seconds; see cel_watch; 0: nobody listens */
  bool forgiving;         /* see engine.h */
  bool quiet;             /* no warnings */
  bool advice;            /* those of advice.h, if it is not quiet */
  bool verbose;           /* says what is slower than it could be */
  bool profile;           /* adds up how long jobs took */
  bool measure;           /* times kernels on GPUs, too */
  bool no_sample;         /* looks at no items: device/sample.h */
  bool builds;            /* a dry run, for the kernels that it compiles */
  bool progress;          /* says how far it has come; on rank 0 */
  bool check;             /* notes what tasks touch */
  uint64_t device_memory; /* of each device, at most; 0: what is free */
  /* Once connected on all ranks if on one, as no_collectives: messages between
   * GPUs go by host memory; or those within a host as those between hosts. */
  bool staged, apart;
  /* By which way those between hosts go, however short; likewise. */
  cel_session_between between;
  bool no_collectives;
  bool unbound; /* leaves threads to all cores of the host */
  bool dry;     /* see cel_session_imagine */
  /* Of a dry run: kernels are compiled for GPUs of these; none: of the choice's
   * architecture. */
  int32_t architectures, architecture[CEL_TARGETS];
} cel_session_options;

typedef struct cel_session {
  cel_session_options options;
  cel_transport *transport; /* never null */
  cel_topology topology;    /* once `chosen` */
  cel_park park;
  cel_choice choice; /* once `chosen` */
  bool chosen;
  cel_error refused; /* why it could not choose or connect; ranks alone try
                        again */
  bool some_work;    /* all ranks have been asked, and some have work */
  bool connected;
  bool seeks_gpus; /* once `connected`: some rank does not keep to processors */
  /* Once `connected`: why no message goes from GPU to GPU within a host, and
   * why long ones are not written to where they belong there. */
  char no_link[256], no_loans[256];
  char no_nccl[CEL_JOIN_WHY]; /* likewise, why NCCL does not do what all
                                 exchange */
  /* Likewise, why messages do not go in chunks where they do not go from GPU to
   * GPU; once there are such. */
  char no_road[256];
  bool some_far;       /* there are such */
  cel_transport *road; /* what moves them, within `transport`; or null */
  bool direct;         /* rank 0's messages go from GPU to GPU */
  int64_t reducing;    /* devices of the rank that has most */
  bool alike;          /* once `connected`: all devices are of one kind */
  bool has_room;       /* `room` is known: ranks have agreed on it */
  uint64_t room;       /* see engine.h */
  /* Bytes that buffers may take of the smallest device of all ranks, however
   * many these have; 0: any number. */
  uint64_t device_room;
  struct cel_cuda
      *cuda; /* null until started, as is all below, or for the CPU */
  cel_backend *backend;
  cel_host_lanes *host;
  cel_profile *profile;   /* null unless options.profile */
  cel_pace *pace;         /* null in a dry run */
  cel_drawing *drawing;   /* null unless a graph is drawn */
  cel_timeline *timeline; /* null unless asked for; so is the next */
  char *timeline_path;
  int64_t timeline_parts; /* files that it is written to */
  cel_audit *audit;       /* null unless options.check */
  char *found; /* what is printed before the error that ends the run; or null */
  cel_engine *engine;
  cel_hub *hub;     /* of an interactive session of several ranks; else null */
  cel_rules *rules; /* of all engines, as Lua keeps rules */
  uint32_t era;     /* engines that were given up: what they owned is gone */
  /* Bytes behind Lua's handles, and so many after they were last collected, or
   * the fewest since (core_backing.c). */
  uint64_t backing, backing_last;
} cel_session;

/* Finds the transport: MPI where a launcher started us, else one rank. */
cel_status cel_session_open(cel_session *session);
/* Makes the process rank `rank` of `ranks` that are imagined: what is submitted
 * from now on is scheduled as that rank would, and not carried out. Before
 * anything is started, and not where a launcher started us. CEL_E_RANGE. */
cel_status cel_session_imagine(cel_session *session, int64_t rank,
                               int64_t ranks);
/* From now on a rank that is silent for `options.lost` ends the job, if there
 * are others. After cel_interrupt_catch. CEL_E_MISSING. */
cel_status cel_session_watch(cel_session *session);
/* Finds this rank's devices and its cores, and keeps to these, if that was not
 * done yet. Collective over a host's ranks; so a rank that fails here, or in
 * connect, fails later without meeting the others again. */
cel_status cel_session_choose(cel_session *session);
/* Whether any rank has work for an engine: this one, if it `works`. All ranks
 * come here on their way to what they do first, or else to their end. One that
 * comes to its end while others begin must begin, too, to be found out: they
 * would wait for it. */
cel_status cel_session_ask_for_work(cel_session *session, bool works,
                                    bool *any);
/* Opens the GPUs that were chosen, if any, and lets messages go from one to the
 * other where that works. Collective; once. */
cel_status cel_session_connect(cel_session *session);
/* Starts backend, host lanes and engine if they are not running. */
cel_status cel_session_start(cel_session *session);
/* From now on kernels are timed, once it has started. Thread: main. */
void cel_session_measure(cel_session *session);
/* From now on what happens is written to a file, see exec/trace/timeline.h.
 * After imagine, before start. CEL_E_IO. */
cel_status cel_session_trace(cel_session *session, const char *path);
/* This rank's part of the timeline is complete: what happens later is lost.
 * Does nothing where there is none, or it has been ended: true then. Thread:
 * any. */
bool cel_session_end_trace(cel_session *session);
/* Makes one file of all ranks' parts; all have ended theirs, or are about to
 * and it waits for them, up to `patience_us`. By one rank. */
enum { CEL_SESSION_PAIRS = 28 };

/* Messages between GPUs from one rank to another, of several hosts. */
typedef struct cel_session_pair {
  int64_t from, to;
  int32_t way; /* a cel_road_way */
  double rate; /* bytes per ns */
} cel_session_pair;

/* Measures them, between one rank of each of the first 8 hosts; NCCL starts for
 * that. None where messages go through the memory of hosts. Collective, before
 * an engine runs. CEL_E_COMM. */
cel_status cel_session_pairs(cel_session *session,
                             cel_session_pair out[CEL_SESSION_PAIRS],
                             int32_t *pairs);

enum { CEL_TRACE_PATIENCE_US = 1000000, CEL_TRACE_HURRY_US = 300000 };
void cel_session_merge_trace(cel_session *session, int64_t patience_us);
/* Gives up the engine and what it works with, after a failure: the next start
 * makes others. Buffers and host objects are gone, kernels and rules stay.
 * Collective. */
cel_status cel_session_give_up(cel_session *session);
/* Connects the ranks of an interactive session and starts what it works with,
 * so that no line waits for that. Collective. */
cel_status cel_session_assemble(cel_session *session);
/* Stops what runs and leaves MPI with the other ranks, which have come to the
 * same exit status. With one that is not 0 it may end the job at once. */
void cel_session_close(cel_session *session, int status);

#endif
