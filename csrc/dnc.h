// The memory of the differentiable neural computer (Graves et al. 2016): slots that one head
// allocates and writes, and that heads read by content or in the order of writes.
//
// Options: slots, width, read heads, links. Heads: key, strength, free gate of the readers; key,
// strength, erase, value, allocation gate, write gate of the writer; with links read modes. State:
// cells [N, M], usage [N], write weights [1, N], read weights [R, N], with links links [N, N] and
// precedence [N]. Saved: instructions [T, B, K]; usage, write weights, precedence and read weights
// after each step [T, B, 3 + R, N padded to whole registers]. Checkpoints: cells and links.
//
// A step's instruction and weights determine what it wrote and linked, so the backward pass
// recomputes cells and links without addressing.
#pragma once

#include <algorithm>
#include <cmath>

#include "content.h"
#include "memory.h"

namespace unbounded {

// Sizes, offsets of the parts in an instruction's values, and what both directions do.
template <class T>
struct DncLayout : Slots<T> {
  using Slots<T>::width, Slots<T>::slots, Slots<T>::stride, Slots<T>::cells;
  const Frame<T>& f;
  const int64_t readers;
  const bool has_links;
  const int64_t instruction, rows;

  // Rows of a step; read weights follow.
  enum Row { usage, writes, precedence, first_reads };

  explicit DncLayout(const Frame<T>& frame)
      : Slots<T>(frame.c.options[0], frame.c.options[1]),
        f(frame),
        readers(f.c.options[2]),
        has_links(f.c.options[3] != 0),
        instruction(readers * (width + 2) + 3 * width + 3 + (has_links ? 3 * readers : 0)),
        rows((first_reads + readers) * stride) {}

  int64_t read_key(int64_t r) const { return r * width; }
  int64_t read_strength(int64_t r) const { return readers * width + r; }
  int64_t free_gate(int64_t r) const { return readers * (width + 1) + r; }
  int64_t write_key() const { return readers * (width + 2); }
  int64_t write_strength() const { return write_key() + width; }
  int64_t erase() const { return write_strength() + 1; }
  int64_t value() const { return erase() + width; }
  int64_t allocation_gate() const { return value() + width; }
  int64_t write_gate() const { return allocation_gate() + 1; }
  int64_t read_mode(int64_t r) const { return write_gate() + 1 + 3 * r; }

  int64_t links() const { return has_links ? slots * stride : 0; }
  int64_t kept() const { return cells() + links(); }  // values in a checkpoint
  T* saved_instruction(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[0]) + (t * f.c.batch + b) * instruction;
  }
  T* saved_rows(int64_t t, int64_t b) const {
    return as<T>(f.c.saved[1]) + (t * f.c.batch + b) * rows;
  }
  // Maps the fields of a batch entry to cells and links, and rows; a missing field is 0.
  void load_kept(T* kept, const void* const* fields, int64_t b) const {
    if (fields[0] == nullptr)
      clear_values(kept, cells());
    else
      this->spread(kept, as<T>(fields[0]) + b * slots * width);
    for (int64_t i = 0; has_links && i < slots; ++i)
      load_row(kept + cells() + i * stride, fields[4], b * slots + i);
  }
  void load_rows(T* to, const void* const* fields, int64_t b) const {
    load_row(to + usage * stride, fields[1], b);
    load_row(to + writes * stride, fields[2], b);
    load_row(to + precedence * stride, has_links ? fields[5] : nullptr, b);
    for (int64_t r = 0; r < readers; ++r)
      load_row(to + (first_reads + r) * stride, fields[3], b * readers + r);
  }
  void store_state(void* const* fields, const T* kept, const T* from, int64_t b) const {
    this->gather(as<T>(fields[0]) + b * slots * width, kept);
    copy_values(as<T>(fields[1]) + b * slots, from + usage * stride, slots);
    copy_values(as<T>(fields[2]) + b * slots, from + writes * stride, slots);
    for (int64_t r = 0; r < readers; ++r)
      copy_values(as<T>(fields[3]) + (b * readers + r) * slots, from + (first_reads + r) * stride,
                  slots);
    if (!has_links) return;
    for (int64_t i = 0; i < slots; ++i)
      copy_values(as<T>(fields[4]) + (b * slots + i) * slots, kept + cells() + i * stride, slots);
    copy_values(as<T>(fields[5]) + b * slots, from + precedence * stride, slots);
  }

