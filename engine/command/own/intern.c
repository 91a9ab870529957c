#include "command/own/intern.h"

static uint32_t matching(const cel__interner *in, uint32_t id, uint64_t hash) {
  while (id != CEL__NO_ID && in->object.at[id]->hash != hash)
    id = in->object.at[id]->next;
  return id;
}

uint32_t cel__interner_first(const cel__interner *in, uint64_t hash) {
  if (in->heads == 0) return CEL__NO_ID;
  return matching(in, in->head[hash & (in->heads - 1)], hash);
}

uint32_t cel__interner_next(const cel__interner *in, uint32_t id,
                            uint64_t hash) {
  return matching(in, in->object.at[id]->next, hash);
}

static void link_in(cel__interner *in, uint32_t id) {
  cel__interned *object = in->object.at[id];
  uint32_t *head = &in->head[object->hash & (in->heads - 1)];
  object->next = *head;
  *head = id;
}

static void rehash(cel__interner *in, uint32_t heads) {
  cel_free(in->head);
  in->head = cel_alloc_zero(heads * sizeof *in->head);
  in->heads = heads;
  for (uint32_t id = 1; id < in->object.n; ++id)
    if (in->object.at[id] != NULL) link_in(in, id);
}

uint32_t cel__interner_add(cel__interner *in, cel__interned *object,
                           uint64_t hash) {
  if (in->object.n == 0) cel_vec_push(&in->object, NULL);
  uint32_t id;
  if (in->free_ids.n > 0) {
    id = cel_vec_pop(&in->free_ids);
    in->object.at[id] = object;
  } else {
    id = in->object.n;
    cel_vec_push(&in->object, object);
  }
  object->hash = hash;
  object->mark = 0;
  object->next = CEL__NO_ID;
  ++in->count;
  if (in->count > in->heads)
    rehash(in, in->heads == 0 ? 64 : in->heads * 2);
  else
    link_in(in, id);
  return id;
}

void cel__interner_sweep(cel__interner *in, void (*drop)(cel__interned *)) {
  for (uint32_t id = in->object.n; id-- > 1;) {
    cel__interned *object = in->object.at[id];
    if (object == NULL) continue;
    if (object->mark) {
      object->mark = 0;
      continue;
    }
    drop(object);
    in->object.at[id] = NULL;
    cel_vec_push(&in->free_ids, id);
    --in->count;
  }
  if (in->heads > 0) rehash(in, in->heads);
}

void cel__interner_release(cel__interner *in, void (*drop)(cel__interned *)) {
  for (uint32_t id = 1; id < in->object.n; ++id)
    if (in->object.at[id] != NULL) drop(in->object.at[id]);
  cel_vec_release(&in->object);
  cel_vec_release(&in->free_ids);
  cel_free(in->head);
  *in = (cel__interner){0};
}

size_t cel__interner_bytes(const cel__interner *in) {
  return in->object.cap * sizeof *in->object.at +
         in->free_ids.cap * sizeof *in->free_ids.at +
         in->heads * sizeof *in->head;
}
