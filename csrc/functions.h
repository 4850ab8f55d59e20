// exp, log, sigmoid, tanh and square root of a register, within 2 ulp; NaN and infinity propagate.
//
// Range reduction and polynomials after Cephes (S. L. Moshier). Rounding to the nearest integer
// adds 1.5 x 2^(mantissa bits), so that no lane is converted to an integer: a NaN lane stays NaN
// without undefined behaviour.
#pragma once

#include <cmath>

#include "vector.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace unbounded {

template <class V, class T, int N>
UNBOUNDED_INLINE V polynomial(V x, const T (&coefficients)[N]) {
  V sum = V{} + coefficients[0];
  for (int i = 1; i < N; ++i) sum = sum * x + coefficients[i];
  return sum;
}

#if defined(__AVX512F__)
// y 2^n, for the integer n of n + 1.5 x 2^(mantissa bits). The mask of ones is for GCC, which
// reports the forms without a mask as uses of an uninitialised register.
UNBOUNDED_INLINE Vector<float> scaled(Vector<float> y, Vector<float> shifted, float magic) {
  return (Vector<float>)_mm512_maskz_scalef_ps(0xffff, (__m512)y, (__m512)(shifted - magic));
}
UNBOUNDED_INLINE Vector<double> scaled(Vector<double> y, Vector<double> shifted, double magic) {
  return (Vector<double>)_mm512_maskz_scalef_pd(0xff, (__m512d)y, (__m512d)(shifted - magic));
}
// 1 / x for a finite x other than 0, within 1 ulp; a division costs ten times as much.
UNBOUNDED_INLINE Vector<float> reciprocal(Vector<float> x) {
  const Vector<float> guess = (Vector<float>)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
  return guess + guess * (1.0f - x * guess);
}
#else
// 2^n for the integer n in the low bits of n + 1.5 x 2^23; two factors reach every exponent,
// including infinity and subnormal numbers.
UNBOUNDED_INLINE Vector<float> scaled(Vector<float> y, Vector<float> shifted, float magic) {
  typedef int32_t Signed __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  Signed n = (Signed)((Bits<float>)shifted - (Bits<float>)(Vector<float>{} + magic));
  Signed half = n >> 1;
  Bits<float> first = (Bits<float>)(half + 127) << 23;
  Bits<float> second = (Bits<float>)(n - half + 127) << 23;
  return y * (Vector<float>)first * (Vector<float>)second;
}
UNBOUNDED_INLINE Vector<double> scaled(Vector<double> y, Vector<double> shifted, double magic) {
  typedef int64_t Signed __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  Signed n = (Signed)((Bits<double>)shifted - (Bits<double>)(Vector<double>{} + magic));
  Signed half = n >> 1;
  Bits<double> first = (Bits<double>)(half + 1023) << 52;
  Bits<double> second = (Bits<double>)(n - half + 1023) << 52;
  return y * (Vector<double>)first * (Vector<double>)second;
}
UNBOUNDED_INLINE Vector<float> reciprocal(Vector<float> x) { return 1.0f / x; }
#endif
UNBOUNDED_INLINE Vector<double> reciprocal(Vector<double> x) { return 1.0 / x; }