  // M_t = M_{t-1} (1 - w e) + w v, limited; also in place.
  void write(T* to, const T* from, const T* instruction, const T* weights) const {
    const int64_t all = stride;
    for (int64_t m = 0; m < width; ++m) {
      const T erased = instruction[erase() + m], written = instruction[value() + m];
      for (int64_t n = 0; n < all; n += lanes<T>) {
        const Vector<T> weight = load(weights + n);
        store(to + m * all + n,
              limited<T>(load(from + m * all + n) * (1 - weight * erased) + weight * written));
      }
    }
  }
  // L_t[i, j] = (1 - w[i] - w[j]) L_{t-1}[i, j] + w[i] p_{t-1}[j], without a diagonal; also in
  // place.
  void link(T* to, const T* from, const T* weights, const T* before) const {
    const int64_t all = stride;
    for (int64_t i = 0; has_links && i < slots; ++i) {
      const T later = weights[i];
      for (int64_t j = 0; j < all; j += lanes<T>)
        store(to + i * all + j, (1 - later - load(weights + j)) * load(from + i * all + j) +
                                    load(before + j) * later);
      to[i * all + i] = 0;
    }
  }
  // Cells and links after a step whose rows are known.
  void go_on(T* to, const T* from, const T* instruction, const T* weights, const T* before) const {
    write(to, from, instruction, weights);
    link(to + cells(), from + cells(), weights, before);
  }
  // b[j] = sum_i L[i, j] r[i] and f[i] = sum_j L[i, j] r[j].
  void follow(const T* links, const T* reads, T* backward, T* forward) const {
    clear_values(backward, stride);
    clear_values(forward, stride);
    for (int64_t i = 0; i < slots; ++i) {
      axpy(stride, reads[i], links + i * stride, backward);
      forward[i] = dot(stride, links + i * stride, reads);
    }
  }
  // The part of usage that is kept by the readers other than `without`.
  Vector<T> freed(const T* instruction, const T* reads, int64_t n, int64_t without = -1) const {
    Vector<T> kept = Vector<T>{} + 1;
    for (int64_t r = 0; r < readers; ++r)
      if (r != without) kept *= 1 - load(reads + r * stride + n) * instruction[free_gate(r)];
    return kept;
  }

  // a[phi_j] = (1 - u[phi_j]) prod_{i<j} u[phi_i]: u is at least 1e-6 in it, and slots of equal
  // usage, in steps of 1/4096, stay in their order. `order` gets phi.
  void allocate(const T* used, T* weights, int64_t* order, int64_t* keys) const {
    for (int64_t n = 0; n < slots; ++n) {
      const T steps = std::nearbyint(used[n] * 4096);
      // NaN and numbers beyond an integer come last.
      keys[n] = steps > -T(1e9) && steps < T(1e9) ? int64_t(steps) : int64_t(1) << 40;
      order[n] = n;
    }
    std::sort(order, order + slots, [keys](int64_t one, int64_t other) {
      return keys[one] != keys[other] ? keys[one] < keys[other] : one < other;
    });
    T product = 1;
    clear_values(weights + slots, stride - slots);
    for (int64_t j = 0; j < slots; ++j) {
      const T held = at_least_some(used[order[j]]);
      weights[order[j]] = (1 - held) * product;
      product *= held;
    }
  }
  // Adds the gradient of usage, without a division by what may vanish.
  void allocate_backward(const T* used, const int64_t* order, const T* grad, T* before,
                         T* of_used) const {
    T product = 1;
    for (int64_t j = 0; j < slots; ++j) {
      before[j] = product;
      product *= at_least_some(used[order[j]]);
    }
    T of_product = 0;
    for (int64_t j = slots - 1; j >= 0; --j) {
      const int64_t slot = order[j];
      const T held = at_least_some(used[slot]);
      of_used[slot] += (of_product - grad[slot]) * before[j] * (1 - least);
      of_product = of_product * held + grad[slot] * (1 - held);
    }
  }

 private:
  static constexpr T least = T(1e-6);
  static T at_least_some(T used) { return least + (1 - least) * used; }
  void load_row(T* to, const void* field, int64_t row) const {
    if (field == nullptr) return clear_values(to, stride);
    copy_values(to, as<T>(field) + row * slots, slots);
    this->pad(to);
  }
};

