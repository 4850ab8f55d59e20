// A run on one input: its steps, and what a reader has changed of them.

import type { RunData, TaskData } from '../data.ts'
import { Model } from '../machine/model.ts'
import type { Plan } from '../machine/plan.ts'
import { type Edits, type Step, runPlan } from '../machine/run.ts'

export class Session {
  readonly run: RunData
  readonly model: Model
  plan: Plan
  steps: Step[] = []
  edits: Edits = {}

  constructor(run: RunData, plan: Plan, model: Model | null = null) {
    this.run = run
    this.model = model ?? new Model(run)
    this.plan = plan
    this.restart(plan, {})
  }

  get task(): TaskData {
    return this.run.task
  }

  restart(plan: Plan, edits: Edits): void {
    this.plan = plan
    this.edits = edits
    this.steps = runPlan(this.model, this.task, plan, edits)
  }

  /** Change one number of the instruction of a step; the steps before it stay. */
  edit(step: number, head: string, place: number, value: number): void {
    const changes = (this.edits[step] ??= {})
    ;(changes[head] ??= {})[place] = value
    this.steps = runPlan(this.model, this.task, this.plan, this.edits, this.steps, step)
  }

  forget(): void {
    this.restart(this.plan, {})
  }

  get edited(): boolean {
    return Object.keys(this.edits).length > 0
  }

  /** The symbol that was read at a step. */
  symbolAt(step: number): string {
    const read = this.steps[step]
    return read ? this.task.inputs[read.token] : ''
  }
}
