// Denormal numbers, which a processor handles many times more slowly.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace unbounded {

// During its lifetime this thread reads and writes denormals as 0; then the mode is restored.
// States and gradients that vanish over many steps fall below 1.2e-38 and stay there.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | flush_to_zero | are_zero); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr uint32_t flush_to_zero = 0x8000, are_zero = 0x0040;
  const uint32_t before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | flush_to_zero) : "memory");
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(before_) : "memory"); }

 private:
  static constexpr uint64_t flush_to_zero = uint64_t{1} << 24;
  uint64_t before_ = 0;
#else
  FlushDenormals() {}
  ~FlushDenormals() {}

 public:
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
};

}  // namespace unbounded
