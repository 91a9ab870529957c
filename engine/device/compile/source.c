#include "device/compile/source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- scanning */

typedef struct scan {
  const char *at;
  int32_t line;
} scan;

static void step(scan *s) {
  if (*s->at == '\n') ++s->line;
  if (*s->at != '\0') ++s->at;
}

static void skip_until(scan *s, const char *end, size_t size) {
  while (*s->at != '\0' && strncmp(s->at, end, size) != 0) step(s);
  for (size_t i = 0; i < size; ++i) step(s);
}

/* A string or character literal, at its opening quote. */
static void skip_quoted(scan *s) {
  char quote = *s->at;
  step(s);
  while (*s->at != '\0' && *s->at != quote && *s->at != '\n') {
    if (*s->at == '\\') step(s);
    step(s);
  }
  step(s);
}

/* R"tag( ... )tag", at the quote. */
static void skip_raw(scan *s) {
  char end[20] = ")";
  size_t n = 1;
  step(s);
  for (; *s->at != '(' && *s->at != '\0' && n < sizeof end - 2; step(s))
    end[n++] = *s->at;
  end[n++] = '"';
  skip_until(s, end, n);
}

/* Whether a comment or a literal begins here; goes past it if so. */
static bool skip_other(scan *s) {
  if (s->at[0] == '/' && s->at[1] == '/')
    skip_until(s, "\n", 1);
  else if (s->at[0] == '/' && s->at[1] == '*')
    skip_until(s, "*/", 2);
  else if (s->at[0] == '"' || s->at[0] == '\'')
    skip_quoted(s);
  else
    return false;
  return true;
}

static bool in_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

static void skip_space(scan *s) {
  for (;;) {
    if (isspace((unsigned char)*s->at))
      step(s);
    else if (*s->at != '/' || !skip_other(s))
      return;
  }
}

/* A word or a number (with its digit separators); empty at anything else. */
static size_t take_word(scan *s, const char **begin) {
  *begin = s->at;
  bool number = isdigit((unsigned char)*s->at);
  while (in_word(*s->at) || (number && *s->at == '\'')) step(s);
  return (size_t)(s->at - *begin);
}

static bool is_word(const char *word, size_t size, const char *want) {
  return size == strlen(want) && memcmp(word, want, size) == 0;
}

static void add_kernel(cel_found_list *out, const char *name, size_t size,
                       int32_t line) {
  for (uint32_t i = 0; i < out->n; ++i)
    if (is_word(name, size, out->at[i].name)) return; /* a variant by #if */
  char *copy = cel_alloc(size + 1);
  memcpy(copy, name, size);
  copy[size] = '\0';
  cel_vec_push(out, (cel_found){copy, line});
}

/* After the word `kernel`. */
static void scan_kernel(scan *s, cel_found_list *out) {
  const char *word;
  int32_t line = s->line;
  skip_space(s);
  size_t size = take_word(s, &word);
  if (!is_word(word, size, "void")) return;
  skip_space(s);
  size = take_word(s, &word);
  skip_space(s);
  if (size > 0 && *s->at == '(') add_kernel(out, word, size, line);
}

static void skip_parentheses(scan *s) {
  int depth = 0;
  do {
    if (skip_other(s)) continue;
    depth += (*s->at == '(') - (*s->at == ')');
    step(s);
  } while (depth > 0 && *s->at != '\0');
}

/* After the word `__global__`: the first word before a parenthesis that is no
 * attribute. */
static void scan_global(scan *s, cel_found_list *out) {
  for (;;) {
    const char *word;
    int32_t line = s->line;
    skip_space(s);
    size_t size = take_word(s, &word);
    if (size == 0) return;
    skip_space(s);
    if (*s->at != '(') continue;
    if (size > 2 && word[0] == '_' && word[1] == '_') {
      skip_parentheses(s);
      continue;
    }
    add_kernel(out, word, size, line);
    return;
  }
}

