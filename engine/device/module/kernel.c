#include "device/kernel.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "device/compile/compile.h"
#include "device/cuda/cuda.h"
#include "device/module/module.h"
#include "device/sample.h"
#include "task/task.h"
#include "task/touched.h"
#include "tuning.h"

/* celer.cuh mirrors these. */
_Static_assert(sizeof(cel_view) == 128, "celer::view");
_Static_assert(sizeof(cel_lines) == 64, "celer::lines");
_Static_assert(sizeof(cel_touched) == 128, "celer::touched");
_Static_assert(offsetof(cel_call, strip) == 136, "celer::call, as a prefix");
_Static_assert(sizeof(cel_param) == 76, "celer::param");
_Static_assert(offsetof(cel_call, view) == 112, "celer::call::view_at");

enum { VALUES_ALIGN = 64 };

static const char *header_text; /* main's */
static size_t header_size;

void cel_module_set_header(const char *text, size_t size) {
  header_text = text;
  header_size = size;
}

static uint64_t hash_string(const char *text, uint64_t seed) {
  return cel_hash(text, strlen(text) + 1, seed);
}

/* Neither the compiler nor the processor: ranks must agree. */
static uint64_t hash_source(const cel_source *source) {
  uint64_t hash = hash_string(source->text, 0);
  if (source->prelude != NULL) hash = hash_string(source->prelude, hash);
  for (int32_t i = 0; i < source->defines; ++i)
    hash = hash_string(source->define[i], hash);
  for (int32_t i = 0; i < source->options; ++i)
    hash = hash_string(source->option[i], hash);
  if (source->contract != CEL_CONTRACT_BY_SHAPE)
    hash = cel_hash_word(hash, (uint64_t)source->contract);
  return hash;
}

static void *symbol(void *library, const char *prefix, const char *name) {
  cel_text full = {0};
  cel_text_format(&full, "%s%s", prefix, name);
  void *p = dlsym(library, full.at);
  cel_vec_release(&full);
  return p;
}

void cel__kernel_count(cel__kernel *kernel) {
  for (const cel_param *p = kernel->param; p->kind != 0; ++p) {
    ++kernel->params;
    if (p->kind == CEL_PARAM_VALUE) {
      uint32_t align = (uint32_t)p->align;
      uint32_t at = (kernel->values_size + align - 1) / align * align;
      kernel->values_size = at + (uint32_t)p->size;
    } else if (cel__param_is_view(p)) {
      ++kernel->views;
    }
    kernel->reducers += p->kind == CEL_PARAM_REDUCER;
  }
}

/* ---- for the processor */

static bool open_entry(const cel_module *module, void *library,
                       const char *name, cel__entry *entry) {
  void *run = symbol(library, "celer_run_", name);
  memcpy(&entry->run, &run, sizeof run); /* ISO C has no cast for it */
  if (module->checked) entry->fault = dlsym(library, "celer_fault");
  return run != NULL;
}

/* What all of its entries have in common. */
static bool open_kernel(const cel_module *module, const char *name,
                        cel__kernel *kernel) {
  kernel->param = symbol(module->library, "celer_params_", name);
  if (kernel->param == NULL) return false;
  cel__kernel_count(kernel);
  if (kernel->reducers == 0) return true;
  void *combine = symbol(module->library, "celer_combine_", name);
  memcpy(&kernel->combine, &combine, sizeof combine);
  return combine != NULL;
}

cel_status cel__module_load_cpu(cel_module *module, cel__build *build,
                                int32_t only, int32_t variant) {
  void *library = build->library;
  build->library = NULL;
  if (only == 0)
    module->library = library;
  else
    module->kernel[only - 1].entry[variant].library = library;
  for (uint32_t i = 0; i < module->found.n; ++i) {
    const char *name = module->found.at[i].name;
    cel__kernel *kernel = &module->kernel[i];
    bool is = only == 0 ? cel__module_wants(module, i) : only == (int32_t)i + 1;
    if (is && ((only == 0 && !open_kernel(module, name, kernel)) ||
               !open_entry(module, library, name, &kernel->entry[variant])))
      return cel_fail(CEL_E_IO, "a compiled kernel lacks %s", name);
  }
  return CEL_E_OK;
}

/* ---- modules */

