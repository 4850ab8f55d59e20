// The page's arithmetic against numbers that Python wrote in float64; see tests/explorer/vectors.py.

import type { MemoryData, ModelData, RunData, WeightsData } from '../src/data.ts'
import { MEMORIES } from '../src/machine/memories/index.ts'
import { Model } from '../src/machine/model.ts'
import { planOf, planOfSample, sourceOf } from '../src/machine/plan.ts'
import { runPlan } from '../src/machine/run.ts'
import type { Tensor } from '../src/machine/tensors.ts'

export interface MemoryCase {
  name: string
  memory: MemoryData
  shapes: Record<string, number[]>
  initial: Record<string, unknown>
  instructions: Record<string, unknown[]>
  read_vectors: number[][]
  last: Record<string, number[]>
}

export interface ModelCase {
  name: string
  model: ModelData
  weights: WeightsData
  tokens: number[]
  logits: number[][]
}

export interface TaskCase {
  name: string
  run: RunData
  predicted: number[][]
}

const flat = (numbers: unknown): Float64Array =>
  Float64Array.from([numbers].flat(Number.POSITIVE_INFINITY) as number[])

/** The largest difference; infinite where there are more numbers on one side, or NaN. */
function difference(own: ArrayLike<number>, python: ArrayLike<number>): number {
  if (own.length !== python.length) return Number.POSITIVE_INFINITY
  let most = 0
  for (let i = 0; i < own.length; i++) {
    // The log of 0 is infinite on both sides.
    const apart = own[i] === python[i] ? 0 : Math.abs(own[i] - python[i])
    most = apart <= most ? most : Number.isNaN(apart) ? Number.POSITIVE_INFINITY : apart
  }
  return most
}

/** How far read_vectors and the last state are from Python's, at the most. */
export function memoryDifference(data: MemoryCase): number {
  const memory = MEMORIES[data.memory.kind](data.memory)
  const initial: Record<string, Tensor> = {}
  for (const [name, numbers] of Object.entries(data.initial)) {
    initial[name] = { shape: data.shapes[name], data: flat(numbers) }
  }
  let state = memory.begin(initial)
  let most = 0
  data.read_vectors.forEach((readVector, step) => {
    const instruction = Object.fromEntries(
      Object.entries(data.instructions).map(([name, steps]) => [name, flat(steps[step])]),
    )
    const outcome = memory.step(state, instruction, step)
    state = outcome.state
    most = Math.max(most, difference(outcome.readVector, readVector))
  })
  for (const [name, numbers] of Object.entries(data.last)) {
    most = Math.max(most, difference(state.fields[name], numbers))
  }
  return most
}

/** How far logits are from Python's, at the most. */
export function modelDifference(data: ModelCase): number {
  const model = new Model(data)
  let state = model.begin(data.tokens)
  let most = 0
  data.tokens.forEach((token, step) => {
    const outcome = model.step(state, token)
    state = outcome.state
    most = Math.max(most, difference(outcome.logits, data.logits[step]))
  })
  return most
}

/** Steps of the samples at which the predicted output differs from Python, of a stored and typed input. */
export function taskDifferences(data: TaskCase): string[] {
  const { run } = data
  const model = new Model(run)
  const found: string[] = []
  run.samples.forEach((sample, place) => {
    const source = sourceOf(run.task, sample)
    const plans = { stored: planOfSample(run, sample), ...(source && { typed: planOf(run.task, source) }) }
    for (const [name, plan] of Object.entries(plans)) {
      const steps = runPlan(model, run.task, plan)
      const most = Math.min(steps.length, data.predicted[place].length)
      for (let step = 0; step < most; step++) {
        if (steps[step].predicted !== data.predicted[place][step]) found.push(`sample ${place}, ${name}, step ${step}`)
      }
      // It may end early, by saying the end.
      const ended = steps.at(-1)?.predicted === run.task.end_token
      if (most < data.predicted[place].length && !ended) found.push(`sample ${place}, ${name}: ${most} steps`)
      // The target that the page finds is the target of the sample, wherever it finds one.
      plan.targets.forEach((target, step) => {
        if (step >= sample.targets.length || target === null) return
        if (!sample.mask[step] || target !== sample.targets[step]) found.push(`sample ${place}, ${name}: target at ${step}`)
      })
      // And it finds one wherever the sample has one, of a task whose rule it knows.
      if (name === 'typed' && !run.task.rule) continue
      sample.mask.forEach((counts, step) => {
        if (counts && plan.targets[step] == null) found.push(`sample ${place}, ${name}: no target at ${step}`)
      })
    }
  })
  return found
}
