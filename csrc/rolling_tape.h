// The tapes of Delétang et al. 2023: cells in a ring that moves under a fixed head.
//
// Options: slots, width, tapes, whether jumps write. Heads: action (5 for each tape: stay, next,
// previous, jump forward, jump back), value. State: cells [K, N, W], jump []. Saved: instructions
// [T, B, K (5 + W)]. Checkpoints: cells.
//
// A tape is one array of N W numbers. A move by d cells is an offset of d W in the ring, so a step
// is a sum of five arrays at five offsets. Its transpose is the same sum with the offsets negated.
#pragma once

#include <cmath>

#include "checkpoints.h"
#include "memory.h"

namespace unbounded {

constexpr int roll_actions = 5;

// The five offsets in a ring of `size` numbers, and the ranges in which none of them wraps.
struct Ring {
  int64_t size, offset[roll_actions], cut[roll_actions + 1];

  // `jump` is in numbers, in 0..size-1; `row` is W.
  Ring(int64_t size, int64_t row, int64_t jump) : size(size) {
    const int64_t offsets[roll_actions] = {0, row % size, (size - row) % size, jump,
                                           (size - jump) % size};
    cut[0] = 0;
    for (int k = 0; k < roll_actions; ++k) {
      offset[k] = offsets[k];
      cut[k + 1] = size - offset[k];  // offset 0 never wraps
    }
    std::sort(cut, cut + roll_actions + 1);
  }
  // The place of number i after offset k.
  int64_t place(int k, int64_t i) const { return (i + offset[k]) % size; }

  // body(begin, end, starts): in [begin, end) number i of array k is at starts[k] + i.
  template <class T, class Body>
  void for_ranges(const T* from, Body body) const {
    for (int part = 0; part <= roll_actions; ++part) {
      const int64_t begin = cut[part], end = part < roll_actions ? cut[part + 1] : size;
      if (begin >= end) continue;
      const T* starts[roll_actions];
      for (int k = 0; k < roll_actions; ++k)
        starts[k] = from + offset[k] - (begin + offset[k] >= size ? size : 0);
      body(begin, end, starts);
    }
  }
};

// to[i] = sum_k weights[k] from[i + offset k].
template <class T>
void roll_mix(const Ring& ring, T* to, const T* from, const T* weights) {
  const T w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3], w4 = weights[4];
  ring.for_ranges(from, [&](int64_t begin, int64_t end, const T* const* at) {
    const T *p0 = at[0], *p1 = at[1], *p2 = at[2], *p3 = at[3], *p4 = at[4];
    int64_t i = begin;
    for (; i + lanes<T> <= end; i += lanes<T>)
      store(to + i, load(p0 + i) * w0 + load(p1 + i) * w1 + load(p2 + i) * w2 +
                        load(p3 + i) * w3 + load(p4 + i) * w4);
    for (; i < end; ++i)
      to[i] = p0[i] * w0 + p1[i] * w1 + p2[i] * w2 + p3[i] * w3 + p4[i] * w4;
  });
}

// sums[k] = sum_i grad[i] from[i + offset k].
template <class T>
void roll_dots(const Ring& ring, T* sums, const T* grad, const T* from) {
  Vector<T> totals[roll_actions] = {};
  T rest[roll_actions] = {};
  ring.for_ranges(from, [&](int64_t begin, int64_t end, const T* const* at) {
    int64_t i = begin;
    for (; i + lanes<T> <= end; i += lanes<T>) {
      const Vector<T> here = load(grad + i);
      for (int k = 0; k < roll_actions; ++k) totals[k] += here * load(at[k] + i);
    }
    for (; i < end; ++i)
      for (int k = 0; k < roll_actions; ++k) rest[k] += grad[i] * at[k][i];
  });
  for (int k = 0; k < roll_actions; ++k) sums[k] = sum_of<T>(totals[k]) + rest[k];
}

// The layout, and a step, for both directions.
template <class T>
struct RollLayout {
  const Frame<T>& f;
  const int64_t slots, width, tapes, size, instruction;
  const bool jumps_write;

  explicit RollLayout(const Frame<T>& frame)
      : f(frame),
        slots(f.c.options[0]),
        width(f.c.options[1]),
        tapes(f.c.options[2]),
        size(slots * width),
        instruction(tapes * (roll_actions + width)),
        jumps_write(f.c.options[3] != 0) {}

  int64_t cells() const { return tapes * size; }
  Ring ring(int64_t b) const {
    const T given = as<T>(f.c.state0[1])[b];
    // NaN and numbers beyond an integer jump nowhere.
    const int64_t jump = given > -T(1e9) && given < T(1e9) ? int64_t(std::nearbyint(given)) : 0;
    return Ring(size, width, ((jump % slots + slots) % slots) * width);
  }
  T* saved(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * instruction;
  }
  static const T* actions(const T* given, int64_t k) { return given + k * roll_actions; }
  const T* value(const T* given, int64_t k) const {
    return given + tapes * roll_actions + k * width;
  }

  // Cells after a step; `old` has room for W numbers. `from` changes: the head's cells are written.
  void step(T* to, T* from, T* old, const T* given, const Ring& ring) const {
    for (int64_t k = 0; k < tapes; ++k) {
      T *tape = from + k * size, *next = to + k * size;
      const T *weights = actions(given, k), *written = value(given, k);
      copy_values(old, tape, width);
      copy_values(tape, written, width);
      roll_mix(ring, next, tape, weights);
      if (jumps_write) continue;
      // A jump carries the cell as it was before writing.
      for (int which = 3; which < roll_actions; ++which) {
        T* row = next + (ring.size - ring.offset[which]) % ring.size;
        for (int64_t m = 0; m < width; ++m) row[m] += weights[which] * (old[m] - written[m]);
      }
    }
  }
};

