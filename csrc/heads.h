// Maps the heads' products to an instruction, and gradients back, by the declared activations.
#pragma once

#include <cmath>

#include "frame.h"
#include "functions.h"

namespace unbounded {

// In the order of KERNEL_ACTIVATIONS in memories/core/head.py.
enum class Activation : int64_t {
  identity, tanh, sigmoid, relu, softplus, softmax, hard_sigmoid, one_plus_relu, one_plus_softplus
};

struct Identity {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) { return x; }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V, V dy) { return dy; }
};
struct Tanh {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) { return hyperbolic_tangent(x); }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) { return dy * (1 - y * y); }
};
struct Sigmoid {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) { return sigmoid(x); }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) { return dy * y * (1 - y); }
};
// Written so that NaN stays NaN.
struct Relu {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) { return x < 0 ? V{} : x; }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) { return y <= 0 ? V{} : dy; }
};
// log(1 + e^x), or x where torch uses x.
template <class T>
T softplus(T x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}
template <class T>
T softplus_gradient(T y, T dy) {
  return y > 20 ? dy : dy * -std::expm1(-y);  // 1 - e^-y cancels where y is small
}

struct Softplus {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) {
    for (size_t i = 0; i < sizeof(V) / sizeof(x[0]); ++i) x[i] = softplus(x[i]);
    return x;
  }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) {
    for (size_t i = 0; i < sizeof(V) / sizeof(y[0]); ++i) dy[i] = softplus_gradient(y[i], dy[i]);
    return dy;
  }
};

// clip(0.2 x + 0.5, 0, 1)
struct HardSigmoid {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) {
    V y = x * slope<V> + half<V>;
    y = y < 0 ? V{} : y;
    return y > 1 ? V{} + 1 : y;
  }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) {
    dy = y <= 0 ? V{} : dy * slope<V>;
    return y >= 1 ? V{} : dy;
  }

 private:
  template <class V>
  static constexpr auto slope = decltype(V{}[0] + 0)(0.2);
  template <class V>
  static constexpr auto half = decltype(V{}[0] + 0)(0.5);
};
template <class Activation>
struct OnePlus {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) { return 1 + Activation::value(x); }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) { return Activation::gradient(y - 1, dy); }
};

// What a small head computes from its own values alone. Softmax needs all of them, and softplus,
// which goes lane by lane, is slow.
constexpr bool stands_apart(Activation kind) {
  return kind == Activation::softmax || kind == Activation::softplus ||
         kind == Activation::one_plus_softplus;
}

// Calls body(the activation), except for softmax, which needs several values.
template <class Body>
UNBOUNDED_INLINE void with_activation(Activation activation, Body body) {
  switch (activation) {
    case Activation::tanh:
      return body(Tanh{});
    case Activation::sigmoid:
      return body(Sigmoid{});
    case Activation::relu:
      return body(Relu{});
    case Activation::softplus:
      return body(Softplus{});
    case Activation::hard_sigmoid:
      return body(HardSigmoid{});
    case Activation::one_plus_relu:
      return body(OnePlus<Relu>{});
    case Activation::one_plus_softplus:
      return body(OnePlus<Softplus>{});
    default:
      return body(Identity{});
  }
}

template <class T>
void softmax(const T* from, int64_t size, T* to) {
  T largest = from[0], sum = 0;
  for (int64_t i = 1; i < size; ++i) largest = from[i] > largest ? from[i] : largest;
  for (int64_t i = 0; i < size; ++i) sum += to[i] = std::exp(from[i] - largest);
  for (int64_t i = 0; i < size; ++i) to[i] /= sum;
}
template <class T>
void softmax_gradient(const T* weights, const T* grad, int64_t size, T* to) {
  T mean = 0;
  for (int64_t i = 0; i < size; ++i) mean += weights[i] * grad[i];
  for (int64_t i = 0; i < size; ++i) to[i] = weights[i] * (grad[i] - mean);
}

// A separate head: one softmax, or single values.
template <class T>
void apart(const UnboundedHead& head, const T* from, T* to) {
  const int64_t rows = head.count * head.size;
  if (Activation(head.activation) == Activation::softmax) {
    for (int64_t i = 0; i < rows; i += head.size) softmax(from + i, head.size, to + i);
    return;
  }
  const T added = Activation(head.activation) == Activation::one_plus_softplus ? 1 : 0;
  for (int64_t i = 0; i < rows; ++i) to[i] = added + softplus(from[i]);
}
template <class T>
void apart_gradient(const UnboundedHead& head, const T* values, const T* grad, T* to) {
  const int64_t rows = head.count * head.size;
  if (Activation(head.activation) == Activation::softmax) {
    for (int64_t i = 0; i < rows; i += head.size)
      softmax_gradient(values + i, grad + i, head.size, to + i);
    return;
  }
  const T added = Activation(head.activation) == Activation::one_plus_softplus ? 1 : 0;
  for (int64_t i = 0; i < rows; ++i) to[i] = softplus_gradient(values[i] - added, grad[i]);
}