// Rows of scratch for addressing.
template <class T>
struct DncScratch {
  T *squares, *roots, *similarity, *content, *allocation, *backward, *forward;
  static constexpr int count = 7;

  DncScratch(T* space, int64_t stride) {
    for (T** row : {&squares, &roots, &similarity, &content, &allocation, &backward, &forward}) {
      *row = space;
      space += stride;
    }
  }
};

template <class T>
class DncForward final : public MemoryForward<T> {
  using L = DncLayout<T>;

 public:
  explicit DncForward(const Frame<T>& frame) : f(frame), at(frame) {}

  void take_scratch(Workspace& space) override {
    space.take(kept_, f.c.batch * at.kept());
    space.take(rows_, f.c.batch * 2 * at.rows);
    space.take(scratch_, f.c.batch * DncScratch<T>::count * at.stride);
    space.take(order_, f.c.batch * at.slots);
    space.take(keys_, f.c.batch * at.slots);
    if (!f.c.saves) space.take(instruction_, f.c.batch * at.instruction);
  }
  void begin(int64_t b) override {
    at.load_kept(kept(b), f.c.state0, b);
    at.load_rows(rows(b), f.c.state0, b);
  }
  void take(int64_t t, int64_t b, const Instruction<T>& in) override {
    T* instruction = instruction_at(t, b);
    in.take(0, int(f.c.head_count), instruction);
    limit_key(instruction + at.read_key(0), at.readers * at.width);
    limit_key(instruction + at.write_key(), at.width);
  }

  void step(int64_t t, int64_t b, T* read_vector) override {
    const T* instruction = instruction_at(t, b);
    const int64_t stride = at.stride;
    T *cells = kept(b), *links = cells + at.cells(), *old = rows(b), *now = old + at.rows;
    T *used = now + L::usage * stride, *writes = now + L::writes * stride;
    const DncScratch<T> s(scratch_ + b * DncScratch<T>::count * stride, stride);
    const T *old_writes = old + L::writes * stride, *old_reads = old + L::first_reads * stride;
    for (int64_t n = 0; n < stride; n += lanes<T>) {
      const Vector<T> held = load(old + L::usage * stride + n), weight = load(old_writes + n);
      store(used + n, (held + weight - held * weight) * at.freed(instruction, old_reads, n));
    }
    at.allocate(used, s.allocation, order_ + b * at.slots, keys_ + b * at.slots);
    at.square(cells, s.squares);
    at.find(instruction + at.write_key(), instruction[at.write_strength()], cells, s.squares,
            s.roots, s.similarity, s.content);
    const T share = instruction[at.allocation_gate()], gate = instruction[at.write_gate()];
    for (int64_t n = 0; n < stride; n += lanes<T>)
      store(writes + n,
            (load(s.allocation + n) * share + load(s.content + n) * (1 - share)) * gate);
    at.go_on(cells, cells, instruction, writes, old + L::precedence * stride);
    T sum = 0;
    for (int64_t n = 0; n < at.slots; ++n) sum += writes[n];
    for (int64_t n = 0; n < stride; n += lanes<T>)
      store(now + L::precedence * stride + n,
            load(old + L::precedence * stride + n) * (1 - sum) + load(writes + n));
    at.square(cells, s.squares);
    for (int64_t r = 0; r < at.readers; ++r) {
      T* reads = now + (L::first_reads + r) * stride;
      at.find(instruction + at.read_key(r), instruction[at.read_strength(r)], cells, s.squares,
              s.roots, s.similarity, reads);
      if (at.has_links) {
        at.follow(links, old_reads + r * stride, s.backward, s.forward);
        const T* mode = instruction + at.read_mode(r);
        for (int64_t n = 0; n < stride; n += lanes<T>)
          store(reads + n, load(s.backward + n) * mode[0] + load(reads + n) * mode[1] +
                               load(s.forward + n) * mode[2]);
      }
      for (int64_t m = 0; m < at.width; ++m)
        read_vector[r * at.width + m] = dot(stride, reads, cells + m * stride);
    }
    copy_values(old, now, at.rows);
    if (f.c.saves) copy_values(at.saved_rows(t, b), now, at.rows);
  }
  void keep(int64_t b, T* to) override { copy_values(to, kept(b), at.kept()); }
  void finish(int64_t b) override { at.store_state(f.c.state_last, kept(b), rows(b), b); }

