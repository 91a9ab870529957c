#include "comm/launch.h"

#include <stddef.h>
#include <stdlib.h>

#include "comm/transport.h"

/* The number that a variable holds, or -1. */
static int64_t number(const char *name) {
  const char *text = name != NULL ? getenv(name) : NULL;
  char *end;
  if (text == NULL || *text == '\0') return -1;
  long long value = strtoll(text, &end, 10);
  return *end == '\0' && value >= 0 ? (int64_t)value : -1;
}

/* Innermost first: mpirun within an allocation sees Slurm's variables, too, and
 * mpirun's daemons are themselves a job step. */
static const struct {
  const char *by, *ranks, *rank, *local_ranks;
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"a PMI launcher", "PMI_SIZE", "PMI_RANK", NULL},
    {"a PMI launcher", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", NULL},
};

/* Within a step each task has SLURM_STEP_ID and SLURM_PROCID. A batch script
 * has SLURM_PROCID alone. The interactive step of salloc has both, and one
 * task. */
static bool find_slurm(cel_launch *out) {
  if (number("SLURM_STEP_ID") < 0 || number("SLURM_PROCID") < 0) return false;
  int64_t ranks = number("SLURM_STEP_NUM_TASKS");
  if (ranks <= 0) return false;
  out->by = "srun";
  out->ranks = ranks;
  out->rank = number("SLURM_PROCID");
  out->one_host = number("SLURM_STEP_NUM_NODES") == 1;
  out->pmi = getenv("PMIX_RANK") != NULL || getenv("PMI_FD") != NULL;
  return true;
}

bool cel_launch_find(cel_launch *out) {
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; ++i) {
    int64_t ranks = number(launchers[i].ranks);
    if (ranks <= 0) continue;
    *out = (cel_launch){launchers[i].by, number(launchers[i].rank), ranks, true,
                        number(launchers[i].local_ranks) == ranks};
    return true;
  }
  if (find_slurm(out)) return true;
  if (number("PMIX_RANK") < 0) return false;
  *out = (cel_launch){"a PMIx launcher", number("PMIX_RANK"), 0, true, false};
  return true;
}

int64_t cel_launch_rank(void) {
  cel_launch launch;
  return cel_launch_find(&launch) && launch.rank > 0 ? launch.rank : 0;
}

bool cel_transport_launched(void) {
  cel_launch launch;
  return cel_launch_find(&launch) && launch.ranks != 1;
}
