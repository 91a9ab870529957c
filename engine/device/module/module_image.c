/* Modules for GPUs that are not here: compiled into the cache, and loaded
 * nowhere. Parameters are read from the image. */
#include <string.h>

#include "device/compile/image.h"
#include "device/module/module.h"

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
