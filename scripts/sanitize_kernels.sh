#!/usr/bin/env bash
# Runs the kernel tests with the emulator under AddressSanitizer and UndefinedBehaviorSanitizer. Needs gcc.
# Leaves the ordinary build in place afterwards: the next build without the variable compiles the emulator anew.
set -euo pipefail
cd "$(dirname "$0")/.."
runtime=$(gcc -print-file-name=libasan.so)
[ -e "$runtime" ] || {
  echo "sanitize_kernels.sh: gcc has no libasan.so; install its sanitizer libraries (libasan)" >&2
  exit 1
}
export RERANK_BENCH_SANITIZE_KERNELS=1 CXX=${CXX:-g++}
# The runtime must be the first library of the process; leaks at exit are Rust's statics. The emulator's own faults,
# which the other test provokes, are for the emulator to find.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=env LD_PRELOAD=$runtime ASAN_OPTIONS=detect_leaks=0"
exec cargo test --locked --release --no-default-features --features emulator --test kernels_pursuit "$@"
