/* Kernels for the processor, by the machine's own C++ compiler.
 *
 * An entry's name is the key of: the assembled text, options, flags, the
 * processor, the compiler, and the content of every header that the last
 * compile of the same text included. Which headers those are is remembered in
 * `<base>.needs`, and with which compiler in `<base>.by`, so that a machine
 * without a compiler finds what another machine compiled. */

#include "device/compile/compile.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "device/compile/cache.h"
#include "device/compile/leftover.h"
#include "device/compile/process.h"

/* Bits must not depend on how a chunk is cut: no contraction, nothing that
 * reorders arithmetic. errno and traps are nobody's business in a kernel. For
 * g++ a min or max remains a branch until it knows which of the two it is, so
 * that it finds what a stencil reads beside itself contiguous (see `row` in
 * loop.cuh). It must not divide loops: where items are independent, it takes
 * two stores of one item to one element for independent, too, and makes the
 * first one last. Its combiner takes a and b for equal where neither a < b nor
 * b < a, though one of them may be a NaN; so branches become selections only
 * behind it, by ce2. Its if-conversion always takes a way that conditions on
 * integers rule out; so comparisons of fractions must not become such ones
 * behind what finds these ways, by forwprop3. (It says in notes that both are
 * off.) A loop that never ends stays one, for the watchdog to name. Large local
 * arrays touch each page of theirs, so that none of them reaches beyond what
 * lies below the stack (thread.h). */
static const char *const flags[] = {
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fstack-clash-protection",
    "-fno-finite-loops",
    "-w",
    "-fdiagnostics-color=never",
    "-fmax-errors=8", /* from here on for g++ alone */
    "-fno-ssa-phiopt",
    "-fno-tree-loop-distribution",
    "-fdisable-rtl-ce1",
    "-fdisable-tree-forwprop3",
};
enum { FLAGS = sizeof flags / sizeof flags[0], GNU_FLAGS = 5, WORDS = 8 };

/* ---- the compiler */

typedef struct compiler {
  bool looked;
  int32_t words; /* 0: none */
  char *word[WORDS];
  char *version; /* first line; null: none */
  cel_text why;  /* the first that is there does not run; or empty */
} compiler;

static compiler found; /* `finding`'s until it was looked for */
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

static char *first_line(const cel_text *text) {
  char *line = cel_strdup(cel_text_string(text));
  line[strcspn(line, "\n")] = '\0';
  return line;
}

static void note_why(cel_status status, const cel_text *said) {
  char *line = first_line(said);
  if (status != CEL_E_OK)
    cel_text_format(&found.why, ": %s", cel_error_last()->text);
  else if (line[0] != '\0')
    cel_text_format(&found.why, ": it says \"%s\"", line);
  cel_free(line);
}

/* `command` may have words after the program, as in CXX="ccache g++". */
static bool try_compiler(const char *command) {
  char *copy = cel_strdup(command), *rest = NULL;
  int32_t n = 0;
  for (char *w = strtok_r(copy, " ", &rest); w != NULL && n < WORDS;
       w = strtok_r(NULL, " ", &rest), ++n)
    found.word[n] = n == 0 ? cel_process_find(w) : cel_strdup(w);
  cel_free(copy);
  if (n == 0 || found.word[0] == NULL) return false;
  const char *argv[WORDS + 2] = {NULL};
  memcpy(argv, found.word, (size_t)n * sizeof *argv);
  argv[n] = "--version";
  cel_text said = {0};
  int code = 1;
  cel_status status = cel_process_run(argv, NULL, &said, &code);
  if (status == CEL_E_OK && code == 0) {
    found.words = n;
    found.version = first_line(&said);
  } else if (found.why.n == 0) {
    note_why(status, &said);
  }
  cel_vec_release(&said);
  return found.words > 0;
}

/* $CXX is final: what the user chose is not replaced. */
static void look_for_compiler(void) {
  static const char *const names[] = {"c++", "g++", "clang++"};
  const char *chosen = getenv("CXX");
  if (chosen != NULL && chosen[0] != '\0') {
    try_compiler(chosen);
    return;
  }
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
    if (try_compiler(names[i])) return;
}

/* Whether there is one. */
static bool find_compiler(void) {
  pthread_mutex_lock(&finding);
  if (!found.looked) look_for_compiler();
  found.looked = true;
  pthread_mutex_unlock(&finding);
  return found.words > 0;
}

const char *cel_compiler_describe(void) {
  return find_compiler() ? found.version : NULL;
}