// Neighbouring heads that are processed together, and each activation's lanes of a register if they
// are fewer than a register has. Several small heads thus cost as much as one.
struct HeadGroup {
  static constexpr Activation kinds[] = {Activation::tanh, Activation::sigmoid, Activation::relu,
                                         Activation::hard_sigmoid, Activation::one_plus_relu};
  int end = 0;
  int64_t rows = 0;
  bool is_mixed = false;
  uint32_t lanes_with[int(Activation::one_plus_softplus) + 1] = {};

  // The heads from `first` on, which is no separate head, up to `last`.
  template <class T>
  HeadGroup(const Frame<T>& f, int first, int last) : end(first) {
    const Activation kind = kind_of(f, first);
    for (; end < last && !stands_apart(kind_of(f, end)); ++end) {
      const int64_t own = f.rows_of(end);
      const bool fits = rows + own <= lanes<T>, is_other = kind_of(f, end) != kind;
      if ((is_mixed || is_other) && !fits) break;
      is_mixed |= is_other;
      if (fits) lanes_with[int(kind_of(f, end))] |= ((1u << own) - 1) << rows;
      rows += own;
    }
  }

  template <class T>
  static Activation kind_of(const Frame<T>& f, int head) {
    return Activation(f.c.heads[head].activation);
  }
  // Calls body(activation, its lanes) for the activations of a mixed group.
  template <class Body>
  UNBOUNDED_INLINE void for_kinds(Body body) const {
#pragma GCC unroll 5
    for (Activation kind : kinds)
      if (const uint32_t own = lanes_with[int(kind)])
        with_activation(kind, [&](auto activation) UNBOUNDED_INLINED { body(activation, own); });
  }
};

// The instruction of one batch entry at a step: from the heads' products, or given fields.
template <class T>
struct Instruction {
  const Frame<T>& f;
  const T* products;  // or null
  int64_t given_at;   // index of the entry's step in the given fields

  // The activated values of `count` heads, contiguous.
  void take(int first, int count, T* to) const {
    if (products == nullptr) {
      for (int head = first; head < first + count; to += f.rows_of(head++))
        copy_values(to, as<T>(f.c.instruction[head]) + given_at * f.rows_of(head),
                    f.rows_of(head));
      return;
    }
    const T* from = products + f.first_row[first];
    for (int head = first, last = first + count; head < last;) {
      int64_t rows = f.rows_of(head);
      if (stands_apart(HeadGroup::kind_of(f, head))) {
        apart(f.c.heads[head++], from, to);
      } else {
        const HeadGroup group(f, head, last);
        if (group.is_mixed) {
          const Part<T> some{int(group.rows)};
          const Vector<T> x = some.get(from);
          Vector<T> y = x;
          group.for_kinds([&](auto activation, uint32_t own) UNBOUNDED_INLINED {
            y = chosen<T>(own, activation.value(x), y);
          });
          some.put(to, y);
        } else {
          with_activation(HeadGroup::kind_of(f, head), [&](auto activation) {
            for_registers<T>(int(group.rows), [=](int i, auto some) UNBOUNDED_INLINED {
              some.put(to + i, activation.value(some.get(from + i)));
            });
          });
        }
        rows = group.rows;
        head = group.end;
      }
      from += rows;
      to += rows;
    }
  }
};

// Target of an instruction's gradients: those of the products, or of the given fields.
template <class T>
struct InstructionGradient {
  const Frame<T>& f;
  T* products;  // or null
  int64_t given_at;

  // `values` and `grad` of `count` heads, in the order of `take`.
  void give(int first, int count, const T* values, const T* grad) const {
    if (products == nullptr) {
      for (int head = first; head < first + count; grad += f.rows_of(head++))
        copy_values(as<T>(f.c.grad_instruction[head]) + given_at * f.rows_of(head), grad,
                    f.rows_of(head));
      return;
    }
    T* to = products + f.first_row[first];
    for (int head = first, last = first + count; head < last;) {
      int64_t rows = f.rows_of(head);
      if (stands_apart(HeadGroup::kind_of(f, head))) {
        apart_gradient(f.c.heads[head++], values, grad, to);
      } else {
        const HeadGroup group(f, head, last);
        if (group.is_mixed) {
          const Part<T> some{int(group.rows)};
          const Vector<T> y = some.get(values), dy = some.get(grad);
          Vector<T> dx = dy;
          group.for_kinds([&](auto activation, uint32_t own) UNBOUNDED_INLINED {
            dx = chosen<T>(own, activation.gradient(y, dy), dx);
          });
          some.put(to, dx);
        } else {
          with_activation(HeadGroup::kind_of(f, head), [&](auto activation) {
            for_registers<T>(int(group.rows), [=](int i, auto some) UNBOUNDED_INLINED {
              some.put(to + i, activation.gradient(some.get(values + i), some.get(grad + i)));
            });
          });
        }
        rows = group.rows;
        head = group.end;
      }
      to += rows;
      values += rows;
      grad += rows;
    }
  }
};

}  // namespace unbounded