static cel_status scan(const cel_source *source, cel_module *module) {
  cel_source_scan(source, &module->found);
  uint32_t n = module->found.n;
  if (n == 0) {
    bool plain = source->block[0] > 0;
    cel_fail(CEL_E_COMPILE, "the source holds no kernel; write `%s`%s",
             plain ? "__global__ void name(...) { ... }"
                   : "kernel void name(item<1> it, ...) { ... }",
             !plain && cel_source_is_plain(source)
                 ? ", or take `__global__` functions from a file by "
                   "celer.cuda_module"
                 : "");
    return cel_fail_at(source->file, source->line);
  }
  const cel_found *taken = cel_found_taken(&module->found);
  if (taken != NULL && source->block[0] == 0) {
    cel_fail(CEL_E_COMPILE, "a kernel may not have the name of the function %s",
             taken->name);
    return cel_fail_at(source->file, taken->line);
  }
  module->kernel = cel_alloc_zero(n * sizeof *module->kernel);
  for (uint32_t i = 0; i < n; ++i) {
    cel__kernel *kernel = &module->kernel[i];
    kernel->hash = hash_string(module->found.at[i].name, module->hash);
    kernel->variant = cel__module_first(module);
  }
  cel_source_assemble(source, header_text, header_size, &module->found,
                      &module->assembled, &module->parts);
  return CEL_E_OK;
}

/* At the beginning of a word: `__asm__`, but not `plasma`. */
static bool has_assembly(const char *text) {
  const char *at = text;
  while ((at = strstr(at, "asm")) != NULL) {
    if (at == text || !isalnum((unsigned char)at[-1])) return true;
    at += 3;
  }
  return false;
}

/* Not in a comment that says what something includes. */
static bool has_include(const char *text) {
  while ((text = strchr(text, '#')) != NULL) {
    ++text;
    if (strncmp(text + strspn(text, " \t"), "include", 7) == 0) return true;
  }
  return false;
}

/* NVRTC takes variables for the GPU's also without a word; items that count in
 * one do so by atomic operations. */
