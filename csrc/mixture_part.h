// Superposition stacks and lists inside the recurrence.
#pragma once

#include "memory_part.h"
#include "mixture_heads.h"

namespace unbounded {

template <>
struct SizesOf<SuperpositionStack> {
  static MemorySizes of(const UnboundedCall& c) {
    return {0, c.count * c.depth, c.count * (c.actions + 1)};
  }
};
template <>
struct SizesOf<SuperpositionList> : SizesOf<SuperpositionStack> {};

template <class T, class Places>
class MixtureForwardPart : public MemoryForward<T> {
 public:
  explicit MixtureForwardPart(const Frame<T>& frame) : f(frame), cells_(frame.c) {}

  void take_parts(Workspace& space) override { cells_.take_parts(space); }
  void begin(int64_t b) override { cells_.begin(b); }
  void finish(int64_t b) override { cells_.finish(b); }

  void step(int64_t t, int64_t b, const T* products) override {
    const UnboundedCall& c = f.c;
    T* reading = const_cast<T*>(f.reading_at(t)) + b * f.reading_size();
    if (t >= f.length_of(b)) {
      clear_values(reading, f.reading_size());
      return;
    }
    const Planes<T> planes = cells_.sizes.planes_at(c, t, b);
    heads_to_planes(cells_.sizes, products, planes);
    activate(planes, int(c.actions));
    cells_.step(t, b, f.length_of(b), reading);
    if (t + 1 == f.length_of(b))
      copy_values(as<T>(c.reading_last) + b * f.reading_size(), reading, f.reading_size());
  }

  void keep_state(int64_t b) override {
    const int64_t R = f.reading_size();
    copy_values(as<T>(f.c.reading_last) + b * R, as<T>(f.c.reading0) + b * R, R);
  }

 private:
  const Frame<T>& f;
  MixtureForward<T, Places> cells_;
};

template <class T, class Places>
class MixtureBackwardPart : public MemoryBackward<T> {
 public:
  explicit MixtureBackwardPart(const Frame<T>& frame) : f(frame), cells_(frame.c) {}

  void take_parts(Workspace& space) override { cells_.take_parts(space); }
  void begin(int64_t b) override { cells_.begin(b, f.length_of(b)); }
  void end(int64_t b) override { cells_.end(b); }

  void step(int64_t t, int64_t b, T* grad_reading) override {
    const UnboundedCall& c = f.c;
    T* grad = f.grad_instructions_at(t) + b * f.head_count();
    if (t >= f.length_of(b)) {
      clear_values(grad, f.head_count());
      return;
    }
    if (t + 1 == f.length_of(b) && c.grad_reading_last)
      axpy<T>(f.reading_size(), 1, as<T>(c.grad_reading_last) + b * f.reading_size(),
              grad_reading);
    const Planes<T> of_planes = cells_.step(t, b, f.length_of(b), grad_reading);
    activation_gradients(cells_.sizes.planes_at(c, t, b), of_planes, int(c.actions));
    planes_to_heads(cells_.sizes, of_planes, grad);
  }

 private:
  const Frame<T>& f;
  MixtureBackward<T, Places> cells_;
};

template <class T>
class MemoryForwardOf<T, SuperpositionStack> final
    : public MixtureForwardPart<T, SuperpositionStack> {
 public:
  using MixtureForwardPart<T, SuperpositionStack>::MixtureForwardPart;
};
template <class T>
class MemoryForwardOf<T, SuperpositionList> final
    : public MixtureForwardPart<T, SuperpositionList> {
 public:
  using MixtureForwardPart<T, SuperpositionList>::MixtureForwardPart;
};
template <class T>
class MemoryBackwardOf<T, SuperpositionStack> final
    : public MixtureBackwardPart<T, SuperpositionStack> {
 public:
  using MixtureBackwardPart<T, SuperpositionStack>::MixtureBackwardPart;
};
template <class T>
class MemoryBackwardOf<T, SuperpositionList> final
    : public MixtureBackwardPart<T, SuperpositionList> {
 public:
  using MixtureBackwardPart<T, SuperpositionList>::MixtureBackwardPart;
};

}  // namespace unbounded
