#!/bin/sh
# busted.sh [ARGUMENTS...] -- busted under LuaJIT, from the project root.
#
# Without arguments: every spec. With some: what busted makes of them, as in
# `cmake/busted.sh spec/region/box_spec.lua`. CELER_BUILD is the build under
# test (default build/release); CELER_PRELOAD a sanitizer's library.
cd "$(dirname "$0")/.." || exit 1
# Of temporary files nothing is left. (A short path: sockets lie there.)
TMPDIR=$(mktemp -d /tmp/celerXXXXXX) || exit 1
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 1' HUP INT TERM
export TMPDIR
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
LD_PRELOAD="${CELER_PRELOAD:-}" luajit "$(command -v busted)" "$@"
