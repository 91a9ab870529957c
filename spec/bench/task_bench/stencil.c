/* stencil.c -- the stencil of Task Bench by hand, with MPI.
 *
 *   stencil POINTS EFFORT ITERATIONS...
 *
 * As Task Bench's own MPI programs do it: a rank has a row of points; in each
 * step every point gets copies of what its neighbours and itself wrote in the
 * step before, from other ranks by messages, checks them, and computes for so
 * many iterations (work.h). The number of steps follows from EFFORT as in
 * stencil.lua. Microseconds per step, the median of some repetitions and the
 * best. The last line is JSON.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

enum { REPETITIONS = 9, STEP = 500, NEAR = 3 };

typedef struct record {
  int step, at;
} record;

/* Confined to main. */
static int rank, ranks;
static long points, first, last; /* [first, last) are this rank's */
static record *output;           /* by point, from `first` on */
static record (*input)[NEAR];
static double *value;
static int step;

static long owner(long point) {
  long r = point * ranks / points;
  while ((r + 1) * points / ranks <= point) ++r;
  return r;
}

/* Copies, receives and sends what the step needs of the one before. */
static void exchange(void) {
  MPI_Request request[4];
  int n = 0;
  for (long p = first; p < last; ++p)
    for (long d = p > 0 ? p - 1 : p; d <= p + 1 && d < points; ++d) {
      record *to = &input[p - first][d - p + 1];
      if (d >= first && d < last) {
        *to = output[d - first];
        continue;
      }
      MPI_Irecv(to, sizeof *to, MPI_BYTE, (int)owner(d), d < p, MPI_COMM_WORLD,
                &request[n++]);
      MPI_Isend(&output[p - first], sizeof *to, MPI_BYTE, (int)owner(d), d > p,
                MPI_COMM_WORLD, &request[n++]);
    }
  MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
}

static void compute(long p, long iterations) {
  bool right = true;
  for (long d = p > 0 ? p - 1 : p; d <= p + 1 && d < points; ++d) {
    const record *from = &input[p - first][d - p + 1];
    right = right && from->step == step - 1 && from->at == d;
  }
  output[p - first] = (record){step, (int)p};
  value[p - first] = right ? work(iterations) : -1;
}

static void run(long steps, long iterations) {
  for (long s = 0; s < steps; ++s) {
    ++step;
    exchange();
    for (long p = first; p < last; ++p) compute(p, iterations);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Prints one row, on rank 0. */
static void measure(long effort, long iterations) {
  long one = points * iterations / ranks + STEP;
  long steps = (effort + one - 1) / one;
  double took[REPETITIONS];
  run((steps + 4) / 5, iterations); /* warms up */
  for (int i = 0; i < REPETITIONS; ++i) {
    double start = MPI_Wtime();
    run(steps, iterations);
    took[i] = (MPI_Wtime() - start) / (double)steps * 1e6;
  }
  qsort(took, REPETITIONS, sizeof *took, ascending);
  if (rank == 0)
    printf("{\"iterations\": %ld, \"us\": %.4f, \"best\": %.4f}", iterations,
           took[REPETITIONS / 2], took[0]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  points = argc > 1 ? atol(argv[1]) : 0;
  if (argc < 4 || points < ranks) {
    fprintf(stderr, "usage: stencil points effort iterations...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  first = rank * points / ranks;
  last = (rank + 1) * points / ranks;
  size_t mine = (size_t)(last - first);
  output = malloc(mine * sizeof *output);
  input = malloc(mine * sizeof *input);
  value = malloc(mine * sizeof *value);
  for (long p = first; p < last; ++p) output[p - first] = (record){0, (int)p};
  if (rank == 0)
    printf("{\"bench\": \"task_bench\", \"ranks\": %d, "
           "\"points\": %ld, \"rows\": [",
           ranks, points);
  for (int i = 3; i < argc; ++i) {
    if (rank == 0 && i > 3) printf(", ");
    measure(atol(argv[2]), atol(argv[i]));
  }
  for (long p = first; p < last; ++p)
    if (!(value[p - first] > 0)) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) printf("]}\n");
  MPI_Finalize();
  return 0;
}
