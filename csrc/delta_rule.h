// The delta rule of a DeltaNet or DeltaProduct, from the projections of its inputs to its reads.
//
// For each head: z = convolution of the last inputs of a channel, y = silu(z); q and k_j are y over
// its norm, v_j is y. Then, for the steps j of a token:
//
//   w = v_j - H^T k_j;  H <- H + k_j (b_j w)^T;      o = H^T q after the last step
//
// The forward pass keeps every w, and H after each block of tokens. The backward pass goes back from
// there: H before a step is H - k (b w)^T. So a w that is much larger than the numbers of H before its
// step costs the gradients of the steps before it digits. H and its gradient are kept transposed. A
// few heads of a sequence are one unit of work, so no result depends on the number of threads.
#pragma once

#include <atomic>
#include <cmath>
#include <type_traits>

#include "frame.h"
#include "functions.h"
#include "split.h"
#include "threads.h"
#include "workspace.h"

namespace unbounded {

constexpr int64_t delta_block = 16;  // tokens; kernels/_delta_rule.py has it too

// A square matrix, its rows and their number padded to complete registers. The padding is 0.
template <class T>
struct Square {
  int64_t size, stride;  // numbers of a row; with padding

  explicit Square(int64_t size) : size(size), stride((size + lanes<T> - 1) / lanes<T> * lanes<T>) {}

  int64_t numbers() const { return stride * stride; }

  // sums[j] += sum_i x[i] rows[i][j]
  void add_up(T* sums, const T* rows, const T* x) const {
    for_columns([&](auto count, int64_t r) UNBOUNDED_INLINED {
      add_to(sums, r, T(1), count, [&](auto& sum, int64_t i) UNBOUNDED_INLINED {
        for (int c = 0; c < count; ++c) sum[c] += fill(x[i]) * load(at(rows, i, r, c));
      });
    });
  }

  // rows[i] += x[i] y; then sums[j] += sum_i next[i] rows[i][j]
  void update(T* rows, const T* x, const T* y, const T* next, T* sums) const {
    for_columns([&](auto count, int64_t r) UNBOUNDED_INLINED {
      add_to(sums, r, T(1), count, [&](auto& sum, int64_t i) UNBOUNDED_INLINED {
        for (int c = 0; c < count; ++c) {
          const Vector<T> row = load(at(rows, i, r, c)) + fill(x[i]) * load(y + r + c * lanes<T>);
          store(at(rows, i, r, c), row);
          sum[c] += fill(next[i]) * row;
        }
      });
    });
  }

  // sums += sum_i x[i] one[i]; then other[i] += x[i] y
  void read_and_update(T* sums, const T* one, T* other, const T* x, const T* y) const {
    for_columns([&](auto count, int64_t r) UNBOUNDED_INLINED {
      add_to(sums, r, T(1), count, [&](auto& sum, int64_t i) UNBOUNDED_INLINED {
        for (int c = 0; c < count; ++c) {
          sum[c] += fill(x[i]) * load(at(one, i, r, c));
          T* row = at(other, i, r, c);
          store(row, load(row) + fill(x[i]) * load(y + r + c * lanes<T>));
        }
      });
    });
  }

  // one[i] += x[i] y;  sums -= sum_i x[i] other[i] + z[i] one[i];  then other[i] -= z[i] y
  void exchange(T* sums, T* one, T* other, const T* x, const T* z, const T* y) const {
    for_columns([&](auto count, int64_t r) UNBOUNDED_INLINED {
      add_to(sums, r, T(-1), count, [&](auto& sum, int64_t i) UNBOUNDED_INLINED {
        for (int c = 0; c < count; ++c) {
          const Vector<T> part = load(y + r + c * lanes<T>);
          const Vector<T> before = load(at(one, i, r, c)) + fill(x[i]) * part;
          const Vector<T> grad = load(at(other, i, r, c));
          store(at(one, i, r, c), before);
          sum[c] += fill(x[i]) * grad + fill(z[i]) * before;
          store(at(other, i, r, c), grad - fill(z[i]) * part);
        }
      });
    });
  }

  // dots[i] = rows[i] y
  void multiply(T* dots, const T* rows, const T* y) const {
    constexpr int n = lanes<T>;
    for (int64_t i = 0; i < stride; i += n) {
      T sums[n * n], turned[n * n];
      for (int k = 0; k < n; ++k) {
        Vector<T> sum{};
        for (int64_t r = 0; r < stride; r += n) sum += load(rows + (i + k) * stride + r) * load(y + r);
        store(sums + k * n, sum);
      }
      transpose(sums, n, turned, n);
      Vector<T> sum{};
      for (int k = 0; k < n; ++k) sum += load(turned + k * n);
      store(dots + i, sum);
    }
  }

