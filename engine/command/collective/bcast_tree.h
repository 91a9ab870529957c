/* bcast_tree.h -- what one rank has and some read, passed on from rank to rank.
 *
 * A collective is of all ranks. Where few of them read what one has, or where
 * it is so much that a collective does not pay (pattern.h), messages bring it:
 * whoever has got it sends it on, down a binary tree of the readers, with the
 * one who has it at the top. So nobody sends it more than twice, however many
 * they are, and there are at most log2(readers + 1) steps to each. Under each
 * rank are the next ones in order, so that most of a host have it from others
 * of the host. What is large is cut (command.h), and its parts follow one
 * another down the tree. A few readers on one host get it from the one who has
 * it: they can take it out of its memory at the same time, where those in a
 * tree wait for one another.
 *
 * The messages of one tree carry nothing else: two trees whose trees lead in
 * opposite directions would else wait for each other in a circle. So by the
 * task, the tree, and how deep in its tree a message is, each message waits
 * for earlier ones alone, and each pair of ranks numbers those between them in
 * that order.
 *
 * Invariant: a function of the program, not of who asks. Cost: O(log ranks).
 * Confined. Thread: scheduler.
 */
#ifndef CEL_COMMAND_COLLECTIVE_BCAST_TREE_H
#define CEL_COMMAND_COLLECTIVE_BCAST_TREE_H

#include "command/own/own.h"

/* Whether readers of so much of version v may pass it on: all of them read all
 * of it, and nobody has any of it, unless one rank has all. */
bool cel__bcast_tree_may(const cel__own *own, const cel__version *v,
                         uint32_t read, uint64_t bytes);
/* Whether one has all of `box`; then *out says what is passed on. */
bool cel__bcast_tree_find(const cel__own *own, const cel__version *v,
                          uint32_t read, const cel_box *box,
                          const cel_buffer *buffer, cel__bcast_tree *out);
/* What own->me receives, from one at most, and what it then sends. */
void cel__bcast_tree_side(const cel__own *own, const cel__bcast_tree *tree,
                          cel__transfers *receives, cel__transfers *sends);

#endif
