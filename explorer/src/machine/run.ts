// A model run over a plan: every step with its instruction, predicted output and target.

import type { TaskData } from '../data.ts'
import { sigmoid, softmax } from './activations.ts'
import type { Instruction } from './heads.ts'
import type { Changes, Model, ModelState } from './model.ts'
import type { Plan } from './plan.ts'
import type { Vector } from './tensors.ts'

export interface Step {
  token: number
  instruction: Instruction | null
  state: ModelState
  /** The output that is likeliest; of bits the number that they make, of labels 0 or 1. */
  predicted: number
  /** The probability of it; of labels that of yes. */
  probability: number
  /** The probability of each output; of labels no and yes, of bits that each is 1; null of a stored trace. */
  distribution: Vector | null
  target: number | null
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
  let state = steps.length ? steps[steps.length - 1].state : model.begin(plan.given)
  while (steps.length < plan.most) {
    const t = steps.length
    const token = tokenAt(task, plan, steps)
    if (token === null) break
    const outcome = model.step(state, token, edits[t])
    state = outcome.state
    const { predicted, probability, distribution } = predictionOf(task, outcome.logits)
    const target = plan.targets[t] ?? null
    const answers = plan.then !== 'stop' ? t >= plan.prompt - 1 : target !== null
    steps.push({ token, instruction: outcome.instruction, state, predicted, probability, distribution, target, answers })
  }
  return steps
}

/** What is read at the next step; null where the run is over. */
function tokenAt(task: TaskData, plan: Plan, steps: Step[]): number | null {
  const t = steps.length
  if (t < plan.given.length) return plan.given[t]
  const { predicted } = steps[t - 1]
  if (plan.then === 'stop' || predicted === task.end_token) return null
  return plan.then === 'answer' ? task.answer_token : (task.output_to_input?.[predicted] ?? null)
}

export function predictionOf(task: TaskData, logits: Vector): { predicted: number; probability: number; distribution: Vector } {
  if (task.objective === 'binary') {
    const probability = sigmoid(logits[0])
    return { predicted: logits[0] > 0 ? 1 : 0, probability, distribution: Float64Array.of(1 - probability, probability) }
  }
  if (task.objective === 'bits') {
    let predicted = 0
    let probability = 1
    logits.forEach((logit, place) => {
      if (logit > 0) predicted += 2 ** place
      probability *= sigmoid(Math.abs(logit))
    })
    return { predicted, probability, distribution: logits.map(sigmoid) }
  }
  const probabilities = softmax(logits)
  const predicted = probabilities.reduce((best, probability, place) => (probability > probabilities[best] ? place : best), 0)
  return { predicted, probability: probabilities[predicted], distribution: probabilities }
}

/** The first step whose answer is wrong; null where none is, or no target is known. */
export function firstError(steps: Step[]): number | null {
  const place = steps.findIndex((step) => step.target !== null && step.predicted !== step.target)
  return place < 0 ? null : place
}

/** What is predicted at a step, as text. */
export function outputText(task: TaskData, predicted: number): string {
  if (task.objective === 'binary') return predicted ? 'yes' : 'no'
  if (task.objective === 'bits') {
    const names = task.outputs
    const bits = names.filter((name) => name !== 'end').length
    const flagged = names.length > bits && predicted >= 2 ** bits
    return flagged ? 'end' : Array.from({ length: bits }, (_, k) => (predicted >> k) & 1).join('')
  }
  return task.outputs[predicted] ?? '?'
}
