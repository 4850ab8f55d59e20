#!/bin/sh
# Runs the kernel tests on a build with a sanitizer: csrc/sanitize/run.sh address|undefined|thread
# [pytest arguments]. Needs GCC, an environment with the development dependencies and the sources on
# the path. "thread" also builds for two threads; torch's own thread pool is not instrumented, so
# that run uses csrc/sanitize/threads.cpp instead of Python.
set -eu
kind=${1:-address}
[ $# -gt 0 ] && shift
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD_DIR:-$here/../../build/sanitize-$kind}
mkdir -p "$build"
flags="-std=c++17 -O1 -g -fno-omit-frame-pointer -Wno-psabi"
case $(uname -m) in x86_64) flags="$flags -mavx2 -mfma" ;; esac
if [ "$kind" = thread ]; then
  ${CXX:-g++} $flags -fsanitize=thread -DUNBOUNDED_ISA_NAME='"sanitized"' -pthread \
    "$here/threads.cpp" -o "$build/threads"
  exec "$build/threads"
fi
${CXX:-g++} $flags -fsanitize="$kind" -fno-sanitize-recover=all -fPIC -shared -fvisibility=hidden \
  -DUNBOUNDED_ISA_NAME='"sanitized"' "$here/../library.cpp" -o "$build/libunbounded_sanitized.so"
runtime=""
[ "$kind" = address ] && runtime=$(${CXX:-g++} -print-file-name=libasan.so)
# Exceptions of other libraries go through the sanitizer, which then must find the C++ runtime.
[ "$kind" = address ] && runtime="$runtime $(${CXX:-g++} -print-file-name=libstdc++.so)"
[ "$kind" = undefined ] && runtime=$(${CXX:-g++} -print-file-name=libubsan.so)
LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0 UNBOUNDED_REQUIRE_KERNELS=1 \
  UNBOUNDED_KERNELS="$build/libunbounded_sanitized.so" \
  python -m pytest -q -s -p no:cacheprovider "$here/../../tests/kernels/test_recurrence.py" \
  "$here/../../tests/kernels/test_unroll.py" \
  "$here/../../tests/kernels/test_superposition.py" \
  "$here/../../tests/kernels/test_superposition_unroll.py" "$@"
