// Moves of a Lie-access memory's heads, and their gradients (Yang 2016; Yang & Rush 2017).
//
// A head's place is its key [n], followed by the action [A] that moved it there. It has so few
// numbers that registers would not pay.
#pragma once

#include <cmath>

#include "frame.h"
#include "lie_disk.h"
#include "lie_rotation.h"

namespace unbounded {

// In the order of KERNEL_GROUPS and STEPS in memories/lie_access/. The special orthogonal groups
// have any size of keys, and the second one a factor too.
enum class LieGroup : int64_t {
  translation,
  scaling_rotation,
  rotation,
  sphere,
  special_orthogonal,
  scaled_special_orthogonal,
  poincare_disk,
  bounded_sphere,
  learned_bound_sphere
};
enum class LieStep : int64_t { free, normalised, bounded, normalised_candidate };

// Sizes, and offsets of the parts in an instruction's values. The heads that read come first, then
// those that write.
template <class T>
struct LieSizes {
  int64_t width, key_size;
  LieGroup group;
  bool is_softmax;
  LieStep step;
  bool has_key_gates, has_action_gates;
  bool is_bounded;  // an angle up to a bound, which is the last number of an action
  int64_t capacity, drop;  // capacity 0 for no limit
  int64_t readers, writers, heads;
  int64_t action_size, candidate_size, place, head_instruction, instruction;

  explicit LieSizes(const Frame<T>& f)
      : width(f.c.options[0]),
        key_size(f.c.options[1]),
        group(LieGroup(f.c.options[2])),
        is_softmax(f.c.options[3] != 0),
        step(LieStep(f.c.options[4])),
        has_key_gates(f.c.options[5] != 0),
        has_action_gates(f.c.options[6] != 0),
        is_bounded(group == LieGroup::bounded_sphere || group == LieGroup::learned_bound_sphere),
        capacity(f.c.options[7]),
        drop(f.c.options[8]),
        readers(f.c.options[9]),
        writers(f.c.options[10]),
        heads(readers + writers),
        action_size(action_size_of(group, key_size)),
        candidate_size(is_bounded ? 4 : action_size),
        place(key_size + action_size),
        head_instruction(key_size + candidate_size + has_key_gates + has_action_gates),
        instruction(heads * head_instruction + writers * (width + 1) + is_softmax * readers) {}

  bool is_disk() const { return group == LieGroup::poincare_disk; }
  // The first numbers of an action whose length a step may limit.
  int64_t length_size() const {
    switch (group) {
      case LieGroup::translation: return key_size;
      case LieGroup::scaling_rotation:
      case LieGroup::poincare_disk: return 2;
      case LieGroup::scaled_special_orthogonal: return 1;
      default: return 0;
    }
  }
  // Whether actions are normalised after the interpolation.
  bool shortens() const {
    return length_size() && (step == LieStep::normalised || step == LieStep::bounded);
  }
  int64_t key(int64_t head) const { return part(head, 0, key_size); }
  int64_t key_gate(int64_t head) const { return part(head, key_size, 1); }
  int64_t action(int64_t head) const { return part(head, key_size + has_key_gates, candidate_size); }
  int64_t action_gate(int64_t head) const {
    return part(head, key_size + has_key_gates + candidate_size, 1);
  }
  int64_t value(int64_t writer) const { return heads * head_instruction + writer * width; }
  int64_t strength(int64_t writer) const { return value(writers) + writer; }
  int64_t temperature(int64_t reader) const { return strength(writers) + reader; }

