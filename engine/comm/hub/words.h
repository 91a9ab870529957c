/* words.h -- what a rank writes where nobody would read it.
 *
 * `srun --pty` connects stdout and stderr of all ranks but one to /dev/null.
 * There they become a pipe, whose other end a thread reads and passes on.
 * Processes that the user starts have the pipe, too, for as long as they live.
 */
#ifndef CEL_COMM_HUB_WORDS_H
#define CEL_COMM_HUB_WORDS_H

#include "base/status.h"

typedef struct cel_words cel_words;

/* By whom bytes are passed on, in a thread of its own. */
typedef void cel_words_pass(void *context, const void *bytes, uint64_t size);

/* The caller owns *out; it is null where somebody reads both. CEL_E_MISSING,
 * and both are as they were. Thread: main, as the next one. */
cel_status cel__words_open(cel_words_pass *pass, void *context,
                           cel_words **out);
/* All that this process has written is passed on; both are as they were. Not so
 * what processes write that the user has started and that go on. `words` may be
 * null. */
void cel__words_close(cel_words *words);

/* Shows what another rank has written, whatever signals come. Thread: any. */
void cel__words_show(const void *bytes, uint64_t size);

#endif
