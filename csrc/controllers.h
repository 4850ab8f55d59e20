// One step of a controller for a group of neighbouring units, forward and backward.
//
// A lane is H sums of products, one per unit: an LSTM has four. The gates buffer holds the x part
// of a lane; the products hold the biases and the part of r_{t-1} and h_{t-1}. `read_vector_lanes`
// (also for x) and `hidden_lanes` list the lanes that take each part, in the order of the weights'
// row blocks. The forward pass leaves the backward pass's values in the gates buffer.
#pragma once

#include "heads.h"

namespace unbounded {

struct LaneRange {
  int first, count;
};

template <class T>
struct UnitsForward {
  const T* products;  // [lane][padded hidden]
  int64_t lane_stride;
  int64_t hidden;
  T* gates;
  const T* hidden_before;
  const T* cell_before;
  T* cell;
  T* tanh_cell;
  T* out;
  int width;
  bool saves;

  UNBOUNDED_INLINE Vector<T> product(int lane, int u) const { return load(products + lane * lane_stride + u); }
  template <class Some>
  UNBOUNDED_INLINE Vector<T> of_x(int lane, int u, Some some) const {
    return some.get(gates + lane * hidden + u);
  }
  template <class Some>
  UNBOUNDED_INLINE void keep(int lane, int u, Vector<T> v, Some some) const {
    if (saves) some.put(gates + lane * hidden + u, v);
  }
};

template <class T>
struct UnitsBackward {
  // Gradients of h_t: from the next step, from the heads, from outside (or null).
  const T* of_next;
  const T* of_heads;
  const T* of_outputs;
  int64_t hidden;
  const T* gates;
  const T* hidden_before;
  const T* cell_before;
  const T* tanh_cell;
  const T* out;
  T* carry;  // gradient for step t - 1 that bypasses the products: of the cell, or of h
  T* grad_gates;
  int width;

  template <class Some>
  UNBOUNDED_INLINE Vector<T> grad_hidden(int u, Some some) const {
    const Vector<T> inside = some.get(of_next + u) + some.get(of_heads + u);
    return of_outputs ? inside + some.get(of_outputs + u) : inside;
  }
  template <class Some>
  UNBOUNDED_INLINE Vector<T> gate(int lane, int u, Some some) const {
    return some.get(gates + lane * hidden + u);
  }
  template <class Some>
  UNBOUNDED_INLINE void put(int lane, int u, Vector<T> v, Some some) const {
    some.put(grad_gates + lane * hidden + u, v);
  }
};

// Gates i, f, g, o: c = f c' + i g; h = o tanh(c).
struct Lstm {
  static constexpr int lane_count = 4;
  static constexpr LaneRange read_vector_lanes = {0, 4};
  static constexpr LaneRange hidden_lanes[2] = {{0, 4}, {4, 0}};
  static constexpr bool has_cell = true;
  static constexpr bool carries_hidden = false;

  template <class T>
  static UNBOUNDED_INLINE void forward(const UnitsForward<T> at) {
    for_registers<T>(at.width, [=](int u, auto some) UNBOUNDED_INLINED {
      const Vector<T> i = sigmoid(at.product(0, u) + at.of_x(0, u, some));
      const Vector<T> f = sigmoid(at.product(1, u) + at.of_x(1, u, some));
      const Vector<T> g = hyperbolic_tangent(at.product(2, u) + at.of_x(2, u, some));
      const Vector<T> o = sigmoid(at.product(3, u) + at.of_x(3, u, some));
      const Vector<T> c = f * some.get(at.cell_before + u) + i * g;
      const Vector<T> squashed = hyperbolic_tangent(c);
      some.put(at.cell + u, c);
      some.put(at.out + u, o * squashed);
      at.keep(0, u, i, some);
      at.keep(1, u, f, some);
      at.keep(2, u, g, some);
      at.keep(3, u, o, some);
      if (at.saves) some.put(at.tanh_cell + u, squashed);
    });
  }

