/* Modules for GPUs that are not here: compiled into the cache, and loaded
 * nowhere. Parameters are read from the image. */
#include <string.h>

#include "device/compile.h"
#include "device/image.h"
#include "device/module.h"

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

static cel_status take_params(cel_module *module, const cel_text *image) {
  for (uint32_t i = 0; i < module->found.n; ++i)
    if (module->kernel[i].param == NULL)
      CEL_TRY(read_params(image, module->found.at[i].name, &module->kernel[i]));
  return CEL_E_OK;
}

cel_status cel__module_compile_images(cel_module *module,
                                      const cel_source *source,
                                      int32_t variant) {
  for (int32_t i = 0; i < module->architectures; ++i) {
    cel_text image = {0};
    cel_cuda_target target =
        cel__module_target(module->architecture[i], variant);
    cel_status status = cel_compile_cuda(source, &module->unit, target, &image);
    if (status == CEL_E_OK) status = take_params(module, &image);
    cel_vec_release(&image);
    CEL_TRY(status);
  }
  module->compiled[variant] = true;
  return CEL_E_OK;
}
