#include "device/kernel.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/compile.h"
#include "device/source.h"

/* celer.cuh mirrors these. */
_Static_assert(sizeof(cel_view) == 104, "celer::view");
_Static_assert(sizeof(cel_call) == 128, "celer::call");
_Static_assert(sizeof(cel_param) == 64, "celer::param");
_Static_assert(offsetof(cel_call, view) == 112, "celer::call::view_at");

enum { VALUES_ALIGN = 64 };

typedef void run_function(const cel_call *call);

typedef struct entry {
  run_function *run;
  const cel_param *param;
  int32_t params, views;
  uint32_t values_size;
} entry;

struct cel_module {
  void *library;
  cel_found_list found;
  entry *kernel; /* one for each found */
  uint64_t hash;
};

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
  return hash;
}

static void *symbol(void *library, const char *prefix, const char *name) {
  cel_text full = {0};
  cel_text_format(&full, "%s%s", prefix, name);
  void *p = dlsym(library, full.at);
  cel_vec_release(&full);
  return p;
}

static bool open_entry(const cel_module *module, uint32_t i) {
  entry *e = &module->kernel[i];
  const char *name = module->found.at[i].name;
  void *run = symbol(module->library, "celer_run_", name);
  e->param = symbol(module->library, "celer_params_", name);
  if (run == NULL || e->param == NULL) return false;
  memcpy(&e->run, &run, sizeof run); /* ISO C has no cast for it */
  for (const cel_param *p = e->param; p->kind != 0; ++p, ++e->params) {
    if (p->kind == CEL_PARAM_VALUE) {
      uint32_t align = (uint32_t)p->align;
      e->values_size = (e->values_size + align - 1) / align * align;
      e->values_size += (uint32_t)p->size;
    } else if (p->kind != CEL_PARAM_ITEM) {
      ++e->views;
    }
  }
  return true;
}

static cel_status open_entries(cel_module *module) {
  uint32_t n = module->found.n;
  module->kernel = cel_alloc_zero(n * sizeof *module->kernel);
  for (uint32_t i = 0; i < n; ++i)
    if (!open_entry(module, i))
      return cel_fail(CEL_E_IO, "a compiled kernel lacks %s",
                      module->found.at[i].name);
  return CEL_E_OK;
}

static cel_status compile(const cel_source *source, cel_module *module) {
  cel_source_scan(source, &module->found);
  if (module->found.n == 0) {
    cel_fail(CEL_E_COMPILE, "the source holds no kernel; write "
                            "`kernel void name(item<1> it, ...) { ... }`");
    return cel_fail_at(source->file, source->line);
  }
  cel_text unit = {0};
  cel_source_assemble(source, header_text, header_size, &module->found, &unit);
  cel_status status = cel_compile_cpu(source, &unit, &module->library);
  cel_vec_release(&unit);
  return status == CEL_E_OK ? open_entries(module) : status;
}

cel_status cel_module_compile_cpu(const cel_source *source, cel_module **out) {
  if (header_text == NULL) cel_bug("cel_module_set_header was not called");
  cel_module *module = cel_alloc_zero(sizeof *module);
  module->hash = hash_source(source);
  cel_status status = compile(source, module);
  if (status == CEL_E_OK)
    *out = module;
  else
    cel_module_destroy(module);
  return status;
}

void cel_module_destroy(cel_module *module) {
  if (module == NULL) return;
  if (module->library != NULL) dlclose(module->library);
  cel_found_release(&module->found);
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

/* ---- works */

typedef struct kernel_work {
  cel_work face; /* first */
  const entry *entry;
} kernel_work;

static cel_status run_kernel(const cel_work *work, const cel_call *call) {
  const entry *e = ((const kernel_work *)work)->entry;
  cel_assert(call->views >= e->views);
  cel_call with_values = *call;
  with_values.values = work->values;
  e->run(&with_values);
  return CEL_E_OK;
}

static void destroy_work(cel_work *work) {
  free((void *)(uintptr_t)work->values);
  cel_free(work);
}

cel_work *cel_module_work(const cel_module *module, int32_t kernel,
                          const void *values, uint32_t size) {
  const entry *e = &module->kernel[kernel];
  cel_assert(size == e->values_size);
  kernel_work *work = cel_alloc_zero(sizeof *work);
  size_t room = ((size_t)e->values_size / VALUES_ALIGN + 1) * VALUES_ALIGN;
  char *copy = aligned_alloc(VALUES_ALIGN, room);
  if (copy == NULL) cel_bug("no memory for %zu bytes", room);
  memset(copy, 0, room);
  if (size > 0) memcpy(copy, values, size < room ? size : room);
  uint64_t hash =
      hash_string(cel_module_kernel_name(module, kernel), module->hash);
  work->face = (cel_work){
      .references = 1,
      .fn = run_kernel,
      .destroy = destroy_work,
      .values = copy,
      .values_size = e->values_size,
      .hash = cel_hash(copy, e->values_size, hash),
  };
  work->entry = e;
  return &work->face;
}
