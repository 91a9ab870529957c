#include "exec/reserved.h"

#include "base/amount.h"
#include "base/text.h"

static cel_reserved *reserved_at(const cel_reserved_list *list,
                                 const void *address) {
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
static void find_holders(const cel_reserved_list *list, int32_t memory,
                         holders *out) {
  for (uint32_t i = 0; i < list->all.n; ++i) {
    const cel_reserved *r = &list->all.at[i];
    if (r->memory != memory || r->committed == 0) continue;
    uint32_t k = 0;
    while (k < out->n && out->at[k].buffer != r->buffer) ++k;
    if (k == out->n) cel_vec_push(out, (holder){r->buffer, 0});
    out->at[k].bytes += r->committed;
  }
}

void cel_reserved_say(const cel_reserved_list *list, int32_t memory, char *text,
                      size_t size) {
  enum { HOLDERS = 4 };
  holders all = {0};
  find_holders(list, memory, &all);
  for (int i = 0; i < HOLDERS && all.n > 0; ++i) {
    uint32_t most = 0;
    for (uint32_t k = 1; k < all.n; ++k)
      if (all.at[k].bytes > all.at[most].bytes) most = k;
    const char *name = all.at[most].buffer->name;
    char amount[CEL_AMOUNT_TEXT];
    cel_amount_text(all.at[most].bytes, amount, sizeof amount);
    cel_text_append(text, size, "%s%s (%s)", i == 0 ? "; it is held by " : ", ",
                    name != NULL ? name : "a buffer", amount);
    cel_vec_swap_out(&all, most);
  }
  cel_vec_release(&all);
}

/* ---- changes ------------------------------------------------------------- */

static cel_status reserve(cel_reserved_list *list, cel_backend *b,
                          cel_allocation *a) {
  CEL_TRY(b->reserve(b, a->memory, a->reserve, &a->address));
  bool whole = b->grain != 0 && a->reserve < b->whole;
  cel_reserved r = {a->memory, a->reserve, a->address, a->buffer,
                    whole ? a->reserve : 0};
  cel_vec_push(&list->all, r);
  return CEL_E_OK;
}

static void release(cel_reserved_list *list, cel_backend *b,
                    cel_allocation *a) {
  cel_reserved *r = reserved_at(list, a->address);
  if (r != NULL) cel_vec_swap_out(&list->all, (uint32_t)(r - list->all.at));
  b->release(b, a->memory, a->address, a->reserve);
  a->address = NULL;
}

cel_status cel_reserved_change(cel_reserved_list *list, cel_backend *backend,
                               const cel_instr *instr) {
  cel_backend *b = backend;
  cel_allocation *a = instr->memory.allocation;
  uint64_t begin = instr->memory.begin, end = instr->memory.end;
  cel_reserved *r;
  switch (instr->kind) {
  case CEL_INSTR_ALLOC: return reserve(list, b, a);
  case CEL_INSTR_FREE: release(list, b, a); return CEL_E_OK;
  case CEL_INSTR_COMMIT:
    CEL_TRY(b->commit(b, a->memory, a->address, begin, end));
    r = reserved_at(list, a->address);
    if (r != NULL) r->committed += end - begin;
    return CEL_E_OK;
  default:
    cel_assert(instr->kind == CEL_INSTR_DECOMMIT);
    r = reserved_at(list, a->address);
    if (r != NULL)
      r->committed -= end - begin < r->committed ? end - begin : r->committed;
    b->decommit(b, a->memory, a->address, begin, end);
    return CEL_E_OK;
  }
}
