// Addressing by one head of a tape, and its gradients (Graves et al. 2014, eq. 5 to 9).
//
// The layout of cells is that of content.h.
#pragma once

#include "content.h"

namespace unbounded {

// Sizes, and offsets of the parts in an instruction's values; read heads come first.
template <class T>
struct TapeSizes : Slots<T> {
  using Slots<T>::width, Slots<T>::slots, Slots<T>::stride;
  int64_t readers, writers, reach;
  bool is_circular, reads_before;
  T floor;
  int64_t heads, shifts, instruction;

  explicit TapeSizes(const Frame<T>& f)
      : Slots<T>(f.c.options[0], f.c.options[1]),
        readers(f.c.options[2]),
        writers(f.c.options[3]),
        reach(f.c.options[4]),
        is_circular(f.c.options[5] != 0),
        reads_before(f.c.options[6] != 0),
        floor(T(std::pow(10.0, -double(f.c.options[7])))),
        heads(readers + writers),
        shifts(2 * reach + 1),
        instruction(parts(readers) + parts(writers) + 2 * writers * width) {}

  int64_t parts(int64_t count) const { return count * (width + shifts + 3); }
  int64_t weights() const { return heads * stride; }
  // The part that starts after `before` values of each head of its kind and has `size` values.
  int64_t at(int64_t head, int64_t before, int64_t size) const {
    const bool reads = head < readers;
    const int64_t count = reads ? readers : writers, k = reads ? head : head - readers;
    return (reads ? 0 : parts(readers)) + count * before + k * size;
  }
  int64_t key(int64_t head) const { return at(head, 0, width); }
  int64_t strength(int64_t head) const { return at(head, width, 1); }
  int64_t gate(int64_t head) const { return at(head, width + 1, 1); }
  int64_t shift(int64_t head) const { return at(head, width + 2, shifts); }
  int64_t sharpening(int64_t head) const { return at(head, width + 2 + shifts, 1); }
  int64_t erase(int64_t writer) const { return parts(readers) + parts(writers) + writer * width; }
  int64_t add(int64_t writer) const { return erase(writers + writer); }

  void limit_keys(T* instruction) const {
    for (int64_t h = 0; h < heads; ++h) limit_key(instruction + key(h), width);
  }
  void limit_key_gradients(const T* instruction, T* grad_instruction) const {
    for (int64_t h = 0; h < heads; ++h)
      limit_key_gradient(instruction + key(h), grad_instruction + key(h), width);
  }
};

template <class T>
class TapeAddressing {
 public:
  explicit TapeAddressing(const TapeSizes<T>& sizes) : s(sizes) {}

  // Size of a batch entry's scratch, which `use` distributes.
  int64_t scratch_size() const { return 8 * s.stride + 2 * around_size(); }
  void use(T* scratch) {
    for (T** row : {&squares_, &similarity_, &roots_, &content_, &moved_, &logs_, &grad_, &of_squares_}) {
      *row = scratch;
      scratch += s.stride;
    }
    gated_ = scratch;
    of_moved_ = scratch + around_size();
  }

  // What all heads need of the cells: the squared norms.
  void look_at(const T* cells) { s.square(cells, squares_); }

  // Computes the head's weights from the previous ones.
  void address(int64_t head, const T* instruction, const T* cells, const T* before, T* after) {
    find(head, instruction, cells, before);
    copy_values(after, logs_, s.stride);
    const T sharpening = instruction[s.sharpening(head)];
    for (int64_t n = 0; n < s.stride; n += lanes<T>) store(after + n, load(after + n) * sharpening);
    s.softmax(after);
  }

