// Superposition stacks and lists as memories of the frame: their cells through time.
//
// Options: structures, actions, depth, capacity (0 for none), strict, width, the bits of the number
// in an empty cell as a double. Heads: actions of each structure, values. State: cells [S, N, W].
// Saved: planes [T, B, actions + 1, S W padded to whole registers]. Checkpoints: all rows. Errors:
// 1, 2 if a cell that is not empty was lost at the first or the second end.
//
// The W numbers of a cell stand side by side in a row, each with the weights of its structure.
//
// Forward, cells change in place. Only a cell that can affect a later read vector gets a gradient,
// unless the final cells have one: k + T - t cells at step t. The backward pass thus recomputes the
// cells of a block only as deep as needed.
#pragma once

#include <cstring>
#include <limits>

#include "checkpoints.h"
#include "planes.h"

namespace unbounded {

// The layout, for both directions.
template <class T, class Places>
struct MixtureSizes {
  const Frame<T>& f;
  int64_t count, depth, actions, capacity, width, stride, head, rows;
  T empty;
  bool keeps;

  explicit MixtureSizes(const Frame<T>& frame)
      : f(frame),
        count(f.c.heads[0].count),
        depth(f.c.options[2]),
        actions(f.c.heads[0].size),
        capacity(f.c.options[3]),
        width(f.c.options[5]),
        stride((count * width + lanes<T> - 1) / lanes<T> * lanes<T>),
        head(Places::head(Places::grown(f.c.rows, f.c.room, capacity), depth)),
        rows(Places::rows(Places::grown(f.c.rows, f.c.room, capacity), depth)),
        empty(number_of(f.c.options[6])),
        keeps(actions > Places::basic_actions) {}

  static T number_of(int64_t bits) {
    double number;
    std::memcpy(&number, &bits, sizeof number);
    return T(number);
  }
  int64_t planes_size() const { return (actions + 1) * stride; }
  int64_t cells_after(int64_t steps) const { return Places::grown(f.c.rows, steps, capacity); }
  // The place of a batch entry in a state.
  int64_t offset(int64_t b, int64_t cells) const { return b * count * cells * width; }
  Span existing(int64_t cells) const { return Places::existing(head, cells); }
  Span reachable(int64_t later) const { return Places::reachable(head, depth, later); }
  int64_t read_row(int64_t j) const { return Places::read_row(head, j); }
  Planes<T> saved_planes(int64_t t, int64_t b) const {
    return {as<T>(f.c.saved[0]) + (t * f.c.batch + b) * planes_size(), stride};
  }

