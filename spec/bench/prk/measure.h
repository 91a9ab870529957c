/* measure.h -- what the programs with MPI of this folder share: how they are
 * measured and what they print, as measure.lua has it for celer.
 *
 * A program is PROGRAM STEPS REPETITIONS WORDS... In each repetition, after a
 * first one that warms up, all ranks begin together and make so many steps.
 * Seconds of a step: the best repetition, which other programs disturb least.
 * `cpu`: processor time of rank 0's process for a step, over all repetitions.
 * The last line is JSON. Confined to main. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int rank, ranks;

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Ends the job where a condition does not hold. */
static void require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *room(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  require(p != NULL, "no memory");
  return p;
}

/* Starts MPI; argument `i` after STEPS and REPETITIONS is argv[i + 3]. */
static void begin(int *argc, char ***argv, int words) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  require(*argc >= 3 + words, "usage: program steps repetitions words...");
}

/* Calls `step` and prints what it took. Gives the number of steps made. */
static long measure(const char *bench, char **argv, void (*step)(void)) {
  long steps = atol(argv[1]), repetitions = atol(argv[2]), made = 0;
  double best = 1e9, cpu = 0;
  for (long r = 0; r <= repetitions; ++r) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (r == 1) cpu = cpu_seconds();
    for (long s = 0; s < steps; ++s, ++made) step();
    MPI_Barrier(MPI_COMM_WORLD);
    double took = (MPI_Wtime() - start) / (double)steps;
    if (r > 0 && took < best) best = took;
  }
  cpu = (cpu_seconds() - cpu) / (double)(steps * repetitions);
  if (rank == 0)
    printf("{\"bench\": \"%s\", \"ranks\": %d, \"seconds\": %.9f, "
           "\"cpu\": %.9f}\n",
           bench, ranks, best, cpu);
  return made;
}

/* Ends MPI, and the job where any rank's error is too large. */
static void finish(double error, double most) {
  double worst;
  MPI_Allreduce(&error, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  require(worst <= most, "the result is wrong");
  MPI_Finalize();
}
