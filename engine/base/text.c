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
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  cel_vec_reserve(text, size + 1);
  va_start(args, format);
  vsnprintf(text->at + text->n, (size_t)size + 1, format, args);
  va_end(args);
  text->n += (uint32_t)size;
}