template <class T>
class RollingTapeForward final : public MemoryForward<T> {
 public:
  explicit RollingTapeForward(const Frame<T>& frame) : f(frame), at(frame) {}

  void take_scratch(Workspace& space) override {
    space.take(cells_, f.c.batch * at.cells());
    space.take(next_, f.c.batch * at.cells());
    space.take(old_, f.c.batch * at.width);
    if (!f.c.saves) space.take(instruction_, f.c.batch * at.instruction);
  }
  void begin(int64_t b) override {
    copy_values(cells(b), as<T>(f.c.state0[0]) + b * at.cells(), at.cells());
  }
  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    in.take(0, 2, instruction(t, b));
  }
  void step(int64_t t, int64_t b, T* read_vector) override {
    T* next = next_ + b * at.cells();
    at.step(next, cells(b), old_ + b * at.width, instruction(t, b), at.ring(b));
    copy_values(cells(b), next, at.cells());
    for (int64_t k = 0; k < at.tapes; ++k)
      copy_values(read_vector + k * at.width, next + k * at.size, at.width);
  }
  void keep(int64_t b, T* to) override { copy_values(to, cells(b), at.cells()); }
  void finish(int64_t b) override {
    copy_values(as<T>(f.c.state_last[0]) + b * at.cells(), cells(b), at.cells());
    as<T>(f.c.state_last[1])[b] = as<T>(f.c.state0[1])[b];
  }

 private:
  const Frame<T>& f;
  const RollLayout<T> at;
  T *cells_ = nullptr, *next_ = nullptr, *old_ = nullptr, *instruction_ = nullptr;

  T* cells(int64_t b) const { return cells_ + b * at.cells(); }
  T* instruction(int64_t t, int64_t b) const {
    return f.c.saves ? at.saved(t, b) : instruction_ + b * at.instruction;
  }
};

template <class T>
class RollingTapeBackward final : public MemoryBackward<T> {
 public:
  explicit RollingTapeBackward(const Frame<T>& frame)
      : f(frame), at(frame), states_(frame, at.cells()) {}

  void take_scratch(Workspace& space) override {
    states_.take_scratch(space);
    space.take(grad_, f.c.batch * at.cells());
    space.take(before_, f.c.batch * at.cells());
    space.take(old_, f.c.batch * at.width);
    space.take(grad_instruction_, f.c.batch * at.instruction);
  }
  void begin(int64_t b) override {
    T* grad = grad_ + b * at.cells();
    if (f.c.grad_state_last[0])
      copy_values(grad, as<T>(f.c.grad_state_last[0]) + b * at.cells(), at.cells());
    else
      clear_values(grad, at.cells());
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    const Ring ring = at.ring(b);
    T* old = old_ + b * at.width;
    states_.go_back_to(
        t, b,
        [&](int64_t first, T* to) {
          copy_values(to,
                      first == 0 ? as<T>(f.c.state0[0]) + b * at.cells()
                                 : f.checkpoint(b, first / f.c.block),
                      at.cells());
        },
        [&](T* to, const T* from, int64_t step) {
          // A copy, because a step writes under the head before it moves.
          T* work = before_ + b * at.cells();
          copy_values(work, from, at.cells());
          at.step(to, work, old, at.saved(step, b), ring);
        });
    const T* given = at.saved(t, b);
    T* grad_instruction = grad_instruction_ + b * at.instruction;
    for (int64_t k = 0; k < at.tapes; ++k) {
      T *tape = states_.before(t, b) + k * at.size, *grad = grad_ + b * at.cells() + k * at.size;
      T* before = before_ + b * at.cells() + k * at.size;
      T* of_value = grad_instruction + (at.value(given, k) - given);
      const T *weights = at.actions(given, k), *written = at.value(given, k);
      T* of_actions = grad_instruction + k * roll_actions;
      for (int64_t m = 0; m < at.width; ++m) grad[m] += grad_read_vector[k * at.width + m];
      copy_values(old, tape, at.width);
      copy_values(tape, written, at.width);
      roll_dots(ring, of_actions, grad, tape);
      // Each number goes where it came from: the offsets negated.
      const T back[roll_actions] = {weights[0], weights[2], weights[1], weights[4], weights[3]};
      roll_mix(ring, before, grad, back);
      for (int64_t m = 0; m < at.width; ++m) {
        T of_jumps = 0;
        if (!at.jumps_write)
          for (int which = 3; which < roll_actions; ++which) {
            const T here = grad[(at.size - ring.offset[which]) % at.size + m];
            of_actions[which] += here * (old[m] - written[m]);
            of_jumps += weights[which] * here;
          }
        of_value[m] = before[m] - of_jumps;
        before[m] = of_jumps;
      }
      copy_values(grad, before, at.size);
    }
  }
  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, 2, at.saved(t, b), grad_instruction_ + b * at.instruction);
  }
  void end(int64_t b) override {
    if (!f.c.grad_state0[0]) return;
    copy_values(as<T>(f.c.grad_state0[0]) + b * at.cells(), grad_ + b * at.cells(), at.cells());
    const T* of_jump = as<T>(f.c.grad_state_last[1]);
    as<T>(f.c.grad_state0[1])[b] = of_jump ? of_jump[b] : T(0);
  }

 private:
  const Frame<T>& f;
  const RollLayout<T> at;
  Checkpoints<T> states_;
  T *grad_ = nullptr, *before_ = nullptr, *old_ = nullptr, *grad_instruction_ = nullptr;
};

struct RollingTape {
  template <class T> using Forward = RollingTapeForward<T>;
  template <class T> using Backward = RollingTapeBackward<T>;
};

}  // namespace unbounded
