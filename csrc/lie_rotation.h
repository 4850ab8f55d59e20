// Rotations exp(X) v of a Lie-access memory's keys by skew-symmetric matrices X, and their gradients.
//
// For small angles the exponential is applied in pieces, exp(X / p) p times, each a Taylor series in
// a vector: no matrix is built. A piece is undone by its inverse exp(-X / p), so that the backward
// pass needs no more memory than the forward pass. The number of pieces grows with the angles. So
// for large angles the matrix exp(X / p) is built, and squared log2(p) times.
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
    const T angle = std::sqrt(square);
    if (angle > T(most_pieces)) {
      // The exponent is limited, so that the squarings end where the sum is infinite or NaN.
      squarings_ = int(std::min(T(most_squarings), std::ceil(std::log2(angle))));
      pieces_ = std::ldexp(T(1), squarings_);
    } else {
      pieces_ = std::max(T(1), std::ceil(angle));
    }
  }

  // v = exp(X) v.
  void value(T* v) const {
    if (squarings_) {
      Matrix power;
      piece(power);
      for (int k = 0; k < squarings_; ++k) square(power);
      return apply(power, v);
    }
    for (int64_t piece = 0; piece < int64_t(pieces_); ++piece) turn(v, T(1));
  }

  // Maps the gradient of exp(X) v to that of v, in place, and accumulates that of x.
  void backward(const T* v, T* grad, T* of_x) const {
    if (squarings_) return backward_by_squaring(v, grad, of_x);
    T at[most], terms[orders][most], along[most], next[most];
    std::copy_n(v, size_, at);
    value(at);
    for (int64_t piece = 0; piece < int64_t(pieces_); ++piece) {
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
  using Matrix = T[most][most];

  // Terms after the first; the next one is below the last bit of a vector of length 1.
  static constexpr int orders = sizeof(T) == 8 ? 18 : 11;
  // About as many pieces take the time of a squared matrix.
  static constexpr int64_t most_pieces = 32;
  static constexpr int most_squarings = 100;

  const int64_t size_;
  const T* x_;
  T pieces_;
  int squarings_ = 0;  // 0 where pieces are applied one by one

  T share(int k) const { return T(1) / T(k) / pieces_; }
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

  // The columns of exp(X / pieces), each in a row of `to`: the transposed matrix exp(-X / pieces).
  void columns(Matrix& to) const {
    for (int64_t j = 0; j < size_; ++j) {
      std::fill_n(to[j], size_, T(0));
      to[j][j] = 1;
      turn(to[j], T(1));
    }
  }
  // to = exp(X / pieces).
  void piece(Matrix& to) const {
    Matrix transposed;
    columns(transposed);
    for (int64_t i = 0; i < size_; ++i)
      for (int64_t j = 0; j < size_; ++j) to[i][j] = transposed[j][i];
  }
  // to += left right.
  void add_product(const Matrix& left, const Matrix& right, Matrix& to) const {
    for (int64_t i = 0; i < size_; ++i)
      for (int64_t k = 0; k < size_; ++k)
        for (int64_t j = 0; j < size_; ++j) to[i][j] += left[i][k] * right[k][j];
  }
  void clear(Matrix& m) const {
    for (int64_t i = 0; i < size_; ++i) std::fill_n(m[i], size_, T(0));
  }
  void copy(const Matrix& from, Matrix& to) const {
    for (int64_t i = 0; i < size_; ++i) std::copy_n(from[i], size_, to[i]);
  }
  void square(Matrix& m) const {
    Matrix result;
    clear(result);
    add_product(m, m, result);
    copy(result, m);
  }
  void apply(const Matrix& m, T* v) const {
    T result[most] = {};
    for (int64_t i = 0; i < size_; ++i)
      for (int64_t j = 0; j < size_; ++j) result[i] += m[i][j] * v[j];
    std::copy_n(result, size_, v);
  }

  // With A = exp(-X / p), the gradient of exp(X) with respect to X / p is the derivative of
  // exp(-X / p) in the direction S = sum_j A^(p-1-j) W A^j, W = grad v^T. Doubling the number of
  // terms m gives A^m S + S A^m. Source: the chain rule along exp(X) = exp(X / p)^p.
  void backward_by_squaring(const T* v, T* grad, T* of_x) const {
    Matrix power, sum, next;
    columns(power);
    for (int64_t i = 0; i < size_; ++i)
      for (int64_t j = 0; j < size_; ++j) sum[i][j] = grad[i] * v[j];
    for (int k = 0; k < squarings_; ++k) {
      clear(next);
      add_product(power, sum, next);
      add_product(sum, power, next);
      copy(next, sum);
      square(power);
    }
    apply(power, grad);
    // Term k of the derivative's series: D_k = (Y D_{k-1} + S P_{k-1}) / k with Y = -X / p and
    // P_k = Y P_{k-1} / k, S over p.
    Matrix term, series, total;
    clear(total);
    clear(term);
    clear(series);
    for (int64_t i = 0; i < size_; ++i) {
      series[i][i] = 1;
      for (int64_t j = 0; j < size_; ++j) sum[i][j] /= pieces_;
    }
    for (int k = 1; k <= orders; ++k) {
      left_multiply(term, -share(k), next);
      for (int64_t i = 0; i < size_; ++i)
        for (int64_t j = 0; j < size_; ++j) term[i][j] = 0;
      add_product(sum, series, term);
      for (int64_t i = 0; i < size_; ++i)
        for (int64_t j = 0; j < size_; ++j) {
          term[i][j] = term[i][j] / T(k) + next[i][j];
          total[i][j] += term[i][j];
        }
      left_multiply(series, -share(k), next);
      copy(next, series);
    }
    for (int64_t i = 0, number = 0; i < size_; ++i)
      for (int64_t j = i + 1; j < size_; ++j, ++number) of_x[number] += total[i][j] - total[j][i];
  }
  // to = factor X m.
  void left_multiply(const Matrix& m, T factor, Matrix& to) const {
    clear(to);
    for (int64_t i = 0, number = 0; i < size_; ++i)
      for (int64_t j = i + 1; j < size_; ++j, ++number)
        for (int64_t k = 0; k < size_; ++k) {
          to[i][k] += factor * x_[number] * m[j][k];
          to[j][k] -= factor * x_[number] * m[i][k];
        }
  }
};

}  // namespace unbounded
