// The state before each step of a backward pass, made again from what the forward pass kept.
//
// The forward pass keeps the state every `block` steps. From there the backward pass makes those of
// the block again in two levels: those at every eighth step, and from these the ones of eight steps.
// With blocks of sqrt(T) steps all that is kept, over both passes, is about 2 sqrt(T) states and not T.
#pragma once

#include "frame.h"
#include "workspace.h"

namespace unbounded {

// Of the second level; blocks are multiples of it.
constexpr int64_t few_steps = 8;

template <class T>
class Checkpoints {
 public:
  // `size` is that of the state of one batch entry as the backward pass needs it.
  Checkpoints(const Frame<T>& frame, int64_t size) : f(frame), size_(size) {}

  void take_scratch(Workspace& space) {
    slots_ = (std::min(f.c.block, f.c.steps) + few_steps - 1) / few_steps + few_steps - 1;
    space.take(states_, f.c.batch * slots_ * size_);
  }

  // The state before step t; the first `few_steps` - 1 slots are those between eighth steps.
  T* before(int64_t t, int64_t b) const {
    const int64_t among = t % few_steps, eighth = t % f.c.block / few_steps;
    const int64_t slot = among > 0 ? among - 1 : few_steps - 1 + eighth;
    return states_ + (b * slots_ + slot) * size_;
  }

  // To be called at each step on the way back. load(t, to) brings the state before the first step t
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
