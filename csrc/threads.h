// One parallel region per call in torch's threads, and their barriers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "call.h"
#include "denormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Spin time before a thread sleeps. It is much longer than waking a thread, which takes 50 to 200
// microseconds in a virtual machine. Otherwise the others would exceed their limit while one wakes,
// and sleep, and so on through the whole call.
#ifndef UNBOUNDED_SPIN_MICROSECONDS
#define UNBOUNDED_SPIN_MICROSECONDS 500
#endif
// Time in a call lost in waits that ended in sleep. Above it, if it is a good part of the call,
// some thread is assumed to have no core; shares are never quite equal.
#ifndef UNBOUNDED_PATIENCE_MICROSECONDS
#define UNBOUNDED_PATIENCE_MICROSECONDS 2000
#endif

namespace unbounded {

using ParallelFor = int32_t (*)(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*),
                                void*);

inline void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `met()`; false if that takes longer than `limits` times the limit.
template <class Condition>
bool spin_until(Condition met, int64_t limits = 1) {
  using Clock = std::chrono::steady_clock;
  const std::chrono::microseconds limit{limits * UNBOUNDED_SPIN_MICROSECONDS};
  Clock::time_point begun{};
  for (bool is_first = true;; is_first = false) {
    for (int spins = 0; spins < 32; ++spins) {
      if (met()) return true;
      pause_briefly();
    }
    const Clock::time_point now = Clock::now();
    if (is_first)
      begun = now;
    else if (now - begun > limit)
      return false;
  }
}

// The threads of one region. They meet at barriers. If the system lets one of them wait for a core
// that another process keeps busy, thread 0 continues alone and the others leave, because waiting
// would take longer than their work. No result depends on which thread computes it.
class Team {
 public:
  // In a test, which sets a division or `alone_after`, threads wait for each other without limit;
  // `alone_after` is the barrier after which thread 0 continues alone, or 0.
  explicit Team(const UnboundedCall& call)
      : is_test_(call.switches.division != 0 || call.switches.alone_after > 0),
        alone_after_(call.switches.alone_after) {}
  bool is_test() const { return is_test_; }

  // Number of threads that share the work from here on; changes only inside `wait`.
  int64_t threads() const { return alone_.load(std::memory_order_relaxed) ? 1 : count_; }
  // Initial number of threads.
  int64_t count() const { return count_; }
  // To be checked after each `wait`, before any more work.
  bool keeps(int64_t thread) const { return thread < threads(); }

  // A barrier.
  void wait() {
    if (threads() <= 1) return;
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);
      if (is_test_ ? alone_after_ > 0 && turn >= alone_after_ : loses_too_much())
        alone_.store(true, std::memory_order_relaxed);
      change(turn_, turn + 1);
      return;
    }
    const int64_t lost = wait_for_change(turn_, turn);
    if (lost > 0) lost_.fetch_add(lost, std::memory_order_relaxed);
  }

  // For the thread that counts the arrivals. It waits for a limited time that grows with the number
  // of threads; a thread that has not arrived then is not waited for.
  void open(int64_t count) {
    count_ = count;
    begun_ = Clock::now();
    auto all_came = [&] { return present_.load(std::memory_order_acquire) == count - 1; };
    bool all = spin_until(all_came, (count + 1) / 2);
    while (!all && is_test_) {
      std::this_thread::yield();
      all = spin_until(all_came);
    }
    alone_.store(!all, std::memory_order_relaxed);
    change(turn_, 1);
  }
  // For all other threads.
  void join() {
    present_.fetch_add(1, std::memory_order_acq_rel);
    wait_for_change(turn_, 0);
  }

  // The end, for thread 0 and those that left it alone. They sleep, and do not return to the thread
  // pool, where they would spin on a core that thread 0 may need.
  void end(int64_t thread) {
    if (count_ <= 1 || threads() > 1) return;
    if (thread == 0) return change(over_, 1);
    sleepers_.fetch_add(1);
    while (over_.load() == 0) sleep_while(over_, 0);
    sleepers_.fetch_sub(1);
  }

 private:
  using Clock = std::chrono::steady_clock;

  const bool is_test_;
  const int64_t alone_after_;
  int64_t count_ = 1;
  Clock::time_point begun_{};
  std::atomic<bool> alone_{false};
  alignas(64) std::atomic<int64_t> present_{0};
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> turn_{0};
  std::atomic<uint32_t> over_{0};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<int64_t> lost_{0};  // microseconds, summed over waiting threads

  bool loses_too_much() const {
    const int64_t lost = lost_.load(std::memory_order_relaxed) / (count_ - 1);
    return lost > UNBOUNDED_PATIENCE_MICROSECONDS && 3 * lost > microseconds_since(begun_);
  }

  static int64_t microseconds_since(Clock::time_point begun) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun).count();
  }

  // Returns the microseconds that this took, or 0 if spinning was enough.
  int64_t wait_for_change(std::atomic<uint32_t>& word, uint32_t value) {
    const Clock::time_point begun = Clock::now();
    if (spin_until([&] { return word.load(std::memory_order_acquire) != value; }))
      return 0;
    sleepers_.fetch_add(1);
    while (word.load() == value) sleep_while(word, value);
    sleepers_.fetch_sub(1);
    return microseconds_since(begun);
  }
  void change(std::atomic<uint32_t>& word, uint32_t value) {
    word.store(value);
    if (sleepers_.load() > 0) wake(word);
  }

