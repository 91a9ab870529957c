/* Builds: a module's source, compiled by a thread of its own. */
#include <dlfcn.h>

#include "device/compile/image.h"
#include "device/module/module.h"

/* ---- what compiling takes */

static const char *keep(cel__kept_source *kept, const char *text) {
  if (text == NULL) return NULL;
  cel_vec_push(&kept->strings, cel_strdup(text));
  return cel_vec_last(&kept->strings);
}

/* The assembled text holds the text and the defines; the key still wants to see
 * what the text includes. */
void cel__module_keep(cel_module *module, const cel_source *source) {
  cel__kept_source *kept = &module->kept;
  kept->source = *source;
  kept->source.text = keep(kept, source->text);
  kept->source.prelude = keep(kept, source->prelude);
  kept->source.file = keep(kept, source->file);
  kept->source.directory = keep(kept, source->directory);
  for (int32_t i = 0; i < source->options; ++i)
    cel_vec_push(&kept->option, keep(kept, source->option[i]));
  kept->source.option = kept->option.at;
  kept->source.defines = 0;
  kept->source.define = NULL;
}

void cel__module_forget(cel_module *module) {
  cel__kept_source *kept = &module->kept;
  for (uint32_t i = 0; i < kept->strings.n; ++i) cel_free(kept->strings.at[i]);
  cel_vec_release(&kept->strings);
  cel_vec_release(&kept->option);
}

/* ---- builds */

static void add_target(cel__build *build, int32_t architecture,
                       int32_t variant) {
  for (int32_t i = 0; i < build->targets; ++i)
    if (build->target[i].architecture == architecture) return;
  build->target[build->targets++] = cel__module_target(architecture, variant);
}

/* Whether all that samples take is compiled already. */
static bool find_sample(cel__build *build) {
  if (build->targets == 0)
    return cel_compile_cpu_find_sample(&build->source, build->assembled,
                                       &build->library);
  bool all = true;
  for (int32_t i = 0; i < build->targets && all; ++i)
    all = cel_compile_cuda_find_sample(&build->source, build->assembled,
                                       build->target[i], &build->image[i]);
  if (!all) cel__build_release(build);
  return all;
}

static void run(cel_chore *chore) {
  cel__build *build = (cel__build *)chore, *beside = build->beside;
  cel_status status = CEL_E_OK;
  if (beside != NULL) beside->found = find_sample(beside);
  if (beside != NULL && !beside->found)
    cel_background_start_beside(&beside->chore);
  if (build->targets == 0)
    status = cel_compile_cpu(&build->source, build->assembled, build->rows,
                             build->sample, &build->was_there, &build->library);
  for (int32_t i = 0; i < build->targets && status == CEL_E_OK; ++i)
    status =
        cel_compile_cuda(&build->source, build->assembled, build->target[i],
                         &build->was_there, &build->image[i]);
  if (status != CEL_E_OK) build->failure = *cel_error_last();
}

static void prepare(const cel_module *module, int32_t only, int32_t variant,
                    cel__build *build) {
  const cel_cuda *cuda = module->cuda;
  build->chore.run = run;
  build->source = module->kept.source;
  if (only > 0) build->source.only = only;
  if (cel__module_is_cpu(module)) build->rows = (cel_rows)variant;
  build->assembled = &module->assembled;
  for (int32_t d = 0; cuda != NULL && d < cuda->devices; ++d)
    add_target(build, cel_cuda_architecture(&cuda->device[d]), variant);
  for (int32_t i = 0; i < module->architectures; ++i)
    add_target(build, module->architecture[i], variant);
}

static void start(cel__build *build) {
  cel_compile_prepare();
  cel_background_start(&build->chore);
}

void cel__build_start(const cel_module *module, int32_t only, int32_t variant,
                      cel__build *build) {
  prepare(module, only, variant, build);
  start(build);
}

void cel__build_start_text(const cel_module *module, const cel_text *assembled,
                           cel__build *build) {
  prepare(module, 0, 0, build);
  build->source.only = 0;
  build->assembled = assembled;
  start(build);
}

/* For strides of any size and the largest groups: it is for all variants, also
 * those that are not contracted, as nobody sees what it computes on a GPU. */
static void prepare_sample(cel_module *module) {
  cel__build *build = &module->sampling;
  prepare(module, 0, cel__module_is_cpu(module) ? 0 : CEL__VARIANTS - 1, build);
  build->sample = true;
  for (int32_t i = 0; i < build->targets; ++i) build->target[i].sample = true;
  module->build.beside = build;
}

