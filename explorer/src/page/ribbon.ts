// The steps side by side: what was read, what was said, what is right; the first error marked.

import { firstError, sayingText } from '../machine/run.ts'
import { el } from './dom.ts'
import type { Session } from './session.ts'

/** Columns on each side of the current step: more would be laid out and painted at every step. */
const BESIDE = 60

export class Ribbon {
  readonly element = el('div', {
    class: 'ribbon', tabindex: 0, role: 'group', 'aria-label': 'steps: what is read, said and right',
  })
  private readonly session: Session
  private columns = new Map<number, HTMLElement>()
  private range: [number, number] = [0, -1]
  private current = -1
  private error: number | null = null

  constructor(session: Session, seek: (step: number) => void) {
    this.session = session
    this.element.addEventListener('pointerdown', (event) => {
      const column = (event.target as Element).closest<HTMLElement>('[data-step]')
      if (column) seek(Number(column.dataset.step))
    })
    this.changed()
  }

  changed(): void {
    this.error = firstError(this.session.steps)
    this.draw(Math.max(0, this.current))
  }

  show(step: number): void {
    if (this.current === step) return
    this.columns.get(this.current)?.classList.remove('now')
    this.current = step
    const [first, last] = this.range
    const { length } = this.session.steps
    // Near an end of what is drawn, unless the run ends there too.
    if ((step < first + BESIDE / 3 && first > 0) || (step > last - BESIDE / 3 && last < length - 1)) this.draw(step)
    const column = this.columns.get(step)
    if (!column) return
    column.classList.add('now')
    const { scrollLeft, clientWidth } = this.element
    const left = column.offsetLeft
    if (left < scrollLeft + 64 || left + column.offsetWidth > scrollLeft + clientWidth) {
      this.element.scrollLeft = left - clientWidth / 2
    }
  }

  /** Draw the columns around a step. */
  private draw(step: number): void {
    const heading = el('div', { class: 'heading' }, el('span', {}, 'reads'), el('span', {}, 'says'), el('span', {}, 'right'))
    const { length } = this.session.steps
    this.range = [Math.max(0, step - BESIDE), Math.min(length - 1, step + BESIDE)]
    this.columns = new Map()
    for (let place = this.range[0]; place <= this.range[1]; place++) this.columns.set(place, this.column(place))
    this.columns.get(this.current)?.classList.add('now')
    this.element.replaceChildren(heading, ...this.columns.values())
  }

  private column(place: number): HTMLElement {
    const { steps, task, edits } = this.session
    const step = steps[place]
    const wrong = step.wanted !== null && step.said !== step.wanted
    const counts = step.answers || step.wanted !== null
    const said = el('span', { class: `said${counts ? '' : ' faint'}${wrong ? ' wrong' : ''}` }, sayingText(task, step.said))
    const right = el('span', { class: 'right' }, step.wanted === null ? '' : sayingText(task, step.wanted))
    const column = el('div', { 'data-step': place }, el('span', {}, task.inputs[step.token]), said, right)
    if (place === this.error) column.className = 'first error'
    if (edits[place]) column.classList.add('edited')
    return column
  }
}
