// Products in tiles of the processor's matrix unit (AMX), of bfloat16 numbers, summed in float32.
//
// At precision high a number is the sum of two bfloat16 numbers, its rounded value and the
// remainder, and a product is the sum of the three larger of their four products: sixteen bits of
// mantissa, of float32's 24. At precision medium only the first one is used: eight bits. The names
// are those of torch.set_float32_matmul_precision. At precision high an infinite number has a NaN
// part, so that the result is NaN instead of infinity. Without such a unit, and for doubles, all
// products have the highest precision.
//
// A panel of packed weights holds blocks of `tile_depth` inner columns: the high tiles of its first
// and second sixteen columns, then the low ones. A tile stores pairs of neighbouring inner columns.
// At precision high this takes as many bytes as float32.
#pragma once

#include "panel.h"

// A compiler that supports this code in one function of a file for all AVX-512 processors.
#if defined(__AVX512F__) && defined(__x86_64__) && defined(__linux__) && \
    (defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 11)
#define UNBOUNDED_TILES 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define UNBOUNDED_TILED __attribute__((target("amx-tile,amx-bf16,avx512bf16")))
#else
#define UNBOUNDED_TILES 0
#endif

namespace unbounded {

enum class Precision { highest, high, medium };

constexpr int64_t tile_depth = 32, tile_height = 16;
constexpr int64_t tile_values = tile_height * tile_depth / 2;  // in a tile, counted as float32

inline int64_t in_depths(int64_t inner) { return (inner + tile_depth - 1) / tile_depth; }

// Size of a panel with so many inner columns, counted in numbers of T.
template <class T>
int64_t panel_size(Precision precision, int64_t inner) {
  if (precision == Precision::highest) return inner * panel_width<T>;
  return in_depths(inner) * tile_values * (precision == Precision::high ? 4 : 2);
}

// The left side of a product in tiles: rows of bfloat16 numbers, or blocks of them.
struct Left {
  const float* high;
  int64_t row_stride;    // between rows; all counted as float32
  int64_t depth_stride;  // between blocks of `tile_depth` inner columns
  int64_t low;           // from a high part to its low part

  Left at_row(int64_t row) const {
    return {high + row * row_stride, row_stride, depth_stride, low};
  }
  Left from_depth(int64_t depths) const {
    return {high + depths * depth_stride, row_stride, depth_stride, low};
  }
};

// Numbers in a row of `round_rows` for so many blocks: slightly more than a power of two.
inline int64_t left_stride(int64_t depths) { return depths * tile_depth + tile_height; }

#if UNBOUNDED_TILES

// Asks the system once for permission to use the unit.
inline bool has_tiles() {
  static const bool has = [] {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    const bool of_unit = (d >> 22 & 1) && (d >> 24 & 1);
    if (!of_unit || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a >> 5 & 1)) return false;
    constexpr int want_state = 0x1023, tile_data = 18;  // of arch_prctl
    return syscall(SYS_arch_prctl, want_state, tile_data) == 0;
  }();
  return has;
}

