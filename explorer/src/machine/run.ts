// A model run over a plan: every step with what was told, said and should have been said.

import type { TaskData } from '../data.ts'
import { sigmoid, softmax } from './activations.ts'
import type { Instruction } from './heads.ts'
import type { Changes, Model, ModelState } from './model.ts'
import type { Plan } from './plan.ts'
import type { Vector } from './tensors.ts'

export interface Step {
  token: number
  told: Instruction | null
  state: ModelState
  /** The output that is likeliest; of bits the number that they make, of labels 0 or 1. */
  said: number
  /** The chance of it; of labels that of yes. */
  chance: number
  wanted: number | null
  /** Whether it belongs to the answer, where there is one. */
  answers: boolean
}

/** By step, what a reader has changed of the instructions. */
export type Edits = Record<number, Changes>

/** Run a plan from the step `from` on, where `before` has the steps up to it. */
export function runPlan(
  model: Model, task: TaskData, plan: Plan, edits: Edits = {}, before: Step[] = [], from = 0,
): Step[] {
  const steps = before.slice(0, from)
  let state = steps.length ? steps[steps.length - 1].state : model.begin()
  while (steps.length < plan.most) {
    const t = steps.length
    const token = tokenAt(task, plan, steps)
    if (token === null) break
    const outcome = model.step(state, token, edits[t])
    state = outcome.state
    const { said, chance } = sayingOf(task, outcome.logits)
    const wanted = plan.wanted[t] ?? null
    const answers = plan.then !== 'stop' ? t >= plan.prompt - 1 : wanted !== null
    steps.push({ token, told: outcome.told, state, said, chance, wanted, answers })
  }
  return steps
}

/** What is read at the next step; null where the run is over. */
function tokenAt(task: TaskData, plan: Plan, steps: Step[]): number | null {
  const t = steps.length
  if (t < plan.given.length) return plan.given[t]
  const { said } = steps[t - 1]
  if (plan.then === 'stop' || said === task.end_token) return null
  return plan.then === 'answer' ? task.answer_token : (task.output_to_input?.[said] ?? null)
}

export function sayingOf(task: TaskData, logits: Vector): { said: number; chance: number } {
  if (task.objective === 'binary') {
    const chance = sigmoid(logits[0])
    return { said: logits[0] > 0 ? 1 : 0, chance }
  }
  if (task.objective === 'bits') {
    let said = 0
    let chance = 1
    logits.forEach((logit, place) => {
      if (logit > 0) said += 2 ** place
      chance *= sigmoid(Math.abs(logit))
    })
    return { said, chance }
  }
  const chances = softmax(logits)
  const said = chances.reduce((best, chance, place) => (chance > chances[best] ? place : best), 0)
  return { said, chance: chances[said] }
}

/** The first step whose answer is wrong; null where none is, or no truth is known. */
export function firstError(steps: Step[]): number | null {
  const place = steps.findIndex((step) => step.wanted !== null && step.said !== step.wanted)
  return place < 0 ? null : place
}

/** What is said at a step, as text. */
export function sayingText(task: TaskData, said: number): string {
  if (task.objective === 'binary') return said ? 'yes' : 'no'
  if (task.objective === 'bits') {
    const names = task.outputs
    const bits = names.filter((name) => name !== 'end').length
    const flagged = names.length > bits && said >= 2 ** bits
    return flagged ? 'end' : Array.from({ length: bits }, (_, k) => (said >> k) & 1).join('')
  }
  return task.outputs[said] ?? '?'
}
