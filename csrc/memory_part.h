// A memory of live rows inside the recurrence: from the heads' products to the reading, and back.
//
// Other memories slot in here: whatever state they have, a step turns the products of one batch
// entry into its reading, and the backward step turns the gradient of the reading into that of the
// products.
#pragma once

#include "frame.h"
#include "functions.h"
#include "memories.h"
#include "workspace.h"

namespace unbounded {

template <class T>
class MemoryForward {
 public:
  virtual ~MemoryForward() = default;
  virtual void take_parts(Workspace& space) = 0;
  virtual void begin(int64_t b) = 0;
  virtual void step(int64_t t, int64_t b, const T* products) = 0;
  virtual void keep_state(int64_t b) = 0;
  virtual void finish(int64_t b) = 0;
};

template <class T>
class MemoryBackward {
 public:
  virtual ~MemoryBackward() = default;
  virtual void take_parts(Workspace& space) = 0;
  virtual void begin(int64_t b) = 0;
  virtual void step(int64_t t, int64_t b, T* grad_reading) = 0;
  virtual void end(int64_t b) = 0;
};

template <class Memory>
struct SizesOf {
  static MemorySizes of(const UnboundedCall& c) {
    return {Memory::parts, Memory::parts * c.width, Memory::parts * (c.width + 2)};
  }
};

template <class T, class Memory>
class MemoryForwardOf final : public MemoryForward<T> {
  static constexpr int parts = Memory::parts;

 public:
  explicit MemoryForwardOf(const Frame<T>& frame) : f(frame) {}

  void take_parts(Workspace& space) override {
    space.part(rows_, f.c.batch);
    space.part(live_row_, f.c.batch * f.rows_in_all());
    space.part(live_strength_, f.c.batch * f.rows_in_all());
  }

  void begin(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t first = Memory::first_row(c.capacity), all = b * f.rows_in_all();
    Rows<T>& rows = rows_[b] = Rows<T>{};
    rows.live = {live_row_ + all, live_strength_ + all, first, first};
    rows.graves = {c.grave_rows + all, as<T>(c.grave_strengths) + all, 0};
    rows.values = as<T>(c.values) + all * c.width;
    rows.width = c.width;
    rows.take_initial(first, as<T>(c.strengths0) + b * c.initial_rows, c.initial_rows);
  }

  void step(int64_t t, int64_t b, const T* products) override {
    const UnboundedCall& c = f.c;
    Rows<T>& rows = rows_[b];
    T* reading = const_cast<T*>(f.reading_at(t)) + b * f.reading_size();
    T* push_pop = f.push_pop_at(t, b);
    int32_t unsaved_deaths[parts];
    T unsaved_kept[parts];
    int32_t* deaths = c.saves ? c.deaths + (b * c.steps + t) * parts : unsaved_deaths;
    T* kept = c.saves ? as<T>(c.kept) + (b * c.steps + t) * parts : unsaved_kept;
    int64_t pushed[parts];
    PopRecord<T> records[parts];
    for (int part = 0; part < parts; ++part) {
      pushed[part] = Memory::row_of(part, c.first_step + t, c.capacity, c.initial_rows);
      records[part] = {deaths + part, kept + part};
      deaths[part] = 0;
      kept[part] = 0;
    }
    if (t >= f.length_of(b)) {
      clear_values(reading, f.reading_size());
      clear_values(push_pop, 2 * parts);
      for (int part = 0; part < parts; ++part)
        clear_values(rows.values + pushed[part] * c.width, c.width);
      return;
    }
    for (int part = 0; part < parts; ++part, products += c.width + 2) {
      T* value = rows.values + pushed[part] * c.width;
      for (int64_t m = 0; m < c.width; m += lanes<T>) {
        const int n = int(std::min<int64_t>(lanes<T>, c.width - m));
        store_first<T>(value + m, hyperbolic_tangent(load_first(products + m, n)), n);
      }
      const Vector<T> both = sigmoid(load_first(products + c.width, 2));
      push_pop[2 * part] = both[0];
      push_pop[2 * part + 1] = both[1];
    }
    Memory::template step<T>(rows, Strengths<T>{push_pop}, pushed, reading, records);
    if (t + 1 == f.length_of(b))
      copy_values(as<T>(c.reading_last) + b * f.reading_size(), reading, f.reading_size());
  }

  void keep_state(int64_t b) override {
    const int64_t R = f.reading_size();
    copy_values(as<T>(f.c.reading_last) + b * R, as<T>(f.c.reading0) + b * R, R);
  }

