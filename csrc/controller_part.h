// A controller over groups of units: packed weights, products, and the cell of controllers.h.
//
// Behind virtual functions, so that every controller meets every memory without being compiled with
// it; one call covers a whole group of units, which makes its cost nothing.
#pragma once

#include "controllers.h"
#include "frame.h"
#include "live_rows.h"
#include "split.h"
#include "workspace.h"

namespace unbounded {

template <class T>
class ControllerForward {
 public:
  virtual ~ControllerForward() = default;
  virtual void take_parts(Workspace& space, int64_t threads) = 0;
  virtual void pack(Share groups) = 0;
  virtual void step(int64_t t, int64_t group, Share entries, int64_t thread) = 0;
  virtual void keep_state(int64_t b) = 0;
};

template <class T>
class ControllerBackward {
 public:
  virtual ~ControllerBackward() = default;
  virtual void take_parts(Workspace& space, int64_t threads) = 0;
  virtual void pack(Share units, Share columns) = 0;
  virtual void begin(int64_t b) = 0;
  // From the gradients of the instructions to those of the gates, for a group of units.
  virtual void step(int64_t t, int64_t group, Share entries, int64_t thread) = 0;
  // From there to r_{t-1} and h_{t-1}, for a group of columns: the reading's come first.
  virtual void before(int64_t t, int64_t group, Share entries) = 0;
  virtual void end(int64_t b) = 0;
  virtual T* grad_reading(int64_t b) = 0;
};

template <class T, class Controller>
class ControllerForwardOf final : public ControllerForward<T> {
  static constexpr int panel = panel_width<T>;
  static constexpr int64_t tile_stride = UNBOUNDED_MAX_ROWS * panel;

 public:
  explicit ControllerForwardOf(const Frame<T>& frame) : f(frame) {}

  void take_parts(Workspace& space, int64_t threads) override {
    space.part(panels_, f.unit_groups() * Controller::lane_count * lane_panel());
    space.part(starts_, f.unit_groups() * Controller::lane_count * panel);
    space.part(tiles_, threads * Controller::lane_count * tile_stride);
  }

  void pack(Share groups) override {
    const UnboundedCall& c = f.c;
    for (int64_t g = groups.begin; g < groups.end; ++g)
      for (int lane = 0; lane < Controller::lane_count; ++lane) {
        T* to = panel_of(g, lane);
        const int64_t columns = c.hidden - g * panel;
        const int of_reading = reading_block<Controller>(lane);
        const int of_hidden = hidden_block<Controller>(lane);
        T* start = start_of(g, lane);
        clear_values(start, panel);
        if (of_reading >= 0) {
          const int64_t first = of_reading * c.hidden + g * panel;
          if (c.bias_ih) add_bias(start, as<T>(c.bias_ih) + first, columns);
          pack_transposed(to, as<T>(c.weight_ih) + first * c.weight_ih_stride,
                          c.weight_ih_stride, f.reading_size(), columns);
          to += f.reading_size() * panel;
        }
        if (of_hidden < 0) continue;
        const int64_t first = of_hidden * c.hidden + g * panel;
        if (c.bias_hh) add_bias(start, as<T>(c.bias_hh) + first, columns);
        if (c.weight_hh)
          pack_transposed(to, as<T>(c.weight_hh) + first * c.hidden, c.hidden, c.hidden, columns);
      }
  }

  void step(int64_t t, int64_t group, Share entries, int64_t thread) override {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden, R = f.reading_size(), first = group * panel;
    const int width = int(std::min<int64_t>(panel, H - first));
    const T *readings = f.reading_at(t - 1), *before = f.hidden_at(t - 1);
    const T* cells_before = f.cell_at(t - 1);
    T *gates = f.gates_at(t), *outputs = as<T>(c.outputs) + t * c.batch * H;
    T *cells = const_cast<T*>(f.cell_at(t)), *tanh_cells = f.tanh_cells_at(t);
    T* tile = tiles_ + thread * Controller::lane_count * tile_stride;
    for_row_blocks(entries.begin, entries.count(), [&](int64_t b0, int rows) {
      for (int lane = 0; lane < Controller::lane_count; ++lane) {
        const bool of_reading = reading_block<Controller>(lane) >= 0;
        const bool of_hidden = hidden_block<Controller>(lane) >= 0 && c.weight_hh;
        panel_product(rows, Segment<T>{readings + b0 * R, R, of_reading ? R : 0},
                      Segment<T>{before + b0 * H, H, of_hidden ? H : 0}, start_of(group, lane),
                      panel_of(group, lane),
                      lane + 1 < Controller::lane_count
                          ? panel_of(group, lane + 1)
                          : panel_of(after_in_sweep(group, f.unit_groups(), t), 0),
                      tile + lane * tile_stride, panel);
      }
      for (int r = 0; r < rows; ++r) {
        const int64_t b = b0 + r, at = b * H + first;
        T* out = outputs + at;
        if (t >= f.length_of(b)) {
          clear_values(out, width);
          continue;
        }
        Controller::forward(UnitsForward<T>{tile + r * panel, tile_stride, H,
                                            gates + b * f.inner() + first, before + at,
                                            cells_before + at, cells + at, tanh_cells + at, out,
                                            width, c.saves != 0});
        if (t + 1 == f.length_of(b)) {
          copy_values(as<T>(c.hidden_last) + at, out, width);
          if (Controller::has_cell)
            copy_values(as<T>(c.cell_last) + at, cells + at, width);
        }
      }
    });
  }

