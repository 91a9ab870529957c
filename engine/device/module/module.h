/* module.h -- what is inside a cel_module; kernel.h is its face. */
#ifndef CEL_DEVICE_MODULE_MODULE_H
#define CEL_DEVICE_MODULE_MODULE_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "device/bounds.h"
#include "device/compile/background.h"
#include "device/compile/compile.h"
#include "device/compile/source.h"
#include "device/cuda/cuda.h"

/* How a module is compiled for GPUs, as a number: strides wide (1) or not,
 * groups of up to 256 (0), 512 (2) or 1024 items (4), contracted (6) or not. */
enum { CEL__CONTRACTED = 6, CEL__VARIANTS = 12 };

static inline int32_t cel__variant(bool wide, int32_t items, bool contracted) {
  return (wide ? 1 : 0) +
         (items > 512   ? 4
          : items > 256 ? 2
                        : 0) +
         (contracted ? CEL__CONTRACTED : 0);
}

static inline cel_cuda_target cel__module_target(int32_t architecture,
                                                 int32_t variant) {
  return (cel_cuda_target){.architecture = architecture,
                           .wide = variant % 2 == 1,
                           .items = 256 << variant % CEL__CONTRACTED / 2,
                           .contracted = variant >= CEL__CONTRACTED};
}

enum { CEL__MAPPERS_KNOWN = 64 };

typedef void cel__run_function(const cel_call *call);
typedef void cel__combine_function(const cel_call *call, int view, int how);

/* What computes a kernel's items on the processor. */
typedef struct cel__entry {
  void *library; /* it holds this kernel alone; null: the module's */
  cel__run_function *run;
  cel__fault *fault; /* the library's; null: not checked */
} cel__entry;

typedef struct cel__kernel {
  cel__entry entry[CEL_ROWS];     /* `run` is null: not loaded, or for GPUs */
  cel__combine_function *combine; /* null: nothing is reduced, or for GPUs */
  cel__run_function *sample;      /* checked, for samples; null: not there */
  _Atomic(uint64_t) item_ps;      /* what an item takes; 0: not known */
  const cel_param *param; /* ends with kind 0; the library's, or `owned`; null:
                             this kernel was not wanted */
  cel_param *owned;
  cel_cuda_kernel *cuda[CEL__VARIANTS]; /* null: not loaded */
  /* Those that hold this kernel alone. */
  CUmodule own[CEL__VARIANTS][CEL_DEVICES];
  bool compiled[CEL__VARIANTS];
  /* That works use from now on: for the processor one of cel_rows. */
  int32_t variant;
  cel_cuda_kernel *sample_cuda; /* null: not there */
  /* Sets of mappers that it was launched with, and how often: the first few
   * launches with each are sampled. */
  uint64_t mappers_known[CEL__MAPPERS_KNOWN];
  uint8_t launches[CEL__MAPPERS_KNOWN];
  int32_t params, views, reducers;
  uint32_t values_size;
  uint64_t hash; /* of the module's source and its name */
} cel__kernel;

/* A source on its way to machine code. */
typedef struct cel__build {
  cel_chore chore; /* first */
  cel_source source;
  const cel_text *assembled;
  int32_t targets; /* 0: the processor */
  cel_cuda_target target[CEL_TARGETS];
  cel_rows rows; /* for the processor */
  bool sample;   /* checked, for samples */
  /* What samples take: looked for first, and where it is not there, begun
   * beside this one. Null: nothing. */
  struct cel__build *beside;
  /* What it came to, once the chore is done. */
  cel_error failure; /* code 0: none */
  void *library;     /* for the processor */
  cel_text image[CEL_TARGETS];
  bool was_there; /* nobody had to compile it, the last of several */
  bool found;     /* by the one that it is beside */
} cel__build;

/* What compiling takes; copies of the user's. */
typedef struct cel__kept_source {
  cel_source source;
  CEL_VEC(char *) strings;
  CEL_VEC(const char *) option;
} cel__kept_source;

typedef CEL_VEC(int32_t) cel__key;

struct cel_module {
  cel_found_list found;
  cel__kernel *kernel; /* one for each found */
  cel_text assembled;  /* the assembled text */
  cel_source_parts parts;
  uint64_t hash;
  bool finished;
  cel_error failure; /* code 0: none */
  cel__build build;  /* as it was made */
  /* For samples: whether they are taken; `ready` once kernels have what they
   * take, or there is none. */
  bool samples, ready;
  cel__build sampling;
  void *sample_library;
  CUmodule sample_loaded[CEL_DEVICES];
  void *library;  /* for the processor */
  cel_cuda *cuda; /* borrowed; null: for the processor, or not loaded */
  /* Compiled for GPUs of these, and loaded nowhere; 0: that is not so. */
  int32_t architectures, architecture[CEL_TARGETS];
  CUmodule loaded[CEL_DEVICES];
  bool checked; /* compiled with CELER_CHECK */
  bool marks;   /* compiled with CELER_MARK: for the processor alone */
  bool effects; /* the user's text has any */
  cel_contract contract;
  cel__kept_source kept;
  /* module_fuse.c; the executor's. */
  uint64_t fuse_id;                  /* never another module's; 0: none yet */
  CEL_VEC(struct cel__fuse *) fused; /* whose first step is of this module */
  cel__key fuse_key;                 /* of the fold that is asked about */
};

