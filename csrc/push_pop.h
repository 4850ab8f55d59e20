// Neural stack, queue and deque in the frame: live rows that are pushed, popped and read.
//
// Options: width. Heads: value, push and pop of each end. State: values [N, M], which the kernel
// fills in place of the last state, and strengths [N]. Saved: pushes and pops [T, B, 2 ends];
// changes [B, T, ends] and previous strengths [B, T, ends] of each pop (live_rows.h); rows [B, N]
// and strengths [B, N] of dead rows; live range [B, 3]: lowest and highest position in use, deaths.
#pragma once

#include <limits>

#include "memories.h"
#include "memory.h"

namespace unbounded {

// Shared by both directions.
template <class T, class Structure>
struct PushPopSizes {
  static constexpr int ends = Structure::ends;

  const Frame<T>& f;

  int64_t width() const { return f.c.options[0]; }
  int64_t rows() const { return f.c.rows + ends * f.c.room; }
  int64_t first() const { return Structure::first_row(f.c.room); }
  T* values(int64_t b) const { return as<T>(f.c.state_last[0]) + b * rows() * width(); }
  T* strengths_last(int64_t b) const { return as<T>(f.c.state_last[1]) + b * rows(); }
  const T* strengths0(int64_t b) const { return as<T>(f.c.state0[1]) + b * f.c.rows; }
  T* pushes_and_pops(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * 2 * ends;
  }
  int32_t* changes(int64_t t, int64_t b) const {
    return as<int32_t>(f.c.saved[1]) + (b * f.c.steps + t) * ends;
  }
  T* kept(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[2]) + (b * f.c.steps + t) * ends;
  }
  Graveyard<T> graves(int64_t b, int64_t count) const {
    return {as<int32_t>(f.c.saved[3]) + b * rows(), as<T>(f.c.saved[4]) + b * rows(), count};
  }
  int32_t* live_range(int64_t b) const { return as<int32_t>(f.c.saved[5]) + 3 * b; }
  int64_t pushed_row(int end, int64_t t) const {
    return Structure::row_of(end, f.c.first_step + t, f.c.room, f.c.rows);
  }
};

template <class T, class Structure>
class PushPopForward final : public MemoryForward<T> {
  static constexpr int ends = Structure::ends;

 public:
  explicit PushPopForward(const Frame<T>& frame) : f(frame), at{frame} {
    if (f.c.saves && f.lane_count > 0)  // a memory alone uses too little of each page
      want_large_pages(at.values(0), f.c.batch * at.rows() * at.width() * sizeof(T));
  }

  void take_scratch(Workspace& space) override {
    space.take(rows_, f.c.batch);
    space.take(is_spoiled_, f.c.batch);
    space.take(live_row_, f.c.batch * at.rows());
    space.take(live_strength_, f.c.batch * at.rows());
    if (f.c.saves) return;
    space.take(grave_row_, f.c.batch * at.rows());
    space.take(grave_strength_, f.c.batch * at.rows());
    space.take(pushes_and_pops_, f.c.batch * 2 * ends);
  }

  void begin(int64_t b) override {
    const int64_t M = at.width(), all = b * at.rows();
    Rows<T>& rows = rows_[b] = Rows<T>{};
    rows.live = {live_row_ + all, live_strength_ + all, at.first(), at.first()};
    rows.graves = f.c.saves ? at.graves(b, 0)
                            : Graveyard<T>{grave_row_ + all, grave_strength_ + all, 0};
    rows.values = at.values(b);
    rows.width = M;
    copy_values(rows.values + at.first() * M, as<T>(f.c.state0[0]) + b * f.c.rows * M,
                f.c.rows * M);
    rows.take_initial(at.first(), at.strengths0(b), f.c.rows);
    is_spoiled_[b] = has_nan(rows.values + at.first() * M, f.c.rows * M) ||
                     has_nan(at.strengths0(b), f.c.rows);
  }