 private:
  const Frame<T>& f;
  const L at;
  T *kept_ = nullptr, *rows_ = nullptr, *scratch_ = nullptr, *instruction_ = nullptr;
  int64_t *order_ = nullptr, *keys_ = nullptr;

  T* kept(int64_t b) const { return kept_ + b * at.kept(); }
  T* rows(int64_t b) const { return rows_ + b * 2 * at.rows; }
  T* instruction_at(int64_t t, int64_t b) const {
    return f.c.saves ? at.saved_instruction(t, b) : instruction_ + b * at.instruction;
  }
};

template <class T>
class DncBackward final : public MemoryBackward<T> {
  using L = DncLayout<T>;

 public:
  explicit DncBackward(const Frame<T>& frame)
      : f(frame), at(frame), states_(frame, at.kept()) {}

  void take_scratch(Workspace& space) override {
    states_.take_scratch(space);
    space.take(first_rows_, f.c.batch * at.rows);
    space.take(after_, f.c.batch * at.kept());
    space.take(grad_kept_, f.c.batch * at.kept());
    space.take(grad_rows_, f.c.batch * 2 * at.rows);
    space.take(scratch_, f.c.batch * scratch_rows() * at.stride);
    space.take(of_key_squares_, f.c.batch * at.readers);
    space.take(grad_instruction_, f.c.batch * at.instruction);
    space.take(order_, f.c.batch * at.slots);
    space.take(keys_, f.c.batch * at.slots);
  }
  void begin(int64_t b) override {
    at.load_rows(first_rows_ + b * at.rows, f.c.state0, b);
    at.load_kept(grad_kept_ + b * at.kept(), f.c.grad_state_last, b);
    at.load_rows(grad_rows_ + b * 2 * at.rows, f.c.grad_state_last, b);
  }

