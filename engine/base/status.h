/* status.h -- the four kinds of failure, and the one error record.
 *
 *   cel_assert   an invariant; checked in debug and sanitizer builds
 *   cel_bug      the impossible; prints and aborts in every build
 *   cel_status   all that the world can do to us; returned, never thrown
 *   cel_refused  the system refuses what nobody could go on without: prints and
 *                ends the process
 *
 * A function that fails sets the calling thread's error record (code, message,
 * and, where known, the user's file and line) and returns its code.
 * Out-parameters stay untouched on failure. Running out of memory for our own
 * bookkeeping ends the process (see cel_alloc); for the user's data it is a
 * status.
 */
#ifndef CEL_BASE_STATUS_H
#define CEL_BASE_STATUS_H

#ifndef CEL_CDEF
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* CODE, what it means. The one list. */
#define CEL_STATUSES(_)                                                        \
  _(OK, "no error")                                                            \
  _(MEMORY, "out of memory for user data")                                     \
  _(ARGUMENT, "the caller's mistake")                                          \
  _(RANGE, "a number or box outside what it may be")                           \
  _(OVERLAP, "two chunks write one element")                                   \
  _(COMPILE, "a kernel does not compile")                                      \
  _(MISSING, "something the machine lacks: compiler, library, device")         \
  _(IO, "a file or process operation failed")                                  \
  _(COMM, "a message could not be sent or received")                           \
  _(DIVERGED, "ranks submitted different things")                              \
  _(TASK, "a kernel or host task failed while running")                        \
  _(FAULT, "a device failed, and its driver does not say at what")             \
  _(CANCELLED, "the run is ending because of another error")                   \
  _(AGAIN, "other ranks have not come yet; of the simulated cluster alone")

typedef enum cel_status {
#define CEL_STATUS_ENUM(name, text) CEL_E_##name,
  CEL_STATUSES(CEL_STATUS_ENUM)
#undef CEL_STATUS_ENUM
} cel_status;

enum { CEL_ERROR_TEXT = 2048 };

/* The last failure of one thread. `file` is empty where no user line is known,
 * `task` where it is of no task that the user has named, or says so itself;
 * `access` is that of the task which is to blame, counted from 1; 0: none. */
typedef struct cel_error {
  cel_status code;
  int32_t line;
  int32_t access;
  char file[256];
  char task[96];
  char text[CEL_ERROR_TEXT];
} cel_error;

/* Formats the calling thread's error record and returns `code`. Thread: any. */
cel_status cel_fail(cel_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds the line of the user's script to the calling thread's record if it has
 * none yet; returns the record's code. `file` may be null. Thread: any. */
cel_status cel_fail_at(const char *file, int32_t line);

/* Replaces the calling thread's record by `*error`, as when a failure is taken
 * over from another thread; returns its code. Thread: any. */
cel_status cel_fail_with(const cel_error *error);

/* The calling thread's record, never null; valid until its next failure.
 * Thread: any. */
const cel_error *cel_error_last(void);

/* The name of a code, "OVERLAP" for CEL_E_OVERLAP. Thread: any. */
const char *cel_status_name(cel_status code);

/* Prints the message with its line and aborts. Thread: any. */
void cel_bug_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
/* Whether a thread has done so, and is about to abort. Thread: any, also in
 * signal handlers. */
bool cel_bug_told(void);

/* Says what the system refuses, and ends the process with status 1; allocates
 * nothing. Of several threads the first speaks. Thread: any. */
void cel_refused(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));
/* By whom that is said then, before the process ends; by default it is printed.
 * `say` must not allocate. Before there are other threads. */
void cel_refused_set_say(void (*say)(const char *text));

enum { CEL_LINE = 64 }; /* bytes of a cache line */

/* Memory for bookkeeping: never null; cel_refused when there is none. The
 * caller owns the result and gives it to cel_free. Thread: any. */
void *cel_alloc(size_t size);
void *cel_alloc_zero(size_t size);
/* Zeroed, and begins a cache line: for what has members of different threads,
 * each aligned to a line of its own. */
void *cel_alloc_lines(size_t size);
void *cel_realloc(void *p, size_t size);
void cel_free(void *p);
char *cel_strdup(const char *text);

#ifndef CEL_CDEF
#define cel_bug(...) cel_bug_at(__FILE__, __LINE__, __VA_ARGS__)
#ifdef CEL_DEBUG
#define cel_assert(x)                                                          \
  ((x) ? (void)0 : cel_bug_at(__FILE__, __LINE__, "assertion failed: %s", #x))
#else
#define cel_assert(x) ((void)sizeof(!(x)))
#endif
/* Before a function that assertions alone call: release builds have none. */
#define CEL_ASSERTED __attribute__((unused))
/* Returns from the enclosing function when `x` fails. */
#define CEL_TRY(x)                                                             \
  do {                                                                         \
    cel_status cel_try_status = (x);                                           \
    if (cel_try_status != CEL_E_OK) return cel_try_status;                     \
  } while (0)
#endif

#endif
