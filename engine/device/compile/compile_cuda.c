/* Kernels for GPUs, by NVRTC.
 *
 * An entry's name is the key of: the assembled text, every option, the
 * compiler, and the content of every header that the user's text may include
 * (include.h), of CUDA's own headers only where they are. A machine without
 * NVRTC, but with a driver, finds what another one compiled: `<base>.by` says
 * with which. */

#include "device/compile/compile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/compile/cache.h"
#include "device/compile/include.h"
#include "device/cuda_api.h"

enum { NVRTC_ERROR_INVALID_OPTION = 5, NVRTC_ERROR_COMPILATION = 6 };

typedef struct build {
  const cel_source *source;
  const cel_text *assembled;
  const char *suffix; /* of its entry */
  CEL_VEC(const char *) option;
  CEL_VEC(const char *) folder; /* for #include; CUDA's are the last ones */
  CEL_VEC(char *) made;         /* words that the build owns */
  int32_t of_cuda;              /* the first folder that is CUDA's */
  cel_text name;
} build;

static void build_release(build *b) {
  for (uint32_t i = 0; i < b->made.n; ++i) cel_free(b->made.at[i]);
  cel_vec_release(&b->made);
  cel_vec_release(&b->option);
  cel_vec_release(&b->folder);
  cel_vec_release(&b->name);
}

/* ---- options */

