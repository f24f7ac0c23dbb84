#!/usr/bin/env bash
# Captures of runs in Wireshark's dissectors: nothing is malformed, checksums are right, and what display
# filters count is what report.json and pcap-stats say.
#
#   tests/tshark.sh FOLDER      # a folder for the runs, which must not exist
#
# ROCESIM is the program; tshark and python3 must be there.
set -euo pipefail
folder=$1
program=${ROCESIM:-$(cd "$(dirname "$0")/.." && pwd)/target/release/rocesim}
command -v tshark >/dev/null || { echo "tshark is not installed"; exit 1; }
mkdir -p "$folder"
cd "$folder"

checks=(-o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE)

# dissect FILE FILTER: how many frames a display filter takes
dissect() {
  tshark -r "$1" "${checks[@]}" -Y "$2" -T fields -e frame.number 2>/dev/null | wc -l
}

# value FILE EXPRESSION: of a JSON file, `r` being what is in it
value() {
  python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"
}

failed=0
# same WHAT A B...: all are the same number
same() {
  local what=$1 first=$2 other
  shift
  for other in "$@"; do
    if [ "$other" != "$first" ]; then
      echo "FAILED: $what: $*"
      failed=1
      return
    fi
  done
  echo "  $what: $first"
}

# sound FILE: no frame is malformed, no checksum wrong, and the ICRC stands where Wireshark looks for it
sound() {
  local bad
  bad=$(dissect "$1" '_ws.malformed || _ws.expert.severity >= 8388608 ||
    ip.checksum.status == 0 || tcp.checksum.status == 0')
  same "$1: malformed frames and wrong checksums" "$bad" 0
  "$program" pcap-stats "$1" --json > "$1.json"
  # Wireshark 4.0 reads no further than the BTH of a CNP
  same "$1: frames with ICRC, each right" \
    "$(dissect "$1" 'infiniband.invariant.crc || infiniband.bth.opcode == 129')" \
    "$(value "$1.json" "r['roce']['icrc']['right']")" "$(value "$1.json" "r['roce']['frames']")"
}

tshark --version 2>/dev/null | head -n 1

echo "a congested incast with losses"
"$program" run incast --quiet --out lossy --set topology.link.loss=0.003 \
  --pcap host8=host8.pcap --pcap host0=host0.pcapng --pcap 'sw0:*=sw0.pcapng' >/dev/null
sound host8.pcap
sound host0.pcapng
sound sw0.pcapng
report=lossy/report.json
for opcode in 6:FIRST 7:MIDDLE 8:LAST 10:ONLY; do
  same "WRITE ${opcode#*:}" "$(dissect host8.pcap "infiniband.bth.opcode == ${opcode%:*}")" \
    "$(value host8.pcap.json "r['roce']['opcodes'].get('WRITE_${opcode#*:}', 0)")"
done
receiver="next(n['counters'] for n in r['nics'] if n['port'] == 'host8/nic0')"
port="next(p for p in r['ports'] if p['port'] == 'host8/nic0')"
naks=$(dissect host8.pcap 'infiniband.aeth.syndrome == 96')
cnps=$(dissect host8.pcap 'infiniband.bth.opcode == 129')
acks=$(dissect host8.pcap 'infiniband.bth.opcode == 17 && infiniband.aeth.syndrome == 31')
same "NAK" "$naks" "$(value $report "r['totals']['nak_sent']")" \
  "$(value $report "$receiver['out_of_sequence']")"
same "CNP" "$cnps" "$(value $report "$receiver['np_cnp_sent']")" "$(value $report "r['totals']['cnp_sent']")"
same "ACK, NAK and CNP" "$((acks + naks + cnps))" "$(value $report "$port['tx_packets']")"
same "ACK" "$acks" "$(value host8.pcap.json "r['roce']['acks']")"
same "CE" "$(dissect host8.pcap 'ip.dsfield.ecn == 3')" \
  "$(value $report "$receiver['np_ecn_marked_roce_packets']")" \
  "$(value host8.pcap.json "r['roce']['ecn_marked']")"
data=$(dissect host0.pcapng 'ip.src == 10.0.0.1 && infiniband.bth.opcode <= 10')
same "data packets of host0" "$data" \
  "$(value $report "next(p['tx_packets'] for p in r['ports'] if p['port'] == 'host0/nic0')")" \
  "$(value host0.pcapng.json "r['addresses']['10.0.0.1']['data_packets']")"
# the first messages and those that were sent again from the beginning
starts=$(tshark -r host0.pcapng -Y 'ip.src == 10.0.0.1 && infiniband.reth.dmalen == 1000000' \
  -T fields -e infiniband.bth.psn 2>/dev/null | sort -u)
same "PSN of each RETH with the size of the flow" "$starts" 0

echo "PFC, with 802.1Q tags"
"$program" run incast-pfc-only --quiet --out pfc --set wire.vlan=true \
  --pcap host0=pause.pcap --pcap 'sw0:*=pauses.pcapng' >/dev/null
sound pause.pcap
sound pauses.pcapng
report=pfc/report.json
host="next(p for p in r['ports'] if p['port'] == 'host0/nic0')"
same "XOFF of priority 3 to host0" \
  "$(dissect pause.pcap 'macc.opcode == 0x0101 && macc.cbfc.enbv.c3 == 1 && macc.cbfc.pause_time.c3 == 65535')" \
  "$(value $report "$host['rx_pause_frames']")" \
  "$(value pause.pcap.json "sum(p['xoff_frames'] for p in r['pauses'])")"
same "pause frames" "$(dissect pauses.pcapng 'macc.opcode == 0x0101')" \
  "$(value $report "r['totals']['pfc_xoff_frames'] + r['totals']['pfc_xon_frames']")" \
  "$(value pauses.pcapng.json "r['pause_frames']")"
same "frames with priority 3 in their tag" "$(dissect pause.pcap 'vlan.priority == 3')" \
  "$(dissect pause.pcap infiniband)"

echo "a collective, SEND, READ, TCP"
"$program" run allreduce-4x8-a100 --quiet --out collective --set 'traffic[0].bytes="4MiB"' \
  --pcap host0=collective.pcapng >/dev/null
sound collective.pcapng
for transport in rc-send rc-read tcp; do
  # some expectations of the scenario are about WRITEs
  "$program" run incast --quiet --out $transport --set topology.link.loss=0.001 \
    --set "traffic[0].transport=$transport" --pcap host8=$transport.pcapng >/dev/null || [ $? = 1 ]
  sound $transport.pcapng
done
exit $failed
