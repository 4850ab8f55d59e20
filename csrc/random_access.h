// RAM and RAM/tape (Yang & Rush 2017): rows that are read by the inner product of a key.
//
// Options: width, size of keys, tape, sharpening. Heads: read key, write key, value, strength; with
// sharpening a factor; with a tape the weights of the links [3]. State: keys [N, n], values [N, M],
// strengths [N], all of which the kernel fills in place of the last state; with a tape the keys
// after and before what was read, [n] each. Saved: instructions [T, B, K]; with a tape its two keys
// before each step [T, B, 2 n].
//
// A strength never changes, so an absent row stays absent. Only the other rows are read; here they
// lie side by side, so that a row's neighbours are the rows before and after it.
#pragma once

#include "keyed_rows.h"
#include "memory.h"

namespace unbounded {

// The layout, for both directions.
template <class T>
struct RandomAccessLayout {
  const Frame<T>& f;
  const int64_t width, key_size;
  const bool has_tape, has_sharpening;
  const int64_t instruction, rows;
  const int64_t stride;  // of rows side by side: one register more, for the neighbour of the last

  explicit RandomAccessLayout(const Frame<T>& frame)
      : f(frame),
        width(f.c.options[0]),
        key_size(f.c.options[1]),
        has_tape(f.c.options[2] != 0),
        has_sharpening(f.c.options[3] != 0),
        instruction(link() + (has_tape ? 3 : 0)),
        rows(f.c.rows + f.c.room),
        stride((rows + lanes<T> - 1) / lanes<T> * lanes<T> + lanes<T>) {}

  // Offsets of an instruction's parts; the read key is first.
  int64_t write_key() const { return key_size; }
  int64_t value() const { return 2 * key_size; }
  int64_t strength() const { return value() + width; }
  int64_t sharpening() const { return strength() + 1; }
  int64_t link() const { return sharpening() + has_sharpening; }

  int64_t row_key_room() const { return rows * key_size + lanes<T>; }
  void pad_row_keys(T* row_keys) const { clear_values(row_keys + rows * key_size, lanes<T>); }
  int64_t tape_size() const { return has_tape ? 2 * key_size : 0; }
  T* saved_instruction(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * instruction;
  }
  T* saved_tape(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[1]) + (t * f.c.batch + b) * tape_size();
  }
  int64_t row_of(int64_t t) const { return f.c.rows + f.c.first_step + t; }
  T* keys(int64_t b) const { return as<T>(f.c.state_last[0]) + b * rows * key_size; }
  T* values(int64_t b) const { return as<T>(f.c.state_last[1]) + b * rows * width; }
  T* strengths(int64_t b) const { return as<T>(f.c.state_last[2]) + b * rows; }

  // A part of a tape's two keys, from or to the fields of a state.
  void spread_tape(T* tape, const void* const* fields, int64_t b) const {
    for (int64_t part = 0; has_tape && part < 2; ++part) {
      const T* field = as<T>(fields[3 + part]);
      T* to = tape + part * key_size;
      field ? copy_values(to, field + b * key_size, key_size) : clear_values(to, key_size);
    }
  }
  void gather_tape(void* const* fields, const T* tape, int64_t b) const {
    for (int64_t part = 0; has_tape && part < 2; ++part)
      copy_values(as<T>(fields[3 + part]) + b * key_size, tape + part * key_size, key_size);
  }

  // The key that is read, without the sharpening; `tape` has the keys after and before.
  void mix(const T* instruction, const T* tape, T* key) const {
    if (!has_tape) return copy_values(key, instruction, key_size);
    const T *weights = instruction + link(), *after = tape, *before = tape + key_size;
    for (int64_t j = 0; j < key_size; ++j)
      key[j] = weights[0] * instruction[j] + weights[1] * after[j] + weights[2] * before[j];
  }
  void sharpen(const T* instruction, T* key) const {
    if (!has_sharpening) return;
    for (int64_t j = 0; j < key_size; ++j) key[j] *= instruction[sharpening()];
  }
};

// Reads the rows that are not absent; distances are inner products with the other sign.
template <class T>
class RandomAccessRead : private WeightedRows<T> {
  using WeightedRows<T>::rows, WeightedRows<T>::weights_, WeightedRows<T>::products_,
      WeightedRows<T>::farther_;

 public:
  // Weights have zeros on both sides; so have products of rows with the gradients of a tape.
  static int64_t scratch_size(int64_t stride) {
    return lanes<T> + WeightedRows<T>::scratch_size(stride) + stride + lanes<T> + stride;
  }

