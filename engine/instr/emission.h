/* emission.h -- makes the instructions: their ids, their dependencies, and the
 * memory that they lie in; internal to instr/.
 *
 * The first of the three parts of the instruction graph; it knows neither the
 * second nor the third one. Each allocation has a tracker. An instruction comes
 * after what the trackers of what it touches say, after what
 * cel__emit_after has asked for, and after what host objects and groups of
 * collective tasks say. One function makes each kind.
 *
 * Invariants, of which cel__emission_check asserts what it can see:
 *   1. A dependency is older than its instruction, and no older than the floor;
 *      only instruction 1 has none.
 *   2. Between commands no dependency waits for its instruction.
 *   3. A tracker is brought to the floor before it is asked.
 *   4. An emitted instruction is immutable, except the address of its
 *      allocation, and stays, as all that it points to, until its era ends.
 * Cost: O(dependencies) per instruction, beside what trackers cost.
 * Confined to the scheduler thread.
 */
#ifndef CEL_INSTR_EMISSION_H
#define CEL_INSTR_EMISSION_H

#include "instr/instr.h"
#include "instr/touch.h"
#include "instr/tracked.h"

/* Higher first: what other ranks wait for, then what many instructions wait
 * for, then computing. */
enum {
  CEL__PRIORITY_RECEIVE = 4,
  CEL__PRIORITY_SEND = 3,
  CEL__PRIORITY_MEMORY = 2,
  CEL__PRIORITY_BOUNDARY = 1, /* others wait for it */
  CEL__PRIORITY_RUN = 0
};

typedef struct cel__emission cel__emission;

/* The caller owns it, and keeps *config. */
cel__emission *cel__emission_create(const cel_instr_graph_config *config);
void cel__emission_destroy(cel__emission *emission);
/* See cel_instr_graph_retire. */
void cel__emission_retire(cel__emission *emission, uint64_t id);
/* What is emitted from here on is this task's. */
void cel__emission_begin(cel__emission *emission, const cel_task *task);
/* Memory that lives as long as the instructions that are made now. */
void *cel__emission_room(cel__emission *emission, size_t bytes);
/* What is older counts as this instruction. */
uint64_t cel__emission_floor(const cel__emission *emission);
size_t cel__emission_bytes(const cel__emission *emission);
void cel__emission_check(const cel__emission *emission);

/* A device that works in the memory; -1 for the host's. */
int32_t cel__device_in(const cel_instr_graph_config *config, int32_t memory);

/* ---- what is emitted again ----------------------------------------------- */

/* The COPYs and KERNELs of a command, with their dependencies as slots. tape.c
 * has what follows. */
typedef struct cel__tape cel__tape;

/* Whatever is emitted from here on goes onto a tape as well, which the caller
 * of the second owns; null: there is something that cannot be repeated. */
void cel__tape_begin(cel__emission *emission);
cel__tape *cel__tape_end(cel__emission *emission);
void cel__tape_destroy(cel__tape *tape);
size_t cel__tape_bytes(const cel__tape *tape);
/* Whether all trackers are as they were when the tape began. */
bool cel__tape_fits(cel__emission *emission, const cel__tape *tape);
/* Emits what is on a tape that fits, and leaves the trackers as they were when
 * it ended. */
void cel__tape_play(cel__emission *emission, const cel__tape *tape);

/* ---- about the next instruction ------------------------------------------ */

/* It comes after instruction `id`. */
void cel__emit_after(cel__emission *emission, uint64_t id, cel_dep_kind kind);

/* ---- instructions -------------------------------------------------------- */

/* Makes the tracker, too. */
void cel__emit_alloc(cel__emission *emission, cel__tracked *tracked);
/* After all that uses it. `tracked` begins a piece of memory from cel_alloc,
 * which emission frees when the era of the FREE ends. Returns the FREE's id. */
uint64_t cel__emit_free(cel__emission *emission, cel__tracked *tracked);
/* Of bytes [begin, end); the first writer of these rows, [a, b) x 1 x 1. */
void cel__emit_commit(cel__emission *emission, cel__tracked *tracked,
                      uint64_t begin, uint64_t end, const cel_region *rows);
/* Of bytes that lie in `box`; returns its id. */
uint64_t cel__emit_decommit(cel__emission *emission, cel__tracked *tracked,
                            uint64_t begin, uint64_t end, const cel_box *box);
/* INIT: `from` is null. Returns its id. */
uint64_t cel__emit_copy(cel__emission *emission, cel__tracked *from,
                        cel__tracked *to, const cel_box *box, int32_t priority);
/* Part p of the plan, a KERNEL or HOST. */
void cel__emit_launch(cel__emission *emission, const cel__plan *plan,
                      uint32_t p);
/* Part p of the plan as one KERNEL, which has the allocations that it writes in
 * for itself. */
void cel__emit_fold(cel__emission *emission, const cel__plan *plan, uint32_t p,
                    const cel_instr_fold *fold);
/* The plan's SENDs or RECEIVEs, of which one may have many messages. */
void cel__emit_messages(cel__emission *emission, const cel__plan *plan,
                        int32_t priority);
/* A device's part of the plan's COLLECTIVE, with `n` touches from `first` on;
 * or all of it, of device -1. */
void cel__emit_collective(cel__emission *emission, const cel__plan *plan,
                          int32_t device, uint32_t first, uint32_t n);
/* The end of a host object, with a RELEASE if it has something to run. */
void cel__emit_release(cel__emission *emission, const cel_object *object);
/* A horizon or epoch: after the whole execution front. */
void cel__emit_bound(cel__emission *emission, bool epoch);

#endif
