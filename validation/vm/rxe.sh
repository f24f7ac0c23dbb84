#!/usr/bin/env bash
# Runs a command in a throw-away virtual machine whose kernel has Soft-RoCE: RDMA devices rxe0, rxe1 ... on a switch,
# for a machine that has neither NICs nor the kernel module.
#
#   validation/vm/rxe.sh [-n DEVICES] [-o DIR] [-t SECONDS] COMMAND [ARGUMENT...]
#
#   -n  RDMA devices, default 2: rxe0 with 10.0.0.1, rxe1 with 10.0.0.2 ...; their RoCEv2 GID has index 1
#   -o  a folder that the guest sees as /out; default ./vm-out
#   -t  most seconds that the machine may run, default 600
#
# The exit code is that of the command; 124 if the time was over, 96 if the guest gave none, 77 if qemu or the kernel
# cannot be had here. Root of a Debian is expected: packages are installed where they are missing.
#
# The guest's file system is this machine's, read-only, with a layer of memory above it, so that programs are there
# under the same paths. Its kernel is Debian's linux-image-amd64, unpacked into a cache and not installed. The switch
# is the bridge br0, whose ports are p0, p1 ...; the NICs are n0, n1 ... Captures are made on br0, losses by tc on p0 ...
#
# Without hardware virtualisation (TCG) the guest's time counts instructions, and one processor serves all ranks: what
# runs here proves use of verbs, wire format and RC semantics. It says nothing of performance.
set -euo pipefail
devices=2 out=$PWD/vm-out limit=600
while getopts n:o:t: option; do
  case $option in
    n) devices=$OPTARG ;; o) out=$OPTARG ;; t) limit=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "rxe.sh: a command is expected" >&2; exit 2; }
cache=${RXE_CACHE:-/var/cache/rocesim-rxe}
mkdir -p "$cache" "$out"
out=$(realpath "$out")
say() { echo "rxe.sh: $*" >&2; }
skip() { say "SKIPPED: $*"; exit 77; }

# programs of this machine, which the guest uses too
packages="qemu-system-x86 busybox-static cpio kmod xz-utils rdma-core ibverbs-providers iproute2 tcpdump"
missing=
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || skip "only root of a Debian can install$missing"
  say "installing$missing"
  apt-get update -qq || skip "no packages to be had"
  # shellcheck disable=SC2086 # a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || skip "no$missing"
fi

# the kernel
if [ ! -f "$cache/version" ]; then
  image=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)/\1/p' | head -n 1)
  [ -n "$image" ] || { apt-get update -qq || true; image=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)/\1/p' | head -n 1); }
  [ -n "$image" ] || skip "no linux-image-amd64"
  say "fetching $image"
  (
    cd "$cache" && rm -rf kernel linux-image-*.deb && apt-get download -qq "$image" 2>/dev/null &&
      dpkg-deb -x linux-image-*.deb kernel && rm -f linux-image-*.deb
  ) || skip "$image cannot be fetched"
  version=$(ls "$cache/kernel/lib/modules")
  depmod -b "$cache/kernel" "$version"
  echo "$version" >"$cache/version"
fi
version=$(cat "$cache/version")
modules=$cache/kernel/lib/modules/$version
find "$modules" -name 'rdma_rxe.ko*' | grep -q . || skip "$version has no rdma_rxe"
# unpacked once here: the guest would need seconds for it at each start
packed=$cache/kernel/boot/vmlinuz-$version kernel=$cache/vmlinux-$version
if [ ! -f "$kernel" ]; then
  at=$(LC_ALL=C grep -abo -m 1 -P '\xFD7zXZ\x00' "$packed" | head -n 1 | cut -d: -f1) || true
  if [ -n "$at" ]; then tail -c +$((at + 1)) "$packed" | xz -dc 2>/dev/null >"$kernel.new" || true; fi
  if [ "$(head -c 4 "$kernel.new" 2>/dev/null | tail -c 3)" = ELF ]; then mv "$kernel.new" "$kernel"; else kernel=$packed; fi
fi

# a first file system with what is needed to mount the second, and the modules
first=$cache/first.cpio.gz
if [ ! -f "$first" ] || [ "$0" -nt "$first" ]; then
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,modules,proc,sys,dev,lower,upper,new}
  cp /bin/busybox "$tree/bin/"
  ln -s busybox "$tree/bin/sh"
  number=10
  for module in virtio_pci virtio_console virtio_rng 9pnet_virtio 9p overlay bridge veth sch_netem ib_uverbs rdma_rxe; do
    modprobe -d "$cache/kernel" -S "$version" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" { print $2 }'
  done | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$tree/modules/$number-$(basename "$file")"
    number=$((number + 1))
  done
  cat >"$tree/init" <<'INIT'
