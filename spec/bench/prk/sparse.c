/* sparse.c -- the product of a sparse matrix and a vector of the Parallel
 * Research Kernels by hand, with MPI: sparse STEPS REPETITIONS LOG RADIUS.
 *
 * The matrix is that of a periodic star stencil on a square grid of 2^LOG
 * points a side, whose columns are scrambled by reversing the bits of a
 * point's number; each of its elements is 1 / (column + 1). A rank has rows of
 * it, compressed, with sorted columns. In each step element i of the vector
 * grows by i + 1, all ranks gather all of it, and the product is added to the
 * result.
 */
#include "measure.h"

#include <math.h>
#include <stdint.h>

static int bits;          /* of a point's number */
static long rows, points; /* of the matrix: of this rank, in all */
static long star;         /* elements of a row */
static double *matrix, *vector, *result;
static int64_t *column;

static int64_t scrambled(int64_t x) {
  int64_t y = 0;
  for (int i = 0; i < bits; ++i) y |= (x >> i & 1) << (bits - 1 - i);
  return y;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void fill_row(long row, long side, long radius) {
  long point = rank * rows + row, i = point % side, j = point / side;
  int64_t *at = column + row * star, *next = at;
  *next++ = scrambled(point);
  for (long r = 1; r <= radius; ++r) {
    *next++ = scrambled((i + r) % side + j * side);
    *next++ = scrambled((i - r + side) % side + j * side);
    *next++ = scrambled(i + (j + r) % side * side);
    *next++ = scrambled(i + (j - r + side) % side * side);
  }
  qsort(at, (size_t)star, sizeof *at, ascending);
  for (long k = 0; k < star; ++k)
    matrix[row * star + k] = 1.0 / (double)(at[k] + 1);
}

static void step(void) {
  for (long i = rank * rows; i < (rank + 1) * rows; ++i)
    vector[i] += (double)(i + 1);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DOUBLE, vector, (int)rows, MPI_DOUBLE,
                MPI_COMM_WORLD);
  for (long row = 0; row < rows; ++row) {
    double sum = 0;
    for (long k = row * star; k < (row + 1) * star; ++k)
      sum += matrix[k] * vector[column[k]];
    result[row] += sum;
  }
}

int main(int argc, char **argv) {
  begin(&argc, &argv, 2);
  long side = 1L << atol(argv[3]), radius = atol(argv[4]);
  require(side % ranks == 0, "the grid's side is a multiple of the ranks");
  require(2 * radius < side, "the star is smaller than the grid");
  bits = 2 * atoi(argv[3]);
  points = side * side;
  rows = points / ranks;
  star = 4 * radius + 1;
  matrix = room((size_t)(rows * star) * sizeof *matrix);
  column = room((size_t)(rows * star) * sizeof *column);
  vector = room((size_t)points * sizeof *vector);
  result = room((size_t)rows * sizeof *result);
  for (long row = 0; row < rows; ++row) {
    fill_row(row, side, radius);
    vector[rank * rows + row] = result[row] = 0;
  }
  double steps = (double)measure("sparse", argv, step);
  double mine = 0, sum;
  for (long row = 0; row < rows; ++row) mine += result[row];
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double right = 0.5 * (double)(points * star) * steps * (steps + 1);
  finish(fabs(sum - right) / right, 1e-12);
  return 0;
}
