// The steps side by side: what was read, what was said, what is right; the first error marked.

import { firstError, sayingText } from '../machine/run.ts'
import { el } from './dom.ts'
import type { Session } from './session.ts'

export class Ribbon {
  readonly element = el('div', {
    class: 'ribbon', tabindex: 0, role: 'group', 'aria-label': 'steps: what is read, said and right',
  })
  private readonly session: Session
  private columns: HTMLElement[] = []
  private current = -1

  constructor(session: Session, seek: (step: number) => void) {
    this.session = session
    this.element.addEventListener('pointerdown', (event) => {
      const column = (event.target as Element).closest<HTMLElement>('[data-step]')
      if (column) seek(Number(column.dataset.step))
    })
    this.changed()
  }

  changed(): void {
    const { steps, task } = this.session
    const error = firstError(steps)
    const heading = el('div', { class: 'heading' }, el('span', {}, 'reads'), el('span', {}, 'says'), el('span', {}, 'right'))
    this.columns = steps.map((step, place) => {
      const wrong = step.wanted !== null && step.said !== step.wanted
      const counts = step.answers || step.wanted !== null
      const said = el('span', { class: `said${counts ? '' : ' faint'}${wrong ? ' wrong' : ''}` }, sayingText(task, step.said))
      const right = el('span', { class: 'right' }, step.wanted === null ? '' : sayingText(task, step.wanted))
      const column = el('div', { class: place === error ? 'first error' : '', 'data-step': place }, el('span', {}, task.inputs[step.token]), said, right)
      if (this.session.edits[place]) column.classList.add('edited')
      return column
    })
    this.current = -1
    this.element.replaceChildren(heading, ...this.columns)
  }

  show(step: number): void {
    if (this.current === step) return
    this.columns[this.current]?.classList.remove('now')
    const column = this.columns[step]
    this.current = step
    if (!column) return
    column.classList.add('now')
    const { scrollLeft, clientWidth } = this.element
    const left = column.offsetLeft - this.element.offsetLeft
    if (left < scrollLeft + 64 || left + column.offsetWidth > scrollLeft + clientWidth) {
      this.element.scrollLeft = left - clientWidth / 2
    }
  }
}