  void finish(int64_t b) override {
    const UnboundedCall& c = f.c;
    T* strengths = as<T>(c.strengths) + b * f.rows_in_all();
    rows_[b].write_strengths(strengths, f.rows_in_all());
    // If nothing happened, what came in leaves as it was, whatever its sign.
    if (f.length_of(b) == 0 && c.first_step == 0)
      copy_values(strengths + Memory::first_row(c.capacity),
                  as<T>(c.strengths0) + b * c.initial_rows, c.initial_rows);
    rows_[b].write_range(c.live_range + 3 * b);
  }

 private:
  const Frame<T>& f;
  Rows<T>* rows_ = nullptr;
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;
};

template <class T, class Memory>
class MemoryBackwardOf final : public MemoryBackward<T> {
  static constexpr int parts = Memory::parts;

 public:
  explicit MemoryBackwardOf(const Frame<T>& frame) : f(frame) {}

  void take_parts(Workspace& space) override {
    space.part(rows_, f.c.batch);
    space.part(live_row_, f.c.batch * f.rows_in_all());
    space.part(live_strength_, f.c.batch * f.rows_in_all());
    space.part(grad_strengths_, f.c.batch * f.rows_in_all());
  }

  void begin(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t all = b * f.rows_in_all(), length = f.length_of(b);
    const T* last = c.grad_strengths_last ? as<T>(c.grad_strengths_last) + all : nullptr;
    const int32_t* range = c.live_range + 3 * b;
    RowsBackward<T>& rows = rows_[b] = RowsBackward<T>{};
    rows.live = {live_row_ + all, live_strength_ + all, range[0], range[1]};
    rows.graves = {c.grave_rows + all, as<T>(c.grave_strengths) + all, range[2]};
    rows.values = as<T>(c.values) + all * c.width;
    rows.width = c.width;
    rows.grad_values = f.grad_values + all * c.width;
    const int64_t values = f.rows_in_all() * c.width;
    if (c.grad_values_last)
      copy_values(rows.grad_values, as<T>(c.grad_values_last) + all * c.width, values);
    else
      clear_values(rows.grad_values, values);
    rows.grad_strengths = grad_strengths_ + all;
    rows.restore(as<T>(c.strengths) + all, last, f.rows_in_all());
    if (last == nullptr) return;
    // Rows that no pop has seen pass their gradient on even with strength 0.
    const int64_t first = Memory::first_row(c.capacity);
    if (length == 0)
      copy_values(rows.grad_strengths + first, last + first, c.initial_rows);
    for (int part = 0; part < parts && length > 0; ++part) {
      const int64_t row = Memory::row_of(part, length - 1, c.capacity, c.initial_rows);
      rows.grad_strengths[row] = last[row];
    }
  }

  void step(int64_t t, int64_t b, T* grad_reading) override {
    const UnboundedCall& c = f.c;
    T* grad = f.grad_instructions_at(t) + b * f.head_count();
    if (t >= f.length_of(b)) {
      clear_values(grad, f.head_count());
      return;
    }
    RowsBackward<T>& rows = rows_[b];
    if (t + 1 == f.length_of(b) && c.grad_reading_last)
      axpy<T>(f.reading_size(), 1, as<T>(c.grad_reading_last) + b * f.reading_size(),
              grad_reading);
    const T* push_pop = f.push_pop_at(t, b);
    int64_t pushed[parts];
    PopRecord<T> records[parts];
    for (int part = 0; part < parts; ++part) {
      const int64_t at = (b * c.steps + t) * parts + part;
      pushed[part] = Memory::row_of(part, t, c.capacity, c.initial_rows);
      records[part] = {c.deaths + at, as<T>(c.kept) + at};
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

  void end(int64_t b) override {
    const UnboundedCall& c = f.c;
    const int64_t first = Memory::first_row(c.capacity);
    if (f.length_of(b) > 0)
      rows_[b].template unseen_initial<Memory::first_pop>(
          first, c.initial_rows, as<T>(c.strengths0) + b * c.initial_rows);
    copy_values(as<T>(c.grad_strengths0) + b * c.initial_rows, rows_[b].grad_strengths + first,
                c.initial_rows);
    copy_values(as<T>(c.grad_values0) + b * c.initial_rows * c.width,
                rows_[b].grad_values + first * c.width, c.initial_rows * c.width);
  }

 private:
  const Frame<T>& f;
  RowsBackward<T>* rows_ = nullptr;
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;
  T* grad_strengths_ = nullptr;  // [B][rows]
};

}  // namespace unbounded
