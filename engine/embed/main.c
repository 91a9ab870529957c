#include <stdio.h>

#include "base/version.h"

int main(void) {
  printf("celer %s\n", cel_version());
  return 0;
}
