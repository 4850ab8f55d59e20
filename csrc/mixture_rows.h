// The cells of one call through time: forward in place, backward with the cells made again.
//
// Only a cell that a later reading can still hold something of gets a gradient, unless the final
// cells have one: k + T - t of them at step t. The forward pass therefore keeps the weights and
// values of each step, and all cells every `block` steps; the backward pass makes the cells of a
// block again, no deeper than it needs, in two levels: those at every eighth step, and from there
// those of eight steps. With blocks of sqrt(T) steps all that is kept, over both passes, is about
// 2 sqrt(T) times the final cells and not T times.
#pragma once

#include <limits>

#include "frame.h"
#include "mixture.h"
#include "workspace.h"

namespace unbounded {

template <class T>
constexpr T empty_cell = T(-1);
// Of the second level; blocks are multiples of it.
constexpr int64_t few_steps = 8;

// Where everything lies, for both directions.
template <class T, class Places>
struct MixtureSizes {
  int64_t count, depth, actions, limit, stride, head, rows;
  bool keeps;

  explicit MixtureSizes(const UnboundedCall& c)
      : count(c.count),
        depth(c.depth),
        actions(c.actions),
        limit(c.limit),
        stride((c.count + lanes<T> - 1) / lanes<T> * lanes<T>),
        head(Places::head(Places::grown(c.initial_rows, c.capacity, c.limit), c.depth)),
        rows(Places::rows(Places::grown(c.initial_rows, c.capacity, c.limit), c.depth)),
        keeps(c.actions > Places::basic_actions) {}

  int64_t planes_size() const { return (actions + 1) * stride; }
  int64_t reading_size() const { return count * depth; }
  int64_t head_count() const { return count * (actions + 1); }
  int64_t cells_after(const UnboundedCall& c, int64_t steps) const {
    return Places::grown(c.initial_rows, steps, limit);
  }
  Span existing(int64_t cells) const { return Places::existing(head, cells); }
  Span reachable(int64_t later) const { return Places::reachable(head, depth, later); }
  int64_t read_row(int64_t j) const { return Places::read_row(head, j); }

  Planes<T> planes_at(const UnboundedCall& c, int64_t t, int64_t b) const {
    return {as<T>(c.planes) + ((c.saves ? t : t % c.block) * c.batch + b) * planes_size(), stride};
  }
  // All rows at the end of a block, of one batch entry.
  T* checkpoint(const UnboundedCall& c, int64_t b, int64_t block) const {
    const int64_t blocks = c.steps > 0 ? (c.steps - 1) / c.block : 0;
    return as<T>(c.checkpoints) + (b * blocks + block - 1) * rows * stride;
  }

  // From [S, N] to rows, those in `wanted` only, and back.
  void spread(const CellRows<T>& to, const T* from, int64_t cells, Span wanted) const {
    const Span all = existing(cells), some = common(all, wanted);
    for (int64_t s = 0; s < count; ++s)
      for (int64_t row = some.begin; row < some.end; ++row)
        to.at(row)[s] = from[s * cells + row - all.begin];
  }
  void gather(T* to, const CellRows<T>& from, int64_t cells, Span wanted) const {
    const Span all = existing(cells);
    for (int64_t s = 0; s < count; ++s)
      for (int64_t row = all.begin; row < all.end; ++row)
        to[s * cells + row - all.begin] = wanted.has(row) ? from.at(row)[s] : T(0);
  }

