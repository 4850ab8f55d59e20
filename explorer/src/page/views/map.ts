// A map of steps × rows with labels, drawn once; a cursor and a veil over the future move above it.

import { el, write } from '../dom.ts'
import { type Hue, opaque } from '../colours.ts'
import type { Session } from '../session.ts'

/** The value of a row that only separates others. */
export const GAP = -1
/** The value of a cell whose content was there and is gone. */
export const GONE = -2
/** Of a label and of a row, in pixels. */
const LABEL = 14
const [LEAST_HEIGHT, MOST_HEIGHT] = [48, 264]
const MOST_TICKS = 8
/** How dark a cell is whose content is gone; as .scale .gone in style.css. */
const GONE_SHADE = 0.3

export interface MapData {
  title: string
  steps: number
  rows: number
  /** In 0..1, NaN where there is nothing, GAP between groups of rows, GONE where something was. */
  value(step: number, row: number): number
  textOf(step: number, row: number): string
  label(row: number): string
  hue: Hue | ((row: number) => Hue)
  /** What a cell of the least and of the largest value means, and an empty one. */
  legend: [least: string, most: string, none: string]
  /** What a cell means that is GONE; empty where a map has none. */
  gone?: string
}

export class StepMap {
  readonly element: HTMLElement
  private readonly session: Session
  private readonly canvas = el('canvas')
  private readonly cursor = el('div', { class: 'cursor' })
  private readonly veil = el('div', { class: 'veil' }, el('span', {}, 'not played yet'))
  private readonly frame: HTMLElement
  private readonly caption = el('figcaption')
  private readonly rows = el('div', { class: 'labels' })
  private readonly ticks = el('div', { class: 'ticks' })
  private readonly legend = el('p', { class: 'scale' })
  private data: MapData | null = null
  private shown = -1

  constructor(session: Session, inspect: (text: string) => void, seek: (step: number) => void) {
    this.session = session
    this.frame = el('div', { class: 'frame' }, this.canvas, this.veil, this.cursor)
    this.element = el('figure', { class: 'map' }, this.caption, el('div', { class: 'axes' }, this.rows, this.frame, el('span', { class: 'corner' }, 'step'), this.ticks), this.legend)
    this.frame.addEventListener('pointermove', (event) => {
      const place = this.placeOf(event)
      if (!place) return
      const hidden = !this.session.future && place.step > this.shown
      inspect(hidden ? `Step ${place.step + 1} is not played yet.` : (this.data?.textOf(place.step, place.row) ?? ''))
    })
    this.frame.addEventListener('pointerdown', (event) => {
      const place = this.placeOf(event)
      if (place) seek(place.step)
    })
  }

  draw(data: MapData): void {
    this.data = data
    write(this.caption, data.title)
    const { steps, rows } = data
    // A pixel a cell, made larger by the page: no drawing at all while the cursor moves.
    this.canvas.width = Math.max(1, steps)
    this.canvas.height = Math.max(1, rows)
    const context = this.canvas.getContext('2d')
    const seen = { none: false, gone: false }
    if (context) {
      const image = context.createImageData(this.canvas.width, this.canvas.height)
      for (let row = 0; row < rows; row++) {
        for (let step = 0; step < steps; step++) {
          const value = data.value(step, row)
          // Nothing is drawn where nothing is: the hatched ground is seen.
          if (Number.isNaN(value)) { seen.none = true; continue }
          if (value === GONE) seen.gone = true
          const own = typeof data.hue === 'string' ? data.hue : data.hue(row)
          const colour = value === GAP ? opaque(0.25, 'grey') : value === GONE ? opaque(GONE_SHADE, 'orange') : opaque(value, own)
          image.data.set(colour, 4 * (row * steps + step))
        }
      }
      context.putImageData(image, 0, 0)
    }
    const height = heightOf(rows)
    this.frame.style.height = `${height}px`
    this.cursor.style.width = `${100 / Math.max(1, steps)}%`
    this.rows.replaceChildren(...rowLabels(rows, height, data.label))
    const stride = strideOf(steps)
    const ticks = Array.from({ length: Math.ceil(steps / stride) }, (_, k) => k * stride)
    this.ticks.replaceChildren(...ticks.map((step) => {
      const tick = el('span', {}, String(step + 1))
      tick.style.left = `${(100 * (step + 0.5)) / steps}%`
      return tick
    }))
    const [least, most, none] = data.legend
    this.legend.replaceChildren(
      el('span', { class: 'ramp' }, least, el('i', { class: typeof data.hue === 'string' ? data.hue : 'grey' }), most),
      ...(seen.gone ? [el('span', { class: 'gone' }, el('i'), data.gone ?? '')] : []),
      ...(seen.none ? [el('span', { class: 'none' }, el('i'), none)] : []),
    )
  }

  show(step: number): void {
    if (!this.data) return
    this.shown = step
    this.cursor.style.transform = `translateX(${100 * step}%)`
    const share = (100 * (step + 1)) / Math.max(1, this.data.steps)
    this.veil.style.transform = this.session.future ? 'translateX(100%)' : `translateX(${share}%)`
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

export function heightOf(rows: number): number {
  return Math.max(LEAST_HEIGHT, Math.min(MOST_HEIGHT, rows * LABEL))
}

/** Labels of rows, as many as have room. */
export function rowLabels(rows: number, height: number, label: (row: number) => string): HTMLElement[] {
  const stride = Math.max(1, Math.ceil((LABEL * rows) / height))
  const labels: HTMLElement[] = []
  for (let row = 0; row < rows; row += stride) {
    const text = label(row)
    if (!text) continue
    const each = el('span', { title: text }, text)
    each.style.top = `${(100 * (row + 0.5)) / rows}%`
    labels.push(each)
  }
  return labels
}

/** The distance of the numbers below a map. */
export function strideOf(steps: number): number {
  let stride = 1
  for (let k = 0; Math.ceil(steps / stride) > MOST_TICKS; k++) stride *= k % 3 === 1 ? 2.5 : 2
  return stride
}

/** Groups of rows with a row between them, which is at no place of any group. */
export function groupedRows(groups: number, size: number): {
  count: number
  at<T>(row: number, between: T, found: (group: number, place: number) => T): T
} {
  return {
    count: groups * (size + 1) - 1,
    at: (row, between, found) => {
      const place = row % (size + 1)
      return place === size ? between : found(Math.floor(row / (size + 1)), place)
    },
  }
}
