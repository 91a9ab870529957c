/* What MPI itself does to start and to end. */
#include <mpi.h>

int main(void) {
  MPI_Init(NULL, NULL);
  return MPI_Finalize();
}
