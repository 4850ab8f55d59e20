// What maps a head's products to its field, and a controller's sums to its units.

import type { Vector } from './tensors.ts'

export function sigmoid(x: number): number {
  return x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x))
}

export function softplus(x: number): number {
  return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))
}

export function softmax(x: Vector): Vector {
  let most = Number.NEGATIVE_INFINITY
  for (const each of x) most = Math.max(most, each)
  const powers = x.map((each) => Math.exp(each - most))
  const total = powers.reduce((sum, each) => sum + each, 0)
  return powers.map((each) => each / total)
}

const relu = (x: number): number => (x > 0 ? x : 0)

/** By name, as in memories/core/head.py; softmax goes over the last axis. */
export const ACTIVATIONS: Record<string, (x: number) => number> = {
  identity: (x) => x,
  tanh: Math.tanh,
  sigmoid,
  relu,
  softplus,
  hard_sigmoid: (x) => Math.min(1, Math.max(0, 0.2 * x + 0.5)),
  one_plus_relu: (x) => 1 + relu(x),
  one_plus_softplus: (x) => 1 + softplus(x),
}

/** Apply an activation by name to a part of which the last axis has `last` numbers. */
export function activated(name: string, part: Vector, last: number): Vector {
  if (name === 'softmax') {
    const all = new Float64Array(part.length)
    for (let at = 0; at < part.length; at += last) {
      all.set(softmax(part.subarray(at, at + last)), at)
    }
    return all
  }
  const activation = ACTIVATIONS[name]
  if (!activation) throw new Error(`This page does not know the activation ${name}.`)
  return part.map(activation)
}
