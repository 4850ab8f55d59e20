// The rows of one memory whose strength is not zero, with an undo log.
//
// A row of strength zero never comes back (eq. 2, 4, 7, 8 only lower a strength), so omitting it is
// exact. A pop and a read scan from their end until their quantity is used up; with saturated push
// and pop, every operation takes amortised constant time. The changes of a pop are logged (the rows
// that died, and the previous strength of the partly popped row). The backward pass thus restores
// the strengths of every step exactly, and nothing grows with T x T.
//
// Sums run from the end that is read in double precision and are rounded where they are compared,
// as in torch.cumsum; ties then resolve as in the reference.
#pragma once

#include <cstdint>

#include "vector.h"

namespace unbounded {

enum class End { top, bottom };

template <class T>
struct LiveRows {
  int32_t* row;     // index into values, by position
  T* strength;      // by position
  int64_t low = 0;  // bottommost position in use
  int64_t high = 0;

  template <End end>
  int64_t position(int64_t nth) const {
    return end == End::top ? high - 1 - nth : low + nth;
  }
  template <End end>
  void add(int32_t index, T s) {
    const int64_t at = end == End::top ? high++ : --low;
    row[at] = index;
    strength[at] = s;
  }
  template <End end>
  void remove() {
    if (end == End::top)
      --high;
    else
      ++low;
  }
  int64_t count() const { return high - low; }
};

template <class T>
struct Graveyard {
  int32_t* row;
  T* strength;
  int64_t count = 0;
};

// Record of one pop: twice the number of rows that died, plus 1 if another row was lowered; and the
// previous strength of that row.
template <class T>
struct PopRecord {
  int32_t* change;
  T* kept;
};

// The rows of one batch entry in the forward pass.
template <class T>
struct Rows {
  LiveRows<T> live;
  Graveyard<T> graves;
  T* values;  // [rows, width]
  int64_t width;

  // s[i] <- max(0, s[i] - max(0, u - sum of s nearer the end))
  template <End end>
  void pop(T quantity, PopRecord<T> record) {
    double nearer = 0;
    int32_t deaths = 0, lowered = 0;
    while (live.count() > 0) {
      const T rest = quantity - T(nearer);
      if (rest <= 0) break;
      const int64_t at = live.template position<end>(0);
      const T s = live.strength[at];
      // With denormals flushed to zero the difference can be 0 although s > rest: the row is dead.
      if (s <= rest || s - rest == 0) {
        graves.row[graves.count] = live.row[at];
        graves.strength[graves.count++] = s;
        live.template remove<end>();
        nearer += s;
        ++deaths;
      } else {
        *record.kept = s;
        live.strength[at] = s - rest;
        lowered = 1;
        break;
      }
    }
    *record.change = 2 * deaths + lowered;
  }

  template <End end>
  void push(int64_t index, T strength) {
    // A NaN row is handled like any other, so that NaN propagates.
    if (!(strength <= 0)) live.template add<end>(int32_t(index), strength);
  }

  void take_initial(int64_t first, const T* strengths, int64_t count) {
    for (int64_t i = 0; i < count; ++i) push<End::top>(first + i, strengths[i]);
  }
  // The index among `count` rows, starting at `first`.
  void write_strengths(T* strengths, int64_t count, int64_t first) const {
    for (int64_t i = 0; i < count; ++i) strengths[i] = 0;
    for (int64_t at = live.low; at < live.high; ++at)
      strengths[live.row[at] - first] = live.strength[at];
  }
  void write_range(int32_t* range) const {
    range[0] = int32_t(live.low);
    range[1] = int32_t(live.high);
    range[2] = int32_t(graves.count);
  }

  // r = sum of min(s[i], max(0, 1 - sum of s nearer the end)) V[i]
  template <End end>
  void read(T* read_vector) const {
    for (int64_t i = 0; i < width; ++i) read_vector[i] = 0;
    // A few rows at a time, so that the sums of the read vector stay in registers.
    constexpr int most = 4;
    const T* row[most];
    T weight[most];
    int found = 0;
    double nearer = 0;
    for (int64_t nth = 0; nth < live.count(); ++nth) {
      const T within = 1 - T(nearer);
      if (within <= 0) break;
      const int64_t at = live.template position<end>(nth);
      const T s = live.strength[at];
      // Written so that a NaN strength stays NaN.
      weight[found] = s > within ? within : s;
      row[found++] = values + live.row[at] * width;
      nearer += s;
      if (found == most) {
        add_rows<most>(row, weight, read_vector);
        found = 0;
      }
    }
    if (found == 3) add_rows<3>(row, weight, read_vector);
    if (found == 2) add_rows<2>(row, weight, read_vector);
    if (found == 1) add_rows<1>(row, weight, read_vector);
  }

