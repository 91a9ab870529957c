/* operator.h -- what a reduction combines numbers by, as the engine knows it.
 *
 * Kernels have their own code for it (kernels/reduce.cuh, whose celer::op this
 * list follows); here it serves what ranks combine together.
 */
#ifndef CEL_BASE_OPERATOR_H
#define CEL_BASE_OPERATOR_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

/* NAME, name. */
#define CEL_OPS(_)                                                             \
  _(SUM, sum)                                                                  \
  _(PROD, prod)                                                                \
  _(MIN, min)                                                                  \
  _(MAX, max)                                                                  \
  _(AND, and)                                                                  \
  _(OR, or)                                                                    \
  _(FIXED, fixed)                                                              \
  _(CUSTOM, custom)

typedef enum cel_op {
#define CEL_OP_ENUM(NAME, name) CEL_OP_##NAME,
  CEL_OPS(CEL_OP_ENUM)
#undef CEL_OP_ENUM
} cel_op;

/* All zero: nothing is known of it. */
typedef struct cel_operator {
  cel_op op;
  int32_t class_; /* of its numbers, as in cel_param: 'i', 'u', 'f', 'b', 's' */
  uint32_t size;  /* of one */
} cel_operator;

/* FIXED: a sum of float or double, whose rows hold the exact sum in fixed point
 * (kernels/fixed.cuh), and which is rounded in the end. */

const char *cel_op_name(cel_op op);
/* Bytes that one number takes in a row of partial results. */
uint32_t cel_operator_row_size(const cel_operator *op);
/* Whether it is one of ours, so that it gives the same bits wherever it is
 * compiled for. Thread: any, as all here. */
bool cel_operator_is_known(const cel_operator *op);
/* Whether besides that the order does not show: whole numbers. Floating-point
 * ones do not qualify even for min and max, which in kernels give either of 0
 * and -0, and of two NaNs. */
bool cel_operator_is_exact(const cel_operator *op);
/* Whether besides that GPUs combine them among each other: NCCL has no numbers
 * of 16 bits and nothing bit by bit. */
bool cel_operator_is_for_gpus(const cel_operator *op);
/* Where all ranks' numbers are combined by one step, an all-reduce. */
typedef enum cel_all_reduces {
  CEL_ALL_REDUCES_NOWHERE,
  CEL_ALL_REDUCES_ON_HOSTS, /* all exact operators */
  CEL_ALL_REDUCES_ON_GPUS   /* those that are for GPUs */
} cel_all_reduces;

/* Whether cel_operator_fold can do it, so that the order does not show: an
 * exact one, or the least or greatest floating-point number, a NaN where there
 * is any. */
bool cel_operator_folds(const cel_operator *op);
/* into[i] = into[i] op from[i] over `bytes`. */
void cel_operator_fold(const cel_operator *op, void *into, const void *from,
                       uint64_t bytes);

#endif