static const char *made_word(build *b, const char *first, const char *second) {
  cel_text word = {0};
  cel_text_format(&word, "%s%s", first, second);
  cel_vec_push(&b->made, word.at);
  return word.at;
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* Whether the user gave an option that begins with one of these. */
static bool given(const cel_source *source, const char *a, const char *b) {
  for (int32_t i = 0; i < source->options; ++i)
    if (begins(source->option[i], a) || begins(source->option[i], b))
      return true;
  return false;
}

bool cel__contracts_by_options(const cel_source *source) {
  return given(source, "-fmad", "--fmad") ||
         given(source, "-use_fast_math", "--use_fast_math");
}

static void add_folder(build *b, const char *folder) {
  cel_vec_push(&b->folder, folder);
  cel_vec_push(&b->option, made_word(b, "-I", folder));
}

/* A user's option, of which the key needs the folders. */
static void add_option(build *b, int32_t i) {
  const cel_source *s = b->source;
  const char *word = s->option[i], *path = NULL;
  static const char *const names[] = {"--include-path=", "-I", NULL};
  for (int n = 0; names[n] != NULL && path == NULL; ++n)
    if (begins(word, names[n])) path = word + strlen(names[n]);
  if (path != NULL && path[0] == '\0' && i + 1 < s->options)
    path = s->option[i + 1];
  if (path != NULL) cel_vec_push(&b->folder, path);
  cel_vec_push(&b->option, word);
}

/* Where the toolkit is installed its headers may be included. */
static void add_cuda_folders(build *b) {
  static char root[4096]; /* `looking`'s; looked for once */
  static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
  b->of_cuda = (int32_t)b->folder.n;
  for (int i = 0; i < 2 && root[0] == '\0'; ++i) {
    const char *value = getenv(variables[i]);
    if (value != NULL && value[0] == '/' && realpath(value, root) == NULL)
      root[0] = '\0';
  }
  if (root[0] == '\0' && realpath("/usr/local/cuda", root) == NULL)
    snprintf(root, sizeof root, "/");
  const char *const parts[] = {"/include", "/include/cccl"};
  for (int i = 0; i < 2 && strcmp(root, "/") != 0; ++i) {
    const char *folder = made_word(b, root, parts[i]);
    if (access(folder, R_OK | X_OK) == 0) add_folder(b, folder);
  }
}

/* The newest architecture that NVRTC knows and that the GPU is not older than;
 * where it is another one, the driver compiles the rest of the way. */
static void add_architecture(build *b, int32_t wanted) {
  char why[256], word[48];
  const cel_nvrtc_api *api = cel_nvrtc_api_load(why, sizeof why);
  int known[64], count = 0, best = 0;
  if (api != NULL && api->nvrtcGetNumSupportedArchs(&count) == 0 &&
      count <= 64 && api->nvrtcGetSupportedArchs(known) == 0)
    for (int i = 0; i < count; ++i)
      if (known[i] <= wanted && known[i] > best) best = known[i];
  bool other = best != 0 && best != wanted;
  snprintf(word, sizeof word, "--gpu-architecture=%s_%d",
           other ? "compute" : "sm", other ? best : wanted);
  cel_vec_push(&b->option, made_word(b, word, ""));
}

static void build_prepare(build *b, cel_cuda_target target) {
  const cel_source *s = b->source;
  b->suffix = target.sample ? CEL_CACHE_SAMPLE : ".cubin";
  if (!given(s, "--gpu-architecture", "-arch"))
    add_architecture(b, target.architecture);
  if (!given(s, "--std", "-std")) cel_vec_push(&b->option, "--std=c++17");
  cel_vec_push(&b->option, "--device-as-default-execution-space");
  cel_vec_push(&b->option, "--disable-warnings");
  if (!target.contracted && !cel__contracts_by_options(s))
    cel_vec_push(&b->option, "-fmad=false");
  if (target.wide) cel_vec_push(&b->option, "-DCELER_WIDE=1");
  if (target.sample) cel_vec_push(&b->option, "-DCELER_SAMPLE=1");
  if (target.items == 512) cel_vec_push(&b->option, "-DCELER_GROUP=512");
  if (target.items == 1024) cel_vec_push(&b->option, "-DCELER_GROUP=1024");
  if (s->only > 0) {
    char number[16];
    snprintf(number, sizeof number, "%d", s->only);
    cel_vec_push(&b->option, made_word(b, "-DCELER_ONLY=", number));
  }
  if (s->directory != NULL && cel_source_is_placed(s, b->assembled))
    add_folder(b, s->directory);
  for (int32_t i = 0; i < s->options; ++i) add_option(b, i);
  add_cuda_folders(b);
  /* NVRTC also looks beside the file that the text is said to be. */
  cel_text_format(&b->name, "%s/celer kernel",
                  s->directory != NULL ? s->directory : "/");
}

/* ---- keys */

/* The entry's key with the compiler `by`; false when the files included cannot
 * be told, and so nothing may be kept. */
static bool entry_key(const build *b, const char *by, cel_key *out) {
  const cel_source *s = b->source;
  const cel_includes where = {
      .beside = s->directory,
      .folder = b->folder.at,
      .folders = (int32_t)b->folder.n,
      .of_compiler = b->of_cuda,
  };
  cel_key_add_string(out, by);
  return !given(s, "--pre-include", "-include") &&
         cel_include_key(out, s->text, &where) &&
         (s->prelude == NULL || cel_include_key(out, s->prelude, &where));
}

static cel_key base_key(const build *b) {
  cel_key key = {{3, 4}}; /* of this format */
  cel_source_key(b->source, b->assembled, &key);
  for (uint32_t i = 0; i < b->option.n; ++i)
    cel_key_add_string(&key, b->option.at[i]);
  return key;
}

/* With which compiler, though nobody asks where there is one. */
static void keep_by(const cel_key *base) {
  cel_text path = cel_cache_path(base, ".by");
  cel_cache_touch(path.at);
  cel_vec_release(&path);
}

static bool read_entry(const cel_key *key, const char *suffix, cel_text *out) {
  cel_text path = cel_cache_path(key, suffix);
  bool fine = cel_cache_read(path.at, out);
  if (!fine) cel_vec_clear(out);
  cel_vec_release(&path);
  return fine;
}

/* A cache that takes nothing costs a compile each time, no more. */
static void write_entry(const cel_key *key, const char *suffix,
                        const cel_text *content) {
  cel_text path = cel_cache_path(key, suffix);
  cel_cache_write(path.at, content);
  cel_vec_release(&path);
}

/* ---- compiling */

static cel_status fail_option(const cel_nvrtc_api *api, const build *b,
                              const char *log) {
  cel_text list = {0};
  for (int32_t i = 0; i < b->source->options; ++i)
    cel_text_format(&list, " %s", b->source->option[i]);
  cel_fail(CEL_E_COMPILE,
           "NVRTC, which compiles kernels for GPUs, refuses an option:%s\n%s",
           list.n > 0 ? list.at : " one of celer's own",
           log[0] != '\0'
               ? log
               : api->nvrtcGetErrorString(NVRTC_ERROR_INVALID_OPTION));
  cel_vec_release(&list);
  return cel_fail_at(b->source->file, b->source->line);
}

static cel_status fail_nvrtc(const cel_nvrtc_api *api, const build *b,
                             nvrtcProgram program, nvrtcResult code) {
  cel_text log = {0}, gnu = {0};
  size_t size = 0;
  if (api->nvrtcGetProgramLogSize(program, &size) == 0 && size > 0) {
    cel_vec_reserve(&log, size + 1);
    memset(log.at, 0, size + 1);
    api->nvrtcGetProgramLog(program, log.at);
    log.n = (uint32_t)strlen(log.at);
  }
  cel_status status;
  if (code == NVRTC_ERROR_INVALID_OPTION) {
    status = fail_option(api, b, cel_text_string(&log));
  } else if (code == NVRTC_ERROR_COMPILATION && log.n > 0) {
    cel_source_as_gnu(cel_text_string(&log), &gnu);
    status = cel__compile_fail(b->source, cel_text_string(&gnu));
  } else {
    status = cel_fail(CEL_E_COMPILE, "NVRTC failed: %s\n%s",
                      api->nvrtcGetErrorString(code), cel_text_string(&log));
  }
  cel_vec_release(&log);
  cel_vec_release(&gnu);
  return status;
}

static cel_status compile(const cel_nvrtc_api *api, const build *b,
                          cel_text *out) {
  nvrtcProgram program;
  size_t size = 0;
  nvrtcResult code = api->nvrtcCreateProgram(
      &program, cel_text_string(b->assembled), b->name.at, 0, NULL, NULL);
  if (code != 0)
    return cel_fail(CEL_E_COMPILE, "NVRTC: %s", api->nvrtcGetErrorString(code));
  code = api->nvrtcCompileProgram(program, (int)b->option.n, b->option.at);
  if (code == 0) code = api->nvrtcGetCUBINSize(program, &size);
  bool is_ptx = code == 0 && size == 0;
  if (is_ptx) code = api->nvrtcGetPTXSize(program, &size);
  if (code == 0) {
    cel_vec_reserve(out, size + 1);
    code = is_ptx ? api->nvrtcGetPTX(program, out->at + out->n)
                  : api->nvrtcGetCUBIN(program, out->at + out->n);
  }
  cel_status status = CEL_E_OK;
  if (code == 0) {
    out->n += (uint32_t)size;
    out->at[out->n] = '\0';
  } else {
    status = fail_nvrtc(api, b, program, code);
  }
  api->nvrtcDestroyProgram(&program);
  return status;
}

static cel_status fail_missing(const char *why) {
  return cel_fail(CEL_E_MISSING,
                  "this kernel is not in the cache, and cannot be compiled for "
                  "a GPU: %s; install CUDA's NVRTC, or run with --backend cpu",
                  why);
}

static cel_status compile_and_keep(const cel_nvrtc_api *api, const build *b,
                                   const cel_key *base, const cel_key *key,
                                   cel_text *out) {
  int lock = cel_cache_lock(base);
  cel_status status = CEL_E_OK;
  /* Another process may have been first. */
  if (!read_entry(key, b->suffix, out)) {
    cel_text by = {0};
    cel_text_format(&by, "%s", cel_nvrtc_version());
    status = compile(api, b, out);
    if (status == CEL_E_OK) write_entry(key, b->suffix, out);
    if (status == CEL_E_OK) write_entry(base, ".by", &by);
    cel_vec_release(&by);
  }
  cel_cache_unlock(lock);
  return status;
}

/* Where an entry is, or is to be. */
typedef struct place {
  cel_key base, key;
  bool keeps; /* it may be kept */
} place;

static bool find(const build *b, bool has_nvrtc, place *at, cel_text *out) {
  at->base = at->key = base_key(b);
  cel_text by = {0};
  bool known = true;
  if (has_nvrtc)
    cel_text_format(&by, "%s", cel_nvrtc_version());
  else
    known = read_entry(&at->base, ".by", &by);
  at->keeps = entry_key(b, cel_text_string(&by), &at->key);
  cel_vec_release(&by);
  if (!known || !at->keeps || !read_entry(&at->key, b->suffix, out))
    return false;
  keep_by(&at->base);
  return true;
}

static cel_status find_or_compile(const build *b, bool sample, bool *was_there,
                                  cel_text *out) {
  char why[256] = "";
  const cel_nvrtc_api *api = cel_nvrtc_api_load(why, sizeof why);
  place at;
  bool found = find(b, api != NULL, &at, out);
  if (!found && api == NULL) return fail_missing(why);
  cel_status status = found ? CEL_E_OK
                      : at.keeps
                          ? compile_and_keep(api, b, &at.base, &at.key, out)
                          : compile(api, b, out);
  if (sample && status == CEL_E_COMPILE) {
    const cel_text none = {0};
    write_entry(&at.base, CEL_CACHE_SAMPLE, &none);
  }
  CEL_TRY(status);
  *was_there = found;
  if (!sample) cel_cache_count(found, at.keeps);
  return CEL_E_OK;
}

/* NVRTC and the toolkit are looked for the first time. */
static void prepare(build *b, cel_cuda_target target) {
  static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&looking);
  build_prepare(b, target);
  cel_nvrtc_version();
  pthread_mutex_unlock(&looking);
}

bool cel_compile_cuda_find_sample(const cel_source *source,
                                  const cel_text *assembled,
                                  cel_cuda_target target, cel_text *out) {
  char why[256] = "";
  build b = {.source = source, .assembled = assembled};
  place at;
  prepare(&b, target);
  bool has_nvrtc = cel_nvrtc_api_load(why, sizeof why) != NULL;
  bool found = find(&b, has_nvrtc, &at, out);
  cel_text none = {0};
  found = found || read_entry(&at.base, CEL_CACHE_SAMPLE, &none);
  cel_vec_release(&none);
  build_release(&b);
  return found || !at.keeps;
}

cel_status cel_compile_cuda(const cel_source *source, const cel_text *assembled,
                            cel_cuda_target target, bool *was_there,
                            cel_text *out) {
  build b = {.source = source, .assembled = assembled};
  prepare(&b, target);
  cel_status status = find_or_compile(&b, target.sample, was_there, out);
  build_release(&b);
  return status;
}