static cel_status fail_missing(void) {
  const char *chosen = getenv("CXX");
  if (chosen != NULL && chosen[0] != '\0')
    return cel_fail(CEL_E_MISSING,
                    "the C++ compiler that CXX names, %s, does not run%s; "
                    "unset CXX or set it to g++ or clang++",
                    chosen, cel_text_string(&found.why));
  if (found.why.n > 0)
    return cel_fail(CEL_E_MISSING,
                    "the C++ compiler does not run%s, and this kernel is not "
                    "in the cache",
                    cel_text_string(&found.why));
  return cel_fail(CEL_E_MISSING,
                  "no C++ compiler was found (c++, g++, clang++), and this "
                  "kernel is not in the cache; install g++ or clang++, or set "
                  "CXX");
}

/* ---- keys */

static cel_key processor; /* cel_compile_prepare's */

static void look_at_processor(void) {
  char line[8192];
  bool model = false, features = false;
  FILE *file = fopen("/proc/cpuinfo", "re");
  processor.half[0] = 1;
  while (file != NULL && !(model && features) &&
         fgets(line, sizeof line, file) != NULL) {
    bool is_model = strncmp(line, "model name", 10) == 0;
    bool is_features =
        strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
    if (is_model || is_features) cel_key_add_string(&processor, line);
    model = model || is_model;
    features = features || is_features;
  }
  if (file != NULL) fclose(file);
}

void cel_compile_prepare(void) {
  if (processor.half[0] == 0) look_at_processor();
  cel_cache_folder();
}

uint64_t cel_compile_processor(void) {
  if (processor.half[0] == 0) look_at_processor();
  const char *library = gnu_get_libc_version();
  return cel_hash(library, strlen(library), processor.half[0]);
}

static cel_key base_key(const cel_source *source, const cel_text *assembled,
                        cel_rows rows, bool sample) {
  cel_key key = {{2, 4}}; /* of this format */
  cel_source_key(source, assembled, &key);
  for (int i = 0; i < FLAGS; ++i) cel_key_add_string(&key, flags[i]);
  for (int32_t i = 0; i < source->options; ++i)
    cel_key_add_string(&key, source->option[i]);
  cel_key_add(&key, &source->only, sizeof source->only);
  if (!sample) cel_key_add(&key, &rows, sizeof rows);
  cel_key_add(&key, &sample, sizeof sample);
  cel_key_add(&key, &processor, sizeof processor);
  return key;
}

/* `needs` lists headers, one per line. False when one cannot be read. */
static bool add_headers(cel_key *key, const cel_text *needs) {
  bool fine = true;
  for (const char *at = cel_text_string(needs); *at != '\0' && fine;) {
    size_t n = strcspn(at, "\n");
    cel_text path = {0}, content = {0};
    cel_text_add(&path, at, n);
    fine = n == 0 || cel_text_read(&content, path.at);
    cel_key_add(key, at, n);
    cel_key_add(key, content.at, content.n);
    cel_vec_release(&path);
    cel_vec_release(&content);
    at += n + (at[n] == '\n');
  }
  return fine;
}

static void add_compiler(cel_text *out) {
  for (int32_t i = 0; i < found.words; ++i)
    cel_text_format(out, "%s ", found.word[i]);
  cel_text_format(out, "%s", found.version);
}

/* Reads `<base><suffix>`; false when it is absent or damaged. */
static bool read_note(const cel_key *base, const char *suffix, cel_text *out) {
  cel_text path = cel_cache_path(base, suffix);
  bool fine = cel_cache_read(path.at, out);
  if (!fine) cel_vec_clear(out);
  cel_vec_release(&path);
  return fine;
}

/* The entry's key from what the cache remembers of the text; false when that
 * does not suffice. */
static bool entry_key(const cel_key *base, cel_key *out) {
  cel_text by = {0}, needs = {0};
  bool fine = true;
  if (find_compiler())
    add_compiler(&by);
  else
    fine = read_note(base, ".by", &by);
  *out = *base;
  cel_key_add(out, by.at, by.n);
  fine = fine && read_note(base, ".needs", &needs) && add_headers(out, &needs);
  cel_vec_release(&by);
  cel_vec_release(&needs);
  return fine;
}

/* ---- loading */

static const char *suffix_of(bool sample) {
  return sample ? CEL_CACHE_SAMPLE : ".so";
}

