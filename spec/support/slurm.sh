#!/bin/sh
# slurm.sh up FOLDER         -- a real Slurm of one node, on this machine, for specs
# slurm.sh up FOLDER HOST... -- on head of hosts.sh: of these hosts, which share FOLDER
# slurm.sh down FOLDER       -- ends the first (the second ends with its hosts)
#
# All of it lives in FOLDER, which `up` makes: keys, sockets, state, logs, and
# slurm.conf; with SLURM_CONF=FOLDER/slurm.conf srun talks to it. A single node
# has four GPUs to hand out, which are none. Ports are its own, so that it disturbs
# no other Slurm. Needs root (slurmd does) and the
# packages slurm-wlm, slurm-wlm-basic-plugins and munge; what is missing is said
# on stderr, and the status is 1.
set -u
folder=$2
node=$(hostname -s)

die() {
  echo "slurm.sh: $*" >&2
  exit 1
}

write_conf() {
  port=$((20000 + $$ % 6000 * 2)) # below those that the system hands out
  cat >"$folder/slurm.conf" <<END
ClusterName=spec
SlurmctldHost=$node
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=20
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
PartitionName=spec Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
END
}

write_hosts() {
  {
    echo 'SlurmdSpoolDir=/tmp/slurmd' # each host has a /tmp of its own
    echo 'SlurmdPidFile=/tmp/slurmd.pid'
    echo "SlurmdLogFile=$folder/slurmd.%n.log"
    for host in "$@"; do echo "NodeName=$host CPUs=2 State=UNKNOWN"; done
  } >>"$folder/slurm.conf"
}

write_node() {
  cat >>"$folder/slurm.conf" <<END
SlurmdSpoolDir=$folder/spool
SlurmdPidFile=$folder/slurmd.pid
SlurmdLogFile=$folder/slurmd.log
GresTypes=gpu
NodeName=$node CPUs=2 Gres=gpu:4 State=UNKNOWN
END
  for gpu in 0 1 2 3; do # it takes devices alone for GPUs
    ln -s /dev/null "$folder/gpu$gpu"
  done
  echo "Name=gpu File=$folder/gpu[0-3]" >"$folder/gres.conf"
}

start_munge() {
  (umask 077 && head -c 128 /dev/urandom >"$folder/munge.key")
  munged --force --socket="$folder/munge.socket" \
    --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" \
    >"$folder/munged.out" 2>&1 || die "munged: $(cat "$folder/munged.out")"
}

up() {
  PATH=$PATH:/usr/sbin
  [ "$(id -u)" -eq 0 ] || die "needs root"
  for program in munged slurmctld slurmd srun; do
    command -v $program >/dev/null || die "$program is not installed"
  done
  getent hosts "$node" >/dev/null || die "the name $node does not resolve"
  mkdir -p "$folder/state" "$folder/spool" && chmod 755 "$folder" || exit 1
  write_conf
  if [ $# -gt 0 ]; then write_hosts "$@"; else write_node; fi
  start_munge
  export SLURM_CONF="$folder/slurm.conf"
  slurmctld -c >"$folder/out" 2>&1 || die "slurmctld: $(cat "$folder/out")"
  if [ $# -eq 0 ]; then
    slurmd >"$folder/out" 2>&1 || die "slurmd: $(cat "$folder/out")"
  fi
  for host in "$@"; do
    hosts at "$host" "SLURM_CONF=$SLURM_CONF slurmd -N $host" >"$folder/out" 2>&1 ||
      die "slurmd on $host: $(cat "$folder/out")"
  done
  for _ in $(seq 900); do
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" -lt $(($# > 0 ? $# : 1)) ] || exit 0
    sleep 0.1
  done
  down
  die "the node does not get ready; see $folder"
}

# Ends what the pid files name, and waits for it.
down() {
  for daemon in slurmd slurmctld munged; do
    pid=$(cat "$folder/$daemon.pid" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null
  done
  return 0
}

action=$1
shift 2
case $action in
  up) up "$@" ;;
  down) down ;;
  *) die "usage: slurm.sh up|down FOLDER" ;;
esac
