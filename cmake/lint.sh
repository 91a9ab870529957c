#!/bin/sh
# lint.sh BUILD_FOLDER [long] -- runs every linter to the end; fails if one complains.
# With `long`, clang's analyzer as well, which follows the paths through each function:
# thirty times as long as all else.
build=$1
long=$2
# The path-sensitive checks of core.* follow neither the depth of a postfix program nor
# our assertions (release builds have none): the sanitizers, under the random programs,
# look for what they look for.
analyzer='clang-analyzer-*,-clang-analyzer-core.*'
for name in deadcode.DeadStores optin.mpi.MPI-Checker optin.performance.Padding \
  valist.Uninitialized security.insecureAPI.DeprecatedOrUnsafeBufferHandling; do
  analyzer=$analyzer,-clang-analyzer-$name
done
bad=0
fail() {
  echo "lint: $1 complains"
  bad=1
}

luajit cmake/layers.lua engine || fail layers
luajit cmake/mirrors.lua || fail mirrors

find engine kernels spec -name '*.[ch]' -o -name '*.cuh' |
  xargs -r clang-format --dry-run -Werror || fail clang-format

luacheck -q --no-color .luacheckrc cmake lua spec examples || fail luacheck

find engine -name '*.c' | sort |
  xargs -r -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" \
    ${long:+"--checks=$analyzer"} 2>/dev/null ||
  fail clang-tidy

[ $bad -eq 0 ] && echo "lint: clean"
exit $bad