  template <int count>
  void add_rows(const T* const* row, const T* weight, T* read_vector) const {
    int64_t m = 0;
    for (; m + lanes<T> <= width; m += lanes<T>) {
      Vector<T> sum = load(read_vector + m);
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i) sum += fill(weight[i]) * load(row[i] + m);
      store(read_vector + m, sum);
    }
    for (; m < width; ++m)
      for (int i = 0; i < count; ++i) read_vector[m] += weight[i] * row[i][m];
  }
};

// The same rows in the backward pass.
//
// A row pushed with strength exactly 0 is not among the live ones. But ties go to the left
// argument, so its strength has a gradient: min(0, room) passes it on, the rows that it would
// displace in the read contribute, and the next pop would take it before the partly popped row.
// After that step max(0, 0 - ...) stops it.
template <class T>
struct RowsBackward {
  LiveRows<T> live;
  Graveyard<T> graves;
  const T* values;
  int64_t width;
  T* grad_values;     // [rows, width]
  T* grad_strengths;  // [rows]
  T carried;          // gradient of the row that the last undone pop lowered, if any
  int64_t lowered;    // that row, or -1

  // Sets the live rows and their gradients to those after the last step; dead rows have none.
  void restore(const T* strengths, const T* grad_last, int64_t rows) {
    int64_t at = live.low;
    for (int64_t i = 0; i < rows; ++i) {
      grad_strengths[i] = 0;
      if (strengths[i] <= 0) continue;
      live.row[at] = int32_t(i);
      live.strength[at++] = strengths[i];
      if (grad_last) grad_strengths[i] = grad_last[i];
    }
  }

  // Returns the gradient of the remaining room: what a row at the very end would take from partly
  // read rows.
  template <End end>
  T read_backward(const T* grad_read_vector) {
    double nearer = 0;
    T squeezed = 0;
    for (int64_t nth = 0; nth < live.count(); ++nth) {
      const T within = 1 - T(nearer);
      if (within <= 0) break;
      const int64_t at = live.template position<end>(nth), row = live.row[at];
      const T s = live.strength[at];
      const T grad_weight = dot(width, grad_read_vector, values + row * width);
      axpy(width, s > within ? within : s, grad_read_vector, grad_values + row * width);
      if (s > within) {
        squeezed += grad_weight;
        for (int64_t j = 0; j < nth; ++j)
          grad_strengths[live.row[live.template position<end>(j)]] -= grad_weight;
      } else {
        grad_strengths[row] += grad_weight;
      }
      nearer += s;
    }
    return squeezed;
  }

  // Gradient of the push strength.
  template <End end>
  T push_backward(int64_t index, T strength) {
    if (!(strength <= 0)) live.template remove<end>();
    return grad_strengths[index];
  }

  // Gradient that a read gives a row of strength 0.
  T unseen(int64_t index, const T* grad_read_vector) const {
    return dot(width, grad_read_vector, values + index * width);
  }

  // Gradient of initial rows of strength 0, after the first step's pop was undone.
  template <End end>
  void unseen_initial(int64_t first, int64_t count, const T* strengths0) {
    for (int64_t row = first; row < first + count; ++row) {
      if (!(strengths0[row - first] <= 0)) continue;
      const bool nearer = lowered >= 0 && (end == End::top ? row > lowered : row < lowered);
      grad_strengths[row] = nearer ? carried : 0;
    }
  }

  // Gradient of the pop quantity.
  template <End end>
  T pop_backward(int32_t change, T kept) {
    carried = 0;
    lowered = -1;
    if (change & 1) {
      const int64_t at = live.template position<end>(0);
      live.strength[at] = kept;
      lowered = live.row[at];
      carried = grad_strengths[lowered];
    }
    for (int32_t n = change >> 1; n > 0; --n) {
      --graves.count;
      const int32_t row = graves.row[graves.count];
      live.template add<end>(row, graves.strength[graves.count]);
      grad_strengths[row] = carried;
    }
    return -carried;
  }
};

}  // namespace unbounded
