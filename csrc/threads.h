// One parallel region per call, in the threads that torch already has, and a barrier inside it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "call.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifndef UNBOUNDED_SPINS
#define UNBOUNDED_SPINS 1000
#endif

namespace unbounded {

using ParallelFor = int32_t (*)(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*);

inline void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins for some microseconds, which is what a barrier takes while every thread has a core, and
// then sleeps: where another process keeps a core busy, a sleeping thread leaves its own core to the
// one it waits for, and a spinning one would not.
class Barrier {
 public:
  void wait(int64_t count) {
    if (count <= 1) return;
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1);
      if (sleepers_.load() > 0) wake();
      return;
    }
    for (int spins = 0; spins < UNBOUNDED_SPINS; ++spins) {
      if (turn_.load(std::memory_order_acquire) != turn) return;
      pause_briefly();
    }
    sleepers_.fetch_add(1);
    while (turn_.load() == turn) sleep_while(turn);
    sleepers_.fetch_sub(1);
  }

 private:
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> turn_{0};
  std::atomic<int32_t> sleepers_{0};

#if defined(__linux__)
  void wake() { syscall(SYS_futex, &turn_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }
  void sleep_while(uint32_t turn) {
    syscall(SYS_futex, &turn_, FUTEX_WAIT_PRIVATE, turn, nullptr, nullptr, 0);
  }
#else
  void wake() {}
  void sleep_while(uint32_t) { std::this_thread::yield(); }
#endif
};

inline int64_t threads_for(const UnboundedCall& call, ParallelFor parallel_for) {
  return parallel_for && call.threads > 1 ? call.threads : 1;
}

template <class Body>
struct Region {
  Body& body;
  int64_t wanted;
  int64_t& granted;
  std::atomic<bool> known{false};
};

// Fewer threads than wanted may come, and inside another parallel region just one: the ranges tell.
template <class Body>
void region_body(int64_t begin, int64_t end, void* context) {
  auto& region = *static_cast<Region<Body>*>(context);
  if (begin == 0) {
    region.granted = (region.wanted + end - 1) / end;
    region.known.store(true, std::memory_order_release);
  }
  for (int spins = 0; !region.known.load(std::memory_order_acquire); ++spins)
    if (spins < UNBOUNDED_SPINS)
      pause_briefly();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  const int64_t each = (region.wanted + region.granted - 1) / region.granted;
  region.body(begin / each);
}

// Calls body(thread) in `wanted` threads at once; `granted` is how many there are inside.
template <class Body>
bool in_parallel(int64_t wanted, ParallelFor parallel_for, int64_t& granted, Body& body) {
  granted = 1;
  if (wanted <= 1) {
    body(0);
    return true;
  }
  Region<Body> region{body, wanted, granted};
  return parallel_for(0, wanted, 1, region_body<Body>, &region) == 0;
}

}  // namespace unbounded
