// A map of steps × rows, drawn once and scrolled over by a cursor.

import { el } from '../dom.ts'
import { type Hue, shade } from '../colours.ts'

export interface MapData {
  title: string
  steps: number
  rows: number
  /** In 0..1, or NaN where there is nothing. */
  value(step: number, row: number): number
  textOf(step: number, row: number): string
  hue: Hue | ((row: number) => Hue)
}

export class StepMap {
  readonly element: HTMLElement
  private readonly canvas = el('canvas')
  private readonly cursor = el('div', { class: 'cursor' })
  private readonly frame: HTMLElement
  private data: MapData | null = null

  constructor(inspect: (text: string) => void, seek: (step: number) => void) {
    this.frame = el('div', { class: 'frame' }, this.canvas, this.cursor)
    this.element = el('figure', { class: 'map' }, el('figcaption'), this.frame)
    this.frame.addEventListener('pointermove', (event) => {
      const place = this.placeOf(event)
      if (place) inspect(this.data?.textOf(place.step, place.row) ?? '')
    })
    this.frame.addEventListener('pointerdown', (event) => {
      const place = this.placeOf(event)
      if (place) seek(place.step)
    })
  }

  draw(data: MapData): void {
    this.data = data
    this.element.firstElementChild!.textContent = data.title
    const { steps, rows } = data
    // A pixel a cell, made larger by the page: no drawing at all while the cursor moves.
    this.canvas.width = Math.max(1, steps)
    this.canvas.height = Math.max(1, rows)
    const context = this.canvas.getContext('2d')
    if (!context) return
    const image = context.createImageData(this.canvas.width, this.canvas.height)
    for (let row = 0; row < rows; row++) {
      for (let step = 0; step < steps; step++) {
        const value = data.value(step, row)
        if (Number.isNaN(value)) continue
        const at = 4 * (row * steps + step)
        const [red, green, blue, opacity] = shade(value, typeof data.hue === 'string' ? data.hue : data.hue(row))
        image.data.set([red, green, blue, opacity], at)
      }
    }
    context.putImageData(image, 0, 0)
    const height = Math.max(40, Math.min(220, rows * 7))
    this.frame.style.height = `${height}px`
    this.cursor.style.width = `${100 / Math.max(1, steps)}%`
  }

  show(step: number): void {
    if (this.data) this.cursor.style.transform = `translateX(${100 * step}%)`
  }

  private placeOf(event: PointerEvent): { step: number; row: number } | null {
    if (!this.data) return null
    const box = this.frame.getBoundingClientRect()
    const step = Math.floor(((event.clientX - box.left) / box.width) * this.data.steps)
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.data.rows)
    const inside = step >= 0 && step < this.data.steps && row >= 0 && row < this.data.rows
    return inside ? { step, row } : null
  }
}