/* Null when the entry is absent or damaged. */
static void *load(const cel_key *key, bool sample) {
  cel_text path = cel_cache_path(key, suffix_of(sample)), content = {0};
  void *library = NULL;
  if (cel_cache_read(path.at, &content))
    library = dlopen(path.at, RTLD_NOW | RTLD_LOCAL);
  cel_vec_release(&path);
  cel_vec_release(&content);
  return library;
}

static void *find_entry(const cel_key *base, bool sample) {
  cel_key key;
  return entry_key(base, &key) ? load(&key, sample) : NULL;
}

/* ---- compiling */

typedef struct build {
  const cel_source *source;
  const cel_text *assembled;
  cel_rows rows;
  bool sample;
  cel_scratch scratch;
  cel_text in, out, needs; /* paths */
  CEL_VEC(const char *) argv;
  CEL_VEC(char *) made; /* words that the build owns */
} build;

static void made_word(build *b, const char *prefix, const char *text) {
  cel_text word = {0};
  cel_text_format(&word, "%s%s", prefix, text);
  cel_vec_push(&b->made, word.at);
  cel_vec_push(&b->argv, word.at);
}

static void made_number(build *b, const char *prefix, int32_t n) {
  char number[16];
  snprintf(number, sizeof number, "%d", n);
  made_word(b, prefix, number);
}

/* In kernels that were Lua, which says so in their text, g++ must not thread
 * jumps: where x - y < 2 is false, g++ 13 takes x for at least 2 + y, though y
 * may be a NaN; and what g++ 12 makes of indices that wrap around is no loop to
 * vectorize. lua/celer/kernel/from_lua/variant.lua says the same. */
static bool threads_jumps(const cel_source *source) {
  return strstr(source->text, "// was Lua") == NULL;
}

static void make_arguments(build *b) {
  const cel_source *s = b->source;
  for (int32_t i = 0; i < found.words; ++i)
    cel_vec_push(&b->argv, found.word[i]);
  bool clang = strstr(found.version, "clang") != NULL;
  int n = FLAGS - (clang ? GNU_FLAGS : 0);
  for (int i = 0; i < n; ++i) cel_vec_push(&b->argv, flags[i]);
  if (!clang && !threads_jumps(s)) cel_vec_push(&b->argv, "-fno-thread-jumps");
  if (b->sample)
    cel_vec_push(&b->argv, "-DCELER_SAMPLE");
  else if (b->rows != CEL_ROWS_SHORT)
    made_number(b, "-DCELER_ROWS=", (int32_t)b->rows);
  if (s->directory != NULL && cel_source_is_placed(s, b->assembled))
    made_word(b, "-I", s->directory);
  for (int32_t i = 0; i < s->options; ++i) cel_vec_push(&b->argv, s->option[i]);
  if (s->only > 0) made_number(b, "-DCELER_ONLY=", s->only);
  const char *const rest[] = {"-MMD",  "-MF",    b->needs.at, "-MT",
                              "needs", "-o",     b->out.at,   "-x",
                              "c++",   b->in.at, NULL};
  for (size_t i = 0; i < sizeof rest / sizeof rest[0]; ++i)
    cel_vec_push(&b->argv, rest[i]);
}

/* The headers of a make rule "needs: in.cpp a.h dir\ with\ space/b.h", one per
 * line. The first prerequisite is that file itself. */
static void read_needs(const char *path, cel_text *out) {
  cel_text rule = {0};
  cel_text_read(&rule, path);
  const char *p = strchr(cel_text_string(&rule), ':');
  int word = 0;
  for (p = p != NULL ? p + 1 : ""; *p != '\0'; ++p) {
    bool gap = *p == ' ' || *p == '\n';
    if (*p == '\\' && p[1] == '\n') {
      ++p;
      gap = true;
    } else if (*p == '\\' && (p[1] == ' ' || p[1] == '#')) {
      ++p;
    }
    if (!gap && word > 0) cel_text_add(out, p, 1);
    bool ends = p[1] == ' ' || p[1] == '\n' || p[1] == '\0' ||
                (p[1] == '\\' && p[2] == '\n');
    if (!gap && ends && word++ > 0) cel_text_add(out, "\n", 1);
  }
  cel_vec_release(&rule);
}

