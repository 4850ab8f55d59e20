// The steps side by side: input, predicted output and target; the first error is marked.

import { firstError, outputText } from '../machine/run.ts'
import { el } from './dom.ts'
import type { Session } from './session.ts'

/** Columns that are drawn on each side of those in view. */
const BESIDE = 16
/** Of a column, in parts of the letters' size: the least width, and what stands beside its text. */
const LEAST = 2.95
const PADDING = 0.85
/** The mark of a step that was changed by hand. */
const PENCIL = 0.9

/** What is told of a "?". */
const UNKNOWN = "Not played yet: in the answer, each input is the network's own last output."

export class Ribbon {
  readonly element = el('div', {
    class: 'ribbon', tabindex: 0, role: 'group', 'aria-label': 'steps: input, predicted, target', 'data-part': 'ribbon',
  })
  private readonly session: Session
  private readonly heading = el('div', { class: 'heading' }, el('span', {}, 'input'), el('span', {}, 'predicted'), el('span', {}, 'target'))
  /** Lies below the columns and moves alone: no column is painted again while it does. */
  private readonly marker = el('div', { class: 'now' })
  private readonly line = el('div', { class: 'line' }, this.marker)
  private readonly columns = new Map<number, HTMLElement>()
  /** Where each column begins, and behind the last one where it ends. */
  private lefts: number[] = []
  private scrolled = 0
  private view = 0
  private current = -1
  /** Whether the future was shown when the columns were drawn. */
  private future = true
  private error: number | null = null

  constructor(session: Session, seek: (step: number) => void) {
    this.session = session
    this.element.append(this.heading, this.line)
    this.element.addEventListener('pointerdown', (event) => {
      const column = (event.target as Element).closest<HTMLElement>('[data-step]')
      if (column) seek(Number(column.dataset.step))
    })
    this.element.addEventListener('scroll', () => {
      this.scrolled = this.element.scrollLeft
      this.draw()
    })
    new ResizeObserver(() => {
      this.view = this.element.clientWidth - this.heading.offsetWidth
      this.draw()
    }).observe(this.element)
    this.error = firstError(session.steps)
  }

  changed(): void {
    this.error = firstError(this.session.steps)
    for (const column of this.columns.values()) column.remove()
    this.columns.clear()
    this.lefts = []
    const step = Math.min(this.current, this.session.steps.length - 1)
    this.current = -1
    this.show(Math.max(0, step))
  }

  show(step: number): void {
    if (this.lefts.length === 0) this.measure()
    if (this.current === step && this.future === this.session.future) return
    this.columns.get(this.current)?.removeAttribute('aria-current')
    this.current = step
    this.future = this.session.future
    for (const [place, column] of this.columns) this.veil(place, column)
    const [left, right] = [this.lefts[step], this.lefts[step + 1]]
    this.marker.style.transform = `translateX(${left}px)`
    const width = `${right - left}px`
    if (this.marker.style.width !== width) this.marker.style.width = width
    if (left < this.scrolled || right > this.scrolled + this.view) {
      const most = Math.max(0, this.lefts[this.lefts.length - 1] - this.view)
      this.scrolled = Math.min(most, Math.max(0, left - this.view / 2))
      this.draw()
      this.element.scrollLeft = this.scrolled
    }
    this.columns.get(step)?.setAttribute('aria-current', 'step')
  }

  /** Find the columns' places from their texts alone: to ask the page for them would lay it out. */
  private measure(): void {
    const style = getComputedStyle(this.element)
    const size = Number.parseFloat(style.fontSize) || 15
    const canvas = document.createElement('canvas').getContext('2d')
    if (canvas) canvas.font = `600 ${size}px ${style.fontFamily || 'sans-serif'}`
    const known = new Map<string, number>()
    const widthOf = (text: string): number => {
      let width = known.get(text)
      if (width === undefined) {
        width = canvas ? canvas.measureText(text).width : size * text.length
        known.set(text, width)
      }
      return width
    }
    const { steps, edits } = this.session
    this.lefts = [0]
    steps.forEach((_, place) => {
      const widest = Math.max(...this.texts(place).map(widthOf)) + (edits[place] ? PENCIL * size : 0)
      this.lefts.push(this.lefts[place] + Math.ceil(Math.max(LEAST * size, widest + PADDING * size)))
    })
    this.line.style.width = `${this.lefts[steps.length]}px`
    this.view = this.element.clientWidth - this.heading.offsetWidth
    this.scrolled = this.element.scrollLeft
    this.draw()
  }

  /** Draw the columns in view and some beside them, and take the others away. */
  private draw(): void {
    const { length } = this.session.steps
    if (this.lefts.length !== length + 1) return
    const [first, last] = [this.at(this.scrolled), this.at(this.scrolled + this.view)]
    if (this.columns.has(first) && this.columns.has(last)) return
    const [from, to] = [Math.max(0, first - BESIDE), Math.min(length - 1, last + BESIDE)]
    for (const [place, column] of this.columns) {
      if (place >= from && place <= to) continue
      column.remove()
      this.columns.delete(place)
    }
    const fresh: HTMLElement[] = []
    for (let place = from; place <= to; place++) {
      if (this.columns.has(place)) continue
      const column = this.column(place)
      this.columns.set(place, column)
      fresh.push(column)
    }
    this.line.append(...fresh)
  }

  /** Hide what is not played yet; inputs that were given stay. */
  private veil(place: number, column: HTMLElement): void {
    const hidden = !this.session.future && place > this.current
    column.classList.toggle('future', hidden)
    const given = hidden && this.session.isGiven(place)
    column.classList.toggle('given', given)
    column.title = hidden && !given ? UNKNOWN : ''
  }

  /** The column at a place of the line. */
  private at(x: number): number {
    let [low, high] = [0, this.session.steps.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.lefts[middle] <= x) low = middle
      else high = middle - 1
    }
    return low
  }

  private texts(place: number): [string, string, string] {
    const { steps, task } = this.session
    const { token, predicted, target } = steps[place]
    return [task.inputs[token], outputText(task, predicted), target === null ? '' : outputText(task, target)]
  }

  private column(place: number): HTMLElement {
    const { steps, edits } = this.session
    const step = steps[place]
    const wrong = step.target !== null && step.predicted !== step.target
    const counts = step.answers || step.target !== null
    const [input, predicted, goal] = this.texts(place)
    const column = el(
      'div', { 'data-step': place }, el('span', {}, input),
      el('span', { class: `predicted${counts ? '' : ' faint'}${wrong ? ' wrong' : ''}` }, predicted), el('span', { class: 'target' }, goal),
    )
    if (place === this.error) column.className = 'first error'
    if (edits[place]) column.classList.add('edited')
    if (place === this.current) column.setAttribute('aria-current', 'step')
    this.veil(place, column)
    column.style.left = `${this.lefts[place]}px`
    column.style.width = `${this.lefts[place + 1] - this.lefts[place]}px`
    return column
  }
}