  void take(int64_t t, int64_t b, const Instruction<T>& instruction) override {
    T* to = pushes_and_pops(t, b);
    const bool is_first = f.c.rows + f.c.first_step + t == 0;  // there is nothing to pop
    for (int end = 0; end < ends; ++end) {
      T* value = rows_[b].values + at.pushed_row(end, t) * at.width();
      instruction.take(3 * end, 1, value);
      instruction.take(3 * end + 1, 2, to + 2 * end);
      if (!has_nan(value, at.width()) && !has_nan(to + 2 * end, is_first ? 1 : 2)) continue;
      is_spoiled_[b] = true;
      // It persists to the next call: a pop without live rows leaves no other trace in the state.
      value[0] = std::numeric_limits<T>::quiet_NaN();
    }
  }

  void step(int64_t t, int64_t b, T* read_vector) override {
    int64_t pushed[ends];
    PopRecord<T> records[ends];
    int32_t unsaved_changes[ends];
    T unsaved_kept[ends];
    record(t, b, unsaved_changes, unsaved_kept, pushed, records);
    Structure::template step<T>(rows_[b], Strengths<T>{pushes_and_pops(t, b)}, pushed, read_vector,
                                records);
    if (is_spoiled_[b])
      for (int64_t i = 0; i < ends * at.width(); ++i) read_vector[i] = std::numeric_limits<T>::quiet_NaN();
  }

  void skip(int64_t t, int64_t b) override {
    int64_t pushed[ends];
    PopRecord<T> records[ends];
    int32_t unsaved_changes[ends];
    T unsaved_kept[ends];
    record(t, b, unsaved_changes, unsaved_kept, pushed, records);
    clear_values(pushes_and_pops(t, b), 2 * ends);
    for (int end = 0; end < ends; ++end)
      clear_values(rows_[b].values + pushed[end] * at.width(), at.width());
  }

  void finish(int64_t b) override {
    const UnboundedCall& c = f.c;
    // A session may have room for more steps than were taken.
    const int64_t unused = c.room - (c.first_step + c.steps);
    const int64_t rows = at.rows() - ends * unused, skipped = Structure::first_row(unused);
    T* strengths = as<T>(c.state_last[1]) + b * rows;
    rows_[b].write_strengths(strengths, rows, skipped);
    // Without any change the initial strengths are returned exactly, signs included.
    if (f.length_of(b) == 0 && c.first_step == 0)
      copy_values(strengths + at.first() - skipped, at.strengths0(b), c.rows);
    if (c.saves) rows_[b].write_range(at.live_range(b));
  }

 private:
  const Frame<T>& f;
  const PushPopSizes<T, Structure> at;
  Rows<T>* rows_ = nullptr;
  // Whether the input has a NaN. From then on the read vector is NaN, as in the reference, whose
  // sums run over all rows; here nearer rows would hide it.
  bool* is_spoiled_ = nullptr;
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;
  // Without a backward pass.
  int32_t* grave_row_ = nullptr;
  T* grave_strength_ = nullptr;
  T* pushes_and_pops_ = nullptr;

  T* pushes_and_pops(int64_t t, int64_t b) const {
    return f.c.saves ? at.pushes_and_pops(t, b) : pushes_and_pops_ + b * 2 * ends;
  }

  // The rows of a step, and where its pops record their changes; initially nothing.
  void record(int64_t t, int64_t b, int32_t* changes, T* kept, int64_t* pushed,
              PopRecord<T>* records) const {
    if (f.c.saves) {
      changes = at.changes(t, b);
      kept = at.kept(t, b);
    }
    for (int end = 0; end < ends; ++end) {
      pushed[end] = at.pushed_row(end, t);
      records[end] = {changes + end, kept + end};
      changes[end] = 0;
      kept[end] = 0;
    }
  }
};

template <class T, class Structure>
class PushPopBackward final : public MemoryBackward<T> {
  static constexpr int ends = Structure::ends;

 public:
  explicit PushPopBackward(const Frame<T>& frame)
      : f(frame), at{frame}, adds_last_(f.lane_count == 0 && f.c.grad_state_last[0]) {}

  void take_scratch(Workspace& space) override {
    const int64_t rows = f.c.batch * at.rows();
    space.take(rows_, f.c.batch);
    space.take(live_row_, rows);
    space.take(live_strength_, rows);
    space.take(grad_strengths_, rows);
    space.take(grad_values_, rows * at.width());
    space.take(grad_pushes_and_pops_, f.c.batch * 2 * ends);
  }

