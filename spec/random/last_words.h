/* last_words.h -- what a process says that does not live to tell how its random
 * program went: that program's seed. */
#ifndef RANDOM_LAST_WORDS_H
#define RANDOM_LAST_WORDS_H

#include <stdint.h>

/* From now on, a death by a signal or by a sanitizer prints `seed N: died`. */
void last_words_init(void);

/* The program that runs now. */
void last_words_of(uint64_t seed);

#endif
