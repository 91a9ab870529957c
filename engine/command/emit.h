/* emit.h -- commands on their way out: ids, dependencies, arenas, horizons.
 *
 * A command is made in steps: cel__emit_begin gives it an id; the caller
 * reports its accesses to trackers with that id and the deps of the emitter;
 * cel__emit_end copies everything into the arena of its horizon and hands it
 * on.
 *
 * Cost: O(dependencies) per command. The first command is an epoch.
 * Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_EMIT_H
#define CEL_COMMAND_EMIT_H

#include "base/eras.h"
#include "command/command.h"
#include "region/front.h"

typedef struct cel__emitter {
  void (*emit)(void *context, const cel_command *command);
  void *context;
  bool unordered; /* commands have no dependencies */
  cel_deps deps;  /* of the command being made */
  cel_front front;
  cel_eras eras;
} cel__emitter;

/* `drop` ends what the eras keep. */
void cel__emitter_init(cel__emitter *e, const cel_command_graph_config *config,
                       void (*drop)(void *kept));
void cel__emitter_release(cel__emitter *e);

/* Clears the dependencies and returns the id of the command now to be made. */
uint64_t cel__emit_begin(cel__emitter *e);
/* Emits it: *command without id and dependencies; messages and their pieces lie
 * in the arena of the era. Without a true dependency it comes after what was
 * applied last. */
void cel__emit_end(cel__emitter *e, cel_command *command);
/* Emits the horizon or epoch `task` after the whole front, and ends the era. */
void cel__emit_horizon(cel__emitter *e, const cel_task *task);

#endif
