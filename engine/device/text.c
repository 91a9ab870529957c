#include "device/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

bool cel_text_read(cel_text *text, const char *path) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return false;
  char piece[16384];
  size_t n;
  while ((n = fread(piece, 1, sizeof piece, file)) > 0)
    cel_text_add(text, piece, n);
  bool fine = !ferror(file);
  fclose(file);
  return fine;
}

bool cel_text_write(const cel_text *text, const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  size_t done = 0;
  while (done < text->n) {
    ssize_t n = write(file, text->at + done, text->n - done);
    if (n <= 0) break;
    done += (size_t)n;
  }
  return close(file) == 0 && done == text->n;
}
