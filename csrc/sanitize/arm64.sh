#!/bin/sh
# Compiles the kernels for arm64 and compares them in an emulator with this machine's build: every
# memory and controller, with and without lengths, forward and backward, on the same inputs.
# Needs a cross compiler and qemu-user (Debian: g++-aarch64-linux-gnu, qemu-user). Differences are
# those of sums of signed terms, relative to the sum of absolute values.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD_DIR:-$here/../../build/arm64}
mkdir -p "$build"
flags="-std=c++17 -O2 -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti -pthread -Wno-psabi"
prefix=${ARM64_PREFIX:-aarch64-linux-gnu}
"$prefix-g++" $flags -static -DUNBOUNDED_ISA_NAME='"baseline"' "$here/threads.cpp" -o "$build/arm64"
${CXX:-g++} $flags -DUNBOUNDED_ISA_NAME='"baseline"' "$here/threads.cpp" -o "$build/here"
"${QEMU:-qemu-aarch64}" "$build/arm64" sums > "$build/arm64.txt"
"$build/here" sums > "$build/here.txt"
paste -d ' ' "$build/here.txt" "$build/arm64.txt" | awk '
  { difference = $5 - $11; if (difference < 0) difference = -difference
    if ($1 != $7 || $2 != $8 || $3 != $9 || $4 != $10 || !(difference <= 1e-6 * $6)) {
      print "differs:", $0; bad = 1
    }
    if (difference / $6 > most) most = difference / $6 }
  END {
    if (NR != 180) { print "expected 180 sums, got", NR; bad = 1 }
    if (bad) exit 1
    printf "arm64 agrees with this machine on %d sums, up to %.1e of what they sum up\n", NR, most
  }'
