// One SIMD register as a C++ value, for whichever instruction set this file is compiled for.
//
// GCC's and clang's vector extensions instead of intrinsics: one source serves AVX-512, AVX2, SSE2
// and NEON, and the compiler fuses `a * b + c` where the target has a fused multiply-add.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if !defined(__GNUC__)
#error "the kernels need GCC or clang (vector extensions)"
#endif

#if defined(__AVX512F__)
#define UNBOUNDED_VECTOR_BYTES 64
#define UNBOUNDED_MAX_ROWS 14  // 14 rows x 2 registers of sums, of 32 registers
#elif defined(__AVX2__)
#define UNBOUNDED_VECTOR_BYTES 32
#define UNBOUNDED_MAX_ROWS 6  // 6 x 2 of 16
#elif defined(__aarch64__)
#define UNBOUNDED_VECTOR_BYTES 16
#define UNBOUNDED_MAX_ROWS 12  // 12 x 2 of 32
#else
#define UNBOUNDED_VECTOR_BYTES 16
#define UNBOUNDED_MAX_ROWS 6
#endif

#define UNBOUNDED_INLINE inline __attribute__((always_inline))
#define UNBOUNDED_INLINED __attribute__((always_inline))  // after the parameters of a lambda

namespace unbounded {

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  typedef uint32_t bits __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  typedef uint64_t bits __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
using Bits = typename VectorOf<T>::bits;

template <class T>
inline constexpr int lanes = UNBOUNDED_VECTOR_BYTES / int(sizeof(T));

template <class T>
UNBOUNDED_INLINE Vector<T> load(const T* from) {
  Vector<T> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
UNBOUNDED_INLINE void store(T* to, Vector<T> v) {
  __builtin_memcpy(to, &v, sizeof v);
}
template <class T>
UNBOUNDED_INLINE Vector<T> fill(T x) {
  return x - Vector<T>{};  // x + 0 would be an addition, because of -0; x - 0 is x at no cost
}

// Whether one of n values is NaN.
template <class T>
inline bool has_nan(const T* x, int64_t n) {
  Bits<T> found{};
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) {
    const Vector<T> v = load(x + i);
    found |= (Bits<T>)(v != v);
  }
  bool is_there = false;
  for (int k = 0; k < lanes<T>; ++k) is_there |= found[k] != 0;
  for (; i < n; ++i) is_there |= x[i] != x[i];
  return is_there;
}

// The minimum and the maximum of x and a limit other than 0; NaN if x is NaN. One instruction,
// which compilers do not derive from a comparison and a selection.
#if defined(__AVX512F__)
UNBOUNDED_INLINE Vector<float> at_most(Vector<float> x, float limit) {
  return (Vector<float>)_mm512_maskz_min_ps(0xffff, (__m512)(Vector<float>{} + limit), (__m512)x);
}
UNBOUNDED_INLINE Vector<float> at_least(Vector<float> x, float limit) {
  return (Vector<float>)_mm512_maskz_max_ps(0xffff, (__m512)(Vector<float>{} + limit), (__m512)x);
}
UNBOUNDED_INLINE Vector<double> at_most(Vector<double> x, double limit) {
  return (Vector<double>)_mm512_maskz_min_pd(0xff, (__m512d)(Vector<double>{} + limit), (__m512d)x);
}
UNBOUNDED_INLINE Vector<double> at_least(Vector<double> x, double limit) {
  return (Vector<double>)_mm512_maskz_max_pd(0xff, (__m512d)(Vector<double>{} + limit), (__m512d)x);
}
#elif defined(__AVX2__)
UNBOUNDED_INLINE Vector<float> at_most(Vector<float> x, float limit) {
  return (Vector<float>)_mm256_min_ps((__m256)(Vector<float>{} + limit), (__m256)x);
}
UNBOUNDED_INLINE Vector<float> at_least(Vector<float> x, float limit) {
  return (Vector<float>)_mm256_max_ps((__m256)(Vector<float>{} + limit), (__m256)x);
}
UNBOUNDED_INLINE Vector<double> at_most(Vector<double> x, double limit) {
  return (Vector<double>)_mm256_min_pd((__m256d)(Vector<double>{} + limit), (__m256d)x);
}
UNBOUNDED_INLINE Vector<double> at_least(Vector<double> x, double limit) {
  return (Vector<double>)_mm256_max_pd((__m256d)(Vector<double>{} + limit), (__m256d)x);
}
#else
template <class V, class T>
UNBOUNDED_INLINE V at_most(V x, T limit) {
  return x > limit ? V{} + limit : x;
}
template <class V, class T>
UNBOUNDED_INLINE V at_least(V x, T limit) {
  return x < limit ? V{} + limit : x;
}
#endif

// Only the first `count` lanes, 0 or more: the others read as zero and are not written. With masks
// where available: lanes assembled one by one go through memory, and stall there.
#if defined(__AVX512F__)
template <class T>
UNBOUNDED_INLINE unsigned first_lanes(int count) {
  return count >= lanes<T> ? (1u << lanes<T>) - 1 : (1u << count) - 1;
}
template <class T>
UNBOUNDED_INLINE Vector<T> load_first(const T* from, int count) {
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm512_maskz_loadu_ps(__mmask16(first_lanes<T>(count)), from);
  else
    return (Vector<T>)_mm512_maskz_loadu_pd(__mmask8(first_lanes<T>(count)), from);
}
template <class T>
UNBOUNDED_INLINE void store_first(T* to, Vector<T> v, int count) {
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(to, __mmask16(first_lanes<T>(count)), (__m512)v);
  else
    _mm512_mask_storeu_pd(to, __mmask8(first_lanes<T>(count)), (__m512d)v);
}
#elif defined(__AVX2__)
// Masked loads only: several processors execute a masked store lane by lane.
template <class T>
UNBOUNDED_INLINE Vector<T> load_first(const T* from, int count) {
  if (count >= lanes<T>) return load(from);
  typedef typename std::conditional<sizeof(T) == 4, int32_t, int64_t>::type Int;
  typedef Int Ints __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  Ints place;
  for (int i = 0; i < lanes<T>; ++i) place[i] = i;
  const __m256i mask = (__m256i)(place < Ints{} + Int(count));
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm256_maskload_ps(from, mask);
  else
    return (Vector<T>)_mm256_maskload_pd(from, mask);
}
template <class T>
UNBOUNDED_INLINE void store_first(T* to, Vector<T> v, int count) {
  if (count >= lanes<T>) return store(to, v);
  __m128i part = _mm256_castsi256_si128((__m256i)v);
  int bytes = count * int(sizeof(T));
  char* at = reinterpret_cast<char*>(to);
  if (bytes & 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), part);
    part = _mm256_extracti128_si256((__m256i)v, 1);
    at += 16;
  }
  if (bytes & 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at), part);
    part = _mm_unpackhi_epi64(part, part);
    at += 8;
  }
  if (bytes & 4) {
    const int32_t last = _mm_cvtsi128_si32(part);
    __builtin_memcpy(at, &last, 4);
  }
}
#else
template <class T>
UNBOUNDED_INLINE Vector<T> load_first(const T* from, int count) {
  if (count >= lanes<T>) return load(from);
  Vector<T> v{};
  for (int i = 0; i < count; ++i) v[i] = from[i];
  return v;
}
template <class T>
UNBOUNDED_INLINE void store_first(T* to, Vector<T> v, int count) {
  if (count >= lanes<T>) return store(to, v);
  for (int i = 0; i < count; ++i) to[i] = v[i];
}
#endif

