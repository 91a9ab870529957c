/* Preloaded: whoever looks for calls on the stack, but for the first time,
 * finds what cannot be read. */
#include <execinfo.h>
#include <stddef.h>

int backtrace(void **call, int size) {
  (void)call;
  return size > 1 ? *(volatile int *)sizeof size : 0;
}
