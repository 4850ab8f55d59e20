#!/bin/sh
# Compiles the kernels for arm64 and runs them in an emulator beside this machine's own build: every
# memory and controller, forward and backward, the same numbers in. Needs a cross compiler and
# qemu-user (Debian: g++-aarch64-linux-gnu, qemu-user). Differences are those of sums of terms of
# both signs, in relation to the sum of their sizes.
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
  { difference = $4 - $9; if (difference < 0) difference = -difference
    if ($1 != $6 || $2 != $7 || $3 != $8 || !(difference <= 1e-6 * $5)) {
      print "differs:", $0; bad = 1
    }
    if (difference / $5 > most) most = difference / $5 }
  END {
    if (NR != 90) { print "expected 90 sums, got", NR; bad = 1 }
    if (bad) exit 1
    printf "arm64 agrees with this machine on %d sums, up to %.1e of what they sum up\n", NR, most
  }'
