/* An MPI that gives MPI_THREAD_SERIALIZED at most, to be loaded before the real
 * one; collective_spec.lua builds it. Declared by hand: mpi.h need not be in
 * the compiler's path. */
enum { SERIALIZED = 2 };

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  return PMPI_Init_thread(
      argc, argv, required < SERIALIZED ? required : SERIALIZED, provided);
}
