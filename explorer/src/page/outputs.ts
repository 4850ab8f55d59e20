// The distribution over output symbols at a step, as bars.

import { type Step, outputText } from '../machine/run.ts'
import type { TaskData } from '../data.ts'
import { el, resized, short, write } from './dom.ts'
import type { Session } from './session.ts'

/** Bars at most. */
export const MOST = 6

export interface Bar {
  name: string
  probability: number
  predicted: boolean
  target: boolean
}

/** The likeliest outputs of a step, and the target if it is not one of them. */
export function barsOf(task: TaskData, step: Step): Bar[] {
  const { distribution, predicted, target, probability } = step
  if (task.objective === 'bits') {
    return [...(distribution ?? [])].slice(0, 2 * MOST).map((each, place) => ({
      name: task.outputs[place] ?? `bit ${place + 1}`, probability: each,
      predicted: each > 0.5, target: target !== null && ((target >> place) & 1) === 1,
    }))
  }
  const bar = (place: number, each: number): Bar => ({
    name: outputText(task, place), probability: each, predicted: place === predicted, target: place === target,
  })
  // Of a stored trace only the probability of the predicted output is known.
  if (!distribution) return [bar(predicted, probability)]
  const bars = [...distribution].map((each, place) => bar(place, each))
  if (bars.length <= MOST) return bars
  bars.sort((a, b) => b.probability - a.probability)
  const shown = bars.slice(0, MOST)
  const missing = bars.slice(MOST).find((each) => each.target)
  if (missing) shown[MOST - 1] = missing
  return shown
}

const probabilityText = (each: number): string => (each < 0.001 ? '< 0.001' : short(each))

export class Outputs {
  readonly element: HTMLElement
  private readonly session: Session
  private readonly list = el('ol', { class: 'bars', 'aria-label': 'probabilities of outputs' })
  private readonly rest = el('p', { class: 'faint' })
  private readonly bars: HTMLElement[] = []

  constructor(session: Session) {
    this.session = session
    const title = session.task.layout === 'stream' ? 'Distribution over the next symbol' : 'Distribution over the output symbols'
    this.element = el('section', { class: 'outputs', 'data-part': 'outputs', 'aria-label': title }, el('h3', {}, title), this.list, this.rest)
  }

  show(place: number): void {
    const { task, steps } = this.session
    const step = steps[place]
    if (!step) return
    const bars = barsOf(task, step)
    bars.forEach((bar, k) => {
      this.bars[k] ??= el('li', {}, el('span', { class: 'symbol' }), el('span', { class: 'track' }), el('span', { class: 'value' }), el('span', { class: 'mark' }))
      const [symbol, track, value, mark] = this.bars[k].children
      write(symbol, bar.name)
      ;(track as HTMLElement).style.backgroundSize = `${(100 * bar.probability).toFixed(1)}% 100%, 0 0`
      write(value, probabilityText(bar.probability))
      write(mark, [bar.predicted ? 'predicted' : '', bar.target ? 'target' : ''].filter((each) => each).join(', '))
    })
    resized(this.list, this.bars.slice(0, bars.length))
    const others = task.objective === 'bits' || !step.distribution ? 0 : step.distribution.length - bars.length
    const parts = [
      others > 0 ? `${others} other symbol${others > 1 ? 's' : ''}: ${probabilityText(1 - bars.reduce((sum, bar) => sum + bar.probability, 0))}.` : '',
      step.distribution ? '' : 'A stored trace has the probability of the predicted output only.',
      step.target === null ? 'This step has no target.' : '',
    ]
    write(this.rest, parts.filter((part) => part).join(' '))
  }
}
