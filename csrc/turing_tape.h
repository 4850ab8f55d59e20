// The tape of a Neural Turing Machine (Graves et al. 2014): heads that address, write and read.
//
// Options: slots, width, read heads, write heads, range of shifts, circular, reads before writing,
// digits of the floor. Heads: key, strength, gate, shift, sharpening of the readers, of the
// writers, erase, add. State: cells [N, M], read weights [R, N], write weights [W, N]. Saved:
// instructions [T, B, K]; weights after each step [T, B, R + W, N padded to whole registers].
// Checkpoints: cells.
//
// A step's instruction and weights determine what it wrote, so the backward pass recomputes cells
// without addressing.
#pragma once

#include "memory.h"
#include "tape_addressing.h"

namespace unbounded {

// The layout, and writing, for both directions.
template <class T>
struct TapeLayout {
  const Frame<T>& f;
  const TapeSizes<T> s;

  explicit TapeLayout(const Frame<T>& frame) : f(frame), s(frame) {}

  T* instruction(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * s.instruction;
  }
  T* weights(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[1]) + (t * f.c.batch + b) * s.weights();
  }
  // Maps the two fields of weights, [heads, N] each, to [heads, stride] and back.
  void spread_weights(T* to, const void* const* fields, int64_t b) const {
    for (int64_t h = 0; h < s.heads; ++h) {
      const bool reads = h < s.readers;
      const T* field = as<T>(fields[reads ? 1 : 2]);
      const int64_t row = reads ? b * s.readers + h : b * s.writers + h - s.readers;
      if (field) copy_values(to + h * s.stride, field + row * s.slots, s.slots);
      field ? s.pad(to + h * s.stride) : clear_values(to + h * s.stride, s.stride);
    }
  }
  void gather_weights(void* const* fields, const T* from, int64_t b) const {
    for (int64_t h = 0; h < s.heads; ++h) {
      const bool reads = h < s.readers;
      const int64_t row = reads ? b * s.readers + h : b * s.writers + h - s.readers;
      copy_values(as<T>(fields[reads ? 1 : 2]) + row * s.slots, from + h * s.stride, s.slots);
    }
  }
  void begin(int64_t b, T* cells) const {
    s.spread(cells, as<T>(f.c.state0[0]) + b * s.slots * s.width);
  }

  // Row m of the cells after writing: M(i) prod (1 - w(i) e) + sum w(i) a, limited.      (3), (4)
  void write_row(int64_t m, T* to, const T* from, const T* instruction, const T* weights) const {
    if (s.writers == 1)
      write_row_of<1>(m, to, from, instruction, weights);
    else
      write_row_of<0>(m, to, from, instruction, weights);
  }
  void write(T* to, const T* from, const T* instruction, const T* weights) const {
    for (int64_t m = 0; m < s.width; ++m)
      write_row(m, to + m * s.stride, from + m * s.stride, instruction, weights);
  }

 private:
  template <int known_writers>  // 0 for any number
  void write_row_of(int64_t m, T* to, const T* from, const T* instruction, const T* weights) const {
    const int64_t writers = known_writers ? known_writers : s.writers;
    const int64_t stride = s.stride, width = s.width;
    const T *first = weights + s.readers * stride, *erase = instruction + s.erase(0) + m;
    const T* add = instruction + s.add(0) + m;
    for (int64_t n = 0; n < stride; n += lanes<T>) {
      Vector<T> kept = Vector<T>{} + 1, added{};
      for (int64_t w = 0; w < writers; ++w) {
        const Vector<T> weight = load(first + w * stride + n);
        kept *= 1 - weight * erase[w * width];
        added += weight * add[w * width];
      }
      store(to + n, limited<T>(load(from + n) * kept + added));
    }
  }
};

template <class T>
class TuringTapeForward final : public MemoryForward<T> {
 public:
  explicit TuringTapeForward(const Frame<T>& frame) : f(frame), at(frame), s(at.s) {}