/* Puts what was built in the cache. */
static cel_status keep(build *b, const cel_key *base, cel_key *key) {
  cel_text by = {0}, needs = {0}, library = {0};
  add_compiler(&by);
  read_needs(b->needs.at, &needs);
  cel_text path_by = cel_cache_path(base, ".by");
  cel_text path_needs = cel_cache_path(base, ".needs");
  *key = *base;
  cel_key_add(key, by.at, by.n);
  cel_status status = CEL_E_OK;
  if (!add_headers(key, &needs) || !cel_text_read(&library, b->out.at))
    status = cel_fail(CEL_E_IO, "cannot read back what was compiled: %s",
                      strerror(errno));
  cel_text path = cel_cache_path(key, suffix_of(b->sample));
  if (status == CEL_E_OK) status = cel_cache_write(path.at, &library);
  if (status == CEL_E_OK) status = cel_cache_write(path_needs.at, &needs);
  if (status == CEL_E_OK) status = cel_cache_write(path_by.at, &by);
  cel_vec_release(&by);
  cel_vec_release(&needs);
  cel_vec_release(&library);
  cel_vec_release(&path);
  cel_vec_release(&path_by);
  cel_vec_release(&path_needs);
  return status;
}

static cel_status run_compiler(build *b) {
  cel_text said = {0};
  int code = 0;
  cel_text_format(&b->in, "%s/kernel.cpp", b->scratch.path.at);
  cel_text_format(&b->out, "%s/kernel.so", b->scratch.path.at);
  cel_text_format(&b->needs, "%s/kernel.d", b->scratch.path.at);
  make_arguments(b);
  cel_status status = CEL_E_OK;
  if (!cel_text_write(b->assembled, b->in.at))
    status =
        cel_fail(CEL_E_IO, "cannot write %s: %s", b->in.at, strerror(errno));
  if (status == CEL_E_OK)
    status = cel_process_run(b->argv.at, b->scratch.path.at, &said, &code);
  if (status == CEL_E_OK && code != 0)
    status = cel__compile_fail(b->source, cel_text_string(&said));
  cel_vec_release(&said);
  return status;
}

static cel_status compile(const cel_source *source, const cel_text *assembled,
                          cel_rows rows, bool sample, const cel_key *base,
                          cel_key *key) {
  build b = {
      .source = source, .assembled = assembled, .rows = rows, .sample = sample};
  CEL_TRY(cel_cache_scratch(&b.scratch));
  cel_status status = run_compiler(&b);
  if (status == CEL_E_OK) status = keep(&b, base, key);
  cel_scratch_end(&b.scratch);
  for (uint32_t i = 0; i < b.made.n; ++i) cel_free(b.made.at[i]);
  cel_vec_release(&b.made);
  cel_vec_release(&b.argv);
  cel_vec_release(&b.in);
  cel_vec_release(&b.out);
  cel_vec_release(&b.needs);
  return status;
}

bool cel_compile_cpu_find_sample(const cel_source *source,
                                 const cel_text *assembled, void **out) {
  cel_key base = base_key(source, assembled, CEL_ROWS_SHORT, true);
  cel_text none = {0};
  bool is = read_note(&base, CEL_CACHE_SAMPLE, &none);
  if (!is) *out = find_entry(&base, true);
  cel_vec_release(&none);
  return is || *out != NULL;
}

static void note_none(const cel_key *base) {
  const cel_text none = {0};
  cel_text path = cel_cache_path(base, CEL_CACHE_SAMPLE);
  if (!cel_leftover_ending()) cel_cache_write(path.at, &none);
  cel_vec_release(&path);
}

cel_status cel_compile_cpu(const cel_source *source, const cel_text *assembled,
                           cel_rows rows, bool sample, bool *was_there,
                           void **out) {
  cel_key base = base_key(source, assembled, rows, sample), key;
  void *library = find_entry(&base, sample);
  if (library == NULL && !find_compiler()) return fail_missing();
  bool found_it = library != NULL;
  if (library == NULL) {
    int lock = cel_cache_lock(&base);
    library =
        find_entry(&base, sample); /* another process may have been first */
    cel_status status = CEL_E_OK;
    if (library == NULL)
      status = compile(source, assembled, rows, sample, &base, &key);
    cel_cache_unlock(lock);
    if (sample && status == CEL_E_COMPILE) note_none(&base);
    if (status != CEL_E_OK) return status;
    if (library == NULL) library = load(&key, sample);
  }
  if (library == NULL) {
    const char *why = dlerror();
    return cel_fail(CEL_E_IO, "cannot load a compiled kernel: %s",
                    why != NULL ? why : "its file is damaged");
  }
  if (!sample) cel_cache_count(found_it, true);
  *was_there = found_it;
  *out = library;
  return CEL_E_OK;
}