  void mix(const CellRows<T>& to, const CellRows<T>& from, Span span, const Planes<T>& in) const {
    for (int64_t lane = 0; lane < stride; lane += lanes<T>)
      if (keeps)
        Places::template mix<T, true>(to, from, span, head, in, lane);
      else
        Places::template mix<T, false>(to, from, span, head, in, lane);
  }
  void unmix(const CellRows<T>& grad, const CellRows<T>& old, Span span, const Planes<T>& in,
             const Planes<T>& out) const {
    for (int64_t lane = 0; lane < stride; lane += lanes<T>)
      if (keeps)
        Places::template unmix<T, true>(grad, old, span, head, in, out, lane);
      else
        Places::template unmix<T, false>(grad, old, span, head, in, out, lane);
  }
};

// Cells that no reading of the block can hold anything of wait for its last step, and then take all
// its steps while they are in the nearest cache. What the nearer cells show them is kept till then.
template <class T, class Places>
class MixtureForward {
 public:
  const MixtureSizes<T, Places> sizes;

  explicit MixtureForward(const UnboundedCall& call) : sizes(call), c(call) {}

  void take_parts(Workspace& space) {
    space.part(cells_, c.batch * sizes.rows * sizes.stride);
    space.part(edges_, c.batch * c.block * 2 * sizes.stride);
  }

  void begin(int64_t b) {
    const CellRows<T> rows = rows_of(b);
    rows.fill_rows({0, sizes.rows}, empty_cell<T>);
    const int64_t cells = c.initial_rows;
    sizes.spread(rows, as<T>(c.memory0) + b * sizes.count * cells, cells, {0, sizes.rows});
  }

  // One step with the weights and values of planes_at(t, b); writes the reading.
  void step(int64_t t, int64_t b, int64_t length, T* reading) {
    const CellRows<T> rows = rows_of(b);
    const Span all = existing_after(t + 1), near = near_after(t + 1, length);
    if (c.overflow && all.end == existing_after(t).end)
      look_for_overflow(b, rows, all, sizes.planes_at(c, t, b));
    if (near.begin > all.begin) copy_values(edge(t, b, 0), rows.at(near.begin), sizes.stride);
    if (near.end < all.end) copy_values(edge(t, b, 1), rows.at(near.end - 1), sizes.stride);
    sizes.mix(rows, rows, near, sizes.planes_at(c, t, b));
    for (int64_t j = 0; j < sizes.depth; ++j) {
      const T* row = rows.at(sizes.read_row(j));
      for (int64_t s = 0; s < sizes.count; ++s) reading[s * sizes.depth + j] = row[s];
    }
    if (t + 1 == length || (t + 1) % c.block == 0) catch_up(t, b, length);
    if (c.saves && (t + 1) % c.block == 0 && t + 1 < c.steps)
      copy_values(sizes.checkpoint(c, b, (t + 1) / c.block), rows.data, sizes.rows * sizes.stride);
  }

  void finish(int64_t b) {
    const int64_t cells = sizes.cells_after(c, c.first_step + c.steps);
    sizes.gather(as<T>(c.memory_last) + b * sizes.count * cells, rows_of(b), cells,
                 {0, sizes.rows});
  }

 private:
  const UnboundedCall& c;
  T* cells_ = nullptr;  // [B][row][structure]
  T* edges_ = nullptr;  // [B][step of the block][first, last of the near cells][structure]

  CellRows<T> rows_of(int64_t b) const {
    return {cells_ + b * sizes.rows * sizes.stride, sizes.stride, 0};
  }
  T* edge(int64_t t, int64_t b, int end) const {
    return edges_ + ((b * c.block + t % c.block) * 2 + end) * sizes.stride;
  }
  Span existing_after(int64_t steps) const {
    return sizes.existing(sizes.cells_after(c, c.first_step + steps));
  }
  // Cells after so many steps that a reading of the block can still hold something of. What is lost
  // must be seen at once if it matters, and then all are near.
  Span near_after(int64_t steps, int64_t length) const {
    const Span all = existing_after(steps);
    const int64_t end = std::min(length, (steps - 1) / c.block * c.block + c.block);
    return c.overflow ? all : common(all, sizes.reachable(end - steps));
  }

