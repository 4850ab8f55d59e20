// One parallel region per call, in the threads that torch already has, and a barrier inside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
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

class Barrier {
 public:
  void reset(int64_t count) { count_ = count; }
  void wait() {
    if (count_ <= 1) return;
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; turn_.load(std::memory_order_acquire) == turn; ++spins) {
      if (spins < 2000)
        pause_briefly();
      else
        std::this_thread::yield();
    }
  }

 private:
  int64_t count_ = 1;
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> turn_{0};
};

struct Share {
  int64_t begin, end;
};
inline Share share_of(int64_t count, int64_t thread, int64_t threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}


// Every second step sweeps backwards: what was used last is still in the cache, where sweeping
// always forwards over a little more than fits would miss every time.
template <class Body>
inline void sweep(Share share, int64_t step, Body body) {
  if (step % 2 == 0)
    for (int64_t i = share.begin; i < share.end; ++i) body(i);
  else
    for (int64_t i = share.end - 1; i >= share.begin; --i) body(i);
}

}  // namespace unbounded
