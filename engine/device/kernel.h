/* kernel.h -- CUDA C++ source in, something that a backend can launch out.
 *
 * The user's source holds one or more functions `kernel void name(item<D>,
 * ...)`; or, for GPUs alone, CUDA's own (kernels/plain.cuh). Entries and
 * parameter descriptions are made by templates in kernels/celer.cuh, so the
 * compiler that reads the source also tells us its signature; nobody parses C++
 * but it.
 *
 * Compiled modules are cached on disk by content: source, headers, compiler
 * and version, flags, processor features. The cache is private to the user
 * ($CELER_CACHE, $XDG_CACHE_HOME/celer or ~/.cache/celer, mode 0700); an entry
 * is written beside and renamed into place, so that racing ranks are safe; a
 * damaged entry is rebuilt.
 */
#ifndef CEL_DEVICE_KERNEL_H
#define CEL_DEVICE_KERNEL_H

#include "base/status.h"
#include "task/work.h"

typedef enum cel_param_kind {
  CEL_PARAM_ITEM = 1,
  CEL_PARAM_IN,
  CEL_PARAM_OUT,
  CEL_PARAM_INOUT,
  CEL_PARAM_VALUE,
  CEL_PARAM_GROUP,  /* in place of ITEM: a kernel of work groups, or tiles */
  CEL_PARAM_LOCAL,  /* `dims` elements that a group shares; nobody passes it */
  CEL_PARAM_REDUCER /* `dims` of the buffer; 0: one element of any buffer */
} cel_param_kind;

/* One parameter as the compiler saw it. The layout is known to celer.cuh. */
typedef struct cel_param {
  int32_t kind;
  int32_t dims;   /* ITEM, GROUP, IN, OUT, INOUT, REDUCER; VALUE: not 0 where it
                     tells the view before it of its buffer's edges, or of a
                     route, whose view has words of 8 bytes */
  int32_t class_; /* element or value: 'i', 'u', 'f', 'b', or 's' struct */
  int32_t size;   /* bytes of the element or value */
  int32_t align;
  char type[44];   /* "float", "double3", or the struct's name */
  int32_t tile[3]; /* GROUP: of a tile its items in each dimension. VALUE: of
                      what tells of a route the bytes of what is sent. Else 0 */
} cel_param;

#ifndef CEL_CDEF
static inline bool cel__param_is_view(const cel_param *p) {
  return (p->kind >= CEL_PARAM_IN && p->kind <= CEL_PARAM_INOUT) ||
         p->kind == CEL_PARAM_REDUCER;
}
#endif

/* Whether GPUs compute a * b + c with one rounding: by what a submission's
 * accesses are like, as cel_module_suit is told; always; never, or as the
 * user's options say. */
typedef enum cel_contract {
  CEL_CONTRACT_BY_SHAPE,
  CEL_CONTRACT_ALWAYS,
  CEL_CONTRACT_NEVER
} cel_contract;

typedef struct cel_source {
  const char *prelude; /* C++ that goes before the text; may be null */
  const char *text;
  const char *file;      /* the user's, for #line */
  int32_t line;          /* where text begins in it */
  const char *directory; /* for #include "..."; may be null */
  int32_t defines;
  const char *const *define; /* "N=3" */
  int32_t options;
  const char *const *option; /* extra compiler flags */
  int32_t only;     /* number of the one kernel wanted, from 1; 0: all */
  int32_t block[3]; /* of CUDA's own kernels, x first; 0: of celer's */
  cel_contract contract;
} cel_source;

typedef struct cel_module cel_module;

/* The text of kernels/celer.cuh with its parts, borrowed for the life of the
 * process; before the first compile. Thread: main. */
void cel_module_set_header(const char *text, size_t size);

/* Begins to compile for the CPU, or to find it in the cache, on a thread of its
 * own (background.h); `source` is copied. CEL_E_COMPILE: the source holds no
 * kernel. The caller owns *out, whose kernels have names, and all else once
 * cel_module_finish has returned. Thread: main. */
cel_status cel_module_begin_cpu(const cel_source *source, cel_module **out);
enum { CEL_TARGETS = 16 };

/* Whether modules that are begun from now on are sampled (sample.h): not at
 * all, or only for runs to come, as where nothing is carried out. */
typedef enum cel_sampling {
  CEL_SAMPLING_ON,
  CEL_SAMPLING_OFF,
  CEL_SAMPLING_AHEAD
} cel_sampling;
/* Thread: main. */
void cel_module_set_sampling(cel_sampling how);

/* The same for GPUs of some architectures (90: sm_90), 1 to CEL_TARGETS, into
 * the cache; nothing is loaded: for a machine without a GPU, and works that
 * nobody runs. Thread: main. */
cel_status cel_module_begin_images(const cel_source *source,
                                   const int32_t *architecture, int32_t n,
                                   cel_module **out);
/* Waits until it is compiled, and loads it. CEL_E_COMPILE: the error text is
 * the compiler's, with the user's file and lines. CEL_E_MISSING: no compiler,
 * and what to install. CEL_E_IO. CEL_E_CANCELLED: `interrupted` (null: never)
 * said so. But for the last one the same again when called again. Thread: main.
 */
cel_status cel_module_finish(cel_module *module, bool (*interrupted)(void));
/* How often a compiler's result was found in the cache, was put there, and
 * could not be kept because nobody knows what its source includes. */
