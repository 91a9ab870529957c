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
 *   together.c     what many messages bring, as one
 *   fold.c         a command that stands for several tasks
 *   fused.c        the same as one instruction
 *   again.c        commands that are carried out as they were before
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

typedef struct cel__gathered_piece {
  int64_t peer;
  const cel_buffer *buffer;
  cel_box box;
} cel__gathered_piece;

/* What the present command's messages carry; scratch. */
typedef struct cel__gathered {
  CEL_VEC(cel__gathered_piece) pieces;
  CEL_VEC(cel_box) boxes;            /* of them, of one buffer */
  cel_region together;               /* the same as a region */
  CEL_VEC(const cel_buffer *) whole; /* whose parts are touched as boxes */
} cel__gathered;

typedef struct cel__lookahead {
  CEL_VEC(const cel_command *) held;
  uint64_t first; /* lap of the first (task/task_graph.h) */
  uint64_t news;  /* lap of the last with a new need */
} cel__lookahead;

/* What the present command is to be remembered for, if it is. */
typedef struct cel__again {
  struct cel__site **sites; /* by hash of what is submitted; null: none */
  /* Where the next command that is executed will be remembered, or null; it
   * may be held back until then. */
  struct cel__site *site;
  const cel_command *command;
  CEL_VEC(uint64_t) key;
} cel__again;

struct cel_instr_graph {
  cel_instr_graph_config config;
  cel__emission *emission;
  cel__memories *memories;
  cel__coherence *coherence;
  cel__plan plan;   /* of the present command */
  cel_region reads; /* of a chunk or its interior */
  cel_images images;
  cel__lookahead lookahead;
  cel__gathered gathered;
  cel__again again;
  bool backwards; /* the rounds of the next task that has some */
  /* For each of config.near, or of all ranks with config.far_bytes; null if
   * there are none. Those of ranks that it has nothing to do with are never
   * touched. */
  struct {
    uint64_t messages[2][2]; /* in and out: others until now, direct ones */
  } * numbers;
};

/* ---- plan.c -------------------------------------------------------------- */

/* Fills graph->plan with what `command` touches. */
cel_status cel__plan_make(cel_instr_graph *graph, const cel_command *command);
/* With what round i of them touches, from 0. */
cel_status cel__plan_round(cel_instr_graph *graph, int64_t rounds, int64_t i);
/* With what the messages [first, last) of the command touch. */
void cel__plan_messages(cel_instr_graph *graph, uint32_t first, uint32_t last);
/* What a chunk touches by an access, into *out. */
cel_status cel__plan_eval(cel_instr_graph *graph, const cel_access *access,
                          const cel_box *chunk, cel_region *out);
/* What part p of `chunk` touches by an access, into *out; of rows that it
 * writes each part has the next, and reads all of this rank's. */
cel_status cel__plan_touched(cel_instr_graph *graph, uint32_t p,
                             const cel_access *access, const cel_box *chunk,
                             cel_region *out);
/* A touch of a box that messages carry. */
void cel__plan_touch_box(cel_instr_graph *graph, const cel_buffer *buffer,
                         int32_t memory, bool out, const cel_box *box);

/* ---- interior.c ---------------------------------------------------------- */

/* Cuts a part into its interior and what lies around it, and appends
 * them to graph->plan.parts; or the part as it is. */
cel_status cel__interior_cut(cel_instr_graph *graph, const cel__part *part);

/* ---- together.c ---------------------------------------------------------- */

/* Touches for what messages of the plan carry together, and marks them. */
void cel__together_plan(cel_instr_graph *graph, bool out);

/* ---- again.c ------------------------------------------------------------- */

/* Carries the command out as it was some steps ago, if all that matters is as
 * it was then. */
bool cel__again_play(cel_instr_graph *graph, const cel_command *command);
/* Around the instructions of the plan's command: they may be remembered. */
void cel__again_begin(cel_instr_graph *graph);
void cel__again_end(cel_instr_graph *graph, cel_status status);
void cel__again_release(cel_instr_graph *graph);
size_t cel__again_bytes(const cel_instr_graph *graph);

/* ---- lookahead.c --------------------------------------------------------- */

cel_status cel__lookahead_add(cel_instr_graph *graph,
                              const cel_command *command);
cel_status cel__lookahead_flush(cel_instr_graph *graph);

/* ---- fold.c -------------------------------------------------------------- */

/* Takes a command that stands for several tasks. */
cel_status cel__fold_add(cel_instr_graph *graph, const cel_command *command);

/* ---- fused.c ------------------------------------------------------------- */

/* Whether the command, which stands for several tasks, may be one KERNEL, as
 * far as it does not matter what fits into memory. */
bool cel__fused_suits(const cel_instr_graph *graph, const cel_command *command);
/* Adds to the plan, which has the touches of the fold, what its steps touch. */
cel_status cel__fused_touch(cel_instr_graph *graph);
/* Emits it, for a plan that is placed. */
cel_status cel__fused_emit(cel_instr_graph *graph);

/* ---- instr_graph.c ------------------------------------------------------- */

/* Emits what graph->plan's command leads to. CEL_E_MEMORY, see instr.h. */
cel_status cel__generate(cel_instr_graph *graph);

#endif
