#include "task/task.h"

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
