// Neural stack, queue and deque (Grefenstette et al. 2015) as pops, pushes and reads of live rows.
//
// Each has one or two ends with a value [M], push d, pop u and a read vector [M] each. `row_of` is
// the place in the final values of the row pushed at an end at step t, so that rows never move.
#pragma once

#include "live_rows.h"

namespace unbounded {

// One step's instruction of one batch entry, after its activations; by end.
template <class T>
struct Strengths {
  const T* pushes_and_pops;  // push, pop of end 0, push, pop of end 1
  T push(int end) const { return pushes_and_pops[2 * end]; }
  T pop(int end) const { return pushes_and_pops[2 * end + 1]; }
};

struct Stack {
  static constexpr int ends = 1;
  static constexpr End first_pop = End::top;
  static int64_t first_row(int64_t) { return 0; }
  static int64_t row_of(int, int64_t t, int64_t, int64_t initial_rows) { return initial_rows + t; }

  template <class T>
  static void step(Rows<T>& rows, Strengths<T> in, const int64_t* pushed, T* read_vector,
                   const PopRecord<T>* records) {
    rows.template pop<End::top>(in.pop(0), records[0]);     // (2)
    rows.template push<End::top>(pushed[0], in.push(0));    // (1), (2)
    rows.template read<End::top>(read_vector);                  // (3)
  }
  template <class T>
  static void backward(RowsBackward<T>& rows, Strengths<T> in, const int64_t* pushed,
                       const T* grad_read_vector, const PopRecord<T>* records, T* grad) {
    const T squeezed = rows.template read_backward<End::top>(grad_read_vector);
    if (in.push(0) <= 0)  // nearest to the end, in this read and in the next pop
      rows.grad_strengths[pushed[0]] +=
          rows.unseen(pushed[0], grad_read_vector) - squeezed + rows.carried;
    grad[0] = rows.template push_backward<End::top>(pushed[0], in.push(0));
    grad[1] =
        rows.template pop_backward<End::top>(*records[0].change, *records[0].kept);
  }
};

struct Queue {
  static constexpr int ends = 1;
  static constexpr End first_pop = End::bottom;
  static int64_t first_row(int64_t) { return 0; }
  static int64_t row_of(int, int64_t t, int64_t, int64_t initial_rows) { return initial_rows + t; }

  template <class T>
  static void step(Rows<T>& rows, Strengths<T> in, const int64_t* pushed, T* read_vector,
                   const PopRecord<T>* records) {
    rows.template pop<End::bottom>(in.pop(0), records[0]);  // (4)
    rows.template push<End::top>(pushed[0], in.push(0));    // (1), (4)
    rows.template read<End::bottom>(read_vector);               // (5)
  }
  template <class T>
  static void backward(RowsBackward<T>& rows, Strengths<T> in, const int64_t* pushed,
                       const T* grad_read_vector, const PopRecord<T>* records, T* grad) {
    rows.template read_backward<End::bottom>(grad_read_vector);
    if (in.push(0) <= 0)  // farthest from the end that is read and popped
      rows.grad_strengths[pushed[0]] += rows.unseen(pushed[0], grad_read_vector);
    grad[0] = rows.template push_backward<End::top>(pushed[0], in.push(0));
    grad[1] =
        rows.template pop_backward<End::bottom>(*records[0].change, *records[0].kept);
  }
};

// End 0 is the top, end 1 the bottom.
struct Deque {
  static constexpr int ends = 2;
  static constexpr End first_pop = End::top;
  static int64_t first_row(int64_t steps) { return steps; }
  static int64_t row_of(int end, int64_t t, int64_t steps, int64_t initial_rows) {
    return end == 0 ? steps + initial_rows + t : steps - 1 - t;
  }

  template <class T>
  static void step(Rows<T>& rows, Strengths<T> in, const int64_t* pushed, T* read_vector,
                   const PopRecord<T>* records) {
    rows.template pop<End::top>(in.pop(0), records[0]);         // (7)
    rows.template pop<End::bottom>(in.pop(1), records[1]);      // (8)
    rows.template push<End::top>(pushed[0], in.push(0));        // (6), (9)
    rows.template push<End::bottom>(pushed[1], in.push(1));     // (6), (9)
    rows.template read<End::top>(read_vector);                      // (10)
    rows.template read<End::bottom>(read_vector + rows.width);      // (11)
  }
  template <class T>
  static void backward(RowsBackward<T>& rows, Strengths<T> in, const int64_t* pushed,
                       const T* grad_read_vector, const PopRecord<T>* records, T* grad) {
    const T* grad_bottom = grad_read_vector + rows.width;
    const T squeezed_bottom = rows.template read_backward<End::bottom>(grad_bottom);
    const T squeezed_top = rows.template read_backward<End::top>(grad_read_vector);
    // The next pop of the top comes first: it removes a bottom row of strength 0 from (8).
    const T squeezed[2] = {squeezed_top - rows.carried, squeezed_bottom};
    for (int end = 0; end < 2; ++end)
      if (in.push(end) <= 0)
        rows.grad_strengths[pushed[end]] += rows.unseen(pushed[end], grad_read_vector) +
                                             rows.unseen(pushed[end], grad_bottom) -
                                             squeezed[end];
    grad[2] = rows.template push_backward<End::bottom>(pushed[1], in.push(1));
    grad[0] = rows.template push_backward<End::top>(pushed[0], in.push(0));
    grad[3] =
        rows.template pop_backward<End::bottom>(*records[1].change, *records[1].kept);
    grad[1] =
        rows.template pop_backward<End::top>(*records[0].change, *records[0].kept);
  }
};

}  // namespace unbounded
