#!/usr/bin/env bash
# Judges a CUDA build on a machine with a card, in under six minutes, and puts all of it into one JSON file.
#
#   scripts/gpu_check.sh BINARY [FOLDER]       results in FOLDER (default: $OUT, else gpu_check), FOLDER/gpu_check.json
#
# A whole CUDA build is smaller after `strip BINARY`, for the way to another machine.
#
# Nothing is downloaded: generated pools, random weights. Steps: doctor, its self-test, the selector on CPU and GPU,
# bge-base and bge-v2-m3 at batch 200 on both engines, gpu_peers.py where a copy lies beside this script and Python has
# torch with CUDA, and last the self-test under compute-sanitizer where that is installed. A step that fails or runs out of
# time is in the JSON as such, and the others still run. Exit 1 where the self-test or the comparison failed, or the
# sanitizer found a fault.
set -uo pipefail

binary=${1:?usage: gpu_check.sh BINARY [FOLDER]}
folder=${2:-${OUT:-gpu_check}}
here=$(cd "$(dirname "$0")" && pwd)
binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
[ -x "$binary" ] || {
  echo "gpu_check.sh: $binary is not a program; build one with cargo build --release --features cuda" >&2
  exit 2
}
mkdir -p "$folder"
results=$folder
# Logs and the steps' own files stay out of the results: there everything is in one file.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
budget=345
# Seconds kept for the peers and the sanitizer, which come last.
kept=100
python=$(command -v python3 || true)

# A build that links the CUDA libraries finds them among Python's wheels where no toolkit is installed.
if [ -n "$python" ]; then
  libraries=$("$python" - <<'PYTHON'
import glob, os, site
roots = site.getsitepackages() + [site.getusersitepackages()]
print(":".join(path for root in roots for path in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib")))))
PYTHON
  )
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries
fi

# Text on standard input as a JSON string.
quote() {
  tr -d '\000-\010\013\014\015\016-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' |
    awk 'BEGIN { printf "\"" } { printf "%s%s", (NR > 1 ? "\\n" : ""), $0 } END { printf "\"" }'
}

entries=()
failed=no

# step NAME LIMIT COMMAND...: runs it, notes exit code, seconds, the end of its output, and FOLDER/NAME.json if written.
step() {
  local name=$1 limit=$2 left=$((budget - kept - SECONDS)) start=$SECONDS code
  shift 2
  rm -f "$folder/$name.json"
  if [ "$left" -lt 5 ]; then
    entries+=("{\"step\":\"$name\",\"status\":\"no_time\"}")
    return 1
  fi
  [ "$limit" -le "$left" ] || limit=$left
  printf '== %s\n' "$name" >&2
  timeout -k 5 "$limit" "$@" >"$folder/$name.log" 2>&1 </dev/null
  code=$?
  tail -n 3 "$folder/$name.log" >&2
  local status=ok result=null
  [ $code -eq 0 ] || status=failed
  [ $code -ne 124 ] || status=timed_out
  if [ -s "$folder/$name.json" ]; then result=$(cat "$folder/$name.json"); fi
  entries+=("{\"step\":\"$name\",\"status\":\"$status\",\"exit_code\":$code,\"seconds\":$((SECONDS - start)),\"result\":$result,\"output\":$(tail -n 60 "$folder/$name.log" | quote)}")
  return $code
}

step doctor 20 "$binary" doctor
step self-test 60 "$binary" doctor --self-test || failed=yes
step compare 90 "$binary" compare --json "$folder/compare.json" || failed=yes
for model in bge-base bge-v2-m3; do
  for engine in packed candle; do
    for dtype in f32 tf32 bf16; do
      name=$model-$engine-$dtype
      step "$name" 25 "$binary" --model "$model" --weights random --engine "$engine" --dtype "$dtype" --device cuda \
        --batch 200 --candidates 200 --questions 10 --json "$folder/$name.json"
    done
  done
done
kept=40
if [ -n "$python" ] && [ -f "$here/gpu_peers.py" ] && "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  left=$((budget - kept - SECONDS))
  step peers "$left" "$python" "$here/gpu_peers.py" --budget-s $((left > 20 ? left - 10 : 10)) --out "$folder/peers.json"
fi
kept=0
if command -v compute-sanitizer >/dev/null; then
  # Probes of the driver that fail on purpose are no faults; 9 is the sanitizer's own verdict.
  for tool in memcheck racecheck; do
    step "$tool" 60 compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 "$binary" doctor --self-test
    [ $? -ne 9 ] || failed=yes
  done
fi

{
  printf '{"card":%s,"seconds":%d,"steps":[\n' \
    "$( (nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader 2>/dev/null || echo none) | quote)" "$SECONDS"
  for k in "${!entries[@]}"; do
    [ "$k" -eq 0 ] || printf ',\n'
    printf '%s' "${entries[$k]}"
  done
  printf '\n]}\n'
} >"$results/gpu_check.json"
echo "gpu_check.sh: $results/gpu_check.json after $SECONDS s" >&2
[ "$failed" = no ]
