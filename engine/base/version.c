#include "base/version.h"

const char *cel_version(void) {
  return CEL_VERSION;
}
