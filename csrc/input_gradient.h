// The gradient of x: gradients of the gates times the weights of x. No step needs it, so it is
// computed after all of them, in runs of rows that threads claim one after another.
#pragma once

#include <atomic>

#include "frame.h"
#include "split.h"
#include "workspace.h"

namespace unbounded {

template <class T>
class InputGradient {
  static constexpr int panel = panel_width<T>;
  static constexpr int64_t run_length = 4 * UNBOUNDED_MAX_ROWS;

 public:
  template <class Controller>
  void take(const Frame<T>& f) {
    const UnboundedCall& c = f.c;
    if (c.grad_x == nullptr) return;
    constexpr LaneRange lanes_of_x = Controller::read_vector_lanes;
    inputs_ = c.inputs;
    count_ = c.steps * c.batch;
    inner_ = f.inner();
    precision_ = f.precision;
    grad_gates_ = {f.grad_gates + lanes_of_x.first * c.hidden, inner_,
                   lanes_of_x.count * c.hidden};
    weight_ = as<T>(c.weight_ih);
    weight_stride_ = f.input_columns();
    to_ = as<T>(c.grad_x);
  }

  int64_t groups() const { return padded<T>(inputs_) / panel; }

  void take_scratch(Workspace& space, int64_t threads) {
    space.take(panels_, groups() * panel_size<T>(precision_, grad_gates_.count));
    space.take(left_, threads * left_room());
  }

  void pack(Share groups) {
    for (int64_t g = groups.begin; g < groups.end; ++g)
      pack_straight(precision_, panel_of(g), weight_ + g * panel, weight_stride_, grad_gates_.count,
                    inputs_ - g * panel);
  }

  // Called by every thread, after all gradients of the gates are complete.
  void run(int64_t thread) {
    const int64_t runs = (count_ + run_length - 1) / run_length;
    for (int64_t mine; (mine = claimed_.fetch_add(1, std::memory_order_relaxed)) < runs;) {
      const Share rows = share_of(count_, mine, runs);
      if (precision_ != Precision::highest) {
        multiply_tiles(rows, left_ + thread * left_room());
        continue;
      }
      for (int64_t g = 0; g < groups(); ++g)
        for_row_blocks(rows.begin, rows.count(), [&](int64_t first, int count) {
          multiply(g, first, count);
        });
    }
  }

 private:
  int64_t inputs_ = 0, count_ = 0, inner_ = 0, weight_stride_ = 0;
  Segment<T> grad_gates_ = {nullptr, 0, 0};
  const T* weight_ = nullptr;
  T* to_ = nullptr;
  Precision precision_ = Precision::highest;
  T* panels_ = nullptr;  // [group of inputs][gates with an x part][panel]
  T* left_ = nullptr;    // [thread]: gradients of the gates in tiles
  std::atomic<int64_t> claimed_{0};

  T* panel_of(int64_t group) const {
    return panels_ + group * panel_size<T>(precision_, grad_gates_.count);
  }
  int64_t left_room() const {
    return precision_ == Precision::highest ? 0
                                            : run_length * left_stride(in_depths(grad_gates_.count));
  }

  void multiply_tiles(Share some, T* room) {
    if constexpr (sizeof(T) == sizeof(float)) {
      Segment<T> from = grad_gates_;
      from.data += some.begin * inner_;
      const Left left = round_rows(precision_, from, {from.data, 0, 0}, some.count(), room);
      TileShapes shapes(int(std::min(some.count(), tile_height)));
      for (int64_t g = 0; g < groups(); ++g)
        for_tile_blocks(some.count(), [&](int64_t n, int rows) {
          T* to = to_ + (some.begin + n) * inputs_ + g * panel;
          T whole[tile_height * panel];
          const int64_t columns = inputs_ - g * panel;
          const bool fits = columns >= panel;
          shapes.want(rows);
          tile_product(precision_, in_depths(from.count), left.at_row(n), panel_of(g), nullptr, 0,
                       fits ? to : whole, fits ? inputs_ : panel);
          for (int r = 0; !fits && r < rows; ++r)
            copy_values(to + r * inputs_, whole + r * panel, columns);
        });
    }
  }

  void multiply(int64_t group, int64_t first, int count) {
    Segment<T> from = grad_gates_;
    from.data += first * inner_;
    T whole[UNBOUNDED_MAX_ROWS * panel];
    const int64_t columns = inputs_ - group * panel;
    panel_product(count, columns, from, Segment<T>{from.data, 0, 0}, static_cast<const T*>(nullptr),
                  panel_of(group), panel_of(group), whole, panel);
    for (int r = 0; r < count; ++r)
      copy_values(to_ + (first + r) * inputs_ + group * panel, whole + r * panel,
                  std::min<int64_t>(panel, columns));
  }
};

}  // namespace unbounded
