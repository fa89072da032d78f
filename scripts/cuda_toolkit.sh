#!/usr/bin/env bash
# A CUDA 13.0 compiler from PyPI wheels, for machines without an installed toolkit.
#
#   scripts/cuda_toolkit.sh [FOLDER]          set up (default: .cuda beside Cargo.toml), print what to export
#   eval "$(scripts/cuda_toolkit.sh --env)"   the same, and export it in this shell
#
# Needs Python 3 with pip, and a C compiler. 270 MB; a second run does nothing. What it leaves in FOLDER/nvidia/cu13
# has the layout of an installed toolkit: compiler, headers, CUDA runtime, and link stubs of the libraries that
# come with the driver or with a full toolkit. A stub only satisfies the linker: to *run* a binary that links the
# CUDA libraries, the machine with the card needs the real ones.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
quiet=no
if [ "${1:-}" = --env ]; then
  quiet=yes
  shift
fi
folder=${1:-$here/.cuda}
home=$folder/nvidia/cu13
wheels=(
  nvidia-cuda-nvcc==13.0.88
  nvidia-cuda-crt==13.0.88
  nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85
)

say() { [ "$quiet" = yes ] || echo "$@" >&2; }
fail() {
  echo "cuda_toolkit.sh: $*" >&2
  exit 1
}

# Writes a shared library that defines the symbols on standard input and can do nothing.
stub() { # name soname
  local library=$home/lib/stubs/$1.so
  sort -u | sed 's/.*/int &(void) { return 34; }/' >"$library.c"
  "$cc" -shared -fPIC -w -fno-builtin -Wl,-soname,"$2" -o "$library" "$library.c"
  rm "$library.c"
}

# The folder of the cudarc source that Cargo.lock names, or nothing.
cudarc_source() {
  command -v cargo >/dev/null || return 0
  (cd "$here" && cargo metadata --locked --format-version 1 --features cuda) 2>/dev/null | python3 -c '
import json, os, sys
try:
    packages = json.load(sys.stdin)["packages"]
except ValueError:
    packages = []
for package in packages:
    if package["name"] == "cudarc":
        print(os.path.dirname(package["manifest_path"]))'
}

install() {
  python3 -m pip --version >/dev/null 2>&1 || fail "needs Python 3 with pip"
  say "fetching ${wheels[*]}"
  rm -rf "$folder/nvidia"
  mkdir -p "$folder"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
    --upgrade --target "$folder" "${wheels[@]}" >&2 ||
    fail "pip could not fetch the wheels; it needs a reachable PyPI or mirror"
  # Wheels do not keep executable bits, the unversioned names that a linker looks for, or the usual lib64.
  chmod +x "$home"/bin/* "$home"/nvvm/bin/*
  ln -sfn lib "$home/lib64"
  local library plain
  for library in "$home"/lib/*.so.*; do
    plain=${library%%.so.*}.so
    [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
  done
  mkdir -p "$home/lib/stubs"
}

make_stubs() {
  local source name soname prefix
  source=$(cudarc_source)
  {
    grep -ohE '\bcu[A-Z][A-Za-z0-9_]+ *\(' "$home/include/cuda.h" | tr -d ' ('
    if [ -n "$source" ]; then
      grep -oE 'fn cu[A-Z][A-Za-z0-9_]+' "$source/src/driver/sys/mod.rs" | cut -c4-
    fi
  } | stub libcuda libcuda.so.1
  if [ -z "$source" ]; then
    say "no cargo, or it cannot fetch: left out the stubs of cuBLAS, cuRAND and NVRTC, which candle's build links"
    return
  fi
  while read -r name soname module prefix; do
    grep -oE "fn ${prefix}[A-Za-z0-9_]+" "$source/src/$module/sys/mod.rs" | cut -c4- | stub "$name" "$soname"
  done <<'LIBRARIES'
libcublas libcublas.so.13 cublas cublas
libcublasLt libcublasLt.so.13 cublaslt cublas
libcurand libcurand.so.10 curand curand
libnvrtc libnvrtc.so.13 nvrtc nvrtc
LIBRARIES
  touch "$home/lib/stubs/complete"
}

cc=${CC:-$(command -v gcc || command -v cc || true)}
[ -n "$cc" ] || fail "needs a C compiler (set CC, or install gcc)"
if [ "$(cat "$folder/wheels" 2>/dev/null)" != "${wheels[*]}" ]; then
  install
  make_stubs
  "$home/bin/nvcc" --version >/dev/null || fail "nvcc was unpacked but does not start"
  echo "${wheels[*]}" >"$folder/wheels"
elif [ ! -e "$home/lib/stubs/complete" ]; then
  make_stubs
fi
say "$("$home/bin/nvcc" --version | tail -n 1), in $home"

cat <<EXPORTS
export CUDA_HOME='$home'
export CUDA_PATH='$home'
export PATH='$home/bin':"\$PATH"
export LIBRARY_PATH='$home/lib64:$home/lib64/stubs'\${LIBRARY_PATH:+:\$LIBRARY_PATH}
export CUDA_COMPUTE_CAP="\${CUDA_COMPUTE_CAP:-80}"
EXPORTS