/* The next word outside of comments and literals; empty: there is none. */
static size_t next_word(scan *s, const char **word) {
  while (*s->at != '\0') {
    if (skip_other(s)) continue;
    size_t size = take_word(s, word);
    if (size == 0)
      step(s);
    else if (*s->at == '"' && (*word)[size - 1] == 'R')
      skip_raw(s);
    else
      return size;
  }
  return 0;
}

void cel_source_scan(const cel_source *source, cel_found_list *out) {
  bool plain = source->block[0] > 0;
  scan s = {source->text, source->line};
  const char *word;
  for (size_t size; (size = next_word(&s, &word)) > 0;) {
    if (plain && is_word(word, size, "__global__"))
      scan_global(&s, out);
    else if (!plain && is_word(word, size, "kernel"))
      scan_kernel(&s, out);
  }
}

bool cel_source_is_plain(const cel_source *source) {
  scan s = {source->text, source->line};
  const char *word;
  for (size_t size; (size = next_word(&s, &word)) > 0;)
    if (is_word(word, size, "__global__")) return true;
  return false;
}

/* After `static`: whether a variable follows that may change. What parentheses
 * that no number or literal begins belong to is a function. */
static bool declares_variable(scan *s) {
  for (;;) {
    const char *word;
    skip_space(s);
    size_t size = take_word(s, &word);
    if (is_word(word, size, "const") || is_word(word, size, "constexpr"))
      return false;
    if (is_word(word, size, "alignas") || is_word(word, size, "decltype") ||
        is_word(word, size, "__attribute__")) {
      skip_space(s);
      skip_parentheses(s);
    } else if (size == 0) {
      if (*s->at == '\0' || strchr(";=[{", *s->at) != NULL) return true;
      if (*s->at == '(') {
        step(s);
        skip_space(s);
        return isdigit((unsigned char)*s->at) ||
               (*s->at != '\0' && strchr("+-.\"'", *s->at) != NULL);
      }
      step(s);
    }
  }
}

bool cel_source_has_variables(const char *text) {
  scan s = {text, 0};
  const char *word;
  for (size_t size; (size = next_word(&s, &word)) > 0;) {
    if (is_word(word, size, "thread_local")) return true;
    if (is_word(word, size, "static") && declares_variable(&s)) return true;
  }
  return false;
}

void cel_found_release(cel_found_list *list) {
  for (uint32_t i = 0; i < list->n; ++i) cel_free(list->at[i].name);
  cel_vec_release(list);
}

/* What celer's headers have templates of, <math.h> in g++, and NVRTC. The
 * address of a function with such a name cannot be told without its type
 * (CELER_KERNEL). */
static const char templates[] =
    " acos acosh asin asinh atan atan2 atanh atomicAdd atomicAnd atomicCAS "
    "atomicDec atomicExch atomicInc atomicMax atomicMin atomicOr atomicSub "
    "atomicXor cbrt ceil clamp copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod fpclassify frexp hypot ilogb "
    "isfinite isgreater isgreaterequal isinf isless islessequal "
    "islessgreater isnan isnormal isunordered ldexp lgamma llrint llround "
    "log log10 log1p log2 logb lrint lround max min nearbyint nextafter "
    "nexttoward pow remainder remquo rint round scalbln scalbn signbit sin "
    "sinh sqrt tan tanh tgamma trunc ";

static bool is_template(const char *name) {
  char word[32];
  int n = snprintf(word, sizeof word, " %s ", name);
  return n < (int)sizeof word && strstr(templates, word) != NULL;
}

const cel_found *cel_found_taken(const cel_found_list *list) {
  for (uint32_t i = 0; i < list->n; ++i)
    if (is_template(list->at[i].name)) return &list->at[i];
  return NULL;
}

/* ---- assembling */

