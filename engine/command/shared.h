/* shared.h -- effects on what all ranks share, ordered across ranks.
 *
 * Ranks wait for each other by *tokens*: messages without contents, numbered
 * like all others. The chunks of a task are on the ranks from 0 on, so a
 * sequential effect begins on rank 0 and each rank lets the next one begin:
 *
 *   sequential  0 -> 1 -> ... -> n-1, the last of which lets rank 0 begin the
 *               next one; where relaxed effects lie between, all ranks that had
 *               them do
 *   relaxed     the last rank of the sequential effect before it lets every
 *               rank begin, once
 *   collective  a task that runs on all ranks at once has a sequential effect
 *               as one: rank 0, once it is through and all others have told it
 *               that they are, lets every rank begin, and what follows waits
 *               for all of them
 *
 * Which tokens there are follows from the tasks alone: all ranks hold the same
 * few numbers per object, and both ends of a token find it at the same place
 * among the messages of their pair.
 *
 * Invariant: what precedes a token at its sender, in the order of effects, has
 * been done when it arrives.
 * Cost: O(1) per effect and rank; O(ranks) on the one rank that others wait
 * for, or that waits for them, where sequential and relaxed effects alternate.
 * The holder owns it; zero to begin. Confined. Pure.
 */
#ifndef CEL_COMMAND_SHARED_H
#define CEL_COMMAND_SHARED_H

#include "command/table.h"
#include "task/task.h"

typedef struct cel__shared {
  int64_t last;    /* rank that ends the newest sequential effect; -1: none */
  int64_t told;    /* the ranks below were told that it has ended */
  int64_t relaxed; /* the ranks below may have had relaxed effects since */
  bool all;        /* or rather, they have had one sequential effect together */
} cel__shared;

typedef struct cel__shares {
  cel__table table; /* object id -> a: its cel__shared */
} cel__shares;

/* A token, sent to a rank or received from it. The sender lets go of it when it
 * has done what an effect of `order` comes after. */
typedef struct cel__token {
  bool sent;
  int64_t peer;
  const cel_object *object;
  cel_order order;
} cel__token;

typedef struct cel__tokens {
  CEL_VEC(cel__token) before; /* this rank's chunk */
  CEL_VEC(cel__token) after;  /* it */
} cel__tokens;

void cel__shares_release(cel__shares *shares);
/* The tokens of rank `me` for a task of `chunks` chunks; and what is known of
 * its objects after it. */
void cel__shares_pass(cel__shares *shares, const cel_task *task, int64_t chunks,
                      int64_t me, cel__tokens *out);
/* The object is not mentioned again. */
void cel__shares_forget(cel__shares *shares, const cel_object *object);
void cel__tokens_release(cel__tokens *tokens);

#endif