  void keep_state(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden;
    copy_values(as<T>(c.hidden_last) + b * H, as<T>(c.hidden0) + b * H, H);
    if (Controller::has_cell)
      copy_values(as<T>(c.cell_last) + b * H, as<T>(c.cell0) + b * H, H);
  }

 private:
  const Frame<T>& f;
  T* panels_ = nullptr;  // [unit group][lane][reading then hidden][panel]
  T* starts_ = nullptr;  // [unit group][lane][panel]: the biases
  T* tiles_ = nullptr;   // [thread][lane][row][panel]

  T* panel_of(int64_t group, int lane) const {
    return panels_ + (group * Controller::lane_count + lane) * lane_panel();
  }
  T* start_of(int64_t group, int lane) const {
    return starts_ + (group * Controller::lane_count + lane) * panel;
  }
  int64_t lane_panel() const { return (f.reading_size() + f.c.hidden) * panel; }
};

template <class T, class Controller>
class ControllerBackwardOf final : public ControllerBackward<T> {
  static constexpr int panel = panel_width<T>;

 public:
  explicit ControllerBackwardOf(const Frame<T>& frame) : f(frame) {}

  void take_parts(Workspace& space, int64_t threads) override {
    const int64_t units = f.unit_groups(), columns = f.reading_groups();
    space.part(head_panels_, units * f.head_count() * panel);
    space.part(before_panels_, (columns + units) * f.inner() * panel);
    space.part(tiles_, threads * UNBOUNDED_MAX_ROWS * panel);
    space.part(grad_reading_, f.c.batch * columns * panel);
    space.part(grad_hidden_, f.c.batch * units * panel);
    space.part(carry_, f.c.batch * units * panel);
  }

  void pack(Share units, Share columns) override {
    const UnboundedCall& c = f.c;
    for (int64_t g = units.begin; g < units.end; ++g)
      pack_straight(head_panels_ + g * f.head_count() * panel, as<T>(c.head_weight) + g * panel,
                    c.hidden, f.head_count(), c.hidden - g * panel);
    for (int64_t g = columns.begin; g < columns.end; ++g) {
      T* to = before_panels_ + g * f.inner() * panel;
      const int64_t first = (g - f.reading_groups()) * panel;
      if (g < f.reading_groups())
        pack_straight(to, as<T>(c.weight_ih) + g * panel, c.weight_ih_stride,
                      Controller::reading_lanes.count * c.hidden, f.reading_size() - g * panel);
      else if (c.weight_hh)
        pack_straight(to, as<T>(c.weight_hh) + first, c.hidden, hidden_inner(0) + hidden_inner(1),
                      c.hidden - first);
    }
  }

  void begin(int64_t b) override {
    clear_values(grad_reading(b), f.reading_groups() * panel);
    clear_values(grad_hidden_ + b * hidden_stride(), hidden_stride());
    clear_values(carry_ + b * hidden_stride(), hidden_stride());
  }

  T* grad_reading(int64_t b) override { return grad_reading_ + b * f.reading_groups() * panel; }

