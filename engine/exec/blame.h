/* blame.h -- what a device was given when it failed, in words.
 *
 * A driver that reports an illegal access says neither where it was nor whose;
 * the user is told what the task touched, and how to find out more.
 * Pure but for the error that it adds to. Thread: executor.
 */
#ifndef CEL_EXEC_BLAME_H
#define CEL_EXEC_BLAME_H

#include "instr/instr.h"

/* Adds the place of the task, if there is none yet, the name of a task in Lua,
 * and that of the buffer of the access that is to blame; and to an error of
 * code CEL_E_FAULT: the task's name, its chunk, each access with the box in it,
 * or a copy's buffer and box; and what finds the item. */
void cel_blame(const cel_instr *instr, cel_error *error);

#endif