UNBOUNDED_INLINE Vector<float> exponential(Vector<float> x) {
  constexpr float magic = 12582912.0f;
  x = at_least(at_most(x, 89.0f), -104.0f);
  Vector<float> shifted = x * 1.44269504088896341f + magic;
  Vector<float> n = shifted - magic;
  Vector<float> r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  constexpr float p[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                         4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  return scaled(polynomial(r, p) * (r * r) + r + 1.0f, shifted, magic);
}
UNBOUNDED_INLINE Vector<double> exponential(Vector<double> x) {
  constexpr double magic = 6755399441055744.0;
  x = at_least(at_most(x, 710.0), -746.0);
  Vector<double> shifted = x * 1.4426950408889634073599 + magic;
  Vector<double> n = shifted - magic;
  Vector<double> r = x - n * 6.93145751953125e-1;
  r = r - n * 1.42860682030941723212e-6;
  constexpr double p[] = {1.26177193074810590878e-4, 3.02994407707441961300e-2,
                          9.99999999999999999910e-1};
  constexpr double q[] = {3.00198505138664455042e-6, 2.52448340349684104192e-3,
                          2.27265548208155028766e-1, 2.00000000000000000005e0};
  Vector<double> square = r * r;
  Vector<double> odd = r * polynomial(square, p);
  return scaled(1.0 + 2.0 * (odd / (polynomial(square, q) - odd)), shifted, magic);
}

// log x of normal numbers; -infinity at 0, NaN below. The exponent is extracted as an integer; x is
// then between sqrt(1/2) and sqrt(2).
UNBOUNDED_INLINE Vector<float> logarithm(Vector<float> x) {
  typedef int32_t Signed __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  constexpr float magic = 12582912.0f;
  const Signed bits = (Signed)x, exponent = (bits - 0x3f3504f3) >> 23;
  const Vector<float> n = (Vector<float>)(exponent + (Signed)(Vector<float>{} + magic)) - magic;
  const Vector<float> f = (Vector<float>)(bits - (exponent << 23)) - 1.0f;
  constexpr float p[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                         -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                         2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  const Vector<float> square = f * f;
  Vector<float> y = polynomial(f, p) * f * square - n * 2.12194440e-4f - square * 0.5f;
  y = f + y + n * 0.693359375f;
  y = x <= 3.40282347e38f ? y : x;
  y = x == 0.0f ? Vector<float>{} - __builtin_inff() : y;
  return x < 0.0f ? Vector<float>{} + __builtin_nanf("") : y;
}
UNBOUNDED_INLINE Vector<double> logarithm(Vector<double> x) {
  typedef int64_t Signed __attribute__((vector_size(UNBOUNDED_VECTOR_BYTES)));
  constexpr double magic = 6755399441055744.0;
  const Signed bits = (Signed)x, exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const Vector<double> n = (Vector<double>)(exponent + (Signed)(Vector<double>{} + magic)) - magic;
  const Vector<double> f = (Vector<double>)(bits - (exponent << 52)) - 1.0;
  constexpr double p[] = {1.01875663804580931796e-4, 4.97494994976747001425e-1,
                          4.70579119878881725854e0,  1.44989225341610930846e1,
                          1.79368678507819816313e1,  7.70838733755885391666e0};
  constexpr double q[] = {1.0,
                          1.12873587189167450590e1,
                          4.52279145837532221105e1,
                          8.29875266912776603211e1,
                          7.11544750618563894466e1,
                          2.31251620126765340583e1};
  const Vector<double> square = f * f;
  Vector<double> y = f * (square * polynomial(f, p) / polynomial(f, q)) -
                     n * 2.121944400546905827679e-4 - square * 0.5;
  y = f + y + n * 0.693359375;
  y = x <= 1.7976931348623157e308 ? y : x;
  y = x == 0.0 ? Vector<double>{} - __builtin_inf() : y;
  return x < 0.0 ? Vector<double>{} + __builtin_nan("") : y;
}

template <class T>
UNBOUNDED_INLINE Vector<T> square_root_of(Vector<T> x) {
  T values[lanes<T>];  // compilers recognise this loop as one instruction
  store(values, x);
  for (int i = 0; i < lanes<T>; ++i) values[i] = std::sqrt(values[i]);
  return load(values);
}
UNBOUNDED_INLINE Vector<float> square_root(Vector<float> x) { return square_root_of<float>(x); }
UNBOUNDED_INLINE Vector<double> square_root(Vector<double> x) { return square_root_of<double>(x); }

// 1 + e^x without overflow; without the cut, e^-x would be subnormal.
UNBOUNDED_INLINE Vector<float> one_and_exponential(Vector<float> x) {
  return 1.0f + exponential(at_most(x, 87.0f));
}
UNBOUNDED_INLINE Vector<double> one_and_exponential(Vector<double> x) {
  return 1.0 + exponential(at_most(x, 708.0));
}

UNBOUNDED_INLINE Vector<float> sigmoid(Vector<float> x) {
  const Vector<float> y = reciprocal(one_and_exponential(-x));
  return x < -87.0f ? Vector<float>{} : y;
}
UNBOUNDED_INLINE Vector<double> sigmoid(Vector<double> x) {
  const Vector<double> y = reciprocal(one_and_exponential(-x));
  return x < -708.0 ? Vector<double>{} : y;
}

UNBOUNDED_INLINE Vector<float> hyperbolic_tangent(Vector<float> x) {
  const Bits<float> sign = (Bits<float>)x & 0x80000000u;
  Vector<float> size = (Vector<float>)((Bits<float>)x ^ sign);
  Vector<float> square = x * x;
  constexpr float p[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                         1.33314422036e-1f, -3.33332819422e-1f};
  Vector<float> near_zero = polynomial(square, p) * square * x + x;
  Vector<float> far = 1.0f - 2.0f * reciprocal(one_and_exponential(size + size));
  far = (Vector<float>)((Bits<float>)far | sign);  // it is above 0
  return size < 0.625f ? near_zero : far;
}
UNBOUNDED_INLINE Vector<double> hyperbolic_tangent(Vector<double> x) {
  const Bits<double> sign = (Bits<double>)x & 0x8000000000000000u;
  Vector<double> size = (Vector<double>)((Bits<double>)x ^ sign);
  Vector<double> square = x * x;
  constexpr double p[] = {-9.64399179425052238628e-1, -9.92877231001918586564e1,
                          -1.61468768441708447952e3};
  constexpr double q[] = {1.0, 1.12811678491632931402e2, 2.23548839060100448583e3,
                          4.84406305325125486048e3};
  Vector<double> near_zero = x * square * (polynomial(square, p) / polynomial(square, q)) + x;
  Vector<double> far = 1.0 - 2.0 * reciprocal(one_and_exponential(size + size));
  far = (Vector<double>)((Bits<double>)far | sign);
  return size < 0.625 ? near_zero : far;
}

}  // namespace unbounded
