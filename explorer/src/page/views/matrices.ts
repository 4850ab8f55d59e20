// The matrices of a DeltaNet at a step, and how strongly each head writes over time.

import { layerHeads } from '../../machine/memories/memory.ts'
import { el, short } from '../dom.ts'
import { GAP, StepMap, groupedRows } from './map.ts'
import { NumberMap } from './numbers.ts'
import type { View, ViewMaker } from './view.ts'

export const matricesView: ViewMaker = (session, inspect, seek): View => {
  const data = session.run.model.memory!
  const [size, rules, heads] = [Number(data.options.head_size), Number(data.options.steps), Number(data.options.num_heads)]
  /** The largest strength of a step of the delta rule. */
  const strongest = data.options.negative_eigenvalues === true ? 2 : 1
  const names = layerHeads(data)
  const maps = names.map((name, head) => new NumberMap(inspect, `matrix of ${name}`, (key, value) => {
    const number = session.steps[current].state.memory!.fields.matrix[(head * size + key) * size + value]
    return `After step ${current + 1}, ${name}, key ${key + 1}, value ${value + 1}: ${short(number)}`
  }))
  const strengths = new StepMap(session, inspect, seek)
  const element = el('div', { class: 'memory' }, el('div', { class: 'column' }, strengths.element, el('p', { class: 'faint' }, 'Each row of a matrix is a place of the keys, each column a place of the values. Blue is above 0, orange below.')), el('div', { class: 'maps' }, ...maps.map((map) => map.element)))
  let current = 0

  const strengthOf = (step: number, head: number, rule: number): number => session.steps[step].instruction!.strength[head * rules + rule]
  const nameOf = (head: number, rule: number): string => (rules > 1 ? `${names[head]}, ${rule + 1} of ${rules}` : names[head])

  const show = (step: number): void => {
    current = step
    const state = session.steps[step]?.state.memory
    if (!state) return
    strengths.show(step)
    maps.forEach((map, head) => map.show(state.fields.matrix.subarray(head * size * size, (head + 1) * size * size)))
  }

  const changed = (): void => {
    const { steps } = session
    names.forEach((name, head) => {
      const own = steps.map(({ state }) => state.memory!.fields.matrix.subarray(head * size * size, (head + 1) * size * size))
      const most = Math.max(...own.map((matrix) => matrix.reduce((top, each) => Math.max(top, Math.abs(each)), 0)))
      maps[head].draw(`Matrix of ${name}, at most ${short(most)}`, size, size, most, (row) => `key ${row + 1}`)
    })
    const rows = groupedRows(names.length / heads, heads * rules)
    strengths.draw({
      title: `Strength of each write over time, at most ${strongest}; a group of rows for each layer`,
      steps: steps.length,
      rows: rows.count,
      hue: 'orange',
      legend: ['0', String(strongest), ''],
      value: (step, row) => rows.at(row, GAP, (layer, k) => strengthOf(step, layer * heads + Math.floor(k / rules), k % rules) / strongest),
      label: (row) => rows.at(row, '', (_, k) => (k % rules === 0 ? `head ${k / rules + 1}` : '')),
      textOf: (step, row) => rows.at(row, '', (layer, k) => {
        const [head, rule] = [layer * heads + Math.floor(k / rules), k % rules]
        return `Step ${step + 1}, ${nameOf(head, rule)}: strength ${short(strengthOf(step, head, rule))}`
      }),
    })
  }
  const words = (step: number): [string, string][] => names.map((name, head) => [
    name, `strength ${Array.from({ length: rules }, (_, rule) => short(strengthOf(step, head, rule))).join(', ')}`,
  ])
  changed()
  return { element, show, changed, words }
}
