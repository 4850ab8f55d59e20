// The loop over time that joins a controller, the heads and a memory, forward and backward.
//
// Three phases a step: all lanes of some units, columns of the heads, batch entries of the memory.
// Divided by rows a thread takes all columns of its batch entries; divided by columns it takes its
// columns of all entries, and a barrier follows each phase (split.h). No result depends on how many
// threads there are, and no sum is shared between them.
#pragma once

#include <memory>

#include "controller_backward.h"
#include "controller_forward.h"
#include "memory_part.h"
#include "split.h"
#include "threads.h"
#include "weight_gradients.h"
#include "workspace.h"

namespace unbounded {

// A forward pass that can be continued: it packs the weights once and keeps the live rows, so that
// generating token by token costs no more a step than a whole sequence does.
class Session {
 public:
  virtual ~Session() = default;
  // Runs call.steps steps from the state in hidden0, cell0 and reading0 to that in *_last.
  virtual bool run(const UnboundedCall& call, ParallelFor parallel_for) = 0;
  // Writes the strengths and what the backward pass needs of the live rows.
  virtual void finish(const UnboundedCall& call) = 0;
};

template <class T>
class Recurrence final : public Session {
 public:
  template <class Controller, class Memory>
  static Recurrence* make(const UnboundedCall& call) {
    auto* made =
        new (std::nothrow) Recurrence(call, SizesOf<Memory>::of(call), Controller::lane_count);
    if (made == nullptr) return nullptr;
    made->controller_.reset(new (std::nothrow) ControllerForwardOf<T, Controller>(made->f));
    made->memory_.reset(new (std::nothrow) MemoryForwardOf<T, Memory>(made->f));
    return made;
  }

  bool open(ParallelFor parallel_for) {
    if (!controller_ || !memory_) return false;
    threads_ = most_threads_ = threads_for(f.c, parallel_for);
    take_parts();
    if (!space_.allocate()) return false;
    take_parts();
    auto begin = [this](int64_t thread) {
      controller_->pack(share_of(f.unit_groups(), thread, threads_));
      pack_heads(share_of(f.head_groups(), thread, threads_));
      const Share entries = share_of(f.c.batch, thread, threads_);
      for (int64_t b = entries.begin; b < entries.end; ++b) memory_->begin(b);
    };
    return in_parallel(threads_, parallel_for, threads_, begin);
  }

  bool run(const UnboundedCall& call, ParallelFor parallel_for) override {
    f.c = call;
    auto steps = [this](int64_t thread) { run_steps(thread); };
    return in_parallel(std::min(most_threads_, threads_for(f.c, parallel_for)), parallel_for,
                       threads_, steps);
  }

  void finish(const UnboundedCall& call) override {
    f.c = call;
    for (int64_t b = 0; b < f.c.batch; ++b) memory_->finish(b);
  }

 private:
  static constexpr int panel = panel_width<T>;

  Frame<T> f;
  std::unique_ptr<ControllerForward<T>> controller_;
  std::unique_ptr<MemoryForward<T>> memory_;
  int64_t threads_ = 1, most_threads_ = 1;
  Barrier barrier_;
  Workspace space_;
  T* head_panels_ = nullptr;  // [head group][hidden][panel]
  T* head_starts_ = nullptr;  // [head group][panel]: the biases
  T* products_ = nullptr;     // [B][padded head count]

  Recurrence(const UnboundedCall& call, MemorySizes memory, int64_t lane_count)
      : f(call, memory, lane_count) {}

  void take_parts() {
    controller_->take_parts(space_, most_threads_);
    memory_->take_parts(space_);
    space_.part(head_panels_, f.head_groups() * f.c.hidden * panel);
    space_.part(head_starts_, f.head_groups() * panel);
    space_.part(products_, f.c.batch * f.head_groups() * panel);
  }

  void pack_heads(Share groups) {
    const int64_t H = f.c.hidden;
    for (int64_t g = groups.begin; g < groups.end; ++g) {
      const int64_t columns = f.head_count() - g * panel;
      pack_transposed(head_panels_ + g * H * panel, as<T>(f.c.head_weight) + g * panel * H, H, H,
                      columns);
      clear_values(head_starts_ + g * panel, panel);
      if (f.c.head_bias)
        add_bias(head_starts_ + g * panel, as<T>(f.c.head_bias) + g * panel, columns);
    }
  }

