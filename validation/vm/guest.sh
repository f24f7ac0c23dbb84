#!/usr/bin/env bash
# What tests/replay.sh runs in the virtual machine of rxe.sh with four devices: rings over RDMA, with a capture, with
# losses, with a rank that is killed; what is to be looked at is left in /out.
#
#   guest.sh ROCESIM
set -euo pipefail
rocesim=$1
# 16.8 ms: a lost tail does not cost seconds of a clock that counts instructions
common=(replay replay-ring --check --set nccl.IB_TIMEOUT=12 --timeout 60s)

for ranks in 2 3 4; do
  # two ranks at more sizes, for a fit
  [ $ranks = 2 ] && sizes='{ from = "16KiB", to = "512KiB", factor = 2 }' || sizes='{ from = "64KiB", to = "256KiB", factor = 2 }'
  "$rocesim" "${common[@]}" --launch local --device rxe0,rxe1,rxe2,rxe3 --set topology.hosts=$ranks --set "traffic.allreduce.bytes=$sizes" \
    --iters 2 --warmup 1 -o /out/ranks-$ranks.json | tee /out/ranks-$ranks.txt
done

echo "--- two QPs, split, with a capture on the switch"
tcpdump -i br0 -s 128 --immediate-mode -w /dev/shm/ring.pcap udp port 4791 2>/run/tcpdump &
for _ in $(seq 100); do grep -q 'listening on' /run/tcpdump && break; sleep 0.1; done
"$rocesim" "${common[@]}" --launch local --device rxe0,rxe1 --qps 2 --split --tc 106 --iters 1 --warmup 0 \
  --set 'traffic.allreduce.bytes="128KiB"' -o /out/captured.json | tee /out/captured.txt
sleep 1; kill %1; wait %1 || true
cp /dev/shm/ring.pcap /out/ring.pcap

echo "--- 1 % of the frames to rxe1 are lost"
# the rxe of Linux 6.1 loses a QP now and then when two frames of one message are lost: it may try again
tc qdisc add dev p1 root netem loss 1%
for attempt in 1 2 3; do
  "$rocesim" "${common[@]}" --set nccl.IB_TIMEOUT=14 --launch local --device rxe0,rxe1 --iters 8 --warmup 0 \
    --set 'traffic.allreduce.bytes="512KiB"' -o /out/lossy.json | tee /out/lossy.txt && break
  [ $attempt -lt 3 ]
done
tc qdisc del dev p1 root

echo "--- rank 2 is killed"
ROCESIM_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export ROCESIM_TOKEN
begin=$(cut -d. -f1 /proc/uptime)
for rank in 0 1 2; do
  "$rocesim" "${common[@]}" --rank $rank --world 3 --rendezvous 127.0.0.1:4792 --device rxe$rank --iters 1000 \
    --set topology.hosts=3 --set 'traffic.allreduce.bytes="1MiB"' -o /run/none.json >/out/killed-$rank.txt 2>&1 &
  pids[rank]=$!
done
for _ in $(seq 200); do grep -q 'busbw' /out/killed-0.txt 2>/dev/null && break; sleep 0.1; done
sleep 2
kill -9 "${pids[2]}"
for rank in 0 1; do
  code=0; wait "${pids[rank]}" || code=$?
  echo "rank $rank ended with $code after $(($(cut -d. -f1 /proc/uptime) - begin)) s: $(tail -n 1 /out/killed-$rank.txt)"
  [ $code = 1 ] && grep -q '^error: rank '$rank': ' /out/killed-$rank.txt
done

echo "--- what an operator may do wrong"
refused() { # TEXT ARGUMENT...
  local code=0
  "$rocesim" "${common[@]}" --launch local --iters 1 -o /run/none.json "${@:2}" >/run/refused 2>&1 || code=$?
  echo "$code: $(grep -m 1 '^error' /run/refused)"
  [ $code = 2 ] && grep -q "$1" /run/refused
}
refused 'no such GID' --device rxe0,rxe1 --gid-index 9
refused 'no RDMA device rxe9' --device rxe9
ip link set n1 mtu 1500
refused 'MTUs differ' --device rxe0,rxe1
ip link set n1 mtu 4200 down
refused 'is DOWN\|has no GID\|is empty' --device rxe0,rxe1
