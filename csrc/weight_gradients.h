// Gradients of weights and biases: sums over all steps of outer products of the gradients G of
// gates or heads with their inputs S.
//
// grad W[g, k] = sum over n of G[n, g] S[n, k], where n counts the steps of all batch entries that
// still take part. The columns of S are packed into panels as in panel.h, a few columns of G into
// blocks, so that a tile of grad W stays in registers over the whole sum. Threads claim groups of
// blocks one after another: a thread that has to wait takes fewer, and the assignment changes no
// sum.
#pragma once

#include <atomic>

#include "frame.h"
#include "split.h"
#include "threads.h"
#include "workspace.h"

namespace unbounded {

// Inputs: row n of `rest`, preceded by `lead` rows of `first`.
template <class T>
struct Seen {
  const T* first;
  const T* rest;
  int64_t lead, columns;
  const T* row(int64_t n) const {
    return n < lead ? first + n * columns : rest + (n - lead) * columns;
  }
  int64_t panels() const { return padded<T>(columns) / panel_width<T>; }
};

// grad W of one S; `to` is the first of the columns in a row of `stride`.
template <class T>
struct Wanted {
  int seen;
  T* to;
  int64_t stride;
};

// Some columns of a G, and the sums needed of them; null for others. `is_later`: its input is the
// output of a step, not the input of the step.
template <class T>
struct Reached {
  const T* data;
  int64_t stride, first, columns;
  bool is_later;
  T* sums;
  T* sums_again;
  Wanted<T> wanted[3];
  int count;

  void want(const Wanted<T>& one) { wanted[count++] = one; }
};

template <class T>
class WeightGradients {
  static constexpr int panel = panel_width<T>;
  static constexpr int64_t block_stride = UNBOUNDED_MAX_ROWS > 8 ? 16 : 8;
  static constexpr int64_t blocks_at_once = 8;  // of columns of G, so that panels are read rarely
  static constexpr int64_t group_columns = blocks_at_once * UNBOUNDED_MAX_ROWS;
  static constexpr int64_t most_at_once = 1536;  // rows of G and S

 public:
  template <class Controller>
  void take(const Frame<T>& f) {
    const UnboundedCall& c = f.c;
    if (c.grad_head_weight == nullptr || c.steps == 0) return;
    const int64_t H = c.hidden, R = f.c.read_vector, I = c.inputs, row = I + R;
    batch_ = c.batch;
    all_ = c.steps * c.batch;
    frame_ = &f;
    going_first_ = count_ = going_on(f, 0, {0, batch_}).count();
    for (int64_t t = 0; t < c.steps; ++t) count_ += going_on(f, t, {0, batch_}).count();
    count_ -= last_ = going_on(f, c.steps - 1, {0, batch_}).count();
    seen_[0] = {nullptr, as<T>(c.x), 0, I};
    seen_[1] = {as<T>(c.read_vector0), as<T>(c.read_vectors), batch_, R};
    seen_[2] = {as<T>(c.hidden0), as<T>(c.outputs), batch_, H};
    for (int lane = 0; lane < f.lane_count;) {
      // As many lanes as share the same blocks of the weights, contiguous.
      int lanes_alike = 1;
      const int from_read_vector = read_vector_block<Controller>(lane);
      const int from_hidden = hidden_block<Controller>(lane);
      auto follows = [&](int block, int next) {
        return block < 0 ? next < 0 : next == block + lanes_alike;
      };
      while (lane + lanes_alike < f.lane_count &&
             follows(from_read_vector, read_vector_block<Controller>(lane + lanes_alike)) &&
             follows(from_hidden, hidden_block<Controller>(lane + lanes_alike)))
        ++lanes_alike;
      Reached<T>& g = add({f.grad_gates, f.inner(), lane * H, lanes_alike * H, false});
      if (from_read_vector >= 0) {
        g.sums = as<T>(c.grad_bias_ih) + from_read_vector * H;
        T* to = as<T>(c.grad_weight_ih) + from_read_vector * H * row;
        if (I > 0) g.want({0, to, row});
        g.want({1, to + I, row});
      }
      if (from_hidden >= 0) {
        if (c.grad_bias_hh) g.sums_again = as<T>(c.grad_bias_hh) + from_hidden * H;
        if (c.grad_weight_hh)
          g.want({2, as<T>(c.grad_weight_hh) + from_hidden * H * H, H});
      }
      lane += lanes_alike;
    }
    Reached<T>& heads = add({f.grad_products, f.head_rows, 0, f.head_rows, true});
    heads.sums = as<T>(c.grad_head_bias);
    heads.want({2, as<T>(c.grad_head_weight), H});
  }

