#include "base/status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"

static _Thread_local cel_error last_error;

static const char *const status_names[] = {
#define STATUS_NAME(name, text) #name,
    CEL_STATUSES(STATUS_NAME)
#undef STATUS_NAME
};

cel_status cel_fail(cel_status code, const char *format, ...) {
  cel_error fresh = {.code = code};
  va_list args;
  va_start(args, format);
  vsnprintf(fresh.text, sizeof fresh.text, format, args);
  va_end(args);
  last_error = fresh;
  return code;
}

cel_status cel_fail_at(const char *file, int32_t line) {
  if (file != NULL && last_error.file[0] == '\0') {
    snprintf(last_error.file, sizeof last_error.file, "%s", file);
    last_error.line = line;
  }
  return last_error.code;
}

cel_status cel_fail_with(const cel_error *error) {
  last_error = *error;
  return error->code;
}

const cel_error *cel_error_last(void) {
  return &last_error;
}

const char *cel_status_name(cel_status code) {
  return status_names[code];
}

static atomic_bool bug_told;

bool cel_bug_told(void) {
  return atomic_load(&bug_told);
}

void cel_bug_at(const char *file, int line, const char *format, ...) {
  va_list args;
  fprintf(stderr, "celer: internal error at %s:%d: ", file, line);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  atomic_store(&bug_told, true);
  abort();
}

static void (*say_refused)(const char *text);

void cel_refused_set_say(void (*say)(const char *text)) {
  say_refused = say;
}

void cel_refused(const char *format, ...) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  static _Thread_local bool mine;
  char text[CEL_ERROR_TEXT];
  if (mine) _Exit(1); /* it is refused what it would say that by */
  while (atomic_flag_test_and_set(&said)) { /* until the process ends */
  }
  mine = true;
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (say_refused != NULL)
    say_refused(text);
  else
    fprintf(stderr, "celer: %s\n", text);
  _Exit(1);
}

static void *or_die(void *p, size_t size) {
  char asked[32];
  if (p != NULL || size == 0) return p;
  cel_amount_text(size, asked, sizeof asked);
  cel_refused("out of memory: the system refuses %s that celer needs for "
              "itself; raise the limit of memory (ulimit -v, or that of the "
              "container or batch job), or use more hosts",
              asked);
}

void *cel_alloc(size_t size) {
  return or_die(malloc(size), size);
}

void *cel_alloc_zero(size_t size) {
  return or_die(calloc(1, size), size);
}

void *cel_alloc_lines(size_t size) {
  size_t all = (size + CEL_LINE - 1) / CEL_LINE * CEL_LINE;
  return memset(or_die(aligned_alloc(CEL_LINE, all), all), 0, all);
}

void *cel_realloc(void *p, size_t size) {
  return or_die(realloc(p, size), size);
}

void cel_free(void *p) {
  free(p);
}

char *cel_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(cel_alloc(size), text, size);
}
