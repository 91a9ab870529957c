#include "instr/outline.h"

#include "base/hash.h"

void cel__outlines_release(cel__outlines *all) {
  cel_assert(all->bytes == 0);
  cel_vec_release(&all->words);
}

cel__outline *cel__outline_intern(cel__outlines *all) {
  const cel_track_words *words = &all->words;
  size_t bytes = words->n * sizeof *words->at;
  uint64_t hash = cel_hash(words->at, bytes, 0);
  cel__outline **bucket = &all->bucket[hash % CEL__OUTLINE_BUCKETS];
  for (cel__outline *o = *bucket; o != NULL; o = o->next)
    if (o->hash == hash && o->n == words->n &&
        memcmp(o->words, words->at, bytes) == 0)
      return cel__outline_hold(o);
  cel__outline *made = cel_alloc(sizeof *made + bytes);
  *made = (cel__outline){
      .next = *bucket, .all = all, .hash = hash, .holders = 1, .n = words->n};
  if (bytes > 0) memcpy(made->words, words->at, bytes);
  all->bytes += sizeof *made + bytes;
  return *bucket = made;
}

cel__outline *cel__outline_hold(cel__outline *outline) {
  ++outline->holders;
  return outline;
}

void cel__outline_drop(cel__outline *outline) {
  if (outline == NULL || --outline->holders > 0) return;
  cel__outlines *all = outline->all;
  cel__outline **at = &all->bucket[outline->hash % CEL__OUTLINE_BUCKETS];
  while (*at != outline) at = &(*at)->next;
  *at = outline->next;
  all->bytes -= sizeof *outline + outline->n * sizeof *outline->words;
  cel_free(outline);
}
