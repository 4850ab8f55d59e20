// The input with which a page opens: short, instructive, and answered without an error.

import type { RunData } from '../data.ts'
import type { Model } from '../machine/model.ts'
import { planOf, planOfSample, writeSymbols } from '../machine/plan.ts'
import { instructive } from '../machine/rules/index.ts'
import { firstError, runPlan } from '../machine/run.ts'

export interface Example {
  typed: string | null
  sample: number
}

export function exampleOf(run: RunData, model: Model | null): Example {
  const { task, samples } = run
  const source = model && instructive(task)
  if (model && source && firstError(runPlan(model, task, planOf(task, source))) === null) {
    return { typed: writeSymbols(task, source), sample: 0 }
  }
  const byLength = samples.map((sample, place) => ({ sample, place })).sort((a, b) => a.sample.inputs.length - b.sample.inputs.length)
  const correct = model ? byLength.find(({ sample }) => firstError(runPlan(model, task, planOfSample(run, sample))) === null) : undefined
  return { typed: null, sample: (correct ?? byLength[0])?.place ?? 0 }
}
