// Rows of numbers at one step as a picture: blue above 0, orange below.

import { shade } from '../colours.ts'
import { el, write } from '../dom.ts'
import { heightOf, rowLabels } from './map.ts'
import type { Inspect } from './view.ts'

export class NumberMap {
  readonly element: HTMLElement
  private readonly canvas: HTMLCanvasElement
  private readonly context: CanvasRenderingContext2D | null
  private readonly caption = el('figcaption')
  private readonly labels = el('div', { class: 'labels' })
  private image: ImageData | null = null
  private most = 1

  /** `textOf` tells of a number by its row and its place. */
  constructor(inspect: Inspect, label: string, textOf: (row: number, place: number) => string) {
    this.canvas = el('canvas', { role: 'img', 'aria-label': label })
    this.context = this.canvas.getContext('2d')
    this.element = el('figure', { class: 'cells-map' }, this.caption, el('div', { class: 'axes' }, this.labels, this.canvas))
    this.canvas.addEventListener('pointermove', (event) => {
      const box = this.canvas.getBoundingClientRect()
      const row = Math.floor(((event.clientY - box.top) / box.height) * this.canvas.height)
      const place = Math.floor(((event.clientX - box.left) / box.width) * this.canvas.width)
      if (this.image && row < this.canvas.height && place < this.canvas.width) inspect(textOf(row, place))
    })
  }

  /** The rows of all steps; `most` is the largest size of a number. */
  draw(title: string, rows: number, width: number, most: number, label: (row: number) => string): void {
    this.canvas.width = width
    this.canvas.height = rows
    this.most = Math.max(1e-6, most)
    this.image = this.context?.createImageData(width, rows) ?? null
    write(this.caption, title)
    const height = heightOf(rows)
    this.canvas.style.height = `${height}px`
    this.labels.replaceChildren(...rowLabels(rows, height, label))
  }

  /** The numbers of a step, row by row. */
  show(numbers: Float64Array): void {
    if (!this.context || !this.image) return
    numbers.forEach((value, at) => this.image!.data.set(shade(Math.abs(value) / this.most, value < 0 ? 'orange' : 'blue'), 4 * at))
    this.context.putImageData(this.image, 0, 0)
  }
}
