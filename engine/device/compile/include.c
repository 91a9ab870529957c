#include "device/compile/include.h"

#include <string.h>
#include <unistd.h>

typedef struct search {
  const cel_includes *where;
  cel_key *key;
  CEL_VEC(char *) path; /* found; owned */
} search;

static const char *skip_blanks(const char *at) {
  while (*at == ' ' || *at == '\t') ++at;
  return at;
}

static bool seen(const search *s, const char *path) {
  for (uint32_t i = 0; i < s->path.n; ++i)
    if (strcmp(s->path.at[i], path) == 0) return true;
  return false;
}

/* Takes `folder`/`name` if there is such a file. */
static bool take(search *s, const char *folder, size_t folder_size,
                 const char *name, size_t size, bool of_compiler) {
  cel_text path = {0};
  if (name[0] != '/' && folder_size > 0)
    cel_text_format(&path, "%.*s/", (int)folder_size, folder);
  cel_text_add(&path, name, size);
  bool found = access(path.at, R_OK) == 0;
  if (found) cel_key_add(s->key, path.at, path.n);
  if (found && !of_compiler && !seen(s, path.at))
    cel_vec_push(&s->path, path.at);
  else
    cel_vec_release(&path);
  return found;
}

/* `from` is the path of the including file; null: the text itself. */
static void find(search *s, const char *from, bool quoted, const char *name,
                 size_t size) {
  const cel_includes *w = s->where;
  const char *slash = from != NULL ? strrchr(from, '/') : NULL;
  if (quoted && from != NULL &&
      take(s, from, slash != NULL ? (size_t)(slash - from) : 0, name, size,
           false))
    return;
  if (quoted && from == NULL && w->beside != NULL &&
      take(s, w->beside, strlen(w->beside), name, size, false))
    return;
  for (int32_t i = 0; i < w->folders; ++i)
    if (take(s, w->folder[i], strlen(w->folder[i]), name, size,
             i >= w->of_compiler))
      return;
  cel_key_add(s->key, name, size);
}

/* At what follows `include` or `__has_include(`; false: no plain name. */
static bool named(search *s, const char *from, const char *at) {
  at = skip_blanks(at);
  const char end = *at == '"' ? '"' : '>';
  if (*at != '"' && *at != '<') return false;
  const char *name = at + 1;
  size_t size = strcspn(name, end == '"' ? "\"\n" : ">\n");
  if (name[size] != end) return false;
  find(s, from, end == '"', name, size);
  return true;
}

static bool directive(search *s, const char *from, const char *at) {
  at = skip_blanks(at);
  if (strncmp(at, "include", 7) == 0) return named(s, from, at + 7);
  size_t line = strcspn(at, "\n");
  const char *has = strstr(at, "__has_include");
  if (has == NULL || (size_t)(has - at) >= line) return true;
  at = skip_blanks(has + strlen("__has_include"));
  return *at == '(' ? named(s, from, at + 1) : true; /* #ifdef of it */
}

static bool scan(search *s, const char *from, const char *text) {
  for (; *text != '\0'; text += *text == '\n') {
    text = skip_blanks(text);
    if (*text == '#' && !directive(s, from, text + 1)) return false;
    text += strcspn(text, "\n");
  }
  return true;
}

bool cel_include_key(cel_key *key, const char *text,
                     const cel_includes *where) {
  search s = {.where = where, .key = key};
  bool fine = scan(&s, NULL, text);
  for (uint32_t i = 0; i < s.path.n && fine; ++i) {
    cel_text content = {0};
    fine = cel_text_read(&content, s.path.at[i]);
    cel_key_add(key, content.at, content.n);
    fine = fine && scan(&s, s.path.at[i], cel_text_string(&content));
    cel_vec_release(&content);
  }
  for (uint32_t i = 0; i < s.path.n; ++i) cel_free(s.path.at[i]);
  cel_vec_release(&s.path);
  return fine;
}
