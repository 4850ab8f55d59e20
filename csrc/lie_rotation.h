// Rotations exp(X) v of a Lie-access memory's keys by skew-symmetric matrices X, and their gradients.
//
// The exponential is applied in pieces, exp(X / p) p times, each a Taylor series in a vector: no
// matrix is built. A piece is undone by its inverse exp(-X / p), so that the backward pass needs no
// more memory than the forward pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace unbounded {

template <class T>
class SkewRotation {
 public:
  // The most coordinates of a vector; ROTATED in memories/lie_access/kernel.py.
  static constexpr int64_t most = 16;

  // x are the size (size - 1) / 2 numbers of X above its diagonal, row by row.
  SkewRotation(int64_t size, const T* x) : size_(size), x_(x) {
    T square = 0;  // of the angles, at least: X has a spectral norm of at most its root
    for (int64_t k = 0; k < size * (size - 1) / 2; ++k) square += x[k] * x[k];
    const T most_pieces = 65536;
    const T pieces = std::ceil(std::sqrt(square));
    pieces_ = int64_t(pieces > 1 ? std::min(pieces, most_pieces) : T(1));
  }

  // v = exp(X) v.
  void value(T* v) const {
    for (int64_t piece = 0; piece < pieces_; ++piece) turn(v, T(1));
  }

  // Maps the gradient of exp(X) v to that of v, in place, and accumulates that of x.
  void backward(const T* v, T* grad, T* of_x) const {
    T at[most], terms[orders][most], along[most], next[most];
    std::copy_n(v, size_, at);
    value(at);
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      turn(at, T(-1));
      std::copy_n(at, size_, terms[0]);
      for (int k = 1; k < orders; ++k) multiply(terms[k - 1], share(k), terms[k]);
      // Term k is share(k) X times term k - 1; each has the gradient of the sum too.
      std::copy_n(grad, size_, along);
      for (int k = orders; k >= 1; --k) {
        for (int64_t i = 0, number = 0; i < size_; ++i)
          for (int64_t j = i + 1; j < size_; ++j, ++number)
            of_x[number] += share(k) * (along[i] * terms[k - 1][j] - along[j] * terms[k - 1][i]);
        multiply(along, -share(k), next);
        for (int64_t i = 0; i < size_; ++i) along[i] = grad[i] + next[i];
      }
      std::copy_n(along, size_, grad);
    }
  }

 private:
  // Terms after the first; the next one is below the last bit of a vector of length 1.
  static constexpr int orders = sizeof(T) == 8 ? 18 : 11;

  const int64_t size_;
  const T* x_;
  int64_t pieces_;

  T share(int k) const { return T(1) / T(k) / T(pieces_); }
  // to = factor X v.
  void multiply(const T* v, T factor, T* to) const {
    std::fill_n(to, size_, T(0));
    for (int64_t i = 0, number = 0; i < size_; ++i)
      for (int64_t j = i + 1; j < size_; ++j, ++number) {
        to[i] += factor * x_[number] * v[j];
        to[j] -= factor * x_[number] * v[i];
      }
  }
  // v = exp(sign X / pieces) v.
  void turn(T* v, T sign) const {
    T term[most], next[most];
    std::copy_n(v, size_, term);
    for (int k = 1; k <= orders; ++k) {
      multiply(term, sign * share(k), next);
      std::copy_n(next, size_, term);
      for (int64_t i = 0; i < size_; ++i) v[i] += term[i];
    }
  }
};

}  // namespace unbounded
