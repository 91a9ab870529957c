/* launch.h -- who started this process, as the environment tells.
 *
 * MPI_Init takes a good part of a second and may fail where no MPI is set up;
 * a start without a launcher must not touch it. So the variables of launchers
 * decide, before MPI does.
 *
 * A batch script or an salloc shell has Slurm's variables of the whole job,
 * too, yet it is no rank of anything: only a job *step* (srun) starts ranks.
 */
#ifndef CEL_COMM_LAUNCH_H
#define CEL_COMM_LAUNCH_H

#ifndef CEL_CDEF
#include <stdbool.h>
#include <stdint.h>
#endif

typedef struct cel_launch {
  const char *by; /* "mpirun", "srun", "a PMI launcher", "a PMIx launcher" */
  int64_t rank;   /* -1: unknown */
  int64_t ranks;  /* 0: unknown */
  bool pmi;       /* the launcher offers PMI or PMIx, so MPI can start up */
  bool one_host;  /* all ranks are on this host, for certain */
} cel_launch;

/* Whether a launcher started this process, were it as the only rank; then
 * fills *out. Thread: main. */
bool cel_launch_find(cel_launch *out);

/* The rank that the launcher's environment gives, 0 if there is none: who
 * prints what goes wrong before there are messages. Thread: main. */
int64_t cel_launch_rank(void);

#endif
