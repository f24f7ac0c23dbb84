#!/usr/bin/env bash
# `rocesim replay` over RDMA, in a virtual machine with Soft-RoCE (validation/vm/rxe.sh): rings of 2, 3 and 4 ranks are
# verified; a capture from inside is counted as tshark counts it; 1 % of the frames is lost, and what was sent again is
# counted; a rank is killed, and the others say so. Then the chain: the measurement is read, calibrated with, compared.
#
#   tests/replay.sh [DIR]     everything is kept in DIR
#
# $ROCESIM is the program (target/release/rocesim). 77: skipped, where qemu or the kernel cannot be had.
set -euo pipefail
here=$(realpath "$(dirname "$0")/..")
rocesim=$(realpath "${ROCESIM:-$here/target/release/rocesim}")
[ -x "$rocesim" ] || { echo "$rocesim: no such program: cargo build --release makes it" >&2; exit 2; }
if [ $# -gt 0 ]; then mkdir -p "$1"; out=$(realpath "$1"); else out=$(mktemp -d); trap 'rm -rf "$out"' EXIT; fi

code=0
"$here/validation/vm/rxe.sh" -n 4 -o "$out" -t 540 "$here/validation/vm/guest.sh" "$rocesim" | tee "$out/guest.txt" || code=$?
if [ $code = 77 ]; then
  echo "**** SKIPPED: replay over RDMA was not tested: no virtual machine here ****" >&2
  exit 77
fi
[ $code = 0 ] || { echo "the virtual machine ended with $code" >&2; exit 1; }

fail() { echo "FAILED: $*" >&2; exit 1; }
for ranks in 2 3 4; do
  [ "$(grep -c '^ *[0-9].* float ' "$out/ranks-$ranks.txt")" -ge 3 ] || fail "some sizes on $ranks ranks"
  grep -q 'Out of bounds values : 0 OK' "$out/ranks-$ranks.txt" || fail "wrong sums on $ranks ranks"
done

# both count the same frames, by opcode
"$rocesim" pcap-stats "$out/ring.pcap" --json >"$out/ring.json"
if command -v tshark >/dev/null; then
  tshark -r "$out/ring.pcap" -T fields -e infiniband.bth.opcode 2>/dev/null | sort -n | uniq -c >"$out/tshark.txt"
fi
python3 - "$out" <<'PYTHON'
import json, os, sys
out = sys.argv[1]
stats = json.load(open(f'{out}/ring.json'))
counted = {}
def walk(node):
    if isinstance(node, dict):
        if 'opcodes' in node and isinstance(node['opcodes'], dict):
            return node['opcodes']
        for value in node.values():
            found = walk(value)
            if found is not None: return found
    return None
counted = walk(stats)
print('pcap-stats:', counted)
names = {6: 'WRITE First', 7: 'WRITE Middle', 8: 'WRITE Last', 9: 'WRITE Last Imm', 10: 'WRITE Only', 11: 'WRITE Only Imm', 17: 'ACK'}
if os.path.exists(f'{out}/tshark.txt'):
    seen = {}
    for line in open(f'{out}/tshark.txt'):
        fields = line.split()
        if len(fields) == 2: seen[int(fields[1])] = int(fields[0])
    print('tshark:', {names.get(k, k): v for k, v in seen.items()})
    assert sorted(seen.values()) == sorted(v for v in counted.values() if v), 'counts differ'
    assert seen.get(17, 0) > 0 and seen.get(9, 0) > 0 and seen.get(6, 0) > 0
lossy = json.load(open(f'{out}/lossy.json'))
sizes = lossy['sizes']
assert all(size['wrong'] == 0 for size in sizes)
again = 0
for rank in lossy['ranks']:
    samples = rank['counters']['samples']
    first, last = samples[0]['values']['hw_counters'], samples[-1]['values']['hw_counters']
    moved = {name: last[name] - first[name] for name in last if last[name] != first[name]}
    print('rank', rank['rank'], {k: v for k, v in moved.items() if 'pkts' not in k})
    again += moved.get('rcvd_seq_err', 0) + moved.get('completer_retry_err', 0)
assert again > 0, 'nothing was sent again'
PYTHON
echo "replay over RDMA: passed"

# The chain: what was measured is read, calibrated with, and compared with the calibrated scenario. In the virtual
# machine time is virtual; over TCP all ranks share this machine's processors. So errors are told here, not judged.
cd "$out"
chain() { # SCENARIO KEY FITTED MEASUREMENT...
  local scenario=$1 key=$2 fitted=$3
  "$rocesim" measured "$fitted.json"
  "$rocesim" calibrate "$scenario" --measured "$fitted.json" --set "$key" --holdout 0.34 --out "cal-$scenario" --quiet
  for file in "${@:3}"; do
    ranks=${file##*-}
    "$rocesim" run "cal-$scenario/calibrated.toml" --set "topology.hosts=$ranks" --out "run-$file" --quiet >/dev/null
    echo "--- $scenario, calibrated on 2 ranks, against $ranks"
    "$rocesim" compare "run-$file" "$file.json"
  done
}
# an emulated processor moves about 10 MB/s: a fit searches within a factor of 100 of what it is given
chain replay-ring 'topology.link.rate="100Mbps"' ranks-2 ranks-3 ranks-4
for ranks in 2 3 4; do
  "$rocesim" replay replay-tcp --transport tcp --launch local --check --iters 10 --set topology.hosts=$ranks \
    --set 'traffic.allreduce.bytes={ from = "64KiB", to = "16MiB", factor = 2 }' -o tcp-$ranks.json >tcp-$ranks.txt
done
chain replay-tcp 'host.socket.rate="32Gbps"' tcp-2 tcp-3 tcp-4
echo "replay, calibrate, compare: passed"