  void take_scratch(Workspace& space, int64_t threads) {
    const int64_t rows = std::min(count_, most_at_once);
    for (int s = 0; s < 3; ++s) space.take(panels_[s], seen_[s].panels() * panel_room(rows));
    space.take(blocks_, threads * blocks_at_once * block_size(rows));
    if (in_tiles()) space.take(unrounded_, threads * depths_of(rows) * tile_depth * block_stride);
    space.take(place_, count_ + last_);
  }

  // By one thread, before all of them run.
  void list_rows() {
    int64_t n = 0;
    for (int64_t t = -1; frame_ && t < frame_->c.steps; ++t)
      for (int64_t b = 0, end = going_on(*frame_, std::max<int64_t>(t, 0), {0, batch_}).end;
           b < end; ++b)
        place_[n++] = (t + 1) * batch_ + b;
  }

  // Called by every thread, after all of G is complete.
  void run(int64_t thread, Team& team) {
    if (frame_ == nullptr) return;
    // Sums over no rows are 0.
    const int64_t chunks = std::max<int64_t>(1, (count_ + most_at_once - 1) / most_at_once);
    for (int64_t i = 0; i < chunks; ++i) {
      if (i > 0) team.wait();
      if (!team.keeps(thread)) return;
      const Share rows = share_of(count_, i, chunks);
      for (int s = 0; s < 3; ++s)
        pack_seen(s, rows, share_of(seen_[s].panels(), thread, team.threads()));
      if (thread == 0) claimed_.store(0, std::memory_order_relaxed);
      team.wait();
      if (!team.keeps(thread)) return;
      claim(rows, thread);
    }
  }

 private:
  const Frame<T>* frame_ = nullptr;  // null if no gradient is needed
  int64_t batch_ = 0, all_ = 0;      // all_: T * B
  // Rows of each sum; entries that take the first and the last step.
  int64_t count_ = 0, going_first_ = 0, last_ = 0;
  // Offsets of the rows of `seen_`: at n the previous outputs that a step takes, and the step's x
  // and gates; `going_first_` later the outputs of the step at n. Of the previous outputs there are
  // as many rows as the previous step has, so that both form one list; the few extra rows are 0 in
  // G.
  int64_t* place_ = nullptr;
  Seen<T> seen_[3] = {};
  Reached<T> reached_[4] = {};
  int reached_count_ = 0;
  T* panels_[3] = {};    // [panel][row][column]
  T* blocks_ = nullptr;  // [thread][block][row][block stride]
  T* unrounded_ = nullptr;  // [thread][row][block stride]: a block before its conversion to tiles
  std::atomic<int64_t> claimed_{0};

  struct Columns {
    const T* data;
    int64_t stride, first, columns;
    bool is_later;
  };
  Reached<T>& add(const Columns& of) {
    Reached<T>& made = reached_[reached_count_++];
    made = {of.data, of.stride, of.first, of.columns, of.is_later, nullptr, nullptr, {}, 0};
    return made;
  }

  bool in_tiles() const { return frame_ != nullptr && frame_->in_tiles(); }
  // For the rows of a chunk and one more step.
  int64_t panel_room(int64_t rows) const {
    return frame_ ? frame_->panel_of(rows + batch_) : 0;
  }
  int64_t depths_of(int64_t rows) const { return in_depths(rows + batch_); }
  int64_t block_depth() const {
    return tile_values * (frame_->precision == Precision::high ? 2 : 1);
  }
  int64_t block_size(int64_t rows) const {
    return in_tiles() ? depths_of(rows) * block_depth() : rows * block_stride;
  }

  // Rows of a chunk and, for h, one more step: the heads use it one step later than the gates.
  void pack_seen(int s, Share rows, Share panels) {
    const Seen<T>& from = seen_[s];
    const int64_t wanted = rows.count() + (s == 2 ? going_first_ : 0);
    const int64_t count = std::min(wanted, count_ + last_ - rows.begin);
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      T* to = panels_[s] + p * panel_room(rows.count());
      const int64_t width = std::min<int64_t>(panel, from.columns - p * panel);
      if (in_tiles()) {
        pack_tiles(frame_->precision, to, depths_of(rows.count()) * tile_depth,
                   [&](T* block, int64_t n, int64_t some) {
                     const int64_t there = std::min(std::max<int64_t>(count - n, 0), some);
                     copy_rows(from, rows.begin + n, there, p, width, block);
                     clear_values(block + there * panel, (some - there) * panel);
                   });
        continue;
      }
      copy_rows(from, rows.begin, count, p, width, to);
      clear_values(to + count * panel, (wanted - count) * panel);
    }
  }