  // Maps [S, N, W] to rows, only those in `wanted`, and back.
  void spread(const CellRows<T>& to, const T* from, int64_t cells, Span wanted) const {
    const Span all = existing(cells), some = common(all, wanted);
    for (int64_t s = 0; s < count; ++s)
      for (int64_t row = some.begin; row < some.end; ++row)
        for (int64_t m = 0; m < width; ++m)
          to.at(row)[s * width + m] = from[(s * cells + row - all.begin) * width + m];
  }
  void gather(T* to, const CellRows<T>& from, int64_t cells, Span wanted) const {
    const Span all = existing(cells);
    for (int64_t s = 0; s < count; ++s)
      for (int64_t row = all.begin; row < all.end; ++row)
        for (int64_t m = 0; m < width; ++m)
          to[(s * cells + row - all.begin) * width + m] =
              wanted.has(row) ? from.at(row)[s * width + m] : T(0);
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

// Cells that cannot affect a read vector of the block wait for its last step. Then they take all
// steps while they are in the nearest cache. Until then the adjacent near cells are recorded for
// them.
template <class T, class Places>
class SuperpositionForward final : public MemoryForward<T> {
 public:
  explicit SuperpositionForward(const Frame<T>& frame) : f(frame), c(frame.c), sizes(frame) {}

  void take_scratch(Workspace& space) override {
    space.take(cells_, c.batch * sizes.rows * sizes.stride);
    space.take(edges_, c.batch * c.block * 2 * sizes.stride);
    space.take(given_, c.batch * f.head_rows);
    if (!c.saves) space.take(planes_, c.batch * c.block * sizes.planes_size());
  }

  void begin(int64_t b) override {
    const CellRows<T> rows = rows_of(b);
    rows.fill_rows({0, sizes.rows}, sizes.empty);
    sizes.spread(rows, as<T>(c.state0[0]) + sizes.offset(b, c.rows), c.rows, {0, sizes.rows});
  }

  void take(int64_t t, int64_t b, const Instruction<T>& instruction) override {
    take_planes(instruction, planes_at(t, b), sizes.width, given_ + b * f.head_rows);
  }

  void step(int64_t t, int64_t b, T* read_vector) override {
    const int64_t length = f.length_of(b);
    const CellRows<T> rows = rows_of(b);
    const Span all = existing_after(t + 1), near = near_after(t + 1, length);
    if (c.error && all.end == existing_after(t).end)
      look_for_overflow(b, rows, all, planes_at(t, b));
    if (near.begin > all.begin) copy_values(edge(t, b, 0), rows.at(near.begin), sizes.stride);
    if (near.end < all.end) copy_values(edge(t, b, 1), rows.at(near.end - 1), sizes.stride);
    sizes.mix(rows, rows, near, planes_at(t, b));
    // Local sizes: a store may alias whatever a reference points to.
    const int64_t count = sizes.count, depth = sizes.depth, width = sizes.width;
    for (int64_t j = 0; j < depth; ++j) {
      const T* row = rows.at(sizes.read_row(j));
      T* to = read_vector + j * width;
      for (int64_t s = 0; s < count; ++s, row += width, to += depth * width)
        for (int64_t m = 0; m < width; ++m) to[m] = row[m];
    }
    if (t + 1 == length || (t + 1) % c.block == 0) catch_up(t, b, length);
  }

  void keep(int64_t b, T* to) override {
    copy_values(to, rows_of(b).data, sizes.rows * sizes.stride);
  }

  void finish(int64_t b) override {
    const int64_t cells = sizes.cells_after(c.first_step + c.steps);
    sizes.gather(as<T>(c.state_last[0]) + sizes.offset(b, cells), rows_of(b), cells,
                 {0, sizes.rows});
  }

 private:
  const Frame<T>& f;
  const UnboundedCall& c;
  const MixtureSizes<T, Places> sizes;
  T* cells_ = nullptr;   // [B][row][structure]
  T* edges_ = nullptr;   // [B][step of the block][first, last of the near cells][structure]
  T* given_ = nullptr;   // [B][heads]
  T* planes_ = nullptr;  // [B][step of the block]: without a backward pass

  Planes<T> planes_at(int64_t t, int64_t b) const {
    if (c.saves) return sizes.saved_planes(t, b);
    return {planes_ + (b * c.block + t % c.block) * sizes.planes_size(), sizes.stride};
  }

  CellRows<T> rows_of(int64_t b) const {
    return {cells_ + b * sizes.rows * sizes.stride, sizes.stride, 0};
  }
  T* edge(int64_t t, int64_t b, int end) const {
    return edges_ + ((b * c.block + t % c.block) * 2 + end) * sizes.stride;
  }
  Span existing_after(int64_t steps) const {
    return sizes.existing(sizes.cells_after(c.first_step + steps));
  }
  // Cells after a number of steps that can still affect a read vector of the block. If losses are
  // errors they must be detected at once; then all cells are near.
  Span near_after(int64_t steps, int64_t length) const {
    const Span all = existing_after(steps);
    const int64_t end = std::min(length, (steps - 1) / c.block * c.block + c.block);
    return c.error ? all : common(all, sizes.reachable(end - steps));
  }

  void catch_up(int64_t last, int64_t b, int64_t length) {
    for (int64_t t = last / c.block * c.block; t <= last; ++t) {
      const Span all = existing_after(t + 1), near = near_after(t + 1, length);
      if (near.begin > all.begin) far_step(t, b, {all.begin, near.begin}, near.begin, edge(t, b, 0));
      if (near.end < all.end) far_step(t, b, {near.end, all.end}, near.end - 1, edge(t, b, 1));
    }
  }
  // `row` is the near cell next to the far ones; it has advanced, and is restored temporarily.
  void far_step(int64_t t, int64_t b, Span far, int64_t row, T* edge) {
    const CellRows<T> rows = rows_of(b);
    std::swap_ranges(edge, edge + sizes.stride, rows.at(row));
    sizes.mix(rows, rows, far, planes_at(t, b));
    std::swap_ranges(edge, edge + sizes.stride, rows.at(row));
  }

  void look_for_overflow(int64_t b, const CellRows<T>& rows, Span cells, const Planes<T>& in) {
    constexpr T rounding = 64 * std::numeric_limits<T>::epsilon();
    for (int64_t lane = 0; lane < sizes.stride; lane += lanes<T>)
      Places::lost(cells, in, lane, [&](int64_t row, Vector<T> weight, int end) {
        const T* held = rows.at(row) + lane;
        const int64_t numbers = std::min<int64_t>(lanes<T>, sizes.count * sizes.width - lane);
        for (int64_t i = 0; i < numbers; ++i)
          if (weight[i] > 0 && !(held[i] - sizes.empty <= rounding &&
                                 held[i] - sizes.empty >= -rounding))
            c.error[b] |= end;
      });
  }
};

template <class T, class Places>
class SuperpositionBackward final : public MemoryBackward<T> {
 public:
  explicit SuperpositionBackward(const Frame<T>& frame)
      : f(frame),
        c(frame.c),
        sizes(frame),
        window_(window()),
        cells_(frame, (window_.end - window_.begin) * sizes.stride) {}

  void take_scratch(Workspace& space) override {
    cells_.take_scratch(space);
    space.take(grad_, c.batch * window_size());
    space.take(grad_planes_, c.batch * sizes.planes_size());
    space.take(given_, c.batch * f.head_rows);
  }

  void begin(int64_t b) override {
    const CellRows<T> grad = grad_of(b);
    grad.fill_rows(window_, T(0));
    if (c.grad_state_last[0] == nullptr) return;
    const int64_t cells = sizes.cells_after(c.steps);
    sizes.spread(grad, as<T>(c.grad_state_last[0]) + sizes.offset(b, cells), cells, window_);
    clear_outside(grad, sizes.cells_after(f.length_of(b)), sizes.existing(cells));
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    const int64_t length = f.length_of(b);
    cells_.go_back_to(
        t, b, [&](int64_t first, T* to) { load(first, b, length, rows_at(to)); },
        [&](T* to, const T* from, int64_t at) {
          go_on(rows_at(to), rows_at(const_cast<T*>(from)), at, b, length);
        });
    const CellRows<T> grad = grad_of(b);
    const int64_t after = sizes.cells_after(t + 1);
    const int64_t count = sizes.count, depth = sizes.depth, width = sizes.width;
    for (int64_t j = 0; j < depth; ++j) {
      const int64_t row = sizes.read_row(j);
      if (!sizes.existing(after).has(row)) break;
      T* to = grad.at(row);
      const T* from = grad_read_vector + j * width;
      for (int64_t s = 0; s < count; ++s, to += width, from += depth * width)
        for (int64_t m = 0; m < width; ++m) to[m] += from[m];
    }
    const Span span = needed(t + 1, length);
    sizes.unmix(grad, rows_at(cells_.before(t, b)), span, sizes.saved_planes(t, b),
                grad_planes(b));
    clear_outside(grad, sizes.cells_after(t), {span.begin - 1, span.end + 1});
  }

  void give(int64_t t, int64_t b, const InstructionGradient<T>& gradient) override {
    give_planes(gradient, sizes.saved_planes(t, b), grad_planes(b), sizes.width,
                given_ + b * f.head_rows);
  }

  void end(int64_t b) override {
    if (c.grad_state0[0])
      sizes.gather(as<T>(c.grad_state0[0]) + sizes.offset(b, c.rows), grad_of(b), c.rows, window_);
  }

 private:
  const Frame<T>& f;
  const UnboundedCall& c;
  const MixtureSizes<T, Places> sizes;
  const Span window_;  // rows of the buffers below
  Checkpoints<T> cells_;
  T* grad_ = nullptr;         // [B][row][structure]
  T* grad_planes_ = nullptr;  // [B][action or value][structure]
  T* given_ = nullptr;        // [B][heads]

  Span window() const {
    const Span inside{row_margin, sizes.rows - row_margin};
    const Span some = c.grad_state_last[0] ? inside : common(inside, sizes.reachable(c.steps));
    return {some.begin - row_margin, some.end + row_margin};
  }
  int64_t window_size() const { return (window_.end - window_.begin) * sizes.stride; }
  CellRows<T> rows_at(T* data) const { return {data, sizes.stride, window_.begin}; }
  CellRows<T> grad_of(int64_t b) const { return rows_at(grad_ + b * window_size()); }
  Planes<T> grad_planes(int64_t b) const {
    return {grad_planes_ + b * sizes.planes_size(), sizes.stride};
  }

  // The cells after t steps that can have a gradient.
  Span needed(int64_t t, int64_t length) const {
    const Span all = sizes.existing(sizes.cells_after(t));
    return c.grad_state_last[0] ? all : common(all, sizes.reachable(length - t));
  }

  // A cell that did not exist gets no gradient.
  void clear_outside(const CellRows<T>& grad, int64_t cells, Span touched) const {
    const Span all = sizes.existing(cells), rows = common(touched, window_);
    grad.fill_rows({rows.begin, std::max(rows.begin, std::min(all.begin, rows.end))}, T(0));
    grad.fill_rows({std::min(std::max(all.end, rows.begin), rows.end), rows.end}, T(0));
  }

  // One step of the needed cells; cells beyond the existing ones are empty, and cells beyond the
  // needed ones are not read.
  void go_on(const CellRows<T>& to, const CellRows<T>& from, int64_t t, int64_t b,
             int64_t length) const {
    const Span span = needed(t + 1, length);
    sizes.mix(to, from, span, sizes.saved_planes(t, b));
    surround(to, span);
  }
  void surround(const CellRows<T>& rows, Span span) const {
    rows.fill_rows({span.begin - row_margin, span.begin}, sizes.empty);
    rows.fill_rows({span.end, span.end + row_margin}, sizes.empty);
  }

  // The cells before the first step of a block.
  void load(int64_t first, int64_t b, int64_t length, const CellRows<T>& rows) const {
    const Span span = needed(first, length);
    if (first == 0) {
      sizes.spread(rows, as<T>(c.state0[0]) + sizes.offset(b, c.rows), c.rows, span);
    } else {
      const CellRows<T> kept{f.checkpoint(b, first / c.block), sizes.stride, 0};
      copy_values(rows.at(span.begin), kept.at(span.begin),
                  (span.end - span.begin) * sizes.stride);
    }
    surround(rows, span);
  }
};

template <class Places>
struct Superposition {
  template <class T>
  using Forward = SuperpositionForward<T, Places>;
  template <class T>
  using Backward = SuperpositionBackward<T, Places>;
};

}  // namespace unbounded
