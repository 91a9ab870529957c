/* image.h -- what a compiler left in an image: a shared library, a module for
 * GPUs (both ELF) or PTX, whether or not this machine could load it.
 *
 * Thread: any, all of these.
 */
#ifndef CEL_DEVICE_COMPILE_IMAGE_H
#define CEL_DEVICE_COMPILE_IMAGE_H

#include "base/status.h"

#ifndef CEL_CDEF
#include "base/text.h"

/* Appends the bytes of the constant `name` to *out; false when there is none.
 * PTX leaves out zeros at the end. */
bool cel_image_constant(const cel_text *image, const char *name, cel_text *out);
/* Appends the names of its kernels, one per line. */
void cel_image_kernels(const cel_text *image, cel_text *out);
/* 90 for sm_90; 0 for a library, or when it does not say. */
int32_t cel_image_architecture(const cel_text *image);
#endif

#endif
