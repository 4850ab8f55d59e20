// The introduction above a run, and the tour of five stops.

import { el, shown, write } from './dom.ts'
import { INTRODUCTIONS, type Stop, taskText, termsOf, tourOf } from './lessons.ts'
import type { Session } from './session.ts'

/** What a first-time reader gets: sentences on the memory, symbols and words, and the way to the tour. */
export class Introduction {
  readonly element = el('details', { class: 'introduction', open: true })
  private readonly start: () => void
  private known = ''

  constructor(start: () => void) {
    this.start = start
  }

  show(sessions: Session[]): void {
    const kinds = sessions.map(({ run }) => run.model.memory?.kind ?? 'none')
    const { task } = sessions[0]
    const known = sessions.map((session, k) => `${kinds[k]} ${session.task.name}`).join()
    if (known === this.known) return
    this.known = known
    const isFirst = (kind: string, k: number): boolean => kinds.indexOf(kind) === k
    const about = kinds.filter(isFirst).map((kind) => {
      const [title, ...sentences] = INTRODUCTIONS[kind] ?? [kind.replaceAll('_', ' '), 'This memory has no introduction.']
      return el('p', {}, el('b', {}, `${title}. `), sentences.join(' '))
    })
    const terms = termsOf(task, kinds[0]).map(([term, meaning]) => el('div', {}, el('dt', {}, term), el('dd', {}, meaning)))
    const tour = el('button', { type: 'button', class: 'start', click: () => this.start() }, 'Tour in five stops')
    shown(tour, tourOf(sessions[0]).length > 0)
    this.element.replaceChildren(
      el('summary', {}, 'What this page shows'), ...about, el('p', {}, [...new Set(sessions.map((each) => taskText(each.task)))].join(' ')), el('dl', { class: 'terms' }, ...terms), tour,
    )
  }
}

/** The card at the lower edge with a stop's text. */
export class Tour {
  readonly element: HTMLElement
  private readonly title = el('h2')
  private readonly text = el('p')
  private readonly back: HTMLButtonElement
  private readonly next: HTMLButtonElement
  private readonly go: (stop: Stop | null) => void
  private stops: Stop[] = []
  private at = 0
  /** What had the focus before. */
  private opener: HTMLElement | null = null

  constructor(go: (stop: Stop | null) => void) {
    this.go = go
    this.back = el('button', { type: 'button', click: () => this.move(-1) }, 'Back')
    this.next = el('button', { type: 'button', class: 'next', click: () => this.move(1) }, 'Next')
    const end = el('button', { type: 'button', click: () => this.end() }, 'End tour')
    this.element = el(
      'section', { class: 'tour', 'aria-label': 'tour', hidden: true },
      el('div', { 'aria-live': 'polite' }, this.title, this.text), el('div', { class: 'buttons' }, this.back, this.next, end),
    )
    this.element.addEventListener('keydown', (event) => { if (event.key === 'Escape') this.end() })
  }

  start(session: Session): void {
    this.opener = document.activeElement instanceof HTMLElement ? document.activeElement : null
    this.stops = tourOf(session)
    this.at = 0
    if (this.stops.length === 0) return
    shown(this.element, true)
    this.show()
    this.next.focus({ preventScroll: true })
  }

  end(): void {
    if (this.element.hidden) return
    shown(this.element, false)
    this.go(null)
    this.opener?.focus({ preventScroll: true })
  }

  private move(by: number): void {
    if (this.at + by >= this.stops.length) return this.end()
    this.at = Math.max(0, this.at + by)
    this.show()
  }

  private show(): void {
    const stop = this.stops[this.at]
    write(this.title, `${this.at + 1} of ${this.stops.length}: ${stop.title}`)
    write(this.text, stop.text)
    this.back.disabled = this.at === 0
    write(this.next, this.at === this.stops.length - 1 ? 'Finish' : 'Next')
    this.go(stop)
  }
}
