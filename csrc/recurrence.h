// The loop over time of controller, heads and memory, forward and backward.
//
// A step has three phases: all lanes of some units, columns of the heads, batch entries of the
// memory. Divided by rows, a thread takes all columns of its batch entries. Divided by columns, it
// takes its columns of all entries, and a barrier follows each phase (split.h). No result depends
// on the number of threads, and no sum is shared between them.
#pragma once

#include <memory>

#include "calls.h"
#include "controller_backward.h"
#include "controller_forward.h"
#include "input_gradient.h"
#include "memory.h"
#include "products.h"
#include "split.h"
#include "threads.h"
#include "weight_gradients.h"
#include "workspace.h"

namespace unbounded {

template <class T>
class Recurrence final : public Session {
 public:
  template <class Controller, class Memory>
  static Recurrence* make(const UnboundedCall& call) {
    auto* recurrence = new (std::nothrow) Recurrence(call, Controller::lane_count);
    if (recurrence == nullptr) return nullptr;
    const Frame<T>& f = recurrence->f;
    recurrence->controller_.reset(new (std::nothrow) ControllerForwardOf<T, Controller>(f));
    recurrence->memory_.reset(new (std::nothrow) typename Memory::template Forward<T>(f));
    return recurrence;
  }

  // The first run packs the weights.
  bool open(ParallelFor parallel_for) {
    if (!controller_ || !memory_) return false;
    most_threads_ = threads_for(f.c, parallel_for);
    take_scratch();
    if (!space_.allocate()) return false;
    take_scratch();
    return true;
  }

  bool run(const UnboundedCall& call, ParallelFor parallel_for) override {
    f.c = call;
    if (f.c.saves) expect_results();
    auto steps = [this](int64_t thread, Team& team) {
      if (!has_begun_) {
        begin(thread, team.threads());
        team.wait();
        if (!team.keeps(thread)) return;
      }
      run_steps(thread, team);
    };
    const int64_t threads = std::min(most_threads_, threads_for(f.c, parallel_for));
    const bool ran = in_parallel(f.c, threads, parallel_for, steps);
    has_begun_ = true;
    return ran;
  }

  void finish(const UnboundedCall& call) override {
    f.c = call;
    for (int64_t b = 0; b < f.c.batch; ++b) {
      if (!has_begun_) memory_->begin(b);
      memory_->finish(b);
    }
  }

 private:
  static constexpr int panel = panel_width<T>;

  Frame<T> f;
  std::unique_ptr<ControllerForward<T>> controller_;
  std::unique_ptr<MemoryForward<T>> memory_;
  int64_t most_threads_ = 1;
  bool has_begun_ = false;
  Workspace space_;
  T* head_panels_ = nullptr;  // [head group][hidden][panel]
  T* head_starts_ = nullptr;  // [head group][panel]: the biases
  T* products_ = nullptr;     // [B][padded head count]
  T* left_ = nullptr;         // [thread]: h in tiles

  Recurrence(const UnboundedCall& call, int64_t lane_count) : f(call, lane_count) {}

  // The backward pass of a large call uses fresh memory.
  void expect_results() {
    const int64_t rows = f.c.steps * f.c.batch, H = f.c.hidden, bytes = sizeof(T);
    want_large_pages(f.c.gates, bytes * rows * f.inner());
    for (void* of_units : {f.c.outputs, f.c.cells, f.c.tanh_cells})
      want_large_pages(of_units, of_units ? bytes * rows * H : 0);
    want_large_pages(f.c.read_vectors, bytes * rows * f.c.read_vector);
  }

  void take_scratch() {
    controller_->take_scratch(space_, most_threads_);
    memory_->take_scratch(space_);
    space_.take(head_panels_, f.head_groups() * f.panel_of(f.c.hidden));
    space_.take(head_starts_, f.head_groups() * panel);
    space_.take(products_, f.c.batch * f.head_groups() * panel);
    space_.take(left_, most_threads_ * left_room());
  }

