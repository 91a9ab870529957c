/* reduce.c -- the array reduction of the Parallel Research Kernels by hand,
 * with MPI: reduce STEPS REPETITIONS LENGTH.
 *
 * Each rank has two vectors. A step adds the second one to the first, then all
 * first ones, element by element, to rank 0's.
 */
#include <math.h>

#include "measure.h"

static long length;
static double *restrict vector, *restrict ones;

static void step(void) {
  for (long i = 0; i < length; ++i) vector[i] += ones[i];
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : vector, vector, (int)length, MPI_DOUBLE,
             MPI_SUM, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  begin(&argc, &argv, 1);
  length = atol(argv[3]);
  require(length > 0, "too short");
  vector = room((size_t)length * sizeof *vector);
  ones = room((size_t)length * sizeof *ones);
  for (long i = 0; i < length; ++i) vector[i] = ones[i] = 1;
  double steps = (double)measure("reduce", argv, step), error = 0;
  /* A step adds 1 to each vector, and to rank 0's what the others have. */
  double right = 1 + steps + (ranks - 1) * (steps + steps * (steps + 1) / 2);
  for (long i = 0; rank == 0 && i < length; ++i)
    error += fabs(vector[i] - right);
  finish(error, 0);
  return 0;
}
