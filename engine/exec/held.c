#include "exec/held.h"

#include <stdio.h>
#include <string.h>

#include "base/amount.h"

cel_held *cel_held_at(const cel_held_list *list, const void *address) {
  for (uint32_t i = list->all.n; i-- > 0;)
    if (list->all.at[i].address == address) return &list->all.at[i];
  return NULL;
}

typedef struct holder {
  const cel_buffer *buffer;
  uint64_t bytes;
} holder;

typedef CEL_VEC(holder) holders;

/* What each buffer has committed in a memory. */
static void find_holders(const cel_held_list *list, int32_t memory,
                         holders *out) {
  for (uint32_t i = 0; i < list->all.n; ++i) {
    const cel_held *held = &list->all.at[i];
    if (held->memory != memory || held->committed == 0) continue;
    uint32_t k = 0;
    while (k < out->n && out->at[k].buffer != held->buffer) ++k;
    if (k == out->n) cel_vec_push(out, (holder){held->buffer, 0});
    out->at[k].bytes += held->committed;
  }
}

void cel_held_say(const cel_held_list *list, int32_t memory, char *text,
                  size_t size) {
  enum { HOLDERS = 4 };
  holders all = {0};
  find_holders(list, memory, &all);
  for (int i = 0; i < HOLDERS && all.n > 0; ++i) {
    uint32_t most = 0;
    for (uint32_t k = 1; k < all.n; ++k)
      if (all.at[k].bytes > all.at[most].bytes) most = k;
    size_t at = strlen(text);
    const char *name = all.at[most].buffer->name;
    char amount[CEL_AMOUNT_TEXT];
    cel_amount_text(all.at[most].bytes, amount, sizeof amount);
    snprintf(text + at, size - at, "%s%s (%s)",
             i == 0 ? "; it is held by " : ", ",
             name != NULL ? name : "a buffer", amount);
    cel_vec_swap_out(&all, most);
  }
  cel_vec_release(&all);
}
