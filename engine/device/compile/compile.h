/* compile.h -- from a source to machine code, by way of the cache. */
#ifndef CEL_DEVICE_COMPILE_COMPILE_H
#define CEL_DEVICE_COMPILE_COMPILE_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "device/compile/source.h"

/* Where compiled kernels are kept, and by what compilers, is looked up once.
 * Thread: main, before those below. */
void cel_compile_prepare(void);

/* Of this processor and its C library: where these are equal, kernels give the
 * same bits. Thread: main. */
uint64_t cel_compile_processor(void);

/* The rows of the ranges that entries for the processor are compiled for: of
 * less than 2^31 items, longer ones, or both. loop.cuh says the same. */
typedef enum cel_rows { CEL_ROWS_SHORT, CEL_ROWS_LONG, CEL_ROWS_ANY } cel_rows;
enum { CEL_ROWS = CEL_ROWS_ANY + 1 };

/* Finds or compiles `assembled`, the whole text of `source`, and loads it; the
 * caller owns *out (dlclose). With `sample` it is checked, for samples
 * (sample.h), and for rows of any length whatever `rows` says. *was_there:
 * nobody had to compile it. CEL_E_COMPILE, CEL_E_MISSING, CEL_E_IO. Thread:
 * any. */
cel_status cel_compile_cpu(const cel_source *source, const cel_text *assembled,
                           cel_rows rows, bool sample, bool *was_there,
                           void **out);
/* Finds what the same gives with `sample`; false where it is not compiled yet.
 * True, and *out stays null, where it does not compile. Thread: any. */
bool cel_compile_cpu_find_sample(const cel_source *source,
                                 const cel_text *assembled, void **out);

typedef struct cel_cuda_target {
  int32_t architecture; /* 90: sm_90 */
  bool wide;            /* strides of 2^31 elements and more */
  int32_t items;        /* of a work group at most: 512 or 1024, else 256 */
  bool contracted;      /* a * b + c is rounded once, unless options say else */
  bool sample;          /* checked, for samples: sample.h */
} cel_cuda_target;

/* Finds or compiles it likewise, by NVRTC; the module's bytes
 * into *out, which is empty.
 * Errors as above. Thread: any. */
cel_status cel_compile_cuda(const cel_source *source, const cel_text *assembled,
                            cel_cuda_target target, bool *was_there,
                            cel_text *out);
/* Finds what the same gives, whose target has `sample`; false where it is not
 * compiled yet. True, and *out stays empty, where it does not compile, or
 * cannot be kept. Thread: any. */
bool cel_compile_cuda_find_sample(const cel_source *source,
                                  const cel_text *assembled,
                                  cel_cuda_target target, cel_text *out);

/* Whether the user's options say how GPUs contract. */
bool cel__contracts_by_options(const cel_source *source);

/* CEL_E_COMPILE with what a compiler said, cleaned, at the user's line. */
cel_status cel__compile_fail(const cel_source *source, const char *said);
#endif

#endif
