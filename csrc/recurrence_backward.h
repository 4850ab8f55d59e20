// The backward pass over all steps: memory, heads and controller, in that order, from the last one.
//
// Weight gradients and that of x are large products of grad_gates and grad_instructions with what
// the forward pass kept, and are left to the caller.
#pragma once

#include <cstring>

#include "call.h"
#include "controllers.h"
#include "memories.h"
#include "panel.h"
#include "threads.h"
#include "workspace.h"

namespace unbounded {

template <class T, class Controller, class Memory>
class RecurrenceBackward {
  static constexpr int panel = panel_width<T>;
  static constexpr int lane_count = Controller::lane_count;
  static constexpr int parts = Memory::parts;

 public:
  explicit RecurrenceBackward(const UnboundedCall& call)
      : c(call),
        reading_size(parts * call.width),
        head_count(parts * (call.width + 2)),
        unit_groups(padded<T>(call.hidden) / panel),
        reading_groups(padded<T>(reading_size) / panel),
        rows_in_all(call.initial_rows + parts * call.steps),
        inner(lane_count * call.hidden),
        reading_first(Controller::reading_lanes.first * call.hidden),
        reading_inner(Controller::reading_lanes.count * call.hidden) {}

  bool run(ParallelFor parallel_for) {
    threads_ = threads_for(c, parallel_for);
    take_parts();
    if (!space_.allocate()) return false;
    take_parts();
    auto steps = [this](int64_t thread) { run_steps(thread); };
    return in_parallel(threads_, parallel_for, threads_, steps);
  }

 private:
  const UnboundedCall& c;
  const int64_t reading_size, head_count, unit_groups, reading_groups, rows_in_all, inner, reading_first,
      reading_inner;
  int64_t threads_ = 1;
  Barrier barrier_;
  Workspace space_;
  T* head_panels_ = nullptr;    // [unit group][heads][panel]
  T* before_panels_ = nullptr;  // [reading groups, unit groups][lanes][panel]
  T* tiles_ = nullptr;
  T* grad_reading_ = nullptr;   // [B][padded reading]
  T* grad_hidden_ = nullptr;    // [B][padded hidden]
  T* carry_ = nullptr;          // [B][padded hidden]: of the cell, or of h past the products
  T* grad_strengths_ = nullptr;  // [B][rows]
  RowsBackward<T>* rows_ = nullptr;
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;

  template <class X>
  static X* as(void* p) {
    return static_cast<X*>(p);
  }
  template <class X>
  static const X* as(const void* p) {
    return static_cast<const X*>(p);
  }

  void take_parts() {
    space_.part(head_panels_, unit_groups * head_count * panel);
    space_.part(before_panels_, (reading_groups + unit_groups) * inner * panel);
    space_.part(tiles_, threads_ * UNBOUNDED_MAX_ROWS * panel);
    space_.part(grad_reading_, c.batch * reading_groups * panel);
    space_.part(grad_hidden_, c.batch * unit_groups * panel);
    space_.part(carry_, c.batch * unit_groups * panel);
    space_.part(grad_strengths_, c.batch * rows_in_all);
    space_.part(rows_, c.batch);
    space_.part(live_row_, c.batch * rows_in_all);
    space_.part(live_strength_, c.batch * rows_in_all);
  }

  void run_steps(int64_t thread) {
    const Share units = share_of(unit_groups, thread, threads_);
    const Share columns = share_of(unit_groups + reading_groups, thread, threads_);
    const Share entries = share_of(c.batch, thread, threads_);
    pack(units, columns);
    for (int64_t b = entries.begin; b < entries.end; ++b) begin_entry(b);
    barrier_.wait(threads_);
    T* tile = tiles_ + thread * UNBOUNDED_MAX_ROWS * panel;
    for (int64_t t = c.steps - 1; t >= 0; --t) {
      for (int64_t b = entries.begin; b < entries.end; ++b) memory_step(t, b);
      barrier_.wait(threads_);
      sweep(units, t, [&](int64_t g) { controller_step(t, g, tile); });
      barrier_.wait(threads_);
      sweep(columns, t, [&](int64_t g) { before_step(t, g); });
      barrier_.wait(threads_);
    }
    for (int64_t b = entries.begin; b < entries.end; ++b) end_entry(b);
  }

  int64_t length_of(int64_t b) const { return c.lengths ? c.lengths[b] : c.steps; }

  int64_t hidden_inner(int range) const {
    return c.weight_hh ? Controller::hidden_lanes[range].count * c.hidden : 0;
  }

