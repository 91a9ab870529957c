#!/bin/sh
# check.sh BUILD_FOLDER [SANITIZERS] -- all specs, then the random programs.
#
# The specs run against BUILD_FOLDER; the random programs (if there are any) in
# builds of their own, under address and undefined-behaviour sanitizers and
# under the thread sanitizer, CELER_RANDOM_SECONDS each (default 20). Such a
# program is called with `--seconds N` and ends with `N passed, N failed`.
# The last line is the sum: `N passed, N failed, N skipped`.
build=$1
sanitizers=$2
seconds=${CELER_RANDOM_SECONDS:-20}
passed=0 failed=0 skipped=0
log=$(mktemp) && status=$(mktemp) || exit 1
trap 'rm -f "$log" "$status"' EXIT

# Runs a command, shows its output and keeps it in $log; gives its status.
logged() {
  { "$@" </dev/null 2>&1; echo $? >"$status"; } | tee "$log"
  return "$(cat "$status")"
}

# add PASSED FAILED SKIPPED CODE: counts one run. A run that fails without
# saying so (a crash, a syntax error) counts as one failure.
add() {
  passed=$((passed + ${1:-0}))
  skipped=$((skipped + ${3:-0}))
  if [ "$4" -ne 0 ] && [ "${2:-0}" -eq 0 ]; then
    failed=$((failed + 1))
  else
    failed=$((failed + ${2:-0}))
  fi
}

specs() {
  echo "== specs ($build)"
  preload=
  case $sanitizers in
    *address*) preload=$(cc -print-file-name=libasan.so) ;;
    *thread*)
      echo "skipped: the thread sanitizer cannot be loaded into LuaJIT"
      add 0 0 1 0
      return ;;
  esac
  CELER_BUILD=$build CELER_PRELOAD=$preload logged cmake/busted.sh
  code=$?
  set -- $(sed -nE 's!^([0-9]+) success(es)? / ([0-9]+) failures? /(.*)!\1 \3\4!p' \
    "$log" | sed -nE 's!^(.*) ([0-9]+) errors? / ([0-9]+) pending.*!\1 \2 \3!p' |
    tail -1)
  add "${1:-0}" $((${2:-0} + ${3:-0})) "${4:-0}" $code
}

random_programs() {
  echo "== random programs ($1, $seconds s)"
  logged sh -ec "cmake --preset $1 >/dev/null
    cmake --build --preset $1 --target random_programs
    build/$1/random_programs --seconds $seconds"
  code=$?
  set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$log" |
    tail -1)
  # A run that passes without saying how many programs counts as one.
  add "${1:-$((code == 0))}" "${2:-0}" 0 $code
}

specs
if ls spec/random/*.c >/dev/null 2>&1; then
  random_programs asan
  random_programs tsan
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
