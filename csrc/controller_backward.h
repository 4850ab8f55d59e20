// The backward pass of a controller: the cells of controllers.h and products with transposed
// weights.
#pragma once

#include "controller.h"
#include "controllers.h"
#include "frame.h"
#include "products.h"

namespace unbounded {

template <class T, class Controller>
class ControllerBackwardOf final : public ControllerBackward<T> {
  static constexpr int panel = panel_width<T>;

 public:
  explicit ControllerBackwardOf(const Frame<T>& frame) : f(frame) {}

  void take_scratch(Workspace& space, int64_t threads) override {
    const int64_t units = f.unit_groups(), columns = f.read_vector_groups();
    space.take(head_panels_, units * f.panel_of(f.head_rows));
    space.take(before_panels_, (columns + units) * before_panel());
    space.take(products_, threads * std::min(f.c.batch, rows_at_once) * hidden_stride());
    space.take(left_, threads * left_room());
    space.take(grad_read_vector_, f.c.batch * columns * panel);
    space.take(grad_hidden_, f.c.batch * units * panel);
    space.take(carry_, f.c.batch * units * panel);
  }

  void pack(Share units, Share columns) override {
    const UnboundedCall& c = f.c;
    for (int64_t g = units.begin; g < units.end; ++g)
      pack_straight(f.precision, head_panels_ + g * f.panel_of(f.head_rows),
                    as<T>(c.head_weight) + g * panel, c.hidden, f.head_rows, c.hidden - g * panel);
    for (int64_t g = columns.begin; g < columns.end; ++g) {
      T* to = before_panels_ + g * before_panel();
      const int64_t first = (g - f.read_vector_groups()) * panel;
      if (g < f.read_vector_groups())
        pack_straight(f.precision, to, as<T>(c.weight_ih) + c.inputs + g * panel, f.input_columns(),
                      Controller::read_vector_lanes.count * c.hidden, f.c.read_vector - g * panel);
      else if (c.weight_hh)
        for (int range = 0; range < 2; ++range) {
          pack_straight(f.precision, to,
                        as<T>(c.weight_hh) + first + range * hidden_inner(0) * c.hidden, c.hidden,
                        hidden_inner(range), c.hidden - first);
          to += f.panel_of(hidden_inner(range));
        }
    }
  }

  void begin(int64_t b) override {
    clear_values(grad_read_vector(b), f.read_vector_groups() * panel);
    clear_values(grad_hidden_ + b * hidden_stride(), hidden_stride());
    clear_values(carry_ + b * hidden_stride(), hidden_stride());
  }

  T* grad_read_vector(int64_t b) override { return grad_read_vector_ + b * f.read_vector_groups() * panel; }

  void step(int64_t t, Share groups, Share entries, int64_t thread) override {
    const int64_t K = f.head_rows;
    if (groups.count() == 0) return;
    const T* from = f.grad_products_at(t);
    T* products = products_ + thread * std::min(f.c.batch, rows_at_once) * hidden_stride();
    const Share going = going_on(f, t, entries);
    for_chunks(going, [&](Share chunk) {
      const Product<T> product{{from + chunk.begin * K, K, K},
                               {from, 0, 0},
                               f.c.hidden,
                               head_panels_,
                               f.panel_of(K),
                               nullptr,
                               0,
                               products,
                               hidden_stride(),
                               nullptr,
                               f.precision,
                               left_ + thread * left_room()};
      multiply(product, chunk.count(), groups, t);
      for (int64_t b = chunk.begin; b < chunk.end; ++b)
        cells(t, b, groups, products + (b - chunk.begin) * hidden_stride());
    });
    for (int64_t b = going.end; b < entries.end; ++b) cells(t, b, groups, products);
  }

  void before(int64_t t, Share groups, Share entries, int64_t thread) override {
    for_chunks_in_tiles(f, entries, [&](Share chunk) {
      before(t, groups, chunk, left_ + thread * left_room());
    });
  }

  void end(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden, own = b * hidden_stride();
    if (Controller::carries_hidden) axpy<T>(H, 1, carry_ + own, grad_hidden_ + own);
    copy_initial(c.grad_hidden0, b, H, grad_hidden_ + own, c.grad_hidden_last);
    if (Controller::has_cell)
      copy_initial(c.grad_cell0, b, H, carry_ + own, c.grad_cell_last);
    copy_initial(c.grad_read_vector0, b, f.c.read_vector, grad_read_vector(b), c.grad_read_vector_last);
  }

 private:
  const Frame<T>& f;
  T* head_panels_ = nullptr;    // [unit group][heads][panel]
  T* before_panels_ = nullptr;  // [read_vector groups, unit groups][lanes][panel]
  T* left_ = nullptr;           // [thread]: gradients in tiles
  T* products_ = nullptr;       // [thread][row][padded hidden]
  T* grad_read_vector_ = nullptr;   // [B][padded read_vector]
  T* grad_hidden_ = nullptr;    // [B][padded hidden]
  T* carry_ = nullptr;          // [B][padded hidden]: of the cell, or of h past the products

