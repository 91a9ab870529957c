/* bounds.h -- what a kernel compiled with CELER_CHECK found: the first access
 * outside the box that the range mapper promises (celer run --check-bounds).
 */
#ifndef CEL_DEVICE_BOUNDS_H
#define CEL_DEVICE_BOUNDS_H

#include "device/kernel.h"

#ifndef CEL_CDEF
#include "base/text.h"
/* celer::fault, in kernels/bounds.cuh; its head is that in sample.cuh. */
typedef struct cel__fault {
  int32_t set, view, dims, item_dims;
  int64_t at[3], item[3];
  cel_box promised;
  _Alignas(16) unsigned char scratch[1024];
} cel__fault;

/* "[0, 1) x [0, 2)". */
void cel__text_add_box(cel_text *out, const cel_box *box, int32_t dims);
/* "kernel f: item (0) touches ..., whose mapper promises ". Thread: any. */
void cel__fault_begin(cel_text *out, const cel__fault *fault,
                      const char *kernel, const cel_param *param);
/* CEL_E_TASK, with the text, which is released, and the access. Thread: any. */
cel_status cel__fault_end(cel_text *text, const cel__fault *fault);
/* CEL_E_TASK: which item of `kernel` touched what. `param` as the compiler gave
 * them. Thread: any. */
cel_status cel__fault_report(const cel__fault *fault, const char *kernel,
                             const cel_param *param);
#endif

#endif
