// Superposition stacks and lists alone, on given weights and values.
#pragma once

#include "mixture_heads.h"
#include "split.h"
#include "threads.h"
#include "unroll.h"

namespace unbounded {

template <class T, class Places>
class MixtureUnroll {
 public:
  explicit MixtureUnroll(const UnboundedCall& call) : c(call) {}

  bool forward(ParallelFor parallel_for) {
    MixtureForward<T, Places> cells(c);
    const auto& sizes = cells.sizes;
    return for_entries(parallel_for, cells, [&](int64_t b) {
      cells.begin(b);
      for (int64_t t = 0; t < c.steps; ++t) {
        const int64_t at = b * c.steps + t;
        heads_to_planes<T>(sizes, as<T>(c.instructions) + at * sizes.head_count(),
                           sizes.planes_at(c, t, b));
        cells.step(t, b, c.steps, as<T>(c.readings) + at * sizes.reading_size());
      }
      cells.finish(b);
    });
  }

  bool backward(ParallelFor parallel_for) {
    MixtureBackward<T, Places> cells(c);
    const auto& sizes = cells.sizes;
    return for_entries(parallel_for, cells, [&](int64_t b) {
      cells.begin(b, c.steps);
      for (int64_t t = c.steps - 1; t >= 0; --t) {
        const int64_t at = b * c.steps + t;
        const T* of_reading = as<T>(c.grad_outputs) + at * sizes.reading_size();
        planes_to_heads(sizes, cells.step(t, b, c.steps, of_reading),
                        as<T>(c.grad_instructions) + at * sizes.head_count());
      }
      cells.end(b);
    });
  }

 private:
  const UnboundedCall& c;

  template <class Cells, class Body>
  bool for_entries(ParallelFor parallel_for, Cells& cells, Body body) {
    Workspace space;
    cells.take_parts(space);
    if (!space.allocate()) return false;
    cells.take_parts(space);
    auto share = [&](int64_t thread, Team& team) {
      const Share mine = share_of(c.batch, thread, team.threads());
      for (int64_t b = mine.begin; b < mine.end; ++b) body(b);
    };
    return in_parallel(c, threads_for(c, parallel_for), parallel_for, share);
  }
};

template <class T>
class Unroll<T, SuperpositionStack> final : public MixtureUnroll<T, SuperpositionStack> {
 public:
  using MixtureUnroll<T, SuperpositionStack>::MixtureUnroll;
};
template <class T>
class Unroll<T, SuperpositionList> final : public MixtureUnroll<T, SuperpositionList> {
 public:
  using MixtureUnroll<T, SuperpositionList>::MixtureUnroll;
};

}  // namespace unbounded
