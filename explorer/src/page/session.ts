// A run on one input: its steps, and what a reader has changed of them.

import type { RunData, TaskData } from '../data.ts'
import { Model } from '../machine/model.ts'
import type { MemoryState } from '../machine/memories/memory.ts'
import type { Plan } from '../machine/plan.ts'
import { Replay } from '../machine/replay.ts'
import { type Edits, type Step, runPlan } from '../machine/run.ts'

export class Session {
  readonly run: RunData
  /** What has the memory: the model, or a trace that is replayed. */
  model: Model | Replay
  plan: Plan
  steps: Step[] = []
  edits: Edits = {}
  /** Whether steps that are not played yet are shown. */
  future = true

  constructor(run: RunData, plan: Plan, model: Model | Replay) {
    this.run = run
    this.model = model
    this.plan = plan
    this.restart(plan, {})
  }

  /** Whether it runs here, and can be changed. */
  get isLive(): boolean {
    return this.model instanceof Model
  }

  get task(): TaskData {
    return this.run.task
  }

  restart(plan: Plan, edits: Edits): void {
    this.plan = plan
    this.edits = edits
    this.steps = this.model instanceof Model ? runPlan(this.model, this.task, plan, edits) : this.model.steps
  }

  /** Change one number of the instruction of a step; the steps before it stay. */
  edit(step: number, head: string, place: number, value: number): void {
    if (!(this.model instanceof Model)) return
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

  /** Whether the input of a step is known before it is played: it is in the source, or always the same. */
  isGiven(step: number): boolean {
    return step < this.plan.given.length || this.plan.then === 'answer'
  }

  /** The state of the memory before a step. */
  before(step: number): MemoryState {
    return (step > 0 ? this.steps[step - 1].state.memory : this.model.begin().memory)!
  }

  /** The input symbol of a step. */
  symbolAt(step: number): string {
    const read = this.steps[step]
    return read ? this.task.inputs[read.token] : ''
  }
}
