// Superposition stacks and lists (Joulin & Mikolov 2015): mixing of cells in a step, and gradients.
//
// A row holds one cell of every structure, so that the weights of an action are registers, a shift
// by one place is the next row, and no sum crosses a register. Stacks and lists differ in the
// layout of cells among the rows and in the neighbour that an action takes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vector.h"

namespace unbounded {

struct Span {
  int64_t begin, end;
  bool has(int64_t row) const { return row >= begin && row < end; }
};
inline Span common(Span a, Span b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Margin rows on either side of the cells, so that neighbours can always be read.
constexpr int64_t row_margin = 2;

// Some rows of a buffer, starting with row `base`.
template <class T>
struct CellRows {
  T* data;
  int64_t stride;
  int64_t base;

  T* at(int64_t row) const { return data + (row - base) * stride; }
  UNBOUNDED_INLINE Vector<T> get(int64_t row, int64_t lane) const { return load(at(row) + lane); }
  UNBOUNDED_INLINE void put(int64_t row, int64_t lane, Vector<T> v) const {
    store(at(row) + lane, v);
  }
  void fill_rows(Span rows, T x) const {
    std::fill(at(rows.begin), at(rows.begin) + (rows.end - rows.begin) * stride, x);
  }
};

// The weights of every action and then the value, one plane of all structures each.
template <class T>
struct Planes {
  T* data;
  int64_t stride;
  UNBOUNDED_INLINE Vector<T> get(int plane, int64_t lane) const {
    return load(data + plane * stride + lane);
  }
  UNBOUNDED_INLINE void put(int plane, int64_t lane, Vector<T> v) const {
    store(data + plane * stride + lane, v);
  }
};

// PUSH, POP, NO-OP. Cell 0 is the top, in row `head`.
struct SuperpositionStack {
  static constexpr int basic_actions = 2;
  static int64_t head(int64_t, int64_t) { return row_margin; }
  static int64_t rows(int64_t most, int64_t depth) {
    return std::max(most, depth) + 2 * row_margin;
  }
  static int64_t grown(int64_t cells, int64_t steps, int64_t limit) {
    return limit > 0 ? std::max(cells, std::min(cells + steps, limit)) : cells + steps;
  }
  static Span existing(int64_t head, int64_t cells) { return {head, head + cells}; }
  // Cells that may still affect the read vector after `later` further steps.
  static Span reachable(int64_t head, int64_t depth, int64_t later) {
    return {head, head + depth + later};
  }
  static int64_t read_row(int64_t head, int64_t j) { return head + j; }

  // Position of lost cells, and the weight of the loss: at the bottom by PUSH.
  template <class T, class Report>
  static void lost(Span cells, const Planes<T>& in, int64_t lane, Report report) {
    report(cells.end - 1, in.get(0, lane), 1);
  }

  // s_t[0] = PUSH value + POP s[1] + NO-OP s[0];  s_t[i] = PUSH s[i-1] + POP s[i+1] + NO-OP s[i]
  template <class T, bool keeps>
  static void mix(const CellRows<T>& to, const CellRows<T>& from, Span span, int64_t head,
                  const Planes<T>& in, int64_t lane) {
    constexpr int value = basic_actions + keeps;
    const Vector<T> push = in.get(0, lane), pop = in.get(1, lane);
    const Vector<T> keep = keeps ? in.get(2, lane) : Vector<T>{};
    Vector<T> before =
        span.begin == head ? in.get(value, lane) : from.get(span.begin - 1, lane);
    Vector<T> here = from.get(span.begin, lane);
    // Local pointers: a store may alias whatever a reference points to.
    const int64_t stride = to.stride, count = span.end - span.begin;
    const T* next = from.at(span.begin + 1) + lane;
    T* out = to.at(span.begin) + lane;
    for (int64_t i = 0; i < count; ++i, next += stride, out += stride) {
      const Vector<T> after = load(next);
      Vector<T> mixed = push * before + pop * after;
      if (keeps) mixed += keep * here;
      store(out, mixed);
      before = here;
      here = after;
    }
  }

  // Maps `grad` of the new cells to that of the old ones; `out` gets those of weights and values.
  template <class T, bool keeps>
  static void unmix(const CellRows<T>& grad, const CellRows<T>& old, Span span, int64_t,
                    const Planes<T>& in, const Planes<T>& out, int64_t lane) {
    constexpr int value = basic_actions + keeps;
    const Vector<T> push = in.get(0, lane), pop = in.get(1, lane);
    const Vector<T> keep = keeps ? in.get(2, lane) : Vector<T>{};
    Vector<T> left = in.get(value, lane), middle = old.get(span.begin, lane);
    Vector<T> before{}, here = grad.get(span.begin, lane);
    Vector<T> of_push{}, of_pop{}, of_keep{};
    out.put(value, lane, push * here);
    const int64_t stride = grad.stride, count = span.end - span.begin;
    const T* next = old.at(span.begin + 1) + lane;
    T* at = grad.at(span.begin) + lane;
    for (int64_t i = 0; i < count; ++i, next += stride, at += stride) {
      const Vector<T> after = load(at + stride), right = load(next);
      of_push += here * left;
      of_pop += here * right;
      Vector<T> mixed = push * after + pop * before;
      if (keeps) {
        of_keep += here * middle;
        mixed += keep * here;
      }
      store(at, mixed);
      before = here;
      here = after;
      left = middle;
      middle = right;
    }
    grad.put(span.end, lane, pop * before);
    out.put(0, lane, of_push);
    out.put(1, lane, of_pop);
    if (keeps) out.put(2, lane, of_keep);
  }
};

// RIGHT, LEFT, INSERT, NO-OP. The cells surround the row `head`, equally many on either side.
struct SuperpositionList {
  static constexpr int basic_actions = 3;
  static int64_t head(int64_t most, int64_t depth) {
    return row_margin + std::max(most / 2, depth - 1);
  }
  static int64_t rows(int64_t most, int64_t depth) {
    return 2 * std::max(most / 2, depth - 1) + 1 + 2 * row_margin;
  }
  static int64_t grown(int64_t cells, int64_t steps, int64_t limit) {
    const int64_t side = cells / 2;
    return 2 * (limit > 0 ? std::max(side, std::min(side + steps, limit - 1)) : side + steps) + 1;
  }
  static Span existing(int64_t head, int64_t cells) {
    return {head - cells / 2, head + cells / 2 + 1};
  }
  static Span reachable(int64_t head, int64_t depth, int64_t later) {
    return {head - depth + 1 - later, head + 1 + later};
  }
  static int64_t read_row(int64_t head, int64_t j) { return head - j; }

  // At the left end by RIGHT and INSERT, at the right end by LEFT.
  template <class T, class Report>
  static void lost(Span cells, const Planes<T>& in, int64_t lane, Report report) {
    report(cells.begin, in.get(0, lane) + in.get(2, lane), 1);
    report(cells.end - 1, in.get(1, lane), 2);
  }

  // L_t[i] = RIGHT L[i+1] + LEFT L[i-1] + INSERT X[i] + NO-OP L[i];
  // X[i] = L[i+1] left of the head, the value at the head, L[i] right of it
  template <class T, bool keeps>
  static void mix(const CellRows<T>& to, const CellRows<T>& from, Span span, int64_t head,
                  const Planes<T>& in, int64_t lane) {
    constexpr int value = basic_actions + keeps;
    const Vector<T> right = in.get(0, lane), left = in.get(1, lane), insert = in.get(2, lane);
    const Vector<T> keep = keeps ? in.get(3, lane) : Vector<T>{};
    Vector<T> before = from.get(span.begin - 1, lane), here = from.get(span.begin, lane);
    const auto run = [&](Span place, Vector<T> of_after, Vector<T> of_here, Vector<T> added) {
      const Span some = common(place, span);
      const int64_t stride = to.stride, count = some.end - some.begin;
      const T* next = from.at(some.begin + 1) + lane;
      T* out = to.at(some.begin) + lane;
      for (int64_t i = 0; i < count; ++i, next += stride, out += stride) {
        const Vector<T> after = load(next);
        store(out, of_after * after + left * before + of_here * here + added);
        before = here;
        here = after;
      }
    };
    run({span.begin, head}, right + insert, keep, Vector<T>{});
    run({head, head + 1}, right, keep, insert * in.get(value, lane));
    run({std::max(span.begin, head + 1), span.end}, right, keep + insert, Vector<T>{});
  }

  template <class T, bool keeps>
  static void unmix(const CellRows<T>& grad, const CellRows<T>& old, Span span, int64_t head,
                    const Planes<T>& in, const Planes<T>& out, int64_t lane) {
    constexpr int value = basic_actions + keeps;
    const Vector<T> right = in.get(0, lane), left = in.get(1, lane), insert = in.get(2, lane);
    const Vector<T> keep = keeps ? in.get(3, lane) : Vector<T>{};
    const Vector<T> at_head = grad.get(head, lane);
    Vector<T> of_right{}, of_left{}, of_insert = at_head * in.get(value, lane), of_keep{};
    out.put(value, lane, insert * at_head);
    Vector<T> low = old.get(span.begin - 1, lane), middle = old.get(span.begin, lane);
    Vector<T> before{}, here = grad.get(span.begin, lane);
    grad.put(span.begin - 1, lane, left * here);
    // A cell's gradient from its left neighbour is the weight of that neighbour's right cell.
    const auto run = [&](Span some, Vector<T> of_before, Vector<T> of_here, auto also_inserted) {
      const int64_t stride = grad.stride, count = some.end - some.begin;
      const T* next = old.at(some.begin + 1) + lane;
      T* at = grad.at(some.begin) + lane;
      for (int64_t i = 0; i < count; ++i, next += stride, at += stride) {
        const Vector<T> after = load(at + stride), high = load(next);
        of_right += here * high;
        of_left += here * low;
        if (keeps) of_keep += here * middle;
        of_insert += also_inserted(here, middle, high);
        store(at, of_before * before + left * after + of_here * here);
        before = here;
        here = after;
        low = middle;
        middle = high;
      }
    };
    using V = Vector<T>;
    run({span.begin, head}, right + insert, keep, [](V g, V, V high) { return g * high; });
    run({head, head + 1}, right + insert, keep, [](V, V, V) { return V{}; });
    run({head + 1, span.end}, right, keep + insert, [](V g, V same, V) { return g * same; });
    // Beyond the last cell only its left neighbour contributes; at the head, the insertion.
    grad.put(span.end, lane, right * before);
    out.put(0, lane, of_right);
    out.put(1, lane, of_left);
    out.put(2, lane, of_insert);
    if (keeps) out.put(3, lane, of_keep);
  }
};

}  // namespace unbounded
