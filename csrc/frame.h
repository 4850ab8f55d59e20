// A call's buffers with their types, and the sizes that follow from it: what all parts share.
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

// An empty tensor has no address, and memcpy takes none even for no bytes.
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
  const Precision precision;            // of products: what weights were packed for
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
  // What a panel of weights takes.
  int64_t panel_of(int64_t inner) const { return panel_size<T>(precision, inner); }
  bool in_tiles() const { return precision != Precision::highest; }
  // Of the rows of a product whose two parts have so many columns, to be rounded in.
  int64_t left_of(int64_t first, int64_t second = 0) const {
    return in_tiles() ? left_stride(in_depths(first) + in_depths(second)) : 0;
  }
  int64_t input_columns() const { return c.inputs + c.reading; }
  int64_t unit_groups() const { return padded<T>(c.hidden) / panel; }
  int64_t head_groups() const { return padded<T>(head_rows) / panel; }
  int64_t reading_groups() const { return padded<T>(c.reading) / panel; }
  // Within 0..T whatever was given, so that nothing is read or written elsewhere.
  int64_t length_of(int64_t b) const {
    return c.lengths ? std::min(std::max<int64_t>(c.lengths[b], 0), c.steps) : c.steps;
  }

  // Without a backward pass to come, two steps' cells are enough.
  int64_t ring(int64_t t) const { return c.saves ? t : t & 1; }

  // Rows of all batch entries; step -1 is the state that came in.
  const T* hidden_at(int64_t t) const {
    return t < 0 ? as<T>(c.hidden0) : as<T>(c.outputs) + t * c.batch * c.hidden;
  }
  const T* cell_at(int64_t t) const { return t < 0 ? as<T>(c.cell0) : cell_out(t); }
  const T* reading_at(int64_t t) const { return t < 0 ? as<T>(c.reading0) : reading_out(t); }
  T* cell_out(int64_t t) const { return as<T>(c.cells) + ring(t) * c.batch * c.hidden; }
  T* reading_out(int64_t t) const { return as<T>(c.readings) + t * c.batch * c.reading; }
  T* gates_at(int64_t t) const { return as<T>(c.gates) + t * c.batch * inner(); }
  T* tanh_cells_at(int64_t t) const {
    return as<T>(c.tanh_cells) + (c.saves ? t * c.batch * c.hidden : 0);
  }
  T* grad_gates_at(int64_t t) const { return grad_gates + t * c.batch * inner(); }
  T* grad_products_at(int64_t t) const { return grad_products + t * c.batch * head_rows; }

  // Whether the state after step t is kept for the backward pass.
  bool is_kept(int64_t t) const {
    return c.saves && c.checkpoint_size > 0 && (t + 1) % c.block == 0 && t + 1 < c.steps;
  }
  // The state of one batch entry before the first step of a block, which is not the first one.
  T* checkpoint(int64_t b, int64_t block) const {
    const int64_t blocks = c.steps > 0 ? (c.steps - 1) / c.block : 0;
    return as<T>(c.checkpoints) + (b * blocks + block - 1) * c.checkpoint_size;
  }
};

}  // namespace unbounded
