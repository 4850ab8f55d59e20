#!/bin/sh
# Runs the kernel tests on builds with a sanitizer: csrc/sanitize/run.sh
# address|undefined|address,undefined|thread [pytest arguments]. Needs GCC, an environment with the
# development dependencies and the sources on the path. On x86-64 it tests the AVX2 build and, if the
# processor has it, the AVX-512 build. torch's thread pool is not instrumented, so "thread" runs
# csrc/sanitize/threads.cpp instead of Python; its threads spin so briefly that they often sleep.
set -eu
kind=${1:-address}
[ $# -gt 0 ] && shift
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD_DIR:-$here/../../build/sanitize-$kind}
mkdir -p "$build"
flags="-std=c++17 -O1 -g -fno-omit-frame-pointer -Wno-psabi"
tests=$here/../../tests/kernels

run() { # name of the build, pytest arguments...
  name=$1
  shift
  if [ "$kind" = thread ]; then
    ${CXX:-g++} $flags $isa -fsanitize=thread -DUNBOUNDED_ISA_NAME='"sanitized"' -pthread \
      -DUNBOUNDED_SPIN_MICROSECONDS=20 \
      "$here/threads.cpp" -o "$build/threads_$name"
    echo "$kind, $name"
    "$build/threads_$name"
    return
  fi
  library=$build/libunbounded_sanitized_$name.so
  ${CXX:-g++} $flags $isa -fsanitize="$kind" -fno-sanitize-recover=all -fPIC -shared \
    -fvisibility=hidden -DUNBOUNDED_ISA_NAME='"sanitized"' "$here/../library.cpp" \
    "$here/../float32.cpp" "$here/../float64.cpp" -o "$library"
  runtime=$(${CXX:-g++} -print-file-name=libubsan.so)
  # Exceptions of other libraries pass through the sanitizer, which must find the C++ runtime.
  [ "$kind" != undefined ] && runtime="$(${CXX:-g++} -print-file-name=libasan.so) \
    $(${CXX:-g++} -print-file-name=libstdc++.so)"
  echo "$kind, $name"
  # Not inductor: its compiler would run under the sanitizer too. Not the accuracy: without
  # optimisation, products and sums are rounded separately.
  LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0 UNBOUNDED_REQUIRE_KERNELS=1 \
    UNBOUNDED_KERNELS="$library" python -m pytest -q -s -p no:cacheprovider \
    "$tests/test_recurrence.py" "$tests/test_unroll.py" "$tests/test_division.py" \
    "$tests/test_direct_calls.py" "$tests/test_operators.py" "$tests/test_output.py" \
    "$tests/test_delta_rule.py" -k "not inductor and not accuracy_is_at_least" "$@"
}

case $(uname -m) in
  x86_64)
    isa="-mavx2 -mfma"
    run avx2 "$@"
    if grep -q avx512vl /proc/cpuinfo 2>/dev/null; then
      isa="-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mprefer-vector-width=512"
      run avx512 "$@"
    fi
    ;;
  *)
    isa=""
    run generic "$@"
    ;;
esac