// The lanes in `bits` of one register, the others of another.
template <class T>
UNBOUNDED_INLINE Vector<T> chosen(uint32_t bits, Vector<T> one, Vector<T> other) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm512_mask_blend_ps(__mmask16(bits), (__m512)other, (__m512)one);
  else
    return (Vector<T>)_mm512_mask_blend_pd(__mmask8(bits), (__m512d)other, (__m512d)one);
#else
  Bits<T> lane;
  for (int i = 0; i < lanes<T>; ++i) lane[i] = 1u << i;
  return (lane & bits) != 0 ? one : other;
#endif
}

// A whole register, or its first `count` lanes. A mask for a whole one would cost a third of the
// work on it, above all for writes.
template <class T>
struct Whole {
  UNBOUNDED_INLINE Vector<T> get(const T* from) const { return load(from); }
  UNBOUNDED_INLINE void put(T* to, Vector<T> v) const { store(to, v); }
};
template <class T>
struct Part {
  int count;
  UNBOUNDED_INLINE Vector<T> get(const T* from) const { return load_first(from, count); }
  UNBOUNDED_INLINE void put(T* to, Vector<T> v) const { store_first<T>(to, v, count); }
};

// body(i, Whole or Part) for the registers of a row of `count` values, starting at value i.
template <class T, class Body>
UNBOUNDED_INLINE void for_registers(int count, Body body) {
  int i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) body(i, Whole<T>{});
  if (i < count) body(i, Part<T>{count - i});
}

// to[k][c] = from[c][k] of a square of lanes<T> x lanes<T> values in rows of those strides.
template <class T>
inline void transpose(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int n = lanes<T>;
#if defined(__clang__)  // no shuffle by a vector of positions
  for (int k = 0; k < n; ++k)
    for (int c = 0; c < n; ++c) to[k * to_stride + c] = from[c * from_stride + k];
#else
  Vector<T> rows[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) rows[i] = load(from + i * from_stride);
  // Swaps the off-diagonal halves of squares of 2 distance, for all distances.
#pragma GCC unroll 4
  for (int distance = 1; distance < n; distance *= 2) {
    Bits<T> upper, lower;
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      upper[i] = i & distance ? n + i - distance : i;
      lower[i] = i & distance ? n + i : i + distance;
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i)
      if (!(i & distance)) {
        const Vector<T> one = rows[i], two = rows[i + distance];
        rows[i] = __builtin_shuffle(one, two, upper);
        rows[i + distance] = __builtin_shuffle(one, two, lower);
      }
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) store(to + i * to_stride, rows[i]);
#endif
}

template <class T>
UNBOUNDED_INLINE T sum_of(Vector<T> v) {
  // Pairwise, so that the result does not depend on the compiler's reduction.
  T halves[lanes<T>];
  store(halves, v);
  for (int width = lanes<T> / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) halves[i] += halves[i + width];
  return halves[0];
}

template <class T>
UNBOUNDED_INLINE void axpy(int64_t count, T factor, const T* x, T* y) {
  const Vector<T> a = fill(factor);
  int64_t i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) store(y + i, load(y + i) + a * load(x + i));
  for (; i < count; ++i) y[i] += factor * x[i];
}

template <class T>
UNBOUNDED_INLINE T dot(int64_t count, const T* x, const T* y) {
  Vector<T> even{}, odd{};
  int64_t i = 0;
  for (; i + 2 * lanes<T> <= count; i += 2 * lanes<T>) {
    even += load(x + i) * load(y + i);
    odd += load(x + i + lanes<T>) * load(y + i + lanes<T>);
  }
  T sum = sum_of<T>(even + odd);
  for (; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace unbounded
