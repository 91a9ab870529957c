#!/bin/sh
# hosts.sh [OPTIONS] N COMMAND...  -- N hosts of their own on this machine, while COMMAND runs
#
# The hosts are h1 to hN. Each has its own network, name, processes, /dev/shm, /tmp, home
# (/tmp/home), and so its own cache. They share the rest of the file system, and of /tmp the
# current folder and this project. COMMAND runs on `head`, a host more, to which all of them
# are wired:
#
#   spec/support/hosts.sh 2 mpirun -n 2 build/release/celer run examples/hello.lua
#   spec/support/hosts.sh --delay 1 3 bash
#
# There, mpirun knows the hosts and starts ranks on them, and `hosts` is this script:
#
#   hosts at HOST COMMAND   runs a shell's command on a host, with no more environment than
#                           ssh would give it
#   hosts cut HOST          its link drops everything, and nobody is told
#   hosts restore HOST      its link works again
#   hosts kill HOST         it is gone, as if without power
#   hosts drop HOST WHAT    a firewall there drops what comes in of WHAT, in words of ip-rule,
#                           such as: from 10.77.9.2 ipproto tcp
#
# OPTIONS
#   --delay MS       from one host to another, one way; half of it to and from head
#   --loss PERCENT   of the packets on such a way are lost; half of it to and from head
#   --rate MBIT      what a link carries per second, each way
#   --mtu BYTES      of a packet at most (1500): large ones cost the relay less
#   --slots RANKS    that mpirun puts on a host before it takes the next (1)
#   --share FOLDER   stays the same for all, though it lies in /tmp
#   --cores "A B .." how many cores h1, h2, .. have; the last number goes for the rest
#   --boot HOURS     how much later each host has booted than the one before it: clocks
#                    that count from the boot differ by that
#   --loopback       each host's own name is 127.0.1.1 to itself, as Debian has it
#   --stray          a second interface on each host, whose network leads nowhere
#
# Nothing touches this machine's network, and nothing is left of it: all processes are in one
# PID namespace, which ends with COMMAND or when this script does, even by SIGKILL. Who is not
# root needs user namespaces. With delay, loss or rate a relay (relay.lua) stands between two
# TAP devices of each link, as not every kernel has netem.
# What is missing is said on stderr, and the status is 77.
set -u
self=$(readlink -f "$0")
bed=/tmp/hosts # in head's own /tmp
net=10.77.9

die() {
  echo "hosts.sh: $*" >&2
  exit 77
}

# -- outside -------------------------------------------------------------------

# Runs head in namespaces of its own, and ends when all of it has.
outside() {
  PATH=$PATH:/usr/sbin:/sbin
  for program in ip unshare nsenter setpriv luajit; do
    command -v $program >/dev/null || die "$program is not installed"
  done
  user=
  spaces='--net --uts --ipc --pid --mount --fork --kill-child --mount-proc'
  [ "$(id -u)" -eq 0 ] && unshare $spaces true 2>/dev/null || user='--user --map-root-user'
  why=$(unshare $user $spaces true 2>&1) || die "no namespaces here: $why"
  exec 3<&0 # what runs in the background would have none
  setpriv --pdeathsig KILL unshare $user $spaces "$self" head "$@" \
    <&3 3<&- 4>&2 2>/dev/null & # unshare complains about a child that is killed
  exec 3<&-
  inside=$!
  trap : INT # COMMAND decides
  trap 'kill -KILL $(cat /proc/$inside/task/$inside/children)' HUP TERM
  until wait $inside; status=$?; [ ! -d /proc/$inside ]; do :; done
  exit $status
}

# -- head: the init of all ----------------------------------------------------------

