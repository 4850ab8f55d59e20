// The instruction of superposition memories: weights of actions and values, one plane each.
//
// Heads and given instructions are ordered by structure. A plane holds one action of all
// structures, so that a register holds the same action of many structures. With cells of `width`
// numbers it holds each weight as often.
#pragma once

#include "memory.h"
#include "mixture.h"

namespace unbounded {

constexpr int most_actions = 4;

template <class T>
void softmax_planes(const Planes<T>& planes, int actions) {
  for (int64_t lane = 0; lane < planes.stride; lane += lanes<T>) {
    Vector<T> raised[most_actions], largest = planes.get(0, lane), sum{};
    for (int a = 1; a < actions; ++a) {
      const Vector<T> x = planes.get(a, lane);
      largest = x > largest ? x : largest;
    }
    for (int a = 0; a < actions; ++a)
      sum += raised[a] = exponential(planes.get(a, lane) - largest);
    for (int a = 0; a < actions; ++a) planes.put(a, lane, raised[a] / sum);
  }
}
template <class T>
void softmax_planes_gradient(const Planes<T>& planes, const Planes<T>& grad, int actions) {
  for (int64_t lane = 0; lane < planes.stride; lane += lanes<T>) {
    Vector<T> mean{};
    for (int a = 0; a < actions; ++a) mean += planes.get(a, lane) * grad.get(a, lane);
    for (int a = 0; a < actions; ++a)
      grad.put(a, lane, planes.get(a, lane) * (grad.get(a, lane) - mean));
  }
}

// Heads 0 and 1 of a batch entry, activated plane by plane; `space` has both heads' values.
template <class T>
void take_planes(const Instruction<T>& in, const Planes<T>& to, int64_t width, T* space) {
  const UnboundedHead &action = in.f.c.heads[0], &value = in.f.c.heads[1];
  const int64_t count = action.count;
  const int actions = int(action.size);
  const T* from = in.products;
  if (from == nullptr) in.take(0, 2, space), from = space;
  clear_values(to.data, (actions + 1) * to.stride);
  for (int a = 0; a < actions; ++a) {
    T* plane = to.data + a * to.stride;
    if (width == 1)
      for (int64_t s = 0; s < count; ++s) plane[s] = from[s * actions + a];
    else
      for (int64_t s = 0; s < count; ++s)
        std::fill_n(plane + s * width, width, from[s * actions + a]);
  }
  copy_values(to.data + actions * to.stride, from + count * actions, count * width);
  if (in.products == nullptr) return;
  with_activation(Activation(value.activation), [&](auto activation) {
    for (int64_t lane = 0; lane < to.stride; lane += lanes<T>)
      to.put(actions, lane, activation.value(to.get(actions, lane)));
  });
  if (Activation(action.activation) == Activation::softmax)
    return softmax_planes(to, actions);
  with_activation(Activation(action.activation), [&](auto activation) {
    for (int a = 0; a < actions; ++a)
      for (int64_t lane = 0; lane < to.stride; lane += lanes<T>)
        to.put(a, lane, activation.value(to.get(a, lane)));
  });
}

// Maps `grad` of weights and values to that of the products, if there are any, and passes it on.
template <class T>
void give_planes(const InstructionGradient<T>& out, const Planes<T>& planes, const Planes<T>& grad,
                 int64_t width, T* space) {
  const UnboundedHead &action = out.f.c.heads[0], &value = out.f.c.heads[1];
  const int64_t count = action.count;
  const int actions = int(action.size);
  const auto through = [&](Activation kind, int plane) {
    with_activation(kind, [&](auto activation) {
      for (int64_t lane = 0; lane < grad.stride; lane += lanes<T>)
        grad.put(plane, lane,
                 activation.gradient(planes.get(plane, lane), grad.get(plane, lane)));
    });
  };
  // The gradient of a weight is the sum over the numbers of a cell.
  for (int64_t i = 0; width > 1 && i < actions * count; ++i) {
    T* cell = grad.data + i / count * grad.stride + i % count * width;
    T sum = cell[0];
    for (int64_t m = 1; m < width; ++m) sum += cell[m];
    std::fill_n(cell, width, sum);
  }
  if (out.products) {
    through(Activation(value.activation), actions);
    if (Activation(action.activation) == Activation::softmax)
      softmax_planes_gradient(planes, grad, actions);
    else
      for (int a = 0; a < actions; ++a) through(Activation(action.activation), a);
  }
  T* to = out.products ? out.products : space;
  for (int a = 0; a < actions; ++a)
    for (int64_t s = 0; s < count; ++s)
      to[s * actions + a] = grad.data[a * grad.stride + s * width];
  copy_values(to + count * actions, grad.data + actions * grad.stride, count * width);
  if (out.products == nullptr) out.give(0, 2, nullptr, space);
}

}  // namespace unbounded
