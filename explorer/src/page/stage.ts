// One run at work: its ribbon of steps, its memory, the table of the step, and the edits.

import { firstError, sayingText } from '../machine/run.ts'
import { el } from './dom.ts'
import { Editor } from './edit.ts'
import { Ribbon } from './ribbon.ts'
import type { Session } from './session.ts'
import { StepTable } from './table.ts'
import { VIEWS } from './views/index.ts'
import { noView } from './views/none.ts'
import type { View } from './views/view.ts'

/** While steps follow each other, the table and the controls are brought up to date this often (ms). */
const DETAILS = 250

export class Stage {
  readonly element: HTMLElement
  readonly session: Session
  private readonly verdict = el('p', { class: 'verdict', role: 'status' })
  private readonly ribbon: Ribbon
  private readonly view: View
  private readonly table: StepTable
  private readonly editor: Editor
  private shown = 0
  private detailed = -DETAILS
  private waiting = 0

  constructor(session: Session, titled: boolean, seek: (step: number) => void, edited: () => void) {
    this.session = session
    const inspected = el('p', { class: 'inspect', 'aria-live': 'polite' }, 'Point at a cell, or move to it with Tab, to read it.')
    const inspect = (text: string): void => {
      if (text) inspected.textContent = text
    }
    this.ribbon = new Ribbon(session, seek)
    const kind = session.run.model.memory?.kind ?? 'none'
    this.view = (VIEWS[kind] ?? noView)(session, inspect, seek)
    this.table = new StepTable(session, this.view)
    this.editor = new Editor(session, () => {
      this.changed()
      edited()
    })
    this.element = el(
      'article', { class: 'stage' },
      titled ? el('h2', {}, session.run.title) : null,
      this.ribbon.element, this.verdict, this.view.element, inspected,
      el('div', { class: 'details' }, this.editor.element, this.table.element),
      el('p', { class: 'faint' }, session.run.note),
    )
    this.judge()
  }

  show(step: number): void {
    const now = performance.now()
    this.shown = Math.min(step, this.session.steps.length - 1)
    this.ribbon.show(this.shown)
    this.view.show(this.shown)
    this.editor.at(this.shown)
    clearTimeout(this.waiting)
    const wait = this.detailed + DETAILS - now
    this.element.classList.toggle('calm', wait <= 0)
    if (wait <= 0) this.details()
    else this.waiting = window.setTimeout(() => this.details(), wait)
  }

  /** What is read and not watched: for it, steps may follow too fast. */
  private details(): void {
    this.detailed = performance.now()
    this.table.show(this.shown)
    this.editor.show()
  }

  /** Draw again, as after a change between light and dark. */
  redraw(): void {
    this.view.changed()
  }

  changed(): void {
    this.ribbon.changed()
    this.view.changed()
    this.judge()
    this.detailed = -DETAILS
  }

  /** Say how the answer stands beside the truth. */
  private judge(): void {
    const { steps, task, plan, edited } = this.session
    const judged = steps.filter((step) => step.wanted !== null).length
    const missing = plan.wanted.slice(steps.length).filter((wanted) => wanted !== null).length
    const error = firstError(steps)
    const changes = edited ? ' You have changed this run by hand.' : ''
    let text = plan.why ? `There is no truth to compare this with: ${plan.why}` : 'Nothing is determined in this input.'
    if (judged && error === null && !missing) {
      text = judged === 1 ? 'The one symbol that counts is right.' : `All ${judged} symbols that count are right.`
    }
    if (missing && error === null) text = `It ended ${missing} symbol${missing > 1 ? 's' : ''} too early.`
    if (error !== null) {
      const { said, wanted } = steps[error]
      text = `First error at step ${error + 1}: it says ${sayingText(task, said)}, right is ${sayingText(task, wanted ?? 0)}.`
    }
    this.verdict.textContent = text + changes
    this.verdict.classList.toggle('bad', error !== null || missing > 0)
    this.verdict.classList.toggle('good', judged > 0 && error === null && missing === 0)
  }
}
