/* text.h -- strings that are put together: one that grows, for sources,
 * drawings and timelines; and messages in memory of a fixed size. Confined. */
#ifndef CEL_BASE_TEXT_H
#define CEL_BASE_TEXT_H

#include "base/vec.h"

#ifndef CEL_CDEF
/* `at` is null when empty, else has a zero byte after its `n`. Zero to begin;
 * cel_vec_release ends. */
typedef CEL_VEC(char) cel_text;

void cel_text_add(cel_text *text, const char *data, size_t size);
void cel_text_format(cel_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends to the string in `size` bytes at `text`. What does not fit is left
 * out. */
void cel_text_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline const char *cel_text_string(const cel_text *text) {
  return text->n == 0 ? "" : text->at;
}
#endif

#endif