  // The units of some groups of one batch entry; `products` is the heads' gradient of h_t.
  void cells(int64_t t, int64_t b, Share groups, const T* products) {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden, first = groups.begin * panel, at = b * H + first;
    const int64_t own = b * hidden_stride() + first;
    const int width = int(std::min(groups.end * panel, H) - first);
    T* to = f.grad_gates_at(t) + b * f.inner() + first;
    if (t >= f.length_of(b)) {
      for (int lane = 0; lane < Controller::lane_count; ++lane) clear_values(to + lane * H, width);
      return;
    }
    if (t + 1 == f.length_of(b)) {  // no gradient from a next step
      if (c.grad_hidden_last)
        axpy<T>(width, 1, as<T>(c.grad_hidden_last) + at, grad_hidden_ + own);
      if (Controller::has_cell && c.grad_cell_last)
        axpy<T>(width, 1, as<T>(c.grad_cell_last) + at, carry_ + own);
    }
    const T* of_outputs =
        c.grad_outputs ? as<T>(c.grad_outputs) + t * c.batch * H + at : nullptr;
    Controller::backward(UnitsBackward<T>{
        grad_hidden_ + own, products + first, of_outputs, H,
        f.gates_at(t) + b * f.inner() + first, f.hidden_at(t - 1) + at, f.cell_at(t - 1) + at,
        f.tanh_cells_at(t) + at, f.hidden_at(t) + at, carry_ + own, to, width});
  }

  void before(int64_t t, Share groups, Share entries, T* room) {
    const int64_t read_vectors = f.read_vector_groups();
    const Share of_read_vector{std::min(groups.begin, read_vectors), std::min(groups.end, read_vectors)};
    const Share of_hidden{std::max(groups.begin, read_vectors), std::max(groups.end, read_vectors)};
    auto first_panel = [&](Share share) {
      return share.count() == 0 ? nullptr
                                : before_panels_ + first_in_zigzag(share, t) * before_panel();
    };
    if (t % 2 == 0) before_read_vector(t, of_read_vector, entries, first_panel(of_hidden), room);
    before_hidden(t, of_hidden, entries, t % 2 == 0 ? nullptr : first_panel(of_read_vector), room);
    if (t % 2 != 0) before_read_vector(t, of_read_vector, entries, nullptr, room);
  }

  void before_read_vector(int64_t t, Share groups, Share entries, const T* after, T* room) {
    const int64_t H = f.c.hidden, inner = f.inner(), stride = f.read_vector_groups() * panel;
    constexpr LaneRange lanes_of = Controller::read_vector_lanes;
    const T* from = f.grad_gates_at(t) + entries.begin * inner + lanes_of.first * H;
    const Product<T> product{{from, inner, lanes_of.count * H},
                             {from, inner, 0},
                             f.c.read_vector,
                             before_panels_,
                             before_panel(),
                             nullptr,
                             0,
                             grad_read_vector_ + entries.begin * stride,
                             stride,
                             after,
                             f.precision,
                             room};
    multiply(product, entries.count(), groups, t);
  }

  void before_hidden(int64_t t, Share groups, Share entries, const T* after, T* room) {
    const int64_t H = f.c.hidden, inner = f.inner(), read_vectors = f.read_vector_groups();
    constexpr LaneRange one = Controller::hidden_lanes[0], two = Controller::hidden_lanes[1];
    const T* from = f.grad_gates_at(t) + entries.begin * inner;
    const Product<T> product{{from + one.first * H, inner, hidden_inner(0)},
                             {from + two.first * H, inner, hidden_inner(1)},
                             H,
                             before_panels_ + read_vectors * before_panel(),
                             before_panel(),
                             nullptr,
                             0,
                             grad_hidden_ + entries.begin * hidden_stride(),
                             hidden_stride(),
                             after,
                             f.precision,
                             room};
    multiply(product, entries.count(), {groups.begin - read_vectors, groups.end - read_vectors}, t);
  }

  int64_t before_panel() const {
    return std::max(f.panel_of(f.inner()),
                    f.panel_of(hidden_inner(0)) + f.panel_of(hidden_inner(1)));
  }
  int64_t left_room() const {
    return std::min(f.c.batch, rows_at_once) *
           std::max({f.left_of(f.head_rows), f.left_of(f.inner()),
                     f.left_of(hidden_inner(0), hidden_inner(1))});
  }
  int64_t hidden_stride() const { return f.unit_groups() * panel; }
  int64_t hidden_inner(int range) const {
    return f.c.weight_hh ? Controller::hidden_lanes[range].count * f.c.hidden : 0;
  }

  // An entry of length 0 passes its gradient through.
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
