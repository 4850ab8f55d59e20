// The page's arithmetic against numbers that Python wrote in float64; see tests/explorer/vectors.py.

import type { MemoryData, ModelData, WeightsData } from '../src/data.ts'
import { MEMORIES } from '../src/machine/memories/index.ts'
import { Model } from '../src/machine/model.ts'
import type { Tensor } from '../src/machine/tensors.ts'

export interface MemoryCase {
  name: string
  memory: MemoryData
  shapes: Record<string, number[]>
  initial: Record<string, unknown>
  instructions: Record<string, unknown[]>
  readings: number[][]
  last: Record<string, number[]>
}

export interface ModelCase {
  name: string
  model: ModelData
  weights: WeightsData
  tokens: number[]
  logits: number[][]
}

const flat = (numbers: unknown): Float64Array =>
  Float64Array.from([numbers].flat(Number.POSITIVE_INFINITY) as number[])

/** The largest difference; infinite where there are more numbers on one side, or NaN. */
function difference(own: ArrayLike<number>, python: ArrayLike<number>): number {
  if (own.length !== python.length) return Number.POSITIVE_INFINITY
  let most = 0
  for (let i = 0; i < own.length; i++) {
    const apart = Math.abs(own[i] - python[i])
    most = apart <= most ? most : Number.isNaN(apart) ? Number.POSITIVE_INFINITY : apart
  }
  return most
}

/** How far readings and the last state are from Python's, at the most. */
export function memoryDifference(data: MemoryCase): number {
  const memory = MEMORIES[data.memory.kind](data.memory)
  const initial: Record<string, Tensor> = {}
  for (const [name, numbers] of Object.entries(data.initial)) {
    initial[name] = { shape: data.shapes[name], data: flat(numbers) }
  }
  let state = memory.begin(initial)
  let most = 0
  data.readings.forEach((reading, step) => {
    const told = Object.fromEntries(
      Object.entries(data.instructions).map(([name, steps]) => [name, flat(steps[step])]),
    )
    const outcome = memory.step(state, told, step)
    state = outcome.state
    most = Math.max(most, difference(outcome.reading, reading))
  })
  for (const [name, numbers] of Object.entries(data.last)) {
    most = Math.max(most, difference(state.fields[name], numbers))
  }
  return most
}

/** How far logits are from Python's, at the most. */
export function modelDifference(data: ModelCase): number {
  const model = new Model(data)
  let state = model.begin()
  let most = 0
  data.tokens.forEach((token, step) => {
    const outcome = model.step(state, token)
    state = outcome.state
    most = Math.max(most, difference(outcome.logits, data.logits[step]))
  })
  return most
}
