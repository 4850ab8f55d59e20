// Products of a few rows with packed weights: out[b, c] = start[c] + sum_k in[b, k] W[k, c].
//
// A panel is `panel_width` neighbouring columns c (two registers) of W, laid out [k][column], so
// that a product streams it once while the sums of up to UNBOUNDED_MAX_ROWS rows stay in registers.
// If a last panel's columns fit one register, the other one is omitted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "vector.h"

namespace unbounded {

// The instantiated functions, one for each number of rows.
#if UNBOUNDED_MAX_ROWS == 14
#define UNBOUNDED_EACH_COUNT(X) \
  X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif UNBOUNDED_MAX_ROWS == 12
#define UNBOUNDED_EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define UNBOUNDED_EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

template <class T>
inline constexpr int panel_width = 2 * lanes<T>;

template <class T>
constexpr int64_t padded(int64_t columns) {
  return (columns + panel_width<T> - 1) / panel_width<T> * panel_width<T>;
}

// A part of the inner dimension: `count` columns of a row-major matrix.
template <class T>
struct Segment {
  const T* data;
  int64_t stride;
  int64_t count;
};

// Packed weights rarely fit the second-level cache: prefetch them early enough for the third level,
// and beyond the end of a panel prefetch the one used next.
#ifndef UNBOUNDED_PREFETCH
#define UNBOUNDED_PREFETCH 48
#endif
constexpr int64_t prefetch_distance = UNBOUNDED_PREFETCH;

template <class T>
struct Ahead {
  const T* at;
  const T* end;
  const T* next;

  template <bool WIDE>
  UNBOUNDED_INLINE void fetch() {
    __builtin_prefetch(at);
    if (WIDE) __builtin_prefetch(at + lanes<T>);
    at += panel_width<T>;
    if (at == end) at = next;
  }
};

// sums[r] += in[r] . panel; WIDE if both registers have columns.
template <class T, int ROWS, bool WIDE>
UNBOUNDED_INLINE const T* accumulate(Vector<T> (&low)[ROWS], Vector<T> (&high)[ROWS],
                                     const Segment<T>& in, const T* panel, Ahead<T>& ahead) {
  const T* column = in.data;
  const int64_t stride = in.stride;
  for (int64_t k = 0; k < in.count; ++k, ++column, panel += panel_width<T>) {
    ahead.template fetch<WIDE>();
    const Vector<T> left = load(panel);
    const Vector<T> right = WIDE ? load(panel + lanes<T>) : Vector<T>{};
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const Vector<T> x = fill(column[r * stride]);
      low[r] += x * left;
      if (WIDE) high[r] += x * right;
    }
  }
  return panel;
}

template <class T, int ROWS, bool WIDE>
void panel_rows(const Segment<T>& first, const Segment<T>& second, const T* start, const T* panel,
                const T* next, T* out, int64_t out_stride) {
  Vector<T> low[ROWS], high[ROWS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    low[r] = start ? load(start) : Vector<T>{};
    if (WIDE) high[r] = start ? load(start + lanes<T>) : Vector<T>{};
  }
  const int64_t inner = first.count + second.count;
  const T* end = panel + inner * panel_width<T>;
  Ahead<T> ahead{panel + prefetch_distance * panel_width<T>, end, next};
  if (inner <= prefetch_distance) ahead.at = next;
  panel = accumulate<T, ROWS, WIDE>(low, high, first, panel, ahead);
  accumulate<T, ROWS, WIDE>(low, high, second, panel, ahead);
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    store(out + r * out_stride, low[r]);
    if (WIDE) store(out + r * out_stride + lanes<T>, high[r]);
  }
}

// `columns` of one panel, or all, for `rows` <= UNBOUNDED_MAX_ROWS rows; the inner dimension is
// `first` then `second`. Sums start at `start`, one value per column, or null for 0; `next` is the
// panel expected to be used next. Memory past the columns of `out` may be written.
template <class T>
inline void panel_product(int rows, int64_t columns, const Segment<T>& first,
                          const Segment<T>& second, const T* start, const T* panel, const T* next,
                          T* out, int64_t out_stride) {
  switch (rows) {
#define UNBOUNDED_CASE(n)                                                                  \
  case n:                                                                                  \
    return columns > lanes<T>                                                              \
               ? panel_rows<T, n, true>(first, second, start, panel, next, out, out_stride) \
               : panel_rows<T, n, false>(first, second, start, panel, next, out, out_stride);
    UNBOUNDED_EACH_COUNT(UNBOUNDED_CASE)
#undef UNBOUNDED_CASE
    default:
      return;
  }
}

// Calls body(first row, rows) for nearly equal blocks of the rows from `first` on.
template <class Body>
inline void for_row_blocks(int64_t first, int64_t rows, Body body,
                           int64_t most = UNBOUNDED_MAX_ROWS) {
  const int64_t blocks = (rows + most - 1) / most;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = rows * i / blocks, end = rows * (i + 1) / blocks;
    body(first + begin, int(end - begin));
  }
}

// Panel columns [column, column + panel_width) of W[k, c] = weights[c * stride + k], k < count.
template <class T>
void pack_transposed(T* panel, const T* weights, int64_t stride, int64_t count, int64_t columns) {
  const int64_t width = std::min<int64_t>(columns, panel_width<T>);
  int64_t k0 = 0;
  if (width == panel_width<T>)
    for (; k0 + lanes<T> <= count; k0 += lanes<T>)
      for (int64_t c = 0; c < panel_width<T>; c += lanes<T>)
        transpose(weights + c * stride + k0, stride, panel + k0 * panel_width<T> + c,
                  panel_width<T>);
  for (int64_t k = k0; k < count; ++k) {
    T* to = panel + k * panel_width<T>;
    for (int64_t c = 0; c < width; ++c) to[c] = weights[c * stride + k];
    for (int64_t c = width; c < panel_width<T>; ++c) to[c] = 0;
  }
}

// The same of W[k, c] = weights[k * stride + c].
template <class T>
void pack_straight(T* panel, const T* weights, int64_t stride, int64_t count, int64_t columns) {
  const int64_t width = std::min<int64_t>(columns, panel_width<T>);
  for (int64_t k = 0; k < count; ++k) {
    T* to = panel + k * panel_width<T>;
    std::memcpy(to, weights + k * stride, sizeof(T) * size_t(width));
    std::memset(to + width, 0, sizeof(T) * size_t(panel_width<T> - width));
  }
}

// Adds a bias to the start values of a panel's sums.
template <class T>
void add_bias(T* panel, const T* bias, int64_t columns) {
  for (int64_t c = 0; c < std::min<int64_t>(columns, panel_width<T>); ++c) panel[c] += bias[c];
}

}  // namespace unbounded