  void step(int64_t t, int64_t b, const T* grad_read_vector) override {
    states_.go_back_to(
        t, b,
        [&](int64_t first, T* to) {
          if (first == 0)
            at.load_kept(to, f.c.state0, b);
          else
            copy_values(to, f.checkpoint(b, first / f.c.block), at.kept());
        },
        [&](T* to, const T* from, int64_t step) {
          at.go_on(to, from, at.saved_instruction(step, b), row(step, b, L::writes),
                   row(step - 1, b, L::precedence));
        });
    const int64_t stride = at.stride, slots = at.slots;
    const T *instruction = at.saved_instruction(t, b), *cells = states_.before(t, b),
        *links = cells + at.cells();
    const T *writes = row(t, b, L::writes), *before = row(t - 1, b, L::precedence);
    T *after = after_ + b * at.kept(), *links_after = after + at.cells();
    T *grad_cells = grad_kept_ + b * at.kept(), *grad_links = grad_cells + at.cells();
    T *grad = grad_rows_ + b * 2 * at.rows, *of_old = grad + at.rows;
    T *grad_instruction = grad_instruction_ + b * at.instruction,
        *space = scratch_ + b * scratch_rows() * stride;
    const DncScratch<T> s(space, stride);
    T *of_squares = space + DncScratch<T>::count * stride, *of_row = of_squares + stride;
    T *other = of_row + stride, *of_products = other + stride;
    T* of_key_squares = of_key_squares_ + b * at.readers;
    clear_values(of_old, at.rows);
    at.go_on(after, cells, instruction, writes, before);

    // Reading.
    at.square(after, s.squares);
    clear_values(of_squares, stride);
    for (int64_t r = 0; r < at.readers; ++r) {
      const T *reads = row(t, b, L::first_reads + r), *old = row(t - 1, b, L::first_reads + r);
      const T* key = instruction + at.read_key(r);
      T *of_reads = grad + (L::first_reads + r) * stride;
      for (int64_t m = 0; m < at.width; ++m) {
        const T of_number = grad_read_vector[r * at.width + m];
        axpy(stride, of_number, after + m * stride, of_reads);
        axpy(stride, of_number, reads, grad_cells + m * stride);
      }
      const T strength = instruction[at.read_strength(r)];
      at.find(key, strength, after, s.squares, s.roots, s.similarity, s.content);
      T by_content = 1;
      if (at.has_links) {
        const T* mode = instruction + at.read_mode(r);
        T* of_mode = grad_instruction + at.read_mode(r);
        at.follow(links_after, old, s.backward, s.forward);
        of_mode[0] = dot(stride, of_reads, s.backward);
        of_mode[1] = dot(stride, of_reads, s.content);
        of_mode[2] = dot(stride, of_reads, s.forward);
        by_content = mode[1];
        T* of_old_reads = of_old + (L::first_reads + r) * stride;
        // Of f and of b, with respect to the old weights: the two ways change places.
        at.follow(links_after, of_reads, s.backward, s.forward);
        axpy(stride, mode[2], s.backward, of_old_reads);
        axpy(stride, mode[0], s.forward, of_old_reads);
        for (int64_t i = 0; i < slots; ++i) {
          axpy(stride, mode[2] * of_reads[i], old, grad_links + i * stride);
          axpy(stride, mode[0] * old[i], of_reads, grad_links + i * stride);
        }
      }
      for (int64_t n = 0; n < stride; n += lanes<T>)
        store(of_row + n, load(of_reads + n) * by_content);
      at.find_backward(key, strength, s.squares, s.roots, s.similarity, s.content, of_row,
                       of_products + r * stride, of_squares, grad_instruction[at.read_strength(r)],
                       of_key_squares[r]);
    }
    at.keys_backward(
        at.readers, after, of_products, of_squares, of_key_squares, grad_cells,
        [&](int64_t r) { return instruction + at.read_key(r); },
        [&](int64_t r) { return grad_instruction + at.read_key(r); });

    // Links and precedence.
    T* of_writes = grad + L::writes * stride;
    if (at.has_links) link_backward(links, writes, before, grad_links, of_writes, of_old, of_row);
    if (at.has_links) {
      const T* of_precedence = grad + L::precedence * stride;
      T sum = 0;
      for (int64_t n = 0; n < slots; ++n) sum += writes[n];
      axpy(stride, 1 - sum, of_precedence, of_old + L::precedence * stride);
      const T of_sum = dot(stride, of_precedence, before);
      for (int64_t n = 0; n < stride; n += lanes<T>)
        store(of_writes + n, load(of_writes + n) + load(of_precedence + n) - of_sum);
    }

    // Writing.
    for (int64_t m = 0; m < at.width; ++m) {
      const T erase = instruction[at.erase() + m], value = instruction[at.value() + m];
      const T* from = cells + m * stride;
      T* here = grad_cells + m * stride;
      at.limit_backward(after + m * stride, here);
      Vector<T> of_erase{}, of_value{};
      for (int64_t n = 0; n < stride; n += lanes<T>) {
        const Vector<T> of_cell = load(here + n), weight = load(writes + n), held = load(from + n);
        of_erase -= of_cell * held * weight;
        of_value += of_cell * weight;
        store(of_writes + n, load(of_writes + n) + of_cell * (value - held * erase));
        store(here + n, of_cell * (1 - weight * erase));
      }
      grad_instruction[at.erase() + m] = sum_of<T>(of_erase);
      grad_instruction[at.value() + m] = sum_of<T>(of_value);
    }
    at.pad(of_writes);

    // Gates and content.
    const T share = instruction[at.allocation_gate()], gate = instruction[at.write_gate()];
    const T *key = instruction + at.write_key(), strength = instruction[at.write_strength()];
    const T* used = row(t, b, L::usage);
    int64_t* order = order_ + b * slots;
    at.allocate(used, s.allocation, order, keys_ + b * slots);
    at.square(cells, s.squares);
    at.find(key, strength, cells, s.squares, s.roots, s.similarity, s.content);
    const T of_free = dot(stride, of_writes, s.allocation);
    const T of_found = dot(stride, of_writes, s.content);
    grad_instruction[at.write_gate()] = of_free * share + of_found * (1 - share);
    grad_instruction[at.allocation_gate()] = gate * (of_free - of_found);
    for (int64_t n = 0; n < stride; n += lanes<T>) {
      store(of_row + n, load(of_writes + n) * (gate * (1 - share)));
      store(other + n, load(of_writes + n) * (gate * share));
    }
    clear_values(of_squares, stride);
    at.find_backward(key, strength, s.squares, s.roots, s.similarity, s.content, of_row,
                     of_products, of_squares, grad_instruction[at.write_strength()],
                     of_key_squares[0]);
    at.keys_backward(
        1, cells, of_products, of_squares, of_key_squares, grad_cells,
        [&](int64_t) { return key; }, [&](int64_t) { return grad_instruction + at.write_key(); });
    limit_key_gradient(instruction + at.read_key(0), grad_instruction + at.read_key(0),
                       at.readers * at.width);
    limit_key_gradient(key, grad_instruction + at.write_key(), at.width);

    // Allocation and usage.
    T* of_used = grad + L::usage * stride;
    at.allocate_backward(used, order, other, of_row, of_used);
    const T *old_usage = row(t - 1, b, L::usage), *old_writes = row(t - 1, b, L::writes);
    const T* old_reads = row(t - 1, b, L::first_reads);
    for (int64_t n = 0; n < stride; n += lanes<T>) {
      const Vector<T> held = load(old_usage + n), weight = load(old_writes + n);
      const Vector<T> whole = held + weight - held * weight, here = load(of_used + n);
      const Vector<T> kept = here * at.freed(instruction, old_reads, n);
      store(of_old + L::usage * stride + n, kept * (1 - weight));
      store(of_old + L::writes * stride + n, kept * (1 - held));
      store(s.forward + n, here * whole);
    }
    for (int64_t r = 0; r < at.readers; ++r) {
      const T free = instruction[at.free_gate(r)];
      T* of_old_reads = of_old + (L::first_reads + r) * stride;
      Vector<T> of_gate{};
      for (int64_t n = 0; n < stride; n += lanes<T>) {
        // The product over the other heads; a quotient would fail where this head frees all.
        const Vector<T> here = load(s.forward + n) * at.freed(instruction, old_reads, n, r);
        of_gate -= here * load(old_reads + r * stride + n);
        store(of_old_reads + n, load(of_old_reads + n) - here * free);
      }
      grad_instruction[at.free_gate(r)] = sum_of<T>(of_gate);
    }
    copy_values(grad, of_old, at.rows);
  }
  void give(int64_t t, int64_t b, const InstructionGradient<T>& out) override {
    out.give(0, int(f.c.head_count), at.saved_instruction(t, b),
             grad_instruction_ + b * at.instruction);
  }
  void end(int64_t b) override {
    if (!f.c.grad_state0[0]) return;
    at.store_state(f.c.grad_state0, grad_kept_ + b * at.kept(), grad_rows_ + b * 2 * at.rows, b);
  }

