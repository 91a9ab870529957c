#include "base/operator.h"

#include <math.h>

#include "base/status.h"

const char *cel_op_name(cel_op op) {
  static const char *const names[] = {
#define CEL_OP_TEXT(NAME, name) #name,
      CEL_OPS(CEL_OP_TEXT)
#undef CEL_OP_TEXT
  };
  return names[op];
}

uint32_t cel_operator_row_size(const cel_operator *op) {
  enum { FLOAT_ROW = 56, DOUBLE_ROW = 280 };
  if (op->op != CEL_OP_FIXED) return op->size;
  cel_assert(op->class_ == 'f');
  return op->size == sizeof(float) ? FLOAT_ROW : DOUBLE_ROW;
}

bool cel_operator_is_known(const cel_operator *op) {
  return op->class_ != 0 && op->class_ != 's' && op->op != CEL_OP_CUSTOM;
}

bool cel_operator_is_exact(const cel_operator *op) {
  return cel_operator_is_known(op) && op->class_ != 'f';
}

bool cel_operator_is_for_gpus(const cel_operator *op) {
  if (!cel_operator_is_exact(op) || op->size == 2) return false;
  bool truth = op->class_ == 'b';
  switch (op->op) {
  case CEL_OP_SUM: return !truth;
  case CEL_OP_MIN:
  case CEL_OP_MAX: return true;
  case CEL_OP_AND:
  case CEL_OP_OR: return truth;
  default: return false;
  }
}

/* Sums and products of signed numbers wrap as those of unsigned ones do, in
 * `wide`, which no promotion makes signed again. */
#define FOLD(type, wide)                                                       \
  static void fold_##type(cel_op op, type *into, const type *from,             \
                          uint64_t n) {                                        \
    for (uint64_t i = 0; i < n; ++i) {                                         \
      type a = into[i], b = from[i];                                           \
      switch (op) {                                                            \
      case CEL_OP_SUM: into[i] = (type)((wide)a + (wide)b); break;             \
      case CEL_OP_PROD: into[i] = (type)((wide)a * (wide)b); break;            \
      case CEL_OP_MIN: into[i] = b < a ? b : a; break;                         \
      case CEL_OP_MAX: into[i] = a < b ? b : a; break;                         \
      case CEL_OP_AND: into[i] = (type)(a & b); break;                         \
      default: into[i] = (type)(a | b);                                        \
      }                                                                        \
    }                                                                          \
  }
FOLD(int8_t, uint32_t)
FOLD(int16_t, uint32_t)
FOLD(int32_t, uint32_t)
FOLD(int64_t, uint64_t)
FOLD(uint8_t, uint32_t)
FOLD(uint16_t, uint32_t)
FOLD(uint32_t, uint32_t)
FOLD(uint64_t, uint64_t)
#undef FOLD

/* One bit pattern for every NaN, and -0 is less than 0, so that the order does
 * not show. */
#define FOLD(type)                                                             \
  static void fold_##type(cel_op op, type *into, const type *from,             \
                          uint64_t n) {                                        \
    for (uint64_t i = 0; i < n; ++i) {                                         \
      type a = into[i], b = from[i];                                           \
      bool less = b < a || (b == a && signbit(b));                             \
      bool takes = op == CEL_OP_MIN ? less : !less;                            \
      into[i] = isnan(a) || isnan(b) ? (type)NAN : takes ? b : a;              \
    }                                                                          \
  }
FOLD(float)
FOLD(double)
#undef FOLD

bool cel_operator_folds(const cel_operator *op) {
  return cel_operator_is_exact(op) ||
         (op->class_ == 'f' && (op->op == CEL_OP_MIN || op->op == CEL_OP_MAX));
}

void cel_operator_fold(const cel_operator *op, void *into, const void *from,
                       uint64_t bytes) {
  uint64_t n = bytes / op->size;
  cel_assert(cel_operator_folds(op) && bytes % op->size == 0);
  if (op->class_ == 'f')
    return op->size == 4 ? fold_float(op->op, into, from, n)
                         : fold_double(op->op, into, from, n);
  bool is_signed = op->class_ == 'i';
  switch (op->size) {
  case 1:
    return is_signed ? fold_int8_t(op->op, into, from, n)
                     : fold_uint8_t(op->op, into, from, n);
  case 2:
    return is_signed ? fold_int16_t(op->op, into, from, n)
                     : fold_uint16_t(op->op, into, from, n);
  case 4:
    return is_signed ? fold_int32_t(op->op, into, from, n)
                     : fold_uint32_t(op->op, into, from, n);
  case 8:
    return is_signed ? fold_int64_t(op->op, into, from, n)
                     : fold_uint64_t(op->op, into, from, n);
  default: cel_bug("numbers of %u bytes", op->size);
  }
}