  // Columns of a panel for rows of the list.
  void copy_rows(const Seen<T>& from, int64_t first, int64_t count, int64_t p, int64_t width,
                 T* to) const {
    for (int64_t n = 0; n < count; ++n, to += panel) {
      const T* row = from.row(place_[first + n]) + p * panel;
      if (width == panel) {
        store(to, load(row));
        store(to + lanes<T>, load(row + lanes<T>));
      } else {
        copy_values(to, row, width);
        clear_values(to + width, panel - width);
      }
    }
  }

  void claim(Share rows, int64_t thread) {
    int64_t mine = claimed_.fetch_add(1, std::memory_order_relaxed), before = 0;
    for (int i = 0; i < reached_count_; ++i) {
      const Reached<T>& g = reached_[i];
      const int64_t groups = (g.columns + group_columns - 1) / group_columns;
      for (; mine < before + groups; mine = claimed_.fetch_add(1, std::memory_order_relaxed))
        run_group(g, share_of(g.columns, mine - before, groups), rows, thread);
      before += groups;
    }
  }

  void run_group(const Reached<T>& g, Share columns, Share rows, int64_t thread) {
    const int64_t size = block_size(rows.count());
    T* const blocks = blocks_ + thread * blocks_at_once * size;
    T* block = blocks;
    for_row_blocks(columns.begin, columns.count(), [&](int64_t first, int count) {
      in_tiles() ? pack_tiled_block(g, first, count, rows, block, thread)
                 : pack_block(g, first, count, rows, block);
      block += size;
    });
    if (in_tiles()) return run_tiles(g, columns, rows, blocks);
    const int64_t shift = g.is_later ? going_first_ : 0;
    for (int w = 0; w < g.count; ++w) {
      const Wanted<T>& one = g.wanted[w];
      const Seen<T>& seen = seen_[one.seen];
      for (int64_t p = 0; p < seen.panels(); ++p) {
        const T* right = panels_[one.seen] + p * panel_room(rows.count()) + shift * panel;
        const int width = int(std::min<int64_t>(panel, seen.columns - p * panel));
        const T* left = blocks;
        for_row_blocks(columns.begin, columns.count(), [&](int64_t first, int count) {
          T* to = one.to + first * one.stride + p * panel;
          tile(count, left, right, rows, to, one.stride, width);
          left += size;
        });
      }
    }
  }

