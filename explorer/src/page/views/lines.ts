// What a memory holds at a step, as lines that can be pointed at or reached by Tab.

import { el, resized, write } from '../dom.ts'
import type { Inspect } from './view.ts'

export interface Line {
  symbol: string
  text: string
  /** Lengths of the two bars, in 0..1; none where there are no bars. */
  bars?: [blue: number, amber: number]
  /** What is told of the line. */
  textOf(): string
}

interface Drawn {
  element: HTMLElement
  symbol: HTMLElement
  track: HTMLElement | null
  text: HTMLElement
  lengths: string
  textOf(): string
}

export class Lines {
  readonly element: HTMLElement
  private readonly inspect: Inspect
  private readonly hasBars: boolean
  private readonly drawn: Drawn[] = []

  constructor(inspect: Inspect, label: string, hasBars: boolean) {
    this.inspect = inspect
    this.hasBars = hasBars
    this.element = el('ol', { class: hasBars ? 'rows' : 'rows heads', 'aria-label': label })
  }

  show(lines: Line[]): void {
    lines.forEach((line, place) => {
      const drawn = this.at(place)
      drawn.textOf = line.textOf
      write(drawn.symbol, line.symbol)
      write(drawn.text, line.text)
      const lengths = (line.bars ?? []).map((share, bar) => `${percent(share)} ${bar ? 30 : 70}%`).join(', ')
      if (drawn.track && drawn.lengths !== lengths) {
        drawn.lengths = lengths
        drawn.track.style.backgroundSize = lengths
      }
    })
    resized(this.element, this.drawn.slice(0, lines.length).map(({ element }) => element))
  }

  private at(place: number): Drawn {
    if (!this.drawn[place]) {
      const symbol = el('span', { class: 'symbol' })
      const track = this.hasBars ? el('span', { class: 'track' }) : null
      const text = el('span', { class: this.hasBars ? 'value' : '' })
      const tell = (): void => {
        const told = drawn.textOf()
        drawn.element.setAttribute('aria-label', told)
        this.inspect(told)
      }
      const element = el('li', { tabindex: 0, pointerenter: tell, focus: tell }, symbol, track, text)
      const drawn: Drawn = { element, symbol, track, text, lengths: '', textOf: () => '' }
      this.drawn[place] = drawn
    }
    return this.drawn[place]
  }
}

const percent = (share: number): string => `${Math.min(100, 100 * share).toFixed(1)}%`
