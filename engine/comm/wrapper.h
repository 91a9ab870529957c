/* wrapper.h -- a transport around another one, to which it leaves what it does
 * not do itself. Confined as the transport is.
 */
#ifndef CEL_COMM_WRAPPER_H
#define CEL_COMM_WRAPPER_H

#include "comm/transport.h"

typedef struct cel_wrapper {
  cel_transport base; /* first */
  cel_transport *inner;
} cel_wrapper;

/* In the same place as `inner`, which `destroy` destroys with it; every
 * function hands on to it, until the caller puts its own in place. It frees
 * nothing: whoever keeps more in `around` has a `destroy` of its own. */
void cel_wrapper_init(cel_wrapper *around, cel_transport *inner,
                      const char *name);
#endif
