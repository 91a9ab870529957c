/* exchange.h -- messages of all shapes between ranks, for the programs that
 * check transports.
 *
 * All ranks know the whole list of messages, as ranks of a program do. Both
 * ends of one cut it into the same pieces, and each lays them out in its own
 * way. A rank posts in random order, and some sends only when a receive that
 * comes earlier in the list has ended: a transport that holds back the wrong
 * message hangs. What has been received is compared as soon as it is said to
 * have ended, with all that lies between the pieces.
 */
#ifndef SPEC_COMM_EXCHANGE_H
#define SPEC_COMM_EXCHANGE_H

#include "base/random.h"
#include "comm/transport.h"
#include "device/cuda/cuda.h"

enum { EXCHANGE_PIECES = 5 };

typedef struct exchange_planned {
  int64_t from, to;
  uint64_t sequence, bytes, salt;
  bool direct, chained, far;
  uint8_t line;
  uint32_t pieces;
  uint64_t count[EXCHANGE_PIECES][2], run[EXCHANGE_PIECES];
} exchange_planned;

/* A message at one of its ends. */
typedef struct exchange_end {
  const exchange_planned *plan;
  bool sending, posted, ended;
  uint32_t after; /* a send: index of a receive that must end first, or none */
  cel_posted posting;
  cel_strided piece[EXCHANGE_PIECES];
  uint64_t memory;      /* its address */
  unsigned char *image; /* what must be there in the end */
  size_t size;
} exchange_end;

/* Where direct messages lie. `make` gives memory that holds `bytes`. */
typedef struct exchange_memory {
  uint64_t (*make)(void *context, const void *bytes, size_t size);
  void (*read)(void *context, void *out, uint64_t memory, size_t size);
  void (*release)(void *context, uint64_t memory);
  void *context;
} exchange_memory;

typedef struct exchange_ends {
  exchange_end *at;
  uint32_t n, cap;
  uint32_t ended;
  uint64_t faults; /* receives with wrong bytes */
  const exchange_memory *memory;
} exchange_ends;

/* Says why on stderr, as `program` of that rank, and ends the job. */
_Noreturn void exchange_give_up(cel_transport *t, const char *why);
/* Seconds. */
double exchange_now(void);
void exchange_nap(void);

/* Compares the clocks of ranks that do not know that they are on one host:
 * theirs are alike, and they find out as well as they can. */
void exchange_compare_clocks(cel_transport *t);
/* This rank does not come to where others wait for it: asks rank 0 for the word
 * as one that failed does, says `heard` and ends the job. */
_Noreturn void exchange_fail_alone(cel_transport *t);

/* This rank's GPU, taken in turns, with what copies short rows there; null:
 * there is none. The caller owns it. */
cel_cuda *exchange_open_gpu(const cel_transport *t);

/* Some pieces of about so many bytes, of `rows` rows at most. */
void exchange_shape(exchange_planned *p, uint64_t bytes, int64_t rows,
                    cel_random *r);
/* Numbers the messages, as each way does between two ranks. */
void exchange_number(exchange_planned *plan, int64_t n, int64_t ranks);
/* This rank's ends, with their memory; sends wait for a receive with a chance
 * of so many percent. `memory` is borrowed; null where nothing is direct. */
void exchange_make_ends(exchange_ends *ends, const exchange_planned *plan,
                        int64_t n, int64_t rank, cel_random *r, int after,
                        const exchange_memory *memory);
void exchange_free_ends(exchange_ends *ends);

/* The i-th has ended, which is found out here where poll tells. */
void exchange_end_at(exchange_ends *ends, uint32_t i);
void exchange_post(cel_transport *t, exchange_ends *ends, uint32_t i);
/* Posts and polls until all have ended, and `more` says that there is nothing
 * else to do; it is called in every round, and may be null. Progress of its own
 * it adds to *did. Naps where nothing happens; after 20 s gives up. */
void exchange_run(cel_transport *t, exchange_ends *ends, cel_random *r,
                  bool (*more)(void *context, uint64_t *did), void *context);
/* Posts all direct messages and, on rank 0, calls `broken` when the first of
 * them is through. There all must come back, once, some of them failed; says
 * why, and whether they did. Ends the job with 3. */
_Noreturn void exchange_break(cel_transport *t, exchange_ends *ends,
                              void (*broken)(void));
#endif