 private:
  static int64_t action_size_of(LieGroup group, int64_t n) {
    switch (group) {
      case LieGroup::translation: return n;
      case LieGroup::sphere: return 5;
      case LieGroup::special_orthogonal: return n * (n - 1) / 2;
      case LieGroup::scaled_special_orthogonal: return 1 + n * (n - 1) / 2;
      case LieGroup::poincare_disk: return 3;
      case LieGroup::bounded_sphere:
      case LieGroup::learned_bound_sphere: return 6;
      default: return 2;
    }
  }
  // Of a head's part, which follows others of `before` numbers and lies beside those of its kind.
  int64_t part(int64_t head, int64_t before, int64_t size) const {
    const bool reads = head < readers;
    const int64_t first = reads ? 0 : readers * head_instruction, kind = reads ? readers : writers;
    return first + kind * before + (reads ? head : head - readers) * size;
  }
};

// Added to the square of a length before a division by the length.
template <class T>
constexpr T length_floor = T(1e-12);

template <class T>
T shortening(int64_t size, const T* x, T floor) {
  T square = floor;
  for (int64_t j = 0; j < size; ++j) square += x[j] * x[j];
  return 1 / std::sqrt(square);
}
template <class T>
void shorten(int64_t size, T* x, T floor) {
  const T factor = shortening(size, x, floor);
  for (int64_t j = 0; j < size; ++j) x[j] *= factor;
}
// Maps the gradient of y = factor x to that of x.
template <class T>
void shorten_backward(int64_t size, const T* y, T factor, T* grad) {
  T along = 0;
  for (int64_t j = 0; j < size; ++j) along += y[j] * grad[j];
  for (int64_t j = 0; j < size; ++j) grad[j] = factor * (grad[j] - y[j] * along);
}

// q cos + (u x q) sin + u <u, q> (1 - cos), and its gradients, which are accumulated.
template <class T>
struct Turn {
  const T *u, *q;
  T cos, sin;

  static void cross(const T* a, const T* b, T* to) {
    for (int j = 0; j < 3; ++j) to[j] = a[(j + 1) % 3] * b[(j + 2) % 3] - a[(j + 2) % 3] * b[(j + 1) % 3];
  }
  static T inner(const T* a, const T* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

  void value(T* to) const {
    T across[3];
    cross(u, q, across);
    const T along = inner(u, q) * (1 - cos);
    for (int j = 0; j < 3; ++j) to[j] = q[j] * cos + across[j] * sin + u[j] * along;
  }
  // Of u into action[0..2], of cos and sin into action[3..4].
  void gradient(const T* grad, T* of_q, T* action) const {
    T across[3], to_q[3], to_u[3];
    cross(u, q, across);
    cross(grad, u, to_q);
    cross(q, grad, to_u);
    const T along = inner(u, q), of_along = inner(u, grad), rest = 1 - cos;
    for (int j = 0; j < 3; ++j) {
      of_q[j] = cos * grad[j] + sin * to_q[j] + rest * of_along * u[j];
      action[j] += sin * to_u[j] + rest * (along * grad[j] + of_along * q[j]);
    }
    action[3] += inner(q, grad) - along * of_along;
    action[4] += inner(across, grad);
  }
};

// The first numbers of a BoundedSphere's action: the axis, which is normalised, and (cos, sin) of
// the angle bound x tanh(x). A controller gives the axis and x.
template <class T>
struct BoundedTurn {
  T numbers[5], scale, tanh, bound;

  BoundedTurn(const T* outputs, T its_bound)
      : scale(shortening(3, outputs, length_floor<T>)), tanh(std::tanh(outputs[3])), bound(its_bound) {
    for (int j = 0; j < 3; ++j) numbers[j] = scale * outputs[j];
    numbers[3] = std::cos(bound * tanh);
    numbers[4] = std::sin(bound * tanh);
  }
  // Maps the gradient of the numbers to that of the outputs, and returns that of the bound.
  T backward(T* grad, T* of_outputs) const {
    shorten_backward(3, numbers, scale, grad);
    copy_values(of_outputs, grad, 3);
    const T of_angle = numbers[3] * grad[4] - numbers[4] * grad[3];
    of_outputs[3] = of_angle * bound * (1 - tanh * tanh);
    return of_angle * tanh;
  }
};

template <class T>
class LieHeads {
 public:
  explicit LieHeads(const LieSizes<T>& sizes) : s(sizes) {}

