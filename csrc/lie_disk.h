// The Poincare disk of a Lie-access memory's keys: moves, distances, and their gradients.
//
// A key is a complex number z, |z| < 1; `PoincareDisk` in memories/lie_access/groups.py has the
// equations. Keys end `edge` before the circle, because there distances have no more bits.
#pragma once

#include <cmath>

#include "functions.h"

namespace unbounded {

template <class T>
struct Complex {
  T x, y;

  Complex operator+(Complex b) const { return {x + b.x, y + b.y}; }
  Complex operator-() const { return {-x, -y}; }
  Complex operator*(Complex b) const { return {x * b.x - y * b.y, x * b.y + y * b.x}; }
  Complex operator*(T factor) const { return {factor * x, factor * y}; }
  Complex operator/(Complex b) const { return *this * b.conjugate() * (1 / b.square()); }
  Complex conjugate() const { return {x, -y}; }
  T square() const { return x * x + y * y; }
  T inner(Complex b) const { return x * b.x + y * b.y; }
};

template <class T>
constexpr T disk_edge = T(1e-5);
// Below this, two terms of a series stand for the square of arsinh(sqrt x).
template <class T>
constexpr T disk_small = T(1e-6);

// The nearest key of length at most 1 - edge, and the gradient of that.
template <class T>
Complex<T> on_disk(Complex<T> z) {
  constexpr T most = 1 - disk_edge<T>;
  const T square = z.square();
  return square > most * most ? z * (most / std::sqrt(square)) : z;
}
template <class T>
Complex<T> on_disk_backward(Complex<T> z, Complex<T> grad) {
  constexpr T most = 1 - disk_edge<T>;
  const T square = z.square();
  if (!(square > most * most)) return grad;
  return (grad + -(z * (z.inner(grad) / square))) * (most / std::sqrt(square));
}

// (u z + a) / (1 + conj(a) u z) of a key z, for an action of a vector (2) and an angle.
template <class T>
class DiskMove {
 public:
  DiskMove(const T* action, Complex<T> key, T floor)
      : vector_{action[0], action[1]}, key_(key) {
    length_ = std::sqrt(vector_.square() + floor);
    tanh_ = std::tanh(length_ / 2);
    unplaced_ = vector_ * (tanh_ / length_);
    a_ = on_disk(unplaced_);
    u_ = {std::cos(action[2]), std::sin(action[2])};
    turned_ = u_ * key;
    below_ = Complex<T>{1, 0} + a_.conjugate() * turned_;
    quotient_ = (turned_ + a_) / below_;
  }

  Complex<T> value() const { return on_disk(quotient_); }

  // Returns the gradient of the key and accumulates that of the action.
  Complex<T> backward(Complex<T> grad, T* of_action) const {
    const Complex<T> of_above = on_disk_backward(quotient_, grad) / below_.conjugate();
    const Complex<T> of_below = -(quotient_.conjugate() * of_above);
    const Complex<T> of_turned = of_above + a_ * of_below;
    const Complex<T> of_a =
        on_disk_backward(unplaced_, of_above + of_below.conjugate() * turned_);
    const T slope = ((1 - tanh_ * tanh_) / 2 - tanh_ / length_) / length_;
    const Complex<T> of_vector =
        of_a * (tanh_ / length_) + vector_ * (vector_.inner(of_a) * slope / length_);
    const Complex<T> of_u = key_.conjugate() * of_turned;
    of_action[0] += of_vector.x;
    of_action[1] += of_vector.y;
    of_action[2] += u_.x * of_u.y - u_.y * of_u.x;
    return u_.conjugate() * of_turned;
  }

 private:
  Complex<T> vector_, key_, unplaced_, a_, u_, turned_, below_, quotient_;
  T length_, tanh_;
};

// Squared hyperbolic distances from a head to a register of rows, 4 arsinh(sqrt x)^2 with
// x = |q - k|^2 / (1 - |q|^2) / (1 - |k|^2), and their gradients.
template <class T>
class DiskDistance {
 public:
  DiskDistance(Complex<T> head, Vector<T> x, Vector<T> y)
      : unplaced_(head), q_(on_disk(head)), x_(x), y_(y) {
    constexpr T most = 1 - disk_edge<T>;
    const Vector<T> square = x * x + y * y;
    beyond_ = square > most * most ? Vector<T>{} + T(1) : Vector<T>{};
    scale_ = beyond_ > 0 ? most / square_root(square) : Vector<T>{} + T(1);
    kx_ = scale_ * x;
    ky_ = scale_ * y;
    inside_q_ = 1 - q_.square();
    inside_k_ = 1 - (kx_ * kx_ + ky_ * ky_);
    dx_ = q_.x - kx_;
    dy_ = q_.y - ky_;
    ratio_ = (dx_ * dx_ + dy_ * dy_) / (inside_q_ * inside_k_);
    const Vector<T> far = ratio_ > disk_small<T> ? ratio_ : Vector<T>{} + T(1);
    root_ = square_root(far);
    // arsinh r = log(r + sqrt(r^2 + 1)); r is at least 0.001 here.
    arsinh_ = logarithm(root_ + square_root(far + 1));
  }

  Vector<T> square() const {
    const Vector<T> series = 4 * ratio_ * (1 - ratio_ * T(1. / 3));
    return ratio_ > disk_small<T> ? 4 * arsinh_ * arsinh_ : series;
  }

  // For a gradient of the squared distances, accumulates that of the rows' coordinates and of the
  // placed head's.
  void backward(Vector<T> grad, Vector<T>& of_x, Vector<T>& of_y, Vector<T>& of_qx,
                Vector<T>& of_qy) const {
    const Vector<T> far = root_ * square_root(root_ * root_ + 1);
    const Vector<T> series = 4 * (1 - ratio_ * T(2. / 3));
    const Vector<T> slope = grad * (ratio_ > disk_small<T> ? 4 * arsinh_ / far : series);
    const Vector<T> apart = 2 * slope / (inside_q_ * inside_k_);
    const Vector<T> of_q = 2 * slope * ratio_ / inside_q_, of_k = 2 * slope * ratio_ / inside_k_;
    of_qx += apart * dx_ + of_q * q_.x;
    of_qy += apart * dy_ + of_q * q_.y;
    const Vector<T> rx = of_k * kx_ - apart * dx_, ry = of_k * ky_ - apart * dy_;
    const Vector<T> square = beyond_ > 0 ? x_ * x_ + y_ * y_ : Vector<T>{} + T(1);
    const Vector<T> along = beyond_ * (x_ * rx + y_ * ry) / square;
    of_x += scale_ * (rx - x_ * along);
    of_y += scale_ * (ry - y_ * along);
  }

  // The gradient of the head from that of the placed one.
  Complex<T> of_head(T of_qx, T of_qy) const {
    return on_disk_backward(unplaced_, Complex<T>{of_qx, of_qy});
  }

 private:
  Complex<T> unplaced_, q_;
  Vector<T> x_, y_, beyond_, scale_, kx_, ky_, inside_k_, dx_, dy_, ratio_, root_, arsinh_;
  T inside_q_;
};

}  // namespace unbounded
