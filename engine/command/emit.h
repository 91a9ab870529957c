/* emit.h -- commands on their way out: ids, dependencies, arenas, horizons.
 *
 * A command is made in steps: cel__emit_begin gives it an id; the caller
 * reports its accesses to trackers with that id and the deps of the emitter;
 * cel__emit_end copies everything into the arena of its horizon and hands it
 * on.
 *
 * Invariant: the execution front is the commands since the last horizon or
 * epoch, that one included, on which none depends; what is older has a
 * successor, for a horizon depends on all of the front.
 * Cost: O(dependencies) per command; the front O(commands since the horizon).
 * Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_EMIT_H
#define CEL_COMMAND_EMIT_H

#include "base/arena.h"
#include "base/vec.h"
#include "command/command.h"

typedef struct cel__era {
  cel_arena arena;
  uint64_t last; /* id of the horizon or epoch that ended it */
} cel__era;

typedef struct cel__emitter {
  void (*emit)(void *context, const cel_command *command);
  void *context;
  uint64_t next;    /* id of the next command */
  uint64_t applied; /* the horizon or epoch applied last; 0: none yet */
  uint64_t pending; /* the newest one, to be applied by the next; 0: none */
  cel_deps deps;    /* of the command being made */
  uint64_t front;   /* id of the first of `followed` */
  CEL_VEC(uint8_t) followed; /* whether some command depends on it */
  CEL_VEC(cel__era) eras;    /* oldest first; the last is open */
  cel_arena spare;           /* an empty one, for the next era */
} cel__emitter;

void cel__emitter_init(cel__emitter *e,
                       void (*emit)(void *, const cel_command *),
                       void *context);
void cel__emitter_release(cel__emitter *e);

/* Clears the dependencies and returns the id of the command now to be made. */
uint64_t cel__emit_begin(cel__emitter *e);
/* Emits it: *command without id and dependencies; a message's pieces are
 * copied. Without a true dependency it comes after what was applied last. */
void cel__emit_end(cel__emitter *e, cel_command *command);
/* Emits the horizon or epoch `task` after the whole front, and ends the era.
 * An epoch is applied at once, a horizon by the next one: trackers are to be
 * floored to `applied` before they are asked. */
void cel__emit_horizon(cel__emitter *e, const cel_task *task);
void cel__emitter_retire(cel__emitter *e, uint64_t id);
size_t cel__emitter_bytes(const cel__emitter *e);

#endif