  RandomAccessRead(int64_t key_size, int64_t width, const KeyedRows<T>& of, T* scratch)
      : WeightedRows<T>(width, of, scratch + lanes<T>), n(key_size),
        of_next_(scratch + lanes<T> + WeightedRows<T>::scratch_size(of.stride)),
        of_previous_(of_next_ + of.stride + lanes<T>) {}

  // r = sum w v, of values [rows][width] followed by a register of padding.
  void read(const T* key, const T* values, T* read_vector) {
    weigh(key);
    this->sum_rows(weights_, values, this->width_, read_vector);
  }
  // The mean keys of the next rows, then of the previous rows, [n] each, from the keys [rows][n]
  // followed by a register of padding.
  void read_neighbours(const T* row_keys, T* tape) const {
    set_ends(weights_);
    this->sum_rows(weights_ - 1, row_keys, n, tape);
    this->sum_rows(weights_ + 1, row_keys, n, tape + n);
  }

  // Accumulates gradients of keys [n][stride], strengths [stride] and values [width][stride], and
  // sets the gradient of the head's key. Gradients of rows from `end` on were used before, and are
  // lost. `grad_tape` is null without a tape; `row_keys` are the keys as for read_neighbours.
  void backward(const T* key, const T* row_keys, const T* columns, const T* grad,
                const T* grad_tape, T* of_keys, T* of_strengths, T* of_columns, T* of_key) {
    const T inverse = weigh(key);
    for (int64_t i = 0; i < rows.end; i += lanes<T>)
      store(products_ + i,
            this->product_with(columns + i, grad, load(weights_ + i), of_columns + i));
    if (grad_tape) add_neighbours(grad_tape);
    Vector<T> means{};
    for (int64_t i = 0; i < rows.end; i += lanes<T>) {
      const Vector<T> product = rows.strength(i) == 0 ? Vector<T>{} : load(products_ + i);
      store(products_ + i, product);
      means += load(weights_ + i) * product;
    }
    this->weigh_backward(sum_of<T>(means), inverse, true, T(1), of_strengths);
    grad_tape ? keys_backward<true>(key, grad_tape, of_keys)
              : keys_backward<false>(key, grad_tape, of_keys);
    this->sum_rows(products_, row_keys, n, of_key);
    for (int64_t j = 0; j < n; ++j) of_key[j] = -of_key[j];
  }

 private:
  const int64_t n;
  T *of_next_, *of_previous_;  // products of each row with the gradients of a tape

  int64_t whole() const { return (rows.end + lanes<T> - 1) / lanes<T> * lanes<T>; }
  void set_ends(T* x) const {
    store(x - lanes<T>, Vector<T>{});
    store(x + whole(), Vector<T>{});
  }

  // Computes the weights; returns the inverse of their sum, or 0 without rows.
  T weigh(const T* key) {
    const int64_t size = n, stride = rows.stride;
    Vector<T> nearest = Vector<T>{} + std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < rows.end; i += lanes<T>) {
      Vector<T> distance{};
      for (int64_t j = 0; j < size; ++j) distance -= load(rows.keys + j * stride + i) * key[j];
      store(farther_ + i, distance);
      const Vector<T> held = rows.strength(i) == 0 ? nearest : distance;
      nearest = held < nearest ? held : nearest;
    }
    return this->divide(this->weigh_by_softmax(nearest, T(1)));
  }

  // Adds the next and the previous row's products with the gradients of the tape's keys.
  void add_neighbours(const T* grad_tape) const {
    const int64_t size = n, stride = rows.stride;
    for (int64_t i = 0; i < rows.end; i += lanes<T>) {
      Vector<T> next{}, previous{};
      for (int64_t j = 0; j < size; ++j) {
        const Vector<T> here = load(rows.keys + j * stride + i);
        next += here * grad_tape[j];
        previous += here * grad_tape[size + j];
      }
      const auto is_none = rows.strength(i) == 0;
      store(of_next_ + i, is_none ? Vector<T>{} : next);
      store(of_previous_ + i, is_none ? Vector<T>{} : previous);
    }
    set_ends(of_next_);
    set_ends(of_previous_);
    set_ends(weights_);
    for (int64_t i = 0; i < rows.end; i += lanes<T>)
      store(products_ + i,
            load(products_ + i) + load(of_next_ + i + 1) + load(of_previous_ + i - 1));
  }

  // From the gradients of distances, and of a tape's keys.
  template <bool has_tape>
  void keys_backward(const T* key, const T* grad_tape, T* of_keys) const {
    const T *weights = weights_, *products = products_;  // local: a store may alias the others
    const int64_t end = rows.end, stride = rows.stride;
    for (int64_t j = 0; j < n; ++j) {
      T* of_row = of_keys + j * stride;
      const T one = key[j], of_next = has_tape ? grad_tape[j] : T(0);
      const T of_previous = has_tape ? grad_tape[n + j] : T(0);
      for (int64_t i = 0; i < end; i += lanes<T>) {
        Vector<T> sum = load(of_row + i) - load(products + i) * one;
        if constexpr (has_tape)
          sum += load(weights + i - 1) * of_next + load(weights + i + 1) * of_previous;
        store(of_row + i, sum);
      }
    }
  }
};