  void pack(Share units, Share columns) {
    for (int64_t g = units.begin; g < units.end; ++g)
      pack_straight(head_panels_ + g * head_count * panel, as<T>(c.head_weight) + g * panel,
                    c.hidden, head_count, c.hidden - g * panel);
    for (int64_t g = columns.begin; g < columns.end; ++g) {
      T* to = before_panels_ + g * inner * panel;
      if (g < reading_groups) {
        pack_straight(to, as<T>(c.weight_ih) + g * panel, c.weight_ih_stride, reading_inner,
                      reading_size - g * panel);
      } else if (c.weight_hh) {
        const int64_t first = (g - reading_groups) * panel;
        pack_straight(to, as<T>(c.weight_hh) + first, c.hidden, hidden_inner(0) + hidden_inner(1),
                      c.hidden - first);
      }
    }
  }

  void begin_entry(int64_t b) {
    const int64_t length = length_of(b);
    std::memset(grad_reading_ + b * reading_groups * panel, 0,
                sizeof(T) * reading_groups * panel);
    std::memset(grad_hidden_ + b * unit_groups * panel, 0, sizeof(T) * unit_groups * panel);
    std::memset(carry_ + b * unit_groups * panel, 0, sizeof(T) * unit_groups * panel);
    T* grad_strengths = grad_strengths_ + b * rows_in_all;
    const T* last = c.grad_strengths_last
                        ? as<T>(c.grad_strengths_last) + b * rows_in_all
                        : nullptr;
    RowsBackward<T>& rows = rows_[b];
    rows = RowsBackward<T>{};
    rows.live.row = live_row_ + b * rows_in_all;
    rows.live.strength = live_strength_ + b * rows_in_all;
    rows.live.low = c.live_range[3 * b];
    rows.live.high = c.live_range[3 * b + 1];
    rows.graves = {c.grave_rows + b * rows_in_all, as<T>(c.grave_strengths) + b * rows_in_all,
                   c.live_range[3 * b + 2]};
    rows.values = as<T>(c.values) + b * rows_in_all * c.width;
    rows.width = c.width;
    rows.grad_values = as<T>(c.grad_values) + b * rows_in_all * c.width;
    rows.grad_strengths = grad_strengths;
    rows.restore(as<T>(c.strengths) + b * rows_in_all, last, rows_in_all);
    if (last && length > 0)
      for (int part = 0; part < parts; ++part) {
        const int64_t row = Memory::row_of(part, length - 1, c.steps, c.initial_rows);
        grad_strengths[row] = last[row];
      }
    if (last && length == 0) {
      const int64_t first = Memory::first_row(c.steps);
      for (int64_t i = 0; i < c.initial_rows; ++i) grad_strengths[first + i] = last[first + i];
    }
  }

  // Adds what reaches the last h and c of an entry, columns [first, first + width).
  void take_last(int64_t b, int64_t first, int64_t width) {
    const int64_t at = b * c.hidden + first, to = b * unit_groups * panel + first;
    if (c.grad_hidden_last)
      axpy<T>(width, 1, as<T>(c.grad_hidden_last) + at, grad_hidden_ + to);
    if (c.grad_cell_last) axpy<T>(width, 1, as<T>(c.grad_cell_last) + at, carry_ + to);
  }

  void memory_step(int64_t t, int64_t b) {
    T* grad = as<T>(c.grad_instructions) + (t * c.batch + b) * head_count;
    if (t >= length_of(b)) {
      std::memset(grad, 0, sizeof(T) * head_count);
      return;
    }
    RowsBackward<T>& rows = rows_[b];
    T* grad_reading = grad_reading_ + b * reading_groups * panel;
    if (t + 1 == length_of(b) && c.grad_reading_last)
      axpy<T>(reading_size, 1, as<T>(c.grad_reading_last) + b * reading_size, grad_reading);
    const T* push_pop = as<T>(c.instructions) + (t * c.batch + b) * 2 * parts;
    int64_t pushed[parts];
    PopRecord<T> records[parts];
    for (int part = 0; part < parts; ++part) {
      pushed[part] = Memory::row_of(part, t, c.steps, c.initial_rows);
      records[part] = {c.deaths + (b * c.steps + t) * parts + part,
                       as<T>(c.kept) + (b * c.steps + t) * parts + part};
    }
    T grad_push_pop[2 * parts];
    Memory::template backward<T>(rows, Strengths<T>{push_pop}, pushed, grad_reading, records,
                                 grad_push_pop);
    for (int part = 0; part < parts; ++part, grad += c.width + 2) {
      const T* value = rows.values + pushed[part] * c.width;
      const T* grad_value = rows.grad_values + pushed[part] * c.width;
      for (int64_t m = 0; m < c.width; m += lanes<T>) {
        const int n = int(std::min<int64_t>(lanes<T>, c.width - m));
        const Vector<T> v = load_first(value + m, n);
        store_first<T>(grad + m, load_first(grad_value + m, n) * (T(1) - v * v), n);
      }
      for (int i = 0; i < 2; ++i) {
        const T s = push_pop[2 * part + i];
        grad[c.width + i] = grad_push_pop[2 * part + i] * s * (1 - s);
      }
    }
  }

