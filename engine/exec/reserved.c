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

/* ---- spares -------------------------------------------------------------- */

static cel_box range_of(uint64_t begin, uint64_t end) {
  return (cel_box){{(int64_t)begin, 0, 0}, {(int64_t)end, 1, 1}};
}

static void drop_spare(cel_backend *b, cel_reserved *r) {
  if (r->spare == NULL) return;
  cel_assert(r->busy == 0);
  b->release(b, r->memory, r->spare, r->bytes);
  cel_region_clear(&r->spare_ranges);
  r->spare = NULL;
}

static uint64_t left_in(cel_backend *b, int32_t memory) {
  return b->left != NULL ? b->left(b, memory) : UINT64_MAX;
}

/* Commits what the allocation has committed and its spare memory has not. */
static cel_status commit_spare(cel_backend *b, cel_reserved *r) {
  cel_region lacks = {0};
  cel_status status = CEL_E_OK;
  cel_region_subtract(&lacks, &r->ranges, &r->spare_ranges);
  uint64_t bytes = (uint64_t)cel_region_volume(&lacks);
  if (lacks.n > 0 && left_in(b, r->memory) < bytes + lacks.n * b->grain)
    status = CEL_E_MEMORY;
  for (uint32_t i = 0; i < lacks.n && status == CEL_E_OK; ++i)
    status = b->commit(b, r->memory, r->spare, (uint64_t)lacks.at[i].min[0],
                       (uint64_t)lacks.at[i].max[0]);
  if (status == CEL_E_OK) cel_region_copy(&r->spare_ranges, &r->ranges);
  cel_region_release(&lacks);
  return status;
}

void *cel_reserved_spare(cel_reserved_list *list, cel_backend *backend,
                         const cel_allocation *allocation) {
  cel_reserved *r = reserved_at(list, allocation->address);
  cel_assert(r != NULL);
  bool made = r->spare == NULL;
  if (made) {
    if (r->whole && left_in(backend, r->memory) < r->bytes) return NULL;
    if (backend->reserve(backend, r->memory, r->bytes, &r->spare) != CEL_E_OK)
      return r->spare = NULL;
  }
  if (!r->whole && commit_spare(backend, r) != CEL_E_OK) {
    if (r->busy == 0) drop_spare(backend, r);
    return NULL;
  }
  return r->spare;
}

void cel_reserved_swap(cel_reserved_list *list, cel_allocation *allocation) {
  cel_reserved *r = reserved_at(list, allocation->address);
  cel_assert(r != NULL && r->spare != NULL);
  allocation->address = r->spare;
  r->spare = r->address;
  r->address = allocation->address;
}

void cel_reserved_hold(cel_reserved_list *list,
                       const cel_allocation *allocation, bool holds) {
  cel_reserved *r = reserved_at(list, allocation->address);
  cel_assert(r != NULL && (holds || r->busy > 0));
  r->busy += holds ? 1 : -1u;
}

bool cel_reserved_make_room(cel_reserved_list *list, cel_backend *backend,
                            const cel_instr *instr) {
  const cel_allocation *a = instr->memory.allocation;
  bool whole = backend->grain == 0 || a->reserve < backend->whole;
  uint64_t bytes = instr->kind == CEL_INSTR_COMMIT
                       ? instr->memory.end - instr->memory.begin
                   : instr->kind == CEL_INSTR_ALLOC && whole ? a->reserve
                                                             : 0;
  bool busy = false;
  bytes += bytes > 0 ? backend->grain : 0; /* the last one may be whole */
  for (uint32_t i = 0; i < list->all.n && bytes > 0; ++i) {
    cel_reserved *r = &list->all.at[i];
    if (r->spare == NULL || r->memory != a->memory) continue;
    if (left_in(backend, a->memory) >= bytes) return true;
    if (r->busy == 0) drop_spare(backend, r);
    busy |= r->busy > 0;
  }
  return !busy || left_in(backend, a->memory) >= bytes;
}

/* ---- changes ------------------------------------------------------------- */

static cel_status reserve(cel_reserved_list *list, cel_backend *b,
                          cel_allocation *a) {
  CEL_TRY(b->reserve(b, a->memory, a->reserve, &a->address));
  cel_reserved r = {.memory = a->memory,
                    .bytes = a->reserve,
                    .address = a->address,
                    .buffer = a->buffer,
                    .whole = b->grain == 0 || a->reserve < b->whole};
  if (b->grain != 0 && r.whole) r.committed = r.bytes;
  cel_vec_push(&list->all, r);
  return CEL_E_OK;
}

static void forget(cel_backend *b, cel_reserved *r) {
  drop_spare(b, r);
  cel_region_release(&r->ranges);
  cel_region_release(&r->spare_ranges);
}

static void release(cel_reserved_list *list, cel_backend *b,
                    cel_allocation *a) {
  cel_reserved *r = reserved_at(list, a->address);
  if (r != NULL) {
    forget(b, r);
    cel_vec_swap_out(&list->all, (uint32_t)(r - list->all.at));
  }
  b->release(b, a->memory, a->address, a->reserve);
  a->address = NULL;
}

bool cel_reserved_hand_on(cel_reserved_list *list, cel_backend *backend,
                          cel_allocation *allocation, cel_allocation *heir) {
  cel_reserved *r = reserved_at(list, allocation->address);
  if (r == NULL || !r->whole) return false;
  drop_spare(backend, r);
  r->buffer = heir->buffer;
  heir->address = allocation->address;
  allocation->address = NULL;
  return true;
}

void cel_reserved_release(cel_reserved_list *list, cel_backend *backend) {
  for (uint32_t i = 0; i < list->all.n; ++i) {
    cel_reserved *r = &list->all.at[i];
    r->busy = 0;
    forget(backend, r);
    backend->release(backend, r->memory, r->address, r->bytes);
  }
  cel_vec_release(&list->all);
}

static void commit(cel_reserved *r, uint64_t begin, uint64_t end) {
  cel_box range = range_of(begin, end);
  if (r == NULL) return;
  r->committed += end - begin;
  if (!r->whole) cel_region_add(&r->ranges, &range);
}

static void decommit(cel_backend *b, cel_reserved *r, uint64_t begin,
                     uint64_t end) {
  cel_box range = range_of(begin, end);
  if (r == NULL) return;
  drop_spare(b, r);
  r->committed -= end - begin < r->committed ? end - begin : r->committed;
  cel_region_remove(&r->ranges, &range);
}

cel_status cel_reserved_change(cel_reserved_list *list, cel_backend *backend,
                               const cel_instr *instr) {
  cel_backend *b = backend;
  cel_allocation *a = instr->memory.allocation;
  uint64_t begin = instr->memory.begin, end = instr->memory.end;
  switch (instr->kind) {
  case CEL_INSTR_ALLOC: return reserve(list, b, a);
  case CEL_INSTR_FREE: release(list, b, a); return CEL_E_OK;
  case CEL_INSTR_COMMIT:
    CEL_TRY(b->commit(b, a->memory, a->address, begin, end));
    commit(reserved_at(list, a->address), begin, end);
    return CEL_E_OK;
  default:
    cel_assert(instr->kind == CEL_INSTR_DECOMMIT);
    decommit(b, reserved_at(list, a->address), begin, end);
    b->decommit(b, a->memory, a->address, begin, end);
    return CEL_E_OK;
  }
}