template <class T>
class RandomAccessForward final : public MemoryForward<T> {
 public:
  explicit RandomAccessForward(const Frame<T>& frame) : f(frame), at(frame) {}

  void take_scratch(Workspace& space) override {
    const int64_t batch = f.c.batch;
    space.take(entries_, batch);
    space.take(keys_, batch * at.key_size * at.stride);
    space.take(strengths_, batch * at.stride);
    space.take(values_, batch * value_room());
    space.take(row_keys_, at.has_tape ? batch * at.row_key_room() : 0);
    space.take(tapes_, batch * at.tape_size());
    space.take(key_, batch * at.key_size);
    space.take(scratch_, batch * RandomAccessRead<T>::scratch_size(at.stride));
    if (!f.c.saves) space.take(instruction_, batch * at.instruction);
  }

  void begin(int64_t b) override {
    const int64_t N = f.c.rows, M = at.width, n = at.key_size;
    entries_[b] = Entry{0, false};
    clear_values(keys_ + b * n * at.stride, n * at.stride);
    clear_values(strengths_ + b * at.stride, at.stride);
    clear_values(values_ + b * value_room() + at.rows * M, lanes<T>);
    if (at.has_tape) at.pad_row_keys(row_keys_ + b * at.row_key_room());
    copy_values(at.keys(b), as<T>(f.c.state0[0]) + b * N * n, N * n);
    copy_values(at.values(b), as<T>(f.c.state0[1]) + b * N * M, N * M);
    copy_values(at.strengths(b), as<T>(f.c.state0[2]) + b * N, N);
    for (int64_t i = 0; i < N; ++i) append(i, b);
    at.spread_tape(tape(b), f.c.state0, b);
  }

  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    in.take(0, int(f.c.head_count), instruction(t, b));
  }

  void step(int64_t t, int64_t b, T* read_vector) override {
    const int64_t M = at.width, n = at.key_size, row = at.row_of(t);
    const T* in = instruction(t, b);
    T* key = key_ + b * n;
    if (f.c.saves) copy_values(at.saved_tape(t, b), tape(b), at.tape_size());
    at.mix(in, tape(b), key);
    at.sharpen(in, key);
    const KeyedRows<T> rows{keys_ + b * n * at.stride, strengths_ + b * at.stride, at.stride, 0,
                            entries_[b].count};
    RandomAccessRead<T> all(n, M, rows,
                            scratch_ + b * RandomAccessRead<T>::scratch_size(at.stride));
    all.read(key, values_ + b * value_room(), read_vector);
    if (at.has_tape) all.read_neighbours(row_keys_ + b * at.row_key_room(), tape(b));
    if (entries_[b].is_spoiled)
      for (int64_t m = 0; m < M; ++m) read_vector[m] = std::numeric_limits<T>::quiet_NaN();
    copy_values(at.keys(b) + row * n, in + at.write_key(), n);
    copy_values(at.values(b) + row * M, in + at.value(), M);
    at.strengths(b)[row] = in[at.strength()];
    append(row, b);
  }

  void skip(int64_t t, int64_t b) override {
    const int64_t row = at.row_of(t);
    clear_values(at.keys(b) + row * at.key_size, at.key_size);
    clear_values(at.values(b) + row * at.width, at.width);
    at.strengths(b)[row] = 0;
  }

  void finish(int64_t b) override { at.gather_tape(f.c.state_last, tape(b), b); }

 private:
  // The number of rows that are not absent, and whether an absent one has a NaN in its value. The
  // read vector is then NaN, as in the reference, whose sums run over all rows.
  struct Entry {
    int64_t count;
    bool is_spoiled;
  };

  const Frame<T>& f;
  const RandomAccessLayout<T> at;
  Entry* entries_ = nullptr;
  // Of rows that are not absent; keys [B][n][stride] and, for a tape, [B][rows][n].
  T *keys_ = nullptr, *strengths_ = nullptr, *values_ = nullptr, *row_keys_ = nullptr;
  T *tapes_ = nullptr, *key_ = nullptr, *scratch_ = nullptr, *instruction_ = nullptr;

  int64_t value_room() const { return at.rows * at.width + lanes<T>; }
  T* tape(int64_t b) const { return tapes_ + b * at.tape_size(); }
  T* instruction(int64_t t, int64_t b) const {
    return f.c.saves ? at.saved_instruction(t, b) : instruction_ + b * at.instruction;
  }

  // Takes a row of the state among those that are read, unless it is absent.
  void append(int64_t row, int64_t b) {
    const int64_t M = at.width, n = at.key_size;
    const T *key = at.keys(b) + row * n, *value = at.values(b) + row * M;
    const T strength = at.strengths(b)[row];
    Entry& entry = entries_[b];
    if (strength <= 0) {
      entry.is_spoiled |= has_nan(value, M);
      return;
    }
    const int64_t place = entry.count++;
    for (int64_t j = 0; j < n; ++j) keys_[(b * n + j) * at.stride + place] = key[j];
    if (at.has_tape) copy_values(row_keys_ + b * at.row_key_room() + place * n, key, n);
    strengths_[b * at.stride + place] = strength;
    copy_values(values_ + b * value_room() + place * M, value, M);
  }
};