static void add_line(cel_text *out, int32_t line, const char *file) {
  cel_text_format(out, "\n#line %d \"", line);
  for (; *file != '\0'; ++file) {
    if (*file == '"' || *file == '\\') cel_text_add(out, "\\", 1);
    cel_text_add(out, file, 1);
  }
  cel_text_add(out, "\"\n", 2);
}

/* After the header, which has names of its own: a user may well define N. */
static void add_define(cel_text *out, const char *define) {
  size_t n = strcspn(define, "=");
  cel_text_format(out, "#define %.*s %s\n", (int)n, define,
                  define[n] == '=' ? define + n + 1 : "1");
}

/* Before the entries, which have names of celer's too. That of a kernel stands
 * for the one that it defines. */
static void end_define(cel_text *out, const char *name, size_t size,
                       const cel_found_list *kernels) {
  for (uint32_t i = 0; i < kernels->n; ++i)
    if (is_word(name, size, kernels->at[i].name)) return;
  cel_text_format(out, "#undef %.*s\n", (int)size, name);
}

static bool is_directive(const char *text, const char *word) {
  while (word > text && isblank((unsigned char)word[-1])) --word;
  return word > text && word[-1] == '#';
}

/* Those in the text. */
static void end_defines(cel_text *out, const cel_source *source,
                        const cel_found_list *kernels) {
  scan s = {source->text, source->line};
  const char *word;
  for (size_t size; (size = next_word(&s, &word)) > 0;) {
    if (!is_word(word, size, "define") || !is_directive(source->text, word))
      continue;
    skip_space(&s);
    size = take_word(&s, &word);
    if (size > 0) end_define(out, word, size, kernels);
  }
}

/* How often g++ is to write out a loop; without a number, or with one that a
 * template may give, which it cannot read, all turns of a short one. */
static int32_t turns_of(const char *text) {
  enum { ALL = 32, MOST = 65534 };
  while (isblank((unsigned char)*text) || *text == '(') ++text;
  int64_t n = isdigit((unsigned char)*text) ? strtoll(text, NULL, 10) : ALL;
  return (int32_t)(n < MOST ? n : MOST);
}

/* The user's; g++ has another word for CUDA's `#pragma unroll`. */
static void add_text(cel_text *out, const cel_source *source) {
  scan s = {source->text, source->line};
  const char *word, *copied = source->text;
  for (size_t size; (size = next_word(&s, &word)) > 0;) {
    if (!is_word(word, size, "pragma") || !is_directive(source->text, word))
      continue;
    while (isblank((unsigned char)*s.at)) step(&s);
    size = take_word(&s, &word);
    if (!is_word(word, size, "unroll")) continue;
    const char *begin = word, *end = s.at + strcspn(s.at, "\n");
    while (*begin != '#') --begin;
    cel_text_add(out, copied, (size_t)(begin - copied));
    cel_text_format(out,
                    "\n#if defined CELER_CUDA || defined __clang__\n%.*s\n"
                    "#else\n#pragma GCC unroll %d\n#endif\n#line %d",
                    (int)(end - begin), begin, turns_of(s.at), s.line + 1);
    copied = end;
  }
  cel_text_add(out, copied, strlen(copied));
}

static bool has_any(const char *text, const char *const *words) {
  for (; *words != NULL; ++words)
    if (strstr(text, *words) != NULL) return true;
  return false;
}

/* Whether one of the words is in what the user writes. */
static bool user_has_any(const cel_source *source, const char *const *words) {
  bool has = has_any(source->text, words);
  for (int32_t i = 0; i < source->defines; ++i)
    has = has || has_any(source->define[i], words);
  for (int32_t i = 0; i < source->options; ++i)
    has = has || has_any(source->option[i], words);
  return has;
}

