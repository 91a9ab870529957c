/* memory_file.h -- memory that processes of one host share, through /proc: for
 * the fakes of what GPUs share.
 */
#ifndef SPEC_COMM_MEMORY_FILE_H
#define SPEC_COMM_MEMORY_FILE_H

#include <stddef.h>

/* A file in memory of so many bytes; the caller closes it. */
int memory_file_make(const char *name, size_t size);
/* That file of another process, which still has it open; or -1. */
int memory_file_open(int pid, int file);
/* The caller unmaps it. */
void *memory_file_map(int file, size_t size);
#endif
