// The nondeterministic stack of DuSell & Chiang: sums over all runs of a pushdown automaton.
//
// Options: states Q, symbols S, width W, window (0 for none), normalized. Heads: action [Q, S, 2 Q S
// + Q], value [W]. State: runs [N, N, Q, S, Q, S, 1 + W] and weights [N, Q, S] as logs, start [N],
// bottom [W]. Saved: instructions [T, B, K].
//
// The reference sums logs. Here sums are plain sums of doubles, each block of which has a power of
// two: an element of a block may be 2^-1000 of its greatest one before it is lost. The backward
// pass repeats the forward pass, whose tables would be too large to keep in single precision.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "memory.h"
#include "vector.h"

namespace unbounded {

using Reals = Vector<double>;
typedef int64_t Integers __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));

UNBOUNDED_INLINE Integers load_integers(const int64_t* from) {
  Integers v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
UNBOUNDED_INLINE void store_integers(int64_t* to, Integers v) { __builtin_memcpy(to, &v, sizeof v); }
UNBOUNDED_INLINE Integers chosen_integers(Integers where, Integers yes, Integers no) {
  return (yes & where) | (no & ~where);
}
UNBOUNDED_INLINE Integers greater(Integers a, Integers b) { return chosen_integers(a > b, a, b); }
UNBOUNDED_INLINE Reals greater(Reals a, Reals b) {
  return (Reals)chosen_integers((Integers)(a > b), (Integers)a, (Integers)b);
}
inline int64_t greatest(Integers v) {
  int64_t most = v[0];
  for (int k = 1; k < lanes<double>; ++k) most = std::max<int64_t>(most, v[k]);
  return most;
}

// The exponent of an empty block.
constexpr int64_t no_scale = -(int64_t(1) << 40);

// 2^e; 0 below the range of the scales.
UNBOUNDED_INLINE Reals powers_of_two(Integers e) {
  const Integers low = e < -1000, high = e > 1000;
  e = chosen_integers(high, Integers{} + 1000, e);
  return (Reals)(((e + 1023) << 52) & ~low);
}
inline double power_of_two(int64_t e) { return powers_of_two(Integers{} + e)[0]; }

// Divides `count` registers by the power of two of the greatest number of each lane, and returns
// the exponents.
inline Integers take_scales(double* x, int64_t count, int64_t stride) {
  Reals most{};
  for (int64_t i = 0; i < count; ++i) most = greater(load(x + i * stride), most);
  const Integers e = ((Integers)most >> 52) - 1023, empty = e < -1000;
  const Reals factor = (Reals)((Integers)powers_of_two(-e) & ~empty);
  for (int64_t i = 0; i < count; ++i) store(x + i * stride, load(x + i * stride) * factor);
  return chosen_integers(empty, Integers{} + no_scale, e);
}

// Numbers from their logs, with a common power of two.
template <class T>
int64_t from_logs(double* to, const T* logs, int64_t count, int64_t stride = 1) {
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) most = std::max(most, double(logs[i]));
  const bool is_empty = !(most > -std::numeric_limits<double>::infinity());
  const double e = is_empty ? 0 : std::floor(most / M_LN2);
  for (int64_t i = 0; i < count; ++i) to[i * stride] = std::exp(double(logs[i]) - e * M_LN2);
  return is_empty ? no_scale : int64_t(e);
}

inline double log_of(double x, int64_t scale) {
  return x > 0 ? std::log(x) + double(scale) * M_LN2 : -std::numeric_limits<double>::infinity();
}

// Bytes of tables that stay in a second-level cache.
constexpr int64_t near_cache = 1 << 20;

// The layout of one sequence's tables. Times n count the rows of the state; a pair (i, n) is a push
// between i and i + 1 whose place is on top at n. The states and tops (q, x) at the push are the
// lanes of registers, of which there are `wide` in all.
template <class T>
struct RunsLayout {
  static constexpr int L = lanes<double>;

  const Frame<T>& f;
  const int64_t Q, S, W, tops, channels, moves, wide, part, block, instruction, rows, window;

  explicit RunsLayout(const Frame<T>& frame)
      : f(frame),
        Q(f.c.options[0]),
        S(f.c.options[1]),
        W(f.c.options[2]),
        tops(Q * S),
        channels(1 + W),
        moves(2 * tops + Q),
        wide((tops + L - 1) / L * L),
        part(tops * channels),
        block(part * wide),
        instruction(tops * moves + W),
        rows(f.c.rows + f.c.room),
        window(f.c.options[3] > 0 ? f.c.options[3] : std::max<int64_t>(rows, 1)) {}

