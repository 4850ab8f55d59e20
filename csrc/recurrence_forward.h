// The forward pass: controller, heads, memory.
//
// A session packs the weights once and keeps the live rows; it can be run for any number of steps at
// a time, so that generating token by token costs no more a step than a whole sequence does.
//
// Three phases a step with a barrier after each: every thread owns all lanes of its units, then its
// columns of the heads, then its batch entries of the memory.
#pragma once

#include <cstring>

#include "call.h"
#include "controllers.h"
#include "memories.h"
#include "panel.h"
#include "session.h"
#include "threads.h"
#include "workspace.h"

namespace unbounded {

template <class T, class Controller, class Memory>
class RecurrenceForward : public Session {
  static constexpr int panel = panel_width<T>;
  static constexpr int lane_count = Controller::lane_count;
  static constexpr int parts = Memory::parts;

 public:
  explicit RecurrenceForward(const UnboundedCall& call)
      : c(call),
        reading_size(parts * call.width),
        head_count(parts * (call.width + 2)),
        unit_groups(padded<T>(call.hidden) / panel),
        head_groups(padded<T>(head_count) / panel),
        rows_in_all(call.initial_rows + parts * call.capacity),
        inner(reading_size + call.hidden) {}

  bool open(ParallelFor parallel_for) {
    threads_ = most_threads_ = threads_for(c, parallel_for);
    take_parts();
    if (!space_.allocate()) return false;
    take_parts();
    auto begin = [this](int64_t thread) {
      pack(share_of(unit_groups, thread, threads_), share_of(head_groups, thread, threads_));
      const Share entries = share_of(c.batch, thread, threads_);
      for (int64_t b = entries.begin; b < entries.end; ++b) begin_entry(b);
    };
    return in_parallel(threads_, parallel_for, threads_, begin);
  }

  // Runs call.steps steps from the state in hidden0, cell0 and reading0 to that in *_last.
  bool run(const UnboundedCall& call, ParallelFor parallel_for) override {
    c = call;
    auto steps = [this](int64_t thread) { run_steps(thread); };
    return in_parallel(std::min(most_threads_, threads_for(c, parallel_for)), parallel_for,
                       threads_, steps);
  }

  void finish(const UnboundedCall& call) override {
    c = call;
    for (int64_t b = 0; b < c.batch; ++b) end_entry(b);
  }

 private:
  UnboundedCall c;
  const int64_t reading_size, head_count, unit_groups, head_groups, rows_in_all, inner;
  int64_t threads_ = 1, most_threads_ = 1;
  Barrier barrier_;
  Workspace space_;
  T* gate_panels_ = nullptr;   // [unit group][lane][reading then hidden][panel]
  T* head_panels_ = nullptr;   // [head group][hidden][panel]
  T* tiles_ = nullptr;         // [thread][lane][row][panel]
  T* instructions_ = nullptr;  // [B][padded head count], before the activations
  Rows<T>* rows_ = nullptr;    // [B]
  int32_t* live_row_ = nullptr;
  T* live_strength_ = nullptr;

  template <class X>
  static X* as(void* p) {
    return static_cast<X*>(p);
  }
  template <class X>
  static const X* as(const void* p) {
    return static_cast<const X*>(p);
  }

  void take_parts() {
    space_.part(gate_panels_, unit_groups * lane_count * inner * panel);
    space_.part(head_panels_, head_groups * c.hidden * panel);
    space_.part(tiles_, threads_ * lane_count * UNBOUNDED_MAX_ROWS * panel);
    space_.part(instructions_, c.batch * head_groups * panel);
    space_.part(rows_, c.batch);
    space_.part(live_row_, c.batch * rows_in_all);
    space_.part(live_strength_, c.batch * rows_in_all);
  }

  int64_t length_of(int64_t b) const { return c.lengths ? c.lengths[b] : c.steps; }
  int64_t ring(int64_t t) const { return c.saves ? t : t & 1; }
  T* cell_at(int64_t t) const { return as<T>(c.cells) + ring(t) * c.batch * c.hidden; }
  T* reading_at(int64_t t) const { return as<T>(c.readings) + ring(t) * c.batch * reading_size; }

  void run_steps(int64_t thread) {
    const Share units = share_of(unit_groups, thread, threads_);
    const Share heads = share_of(head_groups, thread, threads_);
    const Share entries = share_of(c.batch, thread, threads_);
    for (int64_t b = entries.begin; b < entries.end; ++b)
      if (length_of(b) == 0) keep_state(b);
    T* tile = tiles_ + thread * lane_count * UNBOUNDED_MAX_ROWS * panel;
    for (int64_t t = 0; t < c.steps; ++t) {
      sweep(units, t, [&](int64_t g) { controller_step(t, g, tile); });
      barrier_.wait(threads_);
      sweep(heads, t, [&](int64_t g) { head_step(t, g); });
      barrier_.wait(threads_);
      for (int64_t b = entries.begin; b < entries.end; ++b) memory_step(t, b);
      barrier_.wait(threads_);
    }
  }

