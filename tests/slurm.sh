#!/usr/bin/env bash
# `rocesim study --engine slurm` and `--shard` against a real Slurm: munged, slurmctld and slurmd on this machine, with
# key, socket, ports and state of their own, beside any Slurm that is there. What comes out must be, to the byte, what
# the same study gives without Slurm.
#
#   tests/slurm.sh [DIR]     the studies and all logs are kept in DIR
#
# $ROCESIM is the program (target/release/rocesim). Debian's slurm-wlm and munge are installed where they are missing
# and we are root; else exit code 77: skipped.
set -euo pipefail

rocesim=$(realpath "${ROCESIM:-$(dirname "$0")/../target/release/rocesim}")
[ -x "$rocesim" ] || { echo "$rocesim: no such program: cargo build --release makes it" >&2; exit 2; }

PATH=$PATH:/usr/sbin:/sbin
has_all() { local program; for program; do command -v "$program" >/dev/null || return; done; }
if ! has_all munged slurmctld slurmd sbatch; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "SKIPPED: no Slurm here, and only root of a Debian can install it: apt-get install slurm-wlm munge" >&2
    exit 77
  fi
  echo "installing slurm-wlm and munge"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
fi

if [ $# -gt 0 ]; then
  keep=yes; mkdir -p "$1"; top=$(realpath "$1")
  [ -z "$(ls -A "$top")" ] || { echo "$top: an empty directory is expected" >&2; exit 2; }
else
  keep=no; top=$(mktemp -d)
fi
case $top in *[[:space:]]*) echo "$top: Slurm's configuration takes no blanks" >&2; exit 2 ;; esac
work="$top/50 % of it" # a path that needs quotes, and in which Slurm would replace `% `
cluster=$top/cluster
mkdir -p "$work" "$cluster"

