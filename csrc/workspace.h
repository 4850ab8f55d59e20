// Aligned scratch memory, taken in one piece and handed out in parts.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace unbounded {

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(block_); }

  // Two passes over the same `part` calls: the first one measures, the second one hands out.
  bool allocate() {
    block_ = static_cast<char*>(std::aligned_alloc(64, used_ + 64));
    used_ = 0;
    return block_ != nullptr;
  }
  template <class X>
  void part(X*& pointer, int64_t count) {
    if (block_ != nullptr) pointer = reinterpret_cast<X*>(block_ + used_);
    used_ += (count * int64_t(sizeof(X)) + 63) / 64 * 64;
  }

 private:
  char* block_ = nullptr;
  int64_t used_ = 0;
};

}  // namespace unbounded
