/* line.h -- lines that a person types: editing, history, completion.
 *
 * By libedit, so that keys are what they are elsewhere (~/.editrc is heeded).
 * What is kept of earlier sessions is a file of libedit's, appended to with
 * each entry, so that two sessions at a time lose nothing of each other.
 * An entry may have several lines; recalled, it comes back whole.
 *
 * Invariants: the terminal is in raw mode only inside cel_line_read.
 * One per process. Thread: main, all of it.
 */
#ifndef CEL_EMBED_LINE_H
#define CEL_EMBED_LINE_H

#include "base/status.h"

typedef struct cel_line cel_line;

typedef enum cel_line_event {
  CEL_LINE_TEXT,
  CEL_LINE_CANCELLED, /* Ctrl-C */
  CEL_LINE_END        /* Ctrl-D on an empty line; the terminal is gone */
} cel_line_event;

/* What Tab does: gives the text to insert after `before`, which is the line up
 * to the cursor, and in *choices what to show below it; each may be null. They
 * are the callee's, until the next call. */
typedef const char *(*cel_line_complete)(void *context, const char *before,
                                         size_t size, const char **choices);

/* Reads from stdin, which is a terminal. `history` is the path of the file
 * that keeps entries, made with its folders. Where that cannot be, *why says
 * so, and entries last as long as the session; else it is null. `context` is
 * borrowed. The caller owns *out. CEL_E_IO: libedit cannot use the terminal. */
cel_status cel_line_open(const char *history, cel_line_complete complete,
                         void *context, const char **why, cel_line **out);
/* One line, in *text without its end: the line's until the next call. */
cel_line_event cel_line_read(cel_line *line, const char *prompt,
                             const char **text);
/* Adds an entry to what the arrow keys recall, and to the file. */
void cel_line_remember(cel_line *line, const char *entry);
void cel_line_close(cel_line *line);

#endif
