#!/usr/bin/env bash
# deps.sh [test] -- installs, on Debian 12 or a later Debian or Ubuntu, what celer is built and
# run with; with `test` also what its specs and linters take. Does nothing, quickly, when all
# of it is there. engine/README.md says what each package is for.
set -euo pipefail

packages=(
  build-essential cmake ninja-build pkg-config
  libluajit-5.1-dev luajit lua-argparse
  libopenmpi-dev openmpi-bin libhwloc-dev libpng-dev libxxhash-dev libedit-dev
)
[ "${1:-}" = test ] && packages+=(
  git lua-busted lua-check lua-cjson lua-filesystem
  libhdf5-openmpi-dev hdf5-tools
  clang-format clang-tidy graphviz
  slurm-wlm slurm-wlm-basic-plugins munge
  iproute2
)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
