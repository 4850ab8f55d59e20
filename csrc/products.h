// A product of some rows with a run of panels, by the method that suits the number of rows.
#pragma once

#include "panel.h"
#include "split.h"
#include "tiles.h"

namespace unbounded {

// out[b, g panel_width + c] = starts[g, c] + sum_k in[b, k] panels[g][k, c], where in[b] is `first`
// followed by `second`. Pointers are those of the first row and of group 0.
template <class T>
struct Product {
  Segment<T> first, second;
  int64_t columns;  // of all panels
  const T* panels;
  int64_t panel_stride;
  const T* starts;  // or null for 0
  int64_t start_stride;
  T* out;
  int64_t out_stride;
  const T* after = nullptr;  // the panel expected next
  Precision precision = Precision::highest;
  T* room = nullptr;  // in tiles: room for rounded rows

  Product at(int64_t row, int64_t group) const {
    Product from = *this;
    from.first.data += row * first.stride;
    from.second.data += row * second.stride;
    from.columns -= group * panel_width<T>;
    from.panels += group * panel_stride;
    if (starts) from.starts += group * start_stride;
    from.out += row * out_stride + group * panel_width<T>;
    return from;
  }
};

// One or two rows leave registers unused, and each sum would wait for its last addition; then some
// panels are combined. Every sum has the same order as otherwise.
constexpr int few_rows = 2;
constexpr int panels_together = UNBOUNDED_MAX_ROWS >= 12 ? 4 : 2;
constexpr int64_t near_distance = 16;  // prefetch distance in each panel

template <class T, int ROWS>
void panels_rows(const Product<T>& p) {
  constexpr int panel = panel_width<T>;
  Vector<T> low[panels_together][ROWS], high[panels_together][ROWS];
#pragma GCC unroll 4
  for (int i = 0; i < panels_together; ++i)
#pragma GCC unroll 2
    for (int r = 0; r < ROWS; ++r) {
      const T* start = p.starts + i * p.start_stride;
      low[i][r] = p.starts ? load(start) : Vector<T>{};
      high[i][r] = p.starts ? load(start + lanes<T>) : Vector<T>{};
    }
  const T* from = p.panels;
  for (const Segment<T>* in : {&p.first, &p.second}) {
    const T* column = in->data;
    for (int64_t k = 0; k < in->count; ++k, ++column, from += panel)
#pragma GCC unroll 4
      for (int i = 0; i < panels_together; ++i) {
        const T* at = from + i * p.panel_stride;
        __builtin_prefetch(at + near_distance * panel);
        __builtin_prefetch(at + near_distance * panel + lanes<T>);
        const Vector<T> left = load(at), right = load(at + lanes<T>);
#pragma GCC unroll 2
        for (int r = 0; r < ROWS; ++r) {
          const Vector<T> x = fill(column[r * in->stride]);
          low[i][r] += x * left;
          high[i][r] += x * right;
        }
      }
  }
#pragma GCC unroll 4
  for (int i = 0; i < panels_together; ++i)
#pragma GCC unroll 2
    for (int r = 0; r < ROWS; ++r) {
      store(p.out + r * p.out_stride + i * panel, low[i][r]);
      store(p.out + r * p.out_stride + i * panel + lanes<T>, high[i][r]);
    }
}

// A group in tiles, for rows that are already rounded.
template <class T>
void multiply_tiles(const Product<T>& product, const Left& left, int64_t rows, int64_t group,
                    TileShapes& shapes) {
  if constexpr (sizeof(T) == sizeof(float)) {
    const int64_t depths = in_depths(product.first.count) + in_depths(product.second.count);
    const T* start = product.starts ? product.starts + group * product.start_stride : nullptr;
    for_tile_blocks(rows, [&](int64_t begin, int count) {
      shapes.want(count);
      tile_product(product.precision, depths, left.at_row(begin),
                   product.panels + group * product.panel_stride, start, 0,
                   product.out + begin * product.out_stride + group * panel_width<T>,
                   product.out_stride);
    });
  }
}

template <class T>
void multiply_tiles(const Product<T>& product, int64_t rows, Share groups, int64_t step) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (groups.count() <= 0) return;
    const Left left =
        round_rows(product.precision, product.first, product.second, rows, product.room);
    TileShapes shapes(int(std::min(rows, tile_height)));
    zigzag(groups, step, [&](int64_t g) { multiply_tiles(product, left, rows, g, shapes); });
  }
}

template <class T>
void multiply(const Product<T>& product, int64_t rows, Share groups, int64_t step) {
  if (rows <= 0) return;
  if (product.precision != Precision::highest) return multiply_tiles(product, rows, groups, step);
  if (rows <= few_rows)
    for (; groups.count() >= panels_together; groups.begin += panels_together) {
      const Product<T> some = product.at(0, groups.begin);
      rows == 1 ? panels_rows<T, 1>(some) : panels_rows<T, 2>(some);
    }
  zigzag(groups, step, [&](int64_t g) {
    const int64_t following = after_in_zigzag(g, groups, step);
    const T* next = following == g && product.after
                        ? product.after
                        : product.panels + following * product.panel_stride;
    const T* own = product.panels + g * product.panel_stride;
    const T* start = product.starts ? product.starts + g * product.start_stride : nullptr;
    T* out = product.out + g * panel_width<T>;
    const int64_t columns = product.columns - g * panel_width<T>;
    for_row_blocks(0, rows, [&](int64_t begin, int count) {
      const Segment<T>&one = product.first, &two = product.second;
      panel_product(count, columns,
                    Segment<T>{one.data + begin * one.stride, one.stride, one.count},
                    Segment<T>{two.data + begin * two.stride, two.stride, two.count}, start, own,
                    begin + count < rows ? own : next, out + begin * product.out_stride,
                    product.out_stride);
    });
  });
}

}  // namespace unbounded
