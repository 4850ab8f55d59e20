// Reading all rows by their distances from a Lie-access head, and its gradients (Yang 2016).
//
// Keys are laid out [n][rows], so that a register holds one coordinate of neighbouring rows; so are
// strengths and, in the backward pass, values. Padding rows have strength 0 up to a whole register.
// A row of strength 0 counts as absent: it is not read and gets no gradient. Weights are not saved:
// recomputing a distance and a quotient costs less than loading T x T weights.
#pragma once

#include <limits>

#include "functions.h"
#include "lie_disk.h"

namespace unbounded {

template <class T>
constexpr T distance_floor = T(1e-10);
template <class T>
constexpr T temperature_floor = T(1e-6);
template <class T>
constexpr T total_floor = T(1e-37);
// Keeps reciprocals finite.
template <class T>
constexpr T most_distance = T(1e37);

// The rows of one batch entry in the order of their steps; those before `first` were dropped, and
// those from `end` on belong to later steps.
template <class T>
struct LieRows {
  const T *keys, *strengths;  // [n][stride], [stride]
  int64_t stride, first, end;

  int64_t begin() const { return first / lanes<T> * lanes<T>; }
  UNBOUNDED_INLINE Vector<T> strength(int64_t i) const {
    const Vector<T> s = load(strengths + i);
    const Vector<T> held = s <= 0 ? Vector<T>{} : s;
    if (i >= first && i + lanes<T> <= end) return held;
    T kept[lanes<T>];
    store(kept, held);
    for (int64_t lane = 0; lane < lanes<T>; ++lane)
      if (i + lane < first || i + lane >= end) kept[lane] = 0;
    return load(kept);
  }
};

template <class T>
class LieReadVector {
 public:
  // Scratch for a read and for its gradient.
  static int64_t scratch_size(int64_t stride) { return 4 * stride; }

  // Distances are Euclidean, or those of the Poincare disk.
  LieReadVector(int64_t key_size, int64_t width, bool is_softmax, bool is_disk,
                const LieRows<T>& of, T* scratch)
      : n(key_size), width_(width), is_softmax_(is_softmax), is_disk_(is_disk), rows(of), weights_(scratch),
        slopes_(scratch + of.stride), products_(scratch + 2 * of.stride),
        farther_(scratch + 3 * of.stride) {}

  // r = sum w v, of values [rows][width] followed by a register of padding.
  void read(const T* key, T temperature, const T* values, T* read_vector) {
    weigh(key, temperature);
    int64_t m = 0;
    for (; m + 4 * lanes<T> <= width_; m += 4 * lanes<T>) read_columns<4>(values, m, read_vector);
    const int64_t left = (width_ - m + lanes<T> - 1) / lanes<T>;
    if (left == 4) read_columns<4>(values, m, read_vector);
    if (left == 3) read_columns<3>(values, m, read_vector);
    if (left == 2) read_columns<2>(values, m, read_vector);
    if (left == 1) read_columns<1>(values, m, read_vector);
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
      const Vector<T> product = product_with(columns + i, grad, weight, of_columns + i);
      store(products_ + i, product);
      means += weight * product;
    }
    const T mean = sum_of<T>(means), colder = is_softmax_ ? colder_of(temperature) : T(1);
    Vector<T> of_temperature{};
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
      const Vector<T> slope = load(slopes_ + i), excess = load(products_ + i) - mean;
      const Vector<T> of_strength = excess * inverse * slope, of_log = excess * load(weights_ + i);
      store(of_strengths + i,
            load(of_strengths + i) + (rows.strength(i) == 0 ? Vector<T>{} : of_strength));
      store(products_ + i, is_softmax_ ? of_log * -colder : of_log * -slope);
      if (is_softmax_) of_temperature += of_log * load(farther_ + i) * (colder * colder);
    }
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
  const int64_t n, width_;
  const bool is_softmax_, is_disk_;
  const LieRows<T> rows;
  T *weights_, *slopes_;    // and each for strength 1 before the division by the sum
  T *products_, *farther_;  // values times a gradient; distances minus the nearest one

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
    const Vector<T> totals = is_disk_ ? weigh_by<2, true>(key, temperature)
                             : n == 2 ? weigh_by<2, false>(key, temperature)
                                      : weigh_by<0, false>(key, temperature);
    const T total = sum_of<T>(totals);
    const bool is_none = total <= total_floor<T>;
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>)
      store(weights_ + i, is_none ? Vector<T>{} : load(weights_ + i) / total);
    return is_none ? T(0) : 1 / total;
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
    if (!is_softmax_) return totals;
    T least = infinity;
    for (int64_t lane = 0; lane < lanes<T>; ++lane) least = std::min(least, nearest[lane]);
    if (least == infinity) least = 0;
    const T colder = colder_of(temperature);
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
      const Vector<T> farther = load(farther_ + i) - least, s = rows.strength(i);
      const Vector<T> power = exponential(-farther * colder);
      store(farther_ + i, farther);
      store(slopes_ + i, power);
      const Vector<T> part = s == 0 ? Vector<T>{} : s * power;
      store(weights_ + i, part);
      totals += part;
    }
    return totals;
  }

  // Columns m to m + registers of the read vector; separate sums for each of four rows.
  template <int registers>
  void read_columns(const T* values, int64_t m, T* read_vector) const {
    Vector<T> sums[4][registers] = {};
    int64_t i = rows.begin();
    for (; i + 4 <= rows.end; i += 4) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
#pragma GCC unroll 4
        for (int v = 0; v < registers; ++v)
          sums[k][v] += weights_[i + k] * load(values + (i + k) * width_ + m + v * lanes<T>);
      }
    }
    for (; i < rows.end; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < registers; ++v)
        sums[0][v] += weights_[i] * load(values + i * width_ + m + v * lanes<T>);
    }
#pragma GCC unroll 4
    for (int v = 0; v < registers; ++v) {
      const int64_t at = m + v * lanes<T>;
      const Vector<T> all = (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]);
      if (at + lanes<T> <= width_)
        store(read_vector + at, all);
      else
        store_first<T>(read_vector + at, all, int(width_ - at));
    }
  }

  // The values of one register of rows times the gradient of the read vector; accumulates theirs.
  UNBOUNDED_INLINE Vector<T> product_with(const T* columns, const T* grad, Vector<T> weight,
                                          T* of_columns) const {
    Vector<T> sums[4] = {};
    const int64_t stride = rows.stride, width = width_;  // local copies, which no store can alias
    const auto take = [&](T factor, Vector<T>& sum) {
      sum += load(columns) * factor;
      store(of_columns, load(of_columns) + weight * factor);
      columns += stride;
      of_columns += stride;
    };
    int64_t m = 0;
    for (; m + 4 <= width; m += 4) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) take(grad[m + k], sums[k]);
    }
    for (; m < width; ++m) take(grad[m], sums[0]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

}  // namespace unbounded
