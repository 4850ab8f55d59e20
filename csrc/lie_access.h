// The memory of a Lie-access neural Turing machine (Yang 2016): heads that move, read and append.
//
// Options: width, size of keys, group, softmax, step, key gates, action gates, capacity, drop, R
// read heads, W write heads. Heads: key, key gate, action, action gate of readers and writers, with
// the gates that exist; value, strength of each writer, with softmax the temperature of each reader.
// State: keys [N, n], values [N, M], strengths [N]; keys and actions of readers [R, n], [R, A] and
// of writers. Saved: instructions [T, B, K]; places of the heads after each step [T, B, (R + W) (n +
// A)]; all rows in the order of their steps, never moved: keys [B, n, rows], strengths [B, rows],
// padded to whole registers, values [B, rows M and a register]; with a capacity the number of rows
// dropped before each step [B, T], and the rows of the final state [B, capacity + 1]. Errors: 1, 2
// if a reader's or a writer's key is too large.
#pragma once

#include "lie_heads.h"
#include "lie_read.h"
#include "memory.h"

namespace unbounded {

// Largest coordinate; the square of a larger one overflows 32 bits.
template <class T>
constexpr T most_coordinate = T(1e18);

// The layout, for both directions.
template <class T>
struct LieLayout {
  const Frame<T>& f;
  const LieSizes<T> s;
  const int64_t rows, stride, width, key_size;
  const int64_t most_rows;  // of a state: the capacity, less what is no multiple of the writers

  explicit LieLayout(const Frame<T>& frame)
      : f(frame),
        s(frame),
        rows(f.c.rows + s.writers * f.c.room),
        stride((rows + lanes<T> - 1) / lanes<T> * lanes<T>),
        width(s.width),
        key_size(s.key_size),
        most_rows(f.c.rows + (s.capacity - f.c.rows) / s.writers * s.writers) {}

  T* instruction(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * s.instruction;
  }
  T* places(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[1]) + (t * f.c.batch + b) * s.heads * s.place;
  }
  int64_t value_room() const { return rows * width + lanes<T>; }
  int64_t slot_room() const { return s.capacity + 1; }
  int32_t* firsts(int64_t b) const { return as<int32_t>(f.c.saved[5]) + b * f.c.steps; }
  int64_t row_of(int64_t t) const { return f.c.rows + s.writers * (f.c.first_step + t); }
  // Rows of a state after a number of steps.
  int64_t rows_after(int64_t steps) const {
    const int64_t all = f.c.rows + s.writers * steps;
    return s.capacity ? std::min(all, most_rows) : all;
  }

  // Maps the heads' fields of a state, [B, R, n], [B, R, A] and those of writers, to [heads][n + A]
  // and back.
  void spread_places(T* to, const void* const* fields, int64_t b) const {
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t part = 0; part < 2; ++part) {
        const int64_t size = part ? s.action_size : key_size;
        T* at = to + head * s.place + (part ? key_size : 0);
        const T* field = as<T>(fields[field_of(head, part)]);
        field ? copy_values(at, field + item_of(head, b) * size, size) : clear_values(at, size);
      }
  }
  void gather_places(void* const* fields, const T* from, int64_t b) const {
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t part = 0; part < 2; ++part) {
        const int64_t size = part ? s.action_size : key_size;
        const T* at = from + head * s.place + (part ? key_size : 0);
        copy_values(as<T>(fields[field_of(head, part)]) + item_of(head, b) * size, at, size);
      }
  }

 private:
  int64_t field_of(int64_t head, int64_t part) const {
    return (head < s.readers ? 3 : 5) + part;
  }
  int64_t item_of(int64_t head, int64_t b) const {
    return head < s.readers ? b * s.readers + head : b * s.writers + head - s.readers;
  }
};

template <class T>
class LieAccessForward final : public MemoryForward<T> {
 public:
  explicit LieAccessForward(const Frame<T>& frame) : f(frame), at(frame), s(at.s), heads_(s) {}

  void take_scratch(Workspace& space) override {
    const int64_t batch = f.c.batch;
    space.take(entries_, batch);
    space.take(places_, batch * s.heads * s.place);
    space.take(scratch_, batch * LieReadVector<T>::scratch_size(at.stride));
    if (f.c.saves) return;
    space.take(instruction_, batch * s.instruction);
    space.take(keys_, batch * at.key_size * at.stride);
    space.take(strengths_, batch * at.stride);
    space.take(values_, batch * at.value_room());
    if (s.capacity) space.take(slots_, batch * at.slot_room());
  }