  // Maps `grad` of the new weights to that of the previous ones; `grad_instruction` gets the head's
  // gradients except the key's; `of_products` those of k . M(i); `of_squares` accumulates those of
  // the squared norms. Returns the gradient of the key's squared norm.
  T backward(int64_t head, const T* instruction, const T* cells, const T* before, const T* after,
             T* grad, T* grad_instruction, T* of_products, T* of_squares) {
    find(head, instruction, cells, before);
    const T strength = instruction[s.strength(head)], gate = instruction[s.gate(head)];
    const T sharpening = instruction[s.sharpening(head)], *shift = instruction + s.shift(head);

    s.softmax_gradient(after, grad);                                                     // (9)
    grad_instruction[s.sharpening(head)] = dot(s.stride, grad, logs_);
    T* of_moved = of_moved_ + s.reach;
    for (int64_t n = 0; n < s.stride; n += lanes<T>)
      store(of_moved + n, load(grad + n) * sharpening / (load(moved_ + n) + s.floor));
    surround(of_moved_);

    for (int64_t k = 0; k < s.shifts; ++k)                                               // (8)
      grad_instruction[s.shift(head) + k] = dot(s.slots, of_moved, gated_ + 2 * s.reach - k);
    for (int64_t n = 0; n < s.stride; n += lanes<T>) {
      Vector<T> sum{};
      for (int64_t k = 0; k < s.shifts; ++k) sum += load(of_moved_ + n + k) * shift[k];
      store(grad_ + n, sum);
    }
    s.pad(grad_);

    Vector<T> of_gate{};                                                                 // (7)
    for (int64_t n = 0; n < s.stride; n += lanes<T>) {
      const Vector<T> here = load(grad_ + n);
      of_gate += here * (load(content_ + n) - load(before + n));
      store(grad + n, here * (1 - gate));
      store(grad_ + n, here * gate);
    }
    grad_instruction[s.gate(head)] = sum_of<T>(of_gate);

    T of_key_square;
    s.find_backward(instruction + s.key(head), strength, squares_, roots_, similarity_, content_,
                    grad_, of_products, of_squares, grad_instruction[s.strength(head)],
                    of_key_square);  // (5), (6)
    return of_key_square;
  }

 private:
  const TapeSizes<T>& s;
  // Rows of locations: squared norm; K; the root in K; w^c; w~; log(w~ + floor); two for gradients.
  T *squares_ = nullptr, *similarity_ = nullptr, *roots_ = nullptr, *content_ = nullptr;
  T *moved_ = nullptr, *logs_ = nullptr, *grad_ = nullptr, *of_squares_ = nullptr;
  // With `reach` more on either side: w^g, and the gradient of w~.
  T *gated_ = nullptr, *of_moved_ = nullptr;

  int64_t around_size() const {
    const int64_t all = s.stride + 2 * s.reach;
    return (all + lanes<T> - 1) / lanes<T> * lanes<T>;
  }

  // The tape's continuation beyond its ends: the other end, or zeros; `reach` is at most `slots`.
  void surround(T* around) const {
    T *first = around + s.reach, *behind = first + s.slots;
    clear_values(behind, around_size() - s.reach - s.slots);
    for (int64_t i = 0; i < s.reach; ++i) {
      around[i] = s.is_circular ? first[s.slots - s.reach + i] : T(0);
      if (s.is_circular) behind[i] = first[i];
    }
  }

  void find(int64_t head, const T* instruction, const T* cells, const T* before) {
    const T *shift = instruction + s.shift(head), gate = instruction[s.gate(head)];
    s.find(instruction + s.key(head), instruction[s.strength(head)], cells, squares_, roots_,
           similarity_, content_);                                                       // (5), (6)
    T* gated = gated_ + s.reach;
    for (int64_t n = 0; n < s.stride; n += lanes<T>)                                     // (7)
      store(gated + n, load(content_ + n) * gate + load(before + n) * (1 - gate));
    surround(gated_);
    for (int64_t n = 0; n < s.stride; n += lanes<T>) {                                   // (8)
      Vector<T> sum{};
      for (int64_t k = 0; k < s.shifts; ++k) sum += load(gated_ + n + 2 * s.reach - k) * shift[k];
      store(moved_ + n, sum);
    }
    s.pad(moved_);
    for (int64_t n = 0; n < s.stride; n += lanes<T>)
      store(logs_ + n, logarithm(load(moved_ + n) + s.floor));
  }
};

}  // namespace unbounded
