#define _GNU_SOURCE
#include "embed/line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "embed/interrupt.h"

/* A file that has grown to twice as many entries is cut when it is read. */
enum { ENTRIES = 1000 };

struct cel_line {
  EditLine *edit;
  History *history;
  const char *path; /* owned; null: nothing is kept */
  const char *prompt;
  char *text; /* owned; the line read last */
  cel_line_complete complete;
  void *context;
  bool cancelled;
};

static cel_line *line_of(EditLine *edit) {
  cel_line *line;
  el_get(edit, EL_CLIENTDATA, (void *)&line);
  return line;
}

static char *prompt_of(EditLine *edit) {
  return (char *)(uintptr_t)line_of(edit)->prompt;
}

/* ---- reading ------------------------------------------------------------ */

/* After a pause or in a window of another size, over what is there. */
static void redraw(EditLine *edit) {
  el_set(edit, EL_PREP_TERM, 1);
  el_resize(edit);
  putchar('\r');
  el_set(edit, EL_REFRESH);
}

/* Until there is something to read; false after Ctrl-C. */
static bool await_input(cel_line *line) {
  struct pollfd both[] = {{STDIN_FILENO, POLLIN, 0},
                          {cel_interrupt_news(), POLLIN, 0}};
  while (!cel_interrupted()) {
    if (poll(both, 2, -1) < 0) continue; /* a signal; there is news of it */
    if (both[1].revents != 0) {
      cel_interrupt_hear();
      if (!cel_interrupted()) redraw(line->edit);
    } else if (both[0].revents != 0) {
      return true;
    }
  }
  line->cancelled = true;
  return false;
}

/* libedit's: one character; 0 at the end of input, -1 when none comes. */
static int get_character(EditLine *edit, wchar_t *out) {
  mbstate_t state = {0};
  char byte;
  for (;;) {
    if (!await_input(line_of(edit))) return -1;
    ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return (int)n;
    size_t used = mbrtowc(out, &byte, 1, &state);
    if (used != (size_t)-1 && used != (size_t)-2) return 1;
    if (used == (size_t)-1) state = (mbstate_t){0}; /* no character: dropped */
  }
}

cel_line_event cel_line_read(cel_line *line, const char *prompt,
                             const char **text) {
  int n;
  fflush(NULL);
  line->prompt = prompt;
  line->cancelled = false;
  cel_interrupt_hear(); /* of a Ctrl-C that has ended what ran */
  el_resize(line->edit);
  el_set(line->edit, EL_PREP_TERM, 1); /* the prompt says that it listens */
  const char *read = el_gets(line->edit, &n);
  if (line->cancelled) {
    cel_interrupt_clear();
    cel_interrupt_hear();
    puts("^C");
    return CEL_LINE_CANCELLED;
  }
  if (read == NULL || n <= 0) return CEL_LINE_END;
  cel_free(line->text);
  line->text = cel_strdup(read);
  for (size_t end = strlen(read); end > 0 && line->text[end - 1] == '\n';)
    line->text[--end] = '\0';
  *text = line->text;
  return CEL_LINE_TEXT;
}

/* ---- completion --------------------------------------------------------- */

static unsigned char complete(EditLine *edit, int key) {
  cel_line *line = line_of(edit);
  const LineInfo *info = el_line(edit);
  const char *choices = NULL;
  (void)key;
  const char *insert =
      line->complete(line->context, info->buffer,
                     (size_t)(info->cursor - info->buffer), &choices);
  if (insert != NULL && insert[0] != '\0' && el_insertstr(edit, insert) != 0)
    return CC_ERROR; /* the line is full */
  if (choices == NULL) return insert != NULL ? CC_REFRESH : CC_REFRESH_BEEP;
  printf("\n%s\n", choices);
  return CC_REDISPLAY;
}

/* ---- history ------------------------------------------------------------ */

/* The folders that `path` lies in; what is wrong shows when it is opened. */
static void make_folders(char *path) {
  for (char *p = strchr(path + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
    *p = '\0';
    mkdir(path, 0700);
    *p = '/';
  }
}

/* The file, at its end; only its owner may read what was typed. Null with
 * errno. */
static FILE *open_history(const char *path) {
  mode_t mask = umask(0077);
  FILE *file = fopen(path, "ae");
  umask(mask);
  if (file != NULL) fseek(file, 0, SEEK_END);
  return file;
}

/* Why it cannot be kept, or null. */
static const char *load_history(cel_line *line, const char *path) {
  HistEvent event;
  char *own = cel_strdup(path);
  make_folders(own);
  FILE *file = open_history(own);
  const char *why = file == NULL ? strerror(errno) : NULL;
  bool empty = file != NULL && ftell(file) == 0;
  if (file != NULL) fclose(file);
  if (why == NULL && !empty) {
    int n = history(line->history, &event, H_LOAD, own);
    if (n < 0) why = "it is no history that libedit wrote";
    if (n > 2 * ENTRIES) history(line->history, &event, H_SAVE, own);
  }
  if (why == NULL)
    line->path = own;
  else
    cel_free(own);
  return why;
}

/* libedit appends all or nothing: all of a history with this entry alone. */
static void append(const char *path, const char *entry) {
  HistEvent event;
  FILE *file = open_history(path);
  if (file == NULL) return; /* the session still has it */
  History *one = history_init();
  history(one, &event, H_SETSIZE, 1);
  history(one, &event, H_ENTER, entry);
  history(one, &event, H_SAVE_FP, file);
  history_end(one);
  fclose(file);
}

void cel_line_remember(cel_line *line, const char *entry) {
  HistEvent event;
  bool any = history(line->history, &event, H_FIRST) >= 0;
  if (any && strcmp(event.str, entry) == 0) return;
  history(line->history, &event, H_ENTER, entry);
  if (line->path != NULL) append(line->path, entry);
}

/* ---- life --------------------------------------------------------------- */

static void bind_keys(EditLine *edit) {
  el_set(edit, EL_EDITOR, "emacs");
  el_set(edit, EL_ADDFN, "celer-complete", "completes a name", complete);
  el_set(edit, EL_BIND, "^I", "celer-complete", NULL);
  el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_source(edit, NULL);
}

cel_status cel_line_open(const char *history_path, cel_line_complete complete_,
                         void *context, const char **why, cel_line **out) {
  /* Characters of several bytes; numbers stay as C writes them. */
  setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
  /* What is written may pass through a launcher: stdin is the terminal. */
  EditLine *edit = el_init_fd("celer", stdin, stdout, stderr, STDIN_FILENO,
                              STDIN_FILENO, STDIN_FILENO);
  if (edit == NULL)
    return cel_fail(CEL_E_IO, "cannot edit lines on this terminal");
  HistEvent event;
  cel_line *line = cel_alloc_zero(sizeof *line);
  *line = (cel_line){.edit = edit,
                     .history = history_init(),
                     .prompt = "",
                     .complete = complete_,
                     .context = context};
  history(line->history, &event, H_SETSIZE, ENTRIES);
  el_set(edit, EL_CLIENTDATA, line);
  el_set(edit, EL_GETCFN, get_character);
  el_set(edit, EL_PROMPT, prompt_of);
  el_set(edit, EL_HIST, history, line->history);
  bind_keys(edit);
  *why = history_path != NULL ? load_history(line, history_path) : NULL;
  *out = line;
  return CEL_E_OK;
}

void cel_line_close(cel_line *line) {
  el_end(line->edit);
  history_end(line->history);
  cel_free((void *)(uintptr_t)line->path);
  cel_free(line->text);
  cel_free(line);
}