 private:
  const Frame<T>& f;
  const L at;
  Checkpoints<T> states_;
  T *first_rows_ = nullptr, *after_ = nullptr, *grad_kept_ = nullptr, *grad_rows_ = nullptr;
  T *scratch_ = nullptr, *of_key_squares_ = nullptr, *grad_instruction_ = nullptr;
  int64_t *order_ = nullptr, *keys_ = nullptr;

  int64_t scratch_rows() const { return DncScratch<T>::count + 3 + at.readers; }
  // A row after step t; step -1 is the initial state.
  const T* row(int64_t t, int64_t b, int64_t which) const {
    return (t < 0 ? first_rows_ + b * at.rows : at.saved_rows(t, b)) + which * at.stride;
  }

  // Maps the gradient of the links to that of the previous ones.
  void link_backward(const T* links, const T* writes, const T* before, T* grad_links, T* of_writes,
                     T* of_old, T* of_earlier) const {
    const int64_t stride = at.stride;
    T* of_before = of_old + L::precedence * stride;
    clear_values(of_earlier, stride);
    for (int64_t i = 0; i < at.slots; ++i) {
      T* here = grad_links + i * stride;
      here[i] = 0;
      at.pad(here);
      const T later = writes[i];
      Vector<T> of_later{};
      for (int64_t j = 0; j < stride; j += lanes<T>) {
        const Vector<T> of_link = load(here + j), old = load(links + i * stride + j);
        of_later += of_link * (load(before + j) - old);
        store(of_earlier + j, load(of_earlier + j) - of_link * old);
        store(of_before + j, load(of_before + j) + of_link * later);
        store(here + j, of_link * (1 - later - load(writes + j)));
      }
      of_earlier[i] += sum_of<T>(of_later);
    }
    axpy(stride, T(1), of_earlier, of_writes);
  }
};

struct Dnc {
  template <class T> using Forward = DncForward<T>;
  template <class T> using Backward = DncBackward<T>;
};

}  // namespace unbounded
