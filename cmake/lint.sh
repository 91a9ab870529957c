#!/bin/sh
# lint.sh BUILD_FOLDER -- runs every linter to the end; fails if one complains.
build=$1
bad=0
fail() {
  echo "lint: $1 complains"
  bad=1
}

luajit cmake/layers.lua engine || fail layers

find engine kernels spec -name '*.[ch]' -o -name '*.cuh' |
  xargs -r clang-format --dry-run -Werror || fail clang-format

luacheck -q --no-color .luacheckrc cmake lua spec examples || fail luacheck

find engine -name '*.c' | sort |
  xargs -r -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" 2>/dev/null ||
  fail clang-tidy

[ $bad -eq 0 ] && echo "lint: clean"
exit $bad
