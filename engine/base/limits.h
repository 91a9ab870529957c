/* limits.h -- how many of what one rank may have. */
#ifndef CEL_BASE_LIMITS_H
#define CEL_BASE_LIMITS_H

enum { CEL_DEVICES = 8 /* per rank; their memories are bits of one word */ };

#endif