  void pack(Share units, Share heads) {
    for (int64_t g = units.begin; g < units.end; ++g)
      for (int lane = 0; lane < lane_count; ++lane) {
        T* to = gate_panels_ + (g * lane_count + lane) * inner * panel;
        const int64_t columns = c.hidden - g * panel;
        const int of_reading = reading_block<Controller>(lane);
        const int of_hidden = hidden_block<Controller>(lane);
        if (of_reading >= 0) {
          const int64_t first = of_reading * c.hidden + g * panel;
          pack_transposed(to, as<T>(c.weight_ih) + first * c.weight_ih_stride,
                          c.weight_ih_stride, reading_size, columns);
          to += reading_size * panel;
        }
        if (of_hidden >= 0 && c.weight_hh)
          pack_transposed(to, as<T>(c.weight_hh) + (of_hidden * c.hidden + g * panel) * c.hidden,
                          c.hidden, c.hidden, columns);
      }
    for (int64_t g = heads.begin; g < heads.end; ++g)
      pack_transposed(head_panels_ + g * c.hidden * panel,
                      as<T>(c.head_weight) + g * panel * c.hidden, c.hidden, c.hidden,
                      head_count - g * panel);
  }

  void begin_entry(int64_t b) {
    Rows<T>& rows = rows_[b];
    rows = Rows<T>{};
    rows.live.row = live_row_ + b * rows_in_all;
    rows.live.strength = live_strength_ + b * rows_in_all;
    const int64_t first = Memory::first_row(c.capacity);
    rows.live.low = rows.live.high = first;
    rows.graves.row = c.grave_rows + b * rows_in_all;
    rows.graves.strength = as<T>(c.grave_strengths) + b * rows_in_all;
    rows.values = as<T>(c.values) + b * rows_in_all * c.width;
    rows.width = c.width;
    const T* strengths0 = as<T>(c.strengths0) + b * c.initial_rows;
    for (int64_t i = 0; i < c.initial_rows; ++i)
      rows.template push<End::top>(first + i, strengths0[i]);
  }

  void keep_state(int64_t b) {
    const int64_t H = c.hidden;
    std::memcpy(as<T>(c.hidden_last) + b * H, as<T>(c.hidden0) + b * H, sizeof(T) * H);
    if (Controller::has_cell)
      std::memcpy(as<T>(c.cell_last) + b * H, as<T>(c.cell0) + b * H, sizeof(T) * H);
    std::memcpy(as<T>(c.reading_last) + b * reading_size, as<T>(c.reading0) + b * reading_size,
                sizeof(T) * reading_size);
  }

  void controller_step(int64_t t, int64_t group, T* tile) {
    const int64_t H = c.hidden, first = group * panel;
    const int width = int(std::min<int64_t>(panel, H - first));
    const T* readings = t > 0 ? reading_at(t - 1) : as<T>(c.reading0);
    const T* before = t > 0 ? as<T>(c.outputs) + (t - 1) * c.batch * H : as<T>(c.hidden0);
    const T* cells_before = t > 0 ? cell_at(t - 1) : as<T>(c.cell0);
    T* gates = as<T>(c.gates) + t * c.batch * lane_count * H;
    T* outputs = as<T>(c.outputs) + t * c.batch * H;
    T* cells = cell_at(t);
    T* tanh_cells = as<T>(c.tanh_cells) + (c.saves ? t * c.batch * H : 0);
    constexpr int64_t tile_stride = UNBOUNDED_MAX_ROWS * panel;
    for_row_blocks(c.batch, [&](int64_t b0, int rows) {
      for (int lane = 0; lane < lane_count; ++lane) {
        const bool of_reading = reading_block<Controller>(lane) >= 0;
        const bool of_hidden = hidden_block<Controller>(lane) >= 0 && c.weight_hh;
        panel_product(rows,
                      Segment<T>{readings + b0 * reading_size, reading_size,
                                 of_reading ? reading_size : 0},
                      Segment<T>{before + b0 * H, H, of_hidden ? H : 0},
                      gate_panels_ + (group * lane_count + lane) * inner * panel,
                      tile + lane * tile_stride, panel);
      }
      for (int r = 0; r < rows; ++r) {
        const int64_t b = b0 + r, at = b * H + first;
        T* out = outputs + at;
        if (t >= length_of(b)) {
          for (int u = 0; u < width; ++u) out[u] = 0;
          continue;
        }
        Controller::forward(UnitsForward<T>{tile + r * panel, tile_stride, H,
                                            gates + b * lane_count * H + first, before + at,
                                            cells_before + at, cells + at, tanh_cells + at, out,
                                            width, c.saves != 0});
        if (t + 1 == length_of(b)) {
          std::memcpy(as<T>(c.hidden_last) + at, out, sizeof(T) * width);
          if (Controller::has_cell)
            std::memcpy(as<T>(c.cell_last) + at, cells + at, sizeof(T) * width);
        }
      }
    });
  }