template <class T>
class RandomAccessBackward final : public MemoryBackward<T> {
 public:
  explicit RandomAccessBackward(const Frame<T>& frame) : f(frame), at(frame) {}

  void take_scratch(Workspace& space) override {
    const int64_t batch = f.c.batch, n = at.key_size;
    space.take(counts_, batch);
    space.take(row_keys_, batch * at.row_key_room());
    for (T** of_keys : {&keys_, &grad_keys_}) space.take(*of_keys, batch * n * at.stride);
    for (T** of_values : {&columns_, &grad_columns_})
      space.take(*of_values, batch * at.width * at.stride);
    for (T** of_rows : {&strengths_, &grad_strengths_}) space.take(*of_rows, batch * at.stride);
    for (T** of_tape : {&first_tapes_, &grad_tapes_}) space.take(*of_tape, batch * at.tape_size());
    for (T** of_key : {&key_, &grad_key_}) space.take(*of_key, batch * n);
    space.take(grad_instruction_, batch * at.instruction);
    space.take(scratch_, batch * RandomAccessRead<T>::scratch_size(at.stride));
  }

  void begin(int64_t b) override {
    const int64_t M = at.width, n = at.key_size, stride = at.stride;
    for (T* of_keys : {keys(b), grad_keys(b)}) clear_values(of_keys, n * stride);
    for (T* of_values : {columns(b), grad_columns(b)}) clear_values(of_values, M * stride);
    for (T* of_rows : {strengths(b), grad_strengths(b)}) clear_values(of_rows, stride);
    T* row_keys = row_keys_ + b * at.row_key_room();
    at.pad_row_keys(row_keys);
    int64_t count = 0;
    for (int64_t row = 0; row < at.rows; ++row) {
      const T strength = at.strengths(b)[row];
      if (strength <= 0) continue;
      const int64_t place = count++;
      strengths(b)[place] = strength;
      spread(keys(b) + place, at.keys(b) + row * n, n);
      copy_values(row_keys + place * n, at.keys(b) + row * n, n);
      spread(columns(b) + place, at.values(b) + row * M, M);
      if (const T* of_key = last(0, b, row, n)) spread(grad_keys(b) + place, of_key, n);
      if (const T* of_value = last(1, b, row, M)) spread(grad_columns(b) + place, of_value, M);
      if (const T* of_strength = last(2, b, row, 1)) grad_strengths(b)[place] = *of_strength;
    }
    counts_[b] = count;
    at.spread_tape(first_tapes_ + b * at.tape_size(), f.c.state0, b);
    at.spread_tape(grad_tapes_ + b * at.tape_size(), f.c.grad_state_last, b);
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    const int64_t M = at.width, n = at.key_size;
    const T *in = at.saved_instruction(t, b), *tape = at.saved_tape(t, b);
    T *of = grad_instruction_ + b * at.instruction, *grad_tape = grad_tapes_ + b * at.tape_size();
    T *key = key_ + b * n, *of_key = grad_key_ + b * n;
    give_row(at.row_of(t), b, in[at.strength()] <= 0 ? -1 : --counts_[b], of + at.write_key(),
             of + at.value(), of + at.strength());
    at.mix(in, tape, key);
    at.sharpen(in, key);
    const KeyedRows<T> rows{keys(b), strengths(b), at.stride, 0, counts_[b]};
    RandomAccessRead<T>(n, M, rows, scratch_ + b * RandomAccessRead<T>::scratch_size(at.stride))
        .backward(key, row_keys_ + b * at.row_key_room(), columns(b), grad_read_vector,
                  at.has_tape ? grad_tape : nullptr, grad_keys(b), grad_strengths(b),
                  grad_columns(b), of_key);
    if (at.has_sharpening) {
      at.mix(in, tape, key);
      of[at.sharpening()] = dot(n, of_key, key);
      at.sharpen(in, of_key);
    }
    if (!at.has_tape) return copy_values(of, of_key, n);
    const T* weights = in + at.link();
    T* of_weights = of + at.link();
    of_weights[0] = dot(n, of_key, in);
    for (int64_t part = 0; part < 2; ++part) {
      of_weights[1 + part] = dot(n, of_key, tape + part * n);
      for (int64_t j = 0; j < n; ++j) grad_tape[part * n + j] = weights[1 + part] * of_key[j];
    }
    for (int64_t j = 0; j < n; ++j) of[j] = weights[0] * of_key[j];
  }

  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, int(f.c.head_count), at.saved_instruction(t, b),
             grad_instruction_ + b * at.instruction);
  }

  void end(int64_t b) override {
    const int64_t N = f.c.rows, M = at.width, n = at.key_size;
    int64_t count = 0;
    for (int64_t row = 0; f.c.grad_state0[0] && row < N; ++row) {
      const int64_t place = at.strengths(b)[row] <= 0 ? -1 : count++, to = b * N + row;
      give_row(row, b, place, as<T>(f.c.grad_state0[0]) + to * n,
               as<T>(f.c.grad_state0[1]) + to * M, as<T>(f.c.grad_state0[2]) + to);
    }
    if (at.has_tape && f.c.grad_state0[3])
      at.gather_tape(f.c.grad_state0, grad_tapes_ + b * at.tape_size(), b);
  }

 private:
  const Frame<T>& f;
  const RandomAccessLayout<T> at;
  int64_t* counts_ = nullptr;  // rows that are not absent
  // Of these rows; keys [B][n][stride] and [B][rows][n], and values [B][M][stride].
  T *keys_ = nullptr, *row_keys_ = nullptr, *columns_ = nullptr, *strengths_ = nullptr;
  T *grad_keys_ = nullptr, *grad_columns_ = nullptr, *grad_strengths_ = nullptr;
  T *first_tapes_ = nullptr, *grad_tapes_ = nullptr, *key_ = nullptr, *grad_key_ = nullptr;
  T *grad_instruction_ = nullptr, *scratch_ = nullptr;

  T* keys(int64_t b) const { return keys_ + b * at.key_size * at.stride; }
  T* columns(int64_t b) const { return columns_ + b * at.width * at.stride; }
  T* strengths(int64_t b) const { return strengths_ + b * at.stride; }
  T* grad_keys(int64_t b) const { return grad_keys_ + b * at.key_size * at.stride; }
  T* grad_columns(int64_t b) const { return grad_columns_ + b * at.width * at.stride; }
  T* grad_strengths(int64_t b) const { return grad_strengths_ + b * at.stride; }

  void spread(T* to, const T* from, int64_t size) const {
    for (int64_t j = 0; j < size; ++j) to[j * at.stride] = from[j];
  }
  void gather(T* to, const T* from, int64_t size) const {
    for (int64_t j = 0; j < size; ++j) to[j] = from[j * at.stride];
  }
  // The gradient of a row of a field of the last state; null if there is none.
  const T* last(int64_t field, int64_t b, int64_t row, int64_t size) const {
    const T* all = as<T>(f.c.grad_state_last[field]);
    return all ? all + (b * at.rows + row) * size : nullptr;
  }
  // The gradients of a row at its place among the rows that are read. An absent row has place -1
  // and the gradients of the last state.
  void give_row(int64_t row, int64_t b, int64_t place, T* of_key, T* of_value,
                T* of_strength) const {
    const T* const lasts[] = {last(0, b, row, at.key_size), last(1, b, row, at.width),
                              last(2, b, row, 1)};
    const T* const found[] = {grad_keys(b), grad_columns(b), grad_strengths(b)};
    T* const to[] = {of_key, of_value, of_strength};
    const int64_t sizes[] = {at.key_size, at.width, 1};
    for (int field = 0; field < 3; ++field) {
      if (place >= 0)
        gather(to[field], found[field] + place, sizes[field]);
      else if (lasts[field])
        copy_values(to[field], lasts[field], sizes[field]);
      else
        clear_values(to[field], sizes[field]);
    }
  }
};

struct RandomAccess {
  template <class T> using Forward = RandomAccessForward<T>;
  template <class T> using Backward = RandomAccessBackward<T>;
};

}  // namespace unbounded