  void take_scratch(Workspace& space) override {
    space.take(cells_, f.c.batch * s.cells());
    space.take(weights_, f.c.batch * s.weights());
    space.take(new_weights_, f.c.batch * s.weights());
    space.take(scratch_, f.c.batch * TapeAddressing<T>(s).scratch_size());
    if (!f.c.saves) space.take(instruction_, f.c.batch * s.instruction);
  }
  void begin(int64_t b) override {
    at.begin(b, cells(b));
    at.spread_weights(weights_ + b * s.weights(), f.c.state0, b);
  }
  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    in.take(0, 12, instruction(t, b));
    s.limit_keys(instruction(t, b));
  }

  void step(int64_t t, int64_t b, T* read_vector) override {
    TapeAddressing<T> addressing(s);
    addressing.use(scratch_ + b * addressing.scratch_size());
    T *weights = weights_ + b * s.weights(), *after = new_weights_ + b * s.weights();
    addressing.look_at(cells(b));
    for (int64_t h = 0; h < s.heads; ++h)
      addressing.address(h, instruction(t, b), cells(b), weights + h * s.stride,
                         after + h * s.stride);
    copy_values(weights, after, s.weights());
    if (f.c.saves) copy_values(at.weights(t, b), after, s.weights());
    if (s.reads_before) read(cells(b), weights, read_vector);
    at.write(cells(b), cells(b), instruction(t, b), weights);
    if (!s.reads_before) read(cells(b), weights, read_vector);
  }
  void keep(int64_t b, T* to) override { copy_values(to, cells(b), s.cells()); }
  void finish(int64_t b) override {
    s.gather(as<T>(f.c.state_last[0]) + b * s.slots * s.width, cells(b));
    at.gather_weights(f.c.state_last, weights_ + b * s.weights(), b);
  }

 private:
  const Frame<T>& f;
  const TapeLayout<T> at;
  const TapeSizes<T>& s;
  T *cells_ = nullptr, *weights_ = nullptr, *new_weights_ = nullptr, *scratch_ = nullptr;
  T* instruction_ = nullptr;

  T* cells(int64_t b) const { return cells_ + b * s.cells(); }
  T* instruction(int64_t t, int64_t b) const {
    return f.c.saves ? at.instruction(t, b) : instruction_ + b * s.instruction;
  }
  void read(const T* cells, const T* weights, T* read_vector) const {                        // (2)
    for (int64_t r = 0; r < s.readers; ++r)
      for (int64_t m = 0; m < s.width; ++m)
        read_vector[r * s.width + m] = dot(s.stride, weights + r * s.stride, cells + m * s.stride);
  }
};

template <class T>
class TuringTapeBackward final : public MemoryBackward<T> {
 public:
  explicit TuringTapeBackward(const Frame<T>& frame)
      : f(frame), at(frame), s(at.s), states_(frame, s.cells()) {}