static inline bool cel__module_is_cpu(const cel_module *module) {
  return module->cuda == NULL && module->architectures == 0;
}

/* The variant that is compiled first. Of what has effects, as variables of its
 * own, there is one library on the processor. */
static inline int32_t cel__module_first(const cel_module *module) {
  if (cel__module_is_cpu(module))
    return module->effects ? CEL_ROWS_ANY : CEL_ROWS_SHORT;
  return cel__variant(false, 0, module->contract == CEL_CONTRACT_ALWAYS);
}

/* A kernel's work. */
typedef struct cel__kernel_work {
  cel_work face; /* first */
  const cel__kernel *kernel;
  const cel__entry *entry; /* null: for GPUs */
  cel_module *module;
  const char *name;
} cel__kernel_work;
/* Null where it is another work. */
const cel__kernel_work *cel__kernel_work_of(const cel_work *work);

/* Whether what a text does may be seen beside what its accessors write. */
bool cel__has_effects(const char *text);
/* Whether a kernel of the text ends, and stays within memory, whatever it
 * reads: there are no loops, in it or outside of kernels, and no index in
 * brackets but numbers. Thread: any. */
bool cel__goes_straight(const char *text, const char *name);
/* Counts params and views of a kernel whose `param` is set. */
void cel__kernel_count(cel__kernel *kernel);

/* Whether this module, not begun yet, is to be sampled. */
bool cel__module_is_sampled(const cel_module *module);

/* Whether kernel i is compiled. */
static inline bool cel__module_wants(const cel_module *module, uint32_t i) {
  int32_t only = module->kept.source.only;
  return only == 0 || only == (int32_t)i + 1;
}

/* Copies what compiling will take. */
void cel__module_keep(cel_module *module, const cel_source *source);
void cel__module_forget(cel_module *module);

/* Starts a build of the module's source as `variant`, of all kernels that are
 * wanted, or with `only` from 1 on of that one. `build` is all zero. */
void cel__build_start(const cel_module *module, int32_t only, int32_t variant,
                      cel__build *build);
/* The same for a text of one's own: `assembled` is borrowed until it is done.
 */
void cel__build_start_text(const cel_module *module, const cel_text *assembled,
                           cel__build *build);
/* Starts the first build of all, and, where the module is sampled, what that
 * takes. */
void cel__module_start(cel_module *module);
/* Of a finished module: whether `sampling` is under way, or done. */
static inline bool cel__module_makes_sample(const cel_module *module) {
  return module->samples && !module->sampling.found;
}
/* Waits for it. Errors as cel_module_finish has. */
cel_status cel__build_wait(cel__build *build, bool (*interrupted)(void));
/* What nobody has taken out of it. */
void cel__build_release(cel__build *build);

/* Takes what was built for the processor, and fills in kernel[].entry[variant]
 * of those that it holds: kernel `only`, from 1, or 0: all that are wanted. */
cel_status cel__module_load_cpu(cel_module *module, cel__build *build,
                                int32_t only, int32_t variant);
/* Loads what was built on every device, and kernel[].cuda[variant] likewise. */
cel_status cel__module_load_cuda(cel_module *module, const cel__build *build,
                                 int32_t only, int32_t variant);
/* Loads images on every device. */
cel_status cel__module_load_images(const cel_module *module,
                                   const cel__build *build,
                                   CUmodule out[CEL_DEVICES]);
void cel__module_unload_images(const cel_cuda *cuda, const CUmodule *loaded);
/* Ends what module_fuse.c has under way, and releases it. */
void cel__module_unfuse(cel_module *module);
/* Modules whose texts are one, each once. */
enum { CEL__TEXTS = 16 };
typedef struct cel__texts {
  cel_module *at[CEL__TEXTS];
  uint32_t n;
} cel__texts;

/* Stands in a prelude before what a user has declared;
 * lua/celer/kernel/kernel.lua says the same. */
#define CEL_MODULE_DECLARED "// the user's own"

/* The line behind the header that makes a fold's entry; false: there is none.
 * `texts` may be null where works have no modules. */
bool cel__fuse_line(const struct cel_fold_job *fold, const cel__texts *texts,
                    int way, cel_text *out);
/* Loads what samples take, on every device. */
cel_status cel__module_load_sample(cel_module *module, const cel__build *build);
/* The module was just finished. Waits for what samples take where a run before
 * ended earlier than its compiler, and where they are for runs to come. */
void cel__module_finish_sample(cel_module *module, bool (*interrupted)(void));
/* Reads the kernels' parameters from the first image unless they are known. */
cel_status cel__module_take_images(cel_module *module, const cel__build *build);
/* Releases what the two above made; any part of it may be missing. */
void cel__module_unload_cuda(cel_module *module);
#endif

#endif
