/* note.h -- what the executor notes of instructions, where anybody asked: spans
 * for its profile and its timeline, and paces.
 *
 * Cost: a comparison for each instruction where nobody did. Confined to the
 * executor; internal to exec/.
 */
#ifndef CEL_EXEC_NOTE_H
#define CEL_EXEC_NOTE_H

#include "exec/executor.h"
#include "exec/window.h"

/* The time, where there is a timeline; else 0. */
int64_t cel__note_now(const cel_executor_config *config);
/* A message that no lane had is complete. */
void cel__note_message(const cel_executor_config *config, const cel_node *node,
                       bool failed);
/* A job is. */
void cel__note_job(const cel_executor_config *config, const cel_node *node,
                   bool failed);
/* What has been done since `begin`, if it is of that lane; 0: nobody asked. */
void cel__note_step(const cel_executor_config *config, const cel_instr *instr,
                    cel_instr_lane lane, int64_t begin);

#endif
