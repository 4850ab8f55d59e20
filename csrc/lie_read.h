// Reading all rows by their distances from a Lie-access head, and its gradients (Yang 2016).
#pragma once

#include <limits>

#include "keyed_rows.h"
#include "lie_disk.h"

namespace unbounded {

template <class T>
constexpr T distance_floor = T(1e-10);
template <class T>
constexpr T temperature_floor = T(1e-6);
// Keeps reciprocals finite.
template <class T>
constexpr T most_distance = T(1e37);

template <class T>
class LieReadVector : private WeightedRows<T> {
  using WeightedRows<T>::rows, WeightedRows<T>::weights_, WeightedRows<T>::slopes_,
      WeightedRows<T>::products_, WeightedRows<T>::farther_;

 public:
  using WeightedRows<T>::scratch_size;

  // Distances are Euclidean, or those of the Poincare disk.
  LieReadVector(int64_t key_size, int64_t width, bool is_softmax, bool is_disk,
                const KeyedRows<T>& of, T* scratch)
      : WeightedRows<T>(width, of, scratch), n(key_size), is_softmax_(is_softmax),
        is_disk_(is_disk) {}

  // r = sum w v, of values [rows][width] followed by a register of padding.
  void read(const T* key, T temperature, const T* values, T* read_vector) {
    weigh(key, temperature);
    this->sum_rows(weights_, values, this->width_, read_vector);
  }

  // Accumulates gradients of keys [n][stride], strengths [stride], values [width][stride] and the
  // head's key; returns that of the temperature. With a single row, all but its value's are exactly
  // 0.
  T backward(const T* key, T temperature, const T* columns, const T* grad, T* of_keys,
             T* of_strengths, T* of_columns, T* of_key) {
    const T inverse = weigh(key, temperature);
    Vector<T> means{};
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
      const Vector<T> weight = load(weights_ + i);
      const Vector<T> product = this->product_with(columns + i, grad, weight, of_columns + i);
      store(products_ + i, product);
      means += weight * product;
    }
    const T mean = sum_of<T>(means), colder = is_softmax_ ? colder_of(temperature) : T(1);
    const Vector<T> of_temperature =
        this->weigh_backward(mean, inverse, is_softmax_, colder, of_strengths);
    if (is_disk_) {
      move_on_disk(key, of_keys, of_key);
      return sum_of<T>(of_temperature);
    }
    for (int64_t j = 0; j < n; ++j) {
      Vector<T> of_coordinate{};
      const T* coordinates = rows.keys + j * rows.stride;
      T* of_row = of_keys + j * rows.stride;
      for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
        const Vector<T> change = 2 * load(products_ + i) * (key[j] - load(coordinates + i));
        of_coordinate += change;
        store(of_row + i, load(of_row + i) - change);
      }
      of_key[j] += sum_of<T>(of_coordinate);
    }
    return sum_of<T>(of_temperature);
  }

 private:
  const int64_t n;
  const bool is_softmax_, is_disk_;

  static T colder_of(T temperature) { return 1 / (temperature + temperature_floor<T>); }

  DiskDistance<T> on_disk_from(const T* key, int64_t i) const {
    return {Complex<T>{key[0], key[1]}, load(rows.keys + i), load(rows.keys + rows.stride + i)};
  }
  // Accumulates gradients of keys and the head's key from those of the distances, in `products_`.
  void move_on_disk(const T* key, T* of_keys, T* of_key) const {
    Vector<T> of_qx{}, of_qy{};
    T* of_y = of_keys + rows.stride;
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
      Vector<T> x = load(of_keys + i), y = load(of_y + i);
      on_disk_from(key, i).backward(load(products_ + i), x, y, of_qx, of_qy);
      store(of_keys + i, x);
      store(of_y + i, y);
    }
    if (rows.begin() >= rows.end) return;
    const Complex<T> of_head =
        on_disk_from(key, rows.begin()).of_head(sum_of<T>(of_qx), sum_of<T>(of_qy));
    of_key[0] += of_head.x;
    of_key[1] += of_head.y;
  }

  // Computes the weights; returns the inverse of their sum, or 0 without rows.
  T weigh(const T* key, T temperature) {
    return this->divide(is_disk_ ? weigh_by<2, true>(key, temperature)
                        : n == 2 ? weigh_by<2, false>(key, temperature)
                                 : weigh_by<0, false>(key, temperature));
  }
  template <int known_size, bool is_disk>  // 0 for any size
  Vector<T> weigh_by(const T* key, T temperature) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const int64_t size = known_size ? known_size : n, stride = rows.stride;
    Vector<T> nearest = Vector<T>{} + infinity, totals{};
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
      Vector<T> distance{};
      if constexpr (is_disk)
        distance = on_disk_from(key, i).square();
      else
        for (int64_t j = 0; j < size; ++j) {
          const Vector<T> side = key[j] - load(rows.keys + j * stride + i);
          distance += side * side;
        }
      distance = distance > most_distance<T> ? Vector<T>{} + most_distance<T> : distance;
      const Vector<T> s = rows.strength(i);
      if (is_softmax_) {
        store(farther_ + i, distance);
        const Vector<T> held = s == 0 ? nearest : distance;
        nearest = held < nearest ? held : nearest;
      } else {
        const Vector<T> slope = reciprocal(distance + distance_floor<T>);
        store(slopes_ + i, slope);
        store(weights_ + i, s * slope);
        totals += s * slope;
      }
    }
    return is_softmax_ ? this->weigh_by_softmax(nearest, colder_of(temperature)) : totals;
  }
};

}  // namespace unbounded
