/* wide.h -- copies of large boxes between places in the host's memory. */
#ifndef CEL_DEVICE_WIDE_H
#define CEL_DEVICE_WIDE_H

#include "device/backend.h"

/* As cel_copy_box, by several threads where there is much to copy and the
 * process has several cores. They end with the call. Pages that are
 * touched for the first time cost more than the copy: they too are divided.
 * Thread: any. */
void cel_copy_box_wide(const cel_layout *from, const cel_layout *to,
                       const cel_box *box, uint32_t element_size);

#endif
