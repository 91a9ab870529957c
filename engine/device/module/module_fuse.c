/* Entries for folds on GPUs: the module's text once more, with one kernel that
 * calls the functions of all steps (kernels/fold.cuh). The line that says so is
 * what an entry is known by. */
#include <stdatomic.h>
#include <string.h>

#include "device/cuda/cuda_fold.h"
#include "device/fold.h"
#include "device/module/module.h"

enum { SHARED_USUAL = 48 << 10 }; /* of a block, without asking */

typedef struct cel__fuse {
  cel_fused face; /* first */
  cel__key key;
  cel_text line, assembled;
  cel__build build;
  bool begun; /* to be made */
  bool done;  /* it was loaded, or never will be */
  CUmodule loaded[CEL_DEVICES];
} cel__fuse;

static const char *header_text; /* main's */
static size_t header_size;

void cel_module_set_fold_header(const char *text, size_t size) {
  header_text = text;
  header_size = size;
}

/* ---- the line ------------------------------------------------------------ */

/* Of the first view that is this array; its kernel's parameter. */
static const cel_param *param_of(const cel_fold_job *fold, int32_t array) {
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_param *p = fold->step[s].work->cuda->param;
    for (int32_t k = 0; k < fold->step[s].call.views; ++k, ++p) {
      while (!cel__param_is_view(p)) ++p;
      if (fold->step[s].use[k].array == array) return p;
    }
  }
  return NULL;
}

/* False where a GPU's threads could not copy an element in units of its
 * alignment. */
static bool add_elements(const cel_fold_job *fold, cel_text *out) {
  cel_text_format(out, "celer::fold_elements<");
  for (int32_t a = 0; a < fold->arrays; ++a) {
    const cel_param *p = param_of(fold, a);
    if (p == NULL || p->align > 16 || p->size % p->align != 0 ||
        (uint32_t)p->size != fold->array[a].element_size)
      return false;
    cel_text_format(out, "%sceler::element<%d, %d>", a > 0 ? ", " : "", p->size,
                    p->align);
  }
  cel_text_format(out, ">");
  return true;
}

static void add_step(const cel_fold_job *fold, int32_t s, cel_text *out) {
  int32_t m[4];
  cel__cuda_fold_margin(fold, s, m);
  cel_text_format(out,
                  ", celer::step<CELER_KERNEL(%s), celer::margin<%d, %d, "
                  "%d, %d>",
                  fold->step[s].work->cuda->name, m[0], m[1], m[2], m[3]);
  for (int32_t k = 0; k < fold->step[s].call.views; ++k)
    cel_text_format(out, ", %d", fold->step[s].use[k].array);
  cel_text_format(out, ">");
}

bool cel__fuse_line(const cel_fold_job *fold, int way, cel_text *out) {
  cel_fused of;
  if (!cel__cuda_fold_pattern(fold, (cel_fused_way)way, &of)) return false;
  static const char *const macros[] = {
      [CEL_FUSED_CHAIN] = "CELER_CHAIN(",
      [CEL_FUSED_TILE] = "CELER_TILE(",
      [CEL_FUSED_STREAM] = "CELER_FLOW(",
  };
  cel_text_format(out, "%s", macros[way]);
  if (way != CEL_FUSED_CHAIN)
    cel_text_format(out, "(%d, %d, %d, %d), ", of.around[0], of.around[1],
                    of.around[2], of.around[3]);
  if (!add_elements(fold, out)) return false;
  for (int32_t s = 0; s < fold->steps; ++s) add_step(fold, s, out);
  cel_text_format(out, ")\n");
  return true;
}

/* ---- building ------------------------------------------------------------ */

/* Else one launch would round elsewhere than several do. */
static bool never_contracts(const cel_module *module) {
  if (module->contract == CEL_CONTRACT_ALWAYS) return false;
  if (!cel__contracts_by_options(&module->kept.source)) return true;
  for (uint32_t i = 0; i < module->kept.option.n; ++i) {
    const char *option = module->kept.option.at[i];
    if (strcmp(option, "-fmad=false") == 0 ||
        strcmp(option, "--fmad=false") == 0)
      return true;
  }
  return false;
}

/* Whose works these are, if all are of one module, and of its usual build. */
static cel_module *module_of(const cel_fold_job *fold) {
  cel_module *module = NULL;
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel__kernel_work *work = cel__kernel_work_of(fold->step[s].work);
    if (work == NULL || work->face.cuda == NULL ||
        work->face.cuda != work->kernel->cuda[0] ||
        (module != NULL && work->module != module))
      return NULL;
    module = work->module;
  }
  return module != NULL && module->cuda != NULL && !module->checked &&
                 never_contracts(module)
             ? module
             : NULL;
}

/* All that a line is made of. */
static void add_key(const cel_fold_job *fold, int way, cel__key *out) {
  cel_vec_clear(out);
  cel_vec_push(out, way);
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    const cel_cuda_kernel *kernel = step->work->cuda;
    uint64_t which = (uintptr_t)kernel;
    cel_vec_push(out, (int32_t)which);
    cel_vec_push(out, (int32_t)(which >> 32));
    for (int32_t k = 0; k < step->call.views; ++k) {
      const cel_fold_view *use = &step->use[k];
      cel_vec_push(out, use->array);
      for (int d = 0; d < CEL_DIMS && use->array >= 0; ++d) {
        cel_vec_push(out, use->below[d]);
        cel_vec_push(out, use->above[d]);
      }
    }
  }
  for (int32_t a = 0; a < fold->arrays; ++a) {
    cel_vec_push(out, fold->array[a].dims);
    cel_vec_push(out, (int32_t)fold->array[a].element_size);
  }
}

