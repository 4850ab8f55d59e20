// From the heads' products to an instruction and back, by the activations that a memory declares.
#pragma once

#include <cmath>

#include "frame.h"
#include "functions.h"

namespace unbounded {

// In the order of ACTIVATIONS in kernels/structures/structure.py.
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
// Written so that a NaN stays one.
struct Relu {
  template <class V>
  static UNBOUNDED_INLINE V value(V x) { return x < 0 ? V{} : x; }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) { return y <= 0 ? V{} : dy; }
};
// log(1 + e^x), which is x where torch takes it for x. Few values of an instruction have it.
struct Softplus {
  static constexpr int linear_from = 20;
  template <class V>
  static UNBOUNDED_INLINE V value(V x) {
    for (size_t i = 0; i < sizeof(V) / sizeof(x[0]); ++i)
      if (!(x[i] > linear_from)) x[i] = std::log1p(std::exp(x[i]));
    return x;
  }
  template <class V>
  static UNBOUNDED_INLINE V gradient(V y, V dy) {
    for (size_t i = 0; i < sizeof(V) / sizeof(y[0]); ++i)
      if (!(y[i] > linear_from)) dy[i] *= -std::expm1(-y[i]);  // 1 - e^-y cancels where y is small
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

// Calls body(the activation), which is not softmax: that looks at more than one value.
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

// Calls body(head, heads that follow it with the same activation, of which softmax has none).
template <class T, class Body>
UNBOUNDED_INLINE void for_runs(const Frame<T>& f, int first, int count, Body body) {
  for (int head = first; head < first + count;) {
    const int64_t activation = f.c.heads[head].activation;
    int64_t rows = f.rows_of(head);
    int next = head + 1;
    if (Activation(activation) != Activation::softmax)
      for (; next < first + count && f.c.heads[next].activation == activation; ++next)
        rows += f.rows_of(next);
    body(head, rows);
    head = next;
  }
}

// What one batch entry is told in a step: the heads' products, or a field that was given each.
template <class T>
struct Instruction {
  const Frame<T>& f;
  const T* products;  // or null
  int64_t given_at;   // step of the batch entry among all that were given

  // The activated values of `count` heads, one after the other.
  void take(int first, int count, T* to) const {
    if (products == nullptr) {
      for (int head = first; head < first + count; to += f.rows_of(head++))
        copy_values(to, as<T>(f.c.instruction[head]) + given_at * f.rows_of(head),
                    f.rows_of(head));
      return;
    }
    for_runs(f, first, count, [&](int head, int64_t rows) {
      const T* from = products + f.first_row[head];
      const UnboundedHead& kind = f.c.heads[head];
      if (Activation(kind.activation) == Activation::softmax)
        for (int64_t i = 0; i < rows; i += kind.size) softmax(from + i, kind.size, to + i);
      else
        with_activation(Activation(kind.activation), [&](auto activation) {
          for_registers<T>(int(rows), [=](int i, auto some) UNBOUNDED_INLINED {
            some.put(to + i, activation.value(some.get(from + i)));
          });
        });
      to += rows;
    });
  }
};

// Where the gradients of an instruction go: to those of the products, or of what was given.
template <class T>
struct InstructionGradient {
  const Frame<T>& f;
  T* products;  // or null
  int64_t given_at;

  // `values` and `grad` of `count` heads, as they were taken.
  void give(int first, int count, const T* values, const T* grad) const {
    if (products == nullptr) {
      for (int head = first; head < first + count; grad += f.rows_of(head++))
        copy_values(as<T>(f.c.grad_instruction[head]) + given_at * f.rows_of(head), grad,
                    f.rows_of(head));
      return;
    }
    for_runs(f, first, count, [&](int head, int64_t rows) {
      T* to = products + f.first_row[head];
      const UnboundedHead& kind = f.c.heads[head];
      if (Activation(kind.activation) == Activation::softmax)
        for (int64_t i = 0; i < rows; i += kind.size)
          softmax_gradient(values + i, grad + i, kind.size, to + i);
      else
        with_activation(Activation(kind.activation), [&](auto activation) {
          for_registers<T>(int(rows), [=](int i, auto some) UNBOUNDED_INLINED {
            some.put(to + i, activation.gradient(some.get(values + i), some.get(grad + i)));
          });
        });
      values += rows;
      grad += rows;
    });
  }
};

}  // namespace unbounded
