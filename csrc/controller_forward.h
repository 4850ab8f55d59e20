// The forward pass of a controller: packed weights, their products, and the cells of controllers.h.
//
// All products of a step come first, then its cells, batch entry by batch entry. Their many buffers
// are thus read and written in long runs.
#pragma once

#include "controller.h"
#include "controllers.h"
#include "frame.h"
#include "products.h"

namespace unbounded {

template <class T, class Controller>
class ControllerForwardOf final : public ControllerForward<T> {
  static constexpr int panel = panel_width<T>;

 public:
  explicit ControllerForwardOf(const Frame<T>& frame) : f(frame) {}

  void take_scratch(Workspace& space, int64_t threads) override {
    space.take(panels_, f.unit_groups() * Controller::lane_count * lane_panel());
    space.take(x_panels_, f.unit_groups() * Controller::read_vector_lanes.count * x_panel());
    space.take(starts_, f.unit_groups() * Controller::lane_count * panel);
    space.take(products_, threads * std::min(f.c.batch, rows_at_once) * row_stride());
    space.take(left_, threads * left_room());
  }

  void pack(Share groups) override {
    const UnboundedCall& c = f.c;
    for (int64_t g = groups.begin; g < groups.end; ++g)
      for (int lane = 0; lane < Controller::lane_count; ++lane) {
        T* to = panel_of(g, lane);
        const int64_t columns = c.hidden - g * panel;
        const int of_read_vector = read_vector_block<Controller>(lane);
        const int of_hidden = hidden_block<Controller>(lane);
        T* start = start_of(g, lane);
        clear_values(start, panel);
        if (of_read_vector >= 0) {
          const int64_t first = of_read_vector * c.hidden + g * panel;
          if (c.bias_ih) add_bias(start, as<T>(c.bias_ih) + first, columns);
          pack_transposed(f.precision, x_panel_of(g, of_read_vector),
                          as<T>(c.weight_ih) + first * f.input_columns(), f.input_columns(),
                          c.inputs, columns);
          pack_transposed(f.precision, to,
                          as<T>(c.weight_ih) + first * f.input_columns() + c.inputs,
                          f.input_columns(), c.read_vector, columns);
          to += f.panel_of(c.read_vector);
        }
        if (of_hidden < 0) continue;
        const int64_t first = of_hidden * c.hidden + g * panel;
        if (c.bias_hh) add_bias(start, as<T>(c.bias_hh) + first, columns);
        if (c.weight_hh)
          pack_transposed(f.precision, to, as<T>(c.weight_hh) + first * c.hidden, c.hidden,
                          c.hidden, columns);
      }
  }

  void project(int64_t first_step, int64_t steps, Share groups, Share entries,
               int64_t thread) override {
    if (f.in_tiles()) {
      T* room = left_ + thread * left_room();
      // Here a few finished rows cost less than weights that are read for few rows.
      if (entries.begin == 0 && 2 * entries.count() > f.c.batch)
        return project_tiles(first_step * f.c.batch, steps * f.c.batch, groups, room);
      for (int64_t t = first_step; t < first_step + steps; ++t)
        project_tiles(t * f.c.batch + entries.begin, entries.count(), groups, room);
      return;
    }
    for (int64_t g = groups.begin; g < groups.end; ++g)
      for (int block = 0; block < Controller::read_vector_lanes.count; ++block) {
        // All entries of all steps form one run of rows.
        if (entries.count() == f.c.batch) {
          project(first_step * f.c.batch, steps * f.c.batch, g, block);
          continue;
        }
        for (int64_t t = first_step; t < first_step + steps; ++t)
          project(t * f.c.batch + entries.begin, entries.count(), g, block);
      }
  }

