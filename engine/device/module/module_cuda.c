/* Modules for GPUs: one image per architecture, loaded in every context. */
#include <string.h>

#include "device/compile/compile.h"
#include "device/cuda/cuda_sample.h"
#include "device/module/module.h"
#include "device/sample.h"

/* launch.cuh says the same. */
enum {
  LAUNCH = 64,
  ACCESSOR = 24,
  ACCESSOR_ALIGN = 8,
  COUNT = 8,
  PARAMETER_ALIGN = 16
};

static cel_status fail_call(const cel_cuda *cuda, CUresult code,
                            const char *what, const char *kernel) {
  return cel_fail(cel_cuda_is_fault(code) ? CEL_E_FAULT : CEL_E_MISSING,
                  "cannot %s the kernel %s: %s", what, kernel,
                  cel_cuda_api_text(cuda->api, code));
}

/* ---- images */

static cel_status load_image(const cel_module *module, int32_t d,
                             const cel_text *image, CUmodule *out) {
  const cel_cuda *cuda = module->cuda;
  CUresult code = cuda->api->cuCtxSetCurrent(cuda->device[d].context);
  if (code == CUDA_SUCCESS) code = cuda->api->cuModuleLoadData(out, image->at);
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : fail_call(cuda, code, "load", module->found.at[0].name);
}

/* Of each device its architecture's. */
cel_status cel__module_load_images(const cel_module *module,
                                   const cel__build *build,
                                   CUmodule out[CEL_DEVICES]) {
  const cel_cuda *cuda = module->cuda;
  for (int32_t d = 0; d < cuda->devices; ++d) {
    int32_t i = 0;
    while (build->target[i].architecture !=
           cel_cuda_architecture(&cuda->device[d]))
      ++i;
    CEL_TRY(load_image(module, d, &build->image[i], &out[d]));
  }
  return CEL_E_OK;
}

/* ---- parameters */

/* Reads celer_params_<name>, which the compiler left in the module. */
static CUresult read_params(const cel_module *module, CUmodule in,
                            const char *name, cel__kernel *kernel) {
  const cel_cuda_api *api = module->cuda->api;
  cel_text symbol = {0};
  CUdeviceptr at = 0;
  size_t size = 0;
  cel_text_format(&symbol, "celer_params_%s", name);
  CUresult code = api->cuCtxSetCurrent(module->cuda->device[0].context);
  if (code == CUDA_SUCCESS)
    code = api->cuModuleGetGlobal_v2(&at, &size, in, symbol.at);
  if (code == CUDA_SUCCESS) {
    kernel->owned = cel_alloc_zero(size + sizeof(cel_param));
    code = api->cuMemcpyDtoH_v2(kernel->owned, at, size);
    kernel->param = kernel->owned;
  }
  cel_vec_release(&symbol);
  return code;
}

static uint32_t aligned(uint32_t at, uint32_t align) {
  return (at + align - 1) / align * align;
}

/* How the launch's parameter is laid out, as signature::argument_at has it;
 * `behind` the arguments is what checks take. */
static cel_cuda_kernel *lay_out(const cel__kernel *kernel, const char *name,
                                size_t behind) {
  cel_cuda_kernel *k = cel_alloc_zero(sizeof *k);
  k->param = kernel->param;
  k->argument = cel_alloc_zero((size_t)kernel->params * sizeof *k->argument);
  k->name = name;
  uint32_t at = LAUNCH, value = 0;
  for (int32_t i = 0; i < kernel->params; ++i) {
    const cel_param *p = &kernel->param[i];
    if (p->kind == CEL_PARAM_LOCAL) continue;
    if (p->kind == CEL_PARAM_ITEM || p->kind == CEL_PARAM_GROUP) {
      k->dims = p->dims;
      k->grouped = p->kind == CEL_PARAM_GROUP;
      continue;
    }
    cel_cuda_argument *a = &k->argument[k->arguments++];
    uint32_t size = (uint32_t)p->size, align = (uint32_t)p->align;
    a->view = p->kind != CEL_PARAM_VALUE;
    a->at = at = aligned(at, a->view ? ACCESSOR_ALIGN : align);
    a->size = size;
    if (!a->view) a->from = value = aligned(value, align);
    if (!a->view) value += size;
    k->edges = k->edges || (!a->view && p->dims != 0);
    a->reducer = p->kind == CEL_PARAM_REDUCER;
    a->array = a->reducer && p->dims > 0;
    if (a->reducer) {
      uint32_t most = align > ACCESSOR_ALIGN ? align : ACCESSOR_ALIGN;
      a->at = at = aligned(at, most);
      a->from = aligned(at + ACCESSOR + COUNT, align);
      at = aligned(a->from + size, most);
    } else {
      at += a->view ? ACCESSOR : size;
    }
  }
  k->boxes_at = aligned(at, ACCESSOR_ALIGN);
  if (behind > 0) at = k->boxes_at + (uint32_t)behind;
  if (at == LAUNCH) ++at; /* C++ has no empty array */
  k->bytes = aligned(at, PARAMETER_ALIGN);
  return k;
}

