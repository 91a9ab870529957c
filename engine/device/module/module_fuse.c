/* Entries for folds on GPUs: the module's text once more, with one kernel that
 * calls the functions of all steps (kernels/fold.cuh). The line that says so is
 * what an entry is known by. Texts of several modules stand one after another,
 * each in a namespace of its own. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda_fold.h"
#include "device/cuda/cuda_trial.h"
#include "device/fold.h"
#include "device/module/module.h"
#include "tuning.h"

enum { SHARED_USUAL = 48 << 10 }; /* of a block, without asking */

typedef struct cel__fuse {
  cel_fused face; /* first */
  cel__key key;
  cel_text line, assembled;
  cel__build build;
  bool begun; /* to be made */
  bool done;  /* it was loaded, or never will be */
  uint64_t used;
  CUmodule loaded[CEL_DEVICES];
} cel__fuse;

static const char *header_text; /* main's */
static size_t header_size;
static void (*warn)(void *context, const char *text); /* the executor's */
static void *warn_context;
static uint64_t modules, asked; /* the executor's */

void cel_module_set_fold_warning(void (*fn)(void *context, const char *text),
                                 void *context) {
  warn = fn;
  warn_context = context;
}

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

/* What stands before a kernel's name: nothing where all are of one module. */
static void add_scope(const cel__texts *texts, const cel_module *module,
                      cel_text *out) {
  for (uint32_t i = 0; i < texts->n && texts->n > 1; ++i)
    if (texts->at[i] == module) cel_text_format(out, "celer_text_%u::", i);
}

static void add_step(const cel_fold_job *fold, const cel__texts *texts,
                     int32_t s, cel_text *out) {
  const cel_fold_call *step = &fold->step[s];
  int32_t m[4];
  cel__cuda_fold_margin(fold, s, m);
  cel_text_format(out, ", celer::step<CELER_KERNEL(");
  if (texts != NULL)
    add_scope(texts, cel__kernel_work_of(step->work)->module, out);
  cel_text_format(out, "%s), celer::margin<%d, %d, %d, %d>",
                  step->work->cuda->name, m[0], m[1], m[2], m[3]);
  for (int32_t k = 0; k < fold->step[s].call.views; ++k)
    cel_text_format(out, ", %d", fold->step[s].use[k].array);
  cel_text_format(out, ">");
}

