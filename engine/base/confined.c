#include "base/confined.h"

static _Thread_local cel_thread_kind own;

cel_thread_kind cel_thread_act(cel_thread_kind kind) {
  cel_thread_kind before = own;
  own = kind;
  return before;
}

bool cel_thread_may(unsigned kinds) {
  return own == CEL_THREAD_ANY || (own & kinds) != 0;
}
