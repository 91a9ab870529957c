/* launcher.h -- ends what has started this process, should it hang.
 *
 * Open MPI's mpirun, and its daemon on each host, wait for the daemons of all
 * hosts when a job ends. Where a link stays silent that takes a quarter of an
 * hour.
 */
#ifndef CEL_COMM_HEARTBEAT_LAUNCHER_H
#define CEL_COMM_HEARTBEAT_LAUNCHER_H

/* Leaves a process behind that looks whether the launcher's process on this
 * host, if that is Open MPI's, ends within so long, and else ends it, with the
 * folder of its files where it had to be killed. Before
 * the calling process ends as the launcher tells it to, or as a rank is lost.
 * Thread: any. */
void cel_launcher_outlive(int wait_ms);

#endif