void cel_source_assemble(const cel_source *source, const char *header,
                         size_t header_size, const cel_found_list *kernels,
                         cel_text *out, cel_source_parts *parts) {
  static const char *const of_std[] = {"std", "include", NULL};
  /* <math.h> of GNU's library takes half as long without the special functions
   * of C++17: this is the guard of the header that they are in. */
  if (!user_has_any(source, of_std))
    cel_text_format(out, "#define _GLIBCXX_BITS_SPECFUN_H\n");
  cel_text_add(out, header, header_size);
  cel_text_add(out, "\n", 1);
  parts->prelude = out->n;
  if (source->prelude != NULL)
    cel_text_add(out, source->prelude, strlen(source->prelude));
  cel_text_add(out, "\n", 1);
  parts->text = out->n;
  for (int32_t i = 0; i < source->defines; ++i)
    add_define(out, source->define[i]);
  add_line(out, source->line, source->file);
  add_text(out, source);
  cel_text_add(out, "\n", 1);
  for (int32_t i = 0; i < source->defines; ++i)
    end_define(out, source->define[i], strcspn(source->define[i], "="),
               kernels);
  end_defines(out, source, kernels);
  parts->entries = out->n;
  for (uint32_t i = 0; i < kernels->n; ++i) {
    cel_text_format(out, "#if !defined CELER_ONLY || CELER_ONLY == %u", i + 1);
    add_line(out, kernels->at[i].line, source->file);
    cel_text_format(out, "CELER_ENTRY(%s)\n#endif\n", kernels->at[i].name);
  }
}

/* ---- keys */

/* NVRTC has an assert without a header; it says where it stands. */
bool cel_source_is_placed(const cel_source *source, const cel_text *assembled) {
  static const char *const by_user[] = {"include", "import", "embed",
                                        "assert",  "#line",  NULL};
  static const char *const in_all[] = {"__LINE__", "__FILE_", "__builtin_LINE",
                                       "__builtin_FILE", NULL};
  /* Others include files, or leave a debugger its places. */
  bool plain = true;
  for (int32_t i = 0; i < source->options && plain; ++i) {
    const char *word = source->option[i];
    plain = word[0] == '-' && word[1] != '\0' &&
            strchr("DOfm", word[1]) != NULL && !has_any(word, in_all);
  }
  return !plain || user_has_any(source, by_user) ||
         has_any(cel_text_string(assembled), in_all);
}

/* Without the directives that say where a text stands. */
void cel_source_key(const cel_source *source, const cel_text *assembled,
                    cel_key *key) {
  static const char place[] = "\n#line ";
  const char *at = cel_text_string(assembled), *next;
  if (cel_source_is_placed(source, assembled)) {
    cel_key_add(key, assembled->at, assembled->n);
    if (source->directory != NULL) cel_key_add_string(key, source->directory);
    return;
  }
  while ((next = strstr(at, place)) != NULL) {
    cel_key_add(key, at, (size_t)(next - at));
    at = next + 1 + strcspn(next + 1, "\n");
  }
  cel_key_add_string(key, at);
}

/* ---- what the compiler said */

typedef struct cleaner {
  const char *file; /* the user's */
  cel_text *out;
  int32_t *line;   /* first place in the user's file */
  char place[512]; /* "file:line:" that celer's next error stands for */
  char held[512];  /* celer's error that waits for a place (clang) */
  bool dropping;   /* source lines that belong to what was dropped */
  bool refused;    /* a header said why; what follows from that is noise */
} cleaner;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* Whether a line begins something; else it belongs to the line before it. */
static bool is_head(const char *text) {
  static const char *const heads[] = {
      " error: ",      " note: ",    " warning: ", " fatal error: ",
      "included from", "  required", ": In ",      NULL};
  return has_any(text, heads);
}

/* Line number when `text` is at a place in the user's file, else 0. */
static int32_t user_line(const cleaner *c, const char *text) {
  size_t n = strlen(c->file);
  if (strncmp(text, c->file, n) != 0 || text[n] != ':') return 0;
  return (int32_t)strtol(text + n + 1, NULL, 10);
}

