/* Which launches are sampled, and the builds that this takes. */
#include <dlfcn.h>
#include <string.h>

#include "base/hash.h"
#include "device/module/module.h"
#include "device/sample.h"
#include "tuning.h"

static cel_sampling sampling; /* main's */

void cel_module_set_sampling(cel_sampling how) {
  sampling = how;
}

/* What may give other bits to a build with other branches: not sampled. */
static bool changes_bits(const cel_source *source) {
  for (int32_t i = 0; i < source->options; ++i)
    if (strncmp(source->option[i], "-f", 2) == 0 ||
        strncmp(source->option[i], "-O", 2) == 0)
      return true;
  return false;
}

bool cel__module_is_sampled(const cel_module *module) {
  const cel_source *source = &module->kept.source;
  return sampling != CEL_SAMPLING_OFF && !module->checked && !module->marks &&
         source->block[0] == 0 && !changes_bits(source);
}

/* ---- builds ---------------------------------------------------------------
 */

void cel__module_finish_sample(cel_module *module, bool (*interrupted)(void)) {
  bool late = module->build.was_there || sampling == CEL_SAMPLING_AHEAD;
  if (late && module->failure.code == CEL_E_OK &&
      cel__module_makes_sample(module))
    cel_background_wait(&module->sampling.chore, interrupted);
}

static void take_library(cel_module *module) {
  module->sample_library = module->sampling.library;
  module->sampling.library = NULL;
  for (uint32_t i = 0; module->sample_library != NULL && i < module->found.n;
       ++i) {
    cel_text symbol = {0};
    cel_text_format(&symbol, "celer_run_%s", module->found.at[i].name);
    void *run = dlsym(module->sample_library, symbol.at);
    memcpy(&module->kernel[i].sample, &run, sizeof run);
    cel_vec_release(&symbol);
  }
}

/* Whether kernels have what they take; a build that failed gives them nothing.
 */
static bool is_ready(cel_module *module) {
  cel__build *build = &module->sampling;
  if (module->ready) return true;
  if (!build->found && !cel_background_done(&build->chore)) return false;
  if (build->targets == 0)
    take_library(module);
  else if (module->cuda != NULL && build->failure.code == CEL_E_OK)
    cel__module_load_sample(module, build);
  cel__build_release(build);
  module->ready = true;
  return true;
}

/* ---- launches -------------------------------------------------------------
 */

static uint64_t hash_mappers(const cel_access *access, uint32_t n, bool alone) {
  uint64_t hash = alone;
  for (uint32_t i = 0; i < n; ++i) {
    const cel_rule_use *use = &access[i].use;
    if (use->rule == NULL) continue;
    hash = cel_hash_word(hash, use->rule->hash);
    for (int32_t p = 0; p < use->rule->desc.params; ++p)
      hash = cel_hash_word(hash, (uint64_t)use->params[p]);
  }
  return hash | 1;
}

/* Counts a launch; true for the first ones with such mappers. A kernel that
 * meets ever others is not looked at for ever. */
static bool is_new(cel__kernel *kernel, uint64_t mappers) {
  for (uint64_t i = 0; i < CEL__MAPPERS_KNOWN; ++i) {
    uint64_t at = (mappers + i) % CEL__MAPPERS_KNOWN;
    if (kernel->mappers_known[at] == 0) kernel->mappers_known[at] = mappers;
    if (kernel->mappers_known[at] == mappers)
      return kernel->launches[at] < CEL_TUNE_SAMPLE_LAUNCHES &&
             ++kernel->launches[at] > 0;
  }
  return false;
}

void cel_module_sample(cel_module *module, int32_t kernel, cel_work *work,
                       const cel_access *access, uint32_t accesses,
                       int32_t fold) {
  if (!module->samples || !is_ready(module)) return;
  cel__kernel *k = &module->kernel[kernel];
  if (sampling == CEL_SAMPLING_AHEAD ||
      (k->sample == NULL && k->sample_cuda == NULL))
    return;
  work->samples = is_new(k, hash_mappers(access, accesses, fold == 1)) &&
                  cel__sample_affords(0);
  work->waits = work->samples;
}