  void step(int64_t t, int64_t group, Share entries, int64_t thread) override {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden, K = f.head_count(), first = group * panel;
    const int width = int(std::min<int64_t>(panel, H - first));
    const T* instructions = f.grad_instructions_at(t);
    T* tile = tiles_ + thread * UNBOUNDED_MAX_ROWS * panel;
    for_row_blocks(entries.begin, entries.count(), [&](int64_t b0, int rows) {
      panel_product<T>(rows, Segment<T>{instructions + b0 * K, K, K},
                    Segment<T>{instructions, 0, 0}, nullptr, head_panels_ + group * K * panel,
                    head_panels_ + after_in_sweep(group, f.unit_groups(), t) * K * panel, tile,
                    panel);
      for (int r = 0; r < rows; ++r) {
        const int64_t b = b0 + r, at = b * H + first, own = b * hidden_stride() + first;
        T* to = f.grad_gates_at(t) + b * f.inner() + first;
        if (t >= f.length_of(b)) {
          for (int lane = 0; lane < Controller::lane_count; ++lane)
            clear_values(to + lane * H, width);
          continue;
        }
        if (t + 1 == f.length_of(b)) {
          if (c.grad_hidden_last)
            axpy<T>(width, 1, as<T>(c.grad_hidden_last) + at, grad_hidden_ + own);
          if (Controller::has_cell && c.grad_cell_last)
            axpy<T>(width, 1, as<T>(c.grad_cell_last) + at, carry_ + own);
        }
        axpy<T>(width, 1, tile + r * panel, grad_hidden_ + own);
        if (c.grad_outputs)
          axpy<T>(width, 1, as<T>(c.grad_outputs) + t * c.batch * H + at, grad_hidden_ + own);
        Controller::backward(UnitsBackward<T>{
            grad_hidden_ + own, H, f.gates_at(t) + b * f.inner() + first, f.hidden_at(t - 1) + at,
            f.cell_at(t - 1) + at, f.tanh_cells_at(t) + at, f.hidden_at(t) + at, carry_ + own, to,
            width});
      }
    });
  }

  void before(int64_t t, int64_t group, Share entries) override {
    const int64_t H = f.c.hidden, inner = f.inner();
    const bool is_reading = group < f.reading_groups();
    const int64_t stride = is_reading ? f.reading_groups() * panel : hidden_stride();
    T* to = is_reading ? grad_reading_ + group * panel
                       : grad_hidden_ + (group - f.reading_groups()) * panel;
    constexpr LaneRange of_reading = Controller::reading_lanes;
    constexpr LaneRange one = Controller::hidden_lanes[0], two = Controller::hidden_lanes[1];
    for_row_blocks(entries.begin, entries.count(), [&](int64_t b0, int rows) {
      const T* from = f.grad_gates_at(t) + b0 * inner;
      const Segment<T> first =
          is_reading ? Segment<T>{from + of_reading.first * H, inner, of_reading.count * H}
                     : Segment<T>{from + one.first * H, inner, hidden_inner(0)};
      const Segment<T> second{is_reading ? from : from + two.first * H, inner,
                              is_reading ? 0 : hidden_inner(1)};
      const int64_t next = after_in_sweep(group, f.reading_groups() + f.unit_groups(), t);
      panel_product<T>(rows, first, second, nullptr, before_panels_ + group * inner * panel,
                    before_panels_ + next * inner * panel, to + b0 * stride, stride);
    });
  }

  void end(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden, own = b * hidden_stride();
    if (Controller::carries_hidden) axpy<T>(H, 1, carry_ + own, grad_hidden_ + own);
    copy_initial(c.grad_hidden0, b, H, grad_hidden_ + own, c.grad_hidden_last);
    if (Controller::has_cell)
      copy_initial(c.grad_cell0, b, H, carry_ + own, c.grad_cell_last);
    copy_initial(c.grad_reading0, b, f.reading_size(), grad_reading(b), c.grad_reading_last);
  }

 private:
  const Frame<T>& f;
  T* head_panels_ = nullptr;    // [unit group][heads][panel]
  T* before_panels_ = nullptr;  // [reading groups, unit groups][lanes][panel]
  T* tiles_ = nullptr;          // [thread][row][panel]
  T* grad_reading_ = nullptr;   // [B][padded reading]
  T* grad_hidden_ = nullptr;    // [B][padded hidden]
  T* carry_ = nullptr;          // [B][padded hidden]: of the cell, or of h past the products

  int64_t hidden_stride() const { return f.unit_groups() * panel; }
  int64_t hidden_inner(int range) const {
    return f.c.weight_hh ? Controller::hidden_lanes[range].count * f.c.hidden : 0;
  }

  // Of an entry of length 0 what came in is what went out.
  void copy_initial(void* to, int64_t b, int64_t count, const T* grad, const void* last) {
    T* row = as<T>(to) + b * count;
    if (f.length_of(b) > 0)
      copy_values(row, grad, count);
    else if (last)
      copy_values(row, as<T>(last) + b * count, count);
    else
      clear_values(row, count);
  }
};

}  // namespace unbounded
