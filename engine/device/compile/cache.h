/* cache.h -- compiled kernels on disk, found by content.
 *
 * A file's name is the hash of all that led to it, so entries never change: a
 * new content is a new name. Each file ends with a seal, a hash of its name and
 * its bytes; one that does not match is as good as absent. The folder is the
 * user's alone ($CELER_CACHE, $XDG_CACHE_HOME/celer or ~/.cache/celer, mode
 * 0700). One that cannot be used, that others can write to, or that they could
 * replace by their own is itself replaced by a private temporary folder, which
 * goes with the process.
 */
#ifndef CEL_DEVICE_COMPILE_CACHE_H
#define CEL_DEVICE_COMPILE_CACHE_H

#include "base/status.h"

#ifndef CEL_CDEF
#include "device/compile/scratch.h"

typedef struct cel_key {
  uint64_t half[2];
} cel_key;

/* Of what is compiled for samples (sample.h); empty, and of the key without
 * compiler and headers: it does not compile. */
#define CEL_CACHE_SAMPLE ".sample"

/* Chains `size` bytes into the key. Thread: any. */
void cel_key_add(cel_key *key, const void *data, size_t size);
void cel_key_add_string(cel_key *key, const char *text);

/* The folder, made if need be. Thread: main; any, once main has called it, as
 * all below. */
const char *cel_cache_folder(void);
/* "folder/0123...<suffix>"; owned by the caller (cel_vec_release). */
cel_text cel_cache_path(const cel_key *key, const char *suffix);
/* The content of a file whose seal is right, without the seal. */
bool cel_cache_peek(const char *path, cel_text *out);
/* The same, of a file that is needed: notes that it was used. */
bool cel_cache_read(const char *path, cel_text *out);
/* Notes that a file was used, once a day at most; of no account if it cannot.
 */
void cel_cache_touch(const char *path);
/* Seals and puts a file in place. CEL_E_IO. */
cel_status cel_cache_write(const char *path, const cel_text *content);

/* One process of a host at a time builds what `key` names. Gives up waiting
 * after a while, and where locks do not work: two then build the same thing.
 * Returns a handle for unlock. */
int cel_cache_lock(const cel_key *key);
void cel_cache_unlock(int lock);
/* A new folder for intermediate files; the caller ends it (scratch.h).
 * CEL_E_IO.
 */
cel_status cel_cache_scratch(cel_scratch *out);
/* Counts a result, for cel_compile_count: found, or made; unless it could not
 * be kept. */
void cel_cache_count(bool found, bool kept);
#endif

#endif
