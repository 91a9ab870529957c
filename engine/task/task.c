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

/* No padding in the struct: ranks must agree on every byte. */
uint64_t cel_access_hash(const cel_access *access, uint64_t rule,
                         uint64_t seed) {
  const cel_buffer *buffer = access->buffer;
  struct {
    cel_box extent;
    uint64_t rule, mode, type, init;
    uint32_t buffer, element_size;
  } what = {.extent = buffer->extent,
            .rule = rule,
            .mode = (uint64_t)access->mode,
            .type = buffer->type,
            .init = buffer->init != NULL ? buffer->init->hash : 0,
            .buffer = buffer->id,
            .element_size = buffer->element_size};
  return cel_hash(&what, sizeof what, seed);
}
