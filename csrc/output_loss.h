// The output layer of a small vocabulary and its summed cross entropy, with all gradients.
//
// For a network of a few dozen units, each of torch's dozen calls for this takes longer than its
// arithmetic. It uses one thread, and every sum has a fixed order.
#pragma once

#include <cmath>
#include <limits>

#include "frame.h"

namespace unbounded {

constexpr int64_t most_symbols = 64;

// False if a target under the mask is no symbol; the output is then undefined.
template <class T>
bool output_loss(const UnboundedOutput& c) {
  const int64_t H = c.hidden, V = c.symbols;
  const T *weight = as<T>(c.weight), *bias = as<T>(c.bias);
  T *grad_weight = as<T>(c.grad_weight), *grad_bias = as<T>(c.grad_bias);
  clear_values(grad_weight, V * H);
  if (grad_bias) clear_values(grad_bias, V);
  double nats = 0, raised[most_symbols];
  for (int64_t t = 0; t < c.steps; ++t)
    for (int64_t b = 0; b < c.batch; ++b) {
      const int64_t n = t * c.batch + b;
      const T* hidden = as<T>(c.outputs) + n * H;
      T *logits = as<T>(c.logits) + n * V, *grad = as<T>(c.grad_outputs) + n * H;
      clear_values(grad, H);
      T largest = -std::numeric_limits<T>::infinity();
      for (int64_t v = 0; v < V; ++v) {
        logits[v] = (bias ? bias[v] : T(0)) + dot(H, hidden, weight + v * H);
        if (!(logits[v] <= largest)) largest = logits[v];  // NaN propagates
      }
      if (!c.mask[b * c.mask_strides[0] + t * c.mask_strides[1]]) continue;
      const int64_t target = c.targets[b * c.target_strides[0] + t * c.target_strides[1]];
      if (target < 0 || target >= V) return false;
      double sum = 0;
      for (int64_t v = 0; v < V; ++v) sum += raised[v] = std::exp(double(logits[v]) - largest);
      nats += std::log(sum) + largest - logits[target];
      for (int64_t v = 0; v < V; ++v) {
        const T g = T(c.scale * (raised[v] / sum - (v == target)));
        axpy(H, g, weight + v * H, grad);
        axpy(H, g, hidden, grad_weight + v * H);
        if (grad_bias) grad_bias[v] += g;
      }
    }
  *as<T>(c.nats) = T(nats);
  return true;
}

}  // namespace unbounded