/* What takes a kernel's address finds all functions of its name: CELER_KERNEL,
 * and plain.cuh. A number is what number.cuh makes of a define. */
static const char *hint(const char *text) {
  if (strstr(text, "error:") == NULL) return "";
  if (strstr(text, "celer::chosen") != NULL ||
      strstr(text, "call to 'chosen") != NULL)
    return "; of the functions with a kernel's name one begins with an item, a "
           "tile or a group, and none is a template";
  if (strstr(text, "which instance of overloaded function") != NULL)
    return "; a kernel may not have the name of another function";
  if (strstr(text, "celer::number") != NULL ||
      strstr(text, "celer_number") != NULL)
    return "; a define that is a fraction takes its type from what it meets: "
           "here write int(NAME), float(NAME) or double(NAME)";
  return "";
}

static void emit(cleaner *c, const char *text) {
  int32_t line = user_line(c, text);
  if (line > 0 && *c->line == 0 && strstr(text, "error:") != NULL)
    *c->line = line;
  cel_text_format(c->out, "%s%s\n", text, hint(text));
}

static void emit_celer(cleaner *c, const char *message) {
  char text[1100];
  snprintf(text, sizeof text, "%s error: %s", c->place, message);
  emit(c, text);
  c->place[0] = c->held[0] = '\0';
}

/* The words of `static_assert(..., "words")` in a compiler's message, which
 * writes them in quotes or after a colon; false when it is none. */
static bool take_assertion(const char *message, char *out, size_t size) {
  const char *text = strstr(message, "static assertion failed");
  if (text == NULL) text = strstr(message, "static_assert failed");
  if (text == NULL) return false;
  const char *quote = strchr(text, '"');
  text = quote != NULL ? quote + 1 : strstr(text, "failed: ");
  if (text == NULL) return false;
  if (quote == NULL) text += strlen("failed: ");
  snprintf(out, size, "%.*s", (int)strcspn(text, "\""), text);
  return true;
}

/* An error inside a header of celer's is the fault of the kernel that led
 * there. */
static void celer_line(cleaner *c, const char *text) {
  char words[512];
  const char *message = strstr(text, "error: ");
  c->dropping = true;
  if (message == NULL) return;
  message += strlen("error: ");
  if (take_assertion(message, words, sizeof words))
    c->refused = true;
  else if (c->refused)
    return;
  else
    snprintf(words, sizeof words, "%s", message);
  if (c->place[0] != '\0')
    emit_celer(c, words);
  else
    memcpy(c->held, words, sizeof words);
}

/* A line that only says how celer's templates came to be used. */
static bool chain_line(cleaner *c, const char *text) {
  static const char *const chain[] = {"  required ",
                                      "in instantiation of ",
                                      "In instantiation of ",
                                      "expanded from macro 'CELER_",
                                      "in expansion of macro 'CELER_",
                                      "<scratch space>",
                                      "'celer::signature<",
                                      "'celer::entry<",
                                      "\"celer::signature<",
                                      "\"celer::entry<",
                                      "\"celer::plain_",
                                      NULL};
  if (!has_any(text, chain)) return false;
  c->dropping = true;
  int32_t line = user_line(c, text);
  if (line == 0) return true;
  snprintf(c->place, sizeof c->place, "%s:%d:", c->file, line);
  if (c->held[0] != '\0') emit_celer(c, c->held);
  return true;
}

static void clean_line(cleaner *c, const char *text) {
  if (c->dropping && !is_head(text)) return;
  if (chain_line(c, text)) return;
  if (begins(text, CEL_SOURCE_HEADERS)) {
    celer_line(c, text);
    return;
  }
  c->dropping = strstr(text, "generated.") != NULL ||
                begins(text, "compilation terminated") ||
                begins(text, "cc1plus:") || text[0] == '\0';
  if (!c->dropping) emit(c, text);
}