 private:
  template <class X>
  UNBOUNDED_INLINE X* at(X* rows, int64_t i, int64_t r, int c) const {
    return rows + i * stride + r + c * lanes<T>;
  }
  // body(number of registers, first column): two registers at a time, then one.
  template <class Body>
  UNBOUNDED_INLINE void for_columns(Body body) const {
    int64_t r = 0;
    for (; r + 2 * lanes<T> <= stride; r += 2 * lanes<T>) body(std::integral_constant<int, 2>{}, r);
    if (r < stride) body(std::integral_constant<int, 1>{}, r);
  }
  // Adds up over the rows in two sums, because an addition waits for the one before it.
  template <int count, class Body>
  UNBOUNDED_INLINE void add_to(T* sums, int64_t r, T sign, std::integral_constant<int, count>,
                               Body body) const {
    Vector<T> even[count] = {}, odd[count] = {};
    int64_t i = 0;
    for (; i + 2 <= size; i += 2) {
      body(even, i);
      body(odd, i + 1);
    }
    if (i < size) body(even, i);
    for (int c = 0; c < count; ++c) {
      T* to = sums + r + c * lanes<T>;
      store(to, load(to) + fill(sign) * (even[c] + odd[c]));
    }
  }
};

// Some heads of one sequence, token by token: the inputs of a token lie together, and the matrices of
// these heads fit into the processor's first cache.
template <class T>
class DeltaHeads {
 public:
  explicit DeltaHeads(const UnboundedDelta& call)
      : c(call),
        square_(call.size),
        parts_(1 + 2 * call.steps),
        channels_(parts_ * call.heads * call.size) {}

  // The number of heads of a unit of work.
  static int64_t at_once(const UnboundedDelta& call) {
    constexpr int64_t cache = 24 << 10;
    const int64_t each = 2 * Square<T>(call.size).numbers() * int64_t(sizeof(T));
    return std::max<int64_t>(1, std::min(call.heads, cache / std::max<int64_t>(1, each)));
  }

  bool allocate(bool is_backward) {
    for (int pass = 0; pass < 2; ++pass) {
      if (pass == 1 && !space_.allocate()) return false;
      const int64_t vectors = parts_ * square_.stride, matrices = at_once(c) * square_.numbers();
      space_.take(mixed_, vectors);
      space_.take(slopes_, vectors);
      space_.take(scales_, parts_);
      space_.take(states_, matrices);
      for (T** vector : {&difference_, &change_, &read_, &sums_}) space_.take(*vector, square_.stride);
      if (!is_backward) continue;
      space_.take(grads_, vectors);
      space_.take(grad_states_, matrices);
    }
    for (T* vector : {difference_, change_, read_, sums_}) clear_values(vector, square_.stride);
    return true;
  }

  void forward(int64_t b, Share heads) {
    for_heads(b, heads, [&] { get_matrix(state_, as<T>(c.state) + matrix_at(), false); });
    for (int64_t t = 0; t < c.tokens; ++t) for_heads(b, heads, [&] { step(t); });
    for_heads(b, heads, [&] { put_matrix(as<T>(c.state_last) + matrix_at(), state_, false); });
  }

  void backward(int64_t b, Share heads) {
    for_heads(b, heads, [&] {
      if (c.grad_state_last)
        get_matrix(grad_state_, as<T>(c.grad_state_last) + matrix_at(), true);
      else
        clear_values(grad_state_, square_.numbers());
      clear_gradients();
    });
    for (int64_t t = c.tokens - 1; t >= 0; --t) for_heads(b, heads, [&] { step_back(t); });
    for_heads(b, heads, [&] { put_matrix(as<T>(c.grad_state) + matrix_at(), grad_state_, true); });
  }

 private:
  const UnboundedDelta& c;
  const Square<T> square_;
  const int64_t parts_, channels_;
  int64_t b_ = 0, head_ = 0;
  Workspace space_;
  // Of a token: q, the keys and the values; the slopes of silu; 1 over the norms.
  T *mixed_ = nullptr, *slopes_ = nullptr, *scales_ = nullptr, *grads_ = nullptr;
  T* states_ = nullptr;       // H of each head; backward its transpose
  T* grad_states_ = nullptr;  // transposed
  T *state_ = nullptr, *grad_state_ = nullptr;  // of the present head
  T *difference_ = nullptr, *change_ = nullptr, *read_ = nullptr, *sums_ = nullptr;

