/* vec.h -- a growing array of any type.
 *
 *   CEL_VEC(int) v = {0};
 *   cel_vec_push(&v, 3);
 *   for (uint32_t i = 0; i < v.n; ++i) use(v.at[i]);
 *   cel_vec_release(&v);
 *
 * Invariant: n <= cap; at is null iff cap is 0. Elements move when it grows.
 * The holder owns it. Confined.
 */
#ifndef CEL_BASE_VEC_H
#define CEL_BASE_VEC_H

#ifndef CEL_CDEF
#include <stdint.h>
#include <string.h>

#include "base/status.h"

#define CEL_VEC(type)                                                          \
  struct {                                                                     \
    type *at;                                                                  \
    uint32_t n, cap;                                                           \
  }

/* Room for `more` further elements. */
#define cel_vec_reserve(v, more)                                               \
  ((v)->n + (uint32_t)(more) <= (v)->cap                                       \
       ? (void)0                                                               \
       : cel__vec_grow((void **)&(v)->at, &(v)->cap,                           \
                       (v)->n + (uint32_t)(more), sizeof *(v)->at))
#define cel_vec_push(v, ...)                                                   \
  (cel_vec_reserve((v), 1), (void)((v)->at[(v)->n++] = (__VA_ARGS__)))
#define cel_vec_last(v) ((v)->at[(v)->n - 1])
#define cel_vec_pop(v) ((v)->at[--(v)->n])
/* Takes element i out by moving the last one there. */
#define cel_vec_swap_out(v, i) ((void)((v)->at[i] = (v)->at[--(v)->n]))
/* Takes the first `count` out. */
#define cel_vec_drop_first(v, count)                                           \
  ((v)->n -= (uint32_t)(count),                                                \
   (void)((v)->n == 0 ? NULL                                                   \
                      : memmove((v)->at, (v)->at + (count),                    \
                                (v)->n * sizeof *(v)->at)))
#define cel_vec_clear(v) ((void)((v)->n = 0))
#define cel_vec_release(v)                                                     \
  (cel_free((v)->at), (v)->at = NULL, (void)((v)->n = (v)->cap = 0))

static inline void cel__vec_grow(void **at, uint32_t *cap, uint32_t need,
                                 size_t size) {
  uint32_t grown = *cap < 8 ? 8 : *cap * 2;
  if (grown < need) grown = need;
  *at = cel_realloc(*at, (size_t)grown * size);
  *cap = grown;
}
#endif

#endif