  int64_t first(int64_t n) const { return std::max<int64_t>(0, n - window); }
  // The number of pairs before those of n.
  int64_t before(int64_t n) const {
    const int64_t grown = std::min(n, window + 1);
    return grown * (grown - 1) / 2 + std::max<int64_t>(0, n - window - 1) * window;
  }
  int64_t pair(int64_t i, int64_t n) const { return before(n) + i - first(n); }
  int64_t pairs() const { return before(rows); }
  int64_t kept(int64_t own) const { return f.c.options[3] > 0 ? std::min(own, window) : own; }
  // The most times in a window.
  int64_t times() const { return std::min(rows, window) + 1; }
  // With `tables` tables of all pairs for each entry.
  int64_t entries_at_once(int64_t tables) const {
    const int64_t most = near_cache / std::max<int64_t>(1, tables * pairs() * block * sizeof(double));
    return std::clamp<int64_t>(most, 1, UNBOUNDED_MAX_ROWS);
  }
  bool is_normalized() const { return f.c.options[4] != 0; }
  const T* saved(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * instruction;
  }
};

// Calls body(begin, size) for ranges of 0..count of a size that the compiler knows.
template <class Body>
UNBOUNDED_INLINE void for_some(int64_t count, Body body) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) body(r, std::integral_constant<int, 4>{});
  if (count - r == 3) body(r, std::integral_constant<int, 3>{});
  if (count - r == 2) body(r, std::integral_constant<int, 2>{});
  if (count - r == 1) body(r, std::integral_constant<int, 1>{});
}

// The tables of one sequence, and its steps.
template <class T>
struct Runs {
  static constexpr int L = lanes<double>;

  const RunsLayout<T>* at;
  double* sums;            // [pair][r, y][channel][q, x], over 2^scale
  int64_t* scales;         // [pair][q, x]
  double* weights;         // [n][r, y], over 2^weight_scale
  int64_t* weight_scales;  // [n]
  bool* is_start;          // [n]
  double* bottom;          // [W]
  double* pushes;          // [r, y][q, x], over 2^move_scale, as the others
  double* others;          // [s, z][replace r, y | pop r]
  double* value;           // [1 + W]: 1 and the pushed vector
  double* popped;          // [k - first][r][u, y], over 2^pop_scale
  int64_t* pop_scales;     // [k - first]
  double* shares;          // [k - first][a register]
  double* top;             // [r, y][channel]
  int64_t move_scale;
  int64_t count;           // rows so far

  // The two passes of a workspace take the same shares; the first has nowhere to write.
  static void take(Workspace& space, const RunsLayout<T>& at, Runs* all) {
    Runs none;
    for (int64_t b = 0; b < at.f.c.batch; ++b) {
      Runs& own = all ? all[b] : none;
      space.take(own.sums, at.pairs() * at.block);
      space.take(own.scales, at.pairs() * at.wide);
      space.take(own.weights, at.rows * at.wide);
      space.take(own.weight_scales, at.rows);
      space.take(own.is_start, at.rows);
      space.take(own.bottom, at.W);
      space.take(own.pushes, at.tops * at.wide);
      space.take(own.others, at.tops * at.moves);
      space.take(own.value, at.channels);
      space.take(own.popped, at.times() * at.Q * at.wide);
      space.take(own.pop_scales, at.times());
      space.take(own.shares, at.times() * L);
      space.take(own.top, at.part * L);
    }
  }

  double* block(int64_t i, int64_t n) const { return sums + at->pair(i, n) * at->block; }
  int64_t* scale(int64_t i, int64_t n) const { return scales + at->pair(i, n) * at->wide; }
  double replacement(int64_t sz, int64_t ry) const { return others[sz * at->moves + ry]; }
  double pop(int64_t sz, int64_t r) const { return others[sz * at->moves + at->tops + r]; }

