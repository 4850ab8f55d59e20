// One run at work: its ribbon of steps, its memory, the table of the step, and the edits.

import { firstError } from '../machine/run.ts'
import { el, shown, write } from './dom.ts'
import { Editor } from './edit.ts'
import { Flow } from './flow.ts'
import type { Part } from './lessons.ts'
import { Outputs } from './outputs.ts'
import { Ribbon } from './ribbon.ts'
import type { Session } from './session.ts'
import { StepTable } from './table.ts'
import { verdictOf } from './verdict.ts'
import { VIEWS } from './views/index.ts'
import { noView } from './views/none.ts'
import type { View } from './views/view.ts'

/** While steps follow each other, the drawing, the table and the controls are updated this often (ms). */
const DETAILS = 250

export class Stage {
  readonly element: HTMLElement
  readonly session: Session
  private readonly verdict = el('p', { class: 'verdict', role: 'status' })
  /** Goes to the first error, which may be out of sight. */
  private readonly jump: HTMLButtonElement
  private readonly ribbon: Ribbon
  private readonly view: View
  private readonly table: StepTable
  private readonly flow: Flow
  private readonly outputs: Outputs
  private readonly editor: Editor
  private shown = 0
  private detailed = -DETAILS
  private last = 0
  private waiting = 0

  constructor(session: Session, titled: boolean, seek: (step: number) => void, edited: () => void) {
    this.session = session
    const inspected = el('p', { class: 'inspect', 'aria-live': 'polite' }, 'Point at a cell, or move to it with Tab, to read it.')
    const inspect = (text: string): void => {
      if (text) inspected.textContent = text
    }
    this.ribbon = new Ribbon(session, seek)
    this.jump = el('button', { type: 'button', click: () => seek(firstError(session.steps) ?? 0) }, 'Go to the first error')
    const kind = session.run.model.memory?.kind ?? 'none'
    this.view = (VIEWS[kind] ?? noView)(session, inspect, seek)
    this.table = new StepTable(session, this.view)
    this.flow = new Flow(session)
    this.outputs = new Outputs(session)
    this.view.element.dataset.part = 'memory'
    this.editor = new Editor(session, () => {
      this.changed()
      edited()
    })
    this.element = el(
      'article', { class: 'stage' },
      titled ? el('h2', {}, session.run.title) : null,
      this.ribbon.element, el('div', { class: 'judged' }, this.verdict, this.jump), this.flow.element,
      el('div', { class: 'details' }, this.outputs.element, this.editor.element),
      this.view.element, inspected, this.table.element,
      el('p', { class: 'faint' }, session.run.note),
    )
  }

  show(step: number): void {
    const now = performance.now()
    this.shown = Math.min(step, this.session.steps.length - 1)
    this.ribbon.show(this.shown)
    this.view.show(this.shown)
    this.editor.at(this.shown)
    this.judge()
    clearTimeout(this.waiting)
    const wait = this.detailed + DETAILS - now
    // Bars glide where steps are slow enough to be seen one by one.
    this.element.classList.toggle('calm', now - this.last > DETAILS / 2)
    this.last = now
    if (wait <= 0) this.details()
    else this.waiting = window.setTimeout(() => this.details(), wait)
  }

  /** What is read and not watched: for it, steps may follow too fast. */
  private details(): void {
    this.detailed = performance.now()
    this.flow.show(this.shown)
    this.outputs.show(this.shown)
    this.table.show(this.shown)
    this.editor.show()
  }

  /** Mark the part that a stop of the tour is about, and bring it into view. */
  point(part: Part | null): void {
    for (const each of this.element.querySelectorAll('.spot')) each.classList.remove('spot')
    const element = part && this.element.querySelector(`[data-part=${part}]`)
    if (!element) return
    element.classList.add('spot')
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches
    element.scrollIntoView({ block: 'start', behavior: calm ? 'auto' : 'smooth' })
  }

  /** Draw again, as after a change between light and dark. */
  redraw(): void {
    this.view.changed()
  }

  changed(): void {
    this.ribbon.changed()
    this.view.changed()
    this.detailed = -DETAILS
  }

  /** Compare the outputs with the targets. */
  private judge(): void {
    const { text, correct } = verdictOf(this.session, this.session.future ? undefined : this.shown)
    write(this.verdict, text)
    const error = firstError(this.session.steps)
    shown(this.jump, error !== null && error !== this.shown && (this.session.future || error < this.shown))
    this.verdict.classList.toggle('bad', correct === false)
    this.verdict.classList.toggle('good', correct === true)
  }
}
