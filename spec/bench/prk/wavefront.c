/* wavefront.c -- the wavefront of the Parallel Research Kernels by hand, with
 * MPI: wavefront STEPS REPETITIONS COLUMNS LINES GROUP.
 *
 * g(i, j) = g(i - 1, j) + g(i, j - 1) - g(i - 1, j - 1): a line follows from
 * the one before it, and in a line each element from its left neighbour. Ranks
 * have blocks of columns. GROUP lines at a time go from left to right, so that
 * the ranks are a pipeline. A step computes all lines; then the last corner,
 * negated, is the first one of the next step.
 */
#include <math.h>

#include "measure.h"

enum { CORNER = 1 << 20 };

/* Column 0 of a rank is its left neighbour's last, of rank 0 a boundary. */
static long columns, lines, group, width;
static double *grid, *edge;

static double *line_of(long j) {
  return grid + j * width;
}

static void receive_edge(long first, long end) {
  MPI_Recv(edge, (int)(end - first), MPI_DOUBLE, rank - 1, (int)first,
           MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (long j = first; j < end; ++j) line_of(j)[0] = edge[j - first];
}

static void send_edge(long first, long end) {
  for (long j = first; j < end; ++j) edge[j - first] = line_of(j)[width - 1];
  MPI_Send(edge, (int)(end - first), MPI_DOUBLE, rank + 1, (int)first,
           MPI_COMM_WORLD);
}

static void compute(long first, long end) {
  for (long j = first; j < end; ++j) {
    double *restrict now = line_of(j);
    const double *restrict above = line_of(j - 1);
    for (long i = 1; i < width; ++i)
      now[i] = now[i - 1] + above[i] - above[i - 1];
  }
}

static void turn_corner(void) {
  double corner = -line_of(lines - 1)[width - 1];
  if (ranks > 1 && rank == ranks - 1)
    MPI_Send(&corner, 1, MPI_DOUBLE, 0, CORNER, MPI_COMM_WORLD);
  if (ranks > 1 && rank == 0)
    MPI_Recv(&corner, 1, MPI_DOUBLE, ranks - 1, CORNER, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  if (rank == 0) grid[0] = corner;
}

static void step(void) {
  for (long j = 1; j < lines; j += group) {
    long end = j + group < lines ? j + group : lines;
    if (rank > 0) receive_edge(j, end);
    compute(j, end);
    if (rank < ranks - 1) send_edge(j, end);
  }
  turn_corner();
}

int main(int argc, char **argv) {
  begin(&argc, &argv, 3);
  columns = atol(argv[3]);
  lines = atol(argv[4]);
  group = atol(argv[5]);
  require(columns > ranks && lines > 1 && group > 0, "too small");
  long first = (columns - 1) * rank / ranks;
  width = (columns - 1) * (rank + 1) / ranks - first + 1;
  grid = room((size_t)(width * lines) * sizeof *grid);
  edge = room((size_t)group * sizeof *edge);
  for (long j = 0; j < lines; ++j)
    for (long i = 0; i < width; ++i)
      line_of(j)[i] = j == 0 ? (double)(first + i) : first + i == 0 ? j : 0;
  double steps = (double)measure("wavefront", argv, step);
  double right = steps * (double)(columns + lines - 2);
  finish(rank < ranks - 1 ? 0 : fabs(line_of(lines - 1)[width - 1] - right), 0);
  return 0;
}
