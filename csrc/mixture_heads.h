// From the heads' products to the weights of actions (softmax) and values (sigmoid), and back.
//
// The products come structure by structure, actions first and then all values; planes hold one
// action of all structures side by side.
#pragma once

#include "functions.h"
#include "mixture_rows.h"

namespace unbounded {

constexpr int most_actions = 4;

template <class T, class Places>
void heads_to_planes(const MixtureSizes<T, Places>& sizes, const T* heads, const Planes<T>& to) {
  const int64_t count = sizes.count, actions = sizes.actions;
  clear_values(to.data, sizes.planes_size());
  for (int64_t a = 0; a < actions; ++a)
    for (int64_t s = 0; s < count; ++s) to.data[a * to.stride + s] = heads[s * actions + a];
  copy_values(to.data + actions * to.stride, heads + count * actions, count);
}

template <class T, class Places>
void planes_to_heads(const MixtureSizes<T, Places>& sizes, const Planes<T>& from, T* heads) {
  const int64_t count = sizes.count, actions = sizes.actions;
  for (int64_t a = 0; a < actions; ++a)
    for (int64_t s = 0; s < count; ++s) heads[s * actions + a] = from.data[a * from.stride + s];
  copy_values(heads + count * actions, from.data + actions * from.stride, count);
}

template <class T>
void activate(const Planes<T>& planes, int actions) {
  for (int64_t lane = 0; lane < planes.stride; lane += lanes<T>) {
    Vector<T> raised[most_actions], largest = planes.get(0, lane), sum{};
    for (int a = 1; a < actions; ++a) {
      const Vector<T> x = planes.get(a, lane);
      largest = x > largest ? x : largest;
    }
    for (int a = 0; a < actions; ++a)
      sum += raised[a] = exponential(planes.get(a, lane) - largest);
    for (int a = 0; a < actions; ++a) planes.put(a, lane, raised[a] / sum);
    planes.put(actions, lane, sigmoid(planes.get(actions, lane)));
  }
}

// `grad` of weights and values becomes that of the products.
template <class T>
void activation_gradients(const Planes<T>& planes, const Planes<T>& grad, int actions) {
  for (int64_t lane = 0; lane < planes.stride; lane += lanes<T>) {
    Vector<T> mean{};
    for (int a = 0; a < actions; ++a) mean += planes.get(a, lane) * grad.get(a, lane);
    for (int a = 0; a < actions; ++a)
      grad.put(a, lane, planes.get(a, lane) * (grad.get(a, lane) - mean));
    const Vector<T> value = planes.get(actions, lane);
    grad.put(actions, lane, grad.get(actions, lane) * value * (T(1) - value));
  }
}

}  // namespace unbounded