passed=no
# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
  local pid
  for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null || true; done
  if [ -s "$cluster/slurmctld.pid" ]; then
    scancel --user "$(id -un)" 2>/dev/null || true
    for _ in $(seq 50); do [ -n "$(squeue --noheader 2>/dev/null)" ] || break; sleep 0.1; done
  fi
  for daemon in slurmd slurmctld munged; do
    if [ -s "$cluster/$daemon.pid" ]; then kill "$(cat "$cluster/$daemon.pid")" 2>/dev/null || true; fi
  done
  for _ in $(seq 50); do
    [ -e "$cluster/slurmd.pid" ] || [ -e "$cluster/slurmctld.pid" ] || break
    sleep 0.1
  done
  if [ $passed = no ]; then
    tail -n 20 "$cluster"/*.log "$work"/*/slurm/*.log "$work"/*.err 2>/dev/null | sed 's/^/  | /' >&2 || true
    echo FAIL >&2
  fi
  [ $keep = yes ] || rm -rf "$top"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() { echo "FAILED: $*" >&2; exit 1; }
ok() { printf '%3d s  %s\n' $SECONDS "$*"; }

# await SECONDS COMMAND...: until it succeeds, or the study in the background ends
watcher=
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "waited in vain for: $*"
    [ -z "$watcher" ] || kill -0 "$watcher" 2>/dev/null || fail "rocesim ended while waiting for: $*"
    sleep 0.05
  done
}

# --- the cluster -----------------------------------------------------------------------------------------------------

# a port on which nobody listens
free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)); (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo $port
}

# three processors whatever the machine has: of four tasks, one waits. A task that was requeued may start again after
# cred_expire seconds; jobs are forgotten MinJobAge seconds after their end.
configure() {
  mkdir -p "$cluster/state" "$cluster/spool"
  cat >"$cluster/slurm.conf" <<CONF
ClusterName=rocesim
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
KillWait=2
MinJobAge=3
ReturnToService=0
NodeName=localhost NodeAddr=127.0.0.1 CPUs=3 State=UNKNOWN
PartitionName=debug Nodes=localhost Default=YES MaxTime=INFINITE State=UP
CONF
}

start_munged() {
  (umask 077; head -c 128 /dev/urandom >"$cluster/munge.key")
  # --force: others need not get at the socket
  munged --force --key-file="$cluster/munge.key" --socket="$cluster/munge.socket" --pid-file="$cluster/munged.pid" \
    --log-file="$cluster/munged.log" --seed-file="$cluster/munged.seed" 2>"$cluster/munged-start.log"
}

is_idle() { sinfo -h -o %T 2>/dev/null | grep -qx idle; }

configure
export SLURM_CONF=$cluster/slurm.conf
start_munged || fail "munged does not start"
slurmctld
slurmd -N localhost
await 30 is_idle
ok "$(sbatch --version) with munge on localhost, three processors"

# --- the study -------------------------------------------------------------------------------------------------------

# 40 points and 2 seeds; six points are refused (kmax below kmin), and names need quotes
cd "$work"
cat >forty.toml <<'STUDY'
title = "ECN thresholds of an incast"
base = "incast"
seeds = 2
set = { "traffic.burst.bytes" = "30MB" }
maximize = "flows.goodput_mean"
minimize = "ports.max_queue_max"
require = { lossless_drops = 0, "flows.fct_max" = { below = "21.4ms" } }

[axes]
"switch.ecn.3.kmin" = ["25KB", "50KB", "100KB", "200KB", "400KB"]
"switch.ecn.3.kmax" = ["100KB", "200KB", "400KB", "1600KB"]
"DCQCN, or \"none\"" = { variants = { "as it's shipped, \"on\"" = {}, off = { "nic.congestion.algorithm" = "none" } } }
STUDY

study() { local out=$1; shift; "$rocesim" study forty.toml --out "$out" "$@" >"$out.out" 2>"$out.err"; }
# the same as a group of processes of its own, as a terminal starts it
study_in_background() {
  local out=$1
  shift
  setsid "$rocesim" study forty.toml --out "$out" "$@" >"$out.out" 2>"$out.err" &
  watcher=$!
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
# ends CODE: the study in the background ends with it
ends() {
  local code=0 pid=$watcher
  watcher=
  await 60 is_gone "$pid"
  wait "$pid" || code=$?
  [ $code -eq "$1" ] || fail "exit code $code, $1 expected"
}
# runs DIR [TASK]: how many are written
runs() { cat "$1/results/${2:-}"*.jsonl 2>/dev/null | wc -l; }
has_runs() { [ "$(runs "$1" "$2")" -ge "$3" ]; }
# jobs_of DIR: the jobs that the study has submitted
jobs_of() { grep -o '"id": *[0-9]*' "$1/slurm/array.json" 2>/dev/null | tr -dc '0-9\n' | xargs; }
has_jobs() { [ "$(jobs_of "$1" | wc -w)" -ge "$2" ]; }
in_queue() { squeue --noheader --array --format "%K %T" | sort | xargs; }
state_is() { squeue --noheader --array --format "%K %T" | grep -qx "$1 $2"; }
restarted() { scontrol show job "$1" | grep -q 'Restarts=1'; }

# is_same DIR: all tables are those of the local run; no run is there twice
is_same() {
  local table twice
  for table in points.csv runs.csv points.parquet runs.parquet; do
    cmp "local/$table" "$1/$table" || fail "$1: another $table than that of the local run"
  done
  twice=$(cat "$1"/results/*.jsonl | grep -o '"point":[0-9]*,"seed":[0-9]*' | sort | uniq -d | xargs)
  [ -z "$twice" ] || fail "$1: run twice: $twice"
}

study local || fail "exit code $? of a local run"
[ "$(wc -l <local/points.csv)" -eq 42 ] || fail "header, base and 40 points expected in local/points.csv"
grep -q refused local/points.csv || fail "no refused point in local/points.csv"
ok "local run: 40 points and the base, $(runs local) runs"

# --- a task is cancelled, one requeued -------------------------------------------------------------------------------

study_in_background array --engine slurm --tasks 4
await 20 has_jobs array 1
job=$(jobs_of array)
await 20 has_runs array task-2 6
state_is 3 PENDING || fail "task 3 should wait for a processor: $(in_queue)"
two=$(runs array task-2)
scontrol requeue "${job}_2"
await 20 has_runs array task-1 6
one=$(runs array task-1)
scancel "${job}_1"
code=0
"$rocesim" study forty.toml --out array --resume --engine slurm >second.out 2>second.err || code=$?
[ $code -eq 2 ] || fail "exit code $code of a second watcher, 2 expected"
grep -q 'another rocesim' second.err || fail "why no second watcher is let in is not told: $(cat second.err)"
ok "four tasks, the last waits; task 2 requeued after $two runs, task 1 cancelled after $one; a second watcher is refused"
await 20 restarted "${job}_2"
ends 0
[ "$(runs array task-1)" -gt "$one" ] || fail "task 1 was done before it was cancelled"
[ "$(runs array task-2)" -gt "$two" ] || fail "task 2 was done before it was requeued"
has_jobs array 2 || fail "the cancelled task was not submitted again"
[ "$(jobs_of array | wc -w)" -eq 2 ] || fail "jobs $(jobs_of array): one array and one more task expected"
is_same array
ok "task 1 was submitted again, task 2 started again; all tables are identical to those of the local run"

# --- whoever watches goes away; a node is lost -----------------------------------------------------------------------

study_in_background left --engine slurm --tasks 4
await 20 has_runs left task-0 1
kill -INT -- "-$watcher"
ends 130
job=$(jobs_of left)
grep -q "the jobs go on: $job " left.err || fail "the message does not name job $job: $(cat left.err)"
state_is 0 RUNNING || fail "task 0 should go on: $(in_queue)"
ok "Ctrl-C: the watcher ends with code 130, job $job goes on"

scontrol update nodename=localhost state=down reason=test
await 20 state_is 0 PENDING
study_in_background left --engine slurm --resume
sleep 0.5
kill -KILL "$watcher"
ends 137 2>/dev/null
scontrol update nodename=localhost state=resume
ok "the node lost, Slurm requeues its tasks: $(in_queue); the next watcher killed"

study_in_background left --engine slurm --resume
ends 0
[ "$(jobs_of left)" = "$job" ] || fail "jobs $(jobs_of left) instead of $job alone: the array was not adopted"
is_same left
ok "--resume adopts job $job, nothing is submitted again; identical"

# --- what Slurm refuses ----------------------------------------------------------------------------------------------

code=0
study refused --engine slurm --sbatch=--partition=nowhere || code=$?
[ $code -eq 2 ] || fail "exit code $code where sbatch refuses, 2 expected"
grep -q 'invalid partition' refused.err || fail "what sbatch says is not told: $(cat refused.err)"
ok "an unknown partition: exit code 2, and what sbatch says"

# --- parts by hand ---------------------------------------------------------------------------------------------------

for part in 0 1 2; do
  "$rocesim" study forty.toml --out parts --shard $part/3 --quiet >"parts.$part.out" 2>"parts.$part.err" &
  pids[part]=$!
done
for part in 0 1 2; do wait "${pids[part]}" || fail "exit code $? of --shard $part/3"; done
before=$(runs parts)
study parts --resume || fail "exit code $? of --resume after all parts"
[ "$(runs parts)" -eq "$before" ] || fail "--resume ran $(($(runs parts) - before)) runs that were there"
is_same parts
ok "--shard 0/3, 1/3, 2/3 at once into one directory, gathered by --resume without a run: identical"

passed=yes
echo PASS
