// Superposition stacks and lists: what each does, coloured by its action, and its cells.

import { el, resized, short, write } from '../dom.ts'
import type { Hue } from '../colours.ts'
import type { Session } from '../session.ts'
import { emptyOf, widthOf } from '../../machine/memories/superposition.ts'
import { GAP, StepMap, groupedRows } from './map.ts'
import type { View, ViewMaker } from './view.ts'

/** Cells that are drawn of a stack, and on each side of a list's HEAD. */
const MOST_CELLS = 12

interface ActionStyle {
  name: string
  mark: string
  hue: Hue
}

/** The actions by the kind of memory; shape and colour both tell them apart. */
export const ACTIONS: Record<string, ActionStyle[]> = {
  superposition_stack: [
    { name: 'PUSH', mark: '▼', hue: 'blue' },
    { name: 'POP', mark: '▲', hue: 'orange' },
    { name: 'NO-OP', mark: '•', hue: 'grey' },
  ],
  superposition_list: [
    { name: 'RIGHT', mark: '→', hue: 'orange' },
    { name: 'LEFT', mark: '←', hue: 'orange' },
    { name: 'INSERT', mark: '▼', hue: 'blue' },
    { name: 'NO-OP', mark: '•', hue: 'grey' },
  ],
}

export const superpositionView: ViewMaker = (session, inspect, seek): View => {
  const { kind, heads } = session.run.model.memory!
  const [count, actions] = heads[0].shape
  const styles = ACTIONS[kind].slice(0, actions)
  const isList = kind === 'superposition_list'
  const what = isList ? 'list' : 'stack'
  const map = new StepMap(session, inspect, seek)
  const columns = Array.from({ length: count }, (_, place) => new Column(session, place, styles, isList, inspect))
  const element = el(
    'div', { class: 'memory' },
    el('div', {}, el('div', { class: 'structures' }, ...columns.map((column) => column.element)), el('p', { class: 'scale' }, el('span', { class: 'none' }, el('i'), `empty cell, never written; it counts as ${short(emptyOf(session.run.model.memory!))}`))),
    map.element,
  )
  const show = (step: number): void => {
    for (const column of columns) column.show(step)
    map.show(step)
  }
  const changed = (): void => {
    const { steps } = session
    const rows = groupedRows(count, actions)
    const weight = (step: number, place: number, action: number): number => steps[step].instruction!.action[place * actions + action]
    map.draw({
      title: `Weight of each action over time, ${what} by ${what}`,
      steps: steps.length,
      rows: rows.count,
      hue: (row) => rows.at<Hue>(row, 'grey', (_, action) => styles[action].hue),
      value: (step, row) => rows.at(row, GAP, (place, action) => weight(step, place, action)),
      legend: ['weight 0', '1', ''],
      label: (row) => rows.at(row, '', (place, action) => `${count > 1 ? `${place + 1} ` : ''}${styles[action].name}`),
      textOf: (step, row) => rows.at(row, '', (place, action) => `Step ${step + 1}, ${what} ${place + 1}: ${styles[action].name} to ${short(weight(step, place, action))}`),
    })
  }
  const words = (step: number): [string, string][] =>
    columns.map((column, place) => [`${what} ${place + 1}`, column.words(step)])
  changed()
  return { element, show, changed, words }
}

class Column {
  readonly element: HTMLElement
  private readonly session: Session
  private readonly place: number
  private readonly styles: ActionStyle[]
  private readonly isList: boolean
  /** What an empty cell holds. */
  private readonly empty: number
  /** Numbers in a cell. */
  private readonly width: number
  private readonly inspect: (text: string) => void
  private readonly action = el('p', { class: 'action' })
  private hue: Hue | null = null
  private readonly list: HTMLElement
  private readonly cells: HTMLElement[] = []
  private readonly textOf: (() => string)[] = []
  private readonly looks: string[] = []

  constructor(session: Session, place: number, styles: ActionStyle[], isList: boolean, inspect: (text: string) => void) {
    this.session = session
    this.place = place
    this.styles = styles
    this.isList = isList
    this.empty = emptyOf(session.run.model.memory!)
    this.width = widthOf(session.run.model.memory!)
    this.inspect = inspect
    const name = `${isList ? 'list' : 'stack'} ${place + 1}`
    this.list = el('ol', { class: 'cells', 'aria-label': `cells of ${name}` })
    this.element = el('div', { class: 'structure' }, el('p', { class: 'end' }, name), this.action, this.list)
  }

