// Rows with keys and strengths that are all read, each by a weight (Lie access and random access).
//
// Keys are laid out [n][rows], so that a register holds one coordinate of neighbouring rows; so are
// strengths and, in the backward pass, values. Padding rows have strength 0 up to a whole register.
// A row of strength 0 counts as absent: it is not read and gets no gradient. Weights are not saved:
// recomputing a distance and a quotient costs less than loading T x T weights.
#pragma once

#include <limits>

#include "frame.h"
#include "functions.h"

namespace unbounded {

template <class T>
constexpr T total_floor = T(1e-37);

// The rows of one batch entry in the order of their steps; those before `first` were dropped, and
// those from `end` on belong to later steps.
template <class T>
struct KeyedRows {
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

// The weights of the rows, their read vector and its gradients. A subclass gives the distances.
template <class T>
class WeightedRows {
 public:
  // Scratch for a read and for its gradient.
  static int64_t scratch_size(int64_t stride) { return 4 * stride; }

 protected:
  const int64_t width_;
  const KeyedRows<T> rows;
  T *weights_, *slopes_;    // and each for strength 1 before the division by the sum
  T *products_, *farther_;  // values times a gradient; distances minus the nearest one

  WeightedRows(int64_t width, const KeyedRows<T>& of, T* scratch)
      : width_(width), rows(of), weights_(scratch), slopes_(scratch + of.stride),
        products_(scratch + 2 * of.stride), farther_(scratch + 3 * of.stride) {}

  // Weights s e^(-d / temperature), before their division, from the distances in `farther_`;
  // `colder` is the inverse of the temperature, and `nearest` has the least distance of each lane.
  UNBOUNDED_INLINE Vector<T> weigh_by_softmax(Vector<T> nearest, T colder) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    Vector<T> totals{};
    T least = infinity;
    for (int64_t lane = 0; lane < lanes<T>; ++lane) least = std::min(least, nearest[lane]);
    if (least == infinity) least = 0;
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
  // Divides the weights by their sum; returns its inverse, or 0 without rows.
  T divide(Vector<T> totals) const {
    const T total = sum_of<T>(totals);
    const bool is_none = total <= total_floor<T>;
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>)
      store(weights_ + i, is_none ? Vector<T>{} : load(weights_ + i) / total);
    return is_none ? T(0) : 1 / total;
  }

  // sum w v, of values [rows][width] followed by a register of padding.
  void sum_rows(const T* weights, const T* values, int64_t width, T* sum) const {
    int64_t m = 0;
    for (; m + 4 * lanes<T> <= width; m += 4 * lanes<T>)
      sum_columns<4>(weights, values, width, m, sum);
    const int64_t left = (width - m + lanes<T> - 1) / lanes<T>;
    if (left == 4) sum_columns<4>(weights, values, width, m, sum);
    if (left == 3) sum_columns<3>(weights, values, width, m, sum);
    if (left == 2) sum_columns<2>(weights, values, width, m, sum);
    if (left == 1) sum_columns<1>(weights, values, width, m, sum);
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

  // Replaces the products, whose mean by the weights is given, by the gradients of the distances.
  // Accumulates the gradients of strengths, and returns the gradient of a softmax's temperature.
  UNBOUNDED_INLINE Vector<T> weigh_backward(T mean, T inverse, bool is_softmax, T colder,
                                            T* of_strengths) const {
    Vector<T> of_temperature{};
    for (int64_t i = rows.begin(); i < rows.end; i += lanes<T>) {
      const Vector<T> slope = load(slopes_ + i), excess = load(products_ + i) - mean;
      const Vector<T> of_strength = excess * inverse * slope, of_log = excess * load(weights_ + i);
      store(of_strengths + i,
            load(of_strengths + i) + (rows.strength(i) == 0 ? Vector<T>{} : of_strength));
      store(products_ + i, is_softmax ? of_log * -colder : of_log * -slope);
      if (is_softmax) of_temperature += of_log * load(farther_ + i) * (colder * colder);
    }
    return of_temperature;
  }

 private:
  // Columns m to m + registers of a sum of rows; separate sums for each of four rows.
  template <int registers>
  void sum_columns(const T* weights, const T* values, int64_t width, int64_t m, T* sum) const {
    Vector<T> sums[4][registers] = {};
    int64_t i = rows.begin();
    for (; i + 4 <= rows.end; i += 4) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
#pragma GCC unroll 4
        for (int v = 0; v < registers; ++v)
          sums[k][v] += weights[i + k] * load(values + (i + k) * width + m + v * lanes<T>);
      }
    }
    for (; i < rows.end; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < registers; ++v)
        sums[0][v] += weights[i] * load(values + i * width + m + v * lanes<T>);
    }
#pragma GCC unroll 4
    for (int v = 0; v < registers; ++v) {
      const int64_t at = m + v * lanes<T>;
      const Vector<T> all = (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]);
      if (at + lanes<T> <= width)
        store(sum + at, all);
      else
        store_first<T>(sum + at, all, int(width - at));
    }
  }
};

}  // namespace unbounded