  template <class Body>
  void for_heads(int64_t b, Share heads, Body body) {
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      b_ = b, head_ = head;
      const int64_t place = (head - heads.begin) * square_.numbers();
      state_ = states_ + place;
      if (grad_states_) grad_state_ = grad_states_ + place;
      body();
    }
  }
  T* part(T* vectors, int64_t p) const { return vectors + p * square_.stride; }
  bool is_normed(int64_t p) const { return p <= c.steps; }
  int64_t matrix_at() const { return (b_ * c.heads + head_) * c.size * c.size; }
  int64_t difference_at(int64_t t, int64_t j) const {
    return (((b_ * c.heads + head_) * c.tokens + t) * c.steps + j) * c.size;
  }
  int64_t checkpoint_at(int64_t t) const {
    const int64_t each = c.tokens / delta_block, block = t / delta_block;
    return ((b_ * c.heads + head_) * each + block) * c.size * c.size;
  }
  int64_t read_at(int64_t t) const { return ((b_ * c.tokens + t) * c.heads + head_) * c.size; }
  int64_t strength_at(int64_t t, int64_t j) const {
    return ((b_ * c.tokens + t) * c.steps + j) * c.heads + head_;
  }
  T strength(int64_t t, int64_t j) const { return as<T>(c.strengths)[strength_at(t, j)]; }
  // The first channel of a part of this head.
  int64_t channel(int64_t p) const { return (p * c.heads + head_) * c.size; }
  // Inputs of this sequence at token t, which may be before the first.
  template <class X>
  X* inputs_at(X* projected, X* recent, int64_t t) const {
    return t >= 0 ? projected + (b_ * c.tokens + t) * channels_
                  : recent + (b_ * (c.taps - 1) + t + c.taps - 1) * channels_;
  }

  void get_matrix(T* to, const T* from, bool is_transposed) const {
    clear_values(to, square_.numbers());
    for (int64_t i = 0; i < c.size; ++i)
      for (int64_t j = 0; j < c.size; ++j)
        to[i * square_.stride + j] = is_transposed ? from[j * c.size + i] : from[i * c.size + j];
  }
  void put_matrix(T* to, const T* from, bool is_transposed) const {
    for (int64_t i = 0; i < c.size; ++i)
      for (int64_t j = 0; j < c.size; ++j)
        to[i * c.size + j] = from[is_transposed ? j * square_.stride + i : i * square_.stride + j];
  }
  void scale(T* to, const T* from, T factor) const {
    for (int64_t r = 0; r < square_.stride; r += lanes<T>) store(to + r, fill(factor) * load(from + r));
  }

  // Sets the query, the keys and the values of token t; for the backward pass also the slopes.
  void mix(int64_t t, bool with_slopes) {
    for (int64_t p = 0; p < parts_; ++p) {
      T *to = part(mixed_, p), *slope = part(slopes_, p);
      const int64_t first = channel(p);
      Vector<T> squares{};
      for (int64_t r = 0; r < c.size; r += lanes<T>) {
        const int count = int(c.size - r);
        Vector<T> z{};
        if (c.taps == 0) z = load_first(as<T>(c.projected) + (b_ * c.tokens + t) * channels_ + first + r, count);
        for (int64_t i = 0; i < c.taps; ++i) {
          const T* in = inputs_at(as<T>(c.projected), as<T>(c.recent), t - c.taps + 1 + i);
          z += load_first(in + first + r, count) *
               load_first(as<T>(c.weights) + i * channels_ + first + r, count);
        }
        const Vector<T> s = sigmoid(z), y = z * s;
        if (with_slopes) store(slope + r, s + y * (T(1) - s));
        store(to + r, y);
        squares += y * y;
      }
      if (!is_normed(p)) continue;
      scales_[p] = T(1) / std::sqrt(sum_of<T>(squares) + T(1e-6));
      scale(to, to, scales_[p]);
    }
  }

  void step(int64_t t) {
    mix(t, false);
    clear_values(sums_, square_.stride);
    square_.add_up(sums_, state_, part(mixed_, 1));
    for (int64_t j = 0; j < c.steps; ++j) {
      const T *key = part(mixed_, 1 + j), *value = part(mixed_, 1 + c.steps + j);
      for (int64_t r = 0; r < square_.stride; r += lanes<T>)
        store(difference_ + r, load(value + r) - load(sums_ + r));
      if (c.differences) copy_values(as<T>(c.differences) + difference_at(t, j), difference_, c.size);
      scale(change_, difference_, strength(t, j));
      clear_values(sums_, square_.stride);
      square_.update(state_, key, change_, part(mixed_, j + 1 < c.steps ? j + 2 : 0), sums_);
    }
    copy_values(as<T>(c.read) + read_at(t), sums_, c.size);
    if (c.checkpoints && (t + 1) % delta_block == 0)
      put_matrix(as<T>(c.checkpoints) + checkpoint_at(t), state_, false);
  }

