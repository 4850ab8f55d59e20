// A register, one value that is overwritten: the smallest example of a memory.
// Options: width. Heads: value, write. State: value [M]. Saved: instructions [T, B, M + 1]; the
// values before each step [T, B, M].
#pragma once

#include "memory.h"

namespace unbounded {

template <class T>
class RegisterForward final : public MemoryForward<T> {
 public:
  explicit RegisterForward(const Frame<T>& frame) : f(frame), M(frame.c.options[0]) {}

  void take_scratch(Workspace& space) override {
    space.take(value_, f.c.batch * M);
    if (!f.c.saves) space.take(instruction_, f.c.batch * (M + 1));
  }
  void begin(int64_t b) override { copy_values(value_ + b * M, as<T>(f.c.state0[0]) + b * M, M); }
  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    in.take(0, 2, instruction(t, b));
  }
  void step(int64_t t, int64_t b, T* read_vector) override {
    T *value = value_ + b * M, *x = instruction(t, b), write = x[M];
    if (f.c.saves) copy_values(as<T>(f.c.saved[1]) + (t * f.c.batch + b) * M, value, M);
    for (int64_t m = 0; m < M; ++m) read_vector[m] = value[m] = (1 - write) * value[m] + write * x[m];
  }
  void finish(int64_t b) override { copy_values(as<T>(f.c.state_last[0]) + b * M, value_ + b * M, M); }

 private:
  const Frame<T>& f;
  const int64_t M;
  T *value_ = nullptr, *instruction_ = nullptr;
  T* instruction(int64_t t, int64_t b) const {
    return (f.c.saves ? as<T>(f.c.saved[0]) + t * f.c.batch * (M + 1) : instruction_) + b * (M + 1);
  }
};

template <class T>
class RegisterBackward final : public MemoryBackward<T> {
 public:
  explicit RegisterBackward(const Frame<T>& frame) : f(frame), M(frame.c.options[0]) {}

  void take_scratch(Workspace& space) override {
    space.take(grad_, f.c.batch * M);
    space.take(grad_instruction_, f.c.batch * (M + 1));
  }
  void begin(int64_t b) override {
    clear_values(grad_ + b * M, M);
    if (f.c.grad_state_last[0]) axpy<T>(M, 1, as<T>(f.c.grad_state_last[0]) + b * M, grad_ + b * M);
  }
  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    T *grad = grad_ + b * M, *of_x = grad_instruction_ + b * (M + 1);
    const T *x = instruction(t, b), *before = as<T>(f.c.saved[1]) + (t * f.c.batch + b) * M;
    of_x[M] = 0;
    for (int64_t m = 0; m < M; ++m) {
      const T of_value = grad[m] + grad_read_vector[m];
      of_x[m] = x[M] * of_value;
      of_x[M] += (x[m] - before[m]) * of_value;
      grad[m] = (1 - x[M]) * of_value;
    }
  }
  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, 2, instruction(t, b), grad_instruction_ + b * (M + 1));
  }
  void end(int64_t b) override {
    if (f.c.grad_state0[0]) copy_values(as<T>(f.c.grad_state0[0]) + b * M, grad_ + b * M, M);
  }

 private:
  const Frame<T>& f;
  const int64_t M;
  T *grad_ = nullptr, *grad_instruction_ = nullptr;
  const T* instruction(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * (M + 1);
  }
};

struct Register {
  template <class T> using Forward = RegisterForward<T>;
  template <class T> using Backward = RegisterBackward<T>;
};

}  // namespace unbounded