void cel__module_start(cel_module *module) {
  prepare(module, 0, cel__module_first(module), &module->build);
  if (module->samples) prepare_sample(module);
  start(&module->build);
}

cel_status cel__build_wait(cel__build *build, bool (*interrupted)(void)) {
  if (!cel_background_wait(&build->chore, interrupted))
    return cel_fail(CEL_E_CANCELLED, "interrupted");
  return build->failure.code == CEL_E_OK ? CEL_E_OK
                                         : cel_fail_with(&build->failure);
}

void cel__build_release(cel__build *build) {
  if (build->library != NULL) dlclose(build->library);
  build->library = NULL;
  for (int32_t i = 0; i < build->targets; ++i)
    cel_vec_release(&build->image[i]);
}

/* ---- compiling again: for the processor, where rows are long; for GPUs, for
 * wide strides, large groups, or contracted */

bool cel_module_contracts_by_shape(const cel_module *module) {
  return module->contract == CEL_CONTRACT_BY_SHAPE &&
         !cel__module_is_cpu(module);
}

/* Whether it has near<T, D>. */
static bool knows_edges(const cel__kernel *kernel) {
  for (const cel_param *p = kernel->param; p->kind != 0; ++p)
    if (p->kind == CEL_PARAM_VALUE && p->dims > 0 && p->tile[0] == 0)
      return true;
  return false;
}

static int32_t variant_for(const cel_module *module, const cel__kernel *kernel,
                           const cel_suits *what) {
  const cel_param *first = kernel->param;
  bool tiled = first->tile[0] > 0, items = first->kind == CEL_PARAM_ITEM;
  if (cel__module_is_cpu(module))
    return module->effects                             ? CEL_ROWS_ANY
           : what->row > INT32_MAX && (tiled || items) ? CEL_ROWS_LONG
                                                       : CEL_ROWS_SHORT;
  bool folds = what->folds && items && !module->effects;
  bool contracted = module->contract == CEL_CONTRACT_BY_SHAPE
                        ? !folds
                        : module->contract == CEL_CONTRACT_ALWAYS;
  bool wide = what->wide || (what->beyond && knows_edges(kernel));
  return cel__variant(wide, tiled ? 0 : what->items, contracted);
}

cel_status cel_module_suit(cel_module *module, int32_t kernel,
                           const cel_suits *what) {
  cel__kernel *k = &module->kernel[kernel];
  cel_assert(module->finished && k->param != NULL);
  int32_t variant = variant_for(module, k, what);
  if (variant != cel__module_first(module) && !k->compiled[variant]) {
    cel__build build = {0};
    cel__build_start(module, kernel + 1, variant, &build);
    cel_status status = cel__build_wait(&build, NULL);
    if (status == CEL_E_OK && module->cuda != NULL)
      status = cel__module_load_cuda(module, &build, kernel + 1, variant);
    if (status == CEL_E_OK && cel__module_is_cpu(module))
      status = cel__module_load_cpu(module, &build, kernel + 1, variant);
    cel__build_release(&build);
    CEL_TRY(status);
    k->compiled[variant] = true;
  }
  if (module->architectures == 0) k->variant = variant;
  return CEL_E_OK;
}

/* ---- modules for GPUs that are not here -----------------------------------
 * Compiled into the cache, and loaded nowhere. */

/* From the image. */
static cel_status read_params(const cel_text *image, const char *name,
                              cel__kernel *kernel) {
  cel_text symbol = {0}, bytes = {0};
  cel_text_format(&symbol, "celer_params_%s", name);
  bool found = cel_image_constant(image, symbol.at, &bytes);
  cel_vec_release(&symbol);
  if (found) {
    kernel->owned = cel_alloc_zero(bytes.n + 2 * sizeof(cel_param));
    memcpy(kernel->owned, bytes.at, bytes.n);
    kernel->param = kernel->owned;
    cel__kernel_count(kernel);
  }
  cel_vec_release(&bytes);
  if (found) return CEL_E_OK;
  return cel_fail(CEL_E_IO,
                  "the compiled kernel %s does not say what its "
                  "parameters are",
                  name);
}

cel_status cel__module_take_images(cel_module *module,
                                   const cel__build *build) {
  for (uint32_t i = 0; i < module->found.n; ++i)
    if (cel__module_wants(module, i) && module->kernel[i].param == NULL)
      CEL_TRY(read_params(&build->image[0], module->found.at[i].name,
                          &module->kernel[i]));
  return CEL_E_OK;
}
