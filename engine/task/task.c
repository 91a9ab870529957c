#include "task/task.h"

#include "base/hash.h"

static const struct {
  const char *name;
  bool consumes, produces;
} modes[] = {
#define MODE_ROW(NAME, name, consumes, produces) {#name, consumes, produces},
    CEL_MODES(MODE_ROW)
#undef MODE_ROW
};

bool cel_mode_consumes(cel_mode mode) {
  return modes[mode].consumes;
}

bool cel_mode_produces(cel_mode mode) {
  return modes[mode].produces;
}

const char *cel_mode_name(cel_mode mode) {
  return modes[mode].name;
}

/* Extents begin at 0. */
uint64_t cel_buffer_hash(const cel_buffer *buffer, uint64_t seed) {
  for (int d = 0; d < CEL_DIMS; ++d)
    seed = cel_hash_word(seed, (uint64_t)buffer->extent.max[d]);
  seed = cel_hash_word(seed, buffer->type);
  seed = cel_hash_word(seed, buffer->init != NULL ? buffer->init->hash : 0);
  if (buffer->apart) seed = cel_hash_word(seed, 1);
  return cel_hash_word(seed, (uint64_t)buffer->id << 32 | buffer->element_size);
}
