#!/usr/bin/env bash
# Compiles every kernel for every card that we name, and prints what each costs a thread and a block.
#
#   scripts/compile_kernels.sh [ARCHITECTURE...]     default: compute_80, sm_80, sm_86, sm_89, sm_90, sm_120
#
# Exit 1 where a kernel spills registers or does not compile. Shared memory is that of static variables; the
# selector asks for its own at launch. nvcc is taken from NVCC, CUDA_HOME, PATH or .cuda (scripts/cuda_toolkit.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

nvcc=${NVCC:-}
for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "$(command -v nvcc || true)" .cuda/nvidia/cu13/bin/nvcc; do
  [ -z "$nvcc" ] && [ -n "$candidate" ] && [ -x "$candidate" ] && nvcc=$candidate
done
[ -n "$nvcc" ] || {
  echo "compile_kernels.sh: no nvcc; run scripts/cuda_toolkit.sh, or set NVCC" >&2
  exit 1
}

architectures=("$@")
[ $# -gt 0 ] || architectures=(compute_80 sm_80 sm_86 sm_89 sm_90 sm_120)
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
spilled=no
printf '%-11s %-14s %9s %8s %7s %7s %7s\n' target kernel registers shared stack spilled barriers
for architecture in "${architectures[@]}"; do
  for source in kernels/*.cu; do
    if [[ $architecture == compute_* ]]; then
      "$nvcc" -std=c++17 -ptx -arch "$architecture" "$source" -o "$out/kernels.ptx"
      grep -oE '\.entry [a-z0-9_]+' "$out/kernels.ptx" | while read -r _ kernel; do
        printf '%-11s %-14s %9s\n' "$architecture" "$kernel" PTX
      done
      continue
    fi
    "$nvcc" -std=c++17 -cubin -arch "$architecture" -Xptxas -v "$source" -o "$out/kernels.cubin" 2>"$out/report" || {
      cat "$out/report" >&2
      exit 1
    }
    awk -v target="$architecture" '
      /Compiling entry function/ { split($0, quoted, "\x27"); kernel = quoted[2] }
      /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
      /Used [0-9]+ registers/ {
        registers = shared = barriers = 0
        for (i = 1; i < NF; i++) {
          if ($(i + 1) ~ /^registers/) registers = $i
          if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
          if ($(i + 1) ~ /^barriers/) barriers = $i
        }
        printf "%-11s %-14s %9d %8d %7d %7d %7d\n", target, kernel, registers, shared, stack, spilled, barriers
        if (spilled > 0) status = 1
      }
      END { exit status }' "$out/report" || spilled=yes
  done
done
[ "$spilled" = no ] || {
  echo "compile_kernels.sh: a kernel spills registers to memory" >&2
  exit 1
}