void cel_source_clean(const cel_source *source, const char *said, cel_text *out,
                      int32_t *line) {
  cleaner c = {.file = source->file, .out = out, .line = line};
  char text[4096];
  *line = 0;
  while (*said != '\0') {
    size_t n = strcspn(said, "\n");
    snprintf(text, sizeof text, "%.*s", (int)n, said);
    clean_line(&c, text);
    said += n + (said[n] == '\n');
  }
  if (c.held[0] != '\0') {
    snprintf(c.place, sizeof c.place, "%s:%d:", c.file, source->line);
    emit_celer(&c, c.held);
  }
}

/* ---- NVRTC's messages
 *
 *   file(3): error: text          becomes   file:3: error: text
 *     the source's line                     as it is
 *         ^
 *   <celer>/x.cuh(9): error: text           file:3: required from here
 *     ...                                   <celer>/x.cuh:9: error: text
 *     detected during ... at line 3 of file
 */

/* The number in "(3): " at the end of the file's name, else null. */
static const char *nvrtc_place(const char *text, size_t size) {
  const char *at = memchr(text, '(', size);
  for (; at != NULL; at = memchr(at + 1, '(', size - (size_t)(at + 1 - text))) {
    size_t digits = strspn(at + 1, "0123456789");
    if (digits > 0 && begins(at + 1 + digits, "): ")) return at + 1;
  }
  return NULL;
}

static bool nvrtc_noise(const char *line) {
  static const char *const noise[] = {" detected in the compilation of ",
                                      "Compilation terminated",
                                      "Remark: The warnings can be", NULL};
  return has_any(line, noise) || line[strspn(line, " ")] == '\0';
}

/* What follows a message, up to the next one: the last "at line N of FILE" in
 * it is the place in the user's text that led there. */
static void nvrtc_origin(const char *after, cel_text *out) {
  const char *found = NULL, *line = after;
  size_t size = strcspn(line, "\n");
  for (; *line != '\0' && nvrtc_place(line, size) == NULL;
       line += size + (line[size] == '\n'), size = strcspn(line, "\n"))
    for (const char *at = line;
         (at = strstr(at, " at line ")) != NULL && at < line + size; ++at)
      found = at + strlen(" at line ");
  if (found == NULL) return;
  size_t digits = strspn(found, "0123456789");
  const char *file = found + digits;
  if (!begins(file, " of ")) return;
  file += strlen(" of ");
  cel_text_format(out, "%.*s:%.*s:  required from here\n",
                  (int)strcspn(file, "\n"), file, (int)digits, found);
}

static void nvrtc_head(const char *line, size_t size, const char *number,
                       cel_text *out) {
  const char *rest = strchr(number, ')') + 1;
  const char *fatal = ": catastrophic error:";
  if (begins(line, CEL_SOURCE_HEADERS))
    nvrtc_origin(line + size + (line[size] == '\n'), out);
  cel_text_format(out, "%.*s:%.*s", (int)(number - 1 - line), line,
                  (int)strspn(number, "0123456789"), number);
  if (begins(rest, fatal)) {
    cel_text_format(out, ": error:");
    rest += strlen(fatal);
  }
  cel_text_format(out, "%.*s\n", (int)(line + size - rest), rest);
}

void cel_source_as_gnu(const char *said, cel_text *out) {
  bool entry = false; /* the line of CELER_ENTRY, and the ^ below it */
  for (; *said != '\0'; said += *said == '\n') {
    char line[4096];
    size_t size = strcspn(said, "\n");
    snprintf(line, sizeof line, "%.*s", (int)size, said);
    const char *number = nvrtc_place(said, size);
    bool skip = entry;
    entry = begins(line + strspn(line, " "), "CELER_ENTRY(");
    if (number != NULL)
      nvrtc_head(said, size, number, out);
    else if (!entry && !skip && !nvrtc_noise(line))
      cel_text_format(out, "%s\n", line);
    said += size;
  }
}
