/* graph.h -- inside the command graph, for its specs.
 */
#ifndef CEL_COMMAND_GRAPH_H
#define CEL_COMMAND_GRAPH_H

#include "command/command.h"

/* Forgets all caches and sweeps before nearly every task from now on: nothing
 * that the graph emits may change by it. On all ranks alike. */
void cel__command_graph_squeeze(cel_command_graph *graph);

#endif
