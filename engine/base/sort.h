/* sort.h -- sorting of what mostly is in order, or consists of a few runs.
 *
 * What graphs sort comes out of trees and loops over ranks: ascending, or
 * descending, or a few such runs one behind the other. A natural merge sort
 * takes n comparisons for each doubling of the runs; what has many goes to
 * qsort. Stable as far as qsort is. Pure. Thread: any.
 */
#ifndef CEL_BASE_SORT_H
#define CEL_BASE_SORT_H

#include <stddef.h>

/* `n` elements of `size` bytes, compared as qsort does. */
void cel_sort(void *at, size_t n, size_t size,
              int (*compare)(const void *, const void *));

#endif