  void begin(int64_t b) override {
    const int64_t N = f.c.rows, M = at.width, n = at.key_size;
    Entry& entry = entries_[b] = Entry{0, 0};
    clear_values(keys(b), n * at.stride);
    clear_values(strengths(b), at.stride);
    copy_values(values(b), as<T>(f.c.state0[1]) + b * N * M, N * M);
    clear_values(values(b) + at.rows * M, lanes<T>);
    const T *from = as<T>(f.c.state0[0]) + b * N * n, *held = as<T>(f.c.state0[2]) + b * N;
    for (int64_t i = 0; i < N; ++i)
      for (int64_t j = 0; j < n; ++j) keys(b)[j * at.stride + i] = from[i * n + j];
    copy_values(strengths(b), held, N);
    at.spread_places(places_ + b * s.heads * s.place, f.c.state0, b);
    if (!s.capacity) return;
    for (int64_t i = 0; i < N; ++i) slots(b)[entry.slots++] = int32_t(i);
  }

  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    in.take(0, int(f.c.head_count), instruction(t, b));
  }

  void step(int64_t t, int64_t b, T* read_vector) override {
    const T* in = instruction(t, b);
    T* place = places_ + b * s.heads * s.place;
    for (int64_t head = 0; head < s.heads; ++head)
      heads_.move(head, in, place + head * s.place, place + head * s.place);
    if (f.c.saves) copy_values(at.places(t, b), place, s.heads * s.place);
    if (f.c.error) look_for_growth(b, place);
    if (f.c.saves && s.capacity) at.firsts(b)[t] = int32_t(entries_[b].first);
    const KeyedRows<T> rows{keys(b), strengths(b), at.stride, entries_[b].first, at.row_of(t)};
    LieReadVector<T> all(at.key_size, at.width, s.is_softmax, s.is_disk(), rows,
                         scratch_ + b * LieReadVector<T>::scratch_size(at.stride));
    for (int64_t reader = 0; reader < s.readers; ++reader)
      all.read(place + reader * s.place, s.is_softmax ? in[s.temperature(reader)] : T(0), values(b),
               read_vector + reader * at.width);
    for (int64_t writer = 0; writer < s.writers; ++writer)
      append(at.row_of(t) + writer, b, place + (s.readers + writer) * s.place,
             in[s.strength(writer)], in + s.value(writer));
  }

  void skip(int64_t t, int64_t b) override {
    for (int64_t row = at.row_of(t); row < at.row_of(t + 1); ++row) {
      clear_values(values(b) + row * at.width, at.width);
      if (s.capacity && entries_[b].slots < at.most_rows)
        slots(b)[entries_[b].slots++] = int32_t(row);
    }
  }

  void finish(int64_t b) override {
    const int64_t N = at.rows_after(f.c.first_step + f.c.steps), M = at.width, n = at.key_size;
    T *to_keys = as<T>(f.c.state_last[0]) + b * N * n, *to = as<T>(f.c.state_last[1]) + b * N * M;
    T* held = as<T>(f.c.state_last[2]) + b * N;
    for (int64_t i = 0; i < N; ++i) {
      const int64_t row = s.capacity ? slots(b)[i] : i;
      for (int64_t j = 0; j < n; ++j) to_keys[i * n + j] = keys(b)[j * at.stride + row];
      copy_values(to + i * M, values(b) + row * M, M);
      held[i] = row < entries_[b].first ? T(0) : strengths(b)[row];
    }
    at.gather_places(f.c.state_last, places_ + b * s.heads * s.place, b);
    if (f.c.saves && s.capacity) slots(b)[s.capacity] = int32_t(entries_[b].first);
  }

 private:
  // First row that is not dropped; rows of the state, with a capacity.
  struct Entry {
    int64_t first, slots;
  };

  const Frame<T>& f;
  const LieLayout<T> at;
  const LieSizes<T>& s;
  const LieHeads<T> heads_;
  Entry* entries_ = nullptr;
  T *places_ = nullptr, *scratch_ = nullptr, *instruction_ = nullptr;
  T *keys_ = nullptr, *strengths_ = nullptr, *values_ = nullptr;
  int32_t* slots_ = nullptr;  // indices of the state's rows, in order

  T* instruction(int64_t t, int64_t b) const {
    return f.c.saves ? at.instruction(t, b) : instruction_ + b * s.instruction;
  }
  T* keys(int64_t b) const { return of(keys_, 2) + b * at.key_size * at.stride; }
  T* strengths(int64_t b) const { return of(strengths_, 3) + b * at.stride; }
  T* values(int64_t b) const { return of(values_, 4) + b * at.value_room(); }
  int32_t* slots(int64_t b) const {
    return (f.c.saves ? as<int32_t>(f.c.saved[6]) : slots_) + b * at.slot_room();
  }
  T* of(T* own, int saved) const { return f.c.saves ? as<T>(f.c.saved[saved]) : own; }

  void look_for_growth(int64_t b, const T* place) const {
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t j = 0; j < at.key_size; ++j)
        if (std::abs(place[head * s.place + j]) > most_coordinate<T>)
          f.c.error[b] |= head < s.readers ? 1 : 2;
  }

  void append(int64_t row, int64_t b, const T* key, T strength, const T* value) {
    for (int64_t j = 0; j < at.key_size; ++j) keys(b)[j * at.stride + row] = key[j];
    strengths(b)[row] = strength;
    copy_values(values(b) + row * at.width, value, at.width);
    if (s.capacity) make_room(b, row, strength <= 0);
  }
  // A place for the row among those of the state. At the capacity it is that of the oldest absent
  // row; without one, the oldest rows are dropped first.
  void make_room(int64_t b, int64_t row, bool is_none) {
    Entry& entry = entries_[b];
    int32_t* held = slots(b);
    if (entry.slots == at.most_rows) {
      if (is_none) return;
      int64_t free = 0;
      const T* strength = strengths(b);
      while (free < entry.slots && held[free] >= entry.first && !(strength[held[free]] <= 0)) ++free;
      if (free == entry.slots) {
        entry.first = s.drop < entry.slots ? held[s.drop] : row;
        free = 0;
      }
      --entry.slots;
      std::memmove(held + free, held + free + 1, size_t(entry.slots - free) * sizeof(int32_t));
    }
    held[entry.slots++] = int32_t(row);
  }
};