static CUresult find(const cel_module *module, CUmodule in, const char *prefix,
                     const char *name, CUfunction *out) {
  cel_text symbol = {0};
  cel_text_format(&symbol, "%s%s", prefix, name);
  CUresult code = module->cuda->api->cuModuleGetFunction(out, in, symbol.at);
  cel_vec_release(&symbol);
  return code;
}

static CUresult find_reducing(const cel_module *module, CUmodule in, int32_t d,
                              const char *name, cel_cuda_kernel *kernel) {
  int32_t shared = 0;
  CUresult code = find(module, in, "celer_combine_", name, &kernel->combine[d]);
  if (code == CUDA_SUCCESS)
    code = find(module, in, "celer_begin_", name, &kernel->begin[d]);
  if (code == CUDA_SUCCESS)
    code = module->cuda->api->cuFuncGetAttribute(
        &shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function[d]);
  kernel->shared = (uint32_t)shared;
  return code;
}

/* `in`: what is loaded on each device. */
static cel_status find_functions(const cel_module *module, const CUmodule *in,
                                 uint32_t i, int32_t variant) {
  const cel_cuda *cuda = module->cuda;
  const char *name = module->found.at[i].name;
  cel_cuda_kernel *kernel = module->kernel[i].cuda[variant];
  CUresult code = CUDA_SUCCESS;
  for (int32_t d = 0; d < cuda->devices && code == CUDA_SUCCESS; ++d) {
    code = cuda->api->cuCtxSetCurrent(cuda->device[d].context);
    if (code == CUDA_SUCCESS)
      code = find(module, in[d], "celer_run_", name, &kernel->function[d]);
    if (code == CUDA_SUCCESS && module->kernel[i].reducers > 0)
      code = find_reducing(module, in[d], d, name, kernel);
  }
  for (int32_t d = 0; d < cuda->devices && module->checked; ++d) {
    size_t size;
    cuda->api->cuModuleGetGlobal_v2(&kernel->fault[d], &size, in[d],
                                    "celer_fault");
  }
  return code == CUDA_SUCCESS ? CEL_E_OK : fail_call(cuda, code, "load", name);
}

static cel_status take_kernel(cel_module *module, const CUmodule *in,
                              uint32_t i, int32_t variant) {
  cel__kernel *kernel = &module->kernel[i];
  const char *name = module->found.at[i].name;
  if (kernel->param == NULL) {
    CUresult code = read_params(module, in[0], name, kernel);
    if (code != CUDA_SUCCESS)
      return fail_call(module->cuda, code, "read the parameters of", name);
    cel__kernel_count(kernel);
  }
  if (kernel->cuda[variant] == NULL)
    kernel->cuda[variant] =
        lay_out(kernel, name,
                module->checked ? (size_t)kernel->views * sizeof(cel_box) : 0);
  kernel->cuda[variant]->sample = kernel->sample_cuda;
  kernel->cuda[variant]->straight =
      cel__goes_straight(module->kept.source.text, name);
  memcpy(kernel->cuda[variant]->block, module->kept.source.block,
         sizeof kernel->cuda[variant]->block);
  CEL_TRY(find_functions(module, in, i, variant));
  kernel->compiled[variant] = true;
  return CEL_E_OK;
}

cel_status cel__module_load_cuda(cel_module *module, const cel__build *build,
                                 int32_t only, int32_t variant) {
  CUmodule *in =
      only > 0 ? module->kernel[only - 1].own[variant] : module->loaded;
  CEL_TRY(cel__module_load_images(module, build, in));
  for (uint32_t i = 0; i < module->found.n; ++i)
    if (only > 0 ? (int32_t)i + 1 == only : cel__module_wants(module, i))
      CEL_TRY(take_kernel(module, in, i, variant));
  return CEL_E_OK;
}

/* Whether an item may be computed by the checked build, too, of which nothing
 * is kept: it reads nothing of what it writes. */
static bool may_repeat(const cel_module *module, const cel__kernel *kernel) {
  for (const cel_param *p = kernel->param; p->kind != 0; ++p)
    if (p->kind == CEL_PARAM_INOUT || p->kind == CEL_PARAM_REDUCER)
      return false;
  const char *prelude = module->kept.source.prelude;
  return !module->effects && (prelude == NULL || !cel__has_effects(prelude));
}