  template <class T>
  static UNBOUNDED_INLINE void backward(const UnitsBackward<T> at) {
    for_registers<T>(at.width, [=](int u, auto some) UNBOUNDED_INLINED {
      const Vector<T> dh = at.grad_hidden(u, some), squashed = some.get(at.tanh_cell + u);
      const Vector<T> i = at.gate(0, u, some), f = at.gate(1, u, some);
      const Vector<T> g = at.gate(2, u, some), o = at.gate(3, u, some);
      const Vector<T> dc = some.get(at.carry + u) + dh * o * (T(1) - squashed * squashed);
      at.put(0, u, dc * g * i * (T(1) - i), some);
      at.put(1, u, dc * some.get(at.cell_before + u) * f * (T(1) - f), some);
      at.put(2, u, dc * i * (T(1) - g * g), some);
      at.put(3, u, dh * squashed * o * (T(1) - o), some);
      some.put(at.carry + u, dc * f);
    });
  }
};

// Lanes r, z, the part of n from x and the read vector, its h part: n = tanh(a + r b); h = n + z
// (h' - n).
struct Gru {
  static constexpr int lane_count = 4;
  static constexpr LaneRange read_vector_lanes = {0, 3};
  static constexpr LaneRange hidden_lanes[2] = {{0, 2}, {3, 1}};
  static constexpr bool has_cell = false;
  static constexpr bool carries_hidden = true;

  template <class T>
  static UNBOUNDED_INLINE void forward(const UnitsForward<T> at) {
    for_registers<T>(at.width, [=](int u, auto some) UNBOUNDED_INLINED {
      const Vector<T> reset = sigmoid(at.product(0, u) + at.of_x(0, u, some));
      const Vector<T> update = sigmoid(at.product(1, u) + at.of_x(1, u, some));
      const Vector<T> of_hidden = at.product(3, u);
      const Vector<T> candidate =
          hyperbolic_tangent(at.product(2, u) + at.of_x(2, u, some) + reset * of_hidden);
      const Vector<T> before = some.get(at.hidden_before + u);
      some.put(at.out + u, candidate + update * (before - candidate));
      at.keep(0, u, reset, some);
      at.keep(1, u, update, some);
      at.keep(2, u, candidate, some);
      at.keep(3, u, of_hidden, some);
    });
  }

  template <class T>
  static UNBOUNDED_INLINE void backward(const UnitsBackward<T> at) {
    for_registers<T>(at.width, [=](int u, auto some) UNBOUNDED_INLINED {
      const Vector<T> dh = at.grad_hidden(u, some) + some.get(at.carry + u);
      const Vector<T> reset = at.gate(0, u, some), update = at.gate(1, u, some);
      const Vector<T> candidate = at.gate(2, u, some), before = some.get(at.hidden_before + u);
      const Vector<T> d_sum = dh * (T(1) - update) * (T(1) - candidate * candidate);
      at.put(0, u, d_sum * at.gate(3, u, some) * reset * (T(1) - reset), some);
      at.put(1, u, dh * (before - candidate) * update * (T(1) - update), some);
      at.put(2, u, d_sum, some);
      at.put(3, u, d_sum * reset, some);
      some.put(at.carry + u, dh * update);
    });
  }
};

// h = activation(sum).
template <class Activation>
struct Elman {
  static constexpr int lane_count = 1;
  static constexpr LaneRange read_vector_lanes = {0, 1};
  static constexpr LaneRange hidden_lanes[2] = {{0, 1}, {1, 0}};
  static constexpr bool has_cell = false;
  static constexpr bool carries_hidden = false;

  template <class T>
  static UNBOUNDED_INLINE void forward(const UnitsForward<T> at) {
    for_registers<T>(at.width, [=](int u, auto some) UNBOUNDED_INLINED {
      some.put(at.out + u, Activation::value(at.product(0, u) + at.of_x(0, u, some)));
    });
  }
  template <class T>
  static UNBOUNDED_INLINE void backward(const UnitsBackward<T> at) {
    for_registers<T>(at.width, [=](int u, auto some) UNBOUNDED_INLINED {
      at.put(0, u, Activation::gradient(some.get(at.out + u), at.grad_hidden(u, some)), some);
    });
  }
};

// The weights' row block for a lane, or -1.
template <class Controller>
constexpr int read_vector_block(int lane) {
  constexpr LaneRange range = Controller::read_vector_lanes;
  return lane >= range.first && lane < range.first + range.count ? lane - range.first : -1;
}
template <class Controller>
constexpr int hidden_block(int lane) {
  constexpr LaneRange one = Controller::hidden_lanes[0], two = Controller::hidden_lanes[1];
  if (lane >= one.first && lane < one.first + one.count) return lane - one.first;
  if (lane >= two.first && lane < two.first + two.count) return one.count + lane - two.first;
  return -1;
}

}  // namespace unbounded
