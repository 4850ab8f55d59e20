// The memory alone, on given pushes and pops: the same rows without controller and heads.
#pragma once

#include "call.h"
#include "frame.h"
#include "memories.h"
#include "split.h"
#include "threads.h"
#include "workspace.h"

namespace unbounded {

template <class T, class Memory>
class Unroll {
  static constexpr int parts = Memory::parts;

 public:
  explicit Unroll(const UnboundedCall& call)
      : c(call), rows_in_all(call.initial_rows + parts * call.steps) {}

  bool forward(ParallelFor parallel_for) {
    auto entries = [this](int64_t b) { forward_entry(b); };
    return for_entries(parallel_for, entries);
  }
  bool backward(ParallelFor parallel_for) {
    auto entries = [this](int64_t b) { backward_entry(b); };
    return for_entries(parallel_for, entries);
  }

 private:
  const UnboundedCall& c;
  const int64_t rows_in_all;
  Workspace space_;
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;
  T* grad_strengths_ = nullptr;

  template <class Body>
  bool for_entries(ParallelFor parallel_for, Body& body) {
    take_parts();
    if (!space_.allocate()) return false;
    take_parts();
    auto share = [&](int64_t thread, Team& team) {
      const Share mine = share_of(c.batch, thread, team.threads());
      for (int64_t b = mine.begin; b < mine.end; ++b) body(b);
    };
    return in_parallel(c, threads_for(c, parallel_for), parallel_for, share);
  }

  void take_parts() {
    space_.part(live_row_, c.batch * rows_in_all);
    space_.part(live_strength_, c.batch * rows_in_all);
    space_.part(grad_strengths_, c.batch * rows_in_all);
  }

  void locate(int64_t b, int64_t t, int64_t* pushed, PopRecord<T>* records) const {
    for (int part = 0; part < parts; ++part) {
      const int64_t at = (b * c.steps + t) * parts + part;
      pushed[part] = Memory::row_of(part, t, c.steps, c.initial_rows);
      records[part] = {c.deaths + at, as<T>(c.kept) + at};
    }
  }

  void forward_entry(int64_t b) {
    const int64_t reading_size = parts * c.width, first = Memory::first_row(c.steps);
    Rows<T> rows{};
    rows.live = {live_row_ + b * rows_in_all, live_strength_ + b * rows_in_all, first, first};
    rows.graves = {c.grave_rows + b * rows_in_all, as<T>(c.grave_strengths) + b * rows_in_all, 0};
    rows.values = as<T>(c.values) + b * rows_in_all * c.width;
    rows.width = c.width;
    rows.take_initial(first, as<T>(c.strengths0) + b * c.initial_rows, c.initial_rows);
    for (int64_t t = 0; t < c.steps; ++t) {
      int64_t pushed[parts];
      PopRecord<T> records[parts];
      locate(b, t, pushed, records);
      for (int part = 0; part < parts; ++part) *records[part].kept = 0;
      const T* push_pop = as<T>(c.instructions) + (b * c.steps + t) * 2 * parts;
      T* reading = as<T>(c.readings) + (b * c.steps + t) * reading_size;
      Memory::template step<T>(rows, Strengths<T>{push_pop}, pushed, reading, records);
    }
    rows.write_strengths(as<T>(c.strengths) + b * rows_in_all, rows_in_all);
    rows.write_range(c.live_range + 3 * b);
  }

  void backward_entry(int64_t b) {
    const int64_t reading_size = parts * c.width;
    T* grad_strengths = grad_strengths_ + b * rows_in_all;
    const T* last =
        c.grad_strengths_last ? as<T>(c.grad_strengths_last) + b * rows_in_all : nullptr;
    RowsBackward<T> rows{};
    rows.live = {live_row_ + b * rows_in_all, live_strength_ + b * rows_in_all,
                 c.live_range[3 * b], c.live_range[3 * b + 1]};
    rows.graves = {c.grave_rows + b * rows_in_all, as<T>(c.grave_strengths) + b * rows_in_all,
                   c.live_range[3 * b + 2]};
    rows.values = as<T>(c.values) + b * rows_in_all * c.width;
    rows.width = c.width;
    rows.grad_values = as<T>(c.grad_values) + b * rows_in_all * c.width;
    rows.grad_strengths = grad_strengths;
    rows.restore(as<T>(c.strengths) + b * rows_in_all, last, rows_in_all);
    if (last && c.steps > 0)
      for (int part = 0; part < parts; ++part) {
        const int64_t row = Memory::row_of(part, c.steps - 1, c.steps, c.initial_rows);
        grad_strengths[row] = last[row];
      }
    for (int64_t t = c.steps - 1; t >= 0; --t) {
      int64_t pushed[parts];
      PopRecord<T> records[parts];
      locate(b, t, pushed, records);
      const T* push_pop = as<T>(c.instructions) + (b * c.steps + t) * 2 * parts;
      const T* grad_reading = as<T>(c.grad_outputs) + (b * c.steps + t) * reading_size;
      Memory::template backward<T>(rows, Strengths<T>{push_pop}, pushed, grad_reading, records,
                                   as<T>(c.grad_instructions) +
                                       (b * c.steps + t) * 2 * parts);
    }
    if (c.steps > 0)
      rows.template unseen_initial<Memory::first_pop>(
          Memory::first_row(c.steps), c.initial_rows,
          as<T>(c.strengths0) + b * c.initial_rows);
    T* grad0 = as<T>(c.grad_strengths0) + b * c.initial_rows;
    const int64_t first = Memory::first_row(c.steps);
    const T* from = c.steps == 0 && last ? last : grad_strengths;
    for (int64_t i = 0; i < c.initial_rows; ++i) grad0[i] = from[first + i];
  }
};

}  // namespace unbounded
