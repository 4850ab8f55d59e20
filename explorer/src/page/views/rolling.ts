// Rolling tapes: the moves of each tape, and the cells around its head over time.

import { el, short } from '../dom.ts'
import type { Hue } from '../colours.ts'
import { type Line, Lines } from './lines.ts'
import { GAP, StepMap, groupedRows } from './map.ts'
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
  const list = new Lines(inspect, 'cells around the head', false)
  const element = el('div', { class: 'memory' }, el('div', { class: 'column' }, list.element), el('div', {}, cells.element, moves.element))

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
  const best = (step: number, tape: number): number => {
    const weights = session.steps[step].instruction!.action.subarray(tape * MOVES.length, (tape + 1) * MOVES.length)
    return weights.indexOf(Math.max(...weights))
  }

  const show = (step: number): void => {
    const state = session.steps[step]?.state.memory
    if (!state) return
    moves.show(step)
    cells.show(step)
    const lines: Line[] = []
    for (let tape = 0; tape < tapes; tape++) {
      const move = MOVES[best(step, tape)]
      for (const place of places) {
        const origin = state.origins[slotOf(tape, place)]
        if (origin < 0 && place !== 0) continue
        lines.push({
          symbol: `${tapes > 1 ? `${tape + 1}/` : ''}${place}: ${origin < 0 ? '' : session.symbolAt(origin)}`,
          text: place === 0 ? `◀ read; ${move.mark} ${move.name}` : short(size(step, tape, place)),
          textOf: () => textOf(step, tape, place),
        })
      }
    }
    list.show(lines)
  }

  const changed = (): void => {
    const { steps } = session
    const most = Math.max(1e-6, ...steps.map((_, step) => Math.max(...Array.from({ length: tapes }, (_, tape) => Math.max(...places.map((place) => size(step, tape, place)))))))
    const cellRows = groupedRows(tapes, places.length)
    cells.draw({
      title: `Largest number of each cell around the head, at most ${short(most)}`,
      steps: steps.length,
      rows: cellRows.count,
      hue: 'blue',
      legend: ['0', short(most), ''],
      value: (step, row) => cellRows.at(row, GAP, (tape, k) => size(step, tape, places[k]) / most),
      label: (row) => cellRows.at(row, '', (_, k) => (places[k] === 0 ? 'head' : String(places[k]))),
      textOf: (step, row) => cellRows.at(row, '', (tape, k) => textOf(step, tape, places[k])),
    })
    const moveRows = groupedRows(tapes, MOVES.length)
    const weight = (step: number, tape: number, move: number): number => steps[step].instruction!.action[tape * MOVES.length + move]
    moves.draw({
      title: 'Weight of each move over time',
      steps: steps.length,
      rows: moveRows.count,
      hue: (row) => moveRows.at<Hue>(row, 'grey', (_, move) => MOVES[move].hue),
      legend: ['weight 0', '1', ''],
      value: (step, row) => moveRows.at(row, GAP, (tape, move) => weight(step, tape, move)),
      label: (row) => moveRows.at(row, '', (_, move) => MOVES[move].name),
      textOf: (step, row) => moveRows.at(row, '', (tape, move) => `Step ${step + 1}, ${name(tape)}${MOVES[move].name} with weight ${short(weight(step, tape, move))}`),
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
