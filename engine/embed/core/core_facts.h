/* core_facts.h -- numbers that C and celer's Lua modules share: enums, limits.
 *
 * Their one source are the engine's own declarations; core_facts.c lists them
 * by name. Lua has them as core.facts, specs by FFI.
 */
#ifndef CEL_EMBED_CORE_CORE_FACTS_H
#define CEL_EMBED_CORE_CORE_FACTS_H

typedef struct cel_fact {
  const char *list, *name;
  double value;
} cel_fact;

/* Ends with a list that is null. Immutable. Thread: any. */
extern const cel_fact cel_facts[];

#endif
