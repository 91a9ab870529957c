#include "embed/choice.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda_api.h"

cel_status cel_choice_index(cel_transport *t, uint64_t what, int32_t *index,
                            int32_t *of) {
  uint64_t *all = cel_alloc((size_t)t->local_ranks * sizeof *all);
  cel_status status =
      t->control.gather(t->control.self, &what, sizeof what, all);
  *index = *of = 0;
  for (int32_t i = 0; i < t->local_ranks && status == CEL_E_OK; ++i) {
    if (i == t->local_rank) *index = *of;
    *of += all[i] == what;
  }
  cel_free(all);
  return status;
}

/* Why there is nothing to use a GPU with, or an empty text. */
static int32_t count_usable(const cel_choice_wish *wish, char *why,
                            size_t size) {
  int32_t gpus = cel_cuda_count(why, size);
  if (gpus == 0 || wish->backend == CEL_CHOICE_CUDA) return gpus;
  return cel_nvrtc_api_load(why, size) != NULL ? gpus : 0;
}

static cel_status take_gpus(const cel_choice_wish *wish, int32_t gpus,
                            int32_t index, int32_t of, cel_choice *out) {
  int32_t all[CEL_CHOICE_LIST];
  if (gpus > CEL_CHOICE_LIST) gpus = CEL_CHOICE_LIST;
  for (int32_t i = 0; i < gpus; ++i) all[i] = i;
  for (int32_t i = 0; i < wish->listed; ++i)
    if (wish->list[i] >= gpus)
      return cel_fail(CEL_E_RANGE,
                      "--devices asks for GPU %d, and there %s %d (counted "
                      "from 0)",
                      wish->list[i], gpus == 1 ? "is" : "are", gpus);
  const int32_t *list = wish->listed > 0 ? wish->list : all;
  int32_t n = wish->listed > 0 ? wish->listed : gpus;
  CEL_TRY(cel_cuda_share(list, n, wish->devices, index, of, out->ordinal,
                         &out->devices));
  out->cuda = true;
  return CEL_E_OK;
}

static cel_status take(const cel_choice_wish *wish, int32_t gpus, int32_t index,
                       int32_t of, cel_choice *out) {
  if (gpus > 0) return take_gpus(wish, gpus, index, of, out);
  if (wish->backend == CEL_CHOICE_CUDA)
    return cel_fail(CEL_E_MISSING, "--backend cuda asks for a GPU: %s",
                    out->why);
  if (wish->listed > 0)
    return cel_fail(CEL_E_MISSING,
                    "--devices names GPUs, and none can be used: %s", out->why);
  return CEL_E_OK;
}

typedef char uuid[CEL_CUDA_UUID];

/* How many ranks of the host use a GPU; rank i has each[i] of its `most`. */
static int32_t count_users(const uuid *all, const int32_t *each, int32_t ranks,
                           int32_t most, const uuid gpu) {
  int32_t users = 0;
  for (int32_t i = 0; i < ranks; ++i) {
    bool uses = false;
    for (int32_t d = 0; d < each[i]; ++d)
      uses = uses || memcmp(all[i * most + d], gpu, sizeof(uuid)) == 0;
    users += uses;
  }
  return users;
}

/* What each[i] GPUs of every rank, `most` at most, are shared by. */
static cel_status compare_gpus(cel_transport *t, const int32_t *each,
                               int32_t most, cel_choice *choice) {
  int32_t gpus = each[t->local_rank], ranks = (int32_t)t->local_ranks;
  uuid mine[CEL_DEVICES] = {{0}};
  uuid *all = cel_alloc((size_t)ranks * (size_t)most * sizeof *all);
  for (int32_t d = 0; d < gpus; ++d) cel_cuda_uuid(choice->ordinal[d], mine[d]);
  cel_status status = t->control.gather(
      t->control.self, mine, (uint32_t)most * (uint32_t)sizeof *mine, all);
  for (int32_t d = 0; d < gpus && status == CEL_E_OK; ++d) {
    int32_t users = count_users(all, each, ranks, most, mine[d]);
    if (users > choice->sharing) choice->sharing = users;
  }
  cel_free(all);
  return status;
}

/* Ranks that see different GPUs, or in another order, may use one all the same.
 * Where no rank of the host uses any, a number from each is enough. */
static cel_status count_sharing(cel_transport *t, cel_choice *choice) {
  int32_t gpus = choice->cuda ? choice->devices : 0, most = 0;
  int32_t *each = cel_alloc((size_t)t->local_ranks * sizeof *each);
  cel_status status =
      t->control.gather(t->control.self, &gpus, sizeof gpus, each);
  for (int32_t i = 0; i < t->local_ranks && status == CEL_E_OK; ++i)
    if (each[i] > most) most = each[i];
  if (status == CEL_E_OK && most > 0)
    status = compare_gpus(t, each, most, choice);
  cel_free(each);
  return status;
}

cel_status cel_choose(const cel_choice_wish *wish, cel_transport *transport,
                      cel_choice *out) {
  cel_choice choice = {.devices = wish->devices > 0 ? wish->devices : 1};
  int32_t gpus = 0, index, of;
  bool looks = wish->backend != CEL_CHOICE_CPU;
  if (looks) gpus = count_usable(wish, choice.why, sizeof choice.why);
  CEL_TRY(cel_choice_index(transport, looks ? cel_cuda_identity() : 0, &index,
                           &of));
  /* The others of the host come there, too, whatever this one was refused. */
  cel_status taken = take(wish, gpus, index, of, &choice);
  CEL_TRY(count_sharing(transport, &choice));
  if (taken != CEL_E_OK) return taken;
  *out = choice;
  return CEL_E_OK;
}

void cel_choose_dry(const cel_choice_wish *wish, cel_choice *out) {
  enum { HOPPER = 90 };
  cel_choice choice = {.architecture = HOPPER};
  cel_cuda_device first;
  int32_t gpus = 0;
  if (wish->backend != CEL_CHOICE_CPU)
    gpus = count_usable(wish, choice.why, sizeof choice.why);
  choice.cuda = wish->backend == CEL_CHOICE_CUDA || gpus > 0;
  if (gpus > 0 && cel_cuda_query(0, &first) == CEL_E_OK)
    choice.architecture = 10 * first.major + first.minor;
  choice.devices = wish->devices > 0         ? wish->devices
                   : wish->listed > 0        ? wish->listed
                   : choice.cuda && gpus > 0 ? gpus
                                             : 1;
  if (choice.devices > CEL_DEVICES) choice.devices = CEL_DEVICES;
  *out = choice;
}