  void step(int64_t t, Share groups, Share entries, int64_t thread) override {
    if (groups.count() == 0) return;
    T* products = products_ + thread * std::min(f.c.batch, rows_at_once) * row_stride();
    const Share going = going_on(f, t, entries);
    for_chunks(going, [&](Share chunk) {
      if (f.in_tiles())
        multiply_tiled(t, groups, chunk, products, left_ + thread * left_room());
      else if (chunk.count() <= few_rows)
        for (int lane = 0; lane < Controller::lane_count; ++lane)
          multiply_lane(t, lane, groups, chunk, products, nullptr);
      else
        zigzag(groups, t, [&](int64_t g) {
          for (int lane = 0; lane < Controller::lane_count; ++lane) {
            const T* after = lane + 1 < Controller::lane_count
                                 ? panel_of(g, lane + 1)
                                 : panel_of(after_in_zigzag(g, groups, t), 0);
            multiply_lane(t, lane, {g, g + 1}, chunk, products, after);
          }
        });
      for (int64_t b = chunk.begin; b < chunk.end; ++b)
        cells(t, b, groups, products + (b - chunk.begin) * row_stride());
    });
    for (int64_t b = going.end; b < entries.end; ++b) cells(t, b, groups, products);
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
  T* panels_ = nullptr;    // [unit group][lane][read_vector then hidden][panel]
  T* x_panels_ = nullptr;  // [unit group][lane with an x part][I][panel]
  T* starts_ = nullptr;    // [unit group][lane][panel]: the biases
  T* products_ = nullptr;  // [thread][row][lane][padded hidden], rows padded
  T* left_ = nullptr;      // [thread]: x, or r and h, in tiles

  // A lane of a group of units, for rows of [T * B].
  void project(int64_t first, int64_t count, int64_t group, int block) {
    const int64_t H = f.c.hidden, I = f.c.inputs;
    const int lane = Controller::read_vector_lanes.first + block;
    const int64_t columns = H - group * panel;
    const T* own = x_panel_of(group, block);
    T* gates = as<T>(f.c.gates) + lane * H + group * panel;
    for_row_blocks(first, count, [&](int64_t n0, int rows) {
      const Segment<T> x{as<T>(f.c.x) + n0 * I, I, I};
      T* to = gates + n0 * f.inner();
      if (columns >= panel)
        return panel_product(rows, columns, x, Segment<T>{x.data, 0, 0},
                             static_cast<const T*>(nullptr), own, own, to, f.inner());
      T whole[UNBOUNDED_MAX_ROWS * panel];
      panel_product(rows, columns, x, Segment<T>{x.data, 0, 0}, static_cast<const T*>(nullptr), own,
                    own, whole, panel);
      for (int r = 0; r < rows; ++r)
        copy_values(to + r * f.inner(), whole + r * panel, columns);
    });
  }

  // All lanes of some groups of units, for rows of [T * B], in tiles.
  void project_tiles(int64_t first, int64_t count, Share groups, T* room) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const int64_t H = f.c.hidden, I = f.c.inputs;
      for (const int64_t end = first + count; first < end; first += count) {
        count = std::min(rows_in_tiles, end - first);
        const Segment<T> x{as<T>(f.c.x) + first * I, I, I};
        const Left left = round_rows(f.precision, x, {x.data, 0, 0}, count, room);
        TileShapes shapes(int(std::min(count, tile_height)));
        for (int64_t g = groups.begin; g < groups.end; ++g)
          for (int block = 0; block < Controller::read_vector_lanes.count; ++block)
            for_tile_blocks(count, [&](int64_t n, int rows) {
              const int lane = Controller::read_vector_lanes.first + block;
              T* to = as<T>(f.c.gates) + (first + n) * f.inner() + lane * H + g * panel;
              T whole[tile_height * panel];
              const bool fits = H - g * panel >= panel;
              shapes.want(rows);
              tile_product(f.precision, in_depths(I), left.at_row(n), x_panel_of(g, block), nullptr,
                           0, fits ? to : whole, fits ? f.inner() : panel);
              for (int r = 0; !fits && r < rows; ++r)
                copy_values(to + r * f.inner(), whole + r * panel, H - g * panel);
            });
      }
    }
  }

