/* mpi_gpu.h -- messages between GPUs by an MPI that takes their memory.
 *
 * A transport around MPI's: what is direct goes by a second MPI transport, with
 * communicators and windows of its own, which is handed addresses of device
 * memory and looks at nothing behind them. A message that does not lie side by
 * side is packed into staging memory of the GPU; for that the caller waits.
 */
#ifndef CEL_COMM_MPI_GPU_H
#define CEL_COMM_MPI_GPU_H

#include "comm/transport.h"
#include "device/cuda/cuda.h"

/* Whether this MPI says that it takes memory of GPUs. Thread: main. */
bool cel_mpi_takes_gpus(void);

/* Where all ranks have one GPU each, `takes` holds, and a few bytes reach a
 * neighbour, *out is such a transport, with which all ranks are near; it owns
 * `inner`, which is MPI's, and borrows `cuda` until it is destroyed. Else it is
 * `inner`, and `why` says what is missing ("rank 2: it uses no GPU"). All ranks
 * come to the same. `takes` is what cel_mpi_takes_gpus says, but for programs
 * that check this one. Collective. CEL_E_COMM. Thread: main. */
cel_status cel_transport_mpi_gpu(cel_transport *inner, const cel_cuda *cuda,
                                 bool takes, cel_transport **out, char *why,
                                 size_t size);
#endif