  show(step: number): void {
    const { steps, run } = this.session
    const { instruction, state } = steps[step] ?? {}
    if (!instruction || !state?.memory) return
    const [count, actions] = run.model.memory!.heads[0].shape
    const weights = instruction.action.subarray(this.place * actions, (this.place + 1) * actions)
    const best = weights.indexOf(Math.max(...weights))
    const style = this.styles[best]
    if (this.hue !== style.hue) this.action.className = `action ${style.hue}`
    this.hue = style.hue
    const weight = weights[best] >= 0.995 ? '' : ` ${short(weights[best])}`
    write(this.action, `${style.mark} ${style.name}${weight}`)
    const cells = this.cellsOf(state.memory.fields.cells, count)
    const size = cells.length
    const origins = state.memory.origins.subarray(this.place * size, (this.place + 1) * size)
    const head = (size - 1) / 2
    const first = this.isList ? Math.max(0, head - MOST_CELLS / 2) : 0
    const places = Array.from({ length: Math.min(this.isList ? MOST_CELLS + 1 : MOST_CELLS, size - first) }, (_, k) => first + k)
    const drawn = places.map((i, k) => this.cell(k, cells[i], origins[i], i, this.isList && i === head))
    resized(this.list, drawn)
  }

  /** Its action, and its cells from the top or HEAD on. */
  words(step: number): string {
    const { steps, run } = this.session
    const { instruction, state } = steps[step] ?? {}
    if (!instruction || !state?.memory) return ''
    const [count, actions] = run.model.memory!.heads[0].shape
    const weights = this.styles.map((style, action) => `${style.name} ${short(instruction.action[this.place * actions + action])}`)
    const own = this.cellsOf(state.memory.fields.cells, count)
    // What is read of a list are HEAD and the cells on its left.
    const cells = this.isList ? own.slice(0, (own.length + 1) / 2).reverse() : own
    const where = this.isList ? 'HEAD and left of it' : 'from the top'
    return `${weights.join(', ')}; ${where}: ${cells.slice(0, 4).map((each) => (this.isEmpty(each) ? 'empty' : this.text(each))).join(this.width > 1 ? ' | ' : ' ')}`
  }

  /** The cells of this structure, each with its numbers. */
  private cellsOf(cells: ArrayLike<number>, count: number): number[][] {
    const size = cells.length / count / this.width
    const start = this.place * size
    return Array.from({ length: size }, (_, i) => Array.from({ length: this.width }, (_, k) => cells[(start + i) * this.width + k]))
  }

  private isEmpty(cell: number[]): boolean {
    return cell.every((each) => Math.abs(each - this.empty) < 1e-9)
  }

  /** The first numbers of a cell. */
  private text(cell: number[]): string {
    return `${cell.slice(0, 4).map(short).join(' ')}${cell.length > 4 ? ' …' : ''}`
  }

  private cell(k: number, value: number[], origin: number, i: number, isHead: boolean): HTMLElement {
    if (!this.cells[k]) {
      const cell = el('li', { tabindex: 0 })
      const tell = (): void => {
        const textOf = this.textOf[k]()
        cell.setAttribute('aria-label', textOf)
        this.inspect(textOf)
      }
      cell.addEventListener('pointerenter', tell)
      cell.addEventListener('focus', tell)
      this.cells[k] = cell
    }
    const cell = this.cells[k]
    // A written value may be as near to what an empty cell holds.
    const isEmpty = origin < 0 && this.isEmpty(value)
    write(cell, isEmpty ? '' : this.text(value))
    cell.classList.toggle('empty', isEmpty)
    cell.dataset.place = this.isList && isHead ? 'HEAD' : String(i)
    // A vector is as dark as its largest number.
    const share = isEmpty ? '0' : Math.max(0, Math.min(1, this.width > 1 ? Math.max(...value.map(Math.abs)) : value[0])).toFixed(2)
    if (this.looks[k] !== share) {
      this.looks[k] = share
      cell.style.setProperty('--share', share)
    }
    if (this.isList) cell.classList.toggle('head', isHead)
    this.textOf[k] = () => {
      if (isEmpty) return `Cell ${i}: empty, counts as ${short(this.empty)}`
      const from = origin < 0 ? 'initial' : `mostly from step ${origin + 1} (input ${this.session.symbolAt(origin)})`
      return `Cell ${i}: ${this.text(value)}, ${from}${isHead ? '; HEAD is here' : ''}`
    }
    return cell
  }
}
