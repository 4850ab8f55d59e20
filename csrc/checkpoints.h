// The states before each step of a backward pass, recomputed from checkpoints of the forward pass.
//
// The forward pass saves the state every `block` steps. The backward pass recomputes a block's
// states in two levels: first every eighth step, then the eight steps between. With blocks of
// sqrt(T) steps, both passes together keep about 2 sqrt(T) states instead of T.
#pragma once

#include "frame.h"
#include "workspace.h"

namespace unbounded {

// Steps of the second level; blocks are multiples of it.
constexpr int64_t few_steps = 8;

template <class T>
class Checkpoints {
 public:
  // `size` is that of one batch entry's state in the backward pass.
  Checkpoints(const Frame<T>& frame, int64_t size) : f(frame), size_(size) {}

  void take_scratch(Workspace& space) {
    slots_ = (std::min(f.c.block, f.c.steps) + few_steps - 1) / few_steps + few_steps - 1;
    space.take(states_, f.c.batch * slots_ * size_);
  }

  // The state before step t; the first `few_steps` - 1 slots hold those between eighth steps.
  T* before(int64_t t, int64_t b) const {
    const int64_t among = t % few_steps, eighth = t % f.c.block / few_steps;
    const int64_t slot = among > 0 ? among - 1 : few_steps - 1 + eighth;
    return states_ + (b * slots_ + slot) * size_;
  }

  // Call it at each step of the backward pass. load(t, to) loads the state before the first step t
  // of a block; go_on(to, from, t) carries out step t, also in place.
  template <class Load, class GoOn>
  void go_back_to(int64_t t, int64_t b, Load load, GoOn go_on) const {
    const bool is_last = t + 1 == f.length_of(b);
    if (is_last || (t + 1) % f.c.block == 0) {
      int64_t at = t / f.c.block * f.c.block;
      T* state = before(at, b);
      load(at, state);
      for (; at < t / few_steps * few_steps; ++at) {
        T* next = at % few_steps == 0 ? before(at + few_steps, b) : state;
        go_on(next, state, at);
        state = next;
      }
    }
    if (is_last || (t + 1) % few_steps == 0)
      for (int64_t at = t / few_steps * few_steps; at < t; ++at)
        go_on(before(at + 1, b), before(at, b), at);
  }

 private:
  const Frame<T>& f;
  const int64_t size_;
  int64_t slots_ = 0;
  T* states_ = nullptr;  // [B][slot][size]
};

}  // namespace unbounded
