// Aligned scratch memory, taken in one piece and handed out in parts.
#pragma once

#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace unbounded {

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(block_); }

  // Two passes over the same `part` calls: the first one measures, the second one hands out.
  bool allocate() {
    const bool is_large = used_ > large_page / 2;
    const int64_t piece = is_large ? large_page : 64;
    const int64_t bytes = (used_ + piece) / piece * piece;
    block_ = static_cast<char*>(std::aligned_alloc(size_t(piece), size_t(bytes)));
    used_ = 0;
    if (block_ == nullptr) return false;
#if defined(__linux__)
    // Packed weights are read from end to end in every step: large pages, where they can be had.
    if (is_large) madvise(block_, size_t(bytes), MADV_HUGEPAGE);
#endif
    return true;
  }
  template <class X>
  void part(X*& pointer, int64_t count) {
    if (block_ != nullptr) pointer = reinterpret_cast<X*>(block_ + used_);
    used_ += (count * int64_t(sizeof(X)) + 63) / 64 * 64;
  }

 private:
  static constexpr int64_t large_page = 2 << 20;

  char* block_ = nullptr;
  int64_t used_ = 0;
};

}  // namespace unbounded
