// Slots that are addressed by content (Graves et al. 2014, eq. 5 and 6), and their gradients.
//
// Cells are laid out [M][slots], so that a register holds one element of neighbouring slots, and
// only sums over all slots cross registers. Rows of slots are padded to whole registers; cells and
// weights are 0 there.
#pragma once

#include "checkpoints.h"
#include "functions.h"

namespace unbounded {

// Limit of cells and keys: squares of longer ones overflow in the float32 cosine.
template <class T>
constexpr T tape_limit = T(16777216);

template <class T>
UNBOUNDED_INLINE Vector<T> limited(Vector<T> x) {
  return at_least(at_most(x, tape_limit<T>), -tape_limit<T>);
}

// A limited key has no gradient.
template <class T>
void limit_key(T* key, int64_t width) {
  for (T* k = key; k < key + width; ++k)
    *k = *k > tape_limit<T> ? tape_limit<T> : *k < -tape_limit<T> ? -tape_limit<T> : *k;
}
template <class T>
void limit_key_gradient(const T* key, T* of_key, int64_t width) {
  for (int64_t m = 0; m < width; ++m)
    if (key[m] == tape_limit<T> || key[m] == -tape_limit<T>) of_key[m] = 0;
}

template <class T>
struct Slots {
  const int64_t slots, width, stride;

  Slots(int64_t slots, int64_t width)
      : slots(slots), width(width), stride((slots + lanes<T> - 1) / lanes<T> * lanes<T>) {}

  int64_t cells() const { return width * stride; }
  void pad(T* row) const { clear_values(row + slots, stride - slots); }
  // Weights proportional to e^x; the largest x is subtracted first, so that the sum is at least 1.
  void softmax(T* x) const {
    for (int64_t n = slots; n < stride; ++n) x[n] = x[0];
    Vector<T> most = load(x);
    for (int64_t n = lanes<T>; n < stride; n += lanes<T>) {
      const Vector<T> here = load(x + n);
      most = here > most ? here : most;
    }
    T largest = most[0];
    for (int i = 1; i < lanes<T>; ++i) largest = most[i] > largest ? most[i] : largest;
    for (int64_t n = 0; n < stride; n += lanes<T>) store(x + n, exponential(load(x + n) - largest));
    pad(x);
    Vector<T> sum{};
    for (int64_t n = 0; n < stride; n += lanes<T>) sum += load(x + n);
    const T scale = 1 / sum_of<T>(sum);
    for (int64_t n = 0; n < stride; n += lanes<T>) store(x + n, load(x + n) * scale);
  }
  // Maps the gradient of the weights to that of x, in place.
  void softmax_gradient(const T* weights, T* grad) const {
    const T mean = dot(stride, weights, grad);
    for (int64_t n = 0; n < stride; n += lanes<T>)
      store(grad + n, load(weights + n) * (load(grad + n) - mean));
  }

  // Maps [N, M] to [M, stride] and back.
  void spread(T* to, const T* from) const {
    for (int64_t m = 0; m < width; ++m) {
      for (int64_t n = 0; n < slots; ++n) to[m * stride + n] = from[n * width + m];
      pad(to + m * stride);
    }
  }
  void gather(T* to, const T* from) const {
    for (int64_t n = 0; n < slots; ++n)
      for (int64_t m = 0; m < width; ++m) to[n * width + m] = from[m * stride + n];
  }

  // The squared norms of the cells.
  void square(const T* cells, T* squares) const {
    const int64_t all = stride, size = width;
    for (int64_t n = 0; n < all; n += lanes<T>) {
      Vector<T> sum{};
      for (int64_t m = 0; m < size; ++m) {
        const Vector<T> cell = load(cells + m * all + n);
        sum += cell * cell;
      }
      store(squares + n, sum);
    }
  }

  // The weights of slots for a key, and for the backward pass the cosines and their roots.
  void find(const T* key, T strength, const T* cells, const T* squares, T* roots, T* similarity,
            T* content) const {
    const T key_square = dot(width, key, key);
    // Local sizes: a store may alias whatever a reference points to.
    const int64_t all = stride, size = width;
    for (int64_t n = 0; n < all; n += lanes<T>) {
      Vector<T> product{};
      for (int64_t m = 0; m < size; ++m) product += load(cells + m * all + n) * key[m];
      const Vector<T> root = square_root(load(squares + n) * key_square + T(1e-6));
      const Vector<T> cosine = product / root;                                           // (6)
      store(roots + n, root);
      store(similarity + n, cosine);
      store(content + n, cosine * strength);
    }
    softmax(content);                                                                    // (5)
  }

  // From the gradient of the weights, which is lost: `of_products` gets those of k . M(i);
  // `of_squares` accumulates those of the squared norms. Sets those of the strength and of the
  // key's squared norm.
  void find_backward(const T* key, T strength, const T* squares, const T* roots,
                     const T* similarity, const T* content, T* grad, T* of_products,
                     T* of_squares, T& of_strength, T& of_key_square) const {
    softmax_gradient(content, grad);                                                     // (5)
    of_strength = dot(stride, grad, similarity);
    const T key_square = dot(width, key, key);
    Vector<T> sum{};
    const int64_t all = stride;
    for (int64_t n = 0; n < all; n += lanes<T>) {                                        // (6)
      const Vector<T> of_similarity = load(grad + n) * strength / load(roots + n);
      const Vector<T> of_product_of_squares =
          of_similarity * load(similarity + n) * T(-0.5) / load(roots + n);
      store(of_products + n, of_similarity);
      store(of_squares + n, load(of_squares + n) + of_product_of_squares * key_square);
      sum += of_product_of_squares * load(squares + n);
    }
    of_key_square = sum_of<T>(sum);
  }

  // The gradients of the cells from those of products and squared norms; `of_key(h, m)` is where
  // that of a key goes.
  template <class Key, class OfKey>
  void keys_backward(int64_t heads, const T* cells, const T* of_products, const T* of_squares,
                     const T* of_key_squares, T* grad_cells, Key key_of, OfKey of_key_of) const {
    const int64_t all = stride, size = width;
    for (int64_t m = 0; m < size; ++m) {
      const T* row = cells + m * all;
      T* grad = grad_cells + m * all;
      for (int64_t h = 0; h < heads; ++h) {
        const T *of_row = of_products + h * all, key = key_of(h)[m];
        const T of_squares_once = h == 0 ? 2 : 0;  // added once for all heads
        Vector<T> of_key{};
        for (int64_t n = 0; n < all; n += lanes<T>) {
          const Vector<T> cell = load(row + n), of_product = load(of_row + n);
          of_key += cell * of_product;
          store(grad + n, load(grad + n) + of_product * key +
                              cell * load(of_squares + n) * of_squares_once);
        }
        of_key_of(h)[m] = sum_of<T>(of_key) + 2 * key * of_key_squares[h];
      }
    }
  }

  // A cell that was limited has no gradient.
  void limit_backward(const T* written, T* grad) const {
    const Vector<T> most = Vector<T>{} + tape_limit<T>, none{};
    const Bits<T> unsigned_bits = ~Bits<T>{} >> 1;
    const int64_t all = stride;
    for (int64_t n = 0; n < all; n += lanes<T>) {
      const auto size = (Vector<T>)((Bits<T>)load(written + n) & unsigned_bits);
      store(grad + n, size < most ? load(grad + n) : none);
    }
  }
};

}  // namespace unbounded
