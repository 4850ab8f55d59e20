// A call's buffers with their types, and derived sizes, shared by all parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "call.h"
#include "tiles.h"

namespace unbounded {

template <class X>
X* as(void* p) {
  return static_cast<X*>(p);
}
template <class X>
const X* as(const void* p) {
  return static_cast<const X*>(p);
}

// An empty tensor has no address, and memcpy accepts no null pointer even for zero bytes.
template <class T>
void copy_values(T* to, const T* from, int64_t count) {
  if (count > 0) std::memcpy(to, from, sizeof(T) * size_t(count));
}
template <class T>
void clear_values(T* to, int64_t count) {
  if (count > 0) std::memset(to, 0, sizeof(T) * size_t(count));
}

template <class T>
struct Frame {
  static constexpr int panel = panel_width<T>;

  UnboundedCall c;
  int64_t lane_count;                   // of the controller; 0 without one
  int64_t head_rows = 0;                // of the heads' linear map
  int64_t first_row[most_heads] = {};   // of each head among them
  const Precision precision;            // of products: as the weights were packed
  // Backward, between its parts:
  T* grad_gates = nullptr;     // [T, B, lanes H]
  T* grad_products = nullptr;  // [T, B, K], before the activations

  Frame(const UnboundedCall& call, int64_t controller_lanes)
      : c(call), lane_count(controller_lanes), precision(precision_of<T>(call.precision)) {
    for (int i = 0; i < c.head_count; ++i) {
      first_row[i] = head_rows;
      head_rows += rows_of(i);
    }
  }

  int64_t rows_of(int head) const { return c.heads[head].count * c.heads[head].size; }
  int64_t inner() const { return lane_count * c.hidden; }
  // Numbers in a panel of weights.
  int64_t panel_of(int64_t inner) const { return panel_size<T>(precision, inner); }
  bool in_tiles() const { return precision != Precision::highest; }
  // Room to round a product's rows, whose two parts have so many columns.
  int64_t left_of(int64_t first, int64_t second = 0) const {
    return in_tiles() ? left_stride(in_depths(first) + in_depths(second)) : 0;
  }
  int64_t input_columns() const { return c.inputs + c.read_vector; }
  int64_t unit_groups() const { return padded<T>(c.hidden) / panel; }
  int64_t head_groups() const { return padded<T>(head_rows) / panel; }
  int64_t read_vector_groups() const { return padded<T>(c.read_vector) / panel; }
  // Clamped to 0..T for any input, so that no access is out of bounds.
  int64_t length_of(int64_t b) const {
    return c.lengths ? std::min(std::max<int64_t>(c.lengths[b], 0), c.steps) : c.steps;
  }

  // Without a backward pass, two steps' cells are enough.
  int64_t ring(int64_t t) const { return c.saves ? t : t & 1; }

  // Rows of all batch entries; step -1 is the initial state.
  const T* hidden_at(int64_t t) const {
    return t < 0 ? as<T>(c.hidden0) : as<T>(c.outputs) + t * c.batch * c.hidden;
  }
  const T* cell_at(int64_t t) const { return t < 0 ? as<T>(c.cell0) : cell_out(t); }
  const T* read_vector_at(int64_t t) const { return t < 0 ? as<T>(c.read_vector0) : read_vector_out(t); }
  T* cell_out(int64_t t) const { return as<T>(c.cells) + ring(t) * c.batch * c.hidden; }
  T* read_vector_out(int64_t t) const { return as<T>(c.read_vectors) + t * c.batch * c.read_vector; }
  T* gates_at(int64_t t) const { return as<T>(c.gates) + t * c.batch * inner(); }
  T* tanh_cells_at(int64_t t) const {
    return as<T>(c.tanh_cells) + (c.saves ? t * c.batch * c.hidden : 0);
  }
  T* grad_gates_at(int64_t t) const { return grad_gates + t * c.batch * inner(); }
  T* grad_products_at(int64_t t) const { return grad_products + t * c.batch * head_rows; }

  // Whether the state after step t is saved for the backward pass.
  bool is_kept(int64_t t) const {
    return c.saves && c.checkpoint_size > 0 && (t + 1) % c.block == 0 && t + 1 < c.steps;
  }
  // The state of one batch entry before the first step of a block other than the first.
  T* checkpoint(int64_t b, int64_t block) const {
    const int64_t blocks = c.steps > 0 ? (c.steps - 1) / c.block : 0;
    return as<T>(c.checkpoints) + (b * blocks + block - 1) * c.checkpoint_size;
  }
};

}  // namespace unbounded
