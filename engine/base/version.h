/* version.h -- which celer this is.
 *
 * Lua compares it with its own and refuses an engine of another version.
 */
#ifndef CEL_BASE_VERSION_H
#define CEL_BASE_VERSION_H

/* "major.minor.patch", static. Thread: any. */
const char *cel_version(void);

#endif