  void step_back(int64_t t) {
    if (t + 1 == c.tokens)
      get_matrix(state_, as<T>(c.state_last) + matrix_at(), true);
    else if ((t + 1) % delta_block == 0)
      get_matrix(state_, as<T>(c.checkpoints) + checkpoint_at(t), true);
    mix(t, true);
    clear_values(grads_, parts_ * square_.stride);
    copy_values(read_, as<T>(c.grad_read) + read_at(t), c.size);
    square_.read_and_update(part(grads_, 0), state_, grad_state_, read_, part(mixed_, 0));
    for (int64_t j = c.steps - 1; j >= 0; --j) {
      const T b = strength(t, j), *key = part(mixed_, 1 + j);
      T *grad_key = part(grads_, 1 + j), *grad_value = part(grads_, 1 + c.steps + j);
      copy_values(difference_, as<T>(c.differences) + difference_at(t, j), c.size);
      scale(change_, difference_, -b);
      square_.multiply(grad_value, grad_state_, key);  // the gradient of b w
      as<T>(c.grad_strengths)[strength_at(t, j)] = dot(square_.stride, grad_value, difference_);
      scale(grad_value, grad_value, b);
      square_.exchange(grad_key, state_, grad_state_, change_, grad_value, key);
    }
    for (int64_t p = 0; p < parts_; ++p) unmix(t, p);
  }

  void clear_gradients() const {
    for (int64_t p = 0; p < parts_; ++p) {
      const int64_t first = channel(p);
      for (int64_t t = c.taps > 0 ? 1 - c.taps : 0; t < c.tokens; ++t)
        clear_values(inputs_at(as<T>(c.grad_projected), as<T>(c.grad_recent), t) + first, c.size);
      for (int64_t i = 0; i < c.taps; ++i)
        clear_values(as<T>(c.grad_weights) + (b_ * c.taps + i) * channels_ + first, c.size);
    }
  }

  // From the gradient of a part to those of the inputs and of the convolution's weights.
  void unmix(int64_t t, int64_t p) const {
    T* grad = part(grads_, p);
    const T *slope = part(slopes_, p), *mixed = part(mixed_, p);
    const int64_t first = channel(p);
    if (is_normed(p)) {
      const Vector<T> along = fill(dot(square_.stride, grad, mixed)), scale = fill(scales_[p]);
      for (int64_t r = 0; r < square_.stride; r += lanes<T>)
        store(grad + r, scale * (load(grad + r) - along * load(mixed + r)));
    }
    for (int64_t r = 0; r < c.size; r += lanes<T>) {
      const int count = int(c.size - r);
      const Vector<T> g = load(grad + r) * load(slope + r);
      if (c.taps == 0) {
        store_first(as<T>(c.grad_projected) + (b_ * c.tokens + t) * channels_ + first + r, g, count);
        continue;
      }
      for (int64_t i = 0; i < c.taps; ++i) {
        const int64_t from = t - c.taps + 1 + i;
        const T* in = inputs_at(as<T>(c.projected), as<T>(c.recent), from) + first + r;
        T* grad_in = inputs_at(as<T>(c.grad_projected), as<T>(c.grad_recent), from) + first + r;
        const T* weight = as<T>(c.weights) + i * channels_ + first + r;
        T* grad_weight = as<T>(c.grad_weights) + (b_ * c.taps + i) * channels_ + first + r;
        store_first(grad_in, load_first(grad_in, count) + g * load_first(weight, count), count);
        store_first(grad_weight, load_first(grad_weight, count) + g * load_first(in, count), count);
      }
    }
  }
};

// The heads of all sequences, in torch's threads. False without memory.
template <class T>
bool delta_rule(const UnboundedDelta& call, bool is_backward, ParallelFor parallel_for) {
  struct Work {
    const UnboundedDelta& call;
    bool is_backward;
    int64_t heads, groups;  // of a unit of work; such units of a sequence
    std::atomic<bool> ok{true};
  };
  const int64_t heads = DeltaHeads<T>::at_once(call), groups = (call.heads + heads - 1) / heads;
  Work work{call, is_backward, heads, groups};
  auto body = [](int64_t begin, int64_t end, void* context) {
    auto& work = *static_cast<Work*>(context);
    const FlushDenormals flushing;
    DeltaHeads<T> some(work.call);
    if (!some.allocate(work.is_backward)) return work.ok.store(false);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / work.groups, first = item % work.groups * work.heads;
      const Share own{first, std::min(first + work.heads, work.call.heads)};
      work.is_backward ? some.backward(b, own) : some.forward(b, own);
    }
  };
  const int64_t items = call.batch * groups;
  // A thread gets about 100 microseconds of work or more.
  const int64_t each = heads * call.tokens * (1 + 2 * call.steps) * call.size * (call.size + 16);
  const int64_t grain = std::max<int64_t>(1, 400000 / std::max<int64_t>(1, each));
  if (parallel_for == nullptr || call.threads <= 1 || items <= grain) {
    body(0, items, &work);
    return work.ok.load();
  }
  return parallel_for(0, items, grain, body, &work) == 0 && work.ok.load();
}

}  // namespace unbounded
