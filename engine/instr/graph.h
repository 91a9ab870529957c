/* graph.h -- the instruction graph: three parts, and what drives them command
 * by command; internal to instr/.
 *
 *   emission.h   instructions and their dependencies
 *   memory.h     what allocations there are, and where a box lies
 *   coherence.h  where data is current, and which copies are needed
 *
 *   lookahead.c    which command is next, or held back
 *   plan.c         what a command touches (touch.h): chunks, regions, hulls
 *   interior.c     what of a chunk lacks nothing
 *   join.c         many messages as one writer
 *   instr_graph.c  one function per command kind, on top of these
 *
 * The parts see the plan and the headers of the parts before them, never this
 * one. Invariants are theirs; cel_instr_graph_check asserts those that can be
 * seen between commands. Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_GRAPH_H
#define CEL_INSTR_GRAPH_H

#include "instr/coherence.h"
#include "rule/images.h"

/* What messages brought for the task that comes next. */
typedef struct cel__arrivals {
  CEL_VEC(cel_piece) pieces;
  CEL_VEC(cel_box) boxes; /* of them, of one buffer */
  cel_region together;    /* the same as a region */
} cel__arrivals;

typedef struct cel__lookahead {
  CEL_VEC(const cel_command *) held;
  uint64_t first; /* lap of the first (task/task_graph.h) */
  uint64_t news;  /* lap of the last with a new need */
} cel__lookahead;

struct cel_instr_graph {
  cel_instr_graph_config config;
  cel__emission *emission;
  cel__memories *memories;
  cel__coherence *coherence;
  cel__plan plan;   /* of the present command */
  cel_region reads; /* of a chunk or its interior */
  cel_images images;
  cel__lookahead lookahead;
  cel__arrivals arrivals;
  bool backwards; /* the rounds of the next task that has some */
  struct {
    uint64_t direct[2]; /* messages until now: in, out */
  } * near;             /* for each of config.near; null if there are none */
};

/* ---- plan.c -------------------------------------------------------------- */

/* Fills graph->plan with what `command` touches. */
cel_status cel__plan_make(cel_instr_graph *graph, const cel_command *command);
/* With what round i of them touches, from 0. */
cel_status cel__plan_round(cel_instr_graph *graph, int64_t rounds, int64_t i);
/* Which of config.near the message is exchanged with, where it is direct or
 * may be; else -1. */
int32_t cel__plan_near(const cel_instr_graph *graph,
                       const cel_command *command);
bool cel__plan_direct(const cel_instr_graph *graph, const cel_command *command);

/* ---- interior.c ---------------------------------------------------------- */

/* Cuts a part into its interior and what lies around it, and appends
 * them to graph->plan.parts; or the part as it is. */
cel_status cel__interior_cut(cel_instr_graph *graph, const cel__part *part);

/* ---- join.c -------------------------------------------------------------- */

/* The planned message has arrived in host memory. */
void cel__join_note(cel_instr_graph *graph);
/* A JOIN of what has, where that is worth it; all is forgotten. */
void cel__join_make(cel_instr_graph *graph);

/* ---- lookahead.c --------------------------------------------------------- */

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command);
cel_status cel__lookahead_flush(cel_instr_graph *graph);

/* ---- instr_graph.c ------------------------------------------------------- */

/* Emits what graph->plan's command leads to. CEL_E_MEMORY, see instr.h. */
cel_status cel__generate(cel_instr_graph *graph);

#endif
