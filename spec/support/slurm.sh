#!/bin/sh
# slurm.sh up FOLDER   -- a real Slurm of one node, on this machine, for specs
# slurm.sh down FOLDER -- ends it
#
# All of it lives in FOLDER, which `up` makes: keys, sockets, state, logs, and
# slurm.conf; with SLURM_CONF=FOLDER/slurm.conf srun talks to it. Its node has
# four GPUs to hand out, which are none. Ports are its own, so that it disturbs
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
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
GresTypes=gpu
NodeName=$node CPUs=2 Gres=gpu:4 State=UNKNOWN
PartitionName=spec Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
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
  start_munge
  export SLURM_CONF="$folder/slurm.conf"
  slurmctld -c >"$folder/out" 2>&1 || die "slurmctld: $(cat "$folder/out")"
  slurmd >"$folder/out" 2>&1 || die "slurmd: $(cat "$folder/out")"
  for _ in $(seq 900); do
    case $(sinfo -h -o %T 2>/dev/null) in *idle*) exit 0 ;; esac
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

case $1 in
  up) up ;;
  down) down ;;
  *) die "usage: slurm.sh up|down FOLDER" ;;
esac
