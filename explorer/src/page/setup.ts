// The run, a second run to compare with, and the input.

import type { PageData } from '../data.ts'
import { MOST_SYMBOLS, mostSymbols } from '../machine/plan.ts'
import type { Moment } from './address.ts'
import { el, shown } from './dom.ts'

export interface Wishes {
  run(place: number): void
  second(place: number | null): void
  type(text: string): void
  draw(length: number): void
  sample(place: number): void
}

export class Setup {
  readonly element: HTMLElement
  private readonly data: PageData
  private readonly run = el('select')
  private readonly second = el('select')
  private readonly input = el('input', { type: 'text', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', maxlength: 20 * MOST_SYMBOLS })
  private readonly length = el('input', { type: 'number', min: 1 })
  private readonly samples = el('select')
  private readonly typing: HTMLElement
  private shownRun = -1

  constructor(data: PageData, wishes: Wishes) {
    this.data = data
    const titles = data.runs.map((run, place) => el('option', { value: place }, run.title))
    this.run.append(...titles)
    this.second.append(el('option', { value: '' }, 'no second run'), ...titles.map((title) => title.cloneNode(true)))
    this.run.addEventListener('change', () => wishes.run(Number(this.run.value)))
    this.second.addEventListener('change', () => wishes.second(this.second.value === '' ? null : Number(this.second.value)))
    this.samples.addEventListener('change', () => this.samples.value !== '' && wishes.sample(Number(this.samples.value)))
    const form = el('form', { class: 'typing' }, el('label', {}, 'Input', this.input), el('button', {}, 'Use this input'))
    form.addEventListener('submit', (event) => { event.preventDefault(); wishes.type(this.input.value) })
    this.typing = form
    const draw = el('form', { class: 'drawing' }, el('label', {}, 'Length', this.length), el('button', {}, 'Draw an input'))
    draw.addEventListener('submit', (event) => {
      event.preventDefault()
      const length = Math.min(Number(this.length.max), Math.max(1, Math.round(Number(this.length.value)) || 1))
      this.length.value = String(length)
      wishes.draw(length)
    })
    const runs = el('div', { class: 'runs' }, el('label', {}, 'Run', this.run), el('label', {}, 'Compare with', this.second))
    shown(runs, data.runs.length > 1)
    this.element = el('div', { class: 'setup' }, runs, form, draw, el('label', {}, 'Sample', this.samples))
  }

  show(moment: Moment, typed: string): void {
    const { task, samples, model } = this.data.runs[moment.run]
    this.run.value = String(moment.run)
    this.second.value = moment.second === null ? '' : String(moment.second)
    if (this.shownRun !== moment.run) {
      this.shownRun = moment.run
      this.length.max = String(mostSymbols(model.memory))
      this.length.value = String(Math.min(task.lengths[1], Math.max(task.lengths[0], 8)))
      const names = samples.map((sample, place) => el('option', { value: place }, `${place + 1}: ${sample.inputs.length} steps`))
      this.samples.replaceChildren(el('option', { value: '' }, 'typed'), ...names)
      shown(this.typing, task.typed)
    }
    this.samples.value = moment.typed === null ? String(moment.sample) : ''
    if (typed) this.input.value = typed
  }
}
