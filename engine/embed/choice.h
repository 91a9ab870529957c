/* choice.h -- which devices a rank computes on.
 *
 * A GPU where there is one and NVRTC can be loaded, else the processor; unless
 * the user says which. Ranks of one host that see the same GPUs divide them
 * (cel_cuda_share). Where a launcher has given each rank GPUs of its own, ranks
 * see different ones, and each takes all that it sees: GPUs are told apart by
 * the identity that the driver gives them, not by their numbers or by the
 * environment, so it does not matter how the launcher did it. Where ranks that
 * see different ones use the same GPU, its memory is divided among them.
 */
#ifndef CEL_EMBED_CHOICE_H
#define CEL_EMBED_CHOICE_H

#include "comm/transport.h"

enum { CEL_CHOICE_LIST = 64 };

typedef enum cel_choice_backend {
  CEL_CHOICE_ANY,
  CEL_CHOICE_CPU,
  CEL_CHOICE_CUDA
} cel_choice_backend;

/* What the user asked for; each rank may have options of its own. */
typedef struct cel_choice_wish {
  cel_choice_backend backend;
  int32_t devices;               /* per rank; 0: all, or one processor */
  int32_t listed;                /* 0: every GPU may be used */
  int32_t list[CEL_CHOICE_LIST]; /* ordinals, as the driver counts */
} cel_choice_wish;

typedef struct cel_choice {
  bool cuda;
  int32_t devices;
  int32_t ordinal[CEL_DEVICES]; /* cuda: of each device */
  int32_t sharing;      /* cuda: how many ranks use one of them, at most */
  char why[256];        /* the processor, though nobody asked for it */
  int32_t architecture; /* of GPUs of a dry run: 90 for sm_90 */
} cel_choice;

/* Collective over the ranks of the host, whatever they wish for.
 * CEL_E_MISSING: a GPU was asked for, and there is none; CEL_E_RANGE.
 * Thread: main, before the executor starts. */
cel_status cel_choose(const cel_choice_wish *wish, cel_transport *transport,
                      cel_choice *out);

/* Of the host's ranks that have the same `what` this is number *index of *of.
 * Collective over them. Thread: main, before the executor starts. */
cel_status cel_choice_index(cel_transport *transport, uint64_t what,
                            int32_t *index, int32_t *of);

/* The same for a dry run: GPUs are imagined where the wish is for some, or
 * where there are some; of the architecture of those that are there. Thread:
 * main. */
void cel_choose_dry(const cel_choice_wish *wish, cel_choice *out);

#endif
