// The input with which a page opens: short, instructive, and answered without an error where one is.

import type { RunData } from '../data.ts'
import type { Model } from '../machine/model.ts'
import { planOf, planOfSample, writeSymbols } from '../machine/plan.ts'
import { instructive } from '../machine/rules/index.ts'
import { firstError, runPlan } from '../machine/run.ts'

/** Steps of samples that are tried at most. */
const MOST_TRIED = 200

export interface Example {
  typed: string | null
  sample: number
}

export function exampleOf(run: RunData, model: Model | null): Example {
  const { task, samples } = run
  const source = model && instructive(task)
  const typed = source && { typed: writeSymbols(task, source), sample: 0 }
  if (model && source && typed && firstError(runPlan(model, task, planOf(task, source))) === null) return typed
  const byLength = samples.map((sample, place) => ({ sample, place })).sort((a, b) => a.sample.inputs.length - b.sample.inputs.length)
  let tried = 0
  for (const { sample, place } of model ? byLength : []) {
    // Not more than this, so that a page of a large network opens at once.
    if ((tried += sample.inputs.length) > MOST_TRIED) break
    if (firstError(runPlan(model!, task, planOfSample(run, sample))) === null) return { typed: null, sample: place }
  }
  return typed ?? { typed: null, sample: byLength[0]?.place ?? 0 }
}