static cel__fuse *find(const cel_module *module, const cel__key *key) {
  for (uint32_t i = 0; i < module->fused.n; ++i) {
    const cel__key *known = &module->fused.at[i]->key;
    if (known->n == key->n &&
        memcmp(known->at, key->at, key->n * sizeof *key->at) == 0)
      return module->fused.at[i];
  }
  return NULL;
}

static cel__fuse *add(cel_module *module, const cel__key *key) {
  cel__fuse *fuse = cel_alloc_zero(sizeof *fuse);
  for (uint32_t i = 0; i < key->n; ++i) cel_vec_push(&fuse->key, key->at[i]);
  cel_vec_push(&module->fused, fuse);
  return fuse;
}

/* CELER_ONLY: none of the module's own entries. */
static void begin(cel_module *module, const cel_fold_job *fold, int way,
                  cel__fuse *fuse) {
  fuse->begun = true;
  fuse->face.failed = fuse->done = !cel__fuse_line(fold, way, &fuse->line);
  if (fuse->done) return;
  cel__cuda_fold_pattern(fold, (cel_fused_way)way, &fuse->face);
  if (way == CEL_FUSED_STREAM)
    cel_text_format(&fuse->assembled, "#define CELER_STREAM 1\n");
  cel_text_format(&fuse->assembled,
                  "#define CELER_FOLD 1\n#define CELER_ONLY 1000000\n");
  cel_text_add(&fuse->assembled, module->assembled.at, module->assembled.n);
  cel_text_add(&fuse->assembled, "\n", 1);
  cel_text_add(&fuse->assembled, header_text, header_size);
  cel_text_add(&fuse->assembled, "\n", 1);
  cel_text_add(&fuse->assembled, fuse->line.at, fuse->line.n);
  cel__build_start_text(module, &fuse->assembled, &fuse->build);
}

static CUresult take(const cel_cuda *cuda, int32_t d, cel__fuse *fuse) {
  const cel_cuda_api *api = cuda->api;
  CUresult code = api->cuCtxSetCurrent(cuda->device[d].context);
  if (code == CUDA_SUCCESS)
    code = api->cuModuleGetFunction(&fuse->face.function[d], fuse->loaded[d],
                                    "celer_fused");
  if (code == CUDA_SUCCESS && fuse->face.shared > SHARED_USUAL)
    code = api->cuFuncSetAttribute(
        fuse->face.function[d], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        (int)fuse->face.shared);
  if (code == CUDA_SUCCESS && fuse->face.way == CEL_FUSED_STREAM)
    code = api->cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &fuse->face.resident[d], fuse->face.function[d], CEL_FUSED_COLUMNS, 0);
  return code;
}

/* Where it does not compile, or a device cannot have it, steps are launched
 * one after another. */
static void finish(const cel_module *module, cel__fuse *fuse) {
  const cel_cuda *cuda = module->cuda;
  fuse->done = true;
  bool fine =
      cel__build_wait(&fuse->build, NULL) == CEL_E_OK &&
      cel__module_load_images(module, &fuse->build, fuse->loaded) == CEL_E_OK;
  for (int32_t d = 0; d < cuda->devices && fine; ++d)
    fine = take(cuda, d, fuse) == CUDA_SUCCESS;
  cel__build_release(&fuse->build);
  cel_vec_release(&fuse->assembled);
  fuse->face.failed = !fine;
  atomic_store_explicit(&fuse->face.ready, fine, memory_order_release);
}

/* What is asked for once may never come again, as steps that are left over. */
const cel_fused *cel_module_fuse(const cel_fold_job *fold, int way) {
  cel_module *module = header_text != NULL ? module_of(fold) : NULL;
  if (module == NULL) return NULL;
  add_key(fold, way, &module->fuse_key);
  cel__fuse *fuse = find(module, &module->fuse_key);
  if (fuse == NULL)
    fuse = add(module, &module->fuse_key);
  else if (!fuse->begun)
    begin(module, fold, way, fuse);
  else if (!fuse->done && cel_background_done(&fuse->build.chore))
    finish(module, fuse);
  return &fuse->face;
}

void cel__module_unfuse(cel_module *module) {
  for (uint32_t i = 0; i < module->fused.n; ++i) {
    cel__fuse *fuse = module->fused.at[i];
    if (fuse->begun && !fuse->done)
      cel_background_wait(&fuse->build.chore, NULL);
    cel__build_release(&fuse->build);
    cel__module_unload_images(module->cuda, fuse->loaded);
    cel_vec_release(&fuse->assembled);
    cel_vec_release(&fuse->line);
    cel_vec_release(&fuse->key);
    cel_free(fuse);
  }
  cel_vec_release(&module->fused);
  cel_vec_release(&module->fuse_key);
}