  // The same in tiles. The input of a later G is one step ahead: its block starts with zero rows.
  void run_tiles(const Reached<T>& g, Share columns, Share rows, const T* blocks) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const int64_t depths = in_depths(rows.count() + (g.is_later ? going_first_ : 0));
      const bool begins = rows.begin == 0;
      TileShapes shapes(1);
      for (int w = 0; w < g.count; ++w) {
        const Wanted<T>& one = g.wanted[w];
        const Seen<T>& seen = seen_[one.seen];
        for (int64_t p = 0; p < seen.panels(); ++p) {
          const T* right = panels_[one.seen] + p * panel_room(rows.count());
          const int width = int(std::min<int64_t>(panel, seen.columns - p * panel));
          Left left{blocks, tile_height, block_depth(), tile_values};
          for_row_blocks(columns.begin, columns.count(), [&](int64_t first, int count) {
            T* to = one.to + first * one.stride + p * panel;
            T whole[tile_height * panel];
            const bool fits = width == panel;
            shapes.want(count);
            tile_product(frame_->precision, depths, left, right, fits && !begins ? to : nullptr,
                         one.stride, fits ? to : whole, fits ? one.stride : panel);
            for (int r = 0; !fits && r < count; ++r)
              for (int c = 0; c < width; c += lanes<T>) {
                const int some = std::min(width - c, lanes<T>);
                T* at = to + r * one.stride + c;
                const Vector<T> sum = load(whole + r * panel + c);
                store_first<T>(at, begins ? sum : sum + load_first(at, some), some);
              }
            left.high += block_size(rows.count());
          });
        }
      }
    }
  }

  // A block of columns of G, transposed.
  void pack_tiled_block(const Reached<T>& g, int64_t first, int count, Share rows, T* to,
                        int64_t thread) {
    if constexpr (sizeof(T) == sizeof(float) && lanes<T> == tile_height) {
      const int64_t depths = depths_of(rows.count());
      T* const plain = unrounded_ + thread * depths * tile_depth * block_stride;
      const int64_t before = g.is_later ? going_first_ : 0, after = before + rows.count();
      clear_values(plain, before * block_stride);
      pack_block(g, first, count, rows, plain + before * block_stride);
      clear_values(plain + after * block_stride, (depths * tile_depth - after) * block_stride);
      T turned[tile_height * tile_depth];
      for (int64_t d = 0; d < depths; ++d, to += block_depth()) {
        const T* from = plain + d * tile_depth * block_stride;
        for (int64_t n = 0; n < tile_depth; n += tile_height)
          transpose(from + n * block_stride, block_stride, turned + n, tile_depth);
        round_rows_of_tile(frame_->precision, turned, to);
      }
    }
  }

  // Copies columns of G side by side and sums them.
  void pack_block(const Reached<T>& g, int64_t first, int count, Share rows, T* to) {
    constexpr int vectors = int(block_stride) / lanes<T>;
    Vector<T> sums[vectors] = {};
    const T* own = g.data + g.first + first;
    const T* end = g.data + all_ * g.stride;
    // The list from this chunk on, and its length.
    const int64_t* place = place_ + rows.begin + (g.is_later ? going_first_ : 0);
    const int64_t listed = place_ + count_ + last_ - place, back = g.is_later ? batch_ : 0;
    const int64_t there = std::max<int64_t>(0, std::min(rows.count(), listed));
    for (int64_t n = 0; n < there; ++n, to += block_stride) {
      const T* from = own + (place[n] - back) * g.stride;
      // Rows are in different pages, which the processor does not prefetch.
      const T* ahead = own + (place[std::min(n + 16, there - 1)] - back) * g.stride;
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + block_stride - 1);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) {
        const T* at = from + v * lanes<T>;
        // Past the last column is another row, except in the very last row.
        const int left = std::max(0, count - v * lanes<T>);
        const Vector<T> x = at + lanes<T> <= end ? load(at) : load_first<T>(at, left);
        store(to + v * lanes<T>, x);
        sums[v] += x;
      }
    }
    clear_values(to, (rows.count() - there) * block_stride);
    T sum[block_stride];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) store(sum + v * lanes<T>, sums[v]);
    for (T* all : {g.sums, g.sums_again})
      for (int i = 0; all && i < count; ++i)
        all[first + i] = rows.begin == 0 ? sum[i] : all[first + i] + sum[i];
  }

  template <int ROWS, bool WIDE>
  static void tile_rows(const T* left, const T* right, Share rows, T* to, int64_t stride,
                        int width) {
    Vector<T> low[ROWS], high[ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) low[r] = high[r] = Vector<T>{};
    for (int64_t n = rows.count(); n > 0; --n, left += block_stride, right += panel) {
      __builtin_prefetch(right + prefetch_distance * panel);
      if (WIDE) __builtin_prefetch(right + prefetch_distance * panel + lanes<T>);
      __builtin_prefetch(left + prefetch_distance * block_stride);
      const Vector<T> one = load(right), two = WIDE ? load(right + lanes<T>) : Vector<T>{};
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const Vector<T> x = fill(left[r]);
        low[r] += x * one;
        if (WIDE) high[r] += x * two;
      }
    }
    const bool begins = rows.begin == 0;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r, to += stride) {
      if (WIDE) {
        const int rest = width - lanes<T>;
        if (!begins) {
          low[r] += load(to);
          high[r] += load_first(to + lanes<T>, rest);
        }
        store(to, low[r]);
        store_first<T>(to + lanes<T>, high[r], rest);
      } else {
        if (!begins) low[r] += load_first(to, width);
        store_first<T>(to, low[r], width);
      }
    }
  }

  static void tile(int count, const T* left, const T* right, Share rows, T* to, int64_t stride,
                   int width) {
    switch (count) {
#define UNBOUNDED_CASE(n)                                                                \
  case n:                                                                                \
    return width > lanes<T> ? tile_rows<n, true>(left, right, rows, to, stride, width)   \
                            : tile_rows<n, false>(left, right, rows, to, stride, width);
      UNBOUNDED_EACH_COUNT(UNBOUNDED_CASE)
#undef UNBOUNDED_CASE
    }
  }
};

}  // namespace unbounded