bool cel__fuse_line(const cel_fold_job *fold, const cel__texts *texts, int way,
                    cel_text *out) {
  cel_fused of;
  if (!cel__cuda_fold_pattern(fold, (cel_fused_way)way, &of)) return false;
  static const char *const macros[] = {
      [CEL_FUSED_CHAIN] = "CELER_CHAIN(",
      [CEL_FUSED_TILE] = "CELER_TILE(",
      [CEL_FUSED_STREAM] = "CELER_FLOW(",
      [CEL_FUSED_SHEET] = "CELER_SHEET(",
  };
  cel_text_format(out, "%s", macros[way]);
  if (way != CEL_FUSED_CHAIN)
    cel_text_format(out, "(%d, %d, %d, %d%s), ", of.around[0], of.around[1],
                    of.around[2], of.around[3], of.torus ? ", true" : "");
  if (way == CEL_FUSED_SHEET)
    cel_text_format(out, "%d, %d, %s, ", of.high, of.warps,
                    of.ahead ? "true" : "false");
  if (!add_elements(fold, out)) return false;
  for (int32_t s = 0; s < fold->steps; ++s) add_step(fold, texts, s, out);
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

/* The operators that a prelude has kernels reduce by; null: the usual ones. */
static const char *operators_of(const cel_module *module) {
  const char *prelude = module->kept.source.prelude;
  return strstr(prelude, "#define CELER_OPS");
}

static bool reduces(const cel_module *module) {
  const char *prelude = module->kept.source.prelude;
  return prelude != NULL && strstr(prelude, "CELER_REDUCE_CUH") != NULL;
}

static bool reduce_alike(const cel_module *a, const cel_module *b) {
  const char *x, *y;
  if (!reduces(a) || !reduces(b)) return true;
  x = operators_of(a);
  y = operators_of(b);
  if (x == NULL || y == NULL) return x == y;
  size_t n = strcspn(x, "\n");
  return n == strcspn(y, "\n") && memcmp(x, y, n) == 0;
}

static bool equal_preludes(const cel_module *a, const cel_module *b) {
  const char *x = a->kept.source.prelude, *y = b->kept.source.prelude;
  return x == y || (x != NULL && y != NULL && strcmp(x, y) == 0);
}

/* What is declared for the user is so once in a text. */
static bool declares(const cel_module *module) {
  const char *prelude = module->kept.source.prelude;
  return prelude != NULL && strstr(prelude, CEL_MODULE_DECLARED) != NULL;
}

/* Whether both may stand in one text. */
static bool go_together(const cel_module *a, const cel_module *b) {
  if (a->cuda != b->cuda || a->kept.option.n != b->kept.option.n ||
      !reduce_alike(a, b) ||
      (declares(a) && declares(b) && !equal_preludes(a, b)))
    return false;
  for (uint32_t i = 0; i < a->kept.option.n; ++i)
    if (strcmp(a->kept.option.at[i], b->kept.option.at[i]) != 0) return false;
  return true;
}

/* Whose work it is, if its text may be compiled once more, and it is of its
 * usual build. */
static cel_module *module_of(const cel_work *of) {
  const cel__kernel_work *work = cel__kernel_work_of(of);
  if (work == NULL || work->face.cuda == NULL ||
      work->face.cuda != work->kernel->cuda[0])
    return NULL;
  cel_module *module = work->module;
  return module->cuda != NULL && !module->checked && never_contracts(module)
             ? module
             : NULL;
}

/* The steps' modules, each once; false where they cannot be one text. */
static bool find_texts(const cel_fold_job *fold, cel__texts *out) {
  out->n = 0;
  for (int32_t s = 0; s < fold->steps; ++s) {
    cel_module *module = module_of(fold->step[s].work);
    uint32_t i = 0;
    if (module == NULL) return false;
    while (i < out->n && out->at[i] != module) ++i;
    if (i < out->n) continue;
    for (i = 0; i < out->n; ++i)
      if (!go_together(out->at[i], module)) return false;
    if (out->n == CEL__TEXTS) return false;
    if (module->fuse_id == 0) module->fuse_id = ++modules;
    out->at[out->n++] = module;
  }
  return true;
}

/* All that a line is made of. */
static void add_key(const cel_fold_job *fold, int way, cel__key *out) {
  cel_vec_clear(out);
  cel_vec_push(out, way);
  for (int32_t s = 0; s < fold->steps; ++s) {
    const cel_fold_call *step = &fold->step[s];
    const cel__kernel_work *work = cel__kernel_work_of(step->work);
    uint64_t id = work->module->fuse_id;
    cel_vec_push(out, (int32_t)id);
    cel_vec_push(out, (int32_t)(id >> 32));
    cel_vec_push(out, (int32_t)(work->kernel - work->module->kernel));
    for (int32_t k = 0; k < step->call.views; ++k) {
      const cel_fold_view *use = &step->use[k];
      cel_vec_push(out, use->array);
      for (int d = 0; d < CEL_DIMS && use->array >= 0; ++d) {
        cel_vec_push(out, use->below[d]);
        cel_vec_push(out, use->above[d]);
        cel_vec_push(out, use->wraps[d]);
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

/* Whether a compiler has it, or a job. */
static bool is_busy(const cel__fuse *fuse) {
  return fuse->face.held > 0 || (fuse->begun && !fuse->done &&
                                 !cel_background_done(&fuse->build.chore));
}

static void drop(const cel_module *module, cel__fuse *fuse) {
  if (fuse->begun && !fuse->done) cel_background_wait(&fuse->build.chore, NULL);
  cel__build_release(&fuse->build);
  cel__module_unload_images(module->cuda, fuse->loaded);
  if (fuse->face.trials != NULL)
    cel__cuda_trials_clear(module->cuda->api, fuse->face.trials);
  cel_free(fuse->face.trials);
  cel_vec_release(&fuse->assembled);
  cel_vec_release(&fuse->line);
  cel_vec_release(&fuse->key);
  cel_free(fuse);
}

/* Room for one more, which may cost the one that was not asked for for longest;
 * false where all are busy. */
static bool make_room(cel_module *module) {
  uint32_t oldest = module->fused.n;
  if (module->fused.n < CEL_TUNE_FOLD_FUSED) return true;
  for (uint32_t i = 0; i < module->fused.n; ++i) {
    const cel__fuse *fuse = module->fused.at[i];
    if (!is_busy(fuse) && (oldest == module->fused.n ||
                           fuse->used < module->fused.at[oldest]->used))
      oldest = i;
  }
  if (oldest == module->fused.n) return false;
  drop(module, module->fused.at[oldest]);
  cel_vec_swap_out(&module->fused, oldest);
  return true;
}

static cel__fuse *add(cel_module *module, const cel__key *key, int way) {
  if (!make_room(module)) return NULL;
  cel__fuse *fuse = cel_alloc_zero(sizeof *fuse);
  fuse->face.way = (cel_fused_way)way;
  for (uint32_t i = 0; i < key->n; ++i) cel_vec_push(&fuse->key, key->at[i]);
  cel_vec_push(&module->fused, fuse);
  return fuse;
}

/* Without the modules' own entries: CELER_ONLY, of one. */
static void add_texts(const cel__texts *texts, cel_text *out) {
  const cel_module *first = texts->at[0];
  if (texts->n == 1) {
    cel_text_format(out, "#define CELER_ONLY 1000000\n");
    cel_text_add(out, first->assembled.at, first->assembled.n);
    return;
  }
  cel_text_add(out, first->assembled.at, first->parts.prelude);
  for (uint32_t i = 0; i < texts->n; ++i) {
    const cel_module *module = texts->at[i];
    bool again = false;
    for (uint32_t k = 0; k < i; ++k)
      again = again || equal_preludes(texts->at[k], module);
    if (!again)
      cel_text_add(out, module->assembled.at + module->parts.prelude,
                   module->parts.text - module->parts.prelude);
  }
  for (uint32_t i = 0; i < texts->n; ++i) {
    const cel_module *module = texts->at[i];
    cel_text_format(out, "namespace celer_text_%u {\n", i);
    cel_text_add(out, module->assembled.at + module->parts.text,
                 module->parts.entries - module->parts.text);
    cel_text_format(out, "\n}\n");
  }
}

static void begin(const cel__texts *texts, const cel_fold_job *fold, int way,
                  cel__fuse *fuse) {
  fuse->begun = true;
  fuse->face.failed = fuse->done =
      !cel__fuse_line(fold, texts, way, &fuse->line);
  if (fuse->done) return;
  cel__cuda_fold_pattern(fold, (cel_fused_way)way, &fuse->face);
  if (way == CEL_FUSED_STREAM || way == CEL_FUSED_SHEET)
    cel_text_format(&fuse->assembled, "#define CELER_STREAM 1\n");
  if (way == CEL_FUSED_SHEET)
    cel_text_format(&fuse->assembled, "#define CELER_SHEET 1\n");
  cel_text_format(&fuse->assembled, "#define CELER_FOLD 1\n");
  add_texts(texts, &fuse->assembled);
  cel_text_add(&fuse->assembled, "\n", 1);
  cel_text_add(&fuse->assembled, header_text, header_size);
  cel_text_add(&fuse->assembled, "\n", 1);
  cel_text_add(&fuse->assembled, fuse->line.at, fuse->line.n);
  cel__build_start_text(texts->at[0], &fuse->assembled, &fuse->build);
}

static CUresult take(const cel_cuda *cuda, int32_t d, cel__fuse *fuse) {
  const cel_cuda_api *api = cuda->api;
  CUresult code = api->cuCtxSetCurrent(cuda->device[d].context);
  if (code == CUDA_SUCCESS)
    code = api->cuModuleGetFunction(&fuse->face.function[d], fuse->loaded[d],
                                    "celer_fused");
  const uint32_t shared =
      fuse->face.shared + (uint32_t)fuse->face.warps * fuse->face.shared_warp;
  if (code == CUDA_SUCCESS && shared > SHARED_USUAL)
    code = api->cuFuncSetAttribute(
        fuse->face.function[d], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        (int)shared);
  if (code == CUDA_SUCCESS &&
      (fuse->face.way == CEL_FUSED_STREAM || fuse->face.way == CEL_FUSED_SHEET))
    code = api->cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &fuse->face.resident[d], fuse->face.function[d], CEL_FUSED_LANES, 0);
  return code;
}

/* The first one; others are likely to be alike. Where there is no stream there
 * may be tiles. */
static void tell(const cel_fold_job *fold, const cel__fuse *fuse,
                 const char *why) {
  char text[600];
  if (warn == NULL || fuse->face.way == CEL_FUSED_STREAM ||
      fuse->face.way == CEL_FUSED_SHEET)
    return;
  snprintf(text, sizeof text,
           "%d steps that begin with kernel %s stay launches of their own, as "
           "there is none for all of them: %.*s",
           fold->steps, fold->step[0].work->cuda->name, (int)strcspn(why, "\n"),
           why);
  warn(warn_context, text);
  warn = NULL;
}

/* Where it does not compile, or a device cannot have it, steps are launched
 * one after another. */
static void finish(const cel_module *module, const cel_fold_job *fold,
                   cel__fuse *fuse) {
  const cel_cuda *cuda = module->cuda;
  CUresult code = CUDA_SUCCESS;
  fuse->done = true;
  bool fine =
      cel__build_wait(&fuse->build, NULL) == CEL_E_OK &&
      cel__module_load_images(module, &fuse->build, fuse->loaded) == CEL_E_OK;
  if (!fine) tell(fold, fuse, cel_error_last()->text);
  for (int32_t d = 0; d < cuda->devices && fine && code == CUDA_SUCCESS; ++d)
    code = take(cuda, d, fuse);
  if (code != CUDA_SUCCESS)
    tell(fold, fuse, cel_cuda_api_text(cuda->api, code));
  fine = fine && code == CUDA_SUCCESS;
  cel__build_release(&fuse->build);
  cel_vec_release(&fuse->assembled);
  fuse->face.failed = !fine;
  if (fine)
    fuse->face.trials =
        cel_alloc_zero(CEL__CUDA_TRIAL_SIZES * sizeof *fuse->face.trials);
  atomic_store_explicit(&fuse->face.ready, fine, memory_order_release);
}

/* What is asked for once may never come again, as steps that are left over. */
const cel_fused *cel_module_fuse(const cel_fold_job *fold, int way) {
  cel__texts texts = {.n = 0};
  if (header_text == NULL || !find_texts(fold, &texts)) return NULL;
  cel_assert(texts.n > 0);
  cel_module *module = texts.at[0];
  add_key(fold, way, &module->fuse_key);
  cel__fuse *fuse = find(module, &module->fuse_key);
  if (fuse == NULL)
    fuse = add(module, &module->fuse_key, way);
  else if (!fuse->begun)
    begin(&texts, fold, way, fuse);
  else if (!fuse->done && cel_background_done(&fuse->build.chore))
    finish(module, fold, fuse);
  if (fuse == NULL) return NULL;
  fuse->used = ++asked;
  return &fuse->face;
}

void cel_module_hold_fused(const cel_fused *fused, bool held) {
  cel_fused *own = (cel_fused *)(uintptr_t)fused;
  if (own == NULL) return;
  cel_assert(held || own->held > 0);
  own->held += held ? 1 : UINT32_MAX;
}

void cel__module_unfuse(cel_module *module) {
  for (uint32_t i = 0; i < module->fused.n; ++i)
    drop(module, module->fused.at[i]);
  cel_vec_release(&module->fused);
  cel_vec_release(&module->fuse_key);
}
