// Play, pause, step, scrub and speed.

import { el, write } from './dom.ts'

const SPEEDS = [1, 2, 4, 8, 16, 32]
/** Slow enough to follow what moves. */
const SPEED = 2

export class Player {
  readonly element: HTMLElement
  private readonly range = el('input', { type: 'range', min: 0, step: 1, 'aria-label': 'step' })
  private readonly button = el('button', { type: 'button', class: 'play' })
  private readonly counter = el('output', { class: 'counter' })
  private readonly speed = el('select', { 'aria-label': 'speed' })
  private readonly show: (step: number) => void
  private length = 1
  private at = 0
  private timer = 0
  private last = 0
  /** The frame that is waited for after a move of the slider, and where it has got to since. */
  private frame = 0
  private sought: number | null = null

  constructor(show: (step: number) => void) {
    this.show = show
    this.speed.append(...SPEEDS.map((each) => el('option', { value: each, selected: each === SPEED }, `${each} steps/s`)))
    this.button.addEventListener('click', () => this.toggle())
    this.range.addEventListener('input', () => this.scrub(Number(this.range.value)))
    const step = (text: string, label: string, act: () => void): HTMLElement =>
      el('button', { type: 'button', 'aria-label': label, title: label, click: () => { this.pause(); act() } }, text)
    this.element = el(
      'div', { class: 'player', role: 'group', 'aria-label': 'player' },
      step('|◀', 'to the start', () => this.seek(0)),
      step('◀', 'a step back', () => this.seek(this.at - 1)),
      this.button,
      step('▶', 'a step on', () => this.seek(this.at + 1)),
      step('▶|', 'to the end', () => this.seek(this.length - 1)),
      this.range, this.counter, this.speed,
    )
    this.label()
  }

  get step(): number {
    return this.at
  }

  get playing(): boolean {
    return this.timer !== 0
  }

  /** Another run, of so many steps. */
  restart(length: number, step: number): void {
    this.length = Math.max(1, length)
    this.range.max = String(this.length - 1)
    this.seek(step)
  }

  seek(step: number): void {
    this.at = Math.min(this.length - 1, Math.max(0, step))
    // First, while nothing has been written that would have to be laid out.
    this.show(this.at)
    if (this.range.value !== String(this.at)) this.range.value = String(this.at)
    this.range.setAttribute('aria-valuetext', `step ${this.at + 1} of ${this.length}`)
    write(this.counter, `${this.at + 1} / ${this.length}`)
  }

  /** Follow the slider, at most once a frame. */
  private scrub(step: number): void {
    this.pause()
    this.sought = step
    if (this.frame) return
    this.sought = null
    this.seek(step)
    this.frame = requestAnimationFrame(() => {
      this.frame = 0
      if (this.sought !== null) this.scrub(this.sought)
    })
  }

  toggle(): void {
    if (this.playing) this.pause()
    else this.play()
  }

  play(): void {
    if (this.at >= this.length - 1) this.seek(0)
    this.last = performance.now()
    const frame = (now: number): void => {
      this.timer = requestAnimationFrame(frame)
      const steps = Math.floor(((now - this.last) / 1000) * Number(this.speed.value))
      if (steps < 1) return
      this.last = now
      this.seek(this.at + steps)
      if (this.at >= this.length - 1) this.pause()
    }
    this.timer = requestAnimationFrame(frame)
    this.label()
  }

  pause(): void {
    cancelAnimationFrame(this.timer)
    this.timer = 0
    this.label()
  }

  faster(by: number): void {
    const place = SPEEDS.indexOf(Number(this.speed.value)) + by
    if (place >= 0 && place < SPEEDS.length) this.speed.value = String(SPEEDS[place])
  }

  private label(): void {
    write(this.button, this.playing ? 'Pause' : 'Play')
  }
}
