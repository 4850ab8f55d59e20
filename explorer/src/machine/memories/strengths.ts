// What memories of rows with strengths share. Stack, queue and deque are read and popped from an end:
// Grefenstette et al. 2015, arXiv:1506.02516.

import type { Vector } from '../tensors.ts'

/** A smaller sum of weights counts as 0. */
const TOTAL_FLOOR = 1e-37

export type End = 'top' | 'bottom'

/** s_t[i] = max(0, s[i] - max(0, u - sum of s[j] nearer to the end))      (2), (4), (7), (8) */
export function popped(strengths: Vector, pop: number, end: End): Vector {
  const next = new Float64Array(strengths.length)
  let nearer = 0
  forEachFrom(strengths.length, end, (i) => {
    next[i] = Math.max(0, strengths[i] - Math.max(0, pop - nearer))
    nearer += strengths[i]
  })
  return next
}

/** w[i] = min(s[i], max(0, 1 - sum of s[j] nearer to the end))            (3), (5), (10), (11) */
export function readWeights(strengths: Vector, end: End): Vector {
  const weights = new Float64Array(strengths.length)
  let nearer = 0
  forEachFrom(strengths.length, end, (i) => {
    weights[i] = Math.min(strengths[i], Math.max(0, 1 - nearer))
    nearer += strengths[i]
  })
  return weights
}

/** r = sum_i w[i] V[i], of values laid out row by row. */
export function readRows(weights: Vector, values: Vector, width: number): Vector {
  const readVector = new Float64Array(width)
  for (let i = 0; i < weights.length; i++) {
    const weight = weights[i]
    if (weight === 0) continue
    for (let k = 0; k < width; k++) readVector[k] += weight * values[i * width + k]
  }
  return readVector
}

/** Each part of the sum of all, weighed by strengths; a row without strength is no row. */
export function shares(parts: Vector, strengths: Vector): Vector {
  const weighed = parts.map((part, row) => (strengths[row] <= 0 ? 0 : strengths[row] * part))
  const total = weighed.reduce((sum, each) => sum + each, 0)
  return weighed.map((each) => (total <= TOTAL_FLOOR ? 0 : each / total))
}

function forEachFrom(count: number, end: End, visit: (i: number) => void): void {
  if (end === 'top') for (let i = count - 1; i >= 0; i--) visit(i)
  else for (let i = 0; i < count; i++) visit(i)
}

/** Origins with one more at either end. */
export function withOrigins(before: number[], origins: Int32Array, after: number[]): Int32Array {
  const all = new Int32Array(before.length + origins.length + after.length)
  all.set(before)
  all.set(origins, before.length)
  all.set(after, before.length + origins.length)
  return all
}