template <class T>
class LieAccessBackward final : public MemoryBackward<T> {
 public:
  explicit LieAccessBackward(const Frame<T>& frame)
      : f(frame), at(frame), s(at.s), heads_(s) {}

  void take_scratch(Workspace& space) override {
    const int64_t batch = f.c.batch;
    space.take(columns_, batch * at.width * at.stride);
    space.take(grad_keys_, batch * at.key_size * at.stride);
    space.take(grad_columns_, batch * at.width * at.stride);
    space.take(grad_strengths_, batch * at.stride);
    space.take(first_places_, batch * s.heads * s.place);
    space.take(grad_places_, batch * s.heads * s.place);
    space.take(grad_instruction_, batch * s.instruction);
    space.take(scratch_, batch * LieReadVector<T>::scratch_size(at.stride));
  }

  void begin(int64_t b) override {
    const int64_t N = at.rows_after(f.c.steps), M = at.width, n = at.key_size, stride = at.stride;
    T *columns = columns_ + b * M * stride, *of_columns = grad_columns_ + b * M * stride;
    T *of_keys = grad_keys_ + b * n * stride, *of_strengths = grad_strengths_ + b * stride;
    clear_values(columns, M * stride);
    clear_values(of_columns, M * stride);
    clear_values(of_keys, n * stride);
    clear_values(of_strengths, stride);
    const T* values = as<T>(f.c.saved[4]) + b * at.value_room();
    for (int64_t i = 0; i < at.rows; ++i)
      for (int64_t m = 0; m < M; ++m) columns[m * stride + i] = values[i * M + m];
    at.spread_places(first_places_ + b * s.heads * s.place, f.c.state0, b);
    at.spread_places(grad_places_ + b * s.heads * s.place, f.c.grad_state_last, b);
    const int32_t* slots = as<int32_t>(f.c.saved[6]) + b * at.slot_room();
    const T *keys = as<T>(f.c.grad_state_last[0]), *held = as<T>(f.c.grad_state_last[2]);
    values = as<T>(f.c.grad_state_last[1]);
    for (int64_t i = 0; i < N; ++i) {
      const int64_t row = s.capacity ? slots[i] : i, from = b * N + i;
      for (int64_t j = 0; j < n && keys; ++j) of_keys[j * stride + row] = keys[from * n + j];
      for (int64_t m = 0; m < M && values; ++m) of_columns[m * stride + row] = values[from * M + m];
      if (held && !(s.capacity && row < slots[s.capacity])) of_strengths[row] = held[from];
    }
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    const int64_t M = at.width, n = at.key_size, stride = at.stride, row = at.row_of(t);
    const T *instruction = at.instruction(t, b), *place = at.places(t, b);
    const T* before = t > 0 ? at.places(t - 1, b) : first_places_ + b * s.heads * s.place;
    T* grad_instruction = grad_instruction_ + b * s.instruction;
    T* of_place = grad_places_ + b * s.heads * s.place;
    T *of_keys = grad_keys_ + b * n * stride, *of_columns = grad_columns_ + b * M * stride;
    T* of_strengths = grad_strengths_ + b * stride;
    for (int64_t writer = 0; writer < s.writers; ++writer) {
      T* of_key = of_place + (s.readers + writer) * s.place;
      const int64_t own = row + writer;
      for (int64_t j = 0; j < n; ++j) of_key[j] += of_keys[j * stride + own];
      for (int64_t m = 0; m < M; ++m)
        grad_instruction[s.value(writer) + m] = of_columns[m * stride + own];
      grad_instruction[s.strength(writer)] = of_strengths[own];
    }

    const int64_t first = s.capacity ? at.firsts(b)[t] : 0;
    const KeyedRows<T> rows{as<T>(f.c.saved[2]) + b * n * stride, as<T>(f.c.saved[3]) + b * stride,
                            stride, first, row};
    LieReadVector<T> all(n, M, s.is_softmax, s.is_disk(), rows,
                         scratch_ + b * LieReadVector<T>::scratch_size(stride));
    for (int64_t reader = 0; reader < s.readers; ++reader) {
      const T temperature = s.is_softmax ? instruction[s.temperature(reader)] : T(0);
      const int64_t k = reader * s.place;
      const T of_temperature =
          all.backward(place + k, temperature, columns_ + b * M * stride,
                       grad_read_vector + reader * M, of_keys, of_strengths, of_columns,
                       of_place + k);
      if (s.is_softmax) grad_instruction[s.temperature(reader)] = of_temperature;
    }
    for (int64_t head = 0; head < s.heads; ++head) {
      const int64_t k = head * s.place;
      heads_.backward(head, instruction, before + k, place + k, of_place + k, grad_instruction);
    }
  }

  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, int(f.c.head_count), at.instruction(t, b), grad_instruction_ + b * s.instruction);
  }

  void end(int64_t b) override {
    if (!f.c.grad_state0[3]) return;  // gradients of rows are empty without rows
    const int64_t N = f.c.rows, M = at.width, n = at.key_size, stride = at.stride;
    T *keys = as<T>(f.c.grad_state0[0]) + b * N * n, *values = as<T>(f.c.grad_state0[1]) + b * N * M;
    for (int64_t i = 0; i < N; ++i) {
      for (int64_t j = 0; j < n; ++j) keys[i * n + j] = grad_keys_[(b * n + j) * stride + i];
      for (int64_t m = 0; m < M; ++m) values[i * M + m] = grad_columns_[(b * M + m) * stride + i];
    }
    copy_values(as<T>(f.c.grad_state0[2]) + b * N, grad_strengths_ + b * stride, N);
    at.gather_places(f.c.grad_state0, grad_places_ + b * s.heads * s.place, b);
  }

 private:
  const Frame<T>& f;
  const LieLayout<T> at;
  const LieSizes<T>& s;
  const LieHeads<T> heads_;
  T *columns_ = nullptr, *grad_columns_ = nullptr;  // values and their gradients, [B][M][stride]
  T *grad_keys_ = nullptr, *grad_strengths_ = nullptr;
  T *first_places_ = nullptr, *grad_places_ = nullptr, *grad_instruction_ = nullptr;
  T* scratch_ = nullptr;
};

struct LieAccess {
  template <class T> using Forward = LieAccessForward<T>;
  template <class T> using Backward = LieAccessBackward<T>;
};

}  // namespace unbounded
