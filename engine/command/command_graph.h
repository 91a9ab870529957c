/* command_graph.h -- inside the command graph, for its specs.
 */
#ifndef CEL_COMMAND_COMMAND_GRAPH_H
#define CEL_COMMAND_COMMAND_GRAPH_H

#include "command/command.h"

/* Forgets all caches and sweeps before every task from now on: nothing
 * that the graph emits may change by it, nor does it matter on which ranks. */
void cel__command_graph_squeeze(cel_command_graph *graph);
/* Keeps at most so many replications per version. On all ranks alike. */
void cel__command_graph_cap(cel_command_graph *graph, uint32_t replications);

#endif
