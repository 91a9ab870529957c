#!/bin/sh
# check.sh BUILD_FOLDER [SANITIZERS [long]] -- all specs, then the random programs.
#
# With `long`, what takes long in place of the specs, which have a sample of it: all of
# spec/long, and ten minutes of random programs.
# The specs run against BUILD_FOLDER; the random programs (if there are any) in
# builds of their own, under address and undefined-behaviour sanitizers and
# under the thread sanitizer, CELER_RANDOM_SECONDS each (default 20). Such a
# program is called with `--seconds N` and ends with `N passed, N failed`; one
# that hangs is ended ten minutes later, and says its seed.
#
# Specs that fail run once more (specs.lua). What failed and what was unsteady
# stands once more at the end, after `== what failed ...`, for a log is often cut
# in its middle. The last line is the sum: `N passed, N failed, N skipped`.
build=$1
sanitizers=$2
long=$3
seconds=${CELER_RANDOM_SECONDS:-${long:+600}}
seconds=${seconds:-20}
passed=0 failed=0 skipped=0
report=$build/failed.txt
log=$(mktemp) && status=$(mktemp) && : >"$report" || exit 1
trap 'rm -f "$log" "$status"*' EXIT

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
  CELER_BUILD=$build CELER_PRELOAD=$preload \
    logged luajit cmake/specs.lua "$report"
  code=$?
  set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) sk.*/\1 \2 \3/p' \
    "$log" | tail -1)
  add "${1:-0}" "${2:-0}" "${3:-0}" $code
}

# Builds the random programs of both presets, while specs leave processors waiting.
begin_builds() {
  for preset in asan tsan; do
    nice -n 19 sh -ec "cmake --preset $preset >/dev/null
      cmake --build --preset $preset --target random_programs"
    echo $? >"$status.$preset"
  done </dev/null >"$build/random.build.log" 2>&1 &
}

# Those of both presets run side by side. Each writes into a file of its own, where a
# seed is found if all of this is killed.
random_programs() {
  echo "== random programs (asan and tsan, $seconds s each)"
  wait
  cat "$build/random.build.log"
  for preset in asan tsan; do
    [ "$(cat "$status.$preset")" -eq 0 ] ||
      cp "$build/random.build.log" "$build/random.$preset.log"
  done
  for preset in asan tsan; do
    [ "$(cat "$status.$preset")" -eq 0 ] || continue
    { timeout -s ABRT $((${seconds%.*} + 600)) build/$preset/random_programs \
      --seconds $seconds </dev/null 2>&1
      echo $? >"$status.$preset"; } >"$build/random.$preset.log" &
  done
  wait
  for preset in asan tsan; do
    said=$build/random.$preset.log code=$(cat "$status.$preset")
    echo "== random programs ($preset)" && cat "$said"
    set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$said" | tail -1)
    # A run that passes without saying how many programs counts as one.
    add "${1:-$((code == 0))}" "${2:-0}" 0 $code
    [ $code -eq 0 ] && continue
    # The seeds; without one, how it ended.
    { grep '^seed ' "$said" || tail -20 "$said"; } | cut -c 1-300 | head -40 |
      sed "s/^/random programs ($preset): /" >>"$report"
  done
}

# long WHAT PROGRAM: one of spec/long.
long() {
  echo "== $1 ($build)"
  CELER_BUILD=$build logged luajit "$2"
  code=$?
  set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+).*/\1 \2 \3/p' "$log" |
    tail -1)
  add "${1:-0}" "${2:-0}" "${3:-0}" $code
  grep '^failed' "$log" | cut -c 1-300 | head -40 >>"$report"
}

random=$(ls spec/random/*.c 2>/dev/null)
[ -n "$random" ] && begin_builds
if [ -n "$long" ]; then
  long mistakes spec/long/run.lua
  long hosts spec/long/hosts.lua
  long restarts spec/long/restarts.lua
  long functions spec/long/functions.lua
  case $sanitizers in
    *address* | *thread*) echo "skipped: sanitizers have an allocator of their own"
      add 0 0 1 0 ;;
    *) long refusals spec/long/refusals.lua ;;
  esac
  echo "== random programs of which one rank has another"
  logged "$build/random_programs" --diverge --count 5000
  code=$?
  set -- $(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log" | tail -1)
  add "${1:-0}" "${2:-0}" 0 $code
  grep '^seed ' "$log" | cut -c 1-300 | head -40 >>"$report"
else
  specs
fi
[ -n "$random" ] && random_programs

if [ -s "$report" ]; then
  echo "== what failed or was unsteady"
  cat "$report"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