  void take_scratch(Workspace& space) override {
    states_.take_scratch(space);
    space.take(first_weights_, f.c.batch * s.weights());
    space.take(grad_cells_, f.c.batch * s.cells());
    space.take(grad_weights_, f.c.batch * s.weights());
    space.take(of_products_, f.c.batch * s.weights());
    space.take(rows_, f.c.batch * 2 * s.stride);
    space.take(of_key_squares_, f.c.batch * s.heads);
    space.take(grad_instruction_, f.c.batch * s.instruction);
    space.take(scratch_, f.c.batch * TapeAddressing<T>(s).scratch_size());
  }
  void begin(int64_t b) override {
    at.spread_weights(first_weights_ + b * s.weights(), f.c.state0, b);
    at.spread_weights(grad_weights_ + b * s.weights(), f.c.grad_state_last, b);
    const T* of_cells = as<T>(f.c.grad_state_last[0]);
    if (of_cells)
      s.spread(grad_cells_ + b * s.cells(), of_cells + b * s.slots * s.width);
    else
      clear_values(grad_cells_ + b * s.cells(), s.cells());
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    states_.go_back_to(
        t, b,
        [&](int64_t first, T* to) {
          if (first == 0)
            at.begin(b, to);
          else
            copy_values(to, f.checkpoint(b, first / f.c.block), s.cells());
        },
        [&](T* to, const T* from, int64_t step) {
          at.write(to, from, at.instruction(step, b), at.weights(step, b));
        });
    const T *cells = states_.before(t, b), *instruction = at.instruction(t, b),
        *weights = at.weights(t, b);
    T *grad_instruction = grad_instruction_ + b * s.instruction,
        *grad_weights = grad_weights_ + b * s.weights();
    T *squares = rows_ + b * 2 * s.stride, *seen = squares + s.stride;
    for (int64_t m = 0; m < s.width; ++m) {
      T* grad = grad_cells_ + b * s.cells() + m * s.stride;
      const T* row = cells + m * s.stride;
      at.write_row(m, seen, row, instruction, weights);
      if (!s.reads_before) read_backward(m, seen, weights, grad_read_vector, grad, grad_weights);
      s.limit_backward(seen, grad);
      write_backward(m, row, instruction, weights, grad, grad_weights, grad_instruction);
      if (s.reads_before) read_backward(m, row, weights, grad_read_vector, grad, grad_weights);
    }
    address_backward(t, b, cells, instruction, weights, squares, grad_instruction);
    s.limit_key_gradients(instruction, grad_instruction);
  }
  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, 12, at.instruction(t, b), grad_instruction_ + b * s.instruction);
  }
  void end(int64_t b) override {
    if (!f.c.grad_state0[0]) return;
    s.gather(as<T>(f.c.grad_state0[0]) + b * s.slots * s.width, grad_cells_ + b * s.cells());
    at.gather_weights(f.c.grad_state0, grad_weights_ + b * s.weights(), b);
  }

 private:
  const Frame<T>& f;
  const TapeLayout<T> at;
  const TapeSizes<T>& s;
  Checkpoints<T> states_;
  T *first_weights_ = nullptr, *grad_cells_ = nullptr, *grad_weights_ = nullptr;
  T *of_products_ = nullptr, *rows_ = nullptr, *of_key_squares_ = nullptr;
  T *grad_instruction_ = nullptr, *scratch_ = nullptr;

  // For row m: the gradients of the read vectors and of the readers' weights.
  void read_backward(int64_t m, const T* seen, const T* weights, const T* grad_read_vector, T* grad,
                     T* grad_weights) const {
    const int64_t readers = s.readers, stride = s.stride;
    for (int64_t r = 0; r < readers; ++r) {
      const T of_read_vector = grad_read_vector[r * s.width + m];
      const T* weight = weights + r * stride;
      T* of_weight = grad_weights + r * stride;
      for (int64_t n = 0; n < stride; n += lanes<T>) {
        store(grad + n, load(grad + n) + load(weight + n) * of_read_vector);
        store(of_weight + n, load(of_weight + n) + load(seen + n) * of_read_vector);
      }
    }
  }

  // For row m: maps `grad` of the new cells to that of the old ones.
  void write_backward(int64_t m, const T* row, const T* instruction, const T* weights, T* grad,
                      T* grad_weights, T* grad_instruction) const {
    // Local sizes: a store may alias whatever a reference points to.
    const int64_t writers = s.writers, stride = s.stride, width = s.width;
    const T *first = weights + s.readers * stride, *erases = instruction + s.erase(0) + m;
    T* of_first = grad_weights + s.readers * stride;
    for (int64_t w = 0; w < writers; ++w) {
      const T erase = erases[w * width], add = instruction[s.add(w) + m];
      const bool is_last = w + 1 == writers;
      Vector<T> of_erase{}, of_add{};
      for (int64_t n = 0; n < stride; n += lanes<T>) {
        // The product over the other heads; a quotient would fail where this head erases all.
        Vector<T> left = load(row + n), kept = Vector<T>{} + 1;
        for (int64_t v = 0; v < writers - 1; ++v) {
          const int64_t other = v < w ? v : v + 1;
          kept *= 1 - load(first + other * stride + n) * erases[other * width];
        }
        left *= kept;
        const Vector<T> here = load(grad + n), weight = load(first + w * stride + n);
        of_erase -= here * left * weight;
        of_add += here * weight;
        T* to = of_first + w * stride + n;
        store(to, load(to) + here * (add - left * erase));
        if (is_last) store(grad + n, here * kept * (1 - weight * erase));
      }
      grad_instruction[s.erase(w) + m] = sum_of<T>(of_erase);
      grad_instruction[s.add(w) + m] = sum_of<T>(of_add);
    }
  }

  void address_backward(int64_t t, int64_t b, const T* cells, const T* instruction,
                        const T* weights, T* of_squares, T* grad_instruction) {
    const T* before = t > 0 ? at.weights(t - 1, b) : first_weights_ + b * s.weights();
    T *grad_weights = grad_weights_ + b * s.weights(), *of_products = of_products_ + b * s.weights();
    T* of_key_squares = of_key_squares_ + b * s.heads;
    TapeAddressing<T> addressing(s);
    addressing.use(scratch_ + b * addressing.scratch_size());
    addressing.look_at(cells);
    clear_values(of_squares, s.stride);
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t row = h * s.stride;
      of_key_squares[h] =
          addressing.backward(h, instruction, cells, before + row, weights + row,
                              grad_weights + row, grad_instruction, of_products + row, of_squares);
    }
    s.keys_backward(
        s.heads, cells, of_products, of_squares, of_key_squares, grad_cells_ + b * s.cells(),
        [&](int64_t h) { return instruction + s.key(h); },
        [&](int64_t h) { return grad_instruction + s.key(h); });
  }
};

struct TuringTape {
  template <class T> using Forward = TuringTapeForward<T>;
  template <class T> using Backward = TuringTapeBackward<T>;
};

}  // namespace unbounded