#!/bin/sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
for module in /modules/*; do insmod "$module" || echo "insmod $module failed"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro root /lower || exec sh
mount -t tmpfs -o size=60% t /upper; mkdir /upper/u /upper/w
mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w o /new || exec sh
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
mount -t tmpfs t /new/run
mkdir -p /new/out /new/dev/shm; mount -t tmpfs t /new/dev/shm
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none out /new/out
exec switch_root /new /bin/bash /out/.guest
INIT
  chmod +x "$tree/init"
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$first.new"
  mv "$first.new" "$first"
  rm -rf "$tree"
fi

# what the guest does
rm -f "$out/.code"
{
  cat <<'GUEST'
#!/bin/bash
exec </dev/null >/dev/hvc0 2>&1
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb
finish() { echo "$1" >/out/.code; sync; sleep 0.1; echo o >/proc/sysrq-trigger; sleep 30; }
hostname rxe; ip link set lo up; ulimit -l unlimited
GUEST
  # the kernel asks for more modules as it goes, such as crc32
  printf 'devices=%q\nmkdir -p /lib/modules; mount --bind %q /lib/modules\n' "$devices" "$cache/kernel/lib/modules"
  cat <<'GUEST'
# Every device is one end of a veth pair whose other end is a port of the bridge, all in one network namespace, because
# rxe opens its UDP port in the first one only. The kernel would deliver packets between two addresses of its own over
# lo, and rxe would then loop them within one device: so packets from 10.0.0.x leave by their own veth, and only what
# arrives on one is looked up in the table of local addresses first. Neighbours are fixed, and ARP is not needed.
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
sysctl -qw net.ipv4.conf.all.accept_local=1 net.ipv4.conf.default.accept_local=1
{
  echo "link add br0 type bridge"; echo "link set br0 mtu 4200 up"
  for ((i = 0; i < devices; i++)); do
    mac=02:00:00:00:00:$(printf %02x $((i + 1))) ip=10.0.0.$((i + 1)) table=$((101 + i))
    echo "link add n$i mtu 4200 address $mac type veth peer name p$i mtu 4200"
    echo "link set p$i master br0 up"; echo "link set n$i up"; echo "addr add $ip/24 dev n$i noprefixroute"
    echo "route add 10.0.0.0/24 dev n$i src $ip table $table"
    echo "rule add pref 10 iif n$i lookup local"; echo "rule add pref 20 from $ip to 10.0.0.0/24 lookup $table"
  done
  echo "rule add pref 100 lookup local"; echo "rule del pref 0"
  for ((i = 0; i < devices; i++)); do for ((j = 0; j < devices; j++)); do
    [ $i = $j ] || echo "neigh replace 10.0.0.$((j + 1)) lladdr 02:00:00:00:00:$(printf %02x $((j + 1))) dev n$i nud permanent"
  done; done
} >/run/fabric
ip -batch /run/fabric || finish 97
for ((i = 0; i < devices; i++)); do
  echo 0 >/proc/sys/net/ipv4/conf/n$i/rp_filter; echo 1 >/proc/sys/net/ipv4/conf/n$i/accept_local
  rdma link add rxe$i type rxe netdev n$i || finish 98
done
GUEST
  printf 'cd %q\n' "$PWD"
  printf '%q ' "$@"
  printf '\nfinish $?\n'
} >"$out/.guest"

if grep -qE '\b(vmx|svm)\b' /proc/cpuinfo && [ -w /dev/kvm ]; then
  machine=(-accel kvm -cpu host)
else
  # with a clock that counts instructions, timers of RC do not fire at random on a busy machine
  machine=(-accel "tcg,thread=single,tb-size=256" -icount "shift=2,sleep=on,align=off" -rtc clock=vm -cpu max)
fi
code=0
timeout -k 5 "$limit" qemu-system-x86_64 "${machine[@]}" -M q35,sata=off,usb=off,smbus=off -smp 1 -m 768 \
  -nodefaults -display none -no-reboot -kernel "$kernel" -initrd "$first" \
  -append "console=ttyS0 quiet panic=-1 random.trust_cpu=on mitigations=off tsc=reliable" \
  -fsdev local,id=r,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=r,mount_tag=root \
  -fsdev "local,id=o,path=$out,security_model=none" -device virtio-9p-pci,fsdev=o,mount_tag=out \
  -device virtio-rng-pci -device virtio-serial-pci -chardev stdio,id=con,signal=off -device virtconsole,chardev=con \
  -serial "file:$out/.serial" </dev/null || code=$?
if [ -s "$out/.code" ]; then exit "$(cat "$out/.code")"; fi
say "the guest gave no exit code (qemu: $code):"
tail -n 20 "$out/.serial" >&2
exit $([ $code = 124 ] && echo 124 || echo 96)
