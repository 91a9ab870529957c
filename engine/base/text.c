#include "base/text.h"

#include <stdio.h>

void cel_text_add(cel_text *text, const char *data, size_t size) {
  if (size == 0) return;
  cel_vec_reserve(text, size + 1);
  memcpy(text->at + text->n, data, size);
  text->n += (uint32_t)size;
  text->at[text->n] = '\0';
}

void cel_text_format(cel_text *text, const char *format, ...) {
  enum { PIECE = 256 }; /* most are shorter */
  va_list args;
  cel_vec_reserve(text, PIECE);
  size_t room = text->cap - text->n;
  va_start(args, format);
  size_t size = (size_t)vsnprintf(text->at + text->n, room, format, args);
  va_end(args);
  if (size >= room) {
    cel_vec_reserve(text, size + 1);
    va_start(args, format);
    vsnprintf(text->at + text->n, size + 1, format, args);
    va_end(args);
  }
  text->n += (uint32_t)size;
}

void cel_text_append(char *text, size_t size, const char *format, ...) {
  size_t at = size > 0 ? strlen(text) : 0;
  if (at >= size) return;
  va_list args;
  va_start(args, format);
  vsnprintf(text + at, size - at, format, args);
  va_end(args);
}
