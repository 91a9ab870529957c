/* Folds (fold/fold.h), step by step: each is as a command of its own, of the
 * step's task and its box. What that writes beyond the chunk is current here as
 * far as this graph knows. No other rank asks for it, and no step behind the
 * fold reads it: the command graph knows that others own it, and has them send
 * what is current then. */
#include "fold/fold.h"

#include "instr/graph.h"

cel_status cel__fold_add(cel_instr_graph *graph, const cel_command *command) {
  const cel_fold *fold = command->task->folded;
  for (int32_t s = 0; s < fold->steps; ++s) {
    cel_command *step = cel__emission_room(graph->emission, sizeof *step);
    *step = *command;
    step->task = fold->step[s].task;
    step->chunk = cel_fold_box(fold, s, &command->chunk);
    CEL_TRY(cel__lookahead_add(graph, step));
  }
  return CEL_E_OK;
}
