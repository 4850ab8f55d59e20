// Aligned scratch memory, allocated in one piece and distributed in shares.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace unbounded {

// Requests large pages, if available, for untouched memory: page faults for each 4 KiB of some
// hundred megabytes take longer than filling them.
inline void want_large_pages(void* data, int64_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t page = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + uintptr_t(bytes)) / page * page;
  if (data != nullptr && end > begin)
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}

// Pieces of memory, a few of which are kept for later calls: fresh ones cost a page fault, and
// zeroing, for each page.
//
// A slot holds one piece or none and is emptied and filled by one exchange, so that threads need no
// lock, and a process forked meanwhile finds none locked.
class Pieces {
 public:
  // At least so many bytes, uninitialised; null if none are available.
  static char* take(int64_t bytes) {
    bytes += header;
    char* best = nullptr;
    for (auto& slot : slots) {
      char* piece = slot.exchange(nullptr, std::memory_order_acquire);
      if (piece == nullptr) continue;
      const bool fits = size_of(piece) >= bytes && size_of(piece) / 4 <= bytes;
      if (fits && (best == nullptr || size_of(piece) < size_of(best))) std::swap(best, piece);
      if (piece != nullptr) keep(piece);
    }
    return best == nullptr ? fresh(bytes) : best + header;
  }

  static void give_back(char* data) {
    if (data != nullptr) keep(data - header);
  }

 private:
  static constexpr int64_t header = 64;  // holds the size
  static constexpr int64_t large_page = 2 << 20;
  static constexpr int64_t most_bytes = 64 << 20;  // of a kept piece
  static inline std::atomic<char*> slots[4] = {};

  // Puts a piece into a slot; without a free slot, releases the smallest piece.
  static void keep(char* piece) {
#if !defined(__SANITIZE_ADDRESS__)  // which must see the end of each piece
    for (auto& slot : slots) {
      char* none = nullptr;
      if (size_of(piece) > most_bytes) break;
      if (slot.compare_exchange_strong(none, piece, std::memory_order_release)) return;
    }
    for (auto& slot : slots) {
      if (size_of(piece) > most_bytes) break;
      char* other = slot.exchange(nullptr, std::memory_order_acquire);
      if (other != nullptr && size_of(other) < size_of(piece)) std::swap(other, piece);
      char* none = nullptr;
      if (other != nullptr && !slot.compare_exchange_strong(none, other, std::memory_order_release))
        std::free(other);
    }
#endif
    std::free(piece);
  }

  static int64_t size_of(const char* piece) {
    int64_t bytes;
    std::memcpy(&bytes, piece, sizeof bytes);
    return bytes;
  }

  static char* fresh(int64_t bytes) {
    const bool is_large = bytes > large_page / 2;
    const int64_t unit = is_large ? large_page : header;
    bytes = (bytes + unit - 1) / unit * unit;
    char* piece = static_cast<char*>(std::aligned_alloc(size_t(unit), size_t(bytes)));
    if (piece == nullptr) return nullptr;
    // Packed weights are read completely in every step.
    if (is_large) want_large_pages(piece, bytes);
    std::memcpy(piece, &bytes, sizeof bytes);
    return piece + header;
  }
};

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { Pieces::give_back(block_); }

  // Two passes over the same `take` calls: the first measures, the second distributes.
  bool allocate() {
    block_ = Pieces::take(used_);
#if defined(UNBOUNDED_POISON)  // so that tests detect reads of unwritten memory
    if (block_ != nullptr) std::memset(block_, 0xff, size_t(used_));
#endif
    used_ = 0;
    return block_ != nullptr;
  }
  template <class X>
  void take(X*& pointer, int64_t count) {
    if (block_ != nullptr) pointer = reinterpret_cast<X*>(block_ + used_);
    used_ += (count * int64_t(sizeof(X)) + 63) / 64 * 64;
  }

 private:
  char* block_ = nullptr;
  int64_t used_ = 0;
};

}  // namespace unbounded
