#!/bin/sh
# Compiles the kernels for arm64 and runs them in an emulator beside this machine's own build: every
# memory and controller, also with sequences that end, forward and backward, the same numbers in.
# Needs a cross compiler and qemu-user (Debian: g++-aarch64-linux-gnu, qemu-user). Differences are
# those of sums of terms of both signs, in relation to the sum of their sizes.
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