  void pack_heads(Share groups) {
    const int64_t H = f.c.hidden;
    for (int64_t g = groups.begin; g < groups.end; ++g) {
      const int64_t columns = f.head_rows - g * panel;
      pack_transposed(f.precision, head_panels_ + g * f.panel_of(H),
                      as<T>(f.c.head_weight) + g * panel * H, H, H, columns);
      clear_values(head_starts_ + g * panel, panel);
      if (f.c.head_bias)
        add_bias(head_starts_ + g * panel, as<T>(f.c.head_bias) + g * panel, columns);
    }
  }

  void begin(int64_t thread, int64_t threads) {
    controller_->pack(share_of(f.unit_groups(), thread, threads));
    pack_heads(share_of(f.head_groups(), thread, threads));
    const Share entries = share_of(f.c.batch, thread, threads);
    for (int64_t b = entries.begin; b < entries.end; ++b) memory_->begin(b);
  }

  void run_steps(int64_t thread, Team& team) {
    const bool rows = by_rows(f, team.threads());
    Portion portion = portion_of(f, thread, team.threads(), rows);
    const Share own = portion.entries;
    for (int64_t b = own.begin; b < own.end; ++b)
      if (f.length_of(b) == 0) {
        controller_->keep_state(b);
        copy_values(read_vector_last(b), as<T>(f.c.read_vector0) + b * f.c.read_vector, f.c.read_vector);
      }
    bool stays = true;
    for_passes(f, rows, own, memory_->entries_at_once(), [&](Share pass) {
      if (rows) portion.products = portion.entries = pass;
      for (int64_t t = 0; t < f.c.steps && stays; ++t) stays = run_step(t, thread, team, portion);
    });
  }

  bool run_step(int64_t t, int64_t thread, Team& team, Portion& portion) {
    const Share units = portion.of(f.unit_groups());
    const int64_t ahead = steps_at_once(portion.products);
    const Share going = going_on(f, t, portion.products);
    if (t % ahead == 0) controller_->project(t, std::min(ahead, f.c.steps - t), units, going, thread);
    controller_->step(t, units, portion.products, thread);
    if (!meet(team, thread, portion, f.c.batch)) return false;
    multiply_heads(t, portion.of(f.head_groups()), going, thread);
    if (!meet(team, thread, portion, f.c.batch)) return false;
    for (int64_t b = portion.entries.begin; b < portion.entries.end; ++b)
      step_memory(t, b);
    return meet(team, thread, portion, f.c.batch);
  }

  T* read_vector_last(int64_t b) const { return as<T>(f.c.read_vector_last) + b * f.c.read_vector; }

  void step_memory(int64_t t, int64_t b) {
    const int64_t R = f.c.read_vector;
    T* read_vector = f.read_vector_out(t) + b * R;
    if (f.c.switches.skips_memory) {
      clear_values(read_vector, R);
      return clear_values(read_vector_last(b), R);
    }
    if (t >= f.length_of(b)) {
      clear_values(read_vector, R);
      return memory_->skip(t, b);
    }
    carry_out<T>(f, *memory_, t, b, {f, products_ + b * f.head_groups() * panel, 0}, read_vector);
    if (t + 1 == f.length_of(b)) copy_values(read_vector_last(b), read_vector, R);
  }

  int64_t left_room() const { return std::min(f.c.batch, rows_at_once) * f.left_of(f.c.hidden); }

  void multiply_heads(int64_t t, Share groups, Share entries, int64_t thread) {
    const int64_t H = f.c.hidden, stride = f.head_groups() * panel;
    if (groups.count() == 0) return;
    for_chunks_in_tiles(f, entries, [&](Share chunk) {
      const T* hidden = f.hidden_at(t) + chunk.begin * H;
      const Product<T> product{{hidden, H, H},
                               {hidden, 0, 0},
                               f.head_rows,
                               head_panels_,
                               f.panel_of(H),
                               head_starts_,
                               panel,
                               products_ + chunk.begin * stride,
                               stride,
                               nullptr,
                               f.precision,
                               left_ + thread * left_room()};
      multiply(product, chunk.count(), groups, t);
    });
  }
};

template <class T>
class RecurrenceBackward {
 public:
  RecurrenceBackward(const Frame<T>& frame, ControllerBackward<T>& controller,
                     MemoryBackward<T>& memory, WeightGradients<T>& weights,
                     InputGradient<T>& input)
      : f(frame), controller_(controller), memory_(memory), weights_(weights), input_(input) {}

