/* print.h -- internal to rule/: boxes and points as text. Pure. Thread: any. */
#ifndef CEL_RULE_PRINT_H
#define CEL_RULE_PRINT_H

#include "region/box.h"

/* Writes "[0, 4) x [2, 3)" for the first `dims` dimensions; returns the length
 * that it takes (as snprintf). */
int cel__box_text(const cel_box *box, int dims, char *text, int size);
/* The same for "(0, 2)". */
int cel__point_text(const int64_t point[3], int dims, char *text, int size);

#endif