  void begin(int64_t b) {
    const RunsLayout<T>& l = *at;
    const UnboundedCall& c = l.f.c;
    const int64_t N = c.rows;
    const T *runs0 = as<T>(c.state0[0]) + b * N * N * l.tops * l.part;
    const T *weights0 = as<T>(c.state0[1]) + b * N * l.tops;
    clear_values(weights, l.rows * l.wide);
    clear_values(pushes, l.tops * l.wide);
    clear_values(popped, l.times() * l.Q * l.wide);
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t i = l.first(n); i < n; ++i) {
        clear_values(block(i, n), l.block);
        std::fill(scale(i, n), scale(i, n) + l.wide, no_scale);
        for (int64_t qx = 0; qx < l.tops; ++qx)
          scale(i, n)[qx] = from_logs(block(i, n) + qx, runs0 + ((i * N + n) * l.tops + qx) * l.part,
                                      l.part, l.wide);
      }
      weight_scales[n] = from_logs(weights + n * l.wide, weights0 + n * l.tops, l.tops);
      is_start[n] = as<T>(c.state0[2])[b * N + n] > 0;
    }
    for (int64_t m = 0; m < l.W; ++m)
      bottom[m] = 1 / (1 + std::exp(-double(as<T>(c.state0[3])[b * l.W + m])));
    count = N;
  }

  // The weights of the transitions and the vector of an instruction.
  void tell(const T* given) {
    const RunsLayout<T>& l = *at;
    const int64_t all = l.tops * l.moves;
    if (l.is_normalized()) {
      move_scale = 0;
      for (int64_t row = 0; row < l.tops; ++row) {
        double *to = others + row * l.moves, sum = 0;
        from_logs(to, given + row * l.moves, l.moves);
        for (int64_t a = 0; a < l.moves; ++a) sum += to[a];
        for (int64_t a = 0; a < l.moves; ++a) to[a] /= sum;
      }
    } else {
      move_scale = from_logs(others, given, all);
    }
    for (int64_t qx = 0; qx < l.tops; ++qx) {
      double* row = others + qx * l.moves;
      for (int64_t ry = 0; ry < l.tops; ++ry) pushes[ry * l.wide + qx] = row[ry];
      std::copy(row + l.tops, row + l.moves, row);
    }
    value[0] = 1;
    for (int64_t m = 0; m < l.W; ++m) value[1 + m] = 1 / (1 + std::exp(-double(given[all + m])));
  }

  // The runs that are popped in this step down to time k, for all k.
  void pop_all(int64_t n) {
    const RunsLayout<T>& l = *at;
    for (int64_t k = l.first(n); k < n - 1; ++k) {
      double* to = popped + (k - l.first(n)) * l.Q * l.wide;
      const double* from = block(k, n - 1);
      const int64_t* own = scale(k, n - 1);
      Integers highest = Integers{} + no_scale;
      for (int64_t uy = 0; uy < l.wide; uy += L) highest = greater(load_integers(own + uy), highest);
      const int64_t base = greatest(highest);
      Reals most{};
      for (int64_t uy = 0; uy < l.wide; uy += L) {
        const Reals factor = powers_of_two(load_integers(own + uy) - base);
        for (int64_t r = 0; r < l.Q; ++r) {
          Reals sum{};
          for (int64_t sz = 0; sz < l.tops; ++sz)
            sum += load(from + sz * l.channels * l.wide + uy) * pop(sz, r);
          sum *= factor;
          most = greater(sum, most);
          store(to + r * l.wide + uy, sum);
        }
      }
      const int64_t e = greatest(((Integers)most >> 52) - 1023);
      pop_scales[k - l.first(n)] = e < -1000 || base == no_scale ? no_scale : base + move_scale + e;
      const double factor = e < -1000 ? 0 : power_of_two(-e);
      for (int64_t i = 0; i < l.Q * l.wide; i += L) store(to + i, load(to + i) * factor);
    }
  }

  // The runs of pair (i, n) for all i, and the weights and tops of time n.
  void step(const T* given) {
    const RunsLayout<T>& l = *at;
    const int64_t n = count, C = l.channels;
    tell(given);
    pop_all(n);
    for (int64_t i = l.first(n); i < n; ++i)
      for (int64_t qx = 0; qx < l.wide; qx += L) {
        double* out = block(i, n) + qx;
        Integers base = Integers{} + move_scale;
        if (i == n - 1)
          push(out, qx);
        else
          base = carry(i, n, qx, out);
        if (is_start[i])
          for (int64_t ry = 0; ry < l.tops; ++ry)
            for (int64_t m = 0; m < l.W; ++m)
              store(out + (ry * C + 1 + m) * l.wide, load(out + ry * C * l.wide) * bottom[m]);
        const Integers e = take_scales(out, l.part, l.wide);
        const Integers empty = (e == no_scale) | (base == no_scale);
        store_integers(scale(i, n) + qx, chosen_integers(empty, Integers{} + no_scale, base + e));
      }
    Integers highest = Integers{} + no_scale;
    for (int64_t i = l.first(n); i < n; ++i)
      for (int64_t qx = 0; qx < l.wide; qx += L)
        highest = greater(load_integers(scale(i, n) + qx) + weight_scales[i], highest);
    weight_scales[n] = greatest(highest);
    sum_tops(n);
    double* own = weights + n * l.wide;
    double most = 0;
    for (int64_t ry = 0; ry < l.tops; ++ry) most = std::max(most, own[ry] = top[ry * C]);
    const int64_t e = most > 0 ? std::ilogb(most) : 0;
    for (int64_t ry = 0; ry < l.tops; ++ry) own[ry] *= power_of_two(-e);
    for (int64_t j = 0; j < l.part; ++j) top[j] *= power_of_two(-e);
    weight_scales[n] = most > 0 ? weight_scales[n] + e : no_scale;
    is_start[n] = false;
    ++count;
  }

  // The weights of the pairs' blocks in the tops of time n.
  Reals share(int64_t i, int64_t n, int64_t qx) const {
    return load(weights + i * at->wide + qx) *
           powers_of_two(load_integers(scale(i, n) + qx) + (weight_scales[i] - weight_scales[n]));
  }
  void sum_tops(int64_t n) const {
    const RunsLayout<T>& l = *at;
    clear_values(top, l.part * L);
    for (int64_t i = l.first(n); i < n; ++i)
      for (int64_t qx = 0; qx < l.wide; qx += L) {
        const Reals w = share(i, n, qx);
        const double* from = block(i, n) + qx;
        for (int64_t j = 0; j < l.part; ++j)
          store(top + j * L, load(top + j * L) + w * load(from + j * l.wide));
      }
    for (int64_t j = 0; j < l.part; ++j) top[j] = sum_of<double>(load(top + j * L));
  }

  void push(double* out, int64_t qx) const {
    const RunsLayout<T>& l = *at;
    for (int64_t ry = 0; ry < l.tops; ++ry)
      for (int64_t c = 0; c < l.channels; ++c)
        store(out + (ry * l.channels + c) * l.wide, load(pushes + ry * l.wide + qx) * value[c]);
  }

  // Replacements of the top, and pops of what was above it. Returns the scale.
  Integers carry(int64_t i, int64_t n, int64_t qx, double* out) const {
    const RunsLayout<T>& l = *at;
    const int64_t C = l.channels, wide = l.wide, first = l.first(n);
    const Integers of_top = load_integers(scale(i, n - 1) + qx) + move_scale;
    Integers base = of_top;
    for (int64_t k = i + 1; k < n - 1; ++k)
      base = greater(load_integers(scale(i, k) + qx) + pop_scales[k - first], base);
    base = greater(base, Integers{} + no_scale);
    for (int64_t k = i + 1; k < n - 1; ++k)
      store(shares + (k - first) * L,
            powers_of_two(load_integers(scale(i, k) + qx) + pop_scales[k - first] - base));
    const Reals factor = powers_of_two(of_top - base);
    const double* from = block(i, n - 1) + qx;
    for (int64_t c = 0; c < C; ++c)
      for (int64_t y = 0; y < l.S; ++y)
        for_some(l.Q, [&](int64_t r0, auto some) UNBOUNDED_INLINED {
          constexpr int R = decltype(some)::value;
          Reals sum[R] = {};
          for (int64_t sz = 0; sz < l.tops; ++sz) {
            const Reals x = load(from + (sz * C + c) * wide);
            for (int r = 0; r < R; ++r) sum[r] += x * replacement(sz, (r0 + r) * l.S + y);
          }
          for (int r = 0; r < R; ++r) sum[r] *= factor;
          for (int64_t k = i + 1; k < n - 1; ++k) {
            const Reals w = load(shares + (k - first) * L);
            const double *below = block(i, k) + qx, *p = popped + ((k - first) * l.Q + r0) * wide;
            for (int64_t u = 0; u < l.Q; ++u) {
              const Reals x = w * load(below + ((u * l.S + y) * C + c) * wide);
              for (int r = 0; r < R; ++r) sum[r] += x * p[r * wide + u * l.S + y];
            }
          }
          for (int r = 0; r < R; ++r) store(out + (((r0 + r) * l.S + y) * C + c) * wide, sum[r]);
        });
    return base;
  }
};