typedef struct cel_compiled {
  uint64_t found, made, unkept;
} cel_compiled;
/* In this process, so far. Thread: any. */
void cel_compile_count(cel_compiled *out);
/* What works must stand. */
typedef struct cel_suits {
  int64_t row; /* items of the range along its last dimension */
  bool wide;   /* memory of 2^31 rows or more, or whose rows or planes hold so
                  many elements */
  bool beyond; /* the range exceeds a buffer of as many dimensions */
  bool folds;  /* a task that may be a member of a fold (fold/shape.h), and then
                  is not contracted unless its source says so */
  int32_t items; /* of a group; 0: without */
} cel_suits;
/* What the works made of a kernel from now on must stand. Compiles this kernel
 * once more where that takes it and was not done before. For the processor at
 * first rows have less than 2^31 items; for GPUs it is not wide, for folds, and
 * for groups of up to 256, whose items may have 255 registers each; those of
 * 1024 have 64. A tile is always compiled for its own size. What has near<T, D>
 * is wide for GPUs where items lie beyond a buffer. Errors as cel_module_finish
 * has, which was called before. Thread: main. */
cel_status cel_module_suit(cel_module *module, int32_t kernel,
                           const cel_suits *what);
/* Whether `folds` matters to it: for GPUs, where the source leaves it open. */
bool cel_module_contracts_by_shape(const cel_module *module);
void cel_module_destroy(cel_module *module);
/* Names of the kernels in the module, in the order of the source. */
int32_t cel_module_kernels(const cel_module *module);
const char *cel_module_kernel_name(const cel_module *module, int32_t kernel);
/* The parameters, in order; owned by the module. */
int32_t cel_module_params(const cel_module *module, int32_t kernel,
                          const cel_param **out);
/* What a kernel takes of a GPU, and how many blocks of it a multiprocessor
 * holds. */
typedef struct cel_kernel_info {
  int32_t architecture; /* 90: sm_90; 0: it runs on the processor */
  int32_t registers;    /* per thread */
  int32_t shared;       /* bytes per block, known at compile time */
  int32_t local_;       /* bytes per thread: what did not fit into registers */
  int32_t threads;      /* per block at most */
  int32_t blocks;       /* of the threads asked about, per multiprocessor */
  double occupancy;     /* their threads, as a share of what it could hold */
} cel_kernel_info;

/* On the first GPU, with blocks of `threads`, as works made now would use it
 * (cel_module_suit). All zero for a module for the processor, all but the
 * architecture for one that is loaded nowhere. CEL_E_MISSING.
 * Thread: main. */
cel_status cel_module_info(const cel_module *module, int32_t kernel,
                           int32_t threads, cel_kernel_info *out);
/* Of what the user wrote; the same on every rank. */
uint64_t cel_module_hash(const cel_module *module);
/* Bytes of the packed values of a kernel. */
uint32_t cel_module_values_size(const cel_module *module, int32_t kernel);

/* A work that launches `kernel`, with its VALUE arguments packed in order,
 * each at its alignment, in `values` (copied). IN/OUT/INOUT parameters take
 * the views in order. The module must outlive it. The caller owns *out (one
 * reference). Thread: main. */
cel_work *cel_module_work(const cel_module *module, int32_t kernel,
                          const void *values, uint32_t size);
/* Of a work just made: what the REDUCER that takes view number `view` reduces
 * into, and one identity, which is copied. Once for each REDUCER, in order. The
 * result lives with the work. Thread: main. */
const cel_reducer *cel_module_reduce(cel_work *work, int32_t view,
                                     const cel_box *extent,
                                     const void *identity, cel_op op);

/* The text of kernels/fold.cuh, borrowed for the life of the process. Without
 * it there are no fused entries. Thread: main. */
void cel_module_set_fold_header(const char *text, size_t size);
/* Is told, once, that steps could not be one launch where they should, and why;
 * the text is the callee's for the call. Thread: main; `warn` is called by the
 * executor. */
void cel_module_set_fold_warning(void (*warn)(void *context, const char *text),
                                 void *context);
struct cel_fold_job;
struct cel_fused;
/* Of folds on GPUs: the entry for those like this one, of which works, uses and
 * arrays' sizes count alone; `way` is a cel_fused_way. What is asked for a
 * second time begins to compile on a thread of its own; it is ready at some
 * later call, for all folds that have it. Null: there is none, as compilers may
 * contract, the steps' modules cannot be one text, or those that were asked for
 * before are all in use. It lives with the first step's module, or until others
 * have been asked for since and nobody holds it. Cost: a few ns per view.
 * Thread: executor; others where there is none. */
const struct cel_fused *cel_module_fuse(const struct cel_fold_job *fold,
                                        int way);
/* A job has it, or has it no more. Thread: likewise. */
void cel_module_hold_fused(const struct cel_fused *fused, bool held);

struct cel_access;
/* Chooses the order in which a work that was just made goes through its items,
 * by how its task's accesses follow them. Thread: main. */
void cel_module_walk(cel_work *work, const struct cel_access *access,
                     uint32_t accesses);
/* Has the calls of a work that was just made of `kernel` sampled, where its
 * task's accesses are among the first with such mappers, and the build that
 * takes is there; `fold` as of the group: what may be carried out together with
 * others is counted apart. Cost: a few ns per access. Thread: main. */
void cel_module_sample(cel_module *module, int32_t kernel, cel_work *work,
                       const struct cel_access *access, uint32_t accesses,
                       int32_t fold);

/* Where compiled kernels are kept, for celer info: the folder, and in `warning`
 * why it is not the usual one (empty when it is). Thread: main. */
void cel_cache_describe(char *folder, size_t folder_size, char *warning,
                        size_t warning_size);
/* "g++ (Debian 12.2.0) 12.2.0", or null when there is no compiler. Cached.
 * Thread: any. */
const char *cel_compiler_describe(void);

#endif