  // Moves from one place to the next, which may be the same memory.
  void move(int64_t head, const T* instruction, const T* before, T* after) const {
    const int64_t n = s.key_size, A = s.action_size, mixed = mixed_size();
    T candidate[5];
    if (s.is_bounded) copy_values(candidate, turn_of(head, instruction, before).numbers, 5);
    const Mixture new_key = key(head, instruction, before);
    const Mixture new_action = action(head, instruction, before, candidate);
    for (int64_t j = 0; j < n; ++j) after[j] = new_key[j];
    T* a = after + n;
    for (int64_t j = 0; j < mixed; ++j) a[j] = new_action[j];
    if (s.is_bounded) a[5] = before[n + 5];
    if (s.shortens()) shorten(s.length_size(), a, floor());
    switch (s.group) {
      case LieGroup::translation:
        for (int64_t j = 0; j < n; ++j) after[j] += a[j];
        break;
      case LieGroup::scaling_rotation:
        multiply(a, after);
        break;
      case LieGroup::rotation:
        shorten(A, a, length_floor<T>);
        multiply(a, after);
        break;
      case LieGroup::sphere:
      case LieGroup::bounded_sphere:
      case LieGroup::learned_bound_sphere: {
        shorten(3, a, length_floor<T>);
        shorten(2, a + 3, length_floor<T>);
        shorten(3, after, length_floor<T>);
        const T key[3] = {after[0], after[1], after[2]};
        Turn<T>{a, key, a[3], a[4]}.value(after);
        shorten(3, after, length_floor<T>);
        break;
      }
      case LieGroup::special_orthogonal:
        SkewRotation<T>(n, a).value(after);
        break;
      case LieGroup::scaled_special_orthogonal:
        SkewRotation<T>(n, a + 1).value(after);
        for (int64_t j = 0; j < n; ++j) after[j] *= a[0];
        break;
      case LieGroup::poincare_disk: {
        const Complex<T> key = on_disk(Complex<T>{after[0], after[1]});
        const Complex<T> moved = DiskMove<T>(a, key, length_floor<T>).value();
        after[0] = moved.x;
        after[1] = moved.y;
      }
    }
  }

  // Maps `grad` of the next place to that of the previous one, in place.
  void backward(int64_t head, const T* instruction, const T* before, const T* after, T* grad,
                T* grad_instruction) const {
    const int64_t n = s.key_size, A = s.action_size;
    T candidate[5], of_turn[5];
    T* of_candidate = grad_instruction + s.action(head);
    if (s.is_bounded) {
      copy_values(candidate, turn_of(head, instruction, before).numbers, 5);
      of_candidate = of_turn;
    }
    const Mixture old_key = key(head, instruction, before);
    const Mixture old_action = action(head, instruction, before, candidate);
    const T* a = after + n;
    T* of_action = grad + n;
    switch (s.group) {
      case LieGroup::translation:
        for (int64_t j = 0; j < n; ++j) of_action[j] += grad[j];
        break;
      case LieGroup::scaling_rotation:
      case LieGroup::rotation: {
        const T x = old_key[0], y = old_key[1], of_x = grad[0], of_y = grad[1];
        of_action[0] += x * of_x + y * of_y;
        of_action[1] += x * of_y - y * of_x;
        grad[0] = a[0] * of_x + a[1] * of_y;
        grad[1] = a[0] * of_y - a[1] * of_x;
        if (s.group == LieGroup::rotation)
          shorten_backward(A, a, old_action.shortening(A, length_floor<T>), of_action);
        break;
      }
      case LieGroup::sphere:
      case LieGroup::bounded_sphere:
      case LieGroup::learned_bound_sphere: {
        T placed[3] = {old_key[0], old_key[1], old_key[2]}, turned[3], of_turned[3];
        const T of_placing = shortening(3, placed, length_floor<T>);
        for (T& x : placed) x *= of_placing;
        const Turn<T> turn{a, placed, a[3], a[4]};
        turn.value(turned);
        copy_values(of_turned, grad, 3);
        shorten_backward(3, after, shortening(3, turned, length_floor<T>), of_turned);
        turn.gradient(of_turned, grad, of_action);
        shorten_backward(3, placed, of_placing, grad);
        T mixed[5];
        for (int j = 0; j < 5; ++j) mixed[j] = old_action[j];
        shorten_backward(3, a, shortening(3, mixed, length_floor<T>), of_action);
        shorten_backward(2, a + 3, shortening(2, mixed + 3, length_floor<T>), of_action + 3);
        break;
      }
      case LieGroup::special_orthogonal:
      case LieGroup::scaled_special_orthogonal: {
        const bool is_scaled = s.group == LieGroup::scaled_special_orthogonal;
        const SkewRotation<T> rotation(n, a + is_scaled);
        T start[SkewRotation<T>::most], turned[SkewRotation<T>::most];
        for (int64_t j = 0; j < n; ++j) turned[j] = start[j] = old_key[j];
        if (is_scaled) {
          rotation.value(turned);
          for (int64_t j = 0; j < n; ++j) {
            of_action[0] += turned[j] * grad[j];
            grad[j] *= a[0];
          }
        }
        rotation.backward(start, grad, of_action + is_scaled);
        break;
      }
      case LieGroup::poincare_disk: {
        const Complex<T> unplaced{old_key[0], old_key[1]};
        const DiskMove<T> move(a, on_disk(unplaced), length_floor<T>);
        const Complex<T> of_key = on_disk_backward(
            unplaced, move.backward(Complex<T>{grad[0], grad[1]}, of_action));
        grad[0] = of_key.x;
        grad[1] = of_key.y;
      }
    }
    if (s.shortens())
      shorten_backward(s.length_size(), a, old_action.shortening(s.length_size(), floor()),
                       of_action);
    old_key.backward(n, grad, grad_instruction + s.key(head), grad_instruction + s.key_gate(head));
    old_action.backward(mixed_size(), of_action, of_candidate,
                        grad_instruction + s.action_gate(head));
    if (s.is_bounded)
      of_action[5] += turn_of(head, instruction, before)
                          .backward(of_candidate, grad_instruction + s.action(head));
  }