#if defined(__linux__)
  static void wake(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }
  static void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
  }
#else
  static void wake(std::atomic<uint32_t>&) {}
  static void sleep_while(std::atomic<uint32_t>&, uint32_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
#endif
};

inline int64_t threads_for(const UnboundedCall& call, ParallelFor parallel_for) {
  return parallel_for && call.threads > 1 ? call.threads : 1;
}

template <class Body>
struct Region {
  Body& body;
  int64_t wanted;
  Team team;
};

// Fewer threads than requested may come, and only one inside another parallel region; ranges tell.
template <class Body>
void region_body(int64_t begin, int64_t end, void* context) {
  auto& region = *static_cast<Region<Body>*>(context);
  // Not around the region: new threads inherit the mode of the thread that creates them.
  const FlushDenormals flushing;
  if (begin == 0) {
    const int64_t chunk = end;  // of the range, which starts at 0
    region.team.open((region.wanted + chunk - 1) / chunk);
    region.body(0, region.team);
    return region.team.end(0);
  }
  region.team.join();
  const int64_t each = (region.wanted + region.team.count() - 1) / region.team.count();
  if (region.team.keeps(begin / each)) region.body(begin / each, region.team);
  region.team.end(begin / each);
}

// The weight against using other threads. It grows by one for each region that one thread completed
// alone, intended or not, and halves after each region that kept its threads. Threads are tried at
// 0, 1, 2, 4 and so on to 64, and from there at every 64th region, since it goes from 128 back to
// 64. A trial costs the time that the system lets them wait for a core, several milliseconds, which
// is more than a small region takes. Seven regions that keep their threads lead from 64 to 0. It is
// global: whatever keeps the cores busy affects every call.
inline std::atomic<uint32_t> regions_alone{0};
constexpr bool are_asked(uint32_t count) { return (count & (count - 1)) == 0; }
constexpr uint32_t count_after(uint32_t count, bool kept_threads) {
  if (kept_threads) return count / 2;
  return count + 1 == 128 ? 64 : count + 1;
}
static_assert(are_asked(0) && are_asked(1) && are_asked(32) && are_asked(64));
static_assert(!are_asked(3) && !are_asked(63) && !are_asked(65) && !are_asked(127));
static_assert(count_after(127, false) == 64 && are_asked(count_after(64, true)));

// Calls body(thread, team) in at most `wanted` simultaneous threads.
template <class Body>
bool in_parallel(const UnboundedCall& call, int64_t wanted, ParallelFor parallel_for, Body& body) {
  Region<Body> region{body, wanted, Team(call)};
  const uint32_t before = regions_alone.load(std::memory_order_relaxed);
  const bool is_tried = region.team.is_test() || are_asked(before);
  bool ran = true;
  if (wanted <= 1 || !is_tried) {
    const FlushDenormals flushing;
    body(0, region.team);
  } else {
    ran = parallel_for(0, wanted, 1, region_body<Body>, &region) == 0;
  }
  // A test or a region inside another one says nothing about the load.
  if (region.team.is_test() || wanted <= 1 || (is_tried && region.team.count() <= 1)) return ran;
  regions_alone.store(count_after(before, region.team.threads() > 1), std::memory_order_relaxed);
  return ran;
}

}  // namespace unbounded