  // All lanes of some groups of units, for all rows, which are rounded once.
  void multiply_tiled(int64_t t, Share groups, Share rows, T* products, T* room) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const int64_t H = f.c.hidden, R = f.c.read_vector;
      const Left left =
          round_rows(f.precision, {f.read_vector_at(t - 1) + rows.begin * R, R, R},
                     {f.hidden_at(t - 1) + rows.begin * H, H, f.c.weight_hh ? H : 0}, rows.count(),
                     room);
      TileShapes shapes(int(std::min(rows.count(), tile_height)));
      // The panels of a group are contiguous.
      zigzag(groups, t, [&](int64_t g) {
        for (int lane = 0; lane < Controller::lane_count; ++lane) {
          const Product<T> product = product_of(t, lane, rows, products, nullptr);
          const int64_t skipped = product.first.count == 0 ? in_depths(R) : 0;
          multiply_tiles(product, left.from_depth(skipped), rows.count(), g, shapes);
        }
      });
    }
  }

  // One lane of some groups of units, for all rows.
  void multiply_lane(int64_t t, int lane, Share groups, Share rows, T* products,
                     const T* after) {
    multiply(product_of(t, lane, rows, products, after), rows.count(), groups, t);
  }
  Product<T> product_of(int64_t t, int lane, Share rows, T* products, const T* after) const {
    const int64_t H = f.c.hidden, R = f.c.read_vector;
    const int64_t from_read_vector = read_vector_block<Controller>(lane) >= 0 ? R : 0;
    const int64_t from_hidden = hidden_block<Controller>(lane) >= 0 && f.c.weight_hh ? H : 0;
    return {{f.read_vector_at(t - 1) + rows.begin * R, R, from_read_vector},
            {f.hidden_at(t - 1) + rows.begin * H, H, from_hidden},
            H,
            panel_of(0, lane),
            Controller::lane_count * lane_panel(),
            start_of(0, lane),
            Controller::lane_count * panel,
            products + lane * lane_stride(),
            row_stride(),
            after,
            f.precision};
  }

  // The units of some groups, for one batch entry.
  void cells(int64_t t, int64_t b, Share groups, const T* products) {
    const UnboundedCall& c = f.c;
    const int64_t H = c.hidden, first = groups.begin * panel, at = b * H + first;
    const int width = int(std::min(groups.end * panel, H) - first);
    T* out = as<T>(c.outputs) + t * c.batch * H + at;
    if (t >= f.length_of(b)) return clear_values(out, width);
    T* cell = f.cell_out(t) + at;
    Controller::forward(UnitsForward<T>{products + first, lane_stride(), H,
                                        f.gates_at(t) + b * f.inner() + first,
                                        f.hidden_at(t - 1) + at, f.cell_at(t - 1) + at, cell,
                                        f.tanh_cells_at(t) + at, out, width, c.saves != 0});
    if (t + 1 < f.length_of(b)) return;
    copy_values(as<T>(c.hidden_last) + at, out, width);
    if (Controller::has_cell) copy_values(as<T>(c.cell_last) + at, cell, width);
  }

  int64_t lane_stride() const { return f.unit_groups() * panel; }
  int64_t left_room() const {
    return std::max(std::min(f.c.batch, rows_at_once) * f.left_of(f.c.read_vector, f.c.hidden),
                    rows_in_tiles * f.left_of(f.c.inputs));
  }
  // Not a power of two: all rows of a block would map to the same lines of the nearest cache.
  int64_t row_stride() const { return Controller::lane_count * lane_stride() + panel; }
  T* panel_of(int64_t group, int lane) const {
    return panels_ + (group * Controller::lane_count + lane) * lane_panel();
  }
  T* start_of(int64_t group, int lane) const {
    return starts_ + (group * Controller::lane_count + lane) * panel;
  }
  T* x_panel_of(int64_t group, int block) const {
    return x_panels_ + (group * Controller::read_vector_lanes.count + block) * x_panel();
  }
  int64_t x_panel() const { return f.panel_of(f.c.inputs); }
  int64_t lane_panel() const { return f.panel_of(f.c.read_vector) + f.panel_of(f.c.hidden); }
};

}  // namespace unbounded