  void head_step(int64_t t, int64_t group) {
    const int64_t H = c.hidden, stride = head_groups * panel;
    const T* outputs = as<T>(c.outputs) + t * c.batch * H;
    for_row_blocks(c.batch, [&](int64_t b0, int rows) {
      panel_product(rows, Segment<T>{outputs + b0 * H, H, H}, Segment<T>{outputs, 0, 0},
                    head_panels_ + group * H * panel, instructions_ + b0 * stride + group * panel,
                    stride);
    });
  }

  void memory_step(int64_t t, int64_t b) {
    T* reading = reading_at(t) + b * reading_size;
    int32_t unsaved_deaths[parts];
    T unsaved_kept[parts];
    int32_t* deaths = c.saves ? c.deaths + (b * c.steps + t) * parts : unsaved_deaths;
    T* kept = c.saves ? as<T>(c.kept) + (b * c.steps + t) * parts : unsaved_kept;
    T* push_pop = as<T>(c.instructions) + ((c.saves ? t : 0) * c.batch + b) * 2 * parts;
    Rows<T>& rows = rows_[b];
    int64_t pushed[parts];
    for (int part = 0; part < parts; ++part)
      pushed[part] = Memory::row_of(part, c.first_step + t, c.capacity, c.initial_rows);
    if (t >= length_of(b)) {
      for (int64_t i = 0; i < reading_size; ++i) reading[i] = 0;
      for (int part = 0; part < parts; ++part) {
        std::memset(rows.values + pushed[part] * c.width, 0, sizeof(T) * c.width);
        deaths[part] = 0;
        kept[part] = 0;
        push_pop[2 * part] = push_pop[2 * part + 1] = 0;
      }
      return;
    }
    const T* raw = instructions_ + b * head_groups * panel;
    const T* bias = as<T>(c.head_bias);
    PopRecord<T> records[parts];
    for (int part = 0; part < parts; ++part, raw += c.width + 2, bias += c.width + 2) {
      T* value = rows.values + pushed[part] * c.width;
      for (int64_t m = 0; m < c.width; m += lanes<T>) {
        const int n = int(std::min<int64_t>(lanes<T>, c.width - m));
        store_first<T>(value + m,
                       hyperbolic_tangent(load_first(raw + m, n) + load_first(bias + m, n)), n);
      }
      const Vector<T> both =
          sigmoid(load_first(raw + c.width, 2) + load_first(bias + c.width, 2));
      push_pop[2 * part] = both[0];
      push_pop[2 * part + 1] = both[1];
      kept[part] = 0;
      records[part] = {deaths + part, kept + part};
    }
    Memory::template step<T>(rows, Strengths<T>{push_pop}, pushed, reading, records);
    if (t + 1 == length_of(b))
      std::memcpy(as<T>(c.reading_last) + b * reading_size, reading, sizeof(T) * reading_size);
  }

  void end_entry(int64_t b) {
    const Rows<T>& rows = rows_[b];
    T* strengths = as<T>(c.strengths) + b * rows_in_all;
    for (int64_t i = 0; i < rows_in_all; ++i) strengths[i] = 0;
    for (int64_t at = rows.live.low; at < rows.live.high; ++at)
      strengths[rows.live.row[at]] = rows.live.strength[at];
    if (length_of(b) == 0 && c.first_step == 0) {
      // Nothing happened: what came in leaves as it was, whatever its sign.
      const T* strengths0 = as<T>(c.strengths0) + b * c.initial_rows;
      for (int64_t i = 0; i < c.initial_rows; ++i)
        strengths[Memory::first_row(c.capacity) + i] = strengths0[i];
    }
    c.live_range[3 * b] = int32_t(rows.live.low);
    c.live_range[3 * b + 1] = int32_t(rows.live.high);
    c.live_range[3 * b + 2] = int32_t(rows.graves.count);
  }
};

}  // namespace unbounded
