#!/usr/bin/env bash
# Opens reports in headless Chromium (Debian's, or the one that CHROMIUM names) and looks whether
# they work: tests/browser.py says what is asked. Screenshots go to the folder that is given.
#
#     ROCESIM=target/release/rocesim tests/browser.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?a folder for runs and screenshots is expected}
rocesim=${ROCESIM:-rocesim}
mkdir -p "$folder"
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -z "$chromium" ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
  chromium=$(command -v chromium)
fi
venv=${BROWSER_VENV:-$folder/venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
fi
# only the library: the browser is Debian's
"$venv/bin/python" -c 'import playwright' 2>/dev/null ||
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: playwright

run() {
  local code=0
  "$rocesim" run "$1" --report --quiet --out "$folder/$2" "${@:3}" >/dev/null || code=$?
  # a deadlock is what it should be
  [ "$code" -le 1 ] || exit "$code"
}
run dumbbell-victim pauses
run allreduce-4x8-a100-congested collective --set 'traffic[0].bytes=8MiB'
run buffer-cycle deadlock
"$rocesim" report "$folder/pauses" "$folder/deadlock" --out "$folder/comparison.html" >/dev/null
"$venv/bin/python" "$here/browser.py" "$chromium" "$folder"
