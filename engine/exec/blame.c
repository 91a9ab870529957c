#include "exec/blame.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "device/cuda/cuda.h"
#include "task/reduce.h"

/* MOST leaves room for the advice, which must not be cut off. */
enum { LISTED = 12, ADVICE = 220, MOST = CEL_ERROR_TEXT - ADVICE };

static void add_box(cel_error *error, const cel_buffer *buffer,
                    const cel_box *box) {
  char text[160];
  cel_box_print(box, buffer->dims, text, sizeof text);
  cel_text_append(error->text, MOST, "%s: %s",
                  buffer->name != NULL ? buffer->name : "a buffer",
                  cel_box_is_empty(box) ? "nothing" : text);
}

static void add_accesses(cel_error *error, const cel_instr *instr) {
  const cel_task *task = instr->task;
  const char *kernel = task->work->cuda != NULL ? task->work->cuda->name : "";
  char chunk[160];
  cel_box_print(&instr->run.chunk, task->dims, chunk, sizeof chunk);
  cel_text_append(error->text, MOST,
                  "\nThe driver does not say at which address. ");
  if (task->name != NULL && strcmp(task->name, kernel) != 0)
    cel_text_append(error->text, MOST, "The task %s", task->name);
  else
    cel_text_append(error->text, MOST, "The task");
  cel_text_append(error->text, MOST, " was given, for its chunk %s,", chunk);
  if (task->accesses == 0) cel_text_append(error->text, MOST, " no buffer");
  for (uint32_t i = 0; i < task->accesses && i < LISTED; ++i) {
    cel_text_append(error->text, MOST, "\n  %s ",
                    cel_mode_name(task->access[i].mode));
    add_box(error, task->access[i].buffer, &instr->run.view[i].box);
  }
  if (task->accesses > LISTED)
    cel_text_append(error->text, MOST, "\n  and %u more",
                    (unsigned)(task->accesses - LISTED));
}

static const char *advice(const cel_instr *instr) {
  const struct cel_cuda_kernel *kernel = instr->task->work->cuda;
  if (kernel == NULL)
    return "Run it under compute-sanitizer: celer cannot check what an interop "
           "task calls.";
  if (kernel->block[0] > 0)
    return "Run it under compute-sanitizer: celer cannot check the kernels of "
           "celer.cuda_module.";
  if (kernel->fault[instr->device] != 0)
    return "All accesses by accessors were within their boxes: it was one by "
           "other means, such as a pointer, local memory or an array.";
  return "Run with --check-bounds, which finds the item and the accessor.";
}

static void add_place(const cel_task *task, cel_error *error) {
  if (error->file[0] != '\0' || task == NULL || task->location.file == NULL)
    return;
  snprintf(error->file, sizeof error->file, "%s", task->location.file);
  error->line = task->location.line;
}

/* What kernels fail with has the kernel's name in it. */
static void add_name(const cel_task *task, cel_error *error) {
  if (task == NULL || task->name == NULL) return;
  if (task->kind != CEL_TASK_HOST && !(task->work && task->work->lua)) return;
  snprintf(error->task, sizeof error->task, "%s", task->name);
}

/* A kernel knows its arguments, and not whose they are. What is reduced goes to
 * rows that are named after the buffer. */
static void add_buffer(const cel_task *task, cel_error *error) {
  if (task == NULL || error->access == 0) return;
  const cel_access *access = &task->access[error->access - 1];
  const char *name = access->buffer->name;
  if (name == NULL) return;
  size_t n = strlen(name);
  if (access->rows > 0) n -= sizeof CEL_REDUCE_ROWS - 1;
  cel_text_append(error->text, MOST, "; the buffer is %.*s", (int)n, name);
  error->access = 0;
}

void cel_blame(const cel_instr *instr, cel_error *error) {
  add_place(instr->task, error);
  add_name(instr->task, error);
  add_buffer(instr->task, error);
  if (error->code != CEL_E_FAULT) return;
  if (instr->kind == CEL_INSTR_KERNEL) {
    add_accesses(error, instr);
    cel_text_append(error->text, sizeof error->text, "\n%s", advice(instr));
  } else if (instr->kind == CEL_INSTR_COPY) {
    cel_text_append(error->text, MOST, "\nThe copy was of ");
    add_box(error, instr->copy.to->buffer, &instr->copy.box);
  }
}