// Sets the unit's shapes for `rows` rows of the left side, until the end of the scope. This
// thread's other tile contents are lost; libraries set their own before each use.
class TileShapes {
 public:
  UNBOUNDED_TILED explicit TileShapes(int rows) { want(rows); }
  UNBOUNDED_TILED ~TileShapes() { _tile_release(); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;

  UNBOUNDED_TILED void want(int rows) {
    if (rows == rows_) return;
    rows_ = rows;
    Shapes shapes{};
    shapes.palette = 1;
    for (int i = 0; i < 8; ++i) {
      shapes.row_bytes[i] = 64;
      shapes.rows[i] = i < 4 ? uint8_t(rows) : uint8_t(tile_height);
    }
    asm volatile("" : : "r"(&shapes) : "memory");  // GCC assumes that eight bytes are read
    _tile_loadconfig(&shapes);
  }

 private:
  struct alignas(64) Shapes {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  int rows_ = 0;
};

// 16 numbers of two rows as bfloat16, in pairs, and the remainders of the rounding.
struct Rounded {
  __m512i high, low;
};
template <bool WITH_LOW>
UNBOUNDED_TILED inline Rounded rounded_pairs(__m512 even, __m512 odd) {
  const __m512i in_pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                            24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                            16, 0);
  Rounded made;
  made.high = _mm512_permutexvar_epi16(in_pairs, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
  made.low = __m512i{};
  if (WITH_LOW) {
    const __m512 even_left =
        _mm512_sub_ps(even, _mm512_castsi512_ps(_mm512_slli_epi32(made.high, 16)));
    const __m512 odd_left = _mm512_sub_ps(
        odd, _mm512_castsi512_ps(_mm512_and_si512(made.high, _mm512_set1_epi32(int(0xffff0000)))));
    made.low =
        _mm512_permutexvar_epi16(in_pairs, (__m512i)_mm512_cvtne2ps_pbh(odd_left, even_left));
  }
  return made;
}

// The tiles of a panel's block from its numbers, [tile_depth][32].
template <bool WITH_LOW>
UNBOUNDED_TILED inline void round_block(const float* block, float* to) {
  for (int half = 0; half < 2; ++half)
    for (int pair = 0; pair < tile_height; ++pair) {
      const float* from = block + 2 * pair * 32 + half * 16;
      const Rounded made =
          rounded_pairs<WITH_LOW>(_mm512_loadu_ps(from), _mm512_loadu_ps(from + 32));
      _mm512_storeu_si512(to + half * tile_values + pair * 16, made.high);
      if (WITH_LOW) _mm512_storeu_si512(to + (2 + half) * tile_values + pair * 16, made.low);
    }
}

UNBOUNDED_TILED inline __m512 widened(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// `count` numbers of a row, of 32, high and low; the others are 0.
template <bool WITH_LOW>
UNBOUNDED_TILED inline void round_run(const float* from, int count, float* high, float* low) {
  const unsigned mask = count >= 32 ? ~0u : (1u << count) - 1;
  const __m512 one = _mm512_maskz_loadu_ps(__mmask16(mask), from);
  const __m512 two = _mm512_maskz_loadu_ps(__mmask16(mask >> 16), from + 16);
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(two, one);
  _mm512_storeu_si512(high, both);
  if (!WITH_LOW) return;
  const __m512 one_left = _mm512_sub_ps(one, widened(_mm512_castsi512_si256(both)));
  const __m512 two_left = _mm512_sub_ps(two, widened(_mm512_extracti64x4_epi64(both, 1)));
  _mm512_storeu_si512(low, (__m512i)_mm512_cvtne2ps_pbh(two_left, one_left));
}

// out[b, c] = starts[c] + sum_k left[b, k] panel[k, c] for the shapes' number of rows and 32
// columns, over `depths` blocks; sums start at rows of `start`, `start_stride` apart, or at 0.
template <bool WITH_LOW>
UNBOUNDED_TILED inline void tile_product(int64_t depths, Left left, const float* panel,
                                         const float* start, int64_t start_stride, float* out,
                                         int64_t out_stride) {
  constexpr int64_t line = 64, half = tile_values;
  const int64_t rows_apart = left.row_stride * int64_t(sizeof(float));
  asm volatile("" : : : "memory");  // GCC does not see that tiles are loaded from memory
  if (start) {
    _tile_loadd(0, start, start_stride * int64_t(sizeof(float)));
    _tile_loadd(1, start + 16, start_stride * int64_t(sizeof(float)));
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  const float* from = left.high;
  constexpr int64_t depth = (WITH_LOW ? 4 : 2) * half;
  for (int64_t k = 0; k < depths; ++k, from += left.depth_stride) {
    _tile_loadd(2, from, rows_apart);
    _tile_loadd(4, panel, line);
    _tile_dpbf16ps(0, 2, 4);
    _tile_loadd(5, panel + half, line);
    _tile_dpbf16ps(1, 2, 5);
    if (WITH_LOW) {
      _tile_loadd(3, from + left.low, rows_apart);
      _tile_dpbf16ps(0, 3, 4);
      _tile_dpbf16ps(1, 3, 5);
      _tile_loadd(6, panel + 2 * half, line);
      _tile_dpbf16ps(0, 2, 6);
      _tile_loadd(7, panel + 3 * half, line);
      _tile_dpbf16ps(1, 2, 7);
    }
    panel += depth;
  }
  _tile_stored(0, out, out_stride * int64_t(sizeof(float)));
  _tile_stored(1, out + 16, out_stride * int64_t(sizeof(float)));
}

#else

inline bool has_tiles() { return false; }

class TileShapes {
 public:
  explicit TileShapes(int) {}
  void want(int) {}
};
template <bool>
void round_block(const float*, float*) {}
template <bool>
void round_run(const float*, int, float*, float*) {}
template <bool>
void tile_product(int64_t, Left, const float*, const float*, int64_t, float*, int64_t) {}

#endif

// The requested precision, or the highest if there is no other.
template <class T>
Precision precision_of(int64_t asked) {
  if (sizeof(T) != sizeof(float) || asked == 0 || !has_tiles()) return Precision::highest;
  return Precision(asked);
}

inline void round_block(Precision precision, const float* block, float* to) {
  precision == Precision::high ? round_block<true>(block, to) : round_block<false>(block, to);
}

// Rows of two segments, rounded side by side, each padded with zeros to whole blocks.
inline Left round_rows(Precision precision, Segment<float> first, Segment<float> second,
                       int64_t rows, float* to) {
  const int64_t depths = in_depths(first.count) + in_depths(second.count);
  const Left made{to, left_stride(depths), tile_depth / 2, depths * tile_depth / 2};
  for (int64_t r = 0; r < rows; ++r) {
    float* high = to + r * made.row_stride;
    for (const Segment<float>* in : {&first, &second})
      for (int64_t k = 0; k < in->count; k += tile_depth, high += made.depth_stride) {
        const float* from = in->data + r * in->stride + k;
        const int count = int(std::min(tile_depth, in->count - k));
        precision == Precision::high ? round_run<true>(from, count, high, high + made.low)
                                     : round_run<false>(from, count, high, nullptr);
      }
  }
  return made;
}

// A tile of the left side from its numbers, [16][tile_depth].
inline void round_rows_of_tile(Precision precision, const float* from, float* to) {
  for (int64_t r = 0; r < tile_height; ++r, from += tile_depth, to += tile_depth / 2)
    precision == Precision::high ? round_run<true>(from, tile_depth, to, to + tile_values)
                                 : round_run<false>(from, tile_depth, to, nullptr);
}

inline void tile_product(Precision precision, int64_t depths, const Left& left, const float* panel,
                         const float* start, int64_t start_stride, float* out,
                         int64_t out_stride) {
  if (precision == Precision::high)
    return tile_product<true>(depths, left, panel, start, start_stride, out, out_stride);
  tile_product<false>(depths, left, panel, start, start_stride, out, out_stride);
}

// Calls body(first row, rows) for blocks of as many rows as a tile has.
template <class Body>
inline void for_tile_blocks(int64_t rows, Body body) {
  for (int64_t first = 0; first < rows; first += tile_height)
    body(first, int(std::min(tile_height, rows - first)));
}

// As in panel.h, for a precision. `inner` columns of a panel are stored at `panel`.
template <class T, class Pack>
void pack_tiles(Precision precision, T* panel, int64_t inner, Pack pack) {
  if constexpr (sizeof(T) == sizeof(float)) {
    T block[tile_depth * 32];
    for (int64_t k = 0; k < inner; k += tile_depth, panel += panel_size<T>(precision, tile_depth)) {
      const int64_t count = std::min(tile_depth, inner - k);
      pack(block, k, count);
      std::memset(block + count * 32, 0, sizeof(T) * size_t((tile_depth - count) * 32));
      round_block(precision, block, panel);
    }
  }
}
template <class T>
void pack_transposed(Precision precision, T* panel, const T* weights, int64_t stride, int64_t count,
                     int64_t columns) {
  if (precision == Precision::highest)
    return pack_transposed(panel, weights, stride, count, columns);
  pack_tiles(precision, panel, count, [&](T* block, int64_t k, int64_t some) {
    pack_transposed(block, weights + k, stride, some, columns);
  });
}
template <class T>
void pack_straight(Precision precision, T* panel, const T* weights, int64_t stride, int64_t count,
                   int64_t columns) {
  if (precision == Precision::highest) return pack_straight(panel, weights, stride, count, columns);
  pack_tiles(precision, panel, count, [&](T* block, int64_t k, int64_t some) {
    pack_straight(block, weights + k * stride, stride, some, columns);
  });
}

}  // namespace unbounded