  bool run(ParallelFor parallel_for) {
    const int64_t threads = threads_for(f.c, parallel_for);
    take_scratch(threads);
    if (!space_.allocate()) return false;
    take_scratch(threads);
    auto steps = [this](int64_t thread, Team& team) { run_steps(thread, team); };
    return in_parallel(f.c, threads, parallel_for, steps);
  }

 private:
  const Frame<T>& f;
  ControllerBackward<T>& controller_;
  MemoryBackward<T>& memory_;
  WeightGradients<T>& weights_;
  InputGradient<T>& input_;
  Workspace space_;

  void take_scratch(int64_t threads) {
    controller_.take_scratch(space_, threads);
    memory_.take_scratch(space_);
    weights_.take_scratch(space_, threads);
    input_.take_scratch(space_, threads);
  }

  void run_steps(int64_t thread, Team& team) {
    begin(thread, team.threads());
    team.wait();
    if (!team.keeps(thread)) return;
    const bool rows = by_rows(f, team.threads());
    Portion portion = portion_of(f, thread, team.threads(), rows);
    const Share own = portion.entries;
    bool stays = true;
    for_passes(f, rows, own, memory_.entries_at_once(), [&](Share pass) {
      if (rows) portion.products = portion.entries = pass;
      for (int64_t t = f.c.steps - 1; t >= 0 && stays; --t) stays = run_step(t, thread, team, portion);
    });
    if (!stays) return;
    const Share ends = rows ? own : portion.entries;
    for (int64_t b = ends.begin; b < ends.end; ++b) {
      controller_.end(b);
      memory_.end(b);
    }
    team.wait();
    weights_.run(thread, team);
    if (team.keeps(thread)) input_.run(thread);
  }

  void begin(int64_t thread, int64_t threads) {
    controller_.pack(share_of(f.unit_groups(), thread, threads),
                     share_of(f.unit_groups() + f.read_vector_groups(), thread, threads));
    input_.pack(share_of(input_.groups(), thread, threads));
    if (thread == 0) weights_.list_rows();
    const Share entries = share_of(f.c.batch, thread, threads);
    for (int64_t b = entries.begin; b < entries.end; ++b) {
      controller_.begin(b);
      memory_.begin(b);
    }
  }

  bool run_step(int64_t t, int64_t thread, Team& team, Portion& portion) {
    for (int64_t b = portion.entries.begin; b < portion.entries.end; ++b)
      step_memory(t, b);
    if (!meet(team, thread, portion, f.c.batch)) return false;
    controller_.step(t, portion.of(f.unit_groups()), portion.products, thread);
    if (!meet(team, thread, portion, f.c.batch)) return false;
    controller_.before(t, portion.of(f.unit_groups() + f.read_vector_groups()),
                       going_on(f, t, portion.products), thread);
    return meet(team, thread, portion, f.c.batch);
  }

  void step_memory(int64_t t, int64_t b) {
    T* grad = f.grad_products_at(t) + b * f.head_rows;
    if (t >= f.length_of(b) || f.c.switches.skips_memory) return clear_values(grad, f.head_rows);
    const int64_t R = f.c.read_vector;
    T* grad_read_vector = controller_.grad_read_vector(b);
    if (t + 1 == f.length_of(b) && f.c.grad_read_vector_last)
      axpy<T>(R, 1, as<T>(f.c.grad_read_vector_last) + b * R, grad_read_vector);
    if (f.c.grad_read_vectors)
      axpy<T>(R, 1, as<T>(f.c.grad_read_vectors) + (t * f.c.batch + b) * R, grad_read_vector);
    memory_.step(t, b, grad_read_vector);
    memory_.give(t, b, {f, grad, 0});
  }
};

}  // namespace unbounded
