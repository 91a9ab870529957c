/* amount.h -- amounts of memory as people read them, for messages. */
#ifndef CEL_BASE_AMOUNT_H
#define CEL_BASE_AMOUNT_H

#ifndef CEL_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

enum { CEL_AMOUNT_TEXT = 32 };

/* "3.2 GiB". `size` of CEL_AMOUNT_TEXT is enough. Thread: any. */
void cel_amount_text(uint64_t bytes, char *text, size_t size);
/* The same of what there is too much of and of what there is: in bytes where
 * both would read alike. Each text has CEL_AMOUNT_TEXT. Thread: any. */
void cel_amount_texts(uint64_t asked, uint64_t there, char *asked_text,
                      char *there_text);

#endif