/* For samples. */
static cel_status take_sample(cel_module *module, uint32_t i) {
  cel__kernel *kernel = &module->kernel[i];
  const cel_cuda *cuda = module->cuda;
  const char *name = module->found.at[i].name;
  CUresult code = CUDA_SUCCESS;
  if (kernel->param == NULL || !may_repeat(module, kernel)) return CEL_E_OK;
  cel_cuda_kernel *k = lay_out(kernel, name,
                               sizeof(cel__units) + (size_t)kernel->views *
                                                        sizeof(cel__promise));
  for (int32_t d = 0; d < cuda->devices && code == CUDA_SUCCESS; ++d) {
    size_t size;
    code = cel__cuda_promises_prepare(module->cuda, d);
    if (code == CUDA_SUCCESS)
      code = cuda->api->cuCtxSetCurrent(cuda->device[d].context);
    if (code == CUDA_SUCCESS)
      code = find(module, module->sample_loaded[d], "celer_run_", name,
                  &k->function[d]);
    if (code == CUDA_SUCCESS)
      code = cuda->api->cuModuleGetGlobal_v2(
          &k->fault[d], &size, module->sample_loaded[d], "celer_fault");
  }
  if (code != CUDA_SUCCESS) {
    cel_free(k->argument);
    cel_free(k);
    return fail_call(cuda, code, "load", name);
  }
  kernel->sample_cuda = k;
  for (int v = 0; v < CEL__VARIANTS; ++v)
    if (kernel->cuda[v] != NULL) kernel->cuda[v]->sample = k;
  return CEL_E_OK;
}

cel_status cel__module_load_sample(cel_module *module,
                                   const cel__build *build) {
  for (int32_t i = 0; i < build->targets; ++i)
    if (build->image[i].n == 0) return CEL_E_OK; /* there is none */
  CEL_TRY(cel__module_load_images(module, build, module->sample_loaded));
  for (uint32_t i = 0; i < module->found.n; ++i)
    CEL_TRY(take_sample(module, i));
  return CEL_E_OK;
}

void cel__module_unload_images(const cel_cuda *cuda, const CUmodule *loaded) {
  for (int32_t d = 0; d < cuda->devices; ++d) {
    if (loaded[d] == NULL) continue;
    cuda->api->cuCtxSetCurrent(cuda->device[d].context);
    cuda->api->cuModuleUnload(loaded[d]);
  }
}

void cel__module_unload_cuda(cel_module *module) {
  if (module->cuda == NULL) return;
  cel__module_unload_images(module->cuda, module->loaded);
  cel__module_unload_images(module->cuda, module->sample_loaded);
  for (uint32_t i = 0; module->kernel != NULL && i < module->found.n; ++i) {
    for (int variant = 0; variant < CEL__VARIANTS; ++variant) {
      cel_cuda_kernel *kernel = module->kernel[i].cuda[variant];
      cel__module_unload_images(module->cuda, module->kernel[i].own[variant]);
      if (kernel != NULL) cel_free(kernel->argument);
      cel_free(kernel);
    }
    cel_cuda_kernel *sample = module->kernel[i].sample_cuda;
    if (sample != NULL) cel_free(sample->argument);
    cel_free(sample);
  }
}

/* ---- what a kernel takes */

cel_status cel_module_info(const cel_module *module, int32_t kernel,
                           int32_t threads, cel_kernel_info *out) {
  cel_kernel_info info = {0};
  const cel_cuda *cuda = module->cuda;
  if (module->architectures > 0) info.architecture = module->architecture[0];
  if (cuda != NULL) {
    const cel_cuda_kernel *k =
        module->kernel[kernel].cuda[module->kernel[kernel].variant];
    const cel_cuda_api *api = cuda->api;
    CUfunction f = k->function[0];
    int most = 0;
    const struct {
      int attribute;
      int32_t *to;
    } row[] = {
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &info.registers},
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &info.shared},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &info.local_},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info.threads},
    };
    CUresult code = api->cuCtxSetCurrent(cuda->device[0].context);
    for (size_t i = 0; i < sizeof row / sizeof *row && code == 0; ++i)
      code = api->cuFuncGetAttribute(row[i].to, row[i].attribute, f);
    if (code == 0)
      code = api->cuOccupancyMaxActiveBlocksPerMultiprocessor(&info.blocks, f,
                                                              threads, 0);
    if (code == 0)
      code = api->cuDeviceGetAttribute(
          &most, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
          cuda->device[0].device);
    if (code != 0) return fail_call(cuda, code, "ask about", k->name);
    info.architecture = cel_cuda_architecture(&cuda->device[0]);
    if (most > 0) info.occupancy = (double)info.blocks * threads / most;
  }
  *out = info;
  return CEL_E_OK;
}