  void catch_up(int64_t last, int64_t b, int64_t length) {
    for (int64_t t = last / c.block * c.block; t <= last; ++t) {
      const Span all = existing_after(t + 1), near = near_after(t + 1, length);
      if (near.begin > all.begin) far_step(t, b, {all.begin, near.begin}, near.begin, edge(t, b, 0));
      if (near.end < all.end) far_step(t, b, {near.end, all.end}, near.end - 1, edge(t, b, 1));
    }
  }
  // `row` is the near cell beside the far ones; it has gone on, and is what it was for a moment.
  void far_step(int64_t t, int64_t b, Span far, int64_t row, T* edge) {
    const CellRows<T> rows = rows_of(b);
    std::swap_ranges(edge, edge + sizes.stride, rows.at(row));
    sizes.mix(rows, rows, far, sizes.planes_at(c, t, b));
    std::swap_ranges(edge, edge + sizes.stride, rows.at(row));
  }

  void look_for_overflow(int64_t b, const CellRows<T>& rows, Span cells, const Planes<T>& in) {
    constexpr T rounding = 64 * std::numeric_limits<T>::epsilon();
    for (int64_t lane = 0; lane < sizes.stride; lane += lanes<T>)
      Places::lost(cells, in, lane, [&](int64_t row, Vector<T> weight, int end) {
        const T* held = rows.at(row) + lane;
        for (int64_t s = 0; s < std::min<int64_t>(lanes<T>, sizes.count - lane); ++s)
          if (weight[s] > 0 && !(held[s] - empty_cell<T> <= rounding &&
                                 held[s] - empty_cell<T> >= -rounding))
            c.overflow[b] |= end;
      });
  }
};

template <class T, class Places>
class MixtureBackward {
 public:
  const MixtureSizes<T, Places> sizes;

  explicit MixtureBackward(const UnboundedCall& call) : sizes(call), c(call) {
    const Span inside{row_margin, sizes.rows - row_margin};
    window_ = c.grad_memory_last ? inside : common(inside, sizes.reachable(c.steps));
    window_ = {window_.begin - row_margin, window_.end + row_margin};
  }

  void take_parts(Workspace& space) {
    slots_ = (std::min(c.block, c.steps) + few_steps - 1) / few_steps + few_steps - 1;
    space.part(cells_, c.batch * slots_ * window_size());
    space.part(grad_, c.batch * window_size());
    space.part(grad_planes_, c.batch * sizes.planes_size());
  }

  void begin(int64_t b, int64_t length) {
    const CellRows<T> grad = grad_of(b);
    grad.fill_rows(window_, T(0));
    if (c.grad_memory_last) {
      const int64_t cells = sizes.cells_after(c, c.steps);
      sizes.spread(grad, as<T>(c.grad_memory_last) + b * sizes.count * cells, cells, window_);
      clear_outside(grad, sizes.cells_after(c, length), sizes.existing(cells));
    }
  }

  // From the gradient of a step's reading to that of its weights and values.
  Planes<T> step(int64_t t, int64_t b, int64_t length, const T* grad_reading) {
    if (t + 1 == length || (t + 1) % c.block == 0) make_block(t, b, length);
    if (t + 1 == length || (t + 1) % few_steps == 0) make_few(t, b, length);
    const CellRows<T> grad = grad_of(b);
    const Planes<T> out{grad_planes_ + b * sizes.planes_size(), sizes.stride};
    const int64_t after = sizes.cells_after(c, t + 1);
    for (int64_t j = 0; j < sizes.depth; ++j) {
      const int64_t row = sizes.read_row(j);
      if (!sizes.existing(after).has(row)) break;
      T* to = grad.at(row);
      for (int64_t s = 0; s < sizes.count; ++s) to[s] += grad_reading[s * sizes.depth + j];
    }
    const Span span = needed(t + 1, length);
    sizes.unmix(grad, cells_at(t, b), span, sizes.planes_at(c, t, b), out);
    clear_outside(grad, sizes.cells_after(c, t), {span.begin - 1, span.end + 1});
    return out;
  }

