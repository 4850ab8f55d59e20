// The memory alone, on given instructions: the same steps without controller and heads.
#pragma once

#include "memory.h"
#include "split.h"
#include "threads.h"

namespace unbounded {

template <class T, class Memory>
class Unroll {
 public:
  explicit Unroll(const UnboundedCall& call) : f(call, 0) {}

  bool forward(ParallelFor parallel_for) {
    typename Memory::template Forward<T> memory(f);
    return for_entries(parallel_for, memory, [&](int64_t b) {
      memory.begin(b);
      for (int64_t t = 0; t < f.c.steps; ++t) {
        const int64_t at = b * f.c.steps + t;
        carry_out<T>(f, memory, t, b, {f, nullptr, at}, as<T>(f.c.read_vectors) + at * f.c.read_vector);
      }
      memory.finish(b);
    });
  }

  bool backward(ParallelFor parallel_for) {
    typename Memory::template Backward<T> memory(f);
    return for_entries(parallel_for, memory, [&](int64_t b) {
      memory.begin(b);
      for (int64_t t = f.c.steps - 1; t >= 0; --t) {
        const int64_t at = b * f.c.steps + t;
        memory.step(t, b, as<T>(f.c.grad_read_vectors) + at * f.c.read_vector);
        memory.give(t, b, {f, nullptr, at});
      }
      memory.end(b);
    });
  }

 private:
  const Frame<T> f;

  template <class Each, class Body>
  bool for_entries(ParallelFor parallel_for, Each& memory, Body body) {
    Workspace space;
    memory.take_scratch(space);
    if (!space.allocate()) return false;
    memory.take_scratch(space);
    auto share = [&](int64_t thread, Team& team) {
      const Share mine = share_of(f.c.batch, thread, team.threads());
      for (int64_t b = mine.begin; b < mine.end; ++b) body(b);
    };
    return in_parallel(f.c, threads_for(f.c, parallel_for), parallel_for, share);
  }
};

}  // namespace unbounded
