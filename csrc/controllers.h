// One step of a controller for a group of neighbouring units, from the products of its lanes.
//
// A lane is one H-wide row of products: the x part comes in `lanes_in` (and the activations go out
// there), the part of the reading and of h_{t-1} in the tile.
#pragma once

#include "functions.h"
#include "panel.h"

namespace unbounded {

struct Lstm {
  static constexpr int lane_count = 4;
  static constexpr bool has_cell = true;

  // gates holds the x part (bias included) and receives i, f, g, o.
  template <class T>
  static UNBOUNDED_INLINE void forward(const T* tile, int64_t tile_stride, int64_t hidden, T* gates,
                                       const T* cell_before, T* cell, T* tanh_cell, T* out,
                                       int width, bool saves) {
    for (int u = 0; u < width; u += lanes<T>) {
      const int n = width - u;
      auto product = [&](int lane) {
        return load(tile + lane * tile_stride + u) + load_first(gates + lane * hidden + u, n);
      };
      const Vector<T> i = sigmoid(product(0));
      const Vector<T> f = sigmoid(product(1));
      const Vector<T> g = hyperbolic_tangent(product(2));
      const Vector<T> o = sigmoid(product(3));
      const Vector<T> c = f * load_first(cell_before + u, n) + i * g;
      const Vector<T> squashed = hyperbolic_tangent(c);
      store_first<T>(cell + u, c, n);
      store_first<T>(out + u, o * squashed, n);
      if (saves) {
        store_first<T>(gates + u, i, n);
        store_first<T>(gates + hidden + u, f, n);
        store_first<T>(gates + 2 * hidden + u, g, n);
        store_first<T>(gates + 3 * hidden + u, o, n);
        store_first<T>(tanh_cell + u, squashed, n);
      }
    }
  }

  // grad_hidden [width] comes in; grad_cell is read and replaced by that of the step before.
  template <class T>
  static UNBOUNDED_INLINE void backward(const T* grad_hidden, int64_t hidden, const T* gates,
                                        const T* cell_before, const T* tanh_cell, T* grad_cell,
                                        T* grad_gates, int width) {
    for (int u = 0; u < width; u += lanes<T>) {
      const int n = width - u;
      const Vector<T> dh = load_first(grad_hidden + u, n);
      const Vector<T> i = load_first(gates + u, n);
      const Vector<T> f = load_first(gates + hidden + u, n);
      const Vector<T> g = load_first(gates + 2 * hidden + u, n);
      const Vector<T> o = load_first(gates + 3 * hidden + u, n);
      const Vector<T> squashed = load_first(tanh_cell + u, n);
      const Vector<T> dc =
          load_first(grad_cell + u, n) + dh * o * (T(1) - squashed * squashed);
      store_first<T>(grad_gates + u, dc * g * i * (T(1) - i), n);
      store_first<T>(grad_gates + hidden + u,
                     dc * load_first(cell_before + u, n) * f * (T(1) - f), n);
      store_first<T>(grad_gates + 2 * hidden + u, dc * i * (T(1) - g * g), n);
      store_first<T>(grad_gates + 3 * hidden + u, dh * squashed * o * (T(1) - o), n);
      store_first<T>(grad_cell + u, dc * f, n);
    }
  }
};

}  // namespace unbounded
