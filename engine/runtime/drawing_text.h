/* drawing_text.h -- what a node does, as lines of text. Pure. */
#ifndef CEL_RUNTIME_DRAWING_TEXT_H
#define CEL_RUNTIME_DRAWING_TEXT_H

#ifndef CEL_CDEF
#include "base/text.h"
#endif
#include "instr/instr.h"

#ifndef CEL_CDEF
/* Each adds lines that end in "\n". */
void cel__drawing_say_task(cel_text *text, const cel_task *task);
void cel__drawing_say_command(cel_text *text, const cel_command *command);
void cel__drawing_say_instr(cel_text *text, const cel_instr *instr);

const char *cel__drawing_task_kind(cel_task_kind kind);
const char *cel__drawing_command_kind(cel_command_kind kind);
#endif

#endif