  void end(int64_t b) {
    if (c.grad_memory0)
      sizes.gather(as<T>(c.grad_memory0) + b * sizes.count * c.initial_rows, grad_of(b),
                   c.initial_rows, window_);
  }

 private:
  const UnboundedCall& c;
  Span window_;                // rows that the buffers below have
  int64_t slots_ = 0;
  T* cells_ = nullptr;         // [B][slot][row][structure]
  T* grad_ = nullptr;          // [B][row][structure]
  T* grad_planes_ = nullptr;   // [B][action or value][structure]

  int64_t window_size() const { return (window_.end - window_.begin) * sizes.stride; }
  CellRows<T> grad_of(int64_t b) const {
    return {grad_ + b * window_size(), sizes.stride, window_.begin};
  }
  // The cells before step t: the first `few_steps` - 1 slots are those between eighth steps.
  CellRows<T> cells_at(int64_t t, int64_t b) const {
    const int64_t among = t % few_steps, eighth = t % c.block / few_steps;
    const int64_t slot = among > 0 ? among - 1 : few_steps - 1 + eighth;
    return {cells_ + (b * slots_ + slot) * window_size(), sizes.stride, window_.begin};
  }

  // The cells after t steps that can have a gradient.
  Span needed(int64_t t, int64_t length) const {
    const Span all = sizes.existing(sizes.cells_after(c, t));
    return c.grad_memory_last ? all : common(all, sizes.reachable(length - t));
  }

  // No gradient goes to a cell that did not exist.
  void clear_outside(const CellRows<T>& grad, int64_t cells, Span touched) const {
    const Span all = sizes.existing(cells), rows = common(touched, window_);
    grad.fill_rows({rows.begin, std::max(rows.begin, std::min(all.begin, rows.end))}, T(0));
    grad.fill_rows({std::min(std::max(all.end, rows.begin), rows.end), rows.end}, T(0));
  }

  // One step of the cells that are needed; beyond those that exist all are empty, and beyond those
  // that are needed none is looked at.
  void go_on(const CellRows<T>& to, const CellRows<T>& from, int64_t t, int64_t b,
             int64_t length) const {
    const Span span = needed(t + 1, length);
    sizes.mix(to, from, span, sizes.planes_at(c, t, b));
    surround(to, span);
  }
  void surround(const CellRows<T>& rows, Span span) const {
    rows.fill_rows({span.begin - row_margin, span.begin}, empty_cell<T>);
    rows.fill_rows({span.end, span.end + row_margin}, empty_cell<T>);
  }

  // The cells at every eighth step of the block that ends with step `last`.
  void make_block(int64_t last, int64_t b, int64_t length) {
    const int64_t first = last / c.block * c.block;
    const Span span = needed(first, length);
    CellRows<T> rows = cells_at(first, b);
    if (first == 0) {
      sizes.spread(rows, as<T>(c.memory0) + b * sizes.count * c.initial_rows, c.initial_rows,
                   span);
    } else {
      const CellRows<T> kept{sizes.checkpoint(c, b, first / c.block), sizes.stride, 0};
      copy_values(rows.at(span.begin), kept.at(span.begin),
                  (span.end - span.begin) * sizes.stride);
    }
    surround(rows, span);
    for (int64_t t = first; t < last / few_steps * few_steps; ++t) {
      const CellRows<T> next = t % few_steps == 0 ? cells_at(t + few_steps, b) : rows;
      go_on(next, rows, t, b, length);
      rows = next;
    }
  }
  // The cells before each of up to eight steps, the last one of which is `last`.
  void make_few(int64_t last, int64_t b, int64_t length) {
    for (int64_t t = last / few_steps * few_steps; t < last; ++t)
      go_on(cells_at(t + 1, b), cells_at(t, b), t, b, length);
  }
};

}  // namespace unbounded
