/* Builds: a module's source, compiled by a thread of its own. */
#include <dlfcn.h>

#include "device/module.h"

/* ---- what compiling takes */

static const char *keep(cel__kept_source *kept, const char *text) {
  if (text == NULL) return NULL;
  cel_vec_push(&kept->strings, cel_strdup(text));
  return cel_vec_last(&kept->strings);
}

/* The unit holds text and defines; the key still wants to see what the text
 * includes. */
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

static void run(cel_chore *chore) {
  cel__build *build = (cel__build *)chore;
  cel_status status = CEL_E_OK;
  if (build->targets == 0)
    status = cel_compile_cpu(&build->source, build->unit, &build->library);
  for (int32_t i = 0; i < build->targets && status == CEL_E_OK; ++i)
    status = cel_compile_cuda(&build->source, build->unit, build->target[i],
                              &build->image[i]);
  if (status != CEL_E_OK) build->failure = *cel_error_last();
}

void cel__build_start(const cel_module *module, int32_t only, int32_t variant,
                      cel__build *build) {
  const cel_cuda *cuda = module->cuda;
  build->chore.run = run;
  build->source = module->kept.source;
  if (only > 0) build->source.only = only;
  build->unit = &module->unit;
  for (int32_t d = 0; cuda != NULL && d < cuda->devices; ++d)
    add_target(build, cel_cuda_architecture(&cuda->device[d]), variant);
  for (int32_t i = 0; i < module->architectures; ++i)
    add_target(build, module->architecture[i], variant);
  cel_compile_prepare();
  cel_background_start(&build->chore);
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