template <class T>
class NondeterministicForward final : public MemoryForward<T> {
 public:
  explicit NondeterministicForward(const Frame<T>& frame) : f(frame), at(frame) {}

  int64_t entries_at_once() const override { return at.entries_at_once(1); }
  void take_scratch(Workspace& space) override {
    space.take(runs_, f.c.batch);
    space.take(is_spoiled_, f.c.batch);
    if (!f.c.saves) space.take(instruction_, f.c.batch * at.instruction);
    Runs<T>::take(space, at, runs_);
  }
  void begin(int64_t b) override {
    const int64_t N = f.c.rows, size = at.tops * at.part;
    runs_[b].at = &at;
    runs_[b].begin(b);
    is_spoiled_[b] = has_nan(as<T>(f.c.state0[0]) + b * N * N * size, N * N * size) ||
                     has_nan(as<T>(f.c.state0[1]) + b * N * at.tops, N * at.tops);
  }
  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    in.take(0, 2, instruction(t, b));
    is_spoiled_[b] = is_spoiled_[b] || has_nan(instruction(t, b), at.instruction);
  }
  void step(int64_t t, int64_t b, T* read_vector) override {
    Runs<T>& runs = runs_[b];
    runs.step(instruction(t, b));
    double total = 0;
    for (int64_t ry = 0; ry < at.tops; ++ry) total += runs.top[ry * at.channels];
    for (int64_t ry = 0; ry < at.tops; ++ry)
      for (int64_t c = at.W > 0 ? 1 : 0; c < at.channels; ++c)
        *read_vector++ = is_spoiled_[b] ? std::numeric_limits<T>::quiet_NaN()
                                        : T(runs.top[ry * at.channels + c] / total);
  }
  void finish(int64_t b) override {
    const Runs<T>& runs = runs_[b];
    const T low = -std::numeric_limits<T>::infinity();
    // Empty rows stand before those of a sequence that has ended earlier.
    const int64_t N = at.kept(f.c.rows + f.c.first_step + f.c.steps), own = at.kept(runs.count);
    const int64_t first = runs.count - own, empty = N - own, size = at.tops * at.part;
    T *to = as<T>(f.c.state_last[0]) + b * N * N * size;
    T *weights = as<T>(f.c.state_last[1]) + b * N * at.tops, *start = as<T>(f.c.state_last[2]) + b * N;
    std::fill(to, to + N * N * size, low);
    std::fill(weights, weights + N * at.tops, low);
    clear_values(start, N);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    for (int64_t n = 0; n < own; ++n) {
      // What was there before the call stays as it was, to the bit.
      const int64_t now = first + n, rows0 = f.c.rows;
      for (int64_t i = std::max<int64_t>(0, at.first(now) - first); i < n; ++i) {
        T* pair = to + ((empty + i) * N + empty + n) * size;
        if (now < rows0) {
          copy_values(pair, as<T>(f.c.state0[0]) + ((b * rows0 + first + i) * rows0 + now) * size, size);
          continue;
        }
        const double* from = runs.block(first + i, now);
        const int64_t* scale = runs.scale(first + i, now);
        for (int64_t qx = 0; qx < at.tops; ++qx)
          for (int64_t j = 0; j < at.part; ++j)
            pair[qx * at.part + j] =
                is_spoiled_[b] ? nan : T(log_of(from[j * at.wide + qx], scale[qx]));
      }
      T* own_weights = weights + (empty + n) * at.tops;
      if (now < rows0) {
        copy_values(own_weights, as<T>(f.c.state0[1]) + (b * rows0 + now) * at.tops, at.tops);
        start[empty + n] = as<T>(f.c.state0[2])[b * rows0 + now];
        continue;
      }
      for (int64_t ry = 0; ry < at.tops; ++ry)
        own_weights[ry] =
            is_spoiled_[b] ? nan : T(log_of(runs.weights[now * at.wide + ry], runs.weight_scales[now]));
    }
    copy_values(as<T>(f.c.state_last[3]) + b * at.W, as<T>(f.c.state0[3]) + b * at.W, at.W);
  }

 private:
  const Frame<T>& f;
  const RunsLayout<T> at;
  Runs<T>* runs_ = nullptr;
  bool* is_spoiled_ = nullptr;
  T* instruction_ = nullptr;

  T* instruction(int64_t t, int64_t b) const {
    return f.c.saves ? as<T>(f.c.saved[0]) + (t * f.c.batch + b) * at.instruction
        : instruction_ + b * at.instruction;
  }
};