bool cel__has_effects(const char *text) {
  static const char *const words[] = {"printf", "atomic", "__managed__", NULL};
  static const char device[] = "__device__";
  for (int i = 0; words[i] != NULL; ++i)
    if (strstr(text, words[i]) != NULL) return true;
  if (has_assembly(text) || has_include(text) || cel_source_has_variables(text))
    return true;
  while ((text = strstr(text, device)) != NULL) {
    text += sizeof device - 1;
    if (text[strcspn(text, "(;=[{")] != '(') return true;
  }
  return false;
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* Behind another kernel than `name`, whose text goes on at `text`; that itself
 * where it is this one. */
static const char *behind_other(const char *text, const char *name) {
  const char *end = text + strcspn(text, "(");
  while (end > text && !is_word(end[-1])) --end;
  const char *begin = end;
  while (begin > text && is_word(begin[-1])) --begin;
  const size_t n = strlen(name);
  if ((size_t)(end - begin) == n && strncmp(begin, name, n) == 0) return text;
  int depth = 0;
  for (text += strcspn(text, "{"); *text != '\0'; ++text) {
    depth += (*text == '{') - (*text == '}');
    if (depth == 0) return text + 1;
  }
  return text;
}

bool cel__goes_straight(const char *text, const char *name) {
  static const char *const turns[] = {"for", "while", "goto"};
  enum { TURNS = sizeof turns / sizeof *turns };
  while (*text != '\0') {
    size_t n = 0;
    while (is_word(text[n])) ++n;
    if (*text == '[' && text[1 + strspn(text + 1, "0123456789")] != ']')
      return false;
    for (int i = 0; i < TURNS; ++i)
      if (n == strlen(turns[i]) && strncmp(text, turns[i], n) == 0)
        return false;
    const bool kernel = n == 6 && strncmp(text, "kernel", n) == 0;
    text += n > 0 ? n : 1;
    if (kernel) text = behind_other(text, name);
  }
  return true;
}

/* Whether any kernel may be a step of a fold: one of groups never is, nor is
 * one with effects. What else names items, such as a macro of a header, has
 * these. */
static bool may_be_steps(const cel_module *module, const cel_source *source) {
  return !module->effects && strstr(source->text, "item") != NULL;
}

static cel_module *module_new(const cel_source *source) {
  if (header_text == NULL) cel_bug("cel_module_set_header was not called");
  cel_module *module = cel_alloc_zero(sizeof *module);
  module->hash = hash_source(source);
  module->effects = cel__has_effects(source->text);
  bool always = source->contract == CEL_CONTRACT_BY_SHAPE &&
                (source->block[0] > 0 || !may_be_steps(module, source));
  module->contract = cel__contracts_by_options(source) ? CEL_CONTRACT_NEVER
                     : always                          ? CEL_CONTRACT_ALWAYS
                                                       : source->contract;
  for (int32_t i = 0; i < source->options; ++i) {
    module->checked |= strcmp(source->option[i], "-DCELER_CHECK") == 0;
    module->marks |= strcmp(source->option[i], "-DCELER_MARK") == 0;
  }
  return module;
}

static cel_status begin(cel_module *module, const cel_source *source,
                        cel_module **out) {
  cel_status status = scan(source, module);
  if (status == CEL_E_OK) {
    cel__module_keep(module, source);
    module->samples = cel__module_is_sampled(module);
    cel__module_start(module);
    *out = module;
  } else {
    module->finished = true; /* there is no build */
    cel_module_destroy(module);
  }
  return status;
}

cel_status cel_module_begin_cpu(const cel_source *source, cel_module **out) {
  return begin(module_new(source), source, out);
}

cel_status cel_module_begin_cuda(const cel_source *source, cel_cuda *cuda,
                                 cel_module **out) {
  cel_module *module = module_new(source);
  module->cuda = cuda;
  return begin(module, source, out);
}

cel_status cel_module_begin_images(const cel_source *source,
                                   const int32_t *architecture, int32_t n,
                                   cel_module **out) {
  cel_assert(n > 0 && n <= CEL_TARGETS);
  cel_module *module = module_new(source);
  module->architectures = n;
  memcpy(module->architecture, architecture, (size_t)n * sizeof *architecture);
  return begin(module, source, out);
}

static cel_status load(cel_module *module) {
  int32_t first = cel__module_first(module);
  if (module->architectures > 0)
    return cel__module_take_images(module, &module->build);
  return module->cuda != NULL
             ? cel__module_load_cuda(module, &module->build, 0, first)
             : cel__module_load_cpu(module, &module->build, 0, first);
}

cel_status cel_module_finish(cel_module *module, bool (*interrupted)(void)) {
  if (!module->finished) {
    cel_status status = cel__build_wait(&module->build, interrupted);
    if (status == CEL_E_CANCELLED) return status;
    if (status == CEL_E_OK) status = load(module);
    if (status != CEL_E_OK) module->failure = *cel_error_last();
    module->finished = true;
    cel__build_release(&module->build);
    cel__module_finish_sample(module, interrupted);
  }
  return module->failure.code == CEL_E_OK ? CEL_E_OK
                                          : cel_fail_with(&module->failure);
}

void cel_module_destroy(cel_module *module) {
  if (module == NULL) return;
  if (!module->finished) {
    cel_background_wait(&module->build.chore, NULL);
    cel__build_release(&module->build);
  }
  if (cel__module_makes_sample(module))
    cel_background_wait(&module->sampling.chore, NULL);
  cel__build_release(&module->sampling);
  cel__module_unfuse(module);
  cel__module_unload_cuda(module);
  cel__module_forget(module);
  if (module->library != NULL) dlclose(module->library);
  if (module->sample_library != NULL) dlclose(module->sample_library);
  for (uint32_t i = 0; module->kernel != NULL && i < module->found.n; ++i) {
    cel__kernel *kernel = &module->kernel[i];
    cel_free(kernel->owned);
    for (int32_t rows = 0; rows < CEL_ROWS; ++rows)
      if (kernel->entry[rows].library != NULL)
        dlclose(kernel->entry[rows].library);
  }
  cel_found_release(&module->found);
  cel_vec_release(&module->assembled);
  cel_free(module->kernel);
  cel_free(module);
}

int32_t cel_module_kernels(const cel_module *module) {
  return (int32_t)module->found.n;
}

const char *cel_module_kernel_name(const cel_module *module, int32_t kernel) {
  return module->found.at[kernel].name;
}

int32_t cel_module_params(const cel_module *module, int32_t kernel,
                          const cel_param **out) {
  *out = module->kernel[kernel].param;
  return module->kernel[kernel].params;
}

uint64_t cel_module_hash(const cel_module *module) {
  return module->hash;
}

uint32_t cel_module_values_size(const cel_module *module, int32_t kernel) {
  return module->kernel[kernel].values_size;
}

/* ---- messages */

cel_status cel__compile_fail(const cel_source *source, const char *said) {
  cel_text clean = {0};
  int32_t line;
  cel_source_clean(source, said, &clean, &line);
  const char *text = cel_text_string(&clean);
  while (clean.n > 0 && clean.at[clean.n - 1] == '\n')
    clean.at[--clean.n] = '\0';
  cel_fail(CEL_E_COMPILE, "the kernel does not compile\n%s",
           text[0] != '\0' ? text : said);
  if (line > 0) cel_fail_at(source->file, line);
  cel_vec_release(&clean);
  return CEL_E_COMPILE;
}

/* ---- works */

typedef cel__kernel_work kernel_work;

/* Whether an access left its bounds; the next run finds out anew. */
static cel_status check(const kernel_work *work) {
  cel__fault *fault = work->entry->fault;
  if (__atomic_load_n(&fault->set, __ATOMIC_ACQUIRE) == 0) return CEL_E_OK;
  cel__fault_report(fault, work->name, work->kernel->param);
  __atomic_store_n(&fault->set, 0, __ATOMIC_RELEASE);
  return cel_error_last()->code;
}

/* Part by part, so that what mappers do not promise shows on one device, too.
 */
static cel_status run_checked(const kernel_work *own, const cel_call *call) {
  cel_box part[CEL__SAMPLE_PARTS];
  cel_call one = *call;
  cel_view *view = cel_alloc((size_t)call->views * sizeof *view + 1);
  cel_status status = CEL_E_OK;
  int32_t n = cel__sample_parts(call->sample->task, &call->chunk,
                                own->face.reducers > 0, part);
  one.view = view;
  for (int32_t i = 0; i < n && status == CEL_E_OK; ++i) {
    one.chunk = part[i];
    cel__sample_views(call->sample->task, &part[i], call->view, call->views,
                      view);
    for (int32_t r = 0; r < own->face.reducers; ++r)
      view[own->face.reducer[r].view].holds |= i > 0;
    own->entry->run(&one);
    status = check(own);
  }
  cel_free(view);
  return status;
}

static cel_status run_kernel(const cel_work *work, const cel_call *call) {
  const kernel_work *own = (const kernel_work *)work;
  cel_assert(call->views >= own->kernel->views);
  cel_call with_values = *call;
  with_values.values = work->values;
  with_values.work_group = work->work_group;
  with_values.strip = work->turns ? CEL_TUNE_STRIP_ITEMS : 0;
  if (call->sample != NULL)
    return own->entry->fault != NULL ? run_checked(own, &with_values)
                                     : cel__sample_call(work, &with_values);
  own->entry->run(&with_values);
  return own->entry->fault != NULL ? check(own) : CEL_E_OK;
}

static cel_status run_nowhere(const cel_work *work, const cel_call *call) {
  (void)call;
  cel_bug("the processor was given %s, a kernel for GPUs", work->cuda->name);
}

const cel__kernel_work *cel__kernel_work_of(const cel_work *work) {
  bool is = work->fn == run_kernel || work->fn == run_nowhere;
  return is && !work->combines ? (const kernel_work *)work : NULL;
}

static void destroy_work(cel_work *work) {
  for (int32_t i = 0; i < work->reducers; ++i) {
    const cel_reducer *r = &work->reducer[i];
    cel_work_release(r->combine);
    cel_work_release(r->combine_onto);
    if (r->settle != NULL) cel_work_release(r->settle);
    if (r->settle != NULL) cel_work_release(r->settle_onto);
    cel_free((void *)(uintptr_t)r->identity);
  }
  cel_free((void *)(uintptr_t)work->reducer);
  cel_free(work);
}

cel_work *cel_module_work(const cel_module *module, int32_t kernel,
                          const void *values, uint32_t size) {
  const cel__kernel *k = &module->kernel[kernel];
  cel_assert(size == k->values_size);
  /* In one piece with its values: one is made for each task. */
  kernel_work *work = cel_alloc(sizeof *work + VALUES_ALIGN + k->values_size);
  char *copy = (char *)(work + 1);
  copy += -(uintptr_t)copy % VALUES_ALIGN;
  if (size > 0) memcpy(copy, values, size);
  work->face = (cel_work){
      .references = 1,
      .fn = cel__module_is_cpu(module) ? run_kernel : run_nowhere,
      .destroy = destroy_work,
      .cuda = k->cuda[k->variant],
      .marks = module->marks,
      .waits = module->checked,
      .alike = !module->effects,
      .values = copy,
      .values_size = k->values_size,
      .hash = size > 0 ? cel_hash(copy, size, k->hash) : k->hash,
      .context = (void *)(uintptr_t)k, /* by which its calls are known */
  };
  work->kernel = k;
  work->entry = cel__module_is_cpu(module) ? &k->entry[k->variant] : NULL;
  work->module = (cel_module *)(uintptr_t)module;
  work->name = cel_module_kernel_name(module, kernel);
  return &work->face;
}

/* Rows of the index space run along a dimension of the buffer that is not the
 * fastest of those which follow the chunk. */
static bool turns(const cel_rule *rule) {
  int32_t along = rule->desc.task_dims - 1, fastest = -1;
  bool has = false;
  for (int32_t j = 0; rule->plain && j < rule->desc.buffer_dims; ++j) {
    if (rule->follows[j] < 0) continue;
    has = has || rule->follows[j] == along;
    fastest = rule->follows[j];
  }
  return has && fastest != along;
}

void cel_module_walk(cel_work *work, const cel_access *access,
                     uint32_t accesses) {
  for (uint32_t i = 0; i < accesses; ++i)
    work->turns = work->turns ||
                  (access[i].use.rule != NULL && turns(access[i].use.rule));
}

/* ---- works that combine */

typedef struct combine_work {
  cel_work face; /* first */
  const cel__kernel *kernel;
  cel_cuda_combine what; /* its values */
} combine_work;

static cel_status run_combine(const cel_work *work, const cel_call *call) {
  const combine_work *c = (const combine_work *)work;
  c->kernel->combine(call, c->what.view, c->what.how);
  return CEL_E_OK;
}

static void destroy_combine(cel_work *work) {
  cel_free(work);
}

static cel_work *make_combine(const kernel_work *of, int32_t view,
                              int32_t how) {
  combine_work *work = cel_alloc_zero(sizeof *work);
  work->kernel = of->kernel;
  work->what = (cel_cuda_combine){view, how};
  work->face = (cel_work){
      .references = 1,
      .fn = of->kernel->combine != NULL ? run_combine : run_nowhere,
      .destroy = destroy_combine,
      .combines = true,
      .cuda = of->face.cuda,
      .values = &work->what,
      .values_size = sizeof work->what,
      .hash = cel_hash(&work->what, sizeof work->what, of->face.hash),
      .context = (void *)(uintptr_t)of->kernel,
  };
  return &work->face;
}

const cel_reducer *cel_module_reduce(cel_work *work, int32_t view,
                                     const cel_box *extent,
                                     const void *identity, cel_op op) {
  kernel_work *own = (kernel_work *)work;
  const cel_param *p = own->kernel->param;
  for (int32_t v = view;; ++p)
    if (cel__param_is_view(p) && v-- == 0) break;
  cel_assert(p->kind == CEL_PARAM_REDUCER);
  cel_reducer *all = (cel_reducer *)(uintptr_t)work->reducer;
  if (all == NULL)
    all = cel_alloc_zero((size_t)own->kernel->reducers * sizeof *all);
  work->reducer = all;
  cel_assert(work->reducers < own->kernel->reducers);
  const cel_operator by = {op, p->class_, (uint32_t)p->size};
  const uint32_t size = cel_operator_row_size(&by);
  bool settles = op == CEL_OP_FIXED; /* its identity is all zero */
  void *copy = cel_alloc_zero(size);
  if (!settles) memcpy(copy, identity, size);
  work->hash = cel_hash(copy, size, work->hash);
  const int32_t onto = CEL_COMBINE_ONTO, into = CEL_COMBINE_SETTLES;
  cel_reducer *made = &all[work->reducers++];
  *made = (cel_reducer){.view = view,
                        .element_size = size,
                        .extent = *extent,
                        .dims = p->dims,
                        .item_dims = own->kernel->param->kind == CEL_PARAM_ITEM
                                         ? own->kernel->param->dims
                                         : 0,
                        .identity = copy,
                        .by = by,
                        .begins = p->dims > 0 && !settles,
                        .combine = make_combine(own, view, 0),
                        .combine_onto = make_combine(own, view, onto)};
  if (settles) {
    made->settle = make_combine(own, view, into);
    made->settle_onto = make_combine(own, view, into | onto);
  }
  return made;
}