  void run_steps(int64_t thread) {
    const bool rows = by_rows(f, threads_);
    const int64_t sharing = rows ? 1 : threads_;  // threads between which the columns are shared
    const int64_t place = rows ? 0 : thread;
    const Share units = share_of(f.unit_groups(), place, sharing);
    const Share heads = share_of(f.head_groups(), place, sharing);
    const Share entries = share_of(f.c.batch, thread, threads_);
    for (int64_t b = entries.begin; b < entries.end; ++b)
      if (f.length_of(b) == 0) {
        controller_->keep_state(b);
        memory_->keep_state(b);
      }
    for_passes(f, rows, entries, [&](Share pass) {
      const Share products = rows ? pass : Share{0, f.c.batch};
      for (int64_t t = 0; t < f.c.steps; ++t) {
        controller_->step(t, units, products, thread);
        barrier_.wait(sharing);
        sweep(heads, t, [&](int64_t g) { head_step(t, g, heads, products); });
        barrier_.wait(sharing);
        for (int64_t b = pass.begin; b < pass.end; ++b)
          if (f.c.skips_memory)
            read_nothing(t, b);
          else
            memory_->step(t, b, products_ + b * f.head_groups() * panel);
        barrier_.wait(sharing);
      }
    });
  }

  void read_nothing(int64_t t, int64_t b) {
    const int64_t R = f.reading_size();
    clear_values(const_cast<T*>(f.reading_at(t)) + b * R, R);
    clear_values(as<T>(f.c.reading_last) + b * R, R);
  }

  void head_step(int64_t t, int64_t group, Share groups, Share entries) {
    const int64_t H = f.c.hidden, stride = f.head_groups() * panel;
    const T* hidden = f.hidden_at(t);
    for_row_blocks(entries.begin, entries.count(), [&](int64_t b0, int rows) {
      panel_product(rows, Segment<T>{hidden + b0 * H, H, H}, Segment<T>{hidden, 0, 0},
                    head_starts_ + group * panel, head_panels_ + group * H * panel,
                    head_panels_ + after_in_sweep(group, groups, t) * H * panel,
                    products_ + b0 * stride + group * panel, stride);
    });
  }
};

// The gradient of x is a large product of grad_gates with weights, and is left to the caller.
template <class T>
class RecurrenceBackward {
 public:
  RecurrenceBackward(const Frame<T>& frame, ControllerBackward<T>& controller,
                     MemoryBackward<T>& memory, WeightGradients<T>& weights)
      : f(frame), controller_(controller), memory_(memory), weights_(weights) {}

  bool run(ParallelFor parallel_for) {
    threads_ = threads_for(f.c, parallel_for);
    const int64_t most = threads_;
    take_parts(most);
    if (!space_.allocate()) return false;
    take_parts(most);
    auto steps = [this](int64_t thread) { run_steps(thread); };
    return in_parallel(most, parallel_for, threads_, steps);
  }

 private:
  const Frame<T>& f;
  ControllerBackward<T>& controller_;
  MemoryBackward<T>& memory_;
  WeightGradients<T>& weights_;
  int64_t threads_ = 1;
  Barrier barrier_;
  Workspace space_;

  void take_parts(int64_t most) {
    controller_.take_parts(space_, most);
    memory_.take_parts(space_);
    weights_.take_parts(space_, most);
  }

  void run_steps(int64_t thread) {
    const bool rows = by_rows(f, threads_);
    const int64_t sharing = rows ? 1 : threads_, place = rows ? 0 : thread;
    const int64_t all_columns = f.unit_groups() + f.reading_groups();
    const Share units = share_of(f.unit_groups(), place, sharing);
    const Share columns = share_of(all_columns, place, sharing);
    const Share entries = share_of(f.c.batch, thread, threads_);
    controller_.pack(share_of(f.unit_groups(), thread, threads_),
                     share_of(all_columns, thread, threads_));
    for (int64_t b = entries.begin; b < entries.end; ++b) {
      controller_.begin(b);
      memory_.begin(b);
    }
    barrier_.wait(threads_);
    for_passes(f, rows, entries, [&](Share pass) {
      const Share products = rows ? pass : Share{0, f.c.batch};
      for (int64_t t = f.c.steps - 1; t >= 0; --t) {
        for (int64_t b = pass.begin; b < pass.end; ++b)
          if (f.c.skips_memory)
            clear_values(f.grad_instructions_at(t) + b * f.head_count(), f.head_count());
          else
            memory_.step(t, b, controller_.grad_reading(b));
        barrier_.wait(sharing);
        controller_.step(t, units, products, thread);
        barrier_.wait(sharing);
        controller_.before(t, columns, products);
        barrier_.wait(sharing);
      }
    });
    for (int64_t b = entries.begin; b < entries.end; ++b) {
      controller_.end(b);
      memory_.end(b);
    }
    barrier_.wait(threads_);
    weights_.run(thread, threads_, barrier_);
  }
};

}  // namespace unbounded