  void controller_step(int64_t t, int64_t group, T* tile) {
    const int64_t H = c.hidden, first = group * panel;
    const int width = int(std::min<int64_t>(panel, H - first));
    const T* instructions = as<T>(c.grad_instructions) + t * c.batch * head_count;
    const T* gates = as<T>(c.gates) + t * c.batch * lane_count * H;
    T* grad_gates = as<T>(c.grad_gates) + t * c.batch * lane_count * H;
    const T* tanh_cells = as<T>(c.tanh_cells) + t * c.batch * H;
    const T* outputs = as<T>(c.outputs) + t * c.batch * H;
    const T* before = t > 0 ? outputs - c.batch * H : as<T>(c.hidden0);
    const T* cells_before =
        t > 0 ? as<T>(c.cells) + (t - 1) * c.batch * H : as<T>(c.cell0);
    for_row_blocks(c.batch, [&](int64_t b0, int rows) {
      panel_product(rows, Segment<T>{instructions + b0 * head_count, head_count, head_count},
                    Segment<T>{instructions, 0, 0}, head_panels_ + group * head_count * panel,
                    tile, panel);
      for (int r = 0; r < rows; ++r) {
        const int64_t b = b0 + r;
        T* to = grad_gates + b * lane_count * H + first;
        if (t >= length_of(b)) {
          for (int lane = 0; lane < lane_count; ++lane)
            std::memset(to + lane * H, 0, sizeof(T) * width);
          continue;
        }
        if (t + 1 == length_of(b)) take_last(b, first, width);
        T* grad_hidden = grad_hidden_ + b * unit_groups * panel + first;
        axpy<T>(width, 1, tile + r * panel, grad_hidden);
        if (c.grad_outputs)
          axpy<T>(width, 1, as<T>(c.grad_outputs) + (t * c.batch + b) * H + first, grad_hidden);
        const int64_t at = b * H + first;
        Controller::backward(UnitsBackward<T>{grad_hidden, H, gates + b * lane_count * H + first,
                                              before + at, cells_before + at, tanh_cells + at,
                                              outputs + at,
                                              carry_ + b * unit_groups * panel + first, to, width});
      }
    });
  }

  // The gradient of r_{t-1} and h_{t-1}.
  void before_step(int64_t t, int64_t group) {
    const int64_t stride = group < reading_groups ? reading_groups * panel : unit_groups * panel;
    T* to = group < reading_groups ? grad_reading_ + group * panel
                                   : grad_hidden_ + (group - reading_groups) * panel;
    const T* gates = as<T>(c.grad_gates) + t * c.batch * inner;
    const bool is_reading = group < reading_groups;
    const LaneRange one = Controller::hidden_lanes[0], two = Controller::hidden_lanes[1];
    for_row_blocks(c.batch, [&](int64_t b0, int rows) {
      const T* from = gates + b0 * inner;
      const Segment<T> first = is_reading
                                   ? Segment<T>{from + reading_first, inner, reading_inner}
                                   : Segment<T>{from + one.first * c.hidden, inner, hidden_inner(0)};
      const Segment<T> second{from + (is_reading ? 0 : two.first * c.hidden), inner,
                              is_reading ? 0 : hidden_inner(1)};
      panel_product(rows, first, second, before_panels_ + group * inner * panel, to + b0 * stride,
                    stride);
    });
  }

  // Of an entry of length 0 what came in is what went out.
  void copy_initial(void* to, int64_t b, int64_t count, const T* grad, const void* last) {
    T* row = as<T>(to) + b * count;
    if (length_of(b) > 0)
      std::memcpy(row, grad, sizeof(T) * count);
    else if (last)
      std::memcpy(row, as<T>(last) + b * count, sizeof(T) * count);
    else
      std::memset(row, 0, sizeof(T) * count);
  }

  void end_entry(int64_t b) {
    const int64_t H = c.hidden;
    if (Controller::carries_hidden)
      axpy<T>(H, 1, carry_ + b * unit_groups * panel, grad_hidden_ + b * unit_groups * panel);
    copy_initial(c.grad_hidden0, b, H, grad_hidden_ + b * unit_groups * panel,
                 c.grad_hidden_last);
    if (Controller::has_cell)
      copy_initial(c.grad_cell0, b, H, carry_ + b * unit_groups * panel, c.grad_cell_last);
    copy_initial(c.grad_reading0, b, reading_size, grad_reading_ + b * reading_groups * panel,
                 c.grad_reading_last);
    if (length_of(b) > 0)
      rows_[b].template unseen_initial<Memory::first_pop>(
          Memory::first_row(c.steps), c.initial_rows,
          as<T>(c.strengths0) + b * c.initial_rows);
    std::memcpy(as<T>(c.grad_strengths0) + b * c.initial_rows,
                grad_strengths_ + b * rows_in_all + Memory::first_row(c.steps),
                sizeof(T) * c.initial_rows);
  }
};

}  // namespace unbounded