// Gradients are those of logs: of an element of a block, the sum over its uses of its share in each
// sum times the gradient of that sum's log.
template <class T>
class NondeterministicBackward final : public MemoryBackward<T> {
  static constexpr int L = lanes<double>;

 public:
  explicit NondeterministicBackward(const Frame<T>& frame) : f(frame), at(frame) {}

  int64_t entries_at_once() const override { return at.entries_at_once(2); }
  void take_scratch(Workspace& space) override {
    const int64_t B = f.c.batch;
    space.take(runs_, B);
    space.take(grad_, B * at.pairs() * at.block);
    space.take(of_weights_, B * at.rows * at.wide);
    space.take(of_bottom_, B * at.W);
    space.take(of_pushes_, B * at.tops * at.wide);
    space.take(of_others_, B * at.tops * at.moves * L);
    space.take(of_value_, B * at.channels);
    space.take(of_popped_, B * popped());
    space.take(ratio_, B * at.times() * at.part * L);
    space.take(grad_instruction_, B * at.instruction);
    Runs<T>::take(space, at, runs_);
  }

  void begin(int64_t b) override {
    Runs<T>& runs = runs_[b];
    runs.at = &at;
    runs.begin(b);
    const int64_t length = f.length_of(b), size = at.tops * at.part;
    for (int64_t t = 0; t < length; ++t) runs.step(at.saved(t, b));
    double *grad = grad_of(b), *of_weights = of_weights_ + b * at.rows * at.wide;
    clear_values(grad, at.pairs() * at.block);
    clear_values(of_weights, at.rows * at.wide);
    clear_values(of_bottom_ + b * at.W, at.W);
    const int64_t N = at.kept(f.c.rows + f.c.steps), own = at.kept(runs.count);
    const int64_t first = runs.count - own, empty = N - own;
    if (const T* last = as<T>(f.c.grad_state_last[0]))
      for (int64_t n = 0; n < own; ++n)
        for (int64_t i = std::max<int64_t>(0, at.first(first + n) - first); i < n; ++i) {
          const T* from = last + ((b * N + empty + i) * N + empty + n) * size;
          double* to = grad + at.pair(first + i, first + n) * at.block;
          const double* x = runs.block(first + i, first + n);
          for (int64_t qx = 0; qx < at.tops; ++qx)
            for (int64_t j = 0; j < at.part; ++j)
              if (x[j * at.wide + qx] > 0) to[j * at.wide + qx] = from[qx * at.part + j];
        }
    if (const T* last = as<T>(f.c.grad_state_last[1]))
      for (int64_t n = 0; n < own; ++n)
        for (int64_t ry = 0; ry < at.tops; ++ry)
          of_weights[(first + n) * at.wide + ry] = last[(b * N + empty + n) * at.tops + ry];
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    Runs<T>& runs = runs_[b];
    const int64_t n = f.c.rows + t, C = at.channels, wide = at.wide;
    double *of_pushes = of_pushes_ + b * at.tops * wide, *of_value = of_value_ + b * C;
    runs.tell(at.saved(t, b));
    runs.pop_all(n);
    clear_values(of_pushes, at.tops * wide);
    clear_values(of_others_ + b * at.tops * at.moves * L, at.tops * at.moves * L);
    clear_values(of_value, C);
    clear_values(of_popped_ + b * popped(), popped());
    read(runs, b, n, grad_read_vector);
    for (int64_t qx = 0; qx < wide; qx += L) {
      for (int64_t i = at.first(n); i < n; ++i) {
        double* of = grad_of(b) + at.pair(i, n) * at.block + qx;
        if (runs.is_start[i]) bottom(b, of);
        if (i < n - 1) {
          replace(runs, b, i, n, qx, of);
          continue;
        }
        for (int64_t ry = 0; ry < at.tops; ++ry)
          for (int64_t c = 0; c < C; ++c) {
            const Reals x = load(of + (ry * C + c) * wide);
            add(of_pushes + ry * wide + qx, x);
            of_value[c] += sum_of<double>(x);
          }
      }
      uncover(runs, b, n, qx);
    }
    pops(runs, b, n);
    tell(runs, b);
  }

  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, 2, at.saved(t, b), grad_instruction_ + b * at.instruction);
  }

  void end(int64_t b) override {
    const UnboundedCall& c = f.c;
    if (!c.grad_state0[0]) return;
    const int64_t N = c.rows, size = at.tops * at.part;
    T* runs0 = as<T>(c.grad_state0[0]) + b * N * N * size;
    clear_values(runs0, N * N * size);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t i = at.first(n); i < n; ++i) {
        const double* from = grad_of(b) + at.pair(i, n) * at.block;
        for (int64_t qx = 0; qx < at.tops; ++qx)
          for (int64_t j = 0; j < at.part; ++j)
            runs0[(i * N + n) * size + qx * at.part + j] = T(from[j * at.wide + qx]);
      }
    T *weights0 = as<T>(c.grad_state0[1]) + b * N * at.tops, *start0 = as<T>(c.grad_state0[2]) + b * N;
    clear_values(start0, N);
    const T* of_start = as<T>(c.grad_state_last[2]);
    const int64_t kept = at.kept(N + c.steps), dropped = runs_[b].count - at.kept(runs_[b].count);
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t ry = 0; ry < at.tops; ++ry)
        weights0[n * at.tops + ry] = T(of_weights_[(b * at.rows + n) * at.wide + ry]);
      if (of_start && n >= dropped) start0[n] = of_start[(b + 1) * kept - runs_[b].count + n];
    }
    const T* of_bottom = as<T>(c.grad_state_last[3]);
    for (int64_t m = b * at.W; m < (b + 1) * at.W; ++m)
      as<T>(c.grad_state0[3])[m] = T(of_bottom_[m] * (1 - runs_[b].bottom[m - b * at.W])) +
                                   (of_bottom ? of_bottom[m] : T(0));
  }

 private:
  const Frame<T>& f;
  const RunsLayout<T> at;
  Runs<T>* runs_ = nullptr;
  double *grad_ = nullptr, *of_weights_ = nullptr, *of_bottom_ = nullptr, *of_pushes_ = nullptr;
  double *of_others_ = nullptr;  // [s, z][replace r, y | pop r][a register]
  double *of_value_ = nullptr;
  double *of_popped_ = nullptr;  // [k - first][r][u, y][a register]; then sums
  double *ratio_ = nullptr;      // [i - first][r, y][channel][a register]
  T* grad_instruction_ = nullptr;

  double* grad_of(int64_t b) const { return grad_ + b * at.pairs() * at.block; }
  double* ratio_of(int64_t b, int64_t i, int64_t n) const {
    return ratio_ + (b * at.times() + i - at.first(n)) * at.part * L;
  }
  double* of_other(int64_t b, int64_t sz, int64_t move) const {
    return of_others_ + ((b * at.tops + sz) * at.moves + move) * L;
  }
  int64_t popped() const { return at.times() * at.Q * at.wide * L; }
  static UNBOUNDED_INLINE void add(double* to, Reals x) { store(to, load(to) + x); }

  // From the read vector and the weights of time n to the pairs (i, n) and the weights of i.
  void read(const Runs<T>& runs, int64_t b, int64_t n, const T* grad_read_vector) {
    const int64_t C = at.channels, wide = at.wide;
    double *of = ratio_of(b, at.first(n), n), *of_weights = of_weights_ + b * at.rows * wide;
    runs.sum_tops(n);
    const double* sum = runs.top;
    double total = 0, of_total = 0;
    for (int64_t ry = 0; ry < at.tops; ++ry) total += sum[ry * C];
    clear_values(of, at.part);
    for (int64_t ry = 0; ry < at.tops; ++ry)
      for (int64_t c = at.W > 0 ? 1 : 0; c < C; ++c) {
        const double g = *grad_read_vector++;
        of[ry * C + c] = g / total;
        of_total -= g * sum[ry * C + c] / (total * total);
      }
    for (int64_t ry = 0; ry < at.tops; ++ry) {
      of[ry * C] += of_total;
      if (sum[ry * C] > 0) of[ry * C] += of_weights[n * wide + ry] / sum[ry * C];
    }
    for (int64_t i = at.first(n); i < n; ++i)
      for (int64_t qx = 0; qx < wide; qx += L) {
        const Reals w = runs.share(i, n, qx);
        const double* from = runs.block(i, n) + qx;
        double* to = grad_of(b) + at.pair(i, n) * at.block + qx;
        Reals all{};
        for (int64_t j = 0; j < at.part; ++j) {
          const Reals x = w * load(from + j * wide) * of[j];
          add(to + j * wide, x);
          all += x;
        }
        add(of_weights + i * wide + qx, all);
      }
  }

  // What stands at the start is the bottom vector: its channels are the weight times that.
  void bottom(int64_t b, double* of) {
    for (int64_t ry = 0; ry < at.tops; ++ry)
      for (int64_t m = 0; m < at.W; ++m) {
        double *weight = of + ry * at.channels * at.wide, *own = weight + (1 + m) * at.wide;
        of_bottom_[b * at.W + m] += sum_of<double>(load(own));
        add(weight, load(own));
        store(own, Reals{});
      }
  }

  // From the pair (i, n) to (i, n - 1), whose top was replaced. Keeps the gradient of each sum over
  // that sum.
  void replace(const Runs<T>& runs, int64_t b, int64_t i, int64_t n, int64_t qx, const double* of) {
    const int64_t C = at.channels, wide = at.wide;
    const Integers scale = load_integers(runs.scale(i, n) + qx), empty = scale == no_scale;
    double *ratio = ratio_of(b, i, n), *grad = grad_of(b);
    const double *out = runs.block(i, n) + qx, *from = runs.block(i, n - 1) + qx;
    for (int64_t j = 0; j < at.part; ++j) {
      const Reals x = load(out + j * wide);
      const Integers some = (Integers)(x > 0) & ~empty;
      store(ratio + j * L, (Reals)((Integers)(load(of + j * wide) / x) & some));
    }
    const Reals factor = powers_of_two(load_integers(runs.scale(i, n - 1) + qx) + runs.move_scale - scale);
    double* of_from = grad + at.pair(i, n - 1) * at.block + qx;
    for (int64_t sz = 0; sz < at.tops; ++sz)
      for (int64_t c = 0; c < C; ++c) {
        const Reals x = factor * load(from + (sz * C + c) * wide);
        Reals all{};
        for (int64_t ry = 0; ry < at.tops; ++ry) {
          const Reals y = x * load(ratio + (ry * C + c) * L) * runs.replacement(sz, ry);
          all += y;
          add(of_other(b, sz, ry), y);
        }
        add(of_from + (sz * C + c) * wide, all);
      }
  }

  // From the pairs (i, n) of all i to the runs that were popped, and to those below them. The pairs
  // of one k are neighbors in the tables.
  void uncover(const Runs<T>& runs, int64_t b, int64_t n, int64_t qx) {
    const int64_t C = at.channels, wide = at.wide, first = at.first(n), stride = at.block;
    for (int64_t k = first + 1; k < n - 1; ++k) {
      for (int64_t i = first; i < k; ++i)
        store(runs.shares + (i - first) * L,
              powers_of_two(load_integers(runs.scale(i, k) + qx) + runs.pop_scales[k - first] -
                            load_integers(runs.scale(i, n) + qx)));
      for (int64_t uy = 0; uy < at.tops; ++uy)
        for_some(at.Q, [&](int64_t r0, auto some) UNBOUNDED_INLINED {
          constexpr int R = decltype(some)::value;
          const int64_t column = uy * C * wide + qx, top = (r0 * at.S + uy % at.S) * C * L;
          const double* below = runs.block(first, k) + column;
          const double* ratio = ratio_of(b, first, n) + top;
          double* of_below = grad_of(b) + at.pair(first, k) * stride + column;
          Reals p[R], sum[R] = {};
          for (int r = 0; r < R; ++r)
            p[r] = Reals{} + runs.popped[((k - first) * at.Q + r0 + r) * wide + uy];
          for (int64_t i = 0; i < k - first; ++i, below += stride, of_below += stride, ratio += at.part * L) {
            const Reals w = load(runs.shares + i * L);
            for (int64_t c = 0; c < C; ++c) {
              const Reals x = w * load(below + c * wide);
              Reals all{};
              for (int r = 0; r < R; ++r) {
                const Reals y = x * load(ratio + (r * at.S * C + c) * L);
                all += y * p[r];
                sum[r] += y;
              }
              add(of_below + c * wide, all);
            }
          }
          double* of_p = of_popped_ + b * popped() + (((k - first) * at.Q + r0) * wide + uy) * L;
          for (int r = 0; r < R; ++r) add(of_p + r * wide * L, sum[r]);
        });
    }
  }

  // From the popped runs, whose gradients are over their sums, to the pairs (k, n - 1).
  void pops(const Runs<T>& runs, int64_t b, int64_t n) {
    const int64_t C = at.channels, wide = at.wide;
    for (int64_t k = at.first(n); k < n - 1; ++k) {
      const int64_t place = k - at.first(n);
      if (runs.pop_scales[place] == no_scale) continue;
      double* of_p = of_popped_ + b * popped() + place * at.Q * wide * L;
      for (int64_t j = 0; j < at.Q * wide; ++j) of_p[j] = sum_of<double>(load(of_p + j * L));
      for (int64_t uy = 0; uy < wide; uy += L) {
        const Reals factor = powers_of_two(load_integers(runs.scale(k, n - 1) + uy) + runs.move_scale -
                                           runs.pop_scales[place]);
        const double* from = runs.block(k, n - 1) + uy;
        double* of_from = grad_of(b) + at.pair(k, n - 1) * at.block + uy;
        for (int64_t sz = 0; sz < at.tops; ++sz)
          for (int64_t r = 0; r < at.Q; ++r) {
            const Reals x = factor * load(from + sz * C * wide) * runs.pop(sz, r) *
                            load(of_p + r * wide + uy);
            add(of_from + sz * C * wide, x);
            add(of_other(b, sz, at.tops + r), x);
          }
      }
    }
  }

  // From the logs of the weights to the instruction.
  void tell(const Runs<T>& runs, int64_t b) {
    T* to = grad_instruction_ + b * at.instruction;
    for (int64_t qx = 0; qx < at.tops; ++qx, to += at.moves) {
      double all = 0;
      for (int64_t a = 0; a < at.moves; ++a) {
        const double of = a < at.tops ? of_pushes_[(b * at.tops + a) * at.wide + qx]
                                      : sum_of<double>(load(of_other(b, qx, a - at.tops)));
        to[a] = T(of);
        all += of;
      }
      if (!at.is_normalized()) continue;
      for (int64_t a = 0; a < at.moves; ++a)
        to[a] -= T(all * (a < at.tops ? runs.pushes[a * at.wide + qx]
                                      : runs.others[qx * at.moves + a - at.tops]));
    }
    for (int64_t m = 0; m < at.W; ++m)
      to[m] = T(of_value_[b * at.channels + 1 + m] * (1 - runs.value[1 + m]));
  }
};

struct Nondeterministic {
  template <class T> using Forward = NondeterministicForward<T>;
  template <class T> using Backward = NondeterministicBackward<T>;
};

}  // namespace unbounded
