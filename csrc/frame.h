// A call's buffers with their types, and the sizes that follow from it: what all parts share.
#pragma once

#include <cstdint>
#include <cstring>

#include "call.h"
#include "panel.h"

namespace unbounded {

template <class X>
X* as(void* p) {
  return static_cast<X*>(p);
}
template <class X>
const X* as(const void* p) {
  return static_cast<const X*>(p);
}

// An empty tensor has no address, and memcpy takes none even for no bytes.
template <class T>
void copy_values(T* to, const T* from, int64_t count) {
  if (count > 0) std::memcpy(to, from, sizeof(T) * size_t(count));
}
template <class T>
void clear_values(T* to, int64_t count) {
  if (count > 0) std::memset(to, 0, sizeof(T) * size_t(count));
}

// What a memory adds to a step: sets of value, push and pop, if it has such; the size of a reading;
// rows of the heads' linear map.
struct MemorySizes {
  int64_t parts, reading, heads;
};

template <class T>
struct Frame {
  static constexpr int panel = panel_width<T>;

  UnboundedCall c;
  int64_t parts;       // of the memory
  int64_t reading;
  int64_t heads;
  int64_t lane_count;  // of the controller
  // Backward, between its parts:
  T* grad_gates = nullptr;         // [T, B, lanes H]
  T* grad_instructions = nullptr;  // [T, B, K], before the activations
  T* grad_values = nullptr;        // [B, N, M], of a memory of rows

  Frame(const UnboundedCall& call, MemorySizes memory, int64_t controller_lanes)
      : c(call),
        parts(memory.parts),
        reading(memory.reading),
        heads(memory.heads),
        lane_count(controller_lanes) {}

  int64_t reading_size() const { return reading; }
  int64_t head_count() const { return heads; }
  int64_t inner() const { return lane_count * c.hidden; }
  int64_t unit_groups() const { return padded<T>(c.hidden) / panel; }
  int64_t head_groups() const { return padded<T>(head_count()) / panel; }
  int64_t reading_groups() const { return padded<T>(reading_size()) / panel; }
  int64_t rows_in_all() const { return c.initial_rows + parts * c.capacity; }
  int64_t value_count() const { return parts > 0 ? c.batch * rows_in_all() * c.width : 0; }
  int64_t length_of(int64_t b) const { return c.lengths ? c.lengths[b] : c.steps; }

  // Without a backward pass to come, two steps' cells and readings are enough.
  int64_t ring(int64_t t) const { return c.saves ? t : t & 1; }

  // Rows of all batch entries; step -1 is the state that came in.
  const T* hidden_at(int64_t t) const {
    return t < 0 ? as<T>(c.hidden0) : as<T>(c.outputs) + t * c.batch * c.hidden;
  }
  const T* cell_at(int64_t t) const {
    return t < 0 ? as<T>(c.cell0) : as<T>(c.cells) + ring(t) * c.batch * c.hidden;
  }
  const T* reading_at(int64_t t) const {
    return t < 0 ? as<T>(c.reading0) : as<T>(c.readings) + ring(t) * c.batch * reading_size();
  }
  T* gates_at(int64_t t) const { return as<T>(c.gates) + t * c.batch * inner(); }
  T* grad_gates_at(int64_t t) const { return grad_gates + t * c.batch * inner(); }
  T* tanh_cells_at(int64_t t) const {
    return as<T>(c.tanh_cells) + (c.saves ? t * c.batch * c.hidden : 0);
  }
  T* push_pop_at(int64_t t, int64_t b) const {
    return as<T>(c.instructions) + ((c.saves ? t : 0) * c.batch + b) * 2 * parts;
  }
  T* grad_instructions_at(int64_t t) const {
    return grad_instructions + t * c.batch * head_count();
  }
};

}  // namespace unbounded
