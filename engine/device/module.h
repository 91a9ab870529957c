/* module.h -- what is inside a cel_module; kernel.h is its face. */
#ifndef CEL_DEVICE_MODULE_H
#define CEL_DEVICE_MODULE_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "device/check.h"
#include "device/compile.h"
#include "device/cuda.h"
#include "device/source.h"

/* How a module is compiled for GPUs, as a number: strides wide (1) or not, and
 * groups of up to 256 (0), 512 (2) or 1024 items (4). */
enum { CEL__VARIANTS = 6 };

static inline int32_t cel__variant(bool wide, int32_t items) {
  return (wide ? 1 : 0) + (items > 512 ? 4 : items > 256 ? 2 : 0);
}

static inline cel_cuda_target cel__module_target(int32_t architecture,
                                                 int32_t variant) {
  return (cel_cuda_target){.architecture = architecture,
                           .wide = variant % 2 == 1,
                           .items = 256 << variant / 2};
}

typedef void cel__run_function(const cel_call *call);
typedef void cel__combine_function(const cel_call *call, int view, int onto);

typedef struct cel__kernel {
  cel__run_function *run;         /* null: for GPUs */
  cel__combine_function *combine; /* null: nothing is reduced, or for GPUs */
  cel__fault *fault;              /* the library's; null: not checked */
  const cel_param *param; /* ends with kind 0; the library's, or `owned` */
  cel_param *owned;
  cel_cuda_kernel *cuda[CEL__VARIANTS]; /* null: not compiled */
  int32_t params, views, reducers;
  uint32_t values_size;
  uint64_t hash; /* of the module's source and its name */
} cel__kernel;

/* What compiling again takes; copies of the user's. */
typedef struct cel__kept_source {
  cel_source source;
  CEL_VEC(char *) strings;
  CEL_VEC(const char *) option;
} cel__kept_source;

struct cel_module {
  cel_found_list found;
  cel__kernel *kernel; /* one for each found */
  cel_text unit;       /* the assembled text */
  uint64_t hash;
  void *library;  /* for the processor */
  cel_cuda *cuda; /* borrowed; null: for the processor, or not loaded */
  /* Compiled for GPUs of these, and loaded nowhere; 0: that is not so. */
  int32_t architectures, architecture[CEL_TARGETS];
  CUmodule loaded[CEL__VARIANTS][CEL_DEVICES];
  bool checked; /* compiled with CELER_CHECK */
  bool marks;   /* compiled with CELER_MARK: for the processor alone */
  bool compiled[CEL__VARIANTS];
  int32_t variant; /* that works use from now on */
  cel__kept_source kept;
};

static inline bool cel__param_is_view(const cel_param *p) {
  return (p->kind >= CEL_PARAM_IN && p->kind <= CEL_PARAM_INOUT) ||
         p->kind == CEL_PARAM_REDUCER;
}

/* Counts params and views of a kernel whose `param` is set. */
void cel__kernel_count(cel__kernel *kernel);

/* Compiles, loads on every device and fills in kernel[].cuda[variant]. */
cel_status cel__module_load_cuda(cel_module *module, const cel_source *source,
                                 int32_t variant);
/* Compiles for module->architecture, and reads the kernels' parameters from
 * the first image unless they are known. */
cel_status cel__module_compile_images(cel_module *module,
                                      const cel_source *source,
                                      int32_t variant);
/* Copies what compiling again will take. */
void cel__module_keep(cel_module *module, const cel_source *source);
/* Releases what the two above made; any part of it may be missing. */
void cel__module_unload_cuda(cel_module *module);
#endif

#endif
