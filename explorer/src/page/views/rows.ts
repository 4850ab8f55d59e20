// Stack, queue and deque: a column of items with their strengths, and the strengths over time.

import type { MemoryState } from '../../machine/memories/memory.ts'
import { el, short, write } from '../dom.ts'
import type { Session } from '../session.ts'
import { Lines } from './lines.ts'
import { GONE, StepMap } from './map.ts'
import type { View, ViewMaker } from './view.ts'

/** Rows of less strength are not drawn, and no more rows than these. */
const FAINT = 0.005
const MOST_ROWS = 24
const MOST_WORDS = 12

/** Which end of the rows stands on top of the column. */
const ENDS: Record<string, { first: string; last: string; newestFirst: boolean }> = {
  stack: { first: 'top', last: 'bottom', newestFirst: true },
  queue: { first: 'front', last: 'back', newestFirst: false },
  deque: { first: 'top', last: 'bottom', newestFirst: true },
}

export const rowsView: ViewMaker = (session, inspect, seek): View => {
  const kind = session.run.model.memory?.kind ?? 'stack'
  const ends = ENDS[kind]
  const list = new Lines(inspect, `items of the ${kind}, ${ends.first} first`, true)
  const more = el('p', { class: 'faint' })
  const legend = el('p', { class: 'legend' }, el('span', { class: 'of strength' }, 'strength'), el('span', { class: 'of read' }, 'read'))
  const map = new StepMap(session, inspect, seek)
  const element = el(
    'div', { class: 'memory' },
    el('div', { class: 'column' }, el('p', { class: 'rows-head', 'aria-hidden': 'true' }, el('span', {}, 'item'), el('span', {}, 'strength and read weight'), el('span', {}, 'strength')), el('p', { class: 'end' }, ends.first), list.element, more, el('p', { class: 'end' }, ends.last), legend),
    map.element,
  )
  const show = (step: number): void => {
    const state = session.steps[step]?.state.memory
    if (!state || !session.model.memory) return
    const weights = Object.values(session.model.memory.weights(state))
    const rows = strongRows(state, ends.newestFirst)
    const visible = rows.slice(0, MOST_ROWS)
    list.show(visible.map((row) => ({
      symbol: session.symbolAt(state.origins[row]),
      text: short(state.fields.strengths[row]),
      bars: [state.fields.strengths[row], Math.max(...weights.map((each) => each[row]))],
      textOf: () => rowText(session, state, row, weights),
    })))
    write(more, rows.length > visible.length ? `and ${rows.length - visible.length} more` : rows.length ? '' : 'empty')
    map.show(step)
  }

  const changed = (): void => {
    const { steps } = session
    const last = steps.at(-1)?.state.memory
    const count = last?.fields.strengths.length ?? 0
    const isDeque = kind === 'deque'
    const rowOf = (step: number, row: number): number => {
      const own = steps[step].state.memory!.fields.strengths.length
      // A deque grows on both sides: its rows are drawn around the middle.
      const place = isDeque ? row - (count - own) / 2 : row
      return place >= 0 && place < own ? place : -1
    }
    const strengthAt = (step: number, row: number): number => steps[step].state.memory!.fields.strengths[rowOf(step, row)]
    // Pops come before the push of a step, so that an item's first strength is that of its push.
    const pushedWith = (row: number): number => strengthAt(last!.origins[row], row)
    map.draw({
      title: `Strength of each item over time, by the step that pushed it`,
      steps: steps.length,
      rows: count,
      hue: 'blue',
      legend: ['strength 0', '1', 'not pushed'],
      gone: 'popped',
      label: (line) => {
        const origin = last?.origins[ends.newestFirst ? count - 1 - line : line] ?? -1
        return originText(session, origin)
      },
      value: (step, line) => {
        const row = ends.newestFirst ? count - 1 - line : line
        if (rowOf(step, row) < 0 || pushedWith(row) <= FAINT) return Number.NaN
        const strength = strengthAt(step, row)
        return strength <= FAINT ? GONE : strength
      },
      textOf: (step, line) => {
        const row = rowOf(step, ends.newestFirst ? count - 1 - line : line)
        const state = steps[step].state.memory!
        if (row < 0) return `Step ${step + 1}: this item is not pushed yet.`
        const weights = Object.values(session.model.memory!.weights(state))
        return `After step ${step + 1}: ${rowText(session, state, row, weights)}`
      },
    })
  }
  const words = (step: number): [string, string][] => {
    const state = session.steps[step]?.state.memory
    if (!state) return []
    const rows = strongRows(state, ends.newestFirst)
    const some = rows.slice(0, MOST_WORDS).map((row) => `${session.symbolAt(state.origins[row])} ${short(state.fields.strengths[row])}`)
    const rest = rows.length > some.length ? `, and ${rows.length - some.length} more` : ''
    return [[`items, ${ends.first} first`, rows.length ? some.join(', ') + rest : 'none']]
  }
  changed()
  return { element, show, changed, words }
}

/** The step that wrote a row, with its symbol where that is no part of the future. */
export function originText(session: Session, origin: number): string {
  if (origin < 0) return 'initial'
  return session.isGiven(origin) ? `${origin + 1} ${session.symbolAt(origin)}` : String(origin + 1)
}

function strongRows(state: MemoryState, newestFirst: boolean): number[] {
  const rows: number[] = []
  state.fields.strengths.forEach((strength, row) => {
    if (strength > FAINT) rows.push(row)
  })
  return newestFirst ? rows.reverse() : rows
}

function rowText(session: Session, state: MemoryState, row: number, weights: Float64Array[]): string {
  const origin = state.origins[row]
  const width = state.fields.values.length / state.fields.strengths.length
  const value = [...state.fields.values.subarray(row * width, row * width + Math.min(width, 6))]
  const rest = width > 6 ? ` … (${width} numbers)` : ''
  const read = weights.map((each) => short(each[row])).join(' and ')
  return (
    `${session.symbolAt(origin)}, pushed at step ${origin + 1}, strength ${short(state.fields.strengths[row])}, ` +
    `read with weight ${read}; value ${value.map(short).join(' ')}${rest}`
  )
}