# A /tmp and a /dev/shm of its own, on which shared folders stay where they were.
own_tmp() {
  here=$PWD
  mount -n -t tmpfs -o mode=1777 tmp /dev/shm || return 1
  printf '%s\n' "$shared" | while read -r folder; do
    case $folder in
      /tmp/*)
        mkdir -p "/dev/shm${folder#/tmp}"
        mount -n --rbind "$folder" "/dev/shm${folder#/tmp}" ;;
    esac
  done
  mount -n --move /dev/shm /tmp && mount -n -t tmpfs -o mode=1777 shm /dev/shm &&
    mkdir /tmp/home && cd "$here"
}

# Makes the link of host $1, whose init is $2; in head it is called as the host.
link() {
  if [ -n "$relay" ]; then
    ip link set "$1.far" netns "$2" name eth0
  else
    ip link add "$1" type veth peer name eth0 netns "$2"
  fi
  ip link set "$1" mtu "$mtu" master hub up
  stray=:
  if [ -n "$with_stray" ]; then # its other end is up, and on no bridge
    ip link add "$1.stray" type veth peer name eth1 netns "$2"
    ip link set "$1.stray" up
    stray="ip addr add 10.66.9.${1#h}/24 dev eth1; ip link set eth1 up"
  fi
  # Without BBR, which sends a halo at the rate that it has measured: where a step sends one,
  # that is far below what the link carries. Reno is what a namespace may always choose.
  nsenter -t "$2" -n sh -c "ip link set lo up; ip addr add $net.${1#h}/24 dev eth0
    ip link set eth0 mtu $mtu up; $stray
    echo reno >/proc/sys/net/ipv4/tcp_congestion_control"
}

start_relay() {
  for host in $hosts; do
    ip tuntap add mode tap "$host" && ip tuntap add mode tap "$host.far" ||
      die "no TAP devices here"
  done
  urgent='chrt --fifo 2' # its delays are those that it adds
  $urgent true 2>/dev/null || urgent=
  $urgent luajit "${self%/*}/relay.lua" "$delay" "$loss" "$rate" "$mtu" $hosts >"$bed/up" &
  read -r ready <"$bed/up" && [ "$ready" = ready ] || die "the relay does not start"
}

# The k-th word, or the last one.
word() {
  shift "$(($1 < $# ? $1 : $# - 1))"
  echo "$1"
}

head() {
  exec 2>&4 4>&-
  hosts= delay=0 loss=0 rate=0 mtu=1500 slots=1 cores= boot=0
  shared=$(printf '%s\n%s' "$PWD" "${self%/spec/support/*}")
  relay= loopback= with_stray=
  while :; do
    case $1 in
      --delay | --loss | --rate) relay=yes ;;
    esac
    case $1 in
      --delay) delay=$2 ;;
      --loss) loss=$2 ;;
      --rate) rate=$2 ;;
      --mtu) mtu=$2 ;;
      --slots) slots=$2 ;;
      --share) shared=$(printf '%s\n%s' "$shared" "$(readlink -f "$2")") ;;
      --cores) cores=$2 ;;
      --boot) boot=$2 ;;
      --loopback) loopback=yes; shift; continue ;;
      --stray) with_stray=yes; shift; continue ;;
      *) break ;;
    esac
    shift 2
  done
  count=$1
  shift
  hosts=$(seq -f h%.0f "$count")
  own_tmp || die "no file systems of one's own here"
  mkdir $bed $bed/bin && mkfifo $bed/up
  ln -s "$self" $bed/bin/hosts
  hostname head
  {
    printf '127.0.0.1 localhost\n%s.254 head\n' $net
    for host in $hosts; do printf '%s %s\n' "$net.${host#h}" "$host"; done
  } >$bed/etc.hosts
  printf "%s slots=$slots\n" $hosts >$bed/hostfile
  mount -n --bind $bed/etc.hosts /etc/hosts
  ip link set lo up
  ip link add hub address 02:00:0a:4d:09:fe type bridge forward_delay 0 || die "no bridges here"
  ip link add pit type bridge # stays down: what is wired to it reaches nobody
  ip addr add $net.254/24 dev hub
  ip link set hub up
  [ -z "$relay" ] || start_relay
  for host in $hosts; do
    clock=
    if [ "$boot" != 0 ]; then
      clock=$((boot * 3600 * (count - ${host#h})))
      clock="--time --monotonic $clock --boottime $clock"
      unshare $clock true || die "no clocks of one's own here"
      : >$bed/clock
    fi
    some=
    [ -z "$cores" ] || some="taskset -c 0-$(($(word "${host#h}" $cores) - 1))"
    $some unshare --net --uts --ipc --pid --mount --fork --kill-child $clock \
      "$self" host "$host" "$loopback" "$shared" 4>&2 2>/dev/null &
  done
  left=$count
  while [ "$left" -gt 0 ] && read -r host pid; do
    [ -n "$pid" ] || die "$host does not start"
    link "$host" "$pid"
    echo "$pid" >"$bed/$host.pid"
    left=$((left - 1))
  done <>$bed/up
  export PATH="$bed/bin:$PATH" HOME=/tmp/home TMPDIR=/tmp
  export OMPI_MCA_orte_default_hostfile=$bed/hostfile
  export OMPI_MCA_plm_rsh_agent="$self at" # hosts look whether it is there, too
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_hwloc_base_binding_policy=none # all hosts have the same cores
  "$@"
}

# -- a host's init ------------------------------------------------------------------

# Tells head its process number there, and reaps what loses its parent.
host() {
  exec 2>&4 4>&- 3>$bed/up
  name=$1 loopback=$2 shared=$3
  read -r pid _ </proc/self/stat
  if [ -n "$loopback" ]; then
    sed "s/^[0-9.]* $name\$/127.0.1.1 $name/" $bed/etc.hosts >$bed/etc.$name
    mount -n --bind $bed/etc.$name /etc/hosts
  fi
  mount -n -t proc proc /proc && own_tmp && hostname "$name" || pid=
  echo "$name $pid" >&3
  exec 3>&-
  sleep infinity &
  wait
}

# -- on head ------------------------------------------------------------------------

init_of() {
  cat "$bed/$1.pid" 2>/dev/null || {
    echo "hosts.sh: there is no host $1" >&2
    exit 255
  }
}

# A host's processes have the cores that its init has.
at() {
  pid=$(init_of "$1") || exit
  shift
  exec nsenter -t "$pid" -n -u -i -p -m $([ ! -e $bed/clock ] || echo -T) taskset "0x$(taskset -p "$pid" | sed 's/.*: //')" \
    env -i HOME=/tmp/home PATH="$PATH" LANG="${LANG:-C}" SHELL=/bin/sh USER=root \
    sh -c "cd /tmp/home; $*"
}

# Rules are asked in order, and the first is otherwise that for what is the host's own.
drop() {
  host=$1
  shift
  at "$host" "ip rule add pref 1 iif eth0 $* blackhole && ip rule add pref 2 lookup local &&
    ip rule del pref 0"
}

case ${1:-} in
  head | host | at | drop) "$@" ;;
  cut) init_of "$2" >/dev/null && ip link set "$2" master pit ;;
  restore) init_of "$2" >/dev/null && ip link set "$2" master hub ;;
  kill) pid=$(init_of "$2") && "$self" cut "$2" && rm "$bed/$2.pid" && kill -KILL "$pid" ;;
  -*[a-z] | [1-9]*) outside "$@" ;;
  *) die "usage: hosts.sh [OPTIONS] N COMMAND... (see the text of this script)" ;;
esac
