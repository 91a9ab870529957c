/* core_form.h -- how host tasks and interop tasks travel from the script's
 * thread to lanes.
 *
 * A task is a *form* and values. The form is all that tasks with the same code
 * share, as one string that lua/celer/host/capture.lua encodes: functions,
 * which of them share variables, tables, and what the lane must know of
 * accesses and effects. Values are the numbers, strings, booleans and nils that
 * variables, globals and arguments held at the submission, in the form's order.
 * A lane reads a form once and makes functions of it for each task.
 */
#ifndef CEL_EMBED_CORE_CORE_FORM_H
#define CEL_EMBED_CORE_CORE_FORM_H

#include "embed/core/core.h"

/* Immutable; freed with its last reference, of a handle or a work. */
typedef struct cel_form {
  _Atomic(int32_t) references;
  uint64_t
      number;    /* what lanes keep it by; 0: it is not likely to come again */
  uint64_t hash; /* equal on all ranks */
  uint32_t values;
  size_t size;
  char text[];
} cel_form;

/* A form's handle at `index`; raises when it is none. Thread: main. */
cel_form *cel__check_form(lua_State *L, int index);
/* The form for a function and its arguments, which are the last on the stack
 * from `task` on; at `forms` they are by code, at `key` is what the lane is
 * told. Its handle is on top then, and its packed values hold until the next
 * call. Null where none is for it. Thread: main. */
cel_form *cel__find_form(lua_State *L, int forms, int key, int task,
                         const char **values, size_t *size);
void cel__form_retain(cel_form *form); /* Thread: any. */
void cel__form_release(cel_form *form);
/* Pushes packed values, in order; returns how many. Thread: worker. */
int cel__push_values(lua_State *L, const char *packed, size_t size);

#endif