  void begin(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t all = b * at.rows(), values = at.rows() * at.width();
    const int64_t length = f.length_of(b);
    const T* last = c.grad_state_last[1] ? as<T>(c.grad_state_last[1]) + all : nullptr;
    const int32_t* range = at.live_range(b);
    RowsBackward<T>& rows = rows_[b] = RowsBackward<T>{};
    rows.live = {live_row_ + all, live_strength_ + all, range[0], range[1]};
    rows.graves = at.graves(b, range[2]);
    rows.values = at.values(b);
    rows.width = at.width();
    rows.grad_values = grad_values_ + b * values;
    if (c.grad_state_last[0] && !adds_last_)
      copy_values(rows.grad_values, as<T>(c.grad_state_last[0]) + b * values, values);
    else
      clear_values(rows.grad_values, values);
    rows.grad_strengths = grad_strengths_ + all;
    rows.restore(at.strengths_last(b), last, at.rows());
    if (last == nullptr) return;
    // Rows untouched by any pop propagate their gradient even with strength 0.
    if (length == 0) copy_values(rows.grad_strengths + at.first(), last + at.first(), c.rows);
    for (int end = 0; end < ends && length > 0; ++end) {
      const int64_t row = at.pushed_row(end, length - 1);
      rows.grad_strengths[row] = last[row];
    }
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    int64_t pushed[ends];
    PopRecord<T> records[ends];
    for (int end = 0; end < ends; ++end) {
      pushed[end] = at.pushed_row(end, t);
      records[end] = {at.changes(t, b) + end, at.kept(t, b) + end};
    }
    Structure::template backward<T>(rows_[b], Strengths<T>{at.pushes_and_pops(t, b)}, pushed,
                                    grad_read_vector, records, grad_pushes_and_pops(b));
  }

  void give(int64_t t, int64_t b, const InstructionGradient<T>& gradient) override {
    for (int end = 0; end < ends; ++end) {
      const int64_t row = at.pushed_row(end, t) * at.width();
      if (adds_last_) add_last(b, row, at.width());
      gradient.give(3 * end, 1, rows_[b].values + row, rows_[b].grad_values + row);
      gradient.give(3 * end + 1, 2, at.pushes_and_pops(t, b) + 2 * end,
                    grad_pushes_and_pops(b) + 2 * end);
    }
  }

  void end(int64_t b) override {
    const UnboundedCall& c = f.c;
    if (c.grad_state0[0] == nullptr && c.grad_state0[1] == nullptr) return;
    const int64_t M = at.width();
    if (adds_last_) add_last(b, at.first() * M, c.rows * M);
    if (f.length_of(b) > 0)
      rows_[b].template unseen_initial<Structure::first_pop>(at.first(), c.rows,
                                                             at.strengths0(b));
    copy_values(as<T>(c.grad_state0[1]) + b * c.rows, rows_[b].grad_strengths + at.first(),
                c.rows);
    copy_values(as<T>(c.grad_state0[0]) + b * c.rows * M,
                rows_[b].grad_values + at.first() * M, c.rows * M);
  }

 private:
  const Frame<T>& f;
  const PushPopSizes<T, Structure> at;
  // Whether the gradient of a final value is the last term of its sum instead of the first. It is
  // the last for given values, which the result holds next to the read vectors.
  const bool adds_last_;
  RowsBackward<T>* rows_ = nullptr;
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;
  T* grad_strengths_ = nullptr;  // [B][rows]
  T* grad_values_ = nullptr;     // [B][rows][M]
  T* grad_pushes_and_pops_ = nullptr;

  T* grad_pushes_and_pops(int64_t b) const { return grad_pushes_and_pops_ + b * 2 * ends; }

  void add_last(int64_t b, int64_t first, int64_t count) const {
    const T* last = as<T>(f.c.grad_state_last[0]) + b * at.rows() * at.width();
    axpy<T>(count, 1, last + first, rows_[b].grad_values + first);
  }
};

template <class Structure>
struct PushPop {
  template <class T>
  using Forward = PushPopForward<T, Structure>;
  template <class T>
  using Backward = PushPopBackward<T, Structure>;
};

}  // namespace unbounded