 private:
  // gate x scale x fresh + (1 - gate) x before, or only the fresh one. The scale normalises the
  // first numbers of the fresh one to length 1, and is 1 for the others.
  struct Mixture {
    const T *fresh, *before;
    bool has_gate;
    T gate;
    int64_t scaled = 0;
    T scale = T(1);

    T scaled_fresh(int64_t j) const { return j < scaled ? scale * fresh[j] : fresh[j]; }
    T operator[](int64_t j) const {
      return has_gate ? gate * scaled_fresh(j) + (1 - gate) * before[j] : scaled_fresh(j);
    }
    T shortening(int64_t size, T floor) const {
      T square = floor;
      for (int64_t j = 0; j < size; ++j) square += (*this)[j] * (*this)[j];
      return 1 / std::sqrt(square);
    }
    // Maps `grad` of the mixture to that of the previous value.
    void backward(int64_t size, T* grad, T* of_fresh, T* of_gate) const {
      T sum = 0, along = 0;
      for (int64_t j = 0; j < size; ++j) {
        of_fresh[j] = has_gate ? gate * grad[j] : grad[j];
        if (j < scaled) along += scale * fresh[j] * of_fresh[j];
        if (has_gate) sum += (scaled_fresh(j) - before[j]) * grad[j];
        grad[j] = has_gate ? (1 - gate) * grad[j] : T(0);
      }
      for (int64_t j = 0; j < scaled; ++j)
        of_fresh[j] = scale * (of_fresh[j] - scale * fresh[j] * along);
      if (has_gate) *of_gate = sum;
    }
  };

  const LieSizes<T>& s;

  // The first numbers of an action, which are interpolated.
  int64_t mixed_size() const { return s.is_bounded ? 5 : s.action_size; }
  BoundedTurn<T> turn_of(int64_t head, const T* instruction, const T* before) const {
    return {instruction + s.action(head), before[s.key_size + 5]};
  }
  T floor() const { return s.step == LieStep::bounded ? T(1) : length_floor<T>; }
  Mixture key(int64_t head, const T* instruction, const T* before) const {
    const bool gated = s.has_key_gates;
    const T* fresh = instruction + s.key(head);
    const int64_t scaled = s.is_bounded ? s.key_size : 0;
    return {fresh,
            before,
            gated,
            gated ? instruction[s.key_gate(head)] : T(1),
            scaled,
            scaled ? shortening(scaled, fresh, length_floor<T>) : T(1)};
  }
  // `candidate` holds the first numbers of a BoundedSphere's candidate action.
  Mixture action(int64_t head, const T* instruction, const T* before, const T* candidate) const {
    const bool gated = s.has_action_gates;
    const T* fresh = s.is_bounded ? candidate : instruction + s.action(head);
    const int64_t scaled = s.step == LieStep::normalised_candidate ? s.length_size() : 0;
    return {fresh,
            before + s.key_size,
            gated,
            gated ? instruction[s.action_gate(head)] : T(1),
            scaled,
            scaled ? shortening(scaled, fresh, length_floor<T>) : T(1)};
  }
  static void multiply(const T* a, T* key) {
    const T x = key[0], y = key[1];
    key[0] = a[0] * x - a[1] * y;
    key[1] = a[1] * x + a[0] * y;
  }
};

}  // namespace unbounded
