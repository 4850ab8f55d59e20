// Rolling tapes: the moves of each tape, and the cells around its head over time.

import { el, resized, short, write } from '../dom.ts'
import type { Hue } from '../colours.ts'
import { GAP, StepMap } from './map.ts'
import type { View, ViewMaker } from './view.ts'

/** Cells that are drawn on each side of the head. */
const SIDE = 8

/** The moves in the order of an action's weights; shape and colour both tell them apart. */
export const MOVES: { name: string; mark: string; hue: Hue }[] = [
  { name: 'STAY', mark: '•', hue: 'grey' },
  { name: 'NEXT', mark: '→', hue: 'blue' },
  { name: 'PREVIOUS', mark: '←', hue: 'blue' },
  { name: 'JUMP ON', mark: '⇥', hue: 'orange' },
  { name: 'JUMP BACK', mark: '⇤', hue: 'orange' },
]

export const rollingView: ViewMaker = (session, inspect, seek): View => {
  const { options } = session.run.model.memory!
  const [slots, width, tapes] = [Number(options.slots), Number(options.width), Number(options.tapes)]
  const side = Math.min(SIDE, Math.floor((slots - 1) / 2))
  const places = Array.from({ length: Math.min(slots, 2 * side + 1) }, (_, k) => k - side)
  const slotOf = (tape: number, place: number): number => tape * slots + ((place % slots) + slots) % slots
  const moves = new StepMap(session, inspect, seek)
  const cells = new StepMap(session, inspect, seek)
  const list = el('ol', { class: 'rows heads', 'aria-label': 'cells around the head' })
  const items: { element: HTMLElement; symbol: HTMLElement; held: HTMLElement; textOf: string }[] = []
  const element = el('div', { class: 'memory' }, el('div', { class: 'column' }, list), el('div', {}, cells.element, moves.element))

  const name = (tape: number): string => (tapes > 1 ? `tape ${tape + 1}, ` : '')
  const held = (step: number, tape: number, place: number): number[] => {
    const start = slotOf(tape, place) * width
    return [...session.steps[step].state.memory!.fields.cells.subarray(start, start + width)]
  }
  const size = (step: number, tape: number, place: number): number => Math.max(...held(step, tape, place).map(Math.abs))
  const textOf = (step: number, tape: number, place: number): string => {
    const origin = session.steps[step].state.memory!.origins[slotOf(tape, place)]
    const from = origin < 0 ? 'not written so far' : `mostly from step ${origin + 1} (input ${session.symbolAt(origin)})`
    const where = place === 0 ? 'under the head' : `${Math.abs(place)} ${place > 0 ? 'on' : 'back'}`
    return `After step ${step + 1}, ${name(tape)}cell ${where}: ${held(step, tape, place).slice(0, 4).map(short).join(' ')}; ${from}`
  }
  const itemAt = (k: number): (typeof items)[number] => {
    if (!items[k]) {
      const parts = { symbol: el('span', { class: 'symbol' }), held: el('span') }
      const tell = (): void => {
        item.element.setAttribute('aria-label', item.textOf)
        inspect(item.textOf)
      }
      const item = { element: el('li', { tabindex: 0, pointerenter: tell, focus: tell }, parts.symbol, parts.held), ...parts, textOf: '' }
      items[k] = item
    }
    return items[k]
  }
  const best = (step: number, tape: number): number => {
    const weights = session.steps[step].instruction!.action.subarray(tape * MOVES.length, (tape + 1) * MOVES.length)
    return weights.indexOf(Math.max(...weights))
  }

  const show = (step: number): void => {
    const state = session.steps[step]?.state.memory
    if (!state) return
    moves.show(step)
    cells.show(step)
    let shown = 0
    for (let tape = 0; tape < tapes; tape++) {
      for (const place of places) {
        const origin = state.origins[slotOf(tape, place)]
        if (origin < 0 && place !== 0) continue
        const item = itemAt(shown++)
        item.textOf = textOf(step, tape, place)
        write(item.symbol, `${tapes > 1 ? `${tape + 1}/` : ''}${place}: ${origin < 0 ? '' : session.symbolAt(origin)}`)
        const move = MOVES[best(step, tape)]
        write(item.held, place === 0 ? `◀ read; ${move.mark} ${move.name}` : short(size(step, tape, place)))
      }
    }
    resized(list, items.slice(0, shown).map((item) => item.element))
  }

  const changed = (): void => {
    const { steps } = session
    const rows = places.length
    const most = Math.max(1e-6, ...steps.map((_, step) => Math.max(...Array.from({ length: tapes }, (_, tape) => Math.max(...places.map((place) => size(step, tape, place)))))))
    cells.draw({
      title: `Largest number of each cell around the head, at most ${short(most)}`,
      steps: steps.length,
      rows: tapes * rows + tapes - 1,
      hue: 'blue',
      legend: ['0', short(most), ''],
      value: (step, row) => {
        const [tape, k] = [Math.floor(row / (rows + 1)), row % (rows + 1)]
        return k === rows ? GAP : size(step, tape, places[k]) / most
      },
      label: (row) => (row % (rows + 1) === rows ? '' : places[row % (rows + 1)] === 0 ? 'head' : String(places[row % (rows + 1)])),
      textOf: (step, row) => {
        const [tape, k] = [Math.floor(row / (rows + 1)), row % (rows + 1)]
        return k === rows ? '' : textOf(step, tape, places[k])
      },
    })
    const kinds = MOVES.length
    moves.draw({
      title: 'Weight of each move over time',
      steps: steps.length,
      rows: tapes * kinds + tapes - 1,
      hue: (row) => MOVES[row % (kinds + 1)]?.hue ?? 'grey',
      legend: ['weight 0', '1', ''],
      value: (step, row) => {
        const [tape, move] = [Math.floor(row / (kinds + 1)), row % (kinds + 1)]
        return move === kinds ? GAP : steps[step].instruction!.action[tape * kinds + move]
      },
      label: (row) => MOVES[row % (kinds + 1)]?.name ?? '',
      textOf: (step, row) => {
        const [tape, move] = [Math.floor(row / (kinds + 1)), row % (kinds + 1)]
        return move === kinds ? '' : `Step ${step + 1}, ${name(tape)}${MOVES[move].name} with weight ${short(steps[step].instruction!.action[tape * kinds + move])}`
      },
    })
  }
  const words = (step: number): [string, string][] =>
    Array.from({ length: tapes }, (_, tape): [string, string] => [
      tapes > 1 ? `tape ${tape + 1}` : 'tape',
      `${MOVES[best(step, tape)].name}; under the head: ${held(step, tape, 0).slice(0, 4).map(short).join(' ')}`,
    ])
  changed()
  return { element, show, changed, words }
}
