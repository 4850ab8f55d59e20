// The current step as a table: for those who do not see the picture, and for exact numbers.

import { outputText } from '../machine/run.ts'
import { el, resized, short, write } from './dom.ts'
import type { Session } from './session.ts'
import type { View } from './views/view.ts'

/** Heads with more numbers than these are summed up. */
const MOST_NUMBERS = 6

export class StepTable {
  readonly element: HTMLElement
  private readonly caption = el('caption')
  private readonly body = el('tbody')
  private readonly lines: HTMLTableRowElement[] = []
  private readonly session: Session
  private readonly view: View

  constructor(session: Session, view: View) {
    this.session = session
    this.view = view
    this.element = el('table', { class: 'step' }, this.caption, this.body)
  }

  show(place: number): void {
    const { steps, task } = this.session
    const step = steps[place]
    if (!step) return
    const rows: [string, string][] = [
      ['input', task.inputs[step.token]],
      ['predicted', `${outputText(task, step.predicted)} (${task.objective === 'binary' ? 'probability of yes' : 'probability'} ${short(step.probability)})`],
    ]
    if (step.target !== null) rows.push(['target', outputText(task, step.target)])
    if (step.instruction) rows.push(...this.view.words(place))
    for (const [name, numbers] of Object.entries(step.instruction ?? {})) {
      if (numbers.length > 0) rows.push([name.replaceAll('_', ' '), numbersText(numbers)])
    }
    if (step.instruction) rows.push(['read vector', numbersText(step.state.readVector)])
    write(this.caption, `Step ${place + 1} of ${steps.length}`)
    while (this.lines.length < rows.length) {
      this.lines.push(el('tr', {}, el('th', { scope: 'row' }), el('td')))
    }
    resized(this.body, this.lines.slice(0, rows.length))
    rows.forEach(([name, value], line) => {
      write(this.lines[line].cells[0], name)
      write(this.lines[line].cells[1], value)
    })
  }
}

function numbersText(numbers: Float64Array): string {
  const some = [...numbers.subarray(0, MOST_NUMBERS)].map(short).join(' ')
  return numbers.length > MOST_NUMBERS ? `${some} … (${numbers.length} numbers)` : some
}
